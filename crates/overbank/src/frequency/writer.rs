//! Writes a log: updates in hash order into blocks of records, then the fences, hashing as it goes.

use super::format::{BLOCK_FENCES, BlockOfRecords, FENCES_TAG, RECORDS_TAG};
use super::page::Updates;
use super::place::{Place, Shape};
use crate::Result;
use crate::device::block::{self, BODY_BYTES, BlockOwner, Seal};
use crate::device::{AlignedBuf, BLOCK_BYTES, DeviceFile};
use xxhash_rust::xxh3::Xxh3;

/// Blocks written at a time.
const WRITE_BLOCKS: usize = 64;

/// RAM of a writer.
pub(super) const WRITER_BYTES: usize = WRITE_BLOCKS * BLOCK_BYTES;

/// A log that is being written.
pub(super) struct Writer<'a> {
    file: &'a dyn DeviceFile,
    owner: BlockOwner,
    shape: Shape,
    place: Place,
    sequence: u64,
    fences: Vec<u32>,
    records: BlockOfRecords,
    buffer: AlignedBuf,
    filled: usize,
    written: u64,
    hash: Xxh3,
}

impl<'a> Writer<'a> {
    pub(super) fn new(file: &'a dyn DeviceFile, owner: BlockOwner, shape: Shape, sequence: u64) -> Self {
        Writer {
            file,
            owner,
            shape,
            place: shape.place(),
            sequence,
            fences: Vec::new(),
            records: BlockOfRecords::default(),
            buffer: AlignedBuf::zeroed(WRITER_BYTES),
            filled: 0,
            written: 0,
            hash: Xxh3::new(),
        }
    }

    /// Takes updates that do not come before those taken so far.
    pub(super) fn push_all(&mut self, updates: Updates<'_>) -> Result<()> {
        updates.joined(|entry, weight| {
            let (page, dense) = (self.place.page(entry), self.place.dense(entry));
            if !self.records.push(self.shape, page, dense, weight) {
                self.put_records()?;
                self.records.push(self.shape, page, dense, weight);
            }
            Ok(())
        })
    }

    /// Writes what is left. Returns the first page of each block of records, how many blocks there are in all, and their
    /// hash.
    pub(super) fn finish(mut self) -> Result<(Vec<u32>, u64, u128)> {
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
        // 0 would mean a file written in place.
        Ok((fences, self.written, self.hash.digest128().max(1)))
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
        let block = &mut self.buffer[self.filled * BLOCK_BYTES..][..BLOCK_BYTES];
        fill(&mut block[..BODY_BYTES]);
        let number = self.written + self.filled as u64;
        block::seal(block, self.owner, number, Seal { tag, sequence: self.sequence });
        self.filled += 1;
        if self.filled == WRITE_BLOCKS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = &self.buffer[..self.filled * BLOCK_BYTES];
        if bytes.is_empty() {
            return Ok(());
        }
        self.hash.update(bytes);
        self.file.write(self.written * BLOCK_BYTES as u64, bytes)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}
