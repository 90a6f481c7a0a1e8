//! Logged updates: one immutable file a flush of the buffer, in hash order, so that a group's chunk in it is one range.
//!
//! ```text
//!   buffer ─▶ sort ─▶ join equal entries ─▶ blocks of records │ fences        group 0 │ group 1 │ …  are ranges of blocks
//!                                                  ▲                 ▲
//!                     apply: Cursor, front to back ┘                 └ estimate: fences in RAM name the block of a page
//! ```
//!
//! 1. A log is whole before anything refers to it, and never changes.
//! 2. Blocks of records are in hash order; `fences[i]` is the first page of block `i`.
//! 3. Equal entries are joined: a stream of few keys is a log of few records.
//! 4. Logs that together take less than an eighth of a group are merged into one when there would be too many: many small
//!    commits then do not make passes over the pages.
//!
//! | | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | write | a copy of each record | 0 | records / 1018 at 4 bytes | 256 KiB |
//! | cursor | a copy of each record | the log, once | 0 | 32 KiB |
//! | a page's records | one block's decoding | 1, seldom 2 | 0 | 4 bytes a block |

use super::format::{BLOCK_FENCES, FENCES_TAG, RECORDS_TAG, decode_records, require};
use super::page::Weighted;
use super::shape::Shape;
use super::writer::{self, Writer, Written};
use crate::batch::gallop;
use crate::device::block::{self, BODY_BYTES, BlockOwner};
use crate::device::{AlignedBuf, BLOCK_BYTES, DeviceFile};
use crate::store::{FileRef, Files};
use crate::{Error, Result};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One flush of the buffer on flash.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) file_ref: FileRef,
    pub(super) file: Arc<dyn DeviceFile>,
    pub(super) sequence: u64,
    pub(super) fences: Vec<u32>,
    is_synced: AtomicBool,
    owner: BlockOwner,
    path: PathBuf,
}

impl Log {
    /// Writes what `fill` pushes, in hash order, as a new log; it is not yet synced.
    pub(super) fn write(
        files: &Files,
        shape: Shape,
        sequence: u64,
        is_behind: bool,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    ) -> Result<Log> {
        let (id, file) = files.create()?;
        let owner = files.owner(id);
        let written = writer::write(&file, owner, shape, sequence, is_behind, fill);
        let Written { fences, blocks, xxh3 } = match written {
            Ok(written) => written,
            Err(error) => {
                // What is left of it is removed at the next open if not now.
                let _ = files.discard(id);
                return Err(error);
            }
        };
        let file_ref = FileRef { id, bytes: blocks * BLOCK_BYTES as u64, xxh3 };
        Ok(Log {
            file_ref,
            file,
            sequence,
            fences,
            is_synced: AtomicBool::new(false),
            owner,
            path: files.path(id),
        })
    }

    /// Opens a committed log of `blocks` blocks of records.
    pub(super) fn open(
        files: &Files,
        shape: Shape,
        file_ref: FileRef,
        sequence: u64,
        blocks: u64,
    ) -> Result<Log> {
        let (owner, path) = (files.owner(file_ref.id), files.path(file_ref.id));
        let fence_blocks = blocks.div_ceil(BLOCK_FENCES as u64);
        let all = blocks.checked_add(fence_blocks).and_then(|all| all.checked_mul(BLOCK_BYTES as u64));
        if all != Some(file_ref.bytes) || blocks == 0 {
            let (expected, found) = (format!("{all:?}"), file_ref.bytes.to_string());
            return Err(Error::Corrupt { path, at: 0, what: "bytes of a log", expected, found });
        }
        let file = files.open(&file_ref)?;
        let mut log = Log {
            file_ref,
            file,
            sequence,
            fences: Vec::new(),
            is_synced: AtomicBool::new(true),
            owner,
            path,
        };
        let mut buffer = AlignedBuf::zeroed(BLOCK_BYTES);
        for number in blocks..blocks + fence_blocks {
            log.file.read(number * BLOCK_BYTES as u64, &mut buffer)?;
            log.check(&buffer, number, FENCES_TAG)?;
            let left = blocks as usize - log.fences.len();
            let fences =
                buffer[..BODY_BYTES].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            log.fences.extend(fences.take(left));
        }
        let last = log.fences.last().copied().unwrap_or(0);
        if !log.fences.is_sorted() || u64::from(last) >= shape.layout.pages() {
            let expected = format!("ascending, below {}", shape.layout.pages());
            let (path, at) = (log.path.clone(), blocks * BLOCK_BYTES as u64);
            return Err(Error::Corrupt { path, at, what: "fences", expected, found: "others".into() });
        }
        Ok(log)
    }

    /// Makes it durable, unless it is.
    pub(super) fn sync(&self) -> Result<()> {
        if !self.is_synced.load(Ordering::Acquire) {
            self.file.sync()?;
            self.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// How many blocks of records it has.
    pub(super) fn blocks(&self) -> u64 {
        self.fences.len() as u64
    }

    /// The blocks that may hold records of `page`.
    pub(super) fn blocks_of(&self, page: u64) -> Range<usize> {
        self.blocks_from(&mut 0, page)
    }

    /// As [`blocks_of`](Self::blocks_of), quick for pages that ascend: `from` is 0 at first, and then where the last look left it.
    pub(super) fn blocks_from(&self, from: &mut usize, page: u64) -> Range<usize> {
        *from += gallop(&self.fences[*from..], |&fence| u64::from(fence) < page);
        let end = *from + gallop(&self.fences[*from..], |&fence| u64::from(fence) <= page);
        // A page may begin in the block before the first that begins with it.
        from.saturating_sub(1)..end
    }

    /// Checks a block of records and appends its updates.
    pub(super) fn decode(
        &self,
        shape: Shape,
        block: &[u8],
        number: u64,
        units: &mut Vec<u64>,
        weighted: &mut Vec<Weighted>,
    ) -> Result<()> {
        self.check(block, number, RECORDS_TAG)?;
        let body = block.get(..BODY_BYTES).unwrap_or_default();
        decode_records(body, shape, units, weighted).ok_or_else(|| Error::Corrupt {
            path: self.path.clone(),
            at: number * BLOCK_BYTES as u64,
            what: "records",
            expected: "in hash order and in range".into(),
            found: "others".into(),
        })
    }

    fn check(&self, block: &[u8], number: u64, tag: u32) -> Result<()> {
        let found = block::check(block, self.owner, number, &self.path)?;
        require(&self.path, number, "block tag", tag.into(), found.tag.into())?;
        require(&self.path, number, "block sequence", self.sequence, found.sequence)
    }
}
