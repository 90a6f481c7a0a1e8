//! Generations: how many entries of a class there may be, and when longer fingerprints begin. Under the tree's lock, for whether a
//! generation is full follows from all runs.

use super::class::{RunClass, WriteClass};
use super::options::FilterOptions;
use super::table::FilterState;
use crate::filter::run::{PackedRun, Sign};

/// Fewer keys are not worth a look at the whole filter of their own, as long as there are more.
const TOGETHER_KEYS_MIN: u64 = 1 << 12;

impl FilterState {
    /// Notes that a writer's memtable takes its first entry; returns how many it may take before the generation could be full. Entries
    /// that come one by one may be so many `beside`.
    pub(super) fn open_memtable(&mut self, writer: usize, beside: u64, options: &FilterOptions) -> u64 {
        self.begin_memtable(writer);
        self.left(options).saturating_sub(beside) / options.writers as u64
    }

    /// How many different fingerprints the generation takes yet, for sure.
    pub(super) fn left(&self, options: &FilterOptions) -> u64 {
        let generation = self.writes.generation;
        options.capacity(generation).saturating_sub(self.fingerprints_of(generation, options))
    }

    /// Takes the frozen memtable of a writer in, its insertions and its removals, or packed runs that had none, and begins a generation if
    /// this one is full.
    pub(super) fn add_packed(
        &mut self,
        writer: Option<usize>,
        runs: impl IntoIterator<Item = PackedRun>,
        class: WriteClass,
        options: &FilterOptions,
    ) {
        let with_class = |run: PackedRun| {
            let sign = run.kind().sign;
            (run, class.run_class(options, sign))
        };
        self.push_frozen(writer, runs.into_iter().map(with_class));
        if class == self.writes && self.left(options) == 0 {
            self.begin_generation(options);
        }
    }

    /// Begins a generation of longer fingerprints; false if this one has the longest.
    fn begin_generation(&mut self, options: &FilterOptions) -> bool {
        let WriteClass { revision, generation, .. } = self.writes;
        let is_longer = options.bits(generation + 1) > options.bits(generation);
        if is_longer {
            self.writes = WriteClass { revision: revision + 1, generation: generation + 1, ..self.writes };
            self.is_changed = true;
        }
        is_longer
    }

    /// How many of `keys` keys may be looked up and inserted together while the memtables hold `in_memtables`, at least one. More than the
    /// generation takes would be told apart by its short fingerprints alone, and taken for each other beyond the promised rate. Where
    /// little room is left a generation begins, so that long batches are not asked for in many short ones.
    pub(super) fn room_for(&mut self, keys: usize, in_memtables: u64, options: &FilterOptions) -> usize {
        loop {
            let left = self.left(options).saturating_sub(in_memtables);
            let worth_asking = (options.capacity(self.writes.generation) / 8).max(TOGETHER_KEYS_MIN);
            if left >= worth_asking.min(keys as u64) {
                return keys.min(usize::try_from(left).unwrap_or(usize::MAX));
            }
            if !self.begin_generation(options) {
                return keys;
            }
        }
    }

    /// Lets new entries have fingerprints that are no shorter than any there is: a shorter tombstone would take from other keys too,
    /// and what shorter ones call alike may be in with longer ones.
    pub(super) fn reach_longest(&mut self, options: &FilterOptions) {
        let longest = self.version().runs.iter().map(|run| run.class.bits).max().unwrap_or(0);
        while options.bits(self.writes.generation) + options.value_bits < longest {
            if !self.begin_generation(options) {
                break;
            }
        }
    }

    /// Different fingerprints that were inserted in a generation, as far as is known without merging. Removals take none of its room: no
    /// key is taken for one of them.
    fn fingerprints_of(&self, generation: u32, options: &FilterOptions) -> u64 {
        let bits = options.bits(generation) + options.value_bits;
        let is_of_it = |class: RunClass| class.bits == bits && class.sign == Sign::Insertions;
        let packed = self.version().frozen.iter().filter(|packed| is_of_it(packed.class));
        let runs = self.version().counted().filter(|(run, _)| is_of_it(run.class));
        packed.map(|packed| packed.size().entries).chain(runs.map(|(_, size)| size.entries)).sum()
    }
}
