//! Reads a range of a log front to back.
//!
//! 1. Blocks are read `chunk_blocks` at a time, and checked and decoded one at a time, when their first update is asked
//!    for: the fences say whether it is.
//! 2. [`prefetch`] reads what many cursors will need next, all at once; a cursor that it left short reads by itself.
//!
//! | cost | |
//! |---|---|
//! | RAM | a chunk, and one decoded block; [`PREFETCH_BYTES`] while reads are in flight |
//! | block reads | the blocks of the range, once |

use super::log::Log;
use super::page::{Updates, Weighted};
use super::shape::Shape;
use super::writer::Writer;
use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES, FileRead, ReadRequest};
use crate::store::Files;
use std::ops::Range;
use std::sync::Arc;

/// Reads that a prefetch keeps in flight, and their longest in blocks.
const PREFETCH_DEPTH: usize = 32;
const PIECE_BLOCKS: usize = 4;
/// What a device needs for the reads of a prefetch.
pub(super) const PREFETCH_BYTES: usize = PREFETCH_DEPTH * PIECE_BLOCKS * BLOCK_BYTES;

/// How far a reader of a log has come.
pub(super) struct Cursor<'a> {
    pub(super) log: &'a Log,
    shape: Shape,
    /// Blocks that are not decoded yet.
    blocks: Range<u64>,
    chunk: AlignedBuf,
    /// Blocks that the chunk holds.
    held: Range<u64>,
    units: Vec<u64>,
    weighted: Vec<Weighted>,
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
        // The block before the first that begins with the range may reach into it.
        let blocks = log.blocks_below(pages.start).saturating_sub(1)..log.blocks_below(pages.end);
        let most_blocks = usize::try_from(blocks.end - blocks.start).unwrap_or(usize::MAX);
        Cursor {
            log,
            shape,
            chunk: AlignedBuf::zeroed(chunk_blocks.min(most_blocks).max(1) * BLOCK_BYTES),
            held: blocks.start..blocks.start,
            blocks,
            units: Vec::new(),
            weighted: Vec::new(),
            unit_at: 0,
            weighted_at: 0,
        }
    }

    /// Whether there may be updates of pages below `end` that were not taken. They may be below the cursor's range.
    pub(super) fn has_below(&self, end: u64) -> bool {
        let unit = self.units.get(self.unit_at).copied();
        let weighted = self.weighted.get(self.weighted_at).map(|&[entry, _]| entry);
        match unit.into_iter().chain(weighted).min() {
            Some(entry) => self.shape.entry_layout().page(entry) < end,
            None => self.blocks.start < self.blocks.end.min(self.log.blocks_below(end)),
        }
    }

    /// Hands out the updates of all pages below `end`, in pieces.
    pub(super) fn take_below(&mut self, end: u64, each: &mut dyn FnMut(Updates<'_>)) -> Result<()> {
        // Each turn decodes a block, or takes what there is below `end`: then nothing is, or the block is used up.
        while self.has_below(end) {
            if self.unit_at == self.units.len() && self.weighted_at == self.weighted.len() {
                self.decode_next()?;
            }
            let rest =
                Updates { units: &self.units[self.unit_at..], weighted: &self.weighted[self.weighted_at..] };
            let taken = rest.split_below(self.shape.entry_layout(), end).0;
            if !taken.is_empty() {
                each(taken);
            }
            self.unit_at += taken.units.len();
            self.weighted_at += taken.weighted.len();
        }
        Ok(())
    }

    fn decode_next(&mut self) -> Result<()> {
        if self.blocks.start >= self.held.end {
            let more = self.make_room();
            let (file, first) = self.log.place_of(more.start);
            let room = room_of(&mut self.chunk, &self.held, more.clone());
            file.read(first * BLOCK_BYTES as u64, room)?;
            self.held.end = more.end;
        }
        let Some(number) = self.blocks.next() else { return Ok(()) };
        let block = &*room_of(&mut self.chunk, &self.held, number..number + 1);
        self.units.clear();
        self.weighted.clear();
        (self.unit_at, self.weighted_at) = (0, 0);
        self.log.decode(block, number, &mut self.units, &mut self.weighted)
    }

    /// Whether updates of pages below `end` may lie in blocks that were not read.
    fn is_short(&self, end: u64) -> bool {
        let next = self.held.end.max(self.blocks.start);
        next < self.blocks.end.min(self.log.blocks_below(end))
    }

    /// Moves the blocks that are not decoded to the chunk's front; the blocks that then fit behind them.
    fn make_room(&mut self) -> Range<u64> {
        let kept = self.blocks.start.max(self.held.start)..self.held.end.max(self.blocks.start);
        let (from, kept_bytes) = (bytes_of(self.held.start..kept.start), bytes_of(kept.clone()));
        if from > 0 {
            self.chunk.copy_within(from..from + kept_bytes, 0);
        }
        self.held = kept;
        let room = ((self.chunk.len() - kept_bytes) / BLOCK_BYTES) as u64;
        self.held.end..(self.held.end + room).min(self.blocks.end)
    }
}

/// The part of a chunk, which holds the blocks from `held.start` on, that is that of `blocks`.
fn room_of<'c>(chunk: &'c mut [u8], held: &Range<u64>, blocks: Range<u64>) -> &'c mut [u8] {
    &mut chunk[bytes_of(held.start..blocks.start)..][..bytes_of(blocks)]
}

/// The bytes of blocks that one chunk holds, so that they are in RAM.
fn bytes_of(blocks: Range<u64>) -> usize {
    (blocks.end - blocks.start) as usize * BLOCK_BYTES
}

/// Reads on for the cursors that have not all updates of the pages below `end`, as far as their chunks reach.
pub(super) fn prefetch(files: &Files, cursors: &mut [Cursor<'_>], end: u64) -> Result<()> {
    let mut reads = Vec::new();
    let mut rooms = Vec::new();
    let mut ends = Vec::new();
    for (at, cursor) in cursors.iter_mut().enumerate().filter(|(_, cursor)| cursor.is_short(end)) {
        let blocks = cursor.make_room();
        ends.push((at, blocks.end));
        for first in blocks.clone().step_by(PIECE_BLOCKS) {
            let piece = first..(first + PIECE_BLOCKS as u64).min(blocks.end);
            let (file, number) = cursor.log.place_of(first);
            // At most PIECE_BLOCKS of them.
            let bytes = bytes_of(piece.clone()) as u32;
            reads
                .push(FileRead { file, request: ReadRequest { offset: number * BLOCK_BYTES as u64, bytes } });
            rooms.push((at, piece));
        }
    }
    files.read_many(&reads, PREFETCH_DEPTH, &mut |i, bytes| {
        let (at, piece) = &rooms[i];
        let Cursor { chunk, held, .. } = &mut cursors[*at];
        room_of(chunk, held, piece.clone()).copy_from_slice(bytes);
        Ok(())
    })?;
    for (at, end) in ends {
        cursors[at].held.end = end;
    }
    Ok(())
}

/// Pushes what the groups do not hold yet of `logs`, `applied(group)` being the sequence up to which one does.
///
/// RAM: all their updates twice, if one group has them all; and a cursor each.
pub(super) fn merge(
    writer: &mut Writer,
    shape: Shape,
    logs: &[Arc<Log>],
    applied: impl Fn(usize) -> u64,
) -> Result<()> {
    let mut cursors: Vec<Cursor<'_>> =
        logs.iter().map(|log| Cursor::new(log, shape, 0..shape.layout.pages(), 1)).collect();
    let (mut units, mut weighted) = (Vec::new(), Vec::new());
    for group in 0..shape.groups() {
        let end = shape.pages_of(group).end;
        for cursor in &mut cursors {
            let is_news = applied(group) < cursor.log.sequence;
            cursor.take_below(end, &mut |updates| {
                if is_news {
                    units.extend_from_slice(updates.units);
                    weighted.extend_from_slice(updates.weighted);
                }
            })?;
        }
        units.sort_unstable();
        // Stable: what was added to a key comes before what was taken off it.
        weighted.sort_by_key(|&[entry, _]| entry);
        writer.push_all(Updates { units: &units, weighted: &weighted })?;
        units.clear();
        weighted.clear();
    }
    Ok(())
}
