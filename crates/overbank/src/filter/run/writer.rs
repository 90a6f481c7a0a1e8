//! Writes a run: fingerprints in order, in batches of any size, cut into blocks.
//!
//! ```text
//!   push ─▶ backlog: what does not fill a block for sure ─▶ cut ─▶ segment, a mebibyte on its way while the next fills
//! ```
//!
//! 1. A block is cut once more fingerprints wait than fit it; so blocks do not depend on the batches.
//! 2. So the last fingerprint waits, and the next batch may add to its count. A count that grows takes no less room: what did
//!    not fit before it grew does not fit after.

use super::RunKind;
use super::encode::Cutter;
use super::entries::{Entries, Totals};
use super::format::{Meta, check_bits, fingerprint_max};
use super::front::{Front, FrontBuilder};
use crate::error::invalid;
use crate::segment::{BODY_BYTES, SegmentWriter};
use crate::store::{FileRef, Files};
use crate::{Error, Result};

/// Fingerprints taken at a time: what waits then fits a core's second cache.
#[cfg(any(test, feature = "internals"))]
const BATCH: usize = 1 << 14;

/// A finished run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunInfo {
    /// What a commit's record names.
    pub file: FileRef,
    /// Blocks of fingerprints.
    pub blocks: u64,
    /// Different fingerprints.
    pub fingerprints: u64,
    /// Those of them whose count is below 0.
    pub tombstones: u64,
    /// The sum of the counts above 0.
    pub occurrences: u64,
}

/// Writes one run. Dropped before [`RunWriter::finish`], it removes its file.
#[derive(Debug)]
pub struct RunWriter {
    kind: RunKind,
    segment: SegmentWriter,
    backlog: Entries,
    /// Whether a repetition of the last fingerprint adds to its count.
    is_open: bool,
    is_broken: bool,
    /// The last fingerprint that was cut.
    last_cut: Option<u64>,
    /// Of what was cut.
    totals: Totals,
    /// The run's front, if it is to have one.
    front: Option<FrontBuilder>,
    /// Scratch: places of repetitions.
    #[cfg(any(test, feature = "internals"))]
    twins: Vec<u32>,
    body: Box<[u8; BODY_BYTES]>,
}

impl RunWriter {
    /// Begins a run in a new file of the store; if `is_behind`, a thread writes.
    ///
    /// # Errors
    /// `InvalidOption` for more than 64 bits, or none; what [`Files::create`] says.
    pub fn create(files: &Files, kind: RunKind, is_behind: bool) -> Result<Self> {
        check_bits(kind.fingerprint_bits)?;
        Ok(RunWriter {
            kind,
            segment: SegmentWriter::create_behind(files, kind.segment_kind(), is_behind)?,
            backlog: Entries::default(),
            is_open: false,
            is_broken: false,
            last_cut: None,
            totals: Totals::default(),
            front: None,
            #[cfg(any(test, feature = "internals"))]
            twins: Vec::new(),
            body: Box::new([0; BODY_BYTES]),
        })
    }

    /// Lets it fill a front with all that comes, which [`RunWriter::finish_with_front`] gives.
    pub fn with_front(self, front: FrontBuilder) -> Self {
        RunWriter { front: Some(front), ..self }
    }

    pub(super) fn kind(&self) -> RunKind {
        self.kind
    }

    /// Takes fingerprints in order, each for one occurrence; repetitions add up, also from call to call.
    ///
    /// # Errors
    /// `InvalidOption` where one is below the one before or has too many bits; `Full` or `Io`. The run is then of no use.
    #[cfg(any(test, feature = "internals"))]
    pub fn push(&mut self, fingerprints: &[u64]) -> Result<()> {
        for batch in fingerprints.chunks(BATCH) {
            self.check_usable()?;
            let pushed = self.push_batch(batch);
            self.is_broken = pushed.is_err();
            pushed?;
        }
        Ok(())
    }

    #[cfg(any(test, feature = "internals"))]
    fn push_batch(&mut self, batch: &[u64]) -> Result<()> {
        let (first, last) = (batch[0], batch[batch.len() - 1]);
        let before = self.last();
        let repeats = before == Some(first) && self.is_open;
        self.check_next(if repeats { None } else { before }, first)?;
        check_max(self.kind, last)?;
        if !self.backlog.push_sorted(batch, repeats, &mut self.twins) {
            return Err(out_of_order(first, last));
        }
        self.is_open = true;
        self.cut(false)
    }

    /// Takes fingerprints with their counts, in order, each once; below 0 they are tombstones, which a run of insertions may have.
    ///
    /// # Errors
    /// As [`RunWriter::push`]; `InvalidOption` also for a count of 0, one below 0 among removals, or a repeated fingerprint.
    #[cfg(any(test, feature = "internals"))]
    pub fn push_counted(&mut self, entries: &[(u64, i64)]) -> Result<()> {
        for batch in entries.chunks(BATCH) {
            self.check_usable()?;
            let pushed = self.push_counted_batch(batch);
            self.is_broken = pushed.is_err();
            pushed?;
        }
        Ok(())
    }

    #[cfg(any(test, feature = "internals"))]
    fn push_counted_batch(&mut self, batch: &[(u64, i64)]) -> Result<()> {
        for &(fingerprint, count) in batch {
            self.check_next(self.last(), fingerprint)?;
            check_max(self.kind, fingerprint)?;
            if count == 0 {
                return invalid("a count", 0, "a fingerprint without occurrences is not in a run");
            }
            if count < 0 && self.kind.sign == super::Sign::Removals {
                return invalid("a count", count, "removals are counted above 0 in a run of their own");
            }
            self.backlog.push(fingerprint, count);
        }
        self.is_open = false;
        self.cut(false)
    }

    /// Lets `fill` append entries that are above all others.
    pub(super) fn push_with<R>(&mut self, fill: impl FnOnce(&mut Entries) -> R) -> Result<R> {
        self.check_usable()?;
        self.is_open = false;
        let filled = fill(&mut self.backlog);
        let cut = self.cut(false);
        self.is_broken = cut.is_err();
        cut.map(|()| filled)
    }

    /// Writes what is left and syncs the file.
    ///
    /// # Errors
    /// `Full` or `Io`.
    #[cfg(any(test, feature = "internals"))]
    pub fn finish(self) -> Result<RunInfo> {
        self.finish_with_front().map(|finished| finished.0)
    }

    /// [`RunWriter::finish`], and the front that was filled meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn finish_with_front(mut self) -> Result<(RunInfo, Option<Front>)> {
        self.check_usable()?;
        self.cut(true)?;
        let Totals { tombstones, occurrences, .. } = self.totals;
        let RunKind { fingerprint_bits, sign, .. } = self.kind;
        let meta = Meta { fingerprint_bits, sign, tombstones, occurrences };
        let segment = self.segment.finish(&meta.encode())?;
        let (file, blocks, fingerprints) = (segment.file, segment.blocks, segment.entries);
        let front = self.front.map(FrontBuilder::finish);
        Ok((RunInfo { file, blocks, fingerprints, tombstones, occurrences }, front))
    }

    /// Cuts blocks off the backlog; all of it if `is_last`.
    fn cut(&mut self, is_last: bool) -> Result<()> {
        let end = self.backlog.len();
        let mut start = 0;
        let cutter = Cutter::new(self.backlog.all());
        while start < end {
            let Some(keys) = cutter.cut(start, end, is_last, &mut self.body[..]) else { break };
            let part = &self.backlog.fingerprints[start..start + keys];
            let (first, last) = (self.kind.hash(part[0]), self.kind.hash(part[keys - 1]));
            self.segment.push_block(first, last, keys as u64, &self.body[..])?;
            start += keys;
        }
        if start > 0 {
            if let Some(front) = &mut self.front {
                front.push(&self.backlog.fingerprints[..start])?;
            }
            self.last_cut = Some(self.backlog.fingerprints[start - 1]);
            self.totals.add(self.backlog.all().slice(0, start));
            self.backlog.drop_front(start);
        }
        Ok(())
    }

    #[cfg(any(test, feature = "internals"))]
    fn last(&self) -> Option<u64> {
        self.backlog.fingerprints.last().copied().or(self.last_cut)
    }

    #[cfg(any(test, feature = "internals"))]
    fn check_next(&self, before: Option<u64>, fingerprint: u64) -> Result<()> {
        match before {
            Some(before) if fingerprint <= before => Err(out_of_order(fingerprint, before)),
            _ => Ok(()),
        }
    }

    fn check_usable(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let why = "an earlier call failed; drop it and write the run anew".to_owned();
        Err(Error::InvalidOption { name: "a run's writer", value: "written on".to_owned(), why })
    }
}

pub(super) fn out_of_order(found: u64, before: u64) -> Error {
    let why = format!("a run's fingerprints ascend, and it or one behind it comes after {before:#x}");
    Error::InvalidOption { name: "a fingerprint", value: format!("{found:#x}"), why }
}

/// Refuses a fingerprint that is too long.
pub(super) fn check_max(kind: RunKind, fingerprint: u64) -> Result<()> {
    let bits = kind.fingerprint_bits;
    if fingerprint <= fingerprint_max(bits) {
        return Ok(());
    }
    let why = format!("this run's fingerprints have {bits} bits");
    invalid("a fingerprint", format!("{fingerprint:#x}"), why)
}
