//! Merges runs into a new one, a step at a time.
//!
//! ```text
//!   runs on flash, packed runs in RAM ─▶ Inputs: window by window, merged ─▶ writer's backlog ─▶ new run
//! ```
//!
//! 1. Inputs are never changed; an unfinished merge leaves no file.
//! 2. The new run is the same however the merge was cut into steps.
//! 3. Merges of the same inputs over adjacent ranges, by a thread each, give runs whose ranges are disjoint: the pieces of one level.

use super::entries::Entries;
use super::front::{FrontBuilder, FrontOrder};
use super::inputs::{Inputs, Progress, Source};
use super::packed::{PackedRun, Packer};
use super::writer::RunWriter;
use super::{FingerprintSegment, RunKind};
use crate::Result;
use crate::error::invalid;
use crate::store::Files;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// How runs are merged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MergeOptions {
    /// Nothing that is older than the newest of the sources is left out of the merge: removals that find nothing here to take have
    /// nothing left to take, and are left out.
    pub is_oldest: bool,
    /// A thread for each source on flash reads what comes next.
    pub is_ahead: bool,
    /// A thread writes.
    pub is_behind: bool,
    /// The front that [`Merge::finish_run`] puts before the new run.
    pub front: Option<FrontOrder>,
}

/// A merge of runs under way. Dropped before [`Merge::finish`], it removes its file.
#[derive(Debug)]
pub struct Merge {
    inputs: Inputs,
    /// `None` after an error.
    writer: Option<RunWriter>,
    is_oldest: bool,
}

impl PackedRun {
    /// Packs the sum of `runs`, as a [`Merge`] to one run in RAM that is asked instead of many. What comes to 0 is left out.
    ///
    /// # Cost
    /// O(n lg m) for n fingerprints in m runs. RAM: the new run beside them, and 16 to 30 KiB a run.
    ///
    /// # Errors
    /// As [`Merge::new`].
    pub fn merge(kind: RunKind, runs: &[Arc<PackedRun>]) -> Result<Self> {
        let mut packer = Packer::new(kind)?;
        let sources: Vec<Source<'_>> = runs.iter().cloned().map(Source::Memory).collect();
        let mut inputs = Inputs::new(kind, &sources, &(0..=u64::MAX), false)?;
        while inputs.fill()? {
            packer.push_with(|backlog| inputs.merge_window(backlog));
        }
        Ok(packer.finish())
    }
}

impl Merge {
    /// Begins to merge what `sources`, in any order, have in `range` of the fingerprints, `0..=u64::MAX` for all: counts add up. Into a
    /// run of insertions removals go too: they annihilate.
    ///
    /// # Errors
    /// `Incompatible` if a source's fingerprints are of another kind, or are insertions in a merge of removals; what
    /// [`Files::create`] says.
    pub fn new(
        files: &Files,
        kind: RunKind,
        sources: &[Source<'_>],
        range: RangeInclusive<u64>,
        options: MergeOptions,
    ) -> Result<Self> {
        let inputs = Inputs::new(kind, sources, &range, options.is_ahead)?;
        let mut writer = RunWriter::create(files, kind, options.is_behind)?;
        let keys: u64 = sources.iter().map(|source| source.fingerprints_within(&range)).sum();
        let is_short =
            |order: &FrontOrder| keys * u64::from(order.shape.bits_a_key) / 8 <= order.bytes_max as u64;
        if let Some(FrontOrder { shape, .. }) = options.front.filter(is_short) {
            writer = writer.with_front(FrontBuilder::new(kind, shape, &range, keys));
        }
        Ok(Merge { inputs, writer: Some(writer), is_oldest: options.is_oldest })
    }

    /// Merges until about `budget_blocks` blocks were unpacked, at least one window; whether there is more. What it did is the change
    /// of [`Merge::progress`].
    ///
    /// # Cost
    /// `budget_blocks` reads at most, up to 4 more for each source, and as many writes.
    ///
    /// # Errors
    /// `Corrupt`; `Full` or `Io`. The merge is then of no use; the sources are as they were.
    pub fn step(&mut self, budget_blocks: u64) -> Result<bool> {
        let Some(mut writer) = self.writer.take() else { return over() };
        let before = self.inputs.progress().blocks;
        let is_oldest = self.is_oldest;
        while self.inputs.fill()? {
            writer.push_with(|backlog| {
                let (start, start_delta) = (backlog.len(), backlog.deltas.len());
                self.inputs.merge_window(backlog);
                if is_oldest {
                    backlog.retain(start, start_delta, |count| count > 0);
                }
            })?;
            if self.inputs.progress().blocks - before >= budget_blocks {
                self.writer = Some(writer);
                return Ok(true);
            }
        }
        self.writer = Some(writer);
        Ok(false)
    }

    /// What was done so far.
    pub fn progress(&self) -> Progress {
        self.inputs.progress()
    }

    /// Merges what is left, and syncs the new run.
    ///
    /// # Errors
    /// As [`Merge::step`].
    #[cfg(any(test, feature = "internals"))]
    pub fn finish(mut self) -> Result<super::RunInfo> {
        self.step(u64::MAX)?;
        match self.writer {
            Some(writer) => writer.finish(),
            None => over(),
        }
    }
}

impl Merge {
    /// [`Merge::finish`], and opens the new run, with its front if it was to have one; `None`, and no file, where nothing was left.
    ///
    /// # Errors
    /// As [`Merge::finish`] and [`FingerprintSegment::open`]; no file is left then.
    pub fn finish_run(mut self, files: &Files) -> Result<Option<FingerprintSegment>> {
        self.step(u64::MAX)?;
        let Some(writer) = self.writer else { return over() };
        let kind = writer.kind();
        let (info, front) = writer.finish_with_front()?;
        if info.fingerprints == 0 {
            files.discard(info.file.id)?;
            return Ok(None);
        }
        let run = FingerprintSegment::open(files, &info.file, kind);
        let run = run.inspect_err(|_| drop(files.discard(info.file.id)))?;
        run.set_front(front);
        Ok(Some(run))
    }
}

/// Goes through the sum of several runs, removals taken off insertions, and writes nothing. It outlives them.
#[derive(Debug)]
pub struct MergedCursor {
    inputs: Inputs,
}

impl MergedCursor {
    /// Begins with the least fingerprint of `sources`.
    ///
    /// # Errors
    /// `Incompatible` if a source's fingerprints are of another kind; what the device says.
    #[cfg(any(test, feature = "internals"))]
    pub fn new(kind: RunKind, sources: &[Source<'_>]) -> Result<Self> {
        Self::within(kind, sources, 0..=u64::MAX)
    }

    /// Goes through the fingerprints in `range` alone.
    ///
    /// # Errors
    /// As [`MergedCursor::new`].
    pub fn within(kind: RunKind, sources: &[Source<'_>], range: RangeInclusive<u64>) -> Result<Self> {
        Ok(MergedCursor { inputs: Inputs::new(kind, sources, &range, false)? })
    }

    /// Appends the next entries, at least one, to `into`, which holds none above them; false at the end.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says. The cursor is then of no use, and `into` holds anything.
    pub fn next_window(&mut self, into: &mut Entries) -> Result<bool> {
        let before = into.len();
        while into.len() == before {
            if !self.inputs.fill()? {
                return Ok(false);
            }
            self.inputs.merge_window(into);
        }
        Ok(true)
    }
}

fn over<T>() -> Result<T> {
    invalid("a merge", "gone on with", "it ended with an error; drop it and begin anew")
}
