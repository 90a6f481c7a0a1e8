//! Opens a run.

use super::RunKind;
use super::format::{Meta, OLDEST_VERSION, fingerprint_max};
use super::front::Front;
use crate::error::corrupt_bytes;
use crate::lock::{read, write};
use crate::segment::Segment;
use crate::store::{FileRef, Files};
use crate::{Error, Result};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::{Arc, RwLock};

/// An open run: its fences are in RAM. Shared by all threads; it stays readable after its file is removed.
#[derive(Debug)]
pub struct FingerprintSegment {
    pub(super) segment: Arc<Segment>,
    pub(super) kind: RunKind,
    meta: Meta,
    /// What lookups ask before they read; one for all that see a part of the file. The lock is held to take a handle of it only.
    front: Arc<RwLock<Option<Arc<Front>>>>,
    /// What stands below this fingerprint is not seen; see [`FingerprintSegment::clipped`].
    pub(super) first: u64,
}

impl FingerprintSegment {
    /// Opens the run that a [`RunWriter`](super::RunWriter) or a [`Merge`](super::Merge) finished.
    ///
    /// # Cost
    /// Three block reads, and one for 952 of its blocks.
    ///
    /// # Errors
    /// `Incompatible` if its fingerprints are of another kind; `UnsupportedVersion`; `Corrupt`.
    pub fn open(files: &Files, file: &FileRef, kind: RunKind) -> Result<Self> {
        let segment = Segment::open_since(files, file, kind.segment_kind(), OLDEST_VERSION)?;
        let meta = Meta::decode(segment.meta(), segment.entries(), segment.kind().structure.version);
        let meta = meta.map_err(|error| in_file(error, segment.path(), file.bytes))?;
        same_bits(kind.fingerprint_bits, meta.fingerprint_bits)?;
        if kind.sign != meta.sign {
            let (expected, found) = (format!("{:?}", kind.sign), format!("{:?}", meta.sign));
            return Err(Error::Incompatible { what: "what a run's counts are of", expected, found });
        }
        let run =
            FingerprintSegment { segment: Arc::new(segment), kind, meta, front: Arc::default(), first: 0 };
        run.check_range(file)?;
        Ok(run)
    }

    /// The run as it is seen from the hash `border` on, which no two entries of a key stand on either side of: whoever asks or reads it
    /// finds nothing below, and what it says of itself is of the whole file. `None` if there is nothing from there on.
    pub(crate) fn clipped(&self, border: u64) -> Option<Self> {
        let (_, last) = self.segment.hash_range()?;
        let first = border.div_ceil(1 << self.kind.shift()).max(self.first);
        let (segment, front) = (Arc::clone(&self.segment), Arc::clone(&self.front));
        let FingerprintSegment { kind, meta, .. } = *self;
        (border <= last).then_some(FingerprintSegment { segment, kind, meta, front, first })
    }

    /// The hashes from the first to the last that it may have.
    pub(crate) fn hashes(&self) -> RangeInclusive<u64> {
        let (first, last) = self.segment.hash_range().unwrap_or((1, 0));
        first.max(self.kind.hash(self.first))..=last
    }

    /// Whether all that it may have stands before the fingerprint of `prefix`, in hash order.
    pub(crate) fn ends_before(&self, prefix: u64) -> bool {
        self.kind.fingerprint_of(*self.hashes().end()) < self.kind.fingerprint_of(prefix)
    }

    /// What its fingerprints are.
    pub fn kind(&self) -> RunKind {
        self.kind
    }

    /// The file, as a commit's record names it.
    pub fn file_ref(&self) -> FileRef {
        self.segment.file_ref()
    }

    /// Blocks of fingerprints.
    pub fn blocks(&self) -> u64 {
        self.segment.blocks()
    }

    /// Different fingerprints.
    pub fn fingerprints(&self) -> u64 {
        self.segment.entries()
    }

    /// Fingerprints whose count is below 0: removals among insertions.
    pub fn tombstones(&self) -> u64 {
        self.meta.tombstones
    }

    /// The sum of the counts above 0.
    pub fn occurrences(&self) -> u64 {
        self.meta.occurrences
    }

    /// RAM that the fences take, in bytes; the front comes on top, see [`FingerprintSegment::front_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.segment.memory_bytes()
    }

    /// What tells without a read of most keys that are not in it that they are not.
    pub fn front(&self) -> Option<Arc<Front>> {
        read(&self.front).clone()
    }

    /// Puts a front of this run, made by [`Merge::finish_run`](super::Merge::finish_run) or a [`FrontScan`](super::FrontScan), before it,
    /// or takes it away. Lookups under way go on with what there was.
    pub fn set_front(&self, front: Option<Front>) {
        *write(&self.front) = front.map(Arc::new);
    }

    /// Halves the front, or takes it away unless `is_kept` or where it is as short as can be; returns how many bytes of RAM that frees.
    pub(crate) fn shorten_front(&self, is_kept: bool) -> usize {
        let Some(front) = self.front() else { return 0 };
        let halved =
            is_kept.then(|| front.halved()).filter(|half| half.memory_bytes() < front.memory_bytes());
        let left = halved.as_ref().map_or(0, Front::memory_bytes);
        self.set_front(halved);
        front.memory_bytes() - left
    }

    /// RAM that the front takes, in bytes.
    pub fn front_bytes(&self) -> usize {
        read(&self.front).as_ref().map_or(0, |front| front.memory_bytes())
    }

    /// The block that has `fingerprint` if one has: none outside the run's range, and for one fingerprint in 10^8 two, where the
    /// fences cannot tell.
    ///
    /// # Cost
    /// Two cache misses, no I/O.
    pub fn block_of(&self, fingerprint: u64) -> Range<u64> {
        if !(self.first..=self.max()).contains(&fingerprint) {
            0..0
        } else {
            self.segment.find(self.kind.hash(fingerprint))
        }
    }

    /// The blocks that may have a fingerprint in `range`.
    pub(super) fn blocks_of(&self, range: &RangeInclusive<u64>) -> Range<u64> {
        let Some((first, last)) = self.segment.hash_range() else { return 0..0 };
        let (from, to) = ((*range.start()).max(self.first), (*range.end()).min(self.max()));
        if from > to || self.kind.hash(from) > last || self.kind.hash(to) < first {
            return 0..0;
        }
        // In the run's own range the fences know at least one block.
        let start = self.segment.find(self.kind.hash(from).max(first)).start;
        start..self.segment.find(self.kind.hash(to).min(last)).end
    }

    /// Which of ascending `prefixes` lie between its first and its last fingerprint.
    pub(super) fn within(&self, prefixes: &[u64]) -> Range<usize> {
        let Some((first, last)) = self.segment.hash_range() else { return 0..0 };
        let first = self.kind.fingerprint_of(first).max(self.first);
        self.kind.within(prefixes, first, self.kind.fingerprint_of(last))
    }

    /// The greatest fingerprint there can be.
    pub(super) fn max(&self) -> u64 {
        fingerprint_max(self.kind.fingerprint_bits)
    }

    fn check_range(&self, file: &FileRef) -> Result<()> {
        let whole = |hash: u64| hash >> self.kind.shift() << self.kind.shift() == hash;
        match self.segment.hash_range() {
            Some((first, last)) if !whole(first) || !whole(last) => {
                let (expected, found) =
                    (format!("of {} bits", self.kind.fingerprint_bits), format!("{first:#x} to {last:#x}"));
                let error = corrupt_bytes(0, "a run's first and last fingerprint", expected, found);
                Err(in_file(error, self.segment.path(), file.bytes))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn same_bits(expected: u32, found: u32) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (expected.to_string(), found.to_string());
    Err(Error::Incompatible { what: "fingerprint_bits", expected, found })
}

/// Says of damage in bytes that begin at `at` of a file where it is.
#[cold]
pub(super) fn in_file(error: Error, path: &Path, at: u64) -> Error {
    match error {
        Error::Corrupt { at: inside, what, expected, found, .. } => {
            Error::Corrupt { path: path.into(), at: at + inside, what, expected, found }
        }
        other => other,
    }
}
