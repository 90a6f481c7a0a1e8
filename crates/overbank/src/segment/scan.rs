//! Goes through a segment's blocks in order, a piece ahead.

use super::BODY_BYTES;
use super::format::{DATA_TAG, place_in_page};
use super::reader::{other_page, sealed_body};
use crate::Result;
use crate::device::ahead::Ahead;
use crate::device::block::BlockOwner;
use crate::device::pool::BufferPool;
use crate::device::{BLOCK_BYTES, DeviceFile};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A pass over data blocks in hash order. It lends each body until the next call, and outlives its segment.
#[derive(Debug)]
pub struct Scan {
    path: PathBuf,
    owner: BlockOwner,
    pieces: Ahead,
    /// The blocks of the piece that were not handed out, and how many were.
    buffered: Range<u64>,
    used: usize,
    /// The body of the last page that had several blocks.
    joined: Vec<u8>,
    /// Where the last page begins in the piece, if it is one block.
    page_at: Option<usize>,
}

impl Scan {
    /// Has what is read at a time come from a pool, unless a thread reads ahead.
    pub(crate) fn pooled(mut self, pool: Option<Arc<BufferPool>>) -> Self {
        self.pieces = self.pieces.pooled(pool);
        self
    }

    pub(super) fn new(
        file: Arc<dyn DeviceFile>,
        owner: BlockOwner,
        range: Range<u64>,
        piece_bytes: usize,
        is_ahead: bool,
    ) -> Self {
        let path = PathBuf::from(file.name());
        let bytes = range.start * BLOCK_BYTES as u64..range.end * BLOCK_BYTES as u64;
        let pieces = Ahead::new(file, bytes, piece_bytes, is_ahead);
        Self {
            path,
            owner,
            pieces,
            buffered: range.start..range.start,
            used: 0,
            joined: Vec::new(),
            page_at: None,
        }
    }

    /// The next block's number and body; `None` at the end.
    ///
    /// # Cost
    /// A piece is read in one request, a mebibyte if not asked otherwise.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says; the scan then stays where it is.
    pub fn next_block(&mut self) -> Result<Option<(u64, &[u8])>> {
        let Some(number) = self.fill()? else { return Ok(None) };
        let (at, _) = self.take(number)?;
        Ok(Some((number, self.body_at(at))))
    }

    /// The next page's blocks and body, the bodies of its blocks one after another; `None` at the end. Under fences a block is a page.
    ///
    /// # Cost
    /// As [`Scan::next_block`]; a page of several blocks is copied.
    ///
    /// # Errors
    /// `Corrupt`, also where a page has no beginning or no end in the range; or what the device says. What was read of the page is
    /// then lost.
    pub fn next_page(&mut self) -> Result<Option<(Range<u64>, &[u8])>> {
        let Some(first) = self.fill()? else { return Ok(None) };
        let (at, sequence) = self.take(first)?;
        let (place, blocks) = place_in_page(sequence);
        if place != 0 {
            return Err(other_page(first, 0, blocks, (place, blocks), &self.path));
        }
        self.page_at = (blocks == 1).then_some(at);
        if blocks == 1 {
            return Ok(Some((first..first + 1, self.body_at(at))));
        }
        self.joined.clear();
        self.join(at);
        for place in 1..blocks {
            let number = first + place;
            let Some(_) = self.fill()? else {
                return Err(other_page(number, place, blocks, (0, 0), &self.path));
            };
            let (at, sequence) = self.take(number)?;
            let found = place_in_page(sequence);
            if found != (place, blocks) {
                return Err(other_page(number, place, blocks, found, &self.path));
            }
            self.join(at);
        }
        Ok(Some((first..first + blocks, &self.joined)))
    }

    /// The body of the page that [`Scan::next_page`] gave last.
    #[inline]
    pub(crate) fn page(&self) -> &[u8] {
        self.page_at.map_or(&self.joined, |at| self.body_at(at))
    }

    /// The number of the next block, once it is in the piece; `None` at the end.
    fn fill(&mut self) -> Result<Option<u64>> {
        if self.buffered.is_empty() {
            let blocks = self.pieces.next_piece()?.len() / BLOCK_BYTES;
            if blocks == 0 {
                return Ok(None);
            }
            self.buffered.end += blocks as u64;
            self.used = 0;
        }
        Ok(Some(self.buffered.start))
    }

    /// Passes over block `number`, the next one in the piece, once it is checked: where it begins there, and what its seal says.
    fn take(&mut self, number: u64) -> Result<(usize, u64)> {
        let at = self.used * BLOCK_BYTES;
        let bytes = &self.pieces.piece()[at..at + BLOCK_BYTES];
        let (_, sequence) = sealed_body(bytes, self.owner, number, DATA_TAG, &self.path)?;
        self.buffered.start += 1;
        self.used += 1;
        Ok((at, sequence))
    }

    /// The body of the block that begins at `at` in the piece.
    fn body_at(&self, at: usize) -> &[u8] {
        &self.pieces.piece()[at..at + BODY_BYTES]
    }

    fn join(&mut self, at: usize) {
        let body = &self.pieces.piece()[at..at + BODY_BYTES];
        self.joined.extend_from_slice(body);
    }
}
