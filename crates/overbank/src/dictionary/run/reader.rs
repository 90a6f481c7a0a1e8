//! An open run.

use super::super::rank::HashRank;
use super::file::RunFile;
use super::format::{Counts, OLDEST_VERSION, segment_kind};
use super::scan::RunScan;
use crate::dictionary::item::ItemHasher;
use crate::filter::run::Front;
use crate::segment::Segment;
use crate::store::{FileRef, Files};
use crate::{KeyHash, Result};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

/// An open run: its index is in RAM. Clones share it, as any threads may; it stays readable after its file is removed.
#[derive(Clone, Debug)]
pub(crate) struct RunSegment {
    pub(super) file: Arc<RunFile>,
    /// What stands below this hash is not seen; see [`RunSegment::clipped`].
    first: u64,
}

/// RAM of an open run, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunMemory {
    /// Of what says where a hash's page is.
    pub(crate) index_bytes: usize,
    pub(crate) front_bytes: usize,
    pub(crate) rank_bytes: usize,
}

impl RunSegment {
    /// Opens the run that a [`RunWriter`](super::RunWriter) finished; `hasher` makes the hashes of its keys.
    ///
    /// # Cost
    /// A block read, or some where index and meta bytes are longer.
    ///
    /// # Errors
    /// `Incompatible` if the keys were hashed otherwise; `UnsupportedVersion`; `Corrupt`.
    pub(crate) fn open(files: &Files, file_ref: &FileRef, hasher: ItemHasher) -> Result<RunSegment> {
        let segment = Segment::open_since(files, file_ref, segment_kind(hasher), OLDEST_VERSION)?;
        RunSegment::of(segment, hasher)
    }

    pub(super) fn of(segment: Segment, hasher: ItemHasher) -> Result<RunSegment> {
        Ok(RunSegment { file: Arc::new(RunFile::of(segment, hasher)?), first: 0 })
    }

    /// The run as it is seen from the hash `border` on: whoever asks or reads it finds nothing below, and what it says of itself is of the
    /// whole file. `None` if there is nothing from there on.
    pub(crate) fn clipped(&self, border: u64) -> Option<RunSegment> {
        let (_, last) = self.file.segment.hash_range()?;
        let file = Arc::clone(&self.file);
        (border <= last).then(|| RunSegment { file, first: self.first.max(border) })
    }

    /// The hashes, by their first 64 bits, from the first to the last that it may have.
    pub(crate) fn hashes(&self) -> RangeInclusive<u64> {
        let (first, last) = self.file.segment.hash_range().unwrap_or((1, 0));
        first.max(self.first)..=last
    }

    /// The file, as a commit's record names it.
    pub(crate) fn file_ref(&self) -> FileRef {
        self.file.segment.file_ref()
    }

    /// What is in the whole file.
    pub(crate) fn counts(&self) -> Counts {
        self.file.counts
    }

    /// Whether it was written for a place with older runs: see [`RunShape::front_bits`](super::RunShape::front_bits).
    pub(crate) fn has_front(&self) -> bool {
        self.file.front.is_some()
    }

    /// Whether [`RunSegment::rank`] tells ranks.
    pub(crate) fn has_ranks(&self) -> bool {
        self.file.ranks.is_some()
    }

    /// Blocks of its pages, in the whole file.
    pub(crate) fn written_blocks(&self) -> u64 {
        self.file.segment.blocks()
    }

    /// RAM that it takes, in bytes; what is clipped shares it.
    pub(crate) fn memory_bytes(&self) -> usize {
        let RunMemory { index_bytes, front_bytes, rank_bytes } = self.memory();
        index_bytes + front_bytes + rank_bytes
    }

    /// What takes it.
    pub(crate) fn memory(&self) -> RunMemory {
        let RunFile { segment, front, ranks, .. } = &*self.file;
        RunMemory {
            index_bytes: segment.memory_bytes(),
            front_bytes: front.as_ref().map_or(0, Front::memory_bytes),
            rank_bytes: ranks.as_ref().map_or(0, HashRank::memory_bytes),
        }
    }

    /// Whether it may have a key of this hash: it has none where it says no.
    ///
    /// # Cost
    /// No I/O.
    #[inline]
    pub(crate) fn may_have(&self, hash: KeyHash) -> bool {
        let is_seen = self.hashes().contains(&hash.high());
        is_seen && self.file.front.as_ref().is_none_or(|front| front.may_have(hash.high()))
    }

    /// Has on its way what [`RunSegment::may_have`] and [`RunSegment::find`] will read for a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        if let Some(front) = &self.file.front {
            front.prefetch(hash.high());
        }
        self.file.segment.prefetch(hash.high());
    }

    /// How many items of the whole file stand before the first that has this hash: its place. Of a hash that no item has, some number below
    /// theirs. `None` of a run that was written without ranks.
    ///
    /// # Cost
    /// No I/O: two cache misses, and the decoding of a part of a bucket.
    pub(crate) fn rank(&self, hash: KeyHash) -> Option<u64> {
        self.file.ranks.as_ref().map(|ranks| ranks.rank(hash))
    }

    /// The blocks of the one page that has the keys of this hash, if the run has any; none outside of what is seen of the run.
    ///
    /// # Cost
    /// No I/O.
    #[inline]
    pub(crate) fn find(&self, hash: KeyHash) -> Range<u64> {
        if hash.high() < self.first { 0..0 } else { self.file.segment.find(hash.high()) }
    }

    /// Goes through the items whose hashes are in `range`, reading `piece_bytes` at a time, a multiple of 4096; if `is_ahead`, a thread
    /// reads the next ones while these are used.
    ///
    /// # Errors
    /// None yet; the scan's calls have theirs.
    pub(crate) fn scan(
        &self,
        range: RangeInclusive<u64>,
        piece_bytes: usize,
        is_ahead: bool,
    ) -> Result<RunScan> {
        let seen = self.hashes();
        let (first, last) = (*range.start().max(seen.start()), *range.end().min(seen.end()));
        let segment = &self.file.segment;
        let blocks = if first > last { 0..0 } else { segment.find(first).start..segment.find(last).end };
        let pages = segment.scan_pieces(blocks, piece_bytes, is_ahead)?;
        Ok(RunScan::new(pages, Arc::clone(&self.file), first..=last))
    }

    /// The file's name, for messages.
    pub(super) fn path(&self) -> &Path {
        self.file.segment.path()
    }
}
