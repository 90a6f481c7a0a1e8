//! Opens a run.

use super::RunKind;
use super::cursor::RunCursor;
use super::entries::Entries;
use super::format::{Meta, OLDEST_VERSION, fingerprint_max};
use super::front::{Front, FrontBuilder, FrontShape};
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
    first: u64,
}

/// A scan that makes a front of a run, a few blocks at a time: for runs that were opened without one, or with another length.
#[derive(Debug)]
pub struct FrontScan {
    cursor: RunCursor,
    builder: FrontBuilder,
    entries: Entries,
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

    /// Puts a front of this run, made by [`Merge::finish_run`](super::Merge::finish_run) or a [`FrontScan`], before it, or takes it
    /// away. Lookups under way go on with what there was.
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

    /// Begins to make a front of this run; it outlives the run.
    ///
    /// # Errors
    /// None yet; the scan's calls have theirs.
    pub fn scan_front(&self, shape: FrontShape) -> Result<FrontScan> {
        let range = self.segment.hash_range().unwrap_or((0, 0));
        let range = self.kind.fingerprint_of(range.0)..=self.kind.fingerprint_of(range.1);
        let builder = FrontBuilder::new(self.kind, shape, &range, self.fingerprints());
        // Of the whole file, for others may see more of it.
        let cursor = RunCursor::new(self, 0..=u64::MAX, false)?;
        Ok(FrontScan { cursor, builder, entries: Entries::default() })
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

    /// Whether the fingerprint of each of `prefixes`, which ascend or repeat, has a count above 0 in this run; see
    /// [`super::count_many`].
    ///
    /// # Errors
    /// As [`super::count_many`].
    #[cfg(any(test, feature = "internals"))]
    pub fn contains_many(&self, files: &Files, prefixes: &[u64], depth: usize) -> Result<Vec<bool>> {
        let mut counts = vec![0; prefixes.len()];
        super::count_many(files, &[self], prefixes, depth, &mut counts)?;
        Ok(counts.into_iter().map(|count| count > 0).collect())
    }

    /// Goes through all entries in order; if `is_ahead`, a thread reads what comes next.
    ///
    /// # Errors
    /// None yet; the cursor's calls have theirs.
    #[cfg(any(test, feature = "internals"))]
    pub fn cursor(&self, is_ahead: bool) -> Result<RunCursor> {
        self.cursor_within(0..=u64::MAX, is_ahead)
    }

    /// Goes through the entries of fingerprints in `range` in order; if `is_ahead`, a thread reads what comes next.
    ///
    /// # Cost
    /// The blocks that have a fingerprint in `range` are read, and seldom one more at either end.
    ///
    /// # Errors
    /// None yet; the cursor's calls have theirs.
    pub fn cursor_within(&self, range: RangeInclusive<u64>, is_ahead: bool) -> Result<RunCursor> {
        RunCursor::new(self, (*range.start()).max(self.first)..=*range.end(), is_ahead)
    }

    /// Reads the whole run and checks every seal, every entry, what it says of itself and the whole-file hash.
    ///
    /// # Errors
    /// `Corrupt` at the first damage.
    #[cfg(any(test, feature = "internals"))]
    pub fn verify(&self) -> Result<()> {
        self.segment.verify()?;
        let mut cursor = RunCursor::new(self, 0..=u64::MAX, false)?;
        let mut entries = Entries::default();
        let (mut fingerprints, mut tombstones, mut occurrences) = (0, 0, 0u64);
        while cursor.next_block(&mut entries)? {
            fingerprints += entries.len() as u64;
            tombstones += entries.iter().filter(|entry| entry.1 < 0).count() as u64;
            let block: i64 = entries.iter().map(|entry| entry.1.max(0)).sum();
            occurrences = occurrences.saturating_add(block as u64);
            entries.clear();
        }
        let found = (fingerprints, tombstones, occurrences);
        let expected = (self.fingerprints(), self.tombstones(), self.occurrences());
        if found != expected {
            let at = self.file_ref().bytes;
            let error = corrupt_bytes(0, "a run's counts", format!("{expected:?}"), format!("{found:?}"));
            return Err(in_file(error, self.segment.path(), at));
        }
        Ok(())
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

impl FrontScan {
    /// Goes on for `blocks` blocks; whether there is more.
    ///
    /// # Cost
    /// So many block reads, in order, 64 at a time.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says. The scan is of no use then.
    pub fn step(&mut self, blocks: u64) -> Result<bool> {
        for _ in 0..blocks {
            self.entries.clear();
            if !self.cursor.next_block(&mut self.entries)? {
                return Ok(false);
            }
            self.builder.push(self.entries.fingerprints())?;
        }
        Ok(true)
    }

    /// Scans what is left, and gives the front.
    ///
    /// # Errors
    /// As [`FrontScan::step`].
    pub fn finish(mut self) -> Result<Front> {
        self.step(u64::MAX)?;
        Ok(self.builder.finish())
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
