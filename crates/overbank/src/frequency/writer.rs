//! Writes a log: updates in hash order into blocks of records, then the fences, hashing as it goes.

use super::format::{BLOCK_FENCES, BlockOfRecords, FENCES_TAG, RECORDS_TAG};
use super::page::Updates;
use super::shape::{EntryLayout, Shape};
use crate::Result;
use crate::device::behind::{Pieces, write_behind};
use crate::device::block::{self, BODY_BYTES, BlockOwner, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Blocks written at a time: of 256 KiB, one composed while one is on its way, the devices measured here make their rate.
const WRITE_BLOCKS: usize = 64;

/// RAM of a writer: the piece that is composed, and the one on its way.
pub(super) const WRITER_BYTES: usize = 2 * WRITE_BLOCKS * BLOCK_BYTES;

/// A log that is being written.
pub(super) struct Writer<'a> {
    pieces: &'a mut Pieces,
    owner: BlockOwner,
    shape: Shape,
    entries: EntryLayout,
    sequence: u64,
    fences: Vec<u32>,
    records: BlockOfRecords,
    /// Blocks in the piece.
    filled: usize,
    hash: Xxh3,
}

/// What a whole log is.
pub(super) struct Written {
    /// The first page of each block of records.
    pub(super) fences: Vec<u32>,
    pub(super) blocks: u64,
    pub(super) xxh3: u128,
}

/// Writes what `fill` pushes, in hash order, to `file`; while the next part is composed if `is_behind`.
pub(super) fn write(
    file: &Arc<dyn DeviceFile>,
    owner: BlockOwner,
    shape: Shape,
    sequence: u64,
    is_behind: bool,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<()>,
) -> Result<Written> {
    write_behind(file, WRITE_BLOCKS * BLOCK_BYTES, is_behind, |pieces| {
        let mut writer = Writer::new(pieces, owner, shape, sequence);
        fill(&mut writer)?;
        writer.finish()
    })
}

impl<'a> Writer<'a> {
    fn new(pieces: &'a mut Pieces, owner: BlockOwner, shape: Shape, sequence: u64) -> Self {
        Writer {
            pieces,
            owner,
            shape,
            entries: shape.entry_layout(),
            sequence,
            fences: Vec::new(),
            records: BlockOfRecords::default(),
            filled: 0,
            hash: Xxh3::new(),
        }
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

    /// Writes what is left.
    fn finish(mut self) -> Result<Written> {
        if !self.records.is_empty() {
            self.put_records()?;
        }
        let fences = std::mem::take(&mut self.fences);
        for part in fences.chunks(BLOCK_FENCES) {
            self.put(FENCES_TAG, |body| {
                body.fill(0);
                let places = body.as_chunks_mut::<4>().0;
                places.iter_mut().zip(part).for_each(|(place, fence)| *place = fence.to_le_bytes());
            })?;
        }
        self.flush()?;
        let blocks = self.blocks();
        // 0 would mean a file written in place.
        Ok(Written { fences, blocks, xxh3: self.hash.digest128().max(1) })
    }

    fn put_records(&mut self) -> Result<()> {
        self.fences.push(self.records.first_page() as u32);
        let mut records = std::mem::take(&mut self.records);
        let shape = self.shape;
        self.put(RECORDS_TAG, |body| records.encode(shape, body))?;
        self.records = records;
        Ok(())
    }

    fn put(&mut self, tag: u32, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let number = self.blocks();
        let block = &mut self.pieces.piece()[self.filled * BLOCK_BYTES..][..BLOCK_BYTES];
        fill(&mut block[..BODY_BYTES]);
        block::seal(block, self.owner, number, Seal { tag, sequence: self.sequence });
        self.filled += 1;
        if self.filled == WRITE_BLOCKS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = self.filled * BLOCK_BYTES;
        if bytes == 0 {
            return Ok(());
        }
        self.hash.update(&self.pieces.piece()[..bytes]);
        self.filled = 0;
        self.pieces.hand_over(bytes)
    }

    /// Blocks so far.
    fn blocks(&self) -> u64 {
        self.pieces.written_bytes() / BLOCK_BYTES as u64 + self.filled as u64
    }
}
