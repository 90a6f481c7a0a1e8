//! Keys in as few bits a byte as the bytes that occur in a leaf need.
//!
//! ```text
//!   bytes that occur   A C G T          codes 0 1 2 3, in the order of the bytes: 2 bits each
//!   key                G A T C A        2 | 0 << 2 | 3 << 4 | 1 << 6 | 0 << 8
//! ```
//!
//! With more than 128 different bytes, a code is the byte.

use super::code_bits::{CodeBits, word_at};

/// What no byte has as its code.
const NO_CODE: u8 = u8::MAX;

/// The bytes that keys are made of, and their codes.
#[derive(Clone, Debug)]
pub(super) struct Alphabet {
    occurs: [u64; 4],
    code_bits: u32,
    /// Codes that are packed, unpacked and compared at a time.
    at_once: usize,
    /// The bit of [`NO_CODE`] that no code has; none where every byte has its code.
    unknown: u8,
    codes: [u8; 256],
    bytes: [u8; 256],
}

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) fn insert_all(&mut self, key: &[u8]) {
        for &byte in key {
            self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    }

    /// A bit for each byte, that of byte 0 first.
    pub(super) fn words(self) -> [u64; 4] {
        self.0
    }

    /// What [`ByteSet::words`] gave.
    pub(super) fn of_words(words: [u64; 4]) -> ByteSet {
        ByteSet(words)
    }

    pub(super) fn joined(self, other: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Bits of the code of one of its bytes.
    pub(super) fn code_bits(self) -> u32 {
        let count: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        (u32::BITS - count.saturating_sub(1).leading_zeros()).max(1)
    }
}

impl Alphabet {
    /// Of keys without bytes.
    pub(super) fn empty() -> Alphabet {
        Alphabet::of([0; 4])
    }

    /// Of keys made of these bytes.
    pub(super) fn of_set(set: ByteSet) -> Alphabet {
        Alphabet::of(set.0)
    }

    /// Of any bytes: a code is the byte.
    pub(super) fn of_all() -> Alphabet {
        Alphabet::of([u64::MAX; 4])
    }

    fn of(occurs: [u64; 4]) -> Alphabet {
        let (mut codes, mut bytes, mut count) = ([NO_CODE; 256], [0; 256], 0usize);
        for byte in 0..=u8::MAX {
            if occurs[usize::from(byte / 64)] >> (byte % 64) & 1 == 1 {
                codes[usize::from(byte)] = count as u8;
                bytes[count] = byte;
                count += 1;
            }
        }
        let code_bits = ByteSet(occurs).code_bits();
        if code_bits == 8 {
            bytes = std::array::from_fn(|i| i as u8);
            codes = bytes;
        }
        let unknown = if code_bits == 8 { 0 } else { 1 << 7 };
        Alphabet { occurs, code_bits, at_once: (u64::BITS / code_bits) as usize, unknown, codes, bytes }
    }

    /// This alphabet with more bytes; `None` if it has them.
    pub(super) fn with(&self, more: ByteSet) -> Option<Alphabet> {
        let occurs = std::array::from_fn(|i| self.occurs[i] | more.0[i]);
        (occurs != self.occurs && self.code_bits < 8).then(|| Alphabet::of(occurs))
    }

    /// Bits of a code.
    #[inline]
    pub(super) fn code_bits(&self) -> u32 {
        self.code_bits
    }

    /// The codes of at most `at_once` bytes in one word; `None` where a byte has none.
    #[inline(always)]
    fn word_of(&self, chunk: &[u8]) -> Option<u64> {
        let (mut word, mut worst) = (0u64, 0);
        let mut add = |byte: u8| {
            let code = self.codes[usize::from(byte)];
            worst |= code;
            word = word.wrapping_shl(self.code_bits) | u64::from(code);
        };
        // From the last byte on: eight at a time, so that there is a loop for a few alone.
        let (eights, rest) = chunk.as_chunks::<8>();
        rest.iter().rev().for_each(|&byte| add(byte));
        for eight in eights.iter().rev() {
            eight.iter().rev().for_each(|&byte| add(byte));
        }
        (worst & self.unknown == 0).then_some(word)
    }

    /// Whether the codes of at most `at_once` bytes are those at bit `at` of `packed`.
    #[inline(always)]
    fn matches_word(&self, chunk: &[u8], packed: &[u8], at: usize) -> bool {
        let bits = (chunk.len() as u32).wrapping_mul(self.code_bits);
        self.word_of(chunk).is_some_and(|word| {
            // The bits above are those of the next key.
            bits == 0 || (word_at(packed, at) ^ word).wrapping_shl(bits.wrapping_neg()) == 0
        })
    }

    /// Whether all bytes of `key` have codes.
    #[inline]
    pub(super) fn has_all(&self, key: &[u8]) -> bool {
        let worst = key.iter().fold(0, |worst, &byte| worst | self.codes[usize::from(byte)]);
        worst & self.unknown == 0
    }

    /// Appends the codes of `key`, whose bytes all have one.
    #[inline]
    pub(super) fn pack(&self, key: &[u8], into: &mut CodeBits) {
        for chunk in key.chunks(self.at_once) {
            if let Some(word) = self.word_of(chunk) {
                into.push(word, (chunk.len() as u32).wrapping_mul(self.code_bits));
            }
        }
    }

    /// Appends the `symbols` bytes whose codes are at bit `at` of `packed`.
    pub(super) fn unpack(&self, packed: &[u8], at: usize, symbols: usize, into: &mut Vec<u8>) {
        let bits = self.code_bits;
        let mask = (1u64 << bits) - 1;
        let (mut at, mut left) = (at, symbols);
        while left > 0 {
            let now = left.min(self.at_once);
            let mut word = word_at(packed, at);
            let mut chunk = [0; u64::BITS as usize];
            for byte in &mut chunk[..now] {
                *byte = self.bytes[(word & mask) as usize];
                word = word.wrapping_shr(bits);
            }
            into.extend_from_slice(&chunk[..now]);
            at += now * bits as usize;
            left -= now;
        }
    }

    /// Whether the codes at bit `at` of `packed` are those of `key`.
    #[inline]
    pub(super) fn matches(&self, key: &[u8], packed: &[u8], at: usize) -> bool {
        if key.len() <= self.at_once {
            self.matches_word(key, packed, at)
        } else {
            self.matches_long(key, packed, at)
        }
    }

    /// As [`Alphabet::matches`], for keys of lengths that are as good as random: keys of 8 to 16 bytes take the same way.
    #[inline(always)]
    pub(super) fn matches_of_any_length(&self, key: &[u8], packed: &[u8], at: usize) -> bool {
        // Eight bytes at a time, the last eight again with some of those before.
        let Some((last, at_last)) = key.last_chunk::<8>().zip(key.len().checked_sub(8)) else {
            return self.matches_short(key, packed, at);
        };
        let at_of = |byte: usize| at.wrapping_add(byte.wrapping_mul(self.code_bits as usize));
        let mut others = key.as_chunks::<8>().0[..at_last.div_ceil(8)].iter().zip((0..).step_by(8));
        others.all(|(chunk, byte)| self.matches_array(chunk, packed, at_of(byte)))
            && self.matches_array(last, packed, at_of(at_last))
    }

    /// As [`Alphabet::matches`], for keys of fewer than 8 bytes.
    #[inline(always)]
    fn matches_short(&self, key: &[u8], packed: &[u8], at: usize) -> bool {
        match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                let at_last = key.len().wrapping_sub(4).wrapping_mul(self.code_bits as usize);
                self.matches_array(first, packed, at)
                    && self.matches_array(last, packed, at.wrapping_add(at_last))
            }
            _ => self.matches_word(key, packed, at),
        }
    }

    /// As [`Alphabet::matches`], for `N` bytes, 1 to 8.
    #[inline(always)]
    fn matches_array<const N: usize>(&self, bytes: &[u8; N], packed: &[u8], at: usize) -> bool {
        let (mut word, mut worst) = (0u64, 0);
        for &byte in bytes.iter().rev() {
            let code = self.codes[usize::from(byte)];
            worst |= code;
            word = word.wrapping_shl(self.code_bits) | u64::from(code);
        }
        let above = (N as u32).wrapping_mul(self.code_bits).wrapping_neg();
        worst & self.unknown == 0 && (word_at(packed, at) ^ word).wrapping_shl(above) == 0
    }

    #[inline(never)]
    fn matches_long(&self, key: &[u8], packed: &[u8], at: usize) -> bool {
        let step = self.at_once.wrapping_mul(self.code_bits as usize);
        let mut chunks = key.chunks(self.at_once).enumerate();
        chunks.all(|(i, chunk)| self.matches_word(chunk, packed, at.wrapping_add(i.wrapping_mul(step))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alphabet_of(keys: &[Vec<u8>]) -> Alphabet {
        let mut set = ByteSet::default();
        keys.iter().for_each(|key| set.insert_all(key));
        Alphabet::empty().with(set).unwrap_or_else(Alphabet::empty)
    }

    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        (1u8..=255, any::<u8>()).prop_flat_map(|(width, first)| {
            let byte = (0..width).prop_map(move |step| first.wrapping_add(step));
            prop::collection::vec(prop::collection::vec(byte, 0..40), 1..20)
        })
    }

    proptest! {
        #[test]
        fn keys_come_back_and_match_themselves_alone(keys in keys(), begin in 0usize..20, other: Vec<u8>) {
            let alphabet = alphabet_of(&keys);
            let bits = alphabet.code_bits() as usize;
            let mut gathered = CodeBits::default();
            gathered.push_from(&[0; 20], 0, begin);
            keys.iter().for_each(|key| alphabet.pack(key, &mut gathered));
            let mut packed = vec![0; gathered.len().div_ceil(8)];
            gathered.write(&mut packed);
            let mut at = begin;
            for key in &keys {
                let mut back = Vec::new();
                alphabet.unpack(&packed, at, key.len(), &mut back);
                prop_assert_eq!(&back, key);
                for probe in keys.iter().chain([&other]).filter(|probe| probe.len() == key.len()) {
                    prop_assert_eq!(alphabet.matches(probe, &packed, at), probe == key);
                    prop_assert_eq!(alphabet.matches_of_any_length(probe, &packed, at), probe == key);
                }
                at += key.len() * bits;
            }
        }
    }

    #[test]
    fn dna_takes_two_bits() {
        let alphabet = alphabet_of(&[b"GATTACA".to_vec()]);
        assert_eq!(alphabet.code_bits(), 2);
        assert_eq!(alphabet_of(&[(0..=128).collect()]).code_bits(), 8);
        assert_eq!(alphabet_of(&[(0..128).collect()]).code_bits(), 7);
    }
}
