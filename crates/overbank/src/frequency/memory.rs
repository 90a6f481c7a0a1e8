//! Updates that wait in RAM.
//!
//! ```text
//!   words    │ weighted ▶ 2 words each │ free ············ │ ◀ units, 1 word each │      half of the memory
//!              runs ▒▒▒▒│▒▒│ tail                            tail │▒▒│▒▒▒▒ runs
//!   scratch  │                                                                  │      the other half
//! ```
//!
//! 1. What it holds never exceeds its capacity in bytes, scratch included. Both halves are taken at the first update and
//!    kept: memory that goes back to an allocator and comes again for another use is often held twice.
//! 2. What arrived up to some look is in sorted runs, oldest first; only the tail, what arrived since, is not in order. A look sorts
//!    the tail alone, so that looks beside a writer do not sort the whole buffer each; only where there are many runs they become one.
//!    With a look after every sixty-fourth of the buffer, each update is sorted about six times.
//! 3. Whoever changes it has locked it for writing, whoever looks at it for reading; see `intake.rs`.

use super::page::{Updates, Weighted};
use crate::batch::Sorter;

/// A tail this long is scanned by an estimate rather than sorted: a scan of 1 / 64 of the buffer takes less than the
/// block read that every estimate makes.
const TAIL_SHARE: usize = 64;
const TAIL_MIN: usize = 256;

/// The most runs of each kind.
const RUNS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Buffer {
    capacity_words: usize,
    words: Vec<u64>,
    scratch: Vec<u64>,
    units: usize,
    weighted: usize,
    /// How many units are in the runs up to each, and weighted updates.
    unit_runs: Vec<usize>,
    weighted_runs: Vec<usize>,
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
            // An empty buffer takes an update: whoever adds would else wait for room that never comes.
            capacity_words: (bytes.saturating_sub(sorter_bytes()) / WORD_BYTES).max(WEIGHTED_WORDS),
            words: Vec::new(),
            scratch: Vec::new(),
            units: 0,
            weighted: 0,
            unit_runs: Vec::with_capacity(RUNS_MAX),
            weighted_runs: Vec::with_capacity(RUNS_MAX),
            unit_sorter: Sorter::new(),
            weighted_sorter: Sorter::new(),
        }
    }

    /// How many updates of weight 1 it takes at most.
    pub(super) fn capacity(&self) -> usize {
        self.capacity_words
    }

    /// How many updates an empty buffer takes at most; at least one.
    pub(super) fn batch_max(&self, weighted: bool) -> usize {
        self.capacity_words / if weighted { WEIGHTED_WORDS } else { 1 }
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
        if are_apart(&self.unit_runs, units.len()) {
            self.unit_sorter.sort_within(units, &mut self.scratch);
            make_one_run(&mut self.unit_runs, units.len());
        }
        if are_apart(&self.weighted_runs, weighted.len()) {
            self.weighted_sorter.sort_within(weighted, self.scratch.as_chunks_mut().0);
            make_one_run(&mut self.weighted_runs, weighted.len());
        }
        Updates { units, weighted }
    }

    /// Makes a run of the tail, or one of everything where there are many runs.
    pub(super) fn sort_tail(&mut self) {
        if self.unit_runs.len() == RUNS_MAX || self.weighted_runs.len() == RUNS_MAX {
            self.sorted();
            return;
        }
        let (weighted, units) = split(&mut self.words, self.weighted, self.units);
        let (in_units, in_weighted) = (in_runs(&self.unit_runs), in_runs(&self.weighted_runs));
        if in_units < units.len() {
            let tail = units.len() - in_units;
            self.unit_sorter.sort_within(&mut units[..tail], &mut self.scratch);
            self.unit_runs.push(units.len());
        }
        if in_weighted < weighted.len() {
            self.weighted_sorter.sort_within(&mut weighted[in_weighted..], self.scratch.as_chunks_mut().0);
            self.weighted_runs.push(weighted.len());
        }
    }

    /// Whether what is not in order has grown too long to be gone through; for a look at all pages, round by round, `is_all`, nearly
    /// any tail has.
    pub(super) fn has_long_tail(&self, is_all: bool) -> bool {
        let tail = self.units + self.weighted - in_runs(&self.unit_runs) - in_runs(&self.weighted_runs);
        let share = if is_all { 0 } else { (self.units + self.weighted) / TAIL_SHARE };
        tail > TAIL_MIN.max(share)
    }

    /// Everything, once it was sorted.
    pub(super) fn in_order(&self) -> Updates<'_> {
        debug_assert!(self.runs().count() <= 2 && self.tail().is_empty(), "not sorted");
        let (units, weighted) = self.all();
        Updates { units, weighted }
    }

    /// The runs, each of units or of weighted updates; older ones of a kind first.
    pub(super) fn runs(&self) -> impl Iterator<Item = Updates<'_>> {
        let (units, weighted) = self.all();
        let from = |ends: &[usize], at: usize| if at == 0 { 0 } else { ends[at - 1] };
        let of_units = self.unit_runs.iter().enumerate().map(move |(at, &end)| {
            // They grow towards the front.
            let run = units.len() - end..units.len() - from(&self.unit_runs, at);
            Updates { units: &units[run], weighted: &[] }
        });
        let of_weighted = self.weighted_runs.iter().enumerate().map(move |(at, &end)| Updates {
            units: &[],
            weighted: &weighted[from(&self.weighted_runs, at)..end],
        });
        of_units.chain(of_weighted)
    }

    /// What is not in order.
    pub(super) fn tail(&self) -> Updates<'_> {
        let (units, weighted) = self.all();
        let tail = units.len() - in_runs(&self.unit_runs);
        Updates { units: &units[..tail], weighted: &weighted[in_runs(&self.weighted_runs)..] }
    }

    fn all(&self) -> (&[u64], &[Weighted]) {
        let units = &self.words[self.words.len() - self.units..];
        (units, self.words[..WEIGHTED_WORDS * self.weighted].as_chunks().0)
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
        self.weighted = count;
        make_one_run(&mut self.weighted_runs, count);
        self.room(weighted) >= updates
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        (self.units, self.weighted) = (0, 0);
        self.unit_runs.clear();
        self.weighted_runs.clear();
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

/// How many updates are in runs.
fn in_runs(ends: &[usize]) -> usize {
    ends.last().copied().unwrap_or(0)
}

/// Whether `updates` updates are not one run yet.
fn are_apart(ends: &[usize], updates: usize) -> bool {
    ends.len() > 1 || in_runs(ends) < updates
}

fn make_one_run(ends: &mut Vec<usize>, updates: usize) {
    ends.clear();
    if updates > 0 {
        ends.push(updates);
    }
}

/// The weighted updates at the front of `words`, and the units at its end.
fn split(words: &mut [u64], weighted: usize, units: usize) -> (&mut [Weighted], &mut [u64]) {
    let (front, rest) = words.split_at_mut(WEIGHTED_WORDS * weighted);
    let free = rest.len() - units;
    (front.as_chunks_mut().0, &mut rest[free..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Units(Vec<u64>),
        Weighted(Vec<(u64, i64)>),
        SortTail,
        Sort,
        Condense,
    }

    fn step() -> impl Strategy<Value = Step> {
        let entry = || prop_oneof![0u64..20, any::<u64>()];
        prop_oneof![
            4 => prop::collection::vec(entry(), 0..60).prop_map(Step::Units),
            2 => prop::collection::vec((entry(), -3i64..1000), 0..30).prop_map(Step::Weighted),
            6 => Just(Step::SortTail),
            1 => Just(Step::Sort),
            1 => Just(Step::Condense),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn runs_and_tail_are_all_that_was_added(steps in prop::collection::vec(step(), 0..80)) {
            let mut buffer = Buffer::new(Buffer::least_bytes() + (64 << 10));
            let mut sums = std::collections::BTreeMap::<u64, i128>::new();
            for step in steps {
                match step {
                    Step::Units(units) if units.len() <= buffer.room(false) => {
                        units.iter().for_each(|&entry| *sums.entry(entry).or_default() += 1);
                        buffer.push_units(units.into_iter());
                    }
                    Step::Weighted(updates) if updates.len() <= buffer.room(true) => {
                        for (entry, weight) in updates {
                            *sums.entry(entry).or_default() += i128::from(weight);
                            buffer.push(entry, weight);
                        }
                    }
                    Step::SortTail => {
                        buffer.sort_tail();
                        prop_assert!(buffer.tail().is_empty());
                    }
                    Step::Sort => {
                        let sorted = buffer.sorted();
                        prop_assert!(sorted.units.is_sorted() && sorted.weighted.is_sorted_by_key(|w| w[0]));
                    }
                    Step::Condense => drop(buffer.condense(0, false)),
                    _ => {}
                }
                let mut found = std::collections::BTreeMap::<u64, i128>::new();
                prop_assert!(buffer.unit_runs.len() <= RUNS_MAX && buffer.weighted_runs.len() <= RUNS_MAX);
                for run in buffer.runs() {
                    prop_assert!(run.units.is_sorted() && run.weighted.is_sorted_by_key(|w| w[0]));
                }
                for updates in buffer.runs().chain([buffer.tail()]) {
                    updates.units.iter().for_each(|&entry| *found.entry(entry).or_default() += 1);
                    for &[entry, weight] in updates.weighted {
                        *found.entry(entry).or_default() += i128::from(weight.cast_signed());
                    }
                }
                found.retain(|_, sum| *sum != 0);
                prop_assert!(sums.iter().filter(|(_, sum)| **sum != 0).eq(found.iter()));
            }
        }
    }
}
