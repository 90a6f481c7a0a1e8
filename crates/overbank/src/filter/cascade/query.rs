//! Looks keys up: in the logs, in the packed runs, and in all runs on flash in one wave of reads.

use super::shared::Shared;
use super::table::{FilterRun, FilterState, FilterVersion};
use crate::Result;
use crate::batch::ask_in_order;
use crate::filter::run::{FingerprintSegment, PackedRun, Sign, Source, count_many};
use std::sync::Arc;

/// Reads in flight.
pub(super) const DEPTH: usize = 128;
/// All packed runs and runs of a moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) packed: Vec<Arc<PackedRun>>,
    pub(super) runs: Vec<Arc<FingerprintSegment>>,
    pub(super) version: Arc<FilterVersion>,
    /// Removals on flash may be of insertions that are in RAM.
    pub(super) has_late_removals: bool,
}

impl View {
    pub(super) fn of(state: &FilterState) -> Self {
        let version = state.version();
        View {
            version: Arc::clone(version),
            has_late_removals: has_late_removals(state),
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

/// Whether removals on flash may be of insertions that are in RAM. All that is older than what is in RAM is on flash: there, no key was
/// removed more often than it was inserted. So a key that is in RAM more often than it was removed there is in the filter, if no newer
/// removals are on flash already.
pub(super) fn has_late_removals(state: &FilterState) -> bool {
    let removes = |run: &FilterRun| {
        run.class.sign == Sign::Removals || run.pieces.iter().any(|piece| piece.tombstones() > 0)
    };
    let mut removals = state.version().runs.iter().filter(|run| removes(run));
    removals.any(|run| state.has_in_memory_up_to(run.span.newest))
}

impl Shared {
    /// Tells `answer` the place of each prefix and the sum of its counts; see [`Shared::sums`].
    pub(super) fn ask(
        &self,
        mut prefixes: impl ExactSizeIterator<Item = u64>,
        presence: bool,
        mut answer: impl FnMut(usize, i64),
    ) -> Result<()> {
        if prefixes.len() == 1 {
            // What a batch makes ready for its keys costs one alone a tenth of its read.
            return prefixes.try_for_each(|prefix| {
                answer(0, self.sum(prefix, presence)?);
                Ok(())
            });
        }
        let at_once = self.options.questions();
        ask_in_order(prefixes, at_once, |prefixes, sums| self.sums(prefixes, presence, sums), answer)
    }

    /// Sets `sums` to the counts of ascending prefixes of hashes, added up over the whole filter; one that is not above 0 says no more
    /// than that, for removals of what is not there are not read. If only their `presence` is of
    /// interest, what is in RAM is not looked for on flash.
    ///
    /// # Cost
    /// At most a block read a prefix and run, all in one wave; neighbouring blocks are read together.
    pub(super) fn sums(&self, prefixes: &[u64], presence: bool, sums: &mut Vec<i64>) -> Result<()> {
        self.usable()?;
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
        let _shards = self.tree.table.shards.count_many(prefixes, sums);
        let mut slots = self.lock_filled();
        let view = View::of(&self.state());
        for slot in slots.iter_mut().filter(|slot| !slot.memtable.is_empty()) {
            let place = self.place(slot.class);
            slot.memtable.count_many(prefixes, place, sums);
        }
        Ok(view)
    }
}
