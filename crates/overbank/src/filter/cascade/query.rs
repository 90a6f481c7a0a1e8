//! Looks keys up: in the logs, in the packed runs, and in all runs on flash in one wave of reads.

use super::shared::Shared;
use super::table::{FilterRun, FilterState, FilterVersion};
use crate::filter::run::{FingerprintSegment, PackedRun, Sign, Source, count_many};
use crate::lock::lock;
use crate::{KeyHash, Result};
use std::sync::Arc;

/// Reads in flight.
pub(super) const DEPTH: usize = 128;

/// Asks the filter beside those who write to it; see [`CascadeFilter::reader`](super::CascadeFilter::reader).
#[derive(Clone, Debug)]
pub struct CascadeReader {
    pub(super) shared: Arc<Shared>,
}

/// All packed runs and runs of a moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) packed: Vec<Arc<PackedRun>>,
    pub(super) runs: Vec<Arc<FingerprintSegment>>,
    pub(super) version: Arc<FilterVersion>,
    /// Removals on flash may be of insertions that are in RAM.
    has_late_removals: bool,
}

impl View {
    pub(super) fn of(state: &FilterState) -> Self {
        let version = state.version();
        // All that is older than what is in RAM is on flash: there, no key was removed more often than it was inserted. So a key that
        // is in RAM more often than it was removed there is in the filter, if no newer removals are on flash already.
        let removes = |run: &FilterRun| {
            run.class.sign == Sign::Removals || run.pieces.iter().any(|piece| piece.tombstones() > 0)
        };
        let mut removals = version.runs.iter().filter(|run| removes(run));
        View {
            version: Arc::clone(version),
            has_late_removals: removals.any(|run| state.has_in_memory_up_to(run.span.newest)),
            packed: version.frozen.iter().map(|packed| Arc::clone(&packed.entries)).collect(),
            runs: version.runs.iter().flat_map(|run| run.pieces.iter().cloned()).collect(),
        }
    }

    /// All of them, to be merged or searched.
    pub(super) fn sources(&self) -> Vec<Source<'_>> {
        let runs = self.runs.iter().map(|run| Source::Flash(run));
        runs.chain(self.packed.iter().cloned().map(Source::Memory)).collect()
    }
}

impl CascadeReader {
    /// As [`CascadeFilter::contains_many`](super::CascadeFilter::contains_many).
    ///
    /// # Errors
    /// As there.
    pub fn contains_many(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        self.shared.ask(hashes, true, |sum| sum > 0)
    }

    /// As [`CascadeFilter::count_many`](super::CascadeFilter::count_many).
    ///
    /// # Errors
    /// As there.
    pub fn count_many(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        self.shared.ask(hashes, false, |sum| u64::try_from(sum).unwrap_or(0))
    }
}

impl Shared {
    /// What `answer` makes of the sum of each key's counts, in the order of `hashes`; see [`Shared::sums`].
    fn ask<T: Clone + Default>(
        &self,
        hashes: &[KeyHash],
        presence: bool,
        answer: impl Fn(i64) -> T,
    ) -> Result<Vec<T>> {
        let mut asked: Vec<(u64, usize)> = hashes.iter().map(|hash| hash.high()).zip(0..).collect();
        asked.sort_unstable();
        let mut answers = vec![T::default(); hashes.len()];
        let (mut prefixes, mut sums) = (Vec::new(), Vec::new());
        for asked in asked.chunks(self.options.questions()) {
            prefixes.clear();
            prefixes.extend(asked.iter().map(|one| one.0));
            self.sums(&prefixes, presence, &mut sums)?;
            asked.iter().zip(&sums).for_each(|(one, &sum)| answers[one.1] = answer(sum));
        }
        Ok(answers)
    }

    /// Sets `sums` to the counts of ascending prefixes of hashes, added up over the whole filter; one that is not above 0 says no more
    /// than that, for removals of what is not there are not read. If only their `presence` is of
    /// interest, what is in RAM is not looked for on flash.
    ///
    /// # Cost
    /// At most a block read a prefix and run of insertions, all in one wave, and then one a run of removals for what is there;
    /// neighbouring blocks are read together.
    pub(super) fn sums(&self, prefixes: &[u64], presence: bool, sums: &mut Vec<i64>) -> Result<()> {
        self.files.check_process()?;
        sums.clear();
        sums.resize(prefixes.len(), 0);
        let View { packed, runs, version, has_late_removals } = self.look(prefixes, sums)?;
        for packed in &packed {
            packed.count_many(prefixes, sums)?;
        }
        let runs: Vec<&FingerprintSegment> = runs.iter().map(|run| &**run).collect();
        if runs.is_empty() {
            return Ok(());
        }
        self.tend_fronts(&version);
        if !presence || has_late_removals || sums.iter().all(|&sum| sum <= 0) {
            return count_many(&self.files, &runs, prefixes, DEPTH, sums);
        }
        let open: Vec<usize> = (0..sums.len()).filter(|&i| sums[i] <= 0).collect();
        let left: Vec<u64> = open.iter().map(|&i| prefixes[i]).collect();
        let mut found: Vec<i64> = open.iter().map(|&i| sums[i]).collect();
        count_many(&self.files, &runs, &left, DEPTH, &mut found)?;
        open.iter().zip(found).for_each(|(&i, sum)| sums[i] = sum);
        Ok(())
    }

    /// Counts in the logs, and tells what else there is at that moment: each entry is in one place.
    fn look(&self, prefixes: &[u64], sums: &mut [i64]) -> Result<View> {
        self.tree.join_frozen()?;
        let mut slots: Vec<_> = self.slots.iter().map(lock).collect();
        let view = View::of(&self.state());
        let mut entries = Vec::new();
        for slot in slots.iter_mut().filter(|slot| !slot.log.is_empty()) {
            let mask = self.place(slot.class).mask;
            entries.clear();
            entries.extend(prefixes.iter().map(|prefix| prefix & mask));
            slot.log.count_many(&entries, sums);
        }
        Ok(view)
    }
}
