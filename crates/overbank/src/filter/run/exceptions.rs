//! The counts of a block that are not 1: gaps and counts in Elias-gamma code, so that a few cost little and all cost 2 bits each.

use super::format::COUNT_MAX;
use crate::Result;
use crate::bits::{BitReader, BitWriter};
use crate::error::corrupt_bytes as corrupt;

/// Bits of the gamma code of `value`, which is not 0.
fn gamma_bits(value: u64) -> u64 {
    u64::from(2 * value.ilog2() + 1)
}

/// Tombstones of one removal are the most frequent exception, so they have the shortest code.
fn code_of(count: i64) -> u64 {
    if count < 0 { 2 * count.unsigned_abs() - 1 } else { 2 * (count.unsigned_abs() - 1) }
}

fn count_of(code: u64) -> i64 {
    let half = (code / 2) as i64;
    if code.is_multiple_of(2) { half + 1 } else { -half - 1 }
}

/// Bits of an exception that comes `gap` indexes after the one before.
pub(super) fn exception_bits(gap: u32, delta: i64) -> u64 {
    gamma_bits(gap.into()) + gamma_bits(code_of(delta + 1))
}

/// Bytes of `deltas`, whose indexes count from `first`.
pub(super) fn encode(deltas: &[(u32, i64)], first: u32) -> Vec<u8> {
    let mut writer = BitWriter::new();
    let mut gamma = |value: u64| {
        let bits = value.ilog2();
        writer.write_unary(bits.into());
        writer.write(value - (1 << bits), bits);
    };
    // One past the last exception's index.
    let mut next = first;
    for &(i, delta) in deltas {
        gamma((i - next + 1).into());
        gamma(code_of(delta + 1));
        next = i + 1;
    }
    writer.finish()
}

/// Appends the `n` exceptions of a block of `keys`, their indexes shifted by `shift`. What follows them must be zeros.
pub(super) fn decode(
    bytes: &[u8],
    n: usize,
    keys: usize,
    shift: u32,
    into: &mut Vec<(u32, i64)>,
) -> Result<()> {
    let mut reader = BitReader::new(bytes);
    let mut next = 0;
    for _ in 0..n {
        let i = next + gamma(&mut reader, keys.max(1) as u64)? - 1;
        if i >= keys as u64 {
            return Err(corrupt(0, "the index of an exception", format!("below {keys}"), i));
        }
        let count = count_of(gamma(&mut reader, 2 * COUNT_MAX as u64)?);
        // A code is never that of 0 or 1.
        if count.abs() > COUNT_MAX {
            return Err(corrupt(0, "the count of an exception", format!("at most {COUNT_MAX}"), count));
        }
        into.push((i as u32 + shift, count - 1));
        next = i + 1;
    }
    let used = reader.at_bit().div_ceil(8) as usize;
    let in_byte = reader.read((reader.at_bit().next_multiple_of(8) - reader.at_bit()) as u32)?;
    if in_byte != 0 || bytes[used..].iter().any(|&byte| byte != 0) {
        return Err(corrupt(used, "the padding of a run's block", 0, "others"));
    }
    Ok(())
}

/// A gamma code of at most `max`.
fn gamma(reader: &mut BitReader<'_>, max: u64) -> Result<u64> {
    let bits = reader.read_unary()?;
    if bits > max.ilog2().into() {
        return Err(corrupt(0, "the bits of a gamma code", format!("at most {}", max.ilog2()), bits));
    }
    Ok(1 << bits | reader.read(bits as u32)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = Vec<i64>> {
        let other =
            prop_oneof![Just(-1i64), 2i64..5, -COUNT_MAX..=COUNT_MAX, Just(COUNT_MAX), Just(-COUNT_MAX)];
        prop::collection::vec(prop_oneof![3 => Just(1i64), 2 => other], 0..300)
    }

    proptest! {
        #[test]
        fn exceptions_come_back_in_as_many_bits_as_were_told(counts in counts(), first in 0u32..1000) {
            let deltas: Vec<(u32, i64)> = (counts.iter().zip(first..))
                .filter(|&(&count, _)| count != 0 && count != 1)
                .map(|(count, i)| (i, count - 1))
                .collect();
            let bytes = encode(&deltas, first);
            let mut next = first;
            let bits: u64 = deltas.iter().map(|&(i, delta)| {
                let bits = exception_bits(i - next + 1, delta);
                next = i + 1;
                bits
            }).sum();
            prop_assert_eq!(bytes.len() as u64, bits.div_ceil(8));
            let mut back = Vec::new();
            decode(&bytes, deltas.len(), counts.len(), first, &mut back).unwrap();
            prop_assert_eq!(&back, &deltas);
            if let Some(&(last, _)) = deltas.last() {
                let keys = (last - first) as usize;
                prop_assert!(decode(&bytes, deltas.len(), keys, first, &mut Vec::new()).is_err());
                let cut = &bytes[..bytes.len() - 1];
                prop_assert!(decode(cut, deltas.len(), counts.len(), first, &mut Vec::new()).is_err());
            }
            let padded = [&bytes[..], &[0, 4]].concat();
            prop_assert!(decode(&padded, deltas.len(), counts.len(), first, &mut Vec::new()).is_err());
        }

        #[test]
        fn noise_is_corrupt_or_in_order(bytes in prop::collection::vec(any::<u8>(), 0..60), n in 0usize..40) {
            let mut back = Vec::new();
            if decode(&bytes, n, 100, 0, &mut back).is_ok() {
                prop_assert!(back.is_sorted_by(|a, b| a.0 < b.0) && back.iter().all(|d| d.0 < 100));
                prop_assert!(back.iter().all(|&(_, delta)| delta != 0 && delta != -1));
            }
        }
    }
}
