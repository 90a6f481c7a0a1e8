//! Updates that wait in RAM.
//!
//! ```text
//!   words    │ weighted ▶ 2 words each │ free ············ │ ◀ units, 1 word each │      half of the memory
//!              sorted ▒▒▒▒│ arrived since                    arrived since │▒▒▒▒ sorted
//!   scratch  │                                                                  │      the other half
//! ```
//!
//! 1. What it holds never exceeds its capacity in bytes, scratch included. Both halves are taken at the first update and
//!    kept: memory that goes back to an allocator and comes again for another use is often held twice.
//! 2. Between calls the sorted parts are in order; only what arrived since is not.
//! 3. Whoever changes it has locked it for writing, whoever looks at it for reading; see `intake.rs`.

use super::page::{Updates, Weighted};
use crate::batch::Sorter;

/// A tail this long is scanned by an estimate rather than sorted: a scan of 1 / 64 of the buffer takes less than the
/// block read that every estimate makes.
const TAIL_SHARE: usize = 64;
const TAIL_MIN: usize = 256;

#[derive(Debug)]
pub(super) struct Buffer {
    capacity_words: usize,
    words: Vec<u64>,
    scratch: Vec<u64>,
    units: usize,
    weighted: usize,
    sorted_units: usize,
    sorted_weighted: usize,
    unit_sorter: Sorter<u64>,
    weighted_sorter: Sorter<Weighted>,
}

const WEIGHTED_WORDS: usize = 2;
/// A word and its scratch.
const WORD_BYTES: usize = 2 * size_of::<u64>();

impl Buffer {
    /// The least that makes sense: the sorters, and a few blocks of records.
    pub(super) const fn least_bytes() -> usize {
        sorter_bytes() + 1024 * WEIGHTED_WORDS * WORD_BYTES
    }

    pub(super) fn new(bytes: usize) -> Self {
        Self {
            capacity_words: bytes.saturating_sub(sorter_bytes()) / WORD_BYTES,
            words: Vec::new(),
            scratch: Vec::new(),
            units: 0,
            weighted: 0,
            sorted_units: 0,
            sorted_weighted: 0,
            unit_sorter: Sorter::new(),
            weighted_sorter: Sorter::new(),
        }
    }

    /// How many updates of weight 1 it takes at most.
    pub(super) fn capacity(&self) -> usize {
        self.capacity_words
    }

    /// How many updates an empty buffer takes at most.
    pub(super) fn batch_max(&self, weighted: bool) -> usize {
        (self.capacity_words / if weighted { WEIGHTED_WORDS } else { 1 }).max(1)
    }

    /// How many more updates fit.
    pub(super) fn room(&self, weighted: bool) -> usize {
        let free = self.capacity_words - self.units - WEIGHTED_WORDS * self.weighted;
        free / if weighted { WEIGHTED_WORDS } else { 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units == 0 && self.weighted == 0
    }

    /// Takes updates of weight 1; the caller has asked for room.
    pub(super) fn push_units(&mut self, entries: impl ExactSizeIterator<Item = u64>) {
        self.occupy();
        let end = self.capacity_words - self.units;
        self.units += entries.len();
        let start = self.capacity_words - self.units;
        self.words[start..end].iter_mut().zip(entries).for_each(|(word, entry)| *word = entry);
    }

    /// Takes one update; the caller has asked for room.
    pub(super) fn push(&mut self, entry: u64, weight: i64) {
        self.occupy();
        let at = WEIGHTED_WORDS * self.weighted;
        self.words[at..at + WEIGHTED_WORDS].copy_from_slice(&[entry, weight.cast_unsigned()]);
        self.weighted += 1;
    }

    /// Sorts everything, and shows it.
    pub(super) fn sorted(&mut self) -> Updates<'_> {
        let (weighted, units) = split(&mut self.words, self.weighted, self.units);
        if self.sorted_units < units.len() {
            self.unit_sorter.sort_within(units, &mut self.scratch);
            self.sorted_units = units.len();
        }
        if self.sorted_weighted < weighted.len() {
            self.weighted_sorter.sort_within(weighted, self.scratch.as_chunks_mut().0);
            self.sorted_weighted = weighted.len();
        }
        Updates { units, weighted }
    }

    /// Whether what is not in order has grown too long to be gone through; for a look at all pages, round by round, `is_all`, nearly
    /// any tail has.
    pub(super) fn has_long_tail(&self, is_all: bool) -> bool {
        let tail = self.units - self.sorted_units + self.weighted - self.sorted_weighted;
        let share = if is_all { 0 } else { (self.units + self.weighted) / TAIL_SHARE };
        tail > TAIL_MIN.max(share)
    }

    /// The part in order, and the tails that are not.
    pub(super) fn parts(&self) -> (Updates<'_>, Updates<'_>) {
        let units = &self.words[self.words.len() - self.units..];
        let (late_units, units) = units.split_at(self.units - self.sorted_units);
        let weighted = self.words[..WEIGHTED_WORDS * self.weighted].as_chunks().0;
        let (weighted, late_weighted) = weighted.split_at(self.sorted_weighted);
        (Updates { units, weighted }, Updates { units: late_units, weighted: late_weighted })
    }

    /// Joins equal entries if that frees half of the capacity or more, and room for `updates`: a skewed stream then needs few
    /// flushes. Returns whether it did.
    pub(super) fn condense(&mut self, updates: usize, weighted: bool) -> bool {
        let limit = self.capacity_words / WEIGHTED_WORDS / 2;
        let all = self.sorted();
        // At least this many are distinct: one look at each pair of neighbours settles most streams.
        if all.units.iter().zip(all.units.iter().skip(1)).filter(|(one, next)| one != next).count() > limit {
            return false;
        }
        let mut distinct = 0;
        all.joined_all(|_, _| distinct += 1);
        if distinct > limit {
            return false;
        }
        let (records, units) = split(&mut self.words, self.weighted, self.units);
        let joined: &mut [Weighted] = self.scratch.as_chunks_mut().0;
        let mut count = 0;
        Updates { units, weighted: records }.joined_all(|entry, weight| {
            joined[count] = [entry, weight.cast_unsigned()];
            count += 1;
        });
        self.words[..WEIGHTED_WORDS * count].copy_from_slice(&self.scratch[..WEIGHTED_WORDS * count]);
        self.clear();
        (self.weighted, self.sorted_weighted) = (count, count);
        self.room(weighted) >= updates
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        (self.units, self.weighted) = (0, 0);
        (self.sorted_units, self.sorted_weighted) = (0, 0);
    }

    /// Gives the memory of an empty buffer back.
    pub(super) fn release(&mut self) {
        (self.words, self.scratch) = (Vec::new(), Vec::new());
    }

    #[cfg(test)]
    pub(super) fn is_released(&self) -> bool {
        self.words.capacity() + self.scratch.capacity() == 0
    }

    /// Takes the memory, if it has none yet.
    fn occupy(&mut self) {
        if self.words.is_empty() {
            // Fresh zeros are not touched: what is never used is never resident.
            self.words = vec![0; self.capacity_words];
            self.scratch = vec![0; self.capacity_words];
        }
    }
}

const fn sorter_bytes() -> usize {
    Sorter::<u64>::memory_bytes() + Sorter::<Weighted>::memory_bytes()
}

/// The weighted updates at the front of `words`, and the units at its end.
fn split(words: &mut [u64], weighted: usize, units: usize) -> (&mut [Weighted], &mut [u64]) {
    let (front, rest) = words.split_at_mut(WEIGHTED_WORDS * weighted);
    let free = rest.len() - units;
    (front.as_chunks_mut().0, &mut rest[free..])
}
