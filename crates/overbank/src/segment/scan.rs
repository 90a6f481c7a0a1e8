//! Goes through a segment's blocks in order, a mebibyte ahead.

use super::Segment;
use super::format::DATA_TAG;
use super::reader::{STREAM_BYTES, body};
use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES};
use std::ops::Range;
use std::path::Path;

/// A pass over data blocks in hash order. It lends each body until the next call.
#[derive(Debug)]
pub struct Scan<'s> {
    segment: &'s Segment,
    /// Blocks that are not in the buffer yet.
    rest: Range<u64>,
    buffer: AlignedBuf,
    /// The blocks in the buffer, and how many of them were handed out.
    buffered: Range<u64>,
    used: usize,
}

impl<'s> Scan<'s> {
    pub(super) fn new(segment: &'s Segment, range: Range<u64>) -> Self {
        Self { segment, rest: range, buffer: AlignedBuf::default(), buffered: 0..0, used: 0 }
    }

    /// The next block's number and body; `None` at the end.
    ///
    /// # Cost
    /// Every 256th call reads 1 MiB in one request.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says; the scan then stays where it is.
    pub fn next_block(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.buffered.is_empty() && !self.fill()? {
            return Ok(None);
        }
        let number = self.buffered.start;
        let place = self.used * BLOCK_BYTES;
        let bytes = &self.buffer[place..place + BLOCK_BYTES];
        let body = body(bytes, self.segment.owner, number, DATA_TAG, Path::new(self.segment.file.name()))?;
        self.buffered.start += 1;
        self.used += 1;
        Ok(Some((number, body)))
    }

    fn fill(&mut self) -> Result<bool> {
        let blocks = (self.rest.end - self.rest.start).min((STREAM_BYTES / BLOCK_BYTES) as u64);
        if blocks == 0 {
            return Ok(false);
        }
        let bytes = blocks as usize * BLOCK_BYTES;
        if self.buffer.len() < bytes {
            self.buffer = AlignedBuf::zeroed(bytes);
        }
        self.segment.file.read(self.rest.start * BLOCK_BYTES as u64, &mut self.buffer[..bytes])?;
        self.buffered = self.rest.start..self.rest.start + blocks;
        self.rest.start += blocks;
        self.used = 0;
        Ok(true)
    }
}
