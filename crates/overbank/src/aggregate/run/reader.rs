//! An open run: one group of it, or those of a range of hashes in order.

use super::format::{BEGIN, Lengths, PART, PART_HEADER_BYTES, PageCursor};
use super::meta::{AggregateId, RunRules};
use crate::aggregate::group::KeyState;
use crate::bytes::ByteReader;
use crate::device::BLOCK_BYTES;
use crate::error::corrupt_bytes;
use crate::segment::{Scan, Segment};
use crate::store::{FileRef, Files};
use crate::{Error, KeyHash, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An open run: its fences are in RAM. It stays readable after its file is removed.
#[derive(Clone, Debug)]
pub(in crate::aggregate) struct RunSegment {
    file: Arc<RunFile>,
    /// What stands below this hash is not seen; see [`RunSegment::clipped`].
    first: u64,
}

/// What all that see a part of a run share.
#[derive(Debug)]
struct RunFile {
    segment: Segment,
    rules: RunRules,
}

impl RunFile {
    /// Says of damage in block `block` where it is.
    fn in_block(&self, error: Error, block: u64) -> Error {
        error.in_file_from(self.segment.path(), block * BLOCK_BYTES as u64)
    }
}

impl RunSegment {
    /// Opens the run that a [`RunWriter`](super::RunWriter) finished.
    ///
    /// # Errors
    /// `Incompatible` if it has states of another aggregate, or its keys were hashed otherwise; `UnsupportedVersion`; `Corrupt`.
    pub(in crate::aggregate) fn open(files: &Files, file: &FileRef, rules: &RunRules) -> Result<RunSegment> {
        let segment = Segment::open(files, file, rules.segment_kind())?;
        RunSegment::of(segment, rules.clone())
    }

    pub(super) fn of(mut segment: Segment, rules: RunRules) -> Result<RunSegment> {
        let meta = segment.take_meta();
        let mut fields = ByteReader::new(&meta);
        let id = AggregateId::decode(&mut fields).and_then(|id| fields.require_left(Some(0)).map(|()| id));
        let id = id.map_err(|error| error.in_file_from(segment.path(), segment.file_ref().bytes))?;
        rules.id().require(&id)?;
        Ok(RunSegment { file: Arc::new(RunFile { segment, rules }), first: 0 })
    }

    /// The run as it is seen from the hash `border` on: whoever asks or reads it finds nothing below. `None` if there is nothing from
    /// there on.
    pub(in crate::aggregate) fn clipped(&self, border: u64) -> Option<RunSegment> {
        let (_, last) = self.file.segment.hash_range()?;
        let file = Arc::clone(&self.file);
        (border <= last).then(|| RunSegment { file, first: self.first.max(border) })
    }

    /// The hashes, by their first 64 bits, from the first to the last that it may have.
    pub(in crate::aggregate) fn hashes(&self) -> RangeInclusive<u64> {
        let (first, last) = self.file.segment.hash_range().unwrap_or((1, 0));
        first.max(self.first)..=last
    }

    /// The file, as a commit's record names it.
    pub(in crate::aggregate) fn file_ref(&self) -> FileRef {
        self.file.segment.file_ref()
    }

    /// Groups in the whole file.
    pub(in crate::aggregate) fn groups(&self) -> u64 {
        self.file.segment.entries()
    }

    /// RAM of the fences.
    pub(in crate::aggregate) fn memory_bytes(&self) -> usize {
        self.file.segment.memory_bytes()
    }

    /// The group of a key; whether it has one.
    ///
    /// # Cost
    /// A block read, and another one for 1 in 10^8 keys; all blocks of a long entry.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(in crate::aggregate) fn get(&self, hash: KeyHash, key: &[u8], into: &mut KeyState) -> Result<bool> {
        if !self.hashes().contains(&hash.high()) {
            return Ok(false);
        }
        let mut scan = self.scan(hash.high()..=hash.high(), BLOCK_BYTES)?;
        while scan.advance()? {
            if scan.hash > hash {
                break;
            }
            if scan.group.key == key {
                std::mem::swap(into, &mut scan.group);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes through the groups whose hashes are in `range`, reading `piece_bytes` at a time, a multiple of 4096.
    ///
    /// # Errors
    /// None yet; the scan's calls have theirs.
    pub(in crate::aggregate) fn scan(
        &self,
        range: RangeInclusive<u64>,
        piece_bytes: usize,
    ) -> Result<RunScan> {
        let seen = self.hashes();
        let (first, last) = (*range.start().max(seen.start()), *range.end().min(seen.end()));
        let segment = &self.file.segment;
        let blocks = if first > last { 0..0 } else { segment.find(first).start..segment.find(last).end };
        let reaches_end = blocks.end == segment.blocks();
        let pages = segment.scan_pieces(blocks, piece_bytes, false)?;
        Ok(RunScan {
            file: Arc::clone(&self.file),
            pages,
            range: first..=last,
            reaches_end,
            joined: Vec::new(),
            is_joined: false,
            block: 0,
            cursor: None,
            before: KeyState::default(),
            is_begun: false,
            hash: KeyHash::default(),
            group: KeyState::default(),
        })
    }

    /// Reads the whole run and checks every seal, every entry, their order and their number.
    ///
    /// # Errors
    /// `Corrupt` at the first damage; what the device says.
    pub(in crate::aggregate) fn verify(&self, piece_bytes: usize) -> Result<()> {
        let whole = RunSegment { file: Arc::clone(&self.file), first: 0 };
        let mut scan = whole.scan(0..=u64::MAX, piece_bytes)?;
        let mut found = 0;
        while scan.advance()? {
            found += 1;
        }
        if found == self.groups() {
            return Ok(());
        }
        Err(self.file.in_block(corrupt_bytes(0, "the number of groups", self.groups(), found), 0))
    }
}

/// A place in a run. It outlives the run, and its file.
#[derive(Debug)]
pub(in crate::aggregate) struct RunScan {
    file: Arc<RunFile>,
    pages: Scan,
    range: RangeInclusive<u64>,
    /// Its last block is the run's last.
    reaches_end: bool,
    /// A page of several blocks; if it is the one that is read, `is_joined`.
    joined: Vec<u8>,
    is_joined: bool,
    /// The page's first.
    block: u64,
    cursor: Option<PageCursor>,
    /// The group before the one that it stands at, and whether there is one that it stands at.
    before: KeyState,
    is_begun: bool,
    /// Of the group that it stands at.
    pub(in crate::aggregate) hash: KeyHash,
    pub(in crate::aggregate) group: KeyState,
}

impl RunScan {
    /// Goes to the next group; whether there is one.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says. The scan is then of no use.
    pub(in crate::aggregate) fn advance(&mut self) -> Result<bool> {
        loop {
            let Some(cursor) = &mut self.cursor else {
                if self.next_page()? {
                    continue;
                }
                return Ok(false);
            };
            let page = if self.is_joined { &self.joined[..] } else { self.pages.page() };
            std::mem::swap(&mut self.group, &mut self.before);
            let next = cursor.next(page, &mut self.group);
            if !next.map_err(|error| self.file.in_block(error, self.block))? {
                std::mem::swap(&mut self.group, &mut self.before);
                self.cursor = None;
                continue;
            }
            let hash = self.file.rules.hasher.hash(&self.group.key);
            if self.is_begun && (self.hash, &self.before.key) >= (hash, &self.group.key) {
                let (expected, found) = (format!("behind {:?}", self.hash), format!("{hash:?}"));
                return Err(self
                    .file
                    .in_block(corrupt_bytes(0, "the order of groups", expected, found), self.block));
            }
            (self.hash, self.is_begun) = (hash, true);
            if hash.high() > *self.range.end() {
                return Ok(false);
            }
            if hash.high() >= *self.range.start() {
                return Ok(true);
            }
        }
    }

    /// Goes to the next page; whether there is one.
    fn next_page(&mut self) -> Result<bool> {
        loop {
            let Some((blocks, body)) = self.pages.next_page()? else { return Ok(false) };
            self.block = blocks.start;
            if body.first() == Some(&PART) && !self.is_begun {
                // The range begins in a page that is not of it.
                continue;
            }
            let begun = Lengths::of(body).map_err(|error| self.file.in_block(error, self.block))?;
            self.is_joined = body[0] == BEGIN;
            if self.is_joined && !self.join(begun)? {
                return Ok(false);
            }
            let page = if self.is_joined { &self.joined[..] } else { self.pages.page() };
            let cursor = PageCursor::new(page, self.file.rules.shape);
            self.cursor = Some(cursor.map_err(|error| self.file.in_block(error, self.block))?);
            return Ok(true);
        }
    }

    /// Puts the blocks of a page together, the first of which was read; `false` where the range ends before it: it is not of the range.
    fn join(&mut self, lengths: Lengths) -> Result<bool> {
        self.joined.clear();
        self.joined.extend_from_slice(self.pages.page());
        let mut part = 1u32;
        while self.joined.len() < lengths.page_bytes() {
            let Some((blocks, body)) = self.pages.next_page()? else {
                if !self.reaches_end {
                    return Ok(false);
                }
                let found = format!("{} bytes", self.joined.len());
                let error =
                    corrupt_bytes(0, "a page of groups", format!("{} bytes", lengths.page_bytes()), found);
                return Err(self.file.in_block(error, self.block));
            };
            let mut fields = ByteReader::new(body);
            let head = [u32::from_le_bytes(fields.array()?), fields.u32()?];
            if head != [u32::from(PART), part] {
                let error = corrupt_bytes(
                    0,
                    "a part of a page of groups",
                    format!("part {part}"),
                    format!("{head:?}"),
                );
                return Err(self.file.in_block(error, blocks.start));
            }
            let left = lengths.page_bytes() - self.joined.len();
            let now = left.min(body.len() - PART_HEADER_BYTES);
            self.joined.extend_from_slice(fields.take(now)?);
            fields.only_zeros_left().map_err(|error| self.file.in_block(error, blocks.start))?;
            part += 1;
        }
        Ok(true)
    }
}
