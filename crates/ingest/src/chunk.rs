//! A chunk: whole records cut from one input, on their way from the reader to a parser.

use crate::Format;
use crate::cell::ColumnType;
use crate::layout::Layout;
use crate::piece::Place;
use crate::position::Position;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Whole records cut from one input. Dropping it gives its buffer back to the reader.
#[derive(Debug)]
pub struct Chunk {
    pub(crate) sequence: u64,
    pub(crate) input: Arc<Path>,
    pub(crate) input_index: usize,
    pub(crate) layout: Arc<Layout>,
    pub(crate) line: u64,
    pub(crate) body: Buffer,
    /// How many decompressed bytes of the input the chunk stands for.
    pub(crate) consumed: u64,
    pub(crate) position: Position,
    /// Where it starts, if its rows are pieces of sequences.
    pub(crate) place: Option<Arc<Place>>,
    pub(crate) paused: bool,
    pub(crate) since: Instant,
}

impl Chunk {
    /// The chunk's number in the stream, from 0. Batches put in this order are the same for any number of parsers.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The input's path; `-` for stdin.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// The input's number among the expanded inputs, from 0.
    pub fn input_index(&self) -> usize {
        self.input_index
    }

    /// The number of the chunk's first line in its input, from 1 (row number for Parquet).
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Where the stream stands after this chunk.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Whether nothing more may come for long: the input pauses ([`crate::Options::pause`]), another that may be slow is opened
    /// next, or a row has begun that is longer than a chunk. What waits for more should wait no longer.
    pub fn is_before_pause(&self) -> bool {
        self.paused
    }

    /// Whether the chunk's input is Parquet.
    pub fn is_parquet(&self) -> bool {
        matches!(*self.layout, Layout::Parquet { .. })
    }

    /// The types that the chunk's input gives the columns of [`crate::Options::columns`], in their order; only Parquet gives any.
    pub fn column_types(&self) -> Option<&[ColumnType]> {
        match &*self.layout {
            Layout::Parquet { types, .. } => Some(types),
            _ => None,
        }
    }

    /// The format that the chunk's input has, never [`Format::Auto`].
    pub fn format(&self) -> Format {
        self.layout.format()
    }

    /// When its first row can have been there at the earliest, by [`crate::Options::waiter`]: what came later waited less.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Whether it stands for no bytes of the input: it came because it was time.
    pub fn is_empty(&self) -> bool {
        self.consumed == 0 && self.text().is_empty()
    }

    /// The header record of the chunk's input, with its line end; `None` where the format has none.
    pub fn header(&self) -> Option<&[u8]> {
        self.layout.header()
    }

    /// The chunk's records as they stand in the (decompressed) input; those of Parquet in a form of the
    /// reader's own.
    #[inline]
    pub fn text(&self) -> &[u8] {
        self.body.filled()
    }
}

/// Bytes that go back to their pool when dropped. The vector is initialised to its length, of which `filled` bytes
/// are meant: reading into it then costs no zeroing.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    pool: Arc<Pool>,
}

impl Buffer {
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.filled = self.filled.min(len);
    }

    /// The unused part, at least `self.len()..target` of it.
    pub(crate) fn spare(&mut self, target: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            // Fresh from the allocator, large memory is zero already.
            self.bytes = vec![0; target];
        } else if self.bytes.len() < target {
            self.bytes.resize(target, 0);
        }
        &mut self.bytes[self.filled..target]
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.bytes.len());
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let target = self.filled + bytes.len();
        self.spare(target).copy_from_slice(bytes);
        self.filled = target;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.bytes));
    }
}

/// Buffers that wait for their next use: at most as many as were in flight at once, none that a long record has
/// grown past twice the usual size.
#[derive(Debug)]
pub(crate) struct Pool {
    buffers: Mutex<Vec<Vec<u8>>>,
    buffer_bytes: usize,
}

impl Pool {
    pub(crate) fn new(buffer_bytes: usize) -> Arc<Self> {
        Arc::new(Self { buffers: Mutex::new(Vec::new()), buffer_bytes })
    }

    pub(crate) fn take(self: &Arc<Self>) -> Buffer {
        let bytes = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        Buffer { bytes, filled: 0, pool: Arc::clone(self) }
    }

    fn give(&self, bytes: Vec<u8>) {
        if bytes.capacity() > 0 && bytes.capacity() <= 2 * self.buffer_bytes {
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}
