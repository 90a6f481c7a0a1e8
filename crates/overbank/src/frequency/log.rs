//! Logged updates: a segment a flush of the buffer, whose blocks hold records, so that a group's chunk in it is one range.
//!
//! ```text
//!   buffer ─▶ sort ─▶ join equal entries ─▶ blocks of records ─▶ segment        group 0 │ group 1 │ …  are ranges of blocks
//!                                                                 ▲     ▲
//!                               apply: Cursor, front to back ─────┘     └───── estimate: fences in RAM name the block of a page
//! ```
//!
//! 1. A log is whole before anything refers to it, and never changes.
//! 2. Its blocks are in hash order, and go by their pages: the hash that a block begins or ends with is where its first or last page
//!    begins.
//! 3. Equal entries are joined: a stream of few keys is a log of few records.
//! 4. Logs that together take less than an eighth of a group are merged into one when there would be too many: many small
//!    commits then do not make passes over the pages.
//!
//! | | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | write | a copy of each record | 0 | records / 1018 at 4 bytes, and what follows a segment's data | 256 KiB, 512 where it is written behind |
//! | cursor | a copy of each record | the log, once | 0 | 32 KiB |
//! | a page's records | one block's decoding | 1, seldom 2 | 0 | 4.5 bytes a block |

use super::format::decode_records;
use super::page::Weighted;
use super::shape::Shape;
use super::writer::Writer;
use crate::device::{BLOCK_BYTES, DeviceFile};
use crate::error::corrupt;
use crate::segment::{Segment, SegmentKind};
use crate::sketch::HashId;
use crate::store::{FileRef, Files, registry};
use crate::{Error, Result};
use std::ops::Range;

/// One flush of the buffer on flash.
#[derive(Debug)]
pub(super) struct Log {
    segment: Segment,
    shape: Shape,
    pub(super) sequence: u64,
}

/// What the segment of a log under this hash is of.
pub(super) fn kind(hash_id: HashId) -> SegmentKind {
    let HashId { kind: hash_kind, seed_fingerprint } = hash_id;
    SegmentKind { structure: registry::FREQUENCY_LOG.structure(), seed_fingerprint, hash_kind }
}

impl Log {
    /// Writes what `fill` pushes, in hash order, as a new log, which is not yet synced; `None` if it pushes nothing.
    pub(super) fn write(
        files: &Files,
        (shape, hash_id): (Shape, HashId),
        sequence: u64,
        is_behind: bool,
        fill: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<Option<Log>> {
        let mut writer = Writer::create(files, shape, kind(hash_id), is_behind)?;
        fill(&mut writer)?;
        Ok(writer.finish()?.map(|segment| Log { segment, shape, sequence }))
    }

    /// Opens a committed log.
    pub(super) fn open(
        files: &Files,
        (shape, hash_id): (Shape, HashId),
        file_ref: FileRef,
        sequence: u64,
    ) -> Result<Log> {
        let segment = Segment::open(files, &file_ref, kind(hash_id))?;
        let pages = shape.layout.pages();
        let last = segment.hash_range().map(|(_, last)| shape.entry_layout().page(last));
        if last.is_none_or(|last| last >= pages) {
            let found = last.map_or_else(|| "no page".to_owned(), |last| format!("page {last}"));
            return Err(corrupt(
                segment.path(),
                0,
                "the last page of a log",
                format!("below {pages}"),
                found,
            ));
        }
        Ok(Log { segment, shape, sequence })
    }

    /// The file, as a commit names it.
    pub(super) fn file_ref(&self) -> FileRef {
        self.segment.file_ref()
    }

    /// Makes it durable, unless it is.
    pub(super) fn sync(&self) -> Result<()> {
        self.segment.sync()
    }

    /// How many blocks of records it has.
    pub(super) fn blocks(&self) -> u64 {
        self.segment.blocks()
    }

    /// The blocks that may hold records of `page`.
    pub(super) fn blocks_of(&self, page: u64) -> Range<u64> {
        self.segment.find(self.shape.entry_layout().join(page, 0))
    }

    /// How many blocks, from the first on, may hold records of pages below `end`.
    pub(super) fn blocks_below(&self, end: u64) -> u64 {
        if end >= self.shape.layout.pages() {
            return self.blocks();
        }
        self.segment.blocks_below(self.shape.entry_layout().join(end, 0))
    }

    /// Where block `number` is read; what that gives goes to [`decode`](Self::decode).
    pub(super) fn place_of(&self, number: u64) -> (&dyn DeviceFile, u64) {
        self.segment.place_of(number)
    }

    /// Checks a block of records and appends its updates.
    pub(super) fn decode(
        &self,
        block: &[u8],
        number: u64,
        units: &mut Vec<u64>,
        weighted: &mut Vec<Weighted>,
    ) -> Result<()> {
        let body = self.segment.body_of(number, block)?;
        decode_records(body, self.shape, units, weighted).ok_or_else(|| Error::Corrupt {
            path: self.segment.path().to_path_buf(),
            at: number * BLOCK_BYTES as u64,
            what: "records",
            expected: "in hash order and in range".into(),
            found: "others".into(),
        })
    }
}
