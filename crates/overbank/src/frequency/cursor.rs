//! Reads a range of a log front to back.
//!
//! 1. Blocks are read `chunk_blocks` at a time, and checked and decoded one at a time, when their first update is asked
//!    for: the fences say whether it is.
//!
//! | cost | |
//! |---|---|
//! | RAM | a chunk, and one decoded block |
//! | block reads | the blocks of the range, once |

use super::log::Log;
use super::page::Updates;
use super::place::Shape;
use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES};
use std::ops::Range;

/// A place in a log.
pub(super) struct Cursor<'a> {
    pub(super) log: &'a Log,
    shape: Shape,
    /// Blocks that are not decoded yet.
    blocks: Range<usize>,
    chunk: AlignedBuf,
    /// Blocks that the chunk holds.
    held: Range<usize>,
    units: Vec<u64>,
    weighted: Vec<(u64, i64)>,
    unit_at: usize,
    weighted_at: usize,
}

/// RAM of a cursor beside its chunk: one block of the narrowest records, decoded.
const DECODED_BYTES: usize = 2 * BLOCK_BYTES + 2048;

impl<'a> Cursor<'a> {
    /// RAM of a cursor that reads `chunk_blocks` at a time.
    pub(super) const fn memory_bytes(chunk_blocks: usize) -> usize {
        chunk_blocks * BLOCK_BYTES + DECODED_BYTES
    }

    /// A cursor over the updates of `pages`.
    pub(super) fn new(log: &'a Log, shape: Shape, pages: Range<u64>, chunk_blocks: usize) -> Self {
        let blocks = log.blocks_of(pages.start).start..log.blocks_of(pages.end.saturating_sub(1)).end;
        Cursor {
            log,
            shape,
            chunk: AlignedBuf::zeroed(chunk_blocks.min(blocks.len()).max(1) * BLOCK_BYTES),
            held: blocks.start..blocks.start,
            blocks,
            units: Vec::new(),
            weighted: Vec::new(),
            unit_at: 0,
            weighted_at: 0,
        }
    }

    /// The first page with an update that was not taken, if there is one. It may be below the cursor's range.
    pub(super) fn peek_page(&self) -> Option<u64> {
        let unit = self.units.get(self.unit_at).copied();
        let weighted = self.weighted.get(self.weighted_at).map(|&(entry, _)| entry);
        let decoded = unit.into_iter().chain(weighted).min().map(|entry| self.shape.place().page(entry));
        decoded.or_else(|| {
            let next = self.blocks.clone().next()?;
            self.log.fences.get(next).map(|&fence| fence.into())
        })
    }

    /// Hands out the updates of all pages below `end`, in pieces.
    pub(super) fn take_below(&mut self, end: u64, each: &mut dyn FnMut(Updates<'_>)) -> Result<()> {
        while self.peek_page().is_some_and(|page| page < end) {
            if self.unit_at == self.units.len() && self.weighted_at == self.weighted.len() {
                self.decode_next()?;
            }
            let rest =
                Updates { units: &self.units[self.unit_at..], weighted: &self.weighted[self.weighted_at..] };
            let taken = rest.below(self.shape.place(), end);
            if !taken.is_empty() {
                each(taken);
            }
            self.unit_at += taken.units.len();
            self.weighted_at += taken.weighted.len();
        }
        Ok(())
    }

    fn decode_next(&mut self) -> Result<()> {
        let Some(number) = self.blocks.next() else { return Ok(()) };
        if number >= self.held.end {
            let blocks = (self.chunk.len() / BLOCK_BYTES).min(self.blocks.end - number);
            let chunk = &mut self.chunk[..blocks * BLOCK_BYTES];
            self.log.file.read(number as u64 * BLOCK_BYTES as u64, chunk)?;
            self.held = number..number + blocks;
        }
        let block = &self.chunk[(number - self.held.start) * BLOCK_BYTES..][..BLOCK_BYTES];
        self.units.clear();
        self.weighted.clear();
        (self.unit_at, self.weighted_at) = (0, 0);
        self.log.decode(self.shape, block, number as u64, &mut self.units, &mut self.weighted)
    }
}
