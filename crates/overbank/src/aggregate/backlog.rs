//! Records that wait on flash: those of leaves whose pages went there.
//!
//! ```text
//!   a file a section   │ leaf 2 │ leaf 0 │ leaf 3 │ leaf 2 │ …       pieces, each of records of one leaf, as they waited in memory
//! ```
//!
//! No commit names such a file: a commit makes runs of what it has, and a crash loses the rows that none has taken in. So the records are
//! as they were in memory, and what is known of a piece, its place and its digest, stays there.
//!
//! A piece that cannot be read is noted in the backlog: no run is made of that, for it would be short, and whoever asks for a key of the
//! leaf is told. It stays so until the piece is read again.
//!
//! | n records of a leaf | CPU | I/O |
//! |---|---|---|
//! | write, read | a copy and a hash of their bytes | their bytes once each, in pieces of some 64 KiB |

use crate::device::{AlignedBuf, BLOCK_BYTES, DeviceFile};
use crate::error::corrupt_bytes;
use crate::store::{FileId, Files};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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

/// What waits on flash for a leaf. Its clones are of the same file, and note together what cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    file: Arc<BacklogFile>,
    pieces: Vec<Piece>,
    bytes: u64,
    /// One more than the number of a piece that could not be read; 0 where there is none.
    unreadable: Arc<AtomicUsize>,
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
        Backlog { file: Arc::clone(file), pieces: Vec::new(), bytes: 0, unreadable: Arc::default() }
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

    /// Where piece `number` is: the file, and the place in it.
    pub(super) fn place(&self, number: usize) -> (PathBuf, u64) {
        (self.file.files.path(self.file.id), self.pieces[number].at)
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

    /// Reads piece `number`, one of [`Backlog::pieces`], into [`Piece::file_bytes`] bytes.
    ///
    /// # Errors
    /// `Corrupt`, with the file and the place of the piece; what the device says.
    pub(super) fn read(&self, number: usize, into: &mut [u8]) -> Result<()> {
        let read = self.read_piece(number, into);
        match &read {
            Err(_) => self.unreadable.store(number + 1, Ordering::Relaxed),
            Ok(()) => {
                // Another piece that is noted was not read here.
                let (relaxed, noted) = (Ordering::Relaxed, number + 1);
                let _ = self.unreadable.compare_exchange(noted, 0, relaxed, relaxed);
            }
        }
        read
    }

    fn read_piece(&self, number: usize, into: &mut [u8]) -> Result<()> {
        let piece = &self.pieces[number];
        self.file.file.read(piece.at, into)?;
        let found = xxh3_64(&into[..piece.bytes]);
        if found == piece.digest {
            return Ok(());
        }
        let (expected, found) = (format!("{:x}", piece.digest), format!("{found:x}"));
        let error = corrupt_bytes(0, "the digest of records that wait", expected, found);
        let (path, at) = self.place(number);
        Err(error.in_file_from(&path, at))
    }

    /// Whether all pieces could be read that were, when each was last tried.
    pub(super) fn is_readable(&self) -> bool {
        self.unreadable.load(Ordering::Relaxed) == 0
    }

    /// Reads the piece that could not be read again, if there is one.
    ///
    /// # Errors
    /// As [`Backlog::read`].
    pub(super) fn read_again(&self) -> Result<()> {
        match self.unreadable.load(Ordering::Relaxed).checked_sub(1) {
            Some(number) => self.check(number, &mut Vec::new()),
            None => Ok(()),
        }
    }

    /// Reads all pieces by way of `buffer`.
    ///
    /// # Errors
    /// As [`Backlog::read`], at the first that cannot be read.
    pub(super) fn verify(&self, buffer: &mut Vec<u8>) -> Result<()> {
        (0..self.pieces.len()).try_for_each(|number| self.check(number, buffer))
    }

    fn check(&self, number: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let bytes = self.pieces[number].file_bytes();
        buffer.resize(buffer.len().max(bytes), 0);
        self.read(number, &mut buffer[..bytes])
    }
}

/// Whether an error says that bytes on flash cannot be had: what else there is can be asked, and may be had later.
pub(super) fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Io { op: "read", .. })
}
