//! How fields make one key, and a key its hash.
//!
//! The fields are joined by tabs; a tab within a field becomes `\t` and a backslash `\\`. So different tuples never
//! give the same key, and the key reads as a person would write it. The key of one field is the field as it is.

use crate::batch::{Span, resolve};
use keyhash::{KeyHash, KeyHasher};
use memchr::memchr2_iter;

/// What of a key is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// Its text: of an integer the decimal digits.
    #[default]
    Text,
    /// Of an integer the number itself, as [`KeyHasher::hash_u64`] takes it, so that a program which hashes numbers and a file that has
    /// their digits, or a column of Parquet that has them, fill one store; of any other key its text.
    ///
    /// An integer is a key of one field that is written as [`i64`] or [`u64`] are: decimal digits, a minus for those below zero, no plus,
    /// no zeros in front. Those below zero are taken in two's complement, so -1 and 2^64 - 1 are one key, as in a program that casts them.
    Numbers,
}

impl KeyForm {
    /// What it makes of an integer, in words.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            KeyForm::Text => "their text",
            KeyForm::Numbers => "the numbers of integers",
        }
    }

    /// The hash of a key in this form: what [`crate::Parser`] gives.
    ///
    /// ```
    /// use keyhash::{HashKind, KeyHasher, Seed};
    /// use overbank_ingest::KeyForm;
    /// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    /// assert_eq!(KeyForm::Text.hash(&hasher, b"42"), hasher.hash(b"42"));
    /// assert_eq!(KeyForm::Numbers.hash(&hasher, b"42"), hasher.hash_u64(42));
    /// assert_eq!(KeyForm::Numbers.hash(&hasher, b"-1"), hasher.hash_u64(u64::MAX));
    /// assert_eq!(KeyForm::Numbers.hash(&hasher, b"042"), hasher.hash(b"042"));
    /// ```
    #[inline]
    pub fn hash(self, hasher: &KeyHasher, key: &[u8]) -> KeyHash {
        match self {
            Self::Text => hasher.hash(key),
            Self::Numbers => integer(key).map_or_else(|| hasher.hash(key), |number| hasher.hash_u64(number)),
        }
    }
}

/// The integer that a key is the digits of, one below zero in two's complement.
fn integer(key: &[u8]) -> Option<u64> {
    let (is_negative, digits) = match key {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        // Nothing else begins with a zero, and there is no minus zero.
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 20 => {}
        _ => return None,
    }
    let value = digits.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    match is_negative {
        false => Some(value),
        true => (value <= i64::MIN.unsigned_abs()).then(|| value.wrapping_neg()),
    }
}

/// The key of a row with these key fields, as a batch has it: for queries.
///
/// ```
/// assert_eq!(overbank_ingest::join_key(&[b"GET", b"/index"]), b"GET\t/index");
/// assert_eq!(overbank_ingest::join_key(&[b"a\tb", b"c"]), b"a\\tb\tc");
/// assert_eq!(overbank_ingest::join_key(&[b"a\tb"]), b"a\tb");
/// ```
pub fn join_key(fields: &[&[u8]]) -> Vec<u8> {
    if let [field] = fields {
        return field.to_vec();
    }
    let mut key = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            key.push(b'\t');
        }
        append_field(Span::text(0, field.len()), field, &mut key);
    }
    key
}

/// Appends a field to the arena that it may lie in itself.
pub(crate) fn append_field(field: Span, text: &[u8], arena: &mut Vec<u8>) {
    let plain = {
        let bytes = resolve(field, text, arena);
        memchr2_iter(b'\t', b'\\', bytes).next().is_none()
    };
    match (plain, field.arena_range()) {
        (true, Some(range)) => arena.extend_from_within(range),
        (true, None) => arena.extend_from_slice(resolve(field, text, &[])),
        (false, _) => {
            let bytes = resolve(field, text, arena).to_vec();
            for byte in bytes {
                match byte {
                    b'\t' => arena.extend(b"\\t"),
                    b'\\' => arena.extend(b"\\\\"),
                    _ => arena.push(byte),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::integer;
    use proptest::prelude::*;

    #[test]
    fn only_what_the_types_write_is_an_integer() {
        let ends = ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615"];
        let numbers = [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64, u64::MAX];
        for (text, number) in ends.iter().zip(numbers) {
            assert_eq!(integer(text.as_bytes()), Some(number), "{text}");
        }
        let others = [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "1_000",
            "٣",
            "0x1",
            "--1",
            "18446744073709551616",
            "-9223372036854775809",
            "99999999999999999999",
            "100000000000000000000",
        ];
        for text in others {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_integer_is_the_number_that_its_text_is(number: u64, signed: i64, text in "[-+0-9 .]{0,22}") {
            prop_assert_eq!(integer(number.to_string().as_bytes()), Some(number));
            prop_assert_eq!(integer(signed.to_string().as_bytes()), Some(signed as u64));
            if let Some(found) = integer(text.as_bytes()) {
                prop_assert!(found.to_string() == text || (found as i64).to_string() == text);
            }
        }
    }
}
