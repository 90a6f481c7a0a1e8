//! What a profile counts exactly.

use super::Measure;

/// What is counted exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) measure: Measure,
    pub(super) rows: u64,
    pub(super) skipped: u64,
    pub(super) bytes: u64,
    pub(super) weight: u128,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.skipped += other.skipped;
        self.bytes += other.bytes;
        self.weight = self.weight.saturating_add(other.weight);
    }
}
