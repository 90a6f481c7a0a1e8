//! Updates that wait in RAM.
//!
//! ```text
//!   units      │ sorted ▒▒▒▒▒▒▒▒▒▒▒▒▒ │ arrived since ▒▒▒ │ free ······ │      8 bytes each, and as much scratch
//!   weighted   │ sorted ▒▒▒           │ arrived since ▒   │                  16 bytes each, and as much scratch
//! ```
//!
//! 1. What it holds never exceeds its capacity in bytes, scratch included. (Both parts reserve addresses for all of it,
//!    and touch what they hold.)
//! 2. Between calls the sorted parts are in order; only the tails are not.

use super::page::Updates;
use crate::batch::Sorter;

/// A tail this long is scanned by an estimate rather than sorted: a scan of 1 / 64 of the buffer takes less than the
/// block read that every estimate makes.
const TAIL_SHARE: usize = 64;
const TAIL_MIN: usize = 256;

#[derive(Debug)]
pub(super) struct Buffer {
    units: Vec<u64>,
    weighted: Vec<(u64, i64)>,
    sorted_units: usize,
    sorted_weighted: usize,
    capacity_bytes: usize,
    unit_sorter: Sorter<u64>,
    unit_scratch: Vec<u64>,
    weighted_sorter: Sorter<(u64, i64)>,
    weighted_scratch: Vec<(u64, i64)>,
}

const UNIT_BYTES: usize = 2 * size_of::<u64>();
const WEIGHTED_BYTES: usize = 2 * size_of::<(u64, i64)>();

impl Buffer {
    /// The least that makes sense: the sorters, and a few blocks of records.
    pub(super) const fn least_bytes() -> usize {
        Sorter::<u64>::memory_bytes() + Sorter::<(u64, i64)>::memory_bytes() + 1024 * WEIGHTED_BYTES
    }

    pub(super) fn new(bytes: usize) -> Self {
        let sorters = Sorter::<u64>::memory_bytes() + Sorter::<(u64, i64)>::memory_bytes();
        Self {
            units: Vec::new(),
            weighted: Vec::new(),
            sorted_units: 0,
            sorted_weighted: 0,
            capacity_bytes: bytes.saturating_sub(sorters),
            unit_sorter: Sorter::new(),
            unit_scratch: Vec::new(),
            weighted_sorter: Sorter::new(),
            weighted_scratch: Vec::new(),
        }
    }

    /// How many updates of weight 1 it takes at most.
    pub(super) fn capacity(&self) -> usize {
        self.capacity_bytes / UNIT_BYTES
    }

    /// How many more updates fit, whatever their weights.
    pub(super) fn room(&self, weighted: bool) -> usize {
        let held = self.units.len() * UNIT_BYTES + self.weighted.len() * WEIGHTED_BYTES;
        self.capacity_bytes.saturating_sub(held) / if weighted { WEIGHTED_BYTES } else { UNIT_BYTES }
    }

    /// How many updates an empty buffer takes at most.
    pub(super) fn batch_max(&self, weighted: bool) -> usize {
        (self.capacity_bytes / if weighted { WEIGHTED_BYTES } else { UNIT_BYTES }).max(1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.weighted.is_empty()
    }

    /// Takes updates of weight 1; the caller has asked for room.
    pub(super) fn push_units(&mut self, entries: impl ExactSizeIterator<Item = u64>) {
        if self.units.capacity() == 0 {
            self.units.reserve_exact(self.capacity());
        }
        self.units.extend(entries);
    }

    /// Takes one update; the caller has asked for room.
    pub(super) fn push(&mut self, entry: u64, weight: i64) {
        if self.weighted.capacity() == 0 {
            self.weighted.reserve_exact(self.capacity_bytes / WEIGHTED_BYTES);
        }
        self.weighted.push((entry, weight));
    }

    /// Sorts everything, and shows it.
    pub(super) fn sorted(&mut self) -> Updates<'_> {
        if self.sorted_units < self.units.len() {
            // Addresses for all that may come, where a growing vector would double and hold more than the budget.
            self.unit_scratch.reserve_exact(self.capacity().saturating_sub(self.unit_scratch.len()));
            self.unit_sorter.sort(&mut self.units, &mut self.unit_scratch);
            self.sorted_units = self.units.len();
        }
        if self.sorted_weighted < self.weighted.len() {
            let capacity = self.capacity_bytes / WEIGHTED_BYTES;
            self.weighted_scratch.reserve_exact(capacity.saturating_sub(self.weighted_scratch.len()));
            self.weighted_sorter.sort(&mut self.weighted, &mut self.weighted_scratch);
            self.sorted_weighted = self.weighted.len();
        }
        Updates { units: &self.units, weighted: &self.weighted }
    }

    /// Sorts if the tails have grown long, so that what is left to scan is short.
    pub(super) fn settle(&mut self) {
        let tail = self.units.len() - self.sorted_units + self.weighted.len() - self.sorted_weighted;
        if tail > TAIL_MIN.max((self.units.len() + self.weighted.len()) / TAIL_SHARE) {
            self.sorted();
        }
    }

    /// The part in order, and the tails that are not.
    pub(super) fn parts(&self) -> (Updates<'_>, Updates<'_>) {
        let (units, late_units) = self.units.split_at(self.sorted_units);
        let (weighted, late_weighted) = self.weighted.split_at(self.sorted_weighted);
        (Updates { units, weighted }, Updates { units: late_units, weighted: late_weighted })
    }

    /// Joins equal entries if that frees half of the capacity or more, and room for `updates`: a skewed stream then needs few
    /// flushes. Returns whether it did.
    pub(super) fn condense(&mut self, updates: usize, weighted: bool) -> bool {
        let limit = self.capacity_bytes / WEIGHTED_BYTES / 2;
        let units = self.sorted().units;
        // At least this many are distinct: one look at each pair of neighbours settles most streams.
        let distinct_units = units.iter().zip(units.iter().skip(1)).filter(|(one, next)| one != next).count();
        if distinct_units > limit {
            return false;
        }
        let mut distinct = 0usize;
        self.joined(|_, _| distinct += 1);
        if distinct > limit {
            return false;
        }
        // The order stands, and what is joined takes the scratch's place in the budget.
        (self.unit_scratch, self.weighted_scratch) = (Vec::new(), Vec::new());
        let mut joined = Vec::with_capacity(self.capacity_bytes / WEIGHTED_BYTES);
        self.joined(|entry, weight| joined.push((entry, weight)));
        self.clear();
        self.sorted_weighted = joined.len();
        self.weighted = joined;
        self.room(weighted) >= updates
    }

    fn joined(&self, mut each: impl FnMut(u64, i64)) {
        let updates = Updates { units: &self.units, weighted: &self.weighted };
        let joined = updates.joined(|entry, weight| {
            each(entry, weight);
            Ok(())
        });
        debug_assert!(joined.is_ok(), "nothing here fails");
    }

    pub(super) fn clear(&mut self) {
        self.units.clear();
        self.weighted.clear();
        if self.units.capacity() > 0 && self.weighted.capacity() > 0 {
            // Either may fill the whole budget: memory that both have touched would be twice of it.
            (self.units, self.unit_scratch) = (Vec::new(), Vec::new());
            (self.weighted, self.weighted_scratch) = (Vec::new(), Vec::new());
        }
        (self.sorted_units, self.sorted_weighted) = (0, 0);
    }
}
