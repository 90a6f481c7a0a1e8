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

use super::format::{BLOCK_FENCES, FENCES_TAG, RECORDS_TAG, decode_records};
use super::page::Updates;
use super::place::Shape;
use super::writer::Writer;
use crate::device::block::{self, BODY_BYTES, BlockOwner};
use crate::device::{AlignedBuf, BLOCK_BYTES, DeviceFile};
use crate::store::{FileRef, Files};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Blocks that a cursor reads at a time: 32 KiB is where sequential reads of many files reach a device's rate.
const READ_BLOCKS: usize = 8;

/// One flush of the buffer on flash.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) file_ref: FileRef,
    pub(super) file: Arc<dyn DeviceFile>,
    pub(super) sequence: u64,
    pub(super) fences: Vec<u32>,
    pub(super) is_synced: bool,
    owner: BlockOwner,
    path: PathBuf,
}

impl Log {
    /// RAM of a cursor over a log.
    pub(super) const fn cursor_bytes() -> usize {
        READ_BLOCKS * BLOCK_BYTES * 4
    }

    /// Writes what `fill` pushes, in hash order, as a new log; it is not yet synced.
    pub(super) fn write(
        files: &Files,
        shape: Shape,
        sequence: u64,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    ) -> Result<Log> {
        let (id, file) = files.create()?;
        let owner = files.owner(id);
        let mut writer = Writer::new(&*file, owner, shape, sequence);
        let written = fill(&mut writer).and_then(|()| writer.finish());
        let (fences, blocks, xxh3) = match written {
            Ok(written) => written,
            Err(error) => {
                // What is left of it is removed at the next open if not now.
                let _ = files.discard(id);
                return Err(error);
            }
        };
        let file_ref = FileRef { id, bytes: blocks * BLOCK_BYTES as u64, xxh3 };
        Ok(Log { file_ref, file, sequence, fences, is_synced: false, owner, path: files.path(id) })
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
        let mut log = Log { file_ref, file, sequence, fences: Vec::new(), is_synced: true, owner, path };
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

    /// How many blocks of records it has.
    pub(super) fn blocks(&self) -> u64 {
        self.fences.len() as u64
    }

    /// The blocks that may hold records of `page`.
    pub(super) fn blocks_of(&self, page: u64) -> std::ops::Range<usize> {
        let end = self.fences.partition_point(|&fence| u64::from(fence) <= page);
        let first = self.fences.partition_point(|&fence| u64::from(fence) < page);
        // A page may begin in the block before the first that begins with it.
        first.saturating_sub(1).min(end)..end
    }

    /// Checks a block of records and appends its updates.
    pub(super) fn decode(
        &self,
        shape: Shape,
        block: &[u8],
        number: u64,
        units: &mut Vec<u64>,
        weighted: &mut Vec<(u64, i64)>,
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

    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor {
            log: self,
            next_block: 0,
            buffer: AlignedBuf::zeroed(READ_BLOCKS * BLOCK_BYTES),
            units: Vec::new(),
            weighted: Vec::new(),
            unit_at: 0,
            weighted_at: 0,
        }
    }

    fn check(&self, block: &[u8], number: u64, tag: u32) -> Result<()> {
        let found = block::check(block, self.owner, number, &self.path)?;
        require(&self.path, number, "block tag", tag.into(), found.tag.into())?;
        require(&self.path, number, "block sequence", self.sequence, found.sequence)
    }
}

pub(super) fn require(path: &Path, number: u64, what: &'static str, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Corrupt {
        path: path.to_path_buf(),
        at: number * BLOCK_BYTES as u64,
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

/// Reads a log front to back, group by group.
pub(super) struct Cursor<'a> {
    pub(super) log: &'a Log,
    next_block: u64,
    buffer: AlignedBuf,
    units: Vec<u64>,
    weighted: Vec<(u64, i64)>,
    unit_at: usize,
    weighted_at: usize,
}

impl Cursor<'_> {
    /// The page of the next update, if there is one.
    pub(super) fn peek_page(&mut self, shape: Shape) -> Result<Option<u64>> {
        if self.is_spent() && !self.refill(shape)? {
            return Ok(None);
        }
        let unit = self.units.get(self.unit_at).copied();
        let weighted = self.weighted.get(self.weighted_at).map(|&(entry, _)| entry);
        Ok(unit.into_iter().chain(weighted).min().map(|entry| shape.place().page(entry)))
    }

    /// Hands out the updates of all pages below `end`, in pieces.
    pub(super) fn take_below(
        &mut self,
        shape: Shape,
        end: u64,
        each: &mut dyn FnMut(Updates<'_>),
    ) -> Result<()> {
        while self.peek_page(shape)?.is_some_and(|page| page < end) {
            let rest =
                Updates { units: &self.units[self.unit_at..], weighted: &self.weighted[self.weighted_at..] };
            let taken = rest.of_pages(shape.place(), 0, end);
            each(taken);
            self.unit_at += taken.units.len();
            self.weighted_at += taken.weighted.len();
        }
        Ok(())
    }

    fn is_spent(&self) -> bool {
        self.unit_at == self.units.len() && self.weighted_at == self.weighted.len()
    }

    /// Reads the next blocks; false at the end of the log.
    fn refill(&mut self, shape: Shape) -> Result<bool> {
        let blocks = (self.log.blocks() - self.next_block).min(READ_BLOCKS as u64);
        if blocks == 0 {
            return Ok(false);
        }
        let buffer = &mut self.buffer[..blocks as usize * BLOCK_BYTES];
        self.log.file.read(self.next_block * BLOCK_BYTES as u64, buffer)?;
        self.units.clear();
        self.weighted.clear();
        (self.unit_at, self.weighted_at) = (0, 0);
        for (i, block) in buffer.chunks_exact(BLOCK_BYTES).enumerate() {
            let number = self.next_block + i as u64;
            self.log.decode(shape, block, number, &mut self.units, &mut self.weighted)?;
        }
        self.next_block += blocks;
        Ok(true)
    }
}

/// One log in the place of `logs` and `late`: what the groups do not hold yet, `applied(group)` being the sequence up to
/// which one does.
///
/// RAM: all their updates twice, if one group has them all.
pub(super) fn merge(
    files: &Files,
    shape: Shape,
    sequence: u64,
    logs: &[Log],
    late: Updates<'_>,
    applied: impl Fn(usize) -> u64,
) -> Result<Log> {
    Log::write(files, shape, sequence, |writer| {
        let mut cursors: Vec<Cursor<'_>> = logs.iter().map(Log::cursor).collect();
        let (mut units, mut weighted) = (Vec::new(), Vec::new());
        for group in 0..shape.groups() {
            let pages = shape.pages_of(group);
            for cursor in &mut cursors {
                let is_news = applied(group) < cursor.log.sequence;
                cursor.take_below(shape, pages.end, &mut |updates| {
                    if is_news {
                        units.extend_from_slice(updates.units);
                        weighted.extend_from_slice(updates.weighted);
                    }
                })?;
            }
            let late = late.of_pages(shape.place(), pages.start, pages.end);
            units.extend_from_slice(late.units);
            weighted.extend_from_slice(late.weighted);
            units.sort_unstable();
            // Stable: what was added to a key comes before what was taken off it.
            weighted.sort_by_key(|&(entry, _)| entry);
            writer.push_all(Updates { units: &units, weighted: &weighted })?;
            units.clear();
            weighted.clear();
        }
        Ok(())
    })
}
