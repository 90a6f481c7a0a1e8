//! Looks keys up: in the logs, in the packed runs, and in all runs on flash in one wave of reads.

use super::board::Board;
use super::levels::Age;
use super::shared::Shared;
use crate::Result;
use crate::batch::ask_in_order;
use crate::filter::run::{FingerprintSegment, PackedRun, RunKind, Source, count_many};
use crate::lock::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads in flight.
pub(super) const DEPTH: usize = 128;
/// So many packed runs of about the same length are merged when somebody looks keys up in them.
const PACKED_FAN_OUT: usize = 4;

/// All packed runs and runs of a moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) packed: Vec<Arc<PackedRun>>,
    pub(super) runs: Vec<Arc<FingerprintSegment>>,
}

impl View {
    pub(super) fn of(board: &Board) -> Self {
        View {
            packed: board.packed.iter().map(|packed| Arc::clone(&packed.run)).collect(),
            runs: board.runs.iter().flat_map(|run| run.pieces.iter().cloned()).collect(),
        }
    }

    /// All of them, to be merged or searched.
    pub(super) fn sources(&self) -> Vec<Source<'_>> {
        let runs = self.runs.iter().map(|run| Source::Flash(run));
        runs.chain(self.packed.iter().cloned().map(Source::Memory)).collect()
    }
}

impl Shared {
    /// Tells `answer` the place of each prefix and the sum of its counts; see [`Shared::sums`].
    pub(super) fn ask(
        &self,
        prefixes: impl Iterator<Item = u64>,
        presence: bool,
        answer: impl FnMut(usize, i64),
    ) -> Result<()> {
        let at_once = self.options.questions();
        ask_in_order(prefixes, at_once, |prefixes, sums| self.sums(prefixes, presence, sums), answer)
    }

    /// Sets `sums` to the counts of ascending prefixes of hashes, added up over the whole filter. If only their `presence` is of
    /// interest, what is in RAM is not looked for on flash.
    ///
    /// # Cost
    /// At most a block read a prefix and run, all in one wave; neighbouring blocks are read together.
    pub(super) fn sums(&self, prefixes: &[u64], presence: bool, sums: &mut Vec<i64>) -> Result<()> {
        self.files.check_process()?;
        sums.clear();
        sums.resize(prefixes.len(), 0);
        let View { packed, runs } = self.look(prefixes, sums)?;
        for packed in &packed {
            packed.count_many(prefixes, sums)?;
        }
        let runs: Vec<&FingerprintSegment> = runs.iter().map(|run| &**run).collect();
        if runs.is_empty() {
            return Ok(());
        }
        if !presence || sums.iter().all(|&sum| sum <= 0) {
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
        self.join_packed()?;
        let mut slots: Vec<_> = self.slots.iter().map(lock).collect();
        let board = self.board();
        let view = View::of(&board);
        drop(board);
        for slot in slots.iter_mut().filter(|slot| !slot.log.is_empty()) {
            let place = self.place(slot.era);
            slot.log.count_many(prefixes, place, sums);
        }
        Ok(view)
    }

    /// Merges packed runs where there are many, so that lookups need not go through each: those who insert and never ask do
    /// not pay for it.
    pub(super) fn join_packed(&self) -> Result<()> {
        loop {
            let mut board = self.board();
            let Some(ids) = short_packed(&mut board, self.shares.packed_bytes / 8) else {
                self.joined_logs.store(board.logs, Ordering::Relaxed);
                return Ok(());
            };
            let inputs: Vec<_> =
                board.packed.iter().filter(|packed| ids.contains(&packed.id)).cloned().collect();
            drop(board);
            let runs: Vec<Arc<PackedRun>> = inputs.iter().map(|packed| Arc::clone(&packed.run)).collect();
            let (bits, pane) = (inputs[0].bits, inputs[0].pane);
            let joined = PackedRun::merge(RunKind { fingerprint_bits: bits, ..self.kind }, &runs);
            let mut board = self.board();
            let joined = joined.inspect_err(|_| board.release_packed(&ids))?;
            // A pane that was forgotten meanwhile does not come back.
            let is_there = board.packed.iter().any(|packed| ids.contains(&packed.id));
            board.drop_packed(&ids);
            if let Some(age) = Age::joined(inputs.iter().map(|packed| packed.age)).filter(|_| is_there) {
                board.put_packed(joined, bits, pane, age);
            }
        }
    }
}

/// Picks packed runs to be merged, and marks them.
fn short_packed(board: &mut Board, bytes_max: usize) -> Option<Vec<u64>> {
    let class = |bytes: usize| bytes.max(1).ilog2() / PACKED_FAN_OUT.ilog2();
    let mut idle: Vec<_> = (board.packed.iter().filter(|packed| !packed.is_busy))
        .map(|packed| {
            (
                (packed.bits, packed.pane, class(packed.run.memory_bytes())),
                packed.id,
                packed.run.memory_bytes(),
            )
        })
        .collect();
    idle.sort_unstable();
    let alike = idle.chunk_by(|a, b| a.0 == b.0).find(|alike| {
        alike.len() >= PACKED_FAN_OUT && alike.iter().map(|one| one.2).sum::<usize>() <= bytes_max
    })?;
    let ids: Vec<u64> = alike.iter().map(|one| one.1).collect();
    board
        .packed
        .iter_mut()
        .filter(|packed| ids.contains(&packed.id))
        .for_each(|packed| packed.is_busy = true);
    Some(ids)
}
