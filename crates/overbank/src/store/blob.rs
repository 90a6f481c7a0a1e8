//! A blob: bytes in the bodies of a data file's sealed blocks, written and read front to back.
//!
//! ```text
//!   block 0:  │ length u64 │ bytes …      │ seal │      block 1:  │ bytes …  │ zeros │ seal │
//! ```
//!
//! 1. The length is known before the first byte is written, and fits the number of blocks exactly.
//! 2. What a reader hands out is from a block whose seal was checked; padding and the hash of the file are checked at the
//!    end, by `finish`.
//!
//! Cost: one block written or read for each 4080 bytes, 64 at a time; 256 KiB of RAM.

use super::files::{STREAM_BYTES, corrupt, nonzero, same_hash};
use super::format::{BLOB_HEADER_BYTES, BLOB_TAG, is_zero};
use super::{FileId, FileRef, Files};
use crate::device::block::{self, BODY_BYTES, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile, require_memory};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

impl Files {
    /// Writes `bytes` into a new file in sealed blocks and syncs it. Written by [`prepare`](super::Participant::prepare), on its
    /// thread, it belongs to that commit: it is removed with it if the commit fails, or does not name it.
    ///
    /// # Cost
    /// `bytes / 4080` block writes; 256 KiB of RAM.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<FileRef> {
        self.write_blob_with(bytes.len(), |sink| sink(bytes))
    }

    /// [`Files::write_blob`] of the `total_bytes` bytes that `write` gives to its sink piece by piece.
    ///
    /// # Errors
    /// What `write` returns; `InvalidOption` if it gave another number of bytes. The file is then removed.
    pub fn write_blob_with(
        &self,
        total_bytes: usize,
        write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<FileRef> {
        let mut writer = BlobWriter::create(self, total_bytes)?;
        write(&mut |bytes| writer.push(bytes))?;
        writer.finish()
    }

    /// Reads what [`Files::write_blob`] wrote.
    ///
    /// # Errors
    /// `Corrupt` if a block, the length or the whole-file hash is wrong.
    pub fn read_blob(&self, file_ref: &FileRef) -> Result<Vec<u8>> {
        self.read_blob_with(file_ref, |total_bytes, source| {
            let mut bytes = vec![0; total_bytes];
            source(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// Lets `read(total_bytes, source)` fetch the bytes of a blob piece by piece. What `source` gives is from blocks whose
    /// seals were checked; padding and whole-file hash are checked when `read` is done, and what it made is then
    /// dropped if they are wrong.
    ///
    /// # Errors
    /// As [`Files::read_blob`], and what `read` returns.
    pub fn read_blob_with<T>(
        &self,
        file_ref: &FileRef,
        read: impl FnOnce(usize, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<T>,
    ) -> Result<T> {
        let mut reader = BlobReader::open(self, file_ref)?;
        require_memory("a summary in the store", reader.left())?;
        let made = read(reader.left(), &mut |into| reader.pull(into));
        let made = made.map_err(|error| error.in_file(&self.path(file_ref.id)))?;
        reader.finish()?;
        Ok(made)
    }
}

/// A blob being written: a buffer of blocks, sealed and written whenever it is full.
struct BlobWriter<'a> {
    files: &'a Files,
    id: FileId,
    file: Arc<dyn DeviceFile>,
    hash: Xxh3,
    buffer: Vec<u8>,
    /// The number of the first block of the buffer.
    number: u64,
    /// The block of the buffer that is being filled, and how much of its body is.
    block: usize,
    filled: usize,
    left: usize,
    is_finished: bool,
}

impl Drop for BlobWriter<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // If this fails too, the store removes the file when it is next opened for writing.
            let _ = self.files.discard(self.id);
        }
    }
}

impl<'a> BlobWriter<'a> {
    pub(super) fn create(files: &'a Files, total_bytes: usize) -> Result<Self> {
        let (id, file) = files.create_blob()?;
        let blocks = BLOB_HEADER_BYTES.saturating_add(total_bytes).div_ceil(BODY_BYTES);
        let mut buffer = vec![0; (STREAM_BYTES / BLOCK_BYTES).min(blocks) * BLOCK_BYTES];
        buffer[..BLOB_HEADER_BYTES].copy_from_slice(&(total_bytes as u64).to_le_bytes());
        let (number, block, filled) = (0, 0, BLOB_HEADER_BYTES);
        let (hash, left, is_finished) = (Xxh3::new(), total_bytes, false);
        Ok(Self { files, id, file, hash, buffer, number, block, filled, left, is_finished })
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        let Some(left) = self.left.checked_sub(bytes.len()) else { return Err(other_total(0)) };
        self.left = left;
        while !bytes.is_empty() {
            if self.block * BLOCK_BYTES == self.buffer.len() {
                self.flush()?;
            }
            let body = &mut self.buffer[self.block * BLOCK_BYTES..][self.filled..BODY_BYTES];
            let (part, rest) = bytes.split_at(bytes.len().min(body.len()));
            body[..part.len()].copy_from_slice(part);
            self.filled += part.len();
            bytes = rest;
            if self.filled == BODY_BYTES {
                (self.block, self.filled) = (self.block + 1, 0);
            }
        }
        Ok(())
    }

    /// Seals and writes the blocks of the buffer.
    fn flush(&mut self) -> Result<()> {
        if self.filled > 0 {
            self.buffer[self.block * BLOCK_BYTES..][self.filled..BODY_BYTES].fill(0);
            (self.block, self.filled) = (self.block + 1, 0);
        }
        let out = &mut self.buffer[..self.block * BLOCK_BYTES];
        for (number, block) in (self.number..).zip(out.chunks_exact_mut(BLOCK_BYTES)) {
            block::seal(block, self.files.owner(self.id), number, Seal { tag: BLOB_TAG, sequence: 0 });
        }
        self.hash.update(out);
        self.file.write(self.number * BLOCK_BYTES as u64, out)?;
        self.number += self.block as u64;
        self.block = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<FileRef> {
        if self.left > 0 {
            return Err(other_total(self.left));
        }
        if self.block > 0 || self.filled > 0 {
            self.flush()?;
        }
        self.file.sync()?;
        self.is_finished = true;
        let bytes = self.number * BLOCK_BYTES as u64;
        Ok(FileRef { id: self.id, bytes, xxh3: nonzero(self.hash.digest128()) })
    }
}

fn other_total(missing_bytes: usize) -> Error {
    let why = match missing_bytes {
        0 => "more bytes were written than announced".to_owned(),
        missing => format!("{missing} bytes fewer were written than announced"),
    };
    Error::InvalidOption { name: "total_bytes", value: missing_bytes.to_string(), why }
}

/// A blob being read: a buffer of blocks whose seals were checked.
struct BlobReader<'a> {
    files: &'a Files,
    file_ref: &'a FileRef,
    path: PathBuf,
    file: Arc<dyn DeviceFile>,
    hash: Xxh3,
    buffer: Vec<u8>,
    /// How much of the file was read, in bytes.
    at: u64,
    /// The block of the buffer that is being taken, and how much of its body was.
    block: usize,
    taken: usize,
    left: usize,
}

impl<'a> BlobReader<'a> {
    pub(super) fn open(files: &'a Files, file_ref: &'a FileRef) -> Result<Self> {
        let file = files.open(file_ref)?;
        let path = files.path(file_ref.id);
        let buffer = vec![0; STREAM_BYTES.min(usize::try_from(file_ref.bytes).unwrap_or(usize::MAX))];
        let (at, block, taken) = (0, 0, BLOB_HEADER_BYTES);
        let mut reader =
            Self { files, file_ref, path, file, hash: Xxh3::new(), buffer, at, block, taken, left: 0 };
        reader.load()?;
        let declared = reader.buffer.first_chunk().map_or(0, |header| u64::from_le_bytes(*header));
        reader.left = blob_bytes(declared, file_ref.bytes, &reader.path)?;
        Ok(reader)
    }

    /// How many bytes of the blob are not yet pulled.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Reads the blocks that follow into the buffer.
    fn load(&mut self) -> Result<()> {
        let bytes = (self.file_ref.bytes - self.at).min(self.buffer.len() as u64) as usize;
        self.buffer.truncate(bytes / BLOCK_BYTES * BLOCK_BYTES);
        self.file.read(self.at, &mut self.buffer)?;
        self.hash.update(&self.buffer);
        for (number, block) in (self.at / BLOCK_BYTES as u64..).zip(self.buffer.chunks_exact(BLOCK_BYTES)) {
            let seal = block::check(block, self.files.owner(self.file_ref.id), number, &self.path)?;
            if seal.tag != BLOB_TAG {
                let (expected, found) = (format!("{BLOB_TAG:#010x}"), format!("{:#010x}", seal.tag));
                return Err(corrupt(&self.path, number * BLOCK_BYTES as u64, "block tag", expected, found));
            }
        }
        self.at += self.buffer.len() as u64;
        self.block = 0;
        Ok(())
    }

    pub(super) fn pull(&mut self, mut into: &mut [u8]) -> Result<()> {
        let Some(left) = self.left.checked_sub(into.len()) else {
            let (expected, found) = (format!("{} more bytes", into.len()), self.left.to_string());
            return Err(corrupt(&self.path, self.at, "blob bytes", expected, found));
        };
        self.left = left;
        while !into.is_empty() {
            if self.block * BLOCK_BYTES == self.buffer.len() {
                self.load()?;
            }
            let body = &self.buffer[self.block * BLOCK_BYTES..][self.taken..BODY_BYTES];
            let part = body.len().min(into.len());
            let (filled, rest) = into.split_at_mut(part);
            filled.copy_from_slice(&body[..part]);
            into = rest;
            self.taken += part;
            if self.taken == BODY_BYTES {
                (self.block, self.taken) = (self.block + 1, 0);
            }
        }
        Ok(())
    }

    /// Checks what nobody pulled: the rest, the padding, and the hash of the whole file.
    pub(super) fn finish(mut self) -> Result<()> {
        let mut rest = [0; BODY_BYTES];
        while self.left > 0 {
            let part = self.left.min(BODY_BYTES);
            self.pull(&mut rest[..part])?;
        }
        let padding = self.buffer.get(self.block * BLOCK_BYTES + self.taken..).unwrap_or(&[]);
        if self.taken > 0 && !is_zero(&padding[..BODY_BYTES - self.taken]) {
            let at = self.at - BLOCK_BYTES as u64;
            return Err(corrupt(&self.path, at, "padding", "zeros".to_owned(), "other bytes".to_owned()));
        }
        same_hash(&self.path, self.file_ref, nonzero(self.hash.digest128()))
    }
}

fn blob_bytes(declared: u64, file_bytes: u64, path: &Path) -> Result<usize> {
    let blocks =
        declared.checked_add(BLOB_HEADER_BYTES as u64).map(|bytes| bytes.div_ceil(BODY_BYTES as u64));
    if blocks != Some(file_bytes / BLOCK_BYTES as u64) {
        let expected = format!("as many as fill {file_bytes} bytes of blocks");
        return Err(corrupt(path, 0, "blob bytes", expected, declared.to_string()));
    }
    usize::try_from(declared)
        .map_err(|_| corrupt(path, 0, "blob bytes", "addressable".into(), declared.to_string()))
}
