//! Merges runs into a new one, a step at a time.
//!
//! ```text
//!   run ─▶ cursor ─▶ decoded blocks ┐                            bound: the least last fingerprint of all inputs
//!   run ─▶ cursor ─▶ decoded blocks ┼─▶ window: all up to the bound ─▶ merged ─▶ writer's backlog ─▶ new run
//!   run ─▶ cursor ─▶ decoded blocks ┘
//! ```
//!
//! 1. Inputs are never changed; an unfinished merge leaves no file.
//! 2. The new run is the same however the merge was cut into steps.

use super::RunKind;
use super::cursor::RunCursor;
use super::entries::{Entries, Part};
use super::reader::{Run, same_bits};
use super::window::{self, Scratch};
use super::writer::{RunInfo, RunWriter};
use crate::store::Files;
use crate::{Error, Result};

/// Blocks decoded at a time: windows are then long beside the work that each one costs, and two inputs fit a core's second cache.
const FILL_BLOCKS: usize = 4;

/// How runs are merged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MergeOptions {
    /// There is nothing below the new run: tombstones have nothing left to take, and are left out.
    pub is_last_level: bool,
    /// Threads read ahead and write behind.
    pub is_threaded: bool,
}

/// A merge of runs under way. Dropped before [`Merge::finish`], it removes its file.
#[derive(Debug)]
pub struct Merge {
    inputs: Vec<Input>,
    /// `None` after an error.
    writer: Option<RunWriter>,
    is_last_level: bool,
    scratch: Scratch,
}

#[derive(Debug)]
struct Input {
    cursor: RunCursor,
    entries: Entries,
    /// Entries that were merged.
    used: usize,
    /// Whether the cursor came to its end.
    is_over: bool,
}

impl Merge {
    /// Begins to merge `runs`, in any order: counts add up.
    ///
    /// # Errors
    /// `Incompatible` if a run's fingerprints are of another kind; what [`Files::create`] says.
    pub fn new(files: &Files, kind: RunKind, runs: &[&Run], options: MergeOptions) -> Result<Self> {
        let inputs = runs.iter().map(|run| {
            same_kind(kind, run.kind())?;
            let cursor = run.cursor(options.is_threaded)?;
            Ok(Input { cursor, entries: Entries::default(), used: 0, is_over: false })
        });
        Ok(Merge {
            inputs: inputs.collect::<Result<_>>()?,
            writer: Some(RunWriter::create(files, kind, options.is_threaded)?),
            is_last_level: options.is_last_level,
            scratch: Scratch::default(),
        })
    }

    /// Merges until about `budget_blocks` blocks were read, at least one window; whether there is more.
    ///
    /// # Cost
    /// `budget_blocks` reads, 4 more for each run, and as many writes.
    ///
    /// # Errors
    /// `Corrupt`; `Full` or `Io`. The merge is then of no use; the runs are as they were.
    pub fn step(&mut self, budget_blocks: u64) -> Result<bool> {
        let Some(mut writer) = self.writer.take() else { return Err(over()) };
        let mut read = 0;
        loop {
            read += self.fill()?;
            if self.inputs.is_empty() {
                self.writer = Some(writer);
                return Ok(false);
            }
            self.merge_window(&mut writer)?;
            if read >= budget_blocks {
                self.writer = Some(writer);
                return Ok(true);
            }
        }
    }

    /// Merges what is left, and syncs the new run.
    ///
    /// # Errors
    /// As [`Merge::step`].
    pub fn finish(mut self) -> Result<RunInfo> {
        self.step(u64::MAX)?;
        self.writer.ok_or_else(over)?.finish()
    }

    /// Decodes on where all is merged; drops the inputs that are at their end. Returns how many blocks were read.
    fn fill(&mut self) -> Result<u64> {
        let mut read = 0;
        for input in self.inputs.iter_mut().filter(|input| input.used == input.entries.len()) {
            input.entries.clear();
            input.used = 0;
            for _ in 0..FILL_BLOCKS {
                if input.is_over || !input.cursor.next_block(&mut input.entries)? {
                    input.is_over = true;
                    break;
                }
                read += 1;
            }
        }
        self.inputs.retain(|input| !input.entries.is_empty());
        Ok(read)
    }

    /// Merges all up to the least last fingerprint of the inputs that have more to come. None of them is without entries.
    fn merge_window(&mut self, writer: &mut RunWriter) -> Result<()> {
        let last = |input: &Input| input.entries.fingerprints.last().copied();
        let unfinished = self.inputs.iter().filter(|input| !input.is_over);
        let bound = unfinished.filter_map(last).min().unwrap_or(u64::MAX);
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(self.inputs.len());
        for input in &mut self.inputs {
            let rest = &input.entries.fingerprints[input.used..];
            let end = input.used + rest.partition_point(|&fingerprint| fingerprint <= bound);
            let part = input.entries.all().slice(input.used, end);
            input.used = end;
            if !part.fingerprints.is_empty() {
                parts.push(part);
            }
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.fingerprints.len()));
        writer.push_with(|backlog| {
            let (start, start_delta) = (backlog.len(), backlog.deltas.len());
            window::merge(&parts, &mut self.scratch, backlog);
            if self.is_last_level {
                backlog.retain(start, start_delta, |count| count > 0);
            }
        })
    }
}

fn same_kind(expected: RunKind, found: RunKind) -> Result<()> {
    same_bits(expected.fingerprint_bits, found.fingerprint_bits)?;
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
    Err(Error::Incompatible { what: "the hash of a run's fingerprints", expected, found })
}

fn over() -> Error {
    let why = "it ended with an error; drop it and begin anew".to_owned();
    Error::InvalidOption { name: "a merge", value: "gone on with".to_owned(), why }
}
