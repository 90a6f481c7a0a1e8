//! Which bucket a hash falls into, and what is left of it there.

use super::Path;
use crate::KeyHash;
use std::ops::RangeInclusive;

/// Equal parts of a range of hashes.
///
/// A part is found by one multiplication: `bucket . path = (hash - first) * scale`, with the point 64 bits from the right. `scale` is
/// rounded down, so the last bucket of a range that is not all hashes may be smaller than the others, by at most one part in `buckets`
/// of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Places {
    first: u64,
    last: u64,
    buckets: u64,
    scale: u64,
}

impl Places {
    /// At most `buckets` parts of the range, at least 1: no more than hashes can tell apart.
    pub(super) fn new(range: RangeInclusive<u64>, buckets: u64) -> Self {
        let (first, last) = range.into_inner();
        let span = u128::from(last.saturating_sub(first)) + 1;
        let buckets = u128::from(buckets).min(span / 2).max(1);
        // Of one hash alone there is nothing to scale.
        let scale = u64::try_from((buckets << 64) / span).unwrap_or(u64::MAX);
        Self { first, last, buckets: buckets as u64, scale }
    }

    pub(super) fn range(&self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    pub(super) fn has(&self, hash: KeyHash) -> bool {
        (self.first..=self.last).contains(&hash.high())
    }

    /// The bucket of a hash, and the bits that tell it from others there. Of a hash outside the range, some bucket.
    #[inline(always)]
    pub(super) fn of(&self, hash: KeyHash) -> (u64, Path) {
        let scaled = u128::from(hash.high().wrapping_sub(self.first)) * u128::from(self.scale);
        let bucket = (scaled >> 64) as u64;
        (bucket.min(self.buckets - 1), Path { high: scaled as u64, low: hash.low() })
    }
}
