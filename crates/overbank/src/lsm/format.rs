//! Where every byte of a tree lies in the record of what is made of it.
//!
//! ```text
//!   0          8          12           16
//!   ├ memtables ┼ runs u32 ┼ merges u32 ┤
//!   a run      level i32, pieces u32, oldest u64, newest u64, class                       in order of age
//!   a merge    border u64, output u32, inputs u32                                         a merge that has published a part
//!     input    run u32, 0 u32, entries u64, tombstones u64, occurrences u64               the last three of pieces that are gone
//!   files      the pieces of all runs, in order
//! ```
//!
//! All numbers are little-endian. Runs are counted from 0. A change to any byte bumps the version of whoever owns the record.

use super::Table;
use super::run::{Run, Size, Span};
use super::version::{Merging, Version};
use crate::bytes::ByteReader;
use crate::store::{FileId, FileRef, Files};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// More memtables there never are: at a billion a second, in a century.
const MEMTABLES_MAX: u64 = 1 << 62;
/// Runs have fewer than 2^64 entries, and levels are by powers of 2 or more.
const LEVEL_MAX: i32 = 64;
/// Bytes of a run without its class, of a merge, and of an input of one.
const RUN_BYTES: usize = 24;
const MERGE_BYTES: usize = 16;
const INPUT_BYTES: usize = 32;

/// What a record keeps of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredTree<C> {
    pub(crate) memtables: u64,
    /// In order of age.
    pub(crate) runs: Vec<StoredRun<C>>,
    pub(crate) merges: Vec<Merging>,
}

/// What a record keeps of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredRun<C> {
    pub(crate) id: u64,
    pub(crate) class: C,
    pub(crate) span: Span,
    pub(crate) level: i32,
    pub(crate) files: Vec<FileRef>,
    /// What pieces held that a merge under way has replaced.
    pub(crate) replaced: Size,
}

impl<C: Copy> StoredRun<C> {
    pub(super) fn of<T: Table<Class = C>>(run: &Run<T>) -> Self {
        let Run { id, class, span, level, replaced, .. } = *run;
        StoredRun {
            id,
            class,
            span,
            level,
            files: run.pieces.iter().map(|piece| T::file_ref(piece)).collect(),
            replaced,
        }
    }
}

impl<C: Copy> StoredTree<C> {
    pub(super) fn of<T: Table<Class = C>>(version: &Version<T>, memtables: u64) -> Self {
        let runs = version.runs.iter().map(StoredRun::of).collect();
        StoredTree { memtables, runs, merges: version.merges.clone() }
    }

    /// The files of all runs, in order: those of the record.
    pub(crate) fn files(&self) -> Vec<FileRef> {
        self.runs.iter().flat_map(|run| run.files.iter().copied()).collect()
    }

    pub(super) fn file_ids(&self) -> BTreeSet<FileId> {
        self.runs.iter().flat_map(|run| &run.files).map(|file| file.id).collect()
    }

    /// Appends the tree, `class` appending a run's class.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>, class: impl Fn(C, &mut Vec<u8>)) {
        bytes.extend(self.memtables.to_le_bytes());
        bytes.extend((self.runs.len() as u32).to_le_bytes());
        bytes.extend((self.merges.len() as u32).to_le_bytes());
        for run in &self.runs {
            bytes.extend(run.level.to_le_bytes());
            bytes.extend((run.files.len() as u32).to_le_bytes());
            bytes.extend(run.span.oldest.to_le_bytes());
            bytes.extend(run.span.newest.to_le_bytes());
            class(run.class, bytes);
        }
        let place = |id: u64| self.runs.iter().position(|run| run.id == id).unwrap_or(usize::MAX);
        for merging in &self.merges {
            bytes.extend(merging.border.to_le_bytes());
            bytes.extend((place(merging.output) as u32).to_le_bytes());
            bytes.extend((merging.inputs.len() as u32).to_le_bytes());
            for &input in &merging.inputs {
                let at = place(input);
                let Size { entries, tombstones, occurrences, .. } =
                    self.runs.get(at).map(|run| run.replaced).unwrap_or_default();
                bytes.extend((at as u32).to_le_bytes());
                bytes.extend([0; 4]);
                [entries, tombstones, occurrences]
                    .iter()
                    .for_each(|number| bytes.extend(number.to_le_bytes()));
            }
        }
    }

    /// Reads a tree, the classes of whose runs have `class_bytes` bytes; `files` are those of the record.
    ///
    /// # Errors
    /// `Corrupt` where no tree is that.
    pub(crate) fn decode(
        fields: &mut ByteReader<'_>,
        files: &[FileRef],
        class_bytes: usize,
        class: impl Fn(&mut ByteReader<'_>) -> Result<C>,
    ) -> Result<Self> {
        let (memtables, runs, merges) = (fields.u64()?, fields.u32()?, fields.u32()?);
        if memtables > MEMTABLES_MAX {
            return Err(fields.corrupt(
                "the number of memtables",
                format!("at most {MEMTABLES_MAX}"),
                memtables,
            ));
        }
        let runs = fields.counted("the number of runs", runs, RUN_BYTES + class_bytes)?;
        let mut tree = StoredTree { memtables, runs: Vec::with_capacity(runs), merges: Vec::new() };
        let mut files = files.iter().copied();
        for id in 0..runs as u64 {
            let (level, pieces) = (fields.i32()?, fields.u32()? as usize);
            let span = Span { oldest: fields.u64()?, newest: fields.u64()? };
            let has_age = span.oldest <= span.newest && span.newest < memtables;
            if !(-LEVEL_MAX..=LEVEL_MAX).contains(&level) || !has_age {
                let found = format!("level {level}, {span:?} of {memtables} memtables");
                return Err(fields.corrupt("a run", "a level, and an age", found));
            }
            let class = class(fields)?;
            let files: Vec<FileRef> = files.by_ref().take(pieces).collect();
            if files.len() < pieces {
                return Err(fields.corrupt("the files of a run", pieces, files.len()));
            }
            tree.runs.push(StoredRun { id, class, span, level, files, replaced: Size::default() });
        }
        let left = files.count();
        if left > 0 {
            return Err(fields.corrupt("the files that no run has", 0, left));
        }
        let merges = fields.counted("the number of merges", merges, MERGE_BYTES)?;
        for _ in 0..merges {
            tree.decode_merge(fields)?;
        }
        Ok(tree)
    }

    fn decode_merge(&mut self, fields: &mut ByteReader<'_>) -> Result<()> {
        let (border, output, inputs) = (fields.u64()?, u64::from(fields.u32()?), fields.u32()?);
        let count = fields.counted("the inputs of a merge", inputs, INPUT_BYTES)?;
        let mut inputs = Vec::with_capacity(count);
        for _ in 0..count {
            let run = u64::from(fields.u32()?);
            fields.zeros(4)?;
            let (entries, tombstones, occurrences) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let is_new =
                !inputs.contains(&run) && run != output && !self.merges.iter().any(|one| one.has(run));
            match self.runs.get_mut(run as usize).filter(|_| is_new) {
                Some(one) => one.replaced = Size { entries, tombstones, occurrences, ..Size::default() },
                None => return Err(fields.corrupt("an input of a merge", "a run of its own", run)),
            }
            inputs.push(run);
        }
        let is_new = (output as usize) < self.runs.len() && !self.merges.iter().any(|one| one.has(output));
        if !is_new || count == 0 || border == 0 {
            let found = format!("run {output}, {count} inputs, border {border:#x}");
            return Err(fields.corrupt("a merge", "a run of its own, inputs, and a border above 0", found));
        }
        self.merges.push(Merging { inputs, output, border });
        Ok(())
    }

    /// Opens all pieces: the version that was committed. `name` is the tree's, for errors.
    ///
    /// # Errors
    /// As [`Table::open`]; `Corrupt` where a run without pieces is not in a merge.
    pub(crate) fn open<T: Table<Class = C>>(
        &self,
        table: &T,
        files: &Files,
        name: &str,
    ) -> Result<Version<T>> {
        let mut runs = Vec::with_capacity(self.runs.len());
        for stored in &self.runs {
            let StoredRun { id, class, span, level, replaced, .. } = *stored;
            let pieces = stored.files.iter().map(|file| Ok(Arc::new(table.open(files, file, class)?)));
            let mut run =
                Run { id, class, span, level, pieces: pieces.collect::<Result<Vec<_>>>()?, replaced };
            let merging = self.merges.iter().find(|one| one.has(id));
            if let Some(merging) = merging.filter(|one| one.output != id) {
                run.cut(merging.border);
            } else if run.pieces.is_empty() && merging.is_none() {
                let corrupt = crate::error::corrupt_bytes(0, "the pieces of a run", "at least one", 0);
                return Err(Error::in_file(corrupt, Path::new(name)));
            }
            runs.push(run);
        }
        Ok(Version::new(runs, self.merges.clone()))
    }
}
