//! Fields of one width, back to back, 64 at a time.
//!
//! ```text
//!   bit 0         W          2 W                      field i at bit i × W, least significant bit first
//!   ├─ field 0 ───┼─ field 1 ─┼ …  64 fields are W words, so each group starts on a word
//! ```
//!
//! 1. Bits past the last field, up to the end of its byte, are zero.
//!
//! | cost | CPU |
//! |---|---|
//! | both ways | one loop a width, with shifts known when it was compiled: about a cycle a field |

use super::word::low_mask;

/// Fields in a group.
const GROUP: usize = 64;

/// Bytes of `fields` fields of `width` bits.
pub(crate) const fn field_bytes(width: u32, fields: usize) -> usize {
    (fields * width as usize).div_ceil(8)
}

macro_rules! by_width {
    ($width:expr, $($call:tt)*) => {
        by_width!(@ $width, ($($call)*),
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64)
    };
    (@ $width:expr, ($function:ident $arguments:tt, $zero:expr), $($w:literal)*) => {
        match $width {
            $($w => $function::<$w> $arguments,)*
            _ => $zero,
        }
    };
}

/// Reads `out.len()` fields of `width` bits, at most 64, from the front of `bytes`.
///
/// # Panics
/// When `bytes` is shorter than [`field_bytes`].
pub(crate) fn unpack_fields(width: u32, bytes: &[u8], out: &mut [u64]) {
    by_width!(width, unpack_all(bytes, out), out.fill(0));
}

/// Writes the lowest `width` bits, at most 64, of each value less `base` to the front of `into`.
///
/// # Panics
/// When `into` is shorter than [`field_bytes`].
pub(crate) fn pack_fields(width: u32, base: u64, values: &[u64], into: &mut [u8]) {
    by_width!(width, pack_all(base, values, into), ());
}

/// Field `i` of `width` bits, at most 64; bytes past the end read as zeros.
#[inline]
pub(crate) fn field(width: u32, bytes: &[u8], i: usize) -> u64 {
    let bit = i * width as usize;
    let rest = bytes.get(bit / 8..).unwrap_or_default();
    let word = match rest.first_chunk::<16>() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte)),
    };
    (word >> (bit % 8)) as u64 & low_mask(width)
}

fn unpack_all<const W: usize>(bytes: &[u8], out: &mut [u64]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (whole, tail) = bytes.split_at(groups.len() * 8 * W);
    for (group, bytes) in groups.iter_mut().zip(whole.chunks_exact(8 * W)) {
        unpack_group::<W>(bytes, group);
    }
    if !rest.is_empty() {
        let (mut group, mut padded) = ([0; GROUP], [0; 8 * GROUP]);
        let bytes = field_bytes(W as u32, rest.len());
        padded[..bytes].copy_from_slice(&tail[..bytes]);
        unpack_group::<W>(&padded[..8 * W], &mut group);
        rest.copy_from_slice(&group[..rest.len()]);
    }
}

/// One instance a width: the compiler unrolls it with constant shifts.
fn unpack_group<const W: usize>(bytes: &[u8], out: &mut [u64; GROUP]) {
    let mut words = [0u64; GROUP + 1];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    for (i, value) in out.iter_mut().enumerate() {
        let (word, shift) = (i * W / 64, i * W % 64);
        // Two shifts, since one by 64 is not defined where the field starts a word.
        let straddling = words[word + 1] << 1 << (63 - shift);
        *value = (words[word] >> shift | straddling) & low_mask(W as u32);
    }
}

fn pack_all<const W: usize>(base: u64, values: &[u64], into: &mut [u8]) {
    let (groups, rest) = values.as_chunks::<GROUP>();
    let (whole, tail) = into.split_at_mut(groups.len() * 8 * W);
    for (group, bytes) in groups.iter().zip(whole.chunks_exact_mut(8 * W)) {
        pack_group::<W>(base, group, bytes);
    }
    if !rest.is_empty() {
        let (mut group, mut padded) = ([base; GROUP], [0; 8 * GROUP]);
        group[..rest.len()].copy_from_slice(rest);
        pack_group::<W>(base, &group, &mut padded[..8 * W]);
        let bytes = field_bytes(W as u32, rest.len());
        tail[..bytes].copy_from_slice(&padded[..bytes]);
    }
}

fn pack_group<const W: usize>(base: u64, values: &[u64; GROUP], into: &mut [u8]) {
    let mut words = [0u64; GROUP + 1];
    for (i, value) in values.iter().enumerate() {
        let (word, shift) = (i * W / 64, i * W % 64);
        let field = value.wrapping_sub(base) & low_mask(W as u32);
        words[word] |= field << shift;
        words[word + 1] |= field >> 1 >> (63 - shift);
    }
    for (bytes, word) in into.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{BitReader, BitWriter};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_are_as_a_bit_writer_writes_them(
            width in 0u32..=64, base: u64, values in prop::collection::vec(any::<u64>(), 0..300),
        ) {
            let mut writer = BitWriter::new();
            values.iter().for_each(|value| writer.write(value.wrapping_sub(base) & low_mask(width), width));
            let expected = writer.finish();
            prop_assert_eq!(expected.len(), field_bytes(width, values.len()));
            let mut found = vec![0xff; expected.len() + 3];
            pack_fields(width, base, &values, &mut found);
            prop_assert_eq!(&found[..expected.len()], &expected[..]);
            prop_assert_eq!(&found[expected.len()..], &[0xff; 3], "nothing past the end is touched");
            let mut back = vec![1; values.len()];
            unpack_fields(width, &found, &mut back);
            let mut reader = BitReader::new(&expected);
            for (i, value) in back.into_iter().enumerate() {
                prop_assert_eq!(value, reader.read(width).unwrap());
                prop_assert_eq!(value, field(width, &expected, i));
            }
        }
    }
}
