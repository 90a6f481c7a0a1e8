//! Blocks of 128 integers in as many bits as their spread needs.
//!
//! ```text
//!   byte 0       width of a residual in bits, 0..=64
//!   byte 1       length of the base in bytes, 0..=8
//!   base         the least value, little-endian, no leading zero byte
//!   residuals    128 x width bits, least significant bit first: 16 x width bytes
//! ```
//!
//! Frame of reference stores `value - least value`. Delta coding of an ascending sequence is the same block
//! over the differences. A last block that is not full is padded by its maker, best with its last value.
//!
//! Invariants:
//! 1. The encoder's base is the least value and its width the least for that base, so equal blocks have equal bytes.
//! 2. A decoder checks lengths before it reads and sums for overflow; what it does not return as `Corrupt` is
//!    some block.
//!
//! | cost | CPU | size |
//! |---|---|---|
//! | decode | one unpack loop per width, shifts known when it was compiled | 2 + base + 16 x width bytes |
//!
//! Source: Goldstein, Ramakrishnan, Shaft, Compressing Relations and Indexes, ICDE 1998 (frame of reference);
//! Lemire and Boytsov, Decoding billions of integers per second through vectorization, 2015 (blocks of 128).

use super::fields::unpack_fields;
use super::word::write_bits;
use crate::Result;
use crate::error::corrupt_bytes as corrupt;

/// Values in a block.
pub const BLOCK_VALUES: usize = 128;

const HEADER_BYTES: usize = 2;

/// Appends a block of any values.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::bits::{decode_block, encode_block};
/// let values: [u64; 128] = std::array::from_fn(|i| 1_000_000 + i as u64);
/// let (mut bytes, mut back) = (Vec::new(), [0; 128]);
/// encode_block(&values, &mut bytes);
/// assert_eq!(bytes.len(), 2 + 3 + 7 * 16);
/// assert_eq!(decode_block(&bytes, &mut back)?, bytes.len());
/// assert_eq!(back, values);
/// # }
/// # Ok::<(), overbank::Error>(())
/// ```
pub fn encode_block(values: &[u64; BLOCK_VALUES], into: &mut Vec<u8>) {
    let (least, most) = values.iter().fold((u64::MAX, 0), |(least, most), &v| (least.min(v), most.max(v)));
    let width = 64 - (most - least).leading_zeros();
    let base_bytes = 8 - least.leading_zeros() as usize / 8;
    into.push(width as u8);
    into.push(base_bytes as u8);
    into.extend_from_slice(&least.to_le_bytes()[..base_bytes]);
    let mut words = [0u64; BLOCK_VALUES];
    for (i, value) in values.iter().enumerate() {
        write_bits(&mut words, i as u64 * u64::from(width), width, value - least);
    }
    words[..2 * width as usize].iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
}

/// Reads a block from the front of `bytes`; returns how many bytes it took.
///
/// # Errors
/// `Corrupt` when the bytes are too few, the header says what no encoder says, or a value passes 2^64. `out`
/// then holds anything.
pub fn decode_block(bytes: &[u8], out: &mut [u64; BLOCK_VALUES]) -> Result<usize> {
    let &[width, base_bytes, ..] = bytes else {
        return Err(corrupt(0, "the length of a block's header", HEADER_BYTES, bytes.len()));
    };
    if width > 64 || base_bytes > 8 {
        let found = format!("{width} and {base_bytes}");
        return Err(corrupt(0, "the widths of a block", "at most 64 bits and 8 bytes", found));
    }
    let payload_at = HEADER_BYTES + usize::from(base_bytes);
    let total = payload_at + 16 * usize::from(width);
    let Some((head, payload)) = bytes.get(..total).and_then(|bytes| bytes.split_at_checked(payload_at))
    else {
        return Err(corrupt(0, "the length of a block", total, bytes.len()));
    };
    if base_bytes > 0 && head.last() == Some(&0) {
        return Err(corrupt(payload_at - 1, "the last byte of a block's base", "not zero", 0));
    }
    let base = head[HEADER_BYTES..].iter().rev().fold(0, |base, byte| base << 8 | u64::from(*byte));
    unpack_fields(u32::from(width), payload, out);
    let mut overflowed = false;
    for value in out.iter_mut() {
        let (sum, carry) = value.overflowing_add(base);
        *value = sum;
        overflowed |= carry;
    }
    if overflowed {
        return Err(corrupt(HEADER_BYTES, "a block's values", "below 2^64", "an overflow"));
    }
    Ok(total)
}

/// Appends a block of ascending (or repeating) values that follow `previous`, as differences.
///
/// # Panics
/// When a value is below the one before it.
pub fn encode_deltas(previous: u64, values: &[u64; BLOCK_VALUES], into: &mut Vec<u8>) {
    let mut last = previous;
    let deltas = values.map(|value| {
        assert!(last <= value, "{value} follows {last}, but deltas ascend");
        let delta = value - last;
        last = value;
        delta
    });
    encode_block(&deltas, into);
}

/// Reads a block of [`encode_deltas`] with the same `previous`; returns how many bytes it took.
///
/// # Errors
/// As [`decode_block`].
pub fn decode_deltas(previous: u64, bytes: &[u8], out: &mut [u64; BLOCK_VALUES]) -> Result<usize> {
    let taken = decode_block(bytes, out)?;
    let (mut last, mut overflowed) = (previous, false);
    for value in out.iter_mut() {
        let (sum, carry) = last.overflowing_add(*value);
        last = sum;
        *value = sum;
        overflowed |= carry;
    }
    if overflowed {
        return Err(corrupt(HEADER_BYTES, "the sum of a block's deltas", "below 2^64", "an overflow"));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::word::low_mask;
    use proptest::prelude::*;

    fn block() -> impl Strategy<Value = [u64; BLOCK_VALUES]> {
        (prop::collection::vec(any::<u64>(), BLOCK_VALUES), 0u32..=64, any::<u64>(), 0u32..64).prop_map(
            |(values, width, base, shift)| {
                std::array::from_fn(|i| (values[i] & low_mask(width)).saturating_add(base >> shift))
            },
        )
    }

    proptest! {
        #[test]
        fn blocks_come_back(values in block(), rest in prop::collection::vec(any::<u8>(), 0..10)) {
            let (mut bytes, mut back) = (Vec::new(), [1; BLOCK_VALUES]);
            encode_block(&values, &mut bytes);
            let length = bytes.len();
            bytes.extend(rest);
            prop_assert_eq!(decode_block(&bytes, &mut back).unwrap(), length);
            prop_assert_eq!(back, values);
            prop_assert!(decode_block(&bytes[..length - 1], &mut back).is_err());
        }

        #[test]
        fn deltas_come_back(values in block(), lower: u64) {
            let (mut values, mut bytes, mut back) = (values, Vec::new(), [1; BLOCK_VALUES]);
            values.sort_unstable();
            let previous = lower % values[0].saturating_add(1).max(1);
            encode_deltas(previous, &values, &mut bytes);
            prop_assert_eq!(decode_deltas(previous, &bytes, &mut back).unwrap(), bytes.len());
            prop_assert_eq!(back, values);
        }

        #[test]
        fn noise_is_corrupt_or_some_block(bytes in prop::collection::vec(any::<u8>(), 0..1100), width in 0u8..70, base in 0u8..12) {
            let mut out = [0; BLOCK_VALUES];
            let mut with_header = vec![width, base];
            with_header.extend(&bytes);
            for bytes in [bytes, with_header] {
                let _ = decode_deltas(1 << 63, &bytes, &mut out);
                if let Ok(taken) = decode_block(&bytes, &mut out) {
                    prop_assert!(taken <= bytes.len());
                    let mut again = Vec::new();
                    encode_block(&out, &mut again);
                    prop_assert!(again.len() <= taken + 8, "the encoder does worse by a base at most");
                }
            }
        }
    }

    #[test]
    fn equal_values_take_their_base_only() {
        let mut bytes = Vec::new();
        encode_block(&[0; BLOCK_VALUES], &mut bytes);
        encode_block(&[300; BLOCK_VALUES], &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 2, 44, 1]);
    }
}
