//! Goes through a segment's blocks in order, a piece ahead.

use super::format::DATA_TAG;
use super::reader::body;
use crate::Result;
use crate::device::ahead::Ahead;
use crate::device::block::BlockOwner;
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
}

impl Scan {
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
        Self { path, owner, pieces, buffered: range.start..range.start, used: 0 }
    }

    /// The next block's number and body; `None` at the end.
    ///
    /// # Cost
    /// A piece is read in one request, a mebibyte if not asked otherwise.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says; the scan then stays where it is.
    pub fn next_block(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.buffered.is_empty() {
            let blocks = self.pieces.next_piece()?.len() / BLOCK_BYTES;
            if blocks == 0 {
                return Ok(None);
            }
            self.buffered.end += blocks as u64;
            self.used = 0;
        }
        let number = self.buffered.start;
        let bytes = &self.pieces.piece()[self.used * BLOCK_BYTES..][..BLOCK_BYTES];
        let body = body(bytes, self.owner, number, DATA_TAG, &self.path)?;
        self.buffered.start += 1;
        self.used += 1;
        Ok(Some((number, body)))
    }
}
