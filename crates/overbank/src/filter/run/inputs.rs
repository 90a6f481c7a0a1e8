//! What a merge reads: runs on flash and in RAM, merged window by window.
//!
//! ```text
//!   run ─▶ cursor ─▶ unpacked blocks ┐
//!   run ─▶ cursor ─▶ unpacked blocks ┼─▶ window: all up to the least last fingerprint of those that have more ─▶ merged
//!   run ─▶ cursor ─▶ unpacked blocks ┘
//! ```
//!
//! Where some inputs are removals, the window of the insertions and that of the removals are merged by themselves, and the latter is
//! taken off the former.
//!
//! 1. Before a window, each input that has more to come has at least half of what is wanted of it. So a window takes that much of each
//!    of equally dense inputs, and its cost for an input, however many there are, is spread over as many fingerprints.
//!
//! | m inputs | RAM |
//! |---|---|
//! | on flash | 256 KiB each, 512 if read ahead |
//! | unpacked | 64 to 128 KiB each of few; of many in RAM 4 to 12 KiB each, and twice as much in the merge of a window |

use super::cursor::RunCursor;
use super::entries::{Entries, Part};
use super::packed::{PackedCursor, PackedRun};
use super::reader::{FingerprintSegment, same_bits};
use super::window::{self, Scratch};
use super::{RunKind, Sign};
use crate::{Error, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Fingerprints wanted of all inputs together: windows are then long beside the work that each one costs.
const WANTED_ALL: usize = 1 << 16;

/// Of each input: four blocks of one on flash, so that two inputs fit a core's second cache; and no less than a block in RAM.
const WANTED: (usize, usize) = (1 << 10, 1 << 13);

/// Something to merge.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    /// A run on flash.
    Flash(&'a FingerprintSegment),
    /// A run in RAM, which the merge keeps until it has taken all of it.
    Memory(Arc<PackedRun>),
}

/// What a merge took from its sources so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Fingerprints that were merged; at the end, those that the sources have in the merge's range.
    pub fingerprints: u64,
    /// Blocks that were unpacked, on flash and in RAM.
    pub blocks: u64,
}

/// All inputs of a merge.
#[derive(Debug)]
pub(super) struct Inputs {
    inputs: Vec<Input>,
    /// Windows of insertions and of removals, where there are both.
    sides: Option<Box<[Entries; 2]>>,
    scratch: Scratch,
    progress: Progress,
}

#[derive(Debug)]
struct Input {
    cursor: Cursor,
    sign: Sign,
    entries: Entries,
    /// Entries that were merged.
    used: usize,
    /// Whether the cursor came to its end.
    is_over: bool,
}

#[derive(Debug)]
enum Cursor {
    Flash(Box<RunCursor>),
    Memory(PackedCursor),
}

impl Source<'_> {
    /// What its fingerprints are.
    pub fn kind(&self) -> RunKind {
        match self {
            Source::Flash(run) => run.kind(),
            Source::Memory(run) => run.kind(),
        }
    }

    /// How many fingerprints it has in `range`, or some blocks' more.
    pub(super) fn fingerprints_within(&self, range: &RangeInclusive<u64>) -> u64 {
        let (all, blocks, within) = match self {
            Source::Flash(run) => {
                let within = run.blocks_of(range);
                (run.fingerprints(), run.blocks(), within.end - within.start)
            }
            Source::Memory(run) => {
                (run.fingerprints(), run.blocks() as u64, run.blocks_of(range).len() as u64)
            }
        };
        (u128::from(all) * u128::from(within) / u128::from(blocks.max(1))) as u64
    }

    fn cursor(&self, range: RangeInclusive<u64>, is_ahead: bool) -> Result<Cursor> {
        Ok(match self {
            Source::Flash(run) => Cursor::Flash(Box::new(run.cursor_within(range, is_ahead)?)),
            Source::Memory(run) => Cursor::Memory(run.cursor(range)),
        })
    }
}

impl Inputs {
    pub(super) fn new(
        kind: RunKind,
        sources: &[Source<'_>],
        range: &RangeInclusive<u64>,
        is_ahead: bool,
    ) -> Result<Self> {
        let inputs = sources.iter().map(|source| {
            let sign = source.kind().sign;
            // Insertions may have removals taken off them; a run of removals has nothing but removals.
            let own = if kind.sign == Sign::Insertions { sign } else { kind.sign };
            same_kind(RunKind { sign: own, ..kind }, source.kind())?;
            let cursor = source.cursor(range.clone(), is_ahead)?;
            Ok(Input { cursor, sign, entries: Entries::default(), used: 0, is_over: false })
        });
        let is_mixed = sources.iter().any(|source| source.kind().sign != kind.sign);
        Ok(Inputs {
            inputs: inputs.collect::<Result<_>>()?,
            sides: is_mixed.then(Box::default),
            scratch: Scratch::default(),
            progress: Progress::default(),
        })
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// Unpacks on where little is left; drops the inputs that are at their end. Whether there is one.
    pub(super) fn fill(&mut self) -> Result<bool> {
        let wanted = (WANTED_ALL / self.inputs.len().max(1)).clamp(WANTED.0, WANTED.1);
        for input in &mut self.inputs {
            self.progress.blocks += input.fill(wanted)?;
        }
        self.inputs.retain(|input| !input.entries.is_empty());
        Ok(!self.inputs.is_empty())
    }

    /// Appends the next window to `out`: all up to the least last fingerprint of the inputs that have more to come. [`Inputs::fill`]
    /// came before it.
    pub(super) fn merge_window(&mut self, out: &mut Entries) {
        let last = |input: &Input| input.entries.fingerprints.last().copied();
        let unfinished = self.inputs.iter().filter(|input| !input.is_over);
        let bound = unfinished.filter_map(last).min().unwrap_or(u64::MAX);
        // Insertions and removals, or all together where there is but one of them.
        let mut parts: [Vec<Part<'_>>; 2] = [Vec::with_capacity(self.inputs.len()), Vec::new()];
        for input in &mut self.inputs {
            let rest = &input.entries.fingerprints[input.used..];
            let end = input.used + rest.partition_point(|&fingerprint| fingerprint <= bound);
            let part = input.entries.all().slice(input.used, end);
            input.used = end;
            if !part.fingerprints.is_empty() {
                self.progress.fingerprints += part.fingerprints.len() as u64;
                let is_other = self.sides.is_some() && input.sign == Sign::Removals;
                parts[usize::from(is_other)].push(part);
            }
        }
        for side in &mut parts {
            side.sort_by_key(|part| std::cmp::Reverse(part.fingerprints.len()));
        }
        match &mut self.sides {
            None => window::merge(&parts[0], &mut self.scratch, out),
            Some(sides) => {
                for (side, parts) in sides.iter_mut().zip(&parts) {
                    side.clear();
                    window::merge(parts, &mut self.scratch, side);
                }
                window::subtract(sides[0].all(), sides[1].all(), out);
            }
        }
    }
}

impl Input {
    /// Unpacks on until there are `wanted` entries, if there are less than half as many. Returns how many blocks it were.
    fn fill(&mut self, wanted: usize) -> Result<u64> {
        let left = self.entries.len() - self.used;
        if left > 0 && (self.is_over || left >= wanted / 2) {
            return Ok(0);
        }
        self.entries.drop_front(self.used);
        self.used = 0;
        let mut blocks = 0;
        while !self.is_over && self.entries.len() < wanted {
            let more = match &mut self.cursor {
                Cursor::Flash(cursor) => cursor.next_block(&mut self.entries)?,
                Cursor::Memory(cursor) => cursor.next_block(&mut self.entries)?,
            };
            self.is_over = !more;
            blocks += u64::from(more);
        }
        Ok(blocks)
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
