//! Writes a segment as a stream.

use super::fences::{Borders, Fences};
use super::format::{BLOCKS_MAX, DATA_TAG, FENCES_TAG, FOOTER_TAG, Footer, META_TAG};
use super::{BODY_BYTES, SegmentKind};
use crate::device::behind::Pieces;
use crate::device::block::{self, BlockOwner, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile};
use crate::store::{FileId, FileRef, Files};
use crate::{Error, Result};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// One write to the device: as long as the requests that the kernel cuts a write into. Longer ones are not measured yet.
const WRITE_BYTES: usize = 1 << 20;

/// A finished segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    /// What a commit's record names; with the whole file's length and XXH3-128.
    pub file: FileRef,
    /// Data blocks.
    pub blocks: u64,
    /// Entries in them.
    pub entries: u64,
}

/// Writes one segment from its first block to its last.
///
/// Dropped before [`SegmentWriter::finish`], it removes its file.
#[derive(Debug)]
pub struct SegmentWriter {
    files: Files,
    id: FileId,
    file: Arc<dyn DeviceFile>,
    owner: BlockOwner,
    kind: SegmentKind,
    borders: Borders,
    entries: u64,
    sealed: Sealed,
    finished: bool,
}

impl SegmentWriter {
    /// Begins a segment in a new file of the store.
    ///
    /// # Errors
    /// What [`Files::create`] says.
    pub fn create(files: &Files, kind: SegmentKind) -> Result<Self> {
        Self::create_behind(files, kind, false)
    }

    /// [`SegmentWriter::create`]; if `is_behind`, a thread writes a mebibyte while the next is filled.
    ///
    /// # Errors
    /// What [`Files::create`] says.
    pub fn create_behind(files: &Files, kind: SegmentKind, is_behind: bool) -> Result<Self> {
        let (id, file) = files.create()?;
        let sealed = Sealed::new(Arc::clone(&file), is_behind);
        Ok(Self {
            files: files.clone(),
            id,
            file,
            owner: files.owner(id),
            kind,
            borders: Borders::default(),
            entries: 0,
            sealed,
            finished: false,
        })
    }

    /// Adds a block of `entries` entries whose hashes, their 64 most significant bits, go from `first_hash` to
    /// `last_hash`. `body` has at most [`BODY_BYTES`]; the rest of the block is zeros.
    ///
    /// # Cost
    /// A copy, a CRC32C and an XXH3 of 4 KiB; every 256th call writes 1 MiB.
    ///
    /// # Errors
    /// `InvalidOption` if the block is too long, or out of order; `Full` or `Io` from the device.
    pub fn push_block(&mut self, first_hash: u64, last_hash: u64, entries: u64, body: &[u8]) -> Result<()> {
        let last = if self.borders.len() == 0 { 0 } else { self.borders.last_hash() };
        if first_hash < last || last_hash < first_hash {
            return Err(Error::InvalidOption {
                name: "a block's hashes",
                value: format!("{first_hash:#x} to {last_hash:#x}"),
                why: format!("blocks come in hash order, after {last:#x}"),
            });
        }
        if body.len() > BODY_BYTES || self.borders.len() as u64 >= BLOCKS_MAX {
            return Err(Error::InvalidOption {
                name: "a block",
                value: format!("{} bytes, number {}", body.len(), self.borders.len()),
                why: format!("a body has at most {BODY_BYTES} bytes, a segment at most {BLOCKS_MAX} blocks"),
            });
        }
        self.sealed.push(self.owner, DATA_TAG, body)?;
        self.borders.push(first_hash, last_hash);
        self.entries += entries;
        Ok(())
    }

    /// Data blocks so far.
    pub fn blocks(&self) -> u64 {
        self.borders.len() as u64
    }

    /// Writes the fences, the structure's own `meta` bytes and the footer, and syncs the file.
    ///
    /// # Errors
    /// `Full` or `Io` from the device.
    pub fn finish(mut self, meta: &[u8]) -> Result<SegmentInfo> {
        let footer = Footer {
            kind: self.kind,
            blocks: self.blocks(),
            entries: self.entries,
            first_hash: self.borders.first_hash(),
            last_hash: self.borders.last_hash(),
            meta_bytes: meta.len() as u64,
        };
        let fences = Fences::new(&self.borders).encode();
        let parts = [(FENCES_TAG, &*fences), (META_TAG, meta), (FOOTER_TAG, &*footer.encode())];
        for (tag, bytes) in parts {
            for body in bytes.chunks(BODY_BYTES) {
                self.sealed.push(self.owner, tag, body)?;
            }
        }
        self.sealed.flush()?;
        self.sealed.pieces.finish()?;
        self.file.sync()?;
        self.finished = true;
        // 0 stands for a file that is written in place.
        let xxh3 = self.sealed.hash.digest128().max(1);
        let file = FileRef { id: self.id, bytes: self.sealed.number() * BLOCK_BYTES as u64, xxh3 };
        Ok(SegmentInfo { file, blocks: footer.blocks, entries: footer.entries })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What is on its way arrives before the file goes.
            let _ = self.sealed.pieces.finish();
            // If this fails too, the store removes the file when it is next opened for writing.
            let _ = self.files.discard(self.id);
        }
    }
}

/// Seals blocks and writes them in large pieces.
struct Sealed {
    pieces: Pieces,
    /// Bytes of the piece that hold blocks.
    filled: usize,
    hash: Xxh3,
}

impl Sealed {
    fn new(file: Arc<dyn DeviceFile>, is_behind: bool) -> Self {
        Self { pieces: Pieces::new(file, WRITE_BYTES, is_behind), filled: 0, hash: Xxh3::new() }
    }

    /// Blocks sealed so far.
    fn number(&self) -> u64 {
        (self.pieces.written_bytes() + self.filled as u64) / BLOCK_BYTES as u64
    }

    fn push(&mut self, owner: BlockOwner, tag: u32, body: &[u8]) -> Result<()> {
        let number = self.number();
        let block = &mut self.pieces.piece()[self.filled..self.filled + BLOCK_BYTES];
        block[..body.len()].copy_from_slice(body);
        block[body.len()..BODY_BYTES].fill(0);
        block::seal(block, owner, number, Seal { tag, sequence: 0 });
        self.filled += BLOCK_BYTES;
        if self.filled == WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.filled);
        if bytes == 0 {
            return Ok(());
        }
        self.hash.update(&self.pieces.piece()[..bytes]);
        self.pieces.hand_over(bytes)
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} blocks)", self.number())
    }
}
