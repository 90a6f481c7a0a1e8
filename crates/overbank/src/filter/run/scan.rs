//! Goes through a run on flash from one end to the other: for merges, to check it, to make its front.

use super::cursor::RunCursor;
use super::entries::Entries;
use super::front::{Front, FrontBuilder, FrontShape};
use super::reader::FingerprintSegment;
#[cfg(any(test, feature = "internals"))]
use super::reader::in_file;
use crate::Result;
#[cfg(any(test, feature = "internals"))]
use crate::error::corrupt_bytes;
use std::ops::RangeInclusive;

/// A scan that makes a front of a run, a few blocks at a time: for runs that were opened without one, or with another length.
#[derive(Debug)]
pub struct FrontScan {
    cursor: RunCursor,
    builder: FrontBuilder,
    entries: Entries,
}

impl FingerprintSegment {
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
