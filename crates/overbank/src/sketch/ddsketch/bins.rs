//! The bins of one sign: counts by rank, the lowest of them collapsed.
//!
//! ```text
//!   rank   … ▒▒▒▒▒▒ │ lowest │        │   …    │ highest │        lowest > highest - bins_max
//!            collapsed ─▲     counts, dense
//! ```
//!
//! 1. A count of rank `r` lies at `max(r, highest - bins_max + 1)`, where `highest` is that of all ranks so
//!    far. `max(max(r, a), b) = max(r, b)` for `a <= b`, so order and merges do not matter.
//! 2. `counts` spans from the lowest to the highest rank in use: the first and the last are not zero.
//!
//! 3. `collapsed` iff a rank below `highest - bins_max + 1` was counted; it then lies in the first bin.
//!
//! Cost: O(1) an update, O(bins_max) when the span moves; at most `8 * bins_max` bytes, doubled while it grows.

use std::collections::VecDeque;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Bins {
    lowest: i32,
    counts: VecDeque<u64>,
    /// Whether the lowest bin holds a count of a lower rank.
    collapsed: bool,
}

impl Bins {
    #[inline]
    pub(super) fn add(&mut self, rank: i32, count: u64, bins_max: usize) {
        let offset = i64::from(rank) - i64::from(self.lowest);
        match usize::try_from(offset).ok().and_then(|at| self.counts.get_mut(at)) {
            Some(bin) => *bin = bin.saturating_add(count),
            None => self.add_outside(rank, count, bins_max),
        }
    }

    pub(super) fn merge(&mut self, other: &Self, bins_max: usize) {
        // From the top: the span is then made once.
        for (rank, count) in other.iter().rev() {
            self.add(rank, count, bins_max);
        }
        self.collapsed |= other.collapsed;
    }

    /// Where a rank is counted.
    pub(super) fn place_of(&self, rank: i32) -> i32 {
        if self.collapsed { rank.max(self.lowest) } else { rank }
    }

    /// Whether lower ranks are counted at `rank`.
    pub(super) fn is_collapsed(&self, rank: i32) -> bool {
        self.collapsed && rank == self.lowest
    }

    pub(super) fn has_collapsed(&self) -> bool {
        self.collapsed
    }

    /// (rank, count) of each bin in use, lowest rank first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, u64)> + '_ {
        let bins = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        bins.map(|(at, &count)| (self.lowest + at as i32, count))
    }

    /// The lowest rank and the counts from there on.
    pub(super) fn span(&self) -> (i32, &VecDeque<u64>) {
        (self.lowest, &self.counts)
    }

    pub(super) fn from_span(lowest: i32, counts: VecDeque<u64>, collapsed: bool) -> Self {
        Self { lowest, counts, collapsed }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }

    #[cold]
    fn add_outside(&mut self, rank: i32, count: u64, bins_max: usize) {
        if count == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.lowest = rank;
            self.counts.push_back(count);
            return;
        }
        let highest = i64::from(self.lowest) + self.counts.len() as i64 - 1;
        let window = highest.max(rank.into()) - bins_max as i64 + 1;
        self.collapse_below(window);
        self.collapsed |= i64::from(rank) < window;
        let rank = i64::from(rank).max(window);
        while i64::from(self.lowest) > rank {
            self.counts.push_front(0);
            self.lowest -= 1;
        }
        let at = (rank - i64::from(self.lowest)) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(count);
    }

    /// Moves all below `window` into it.
    fn collapse_below(&mut self, window: i64) {
        let mut collapsed = 0u64;
        while i64::from(self.lowest) < window {
            match self.counts.pop_front() {
                Some(count) => {
                    collapsed = collapsed.saturating_add(count);
                    self.lowest += 1;
                }
                None => self.lowest = window as i32,
            }
        }
        if collapsed == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.lowest = window as i32;
            self.counts.push_back(0);
        }
        self.collapsed = true;
        self.counts[0] = self.counts[0].saturating_add(collapsed);
    }
}
