//! What entries and runs belong to: the length of their fingerprints and their pane, and whether they were inserted or removed.

use super::options::FilterOptions;
use crate::filter::run::Sign;
use std::ops::RangeInclusive;

/// What new entries belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteClass {
    /// Counts the changes of the others.
    pub(super) revision: u64,
    pub(super) generation: u32,
    pub(super) pane: u64,
}

impl WriteClass {
    /// The class of the runs of such insertions, or removals.
    pub(super) fn run_class(self, options: &FilterOptions, sign: Sign) -> RunClass {
        RunClass { bits: options.bits(self.generation) + options.value_bits, pane: self.pane, sign }
    }
}

/// What is merged with what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RunClass {
    /// Bits of the fingerprints, values among them.
    pub(super) bits: u32,
    /// The pane that they came in, 0 where nothing is forgotten.
    pub(super) pane: u64,
    /// Whether they were inserted or removed.
    pub(super) sign: Sign,
}

impl RunClass {
    /// The fingerprints that stand in a range of hashes, each at the least hash that it has.
    pub(super) fn fingerprints(self, hashes: &RangeInclusive<u64>) -> RangeInclusive<u64> {
        let shift = 64 - self.bits;
        hashes.start().div_ceil(1 << shift)..=hashes.end() >> shift
    }
}
