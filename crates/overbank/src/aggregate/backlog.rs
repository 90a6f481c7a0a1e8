//! Records that wait on flash: those of leaves whose pages went there.
//!
//! ```text
//!   a file a section   │ leaf 2 │ leaf 0 │ leaf 3 │ leaf 2 │ …       pieces, each of records of one leaf, as they waited in memory
//! ```
//!
//! No commit names such a file: a commit makes runs of what it has, and a crash loses the rows that none has taken in. So the records are
//! as they were in memory, and what is known of a piece, its place and its digest, stays there.
//!
//! | n records of a leaf | CPU | I/O |
//! |---|---|---|
//! | write, read | a copy and a hash of their bytes | their bytes once each, in pieces of some 64 KiB |

use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES, DeviceFile};
use crate::error::corrupt_bytes;
use crate::store::{FileId, Files};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// What a record takes, as a rule.
const RECORD_BYTES: u64 = 16;

/// The file of a section. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct BacklogFile {
    files: Files,
    id: FileId,
    file: Arc<dyn DeviceFile>,
    /// Where the next piece begins.
    end: AtomicU64,
}

/// Records of one leaf, behind each other in its section's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    at: u64,
    bytes: usize,
    digest: u64,
}

/// What waits on flash for a leaf.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    file: Arc<BacklogFile>,
    pieces: Vec<Piece>,
    bytes: u64,
}

impl BacklogFile {
    /// An empty one.
    ///
    /// # Errors
    /// As [`Files::create`].
    pub(super) fn create(files: &Files) -> Result<Arc<BacklogFile>> {
        let (id, file) = files.create()?;
        Ok(Arc::new(BacklogFile { files: files.clone(), id, file, end: AtomicU64::new(0) }))
    }

    /// Writes the first `bytes` of a buffer behind all others; one thread at a time does.
    ///
    /// # Errors
    /// `Full` or `Io`: nothing was added.
    pub(super) fn append(&self, buffer: &mut AlignedBuf, bytes: usize) -> Result<Piece> {
        let end = bytes.next_multiple_of(BLOCK_BYTES);
        buffer[bytes..end].fill(0);
        let at = self.end.load(Ordering::Relaxed);
        self.file.write(at, &buffer[..end])?;
        self.end.store(at + end as u64, Ordering::Relaxed);
        Ok(Piece { at, bytes, digest: xxh3_64(&buffer[..bytes]) })
    }
}

impl Drop for BacklogFile {
    fn drop(&mut self) {
        // What cannot be removed, the store removes when it is next opened.
        drop(self.files.discard(self.id));
    }
}

impl Piece {
    /// Bytes of its records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that it takes in its file.
    pub(super) fn file_bytes(&self) -> usize {
        self.bytes.next_multiple_of(BLOCK_BYTES)
    }
}

impl Backlog {
    pub(super) fn new(file: &Arc<BacklogFile>) -> Backlog {
        Backlog { file: Arc::clone(file), pieces: Vec::new(), bytes: 0 }
    }

    pub(super) fn file(&self) -> &Arc<BacklogFile> {
        &self.file
    }

    pub(super) fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
        self.bytes += piece.file_bytes() as u64;
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Bytes in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// About how many records there are, one at least.
    pub(super) fn records(&self) -> u64 {
        (self.bytes / RECORD_BYTES).max(1)
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
    }

    /// Reads a piece into [`Piece::file_bytes`] bytes.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(super) fn read(&self, piece: &Piece, into: &mut [u8]) -> Result<()> {
        self.file.file.read(piece.at, into)?;
        let found = xxh3_64(&into[..piece.bytes]);
        if found == piece.digest {
            return Ok(());
        }
        let (expected, found) = (format!("{:x}", piece.digest), format!("{found:x}"));
        let error = corrupt_bytes(0, "the digest of records that wait", expected, found);
        Err(error.in_file_from(&self.file.files.path(self.file.id), piece.at))
    }
}
