//! An open file: its length, whole reads and whole writes by positional calls.

use super::{calls, errors};
use crate::device::BLOCK_BYTES;
use crate::{Error, Result};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// An open file and what is known of it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Whether it was opened with O_DIRECT.
    pub(super) direct: bool,
}

impl Opened {
    pub(super) fn len_bytes(&self) -> Result<u64> {
        let metadata = self.file.metadata().map_err(|e| errors::classify("inspect", &self.path, 0, e))?;
        Ok(metadata.len())
    }

    /// Fills `into`, continuing short reads.
    pub(super) fn read_exact(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            let at = offset.checked_add(filled as u64).ok_or_else(|| self.past_end(offset, into.len()))?;
            match calls::read_at(&self.file, &mut into[filled..], at) {
                Ok(read) => {
                    let advance = self.progress(read);
                    if advance == 0 {
                        return Err(self.past_end(offset, into.len()));
                    }
                    filled += advance;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.read_failed(offset, into.len(), e)),
            }
        }
        Ok(())
    }

    /// How much of a short read to keep, so that a direct read goes on at a block border.
    pub(super) fn progress(&self, read_bytes: usize) -> usize {
        if self.direct { read_bytes / BLOCK_BYTES * BLOCK_BYTES } else { read_bytes }
    }

    pub(super) fn read_failed(&self, offset: u64, bytes: usize, error: io::Error) -> Error {
        // Offsets past what the kernel can address come from damaged bytes too.
        if offset.checked_add(bytes as u64).is_none_or(|end| end > i64::MAX as u64) {
            return self.past_end(offset, bytes);
        }
        errors::classify("read", &self.path, 0, error)
    }

    /// The error for a read beyond the file's length.
    pub(super) fn past_end(&self, offset: u64, bytes: usize) -> Error {
        match self.len_bytes() {
            Ok(len) => Error::Corrupt {
                path: self.path.clone(),
                at: offset,
                what: "the file's length",
                expected: format!("at least {}", u128::from(offset) + bytes as u128),
                found: len.to_string(),
            },
            Err(e) => e,
        }
    }

    /// Writes all of `data`, continuing short writes.
    pub(super) fn write_all(&self, offset: u64, data: &[u8]) -> Result<()> {
        let failed = |e: io::Error| errors::classify("write", &self.path, data.len() as u64, e);
        let mut written = 0;
        while written < data.len() {
            let at =
                offset.checked_add(written as u64).ok_or_else(|| failed(ErrorKind::FileTooLarge.into()))?;
            match calls::write_at(&self.file, &data[written..], at) {
                Ok(n) => {
                    // A write that makes no progress is a full device that did not say so.
                    let advance = if n == data.len() - written { n } else { self.progress(n) };
                    if advance == 0 {
                        return Err(failed(ErrorKind::StorageFull.into()));
                    }
                    written += advance;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }
}

/// Offsets and lengths are whole blocks (the trait's invariant 1).
pub(super) fn check_aligned(offset: u64, bytes: usize) -> Result<()> {
    let (name, value) = if !offset.is_multiple_of(BLOCK_BYTES as u64) {
        ("offset", offset)
    } else if !bytes.is_multiple_of(BLOCK_BYTES) {
        ("length", bytes as u64)
    } else {
        return Ok(());
    };
    let why = format!("reads and writes are multiples of {BLOCK_BYTES} bytes");
    Err(Error::InvalidOption { name, value: value.to_string(), why })
}
