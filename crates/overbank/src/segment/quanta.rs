//! Equal parts of a range of hashes: where a page may begin.
//!
//! ```text
//!   first                                                                last
//!   ├── 0 ──┼── 1 ──┼── 2 ──┼── … ───────────────────────────┼─ count - 1 ─┤
//!
//!   of(hash) = ((hash − first) << shift) × factor >> 64       shift: the range fills 64 bits
//!                                                            factor: count × 2^64 / (its length << shift), rounded down
//! ```
//!
//! Invariants:
//! 1. `of` never falls where the hash rises, is 0 at `first` and below `count` at `last`.
//! 2. Parts differ by a hash or two in length, and by rounding `factor` down the last one is the longest; where there are as many parts
//!    as hashes, each has one.

use crate::Result;
use crate::error::invalid;
use std::ops::RangeInclusive;

/// So that `factor` fits 64 bits.
const COUNT_MAX: u64 = 1 << 62;

/// Equal parts of a range of hashes (by their first 64 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quanta {
    first: u64,
    last: u64,
    count: u64,
    shift: u32,
    factor: u64,
}

impl Quanta {
    /// `count` parts of `range`; 1 where it is 0, and not more than there are hashes, or 2^62.
    ///
    /// # Errors
    /// `InvalidOption` if the range is empty.
    pub fn new(range: RangeInclusive<u64>, count: u64) -> Result<Self> {
        let (first, last) = range.into_inner();
        if first > last {
            return invalid("a range of hashes", format!("{first:#x} to {last:#x}"), "it has no hash");
        }
        let length = u128::from(last - first) + 1;
        let count = u128::from(count.clamp(1, COUNT_MAX)).min(length);
        // A range of one hash has a difference of 0, whose 64 leading zeros are one too many.
        let shift = (last - first).leading_zeros().min(63);
        let scaled = length << shift;
        // `scaled` is above 2^63 or, for one hash, 2^63 itself, where `count` is 1: the quotient is at most 2^63.
        let factor = if scaled == 1 << 64 { count } else { (count << 64) / scaled };
        Ok(Self { first, last, count: count as u64, shift, factor: factor as u64 })
    }

    /// The part of `hash`: 0 for those below the range, the last for those above.
    #[inline]
    pub fn of(&self, hash: u64) -> u64 {
        let scaled = (hash.clamp(self.first, self.last) - self.first) << self.shift;
        ((u128::from(scaled) * u128::from(self.factor)) >> 64) as u64
    }

    /// The range.
    pub fn range(&self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    /// How many parts.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_equal_and_in_order(
            a in prop_oneof![any::<u64>(), 0u64..40, (0u64..40).prop_map(|d| u64::MAX - d)],
            b in prop_oneof![any::<u64>(), 0u64..40, (0u64..40).prop_map(|d| u64::MAX - d)],
            count in prop_oneof![any::<u64>(), 0u64..100, 0u64..1 << 40],
            probes in prop::collection::vec(any::<u64>(), 40),
        ) {
            let (first, last) = (a.min(b), a.max(b));
            let quanta = Quanta::new(first..=last, count).unwrap();
            let length = u128::from(last - first) + 1;
            prop_assert_eq!(u128::from(quanta.count()), u128::from(count).clamp(1, 1 << 62).min(length));
            prop_assert_eq!((quanta.of(first), quanta.of(0), quanta.range()), (0, 0, first..=last));
            prop_assert!(quanta.of(last) < quanta.count() && quanta.of(u64::MAX) == quanta.of(last));
            for hash in probes.into_iter().chain([first, last]) {
                let hash = hash.clamp(first, last);
                let part = quanta.of(hash);
                prop_assert!(part <= quanta.of(hash.saturating_add(1)));
                // The real part, but for what rounding the factor takes away: less than 1 over the whole range.
                let exact = (hash - first) as f64 / length as f64 * quanta.count() as f64;
                prop_assert!((part as f64 - exact).abs() < 2.0 + exact * 1e-15, "{part} {exact}");
                if u128::from(quanta.count()) == length {
                    prop_assert_eq!(part, hash - first);
                }
            }
        }
    }

    #[test]
    fn an_empty_range_is_refused() {
        #[expect(clippy::reversed_empty_ranges, reason = "it is what is refused")]
        let refused = Quanta::new(5..=4, 9);
        assert!(refused.is_err());
    }
}
