//! Writes a log: updates in hash order into blocks of records of a segment.

use super::format::BlockOfRecords;
use super::page::Updates;
use super::shape::{EntryLayout, Shape};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::segment::{Segment, SegmentKind, SegmentWriter};
use crate::store::Files;

/// Bytes written at a time: of 256 KiB, one composed while one is on its way, the devices measured here make their rate.
const PIECE_BYTES: usize = 64 * BLOCK_BYTES;

/// RAM of a writer: the piece that is composed, and the one on its way.
pub(super) const WRITER_BYTES: usize = 2 * PIECE_BYTES;

/// A log that is being written. Dropped unfinished, it leaves no file.
pub(super) struct Writer {
    segment: SegmentWriter,
    shape: Shape,
    entries: EntryLayout,
    records: BlockOfRecords,
}

impl Writer {
    /// Begins a log in a new file; if `is_behind`, a piece is written while the next is composed.
    pub(super) fn create(files: &Files, shape: Shape, kind: SegmentKind, is_behind: bool) -> Result<Self> {
        let segment = SegmentWriter::create_pieces(files, kind, PIECE_BYTES, is_behind)?;
        Ok(Writer { segment, shape, entries: shape.entry_layout(), records: BlockOfRecords::default() })
    }

    /// Takes updates that do not come before those taken so far.
    pub(super) fn push_all(&mut self, updates: Updates<'_>) -> Result<()> {
        updates.joined(|entry, weight| {
            let (page, dense) = (self.entries.page(entry), self.entries.dense(entry));
            if !self.records.push(self.shape, page, dense, weight) {
                self.put_records()?;
                self.records.push(self.shape, page, dense, weight);
            }
            Ok(())
        })
    }

    /// Writes what is left; the segment is not durable yet. `None`, and no file, if nothing was pushed.
    pub(super) fn finish(mut self) -> Result<Option<Segment>> {
        if !self.records.is_empty() {
            self.put_records()?;
        }
        if self.segment.blocks() == 0 {
            return Ok(None);
        }
        self.segment.finish_open(&[]).map(Some)
    }

    /// Apart from its caller, which takes a thousand records for each block and is inlined where they are joined.
    #[inline(never)]
    fn put_records(&mut self) -> Result<()> {
        let pages = self.records.pages(self.shape);
        let (first, last) = (self.entries.join(*pages.start(), 0), self.entries.join(*pages.end(), 0));
        let (records, shape) = (&mut self.records, self.shape);
        let count = records.len() as u64;
        self.segment.push_block_with(first, last, count, |body| records.encode(shape, body))
    }
}
