//! The version, and the jobs that make the next ones: what the tree's lock guards.
//!
//! Whoever holds a [`State`] holds that lock. Nothing here waits, reads or writes.

use super::Table;
use super::durable::Durable;
use super::job::{MergeJob, Stage};
use super::joining::Joining;
use super::picker::Shape;
use super::run::{FrozenRun, Run, Size, Span};
use super::version::{Edit, Version};
use crate::Error;
use crate::store::FileId;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk that was full.
#[derive(Clone, Debug)]
pub(crate) struct NoSpace {
    pub(crate) path: PathBuf,
    pub(super) needed_bytes: u64,
    /// The job that found it so.
    pub(crate) job: u64,
    /// A flush found it full, with no merge that held space.
    pub(crate) is_flush: bool,
    /// How many memtables there are when merges are tried again.
    pub(super) retry_memtables: u64,
}

impl NoSpace {
    pub(crate) fn error(&self) -> Error {
        Error::Full { path: self.path.clone(), needed_bytes: self.needed_bytes }
    }
}

/// What the tree's lock guards.
#[derive(Debug)]
pub(crate) struct State<T: Table> {
    /// The runs that a reader sees.
    pub(super) version: Arc<Version<T>>,
    /// Counts the versions.
    pub(super) edits: Arc<AtomicU64>,
    /// The merges that are due or under way: flushes first, then the shortest.
    pub(super) jobs: Vec<MergeJob<T>>,
    /// Frozen runs that are being joined in RAM.
    pub(super) joining: Joining,
    /// What the table notes of new entries.
    pub(crate) writes: T::Writes,
    /// Memtables that were frozen: the clock by which ages are told.
    pub(crate) memtables: u64,
    /// How many there were when the memtable of each writer took its first entry; `None` where it is empty.
    pub(super) open_memtables: Vec<Option<u64>>,
    pub(crate) no_space: Option<NoSpace>,
    /// Why a flush failed that is told to whoever waits for it, and the flush.
    pub(super) untold: Option<(u64, Error)>,
    /// Lanes that threads have of jobs that were given up: they hold space until they come back.
    pub(super) orphaned_lanes: usize,
    /// Something was inserted or merged that no commit has taken in.
    pub(crate) is_changed: bool,
    /// Writers rest: merges that are not due may go on.
    pub(super) rests: bool,
    /// How often in a row it was seen that writers rest.
    pub(super) looks: u32,
    /// Merges that were closed to make room for others: whoever works next drops them, without the lock.
    pub(super) closed: Vec<Stage<T>>,
    /// Background threads that look for lanes.
    pub(super) drivers: usize,
    pub(super) durable: Durable<T>,
    pub(super) next_id: u64,
}

impl<T: Table> State<T> {
    /// Of a tree with this version and so many writers.
    pub(crate) fn new(writes: T::Writes, memtables: u64, writers: usize, version: Version<T>) -> Self {
        let next_id = version.runs.iter().map(|run| run.id + 1).max().unwrap_or(0);
        State {
            durable: Durable::nothing(),
            version: Arc::new(version),
            edits: Arc::default(),
            jobs: Vec::new(),
            joining: Joining::default(),
            writes,
            memtables,
            open_memtables: vec![None; writers],
            no_space: None,
            untold: None,
            orphaned_lanes: 0,
            is_changed: false,
            rests: false,
            looks: 0,
            closed: Vec::new(),
            drivers: 0,
            next_id,
        }
    }

    /// The runs that a reader sees.
    pub(crate) fn version(&self) -> &Arc<Version<T>> {
        &self.version
    }

    /// Makes the next version. Returns the files that it does not have any more.
    pub(super) fn edit(&mut self, edit: Edit<T>) -> Vec<FileId> {
        let before = Arc::clone(&self.version);
        let has_files =
            edit.merging.is_some() || before.runs.iter().any(|run| edit.removed.contains(&run.id));
        self.version = Arc::new(before.edited(edit));
        // Whoever sees what was done under the lock since sees the new number.
        self.edits.fetch_add(1, Ordering::Release);
        let after = if has_files { self.version.files() } else { BTreeSet::new() };
        if has_files { before.files().difference(&after).copied().collect() } else { Vec::new() }
    }

    /// How many versions there were before this one.
    pub(crate) fn edits(&self) -> u64 {
        self.edits.load(Ordering::Relaxed)
    }

    /// Makes a version of the same runs, whose sizes have changed.
    pub(crate) fn count_anew(&mut self) {
        self.edit(Edit::default());
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The number that the next job gets at least.
    pub(crate) fn next_job(&self) -> u64 {
        self.next_id
    }

    /// Whether a job merges a run, or a reader joins it.
    pub(super) fn is_busy(&self, id: u64) -> bool {
        self.joining.contains(id) || self.jobs.iter().any(|job| job.inputs.contains(&id))
    }

    /// The runs on flash as pickers see them, the oldest first.
    pub(crate) fn shapes(&self) -> Vec<Shape<T::Class>> {
        let shape = |run: &Run<T>| {
            let Run { id, class, span, level, .. } = *run;
            let is_busy = self.is_busy(id) || self.version.is_merging(id);
            let (bytes, longest_piece) = (run.size().bytes, run.longest_piece_bytes());
            Shape { id, class, span, level, entries: run.entries(), bytes, longest_piece, is_busy }
        };
        self.version.runs.iter().map(shape).collect()
    }

    /// Notes that a writer's memtable takes its first entry.
    pub(crate) fn begin_memtable(&mut self, writer: usize) {
        self.open_memtables[writer] = Some(self.memtables);
        self.is_changed = true;
    }

    /// Takes the frozen memtable of a writer in, or runs that had none: one for each class that its entries are of.
    pub(crate) fn push_frozen(
        &mut self,
        writer: Option<usize>,
        frozen: impl IntoIterator<Item = (T::Frozen, T::Class)>,
    ) {
        let newest = self.memtables;
        self.memtables += 1;
        self.is_changed = true;
        let began = writer.and_then(|writer| self.open_memtables[writer].take());
        let span = Span { oldest: began.unwrap_or(newest), newest };
        // Readers take the version under the lock that is held here: they see all of them, or the memtable.
        frozen.into_iter().for_each(|(entries, class)| self.put_frozen(entries, class, span, Vec::new()));
    }

    /// Puts a frozen run in the place of `removed` ones.
    pub(super) fn put_frozen(&mut self, entries: T::Frozen, class: T::Class, span: Span, removed: Vec<u64>) {
        let has_entries = T::frozen_size(&entries).entries > 0;
        let id = self.new_id();
        let frozen = has_entries.then(|| FrozenRun { id, class, span, entries: Arc::new(entries) });
        self.edit(Edit { removed, frozen, ..Edit::default() });
    }

    /// Takes the newest frozen run that `is_it` out of the version: whoever calls has its entries elsewhere. The jobs that read it are
    /// given up; returns it, and their files, which are to be removed now.
    pub(super) fn take_frozen(
        &mut self,
        is_it: impl Fn(&T::Frozen, T::Class) -> bool,
    ) -> Option<(Arc<T::Frozen>, Vec<FileId>)> {
        let found = self.version.frozen.iter().rev().find(|one| is_it(&one.entries, one.class))?;
        let (id, entries) = (found.id, Arc::clone(&found.entries));
        let readers: Vec<u64> =
            self.jobs.iter().filter(|job| job.inputs.contains(&id)).map(|job| job.id).collect();
        let dead = readers.into_iter().flat_map(|job| self.give_up(job)).collect();
        self.edit(Edit { removed: vec![id], ..Edit::default() });
        Some((entries, dead))
    }

    /// Adds a run of segments, in hash order, that is as new as a memtable that is frozen now.
    pub(crate) fn push_run(
        &mut self,
        segments: impl IntoIterator<Item = T::Segment>,
        class: T::Class,
        level: i32,
    ) {
        let span = Span { oldest: self.memtables, newest: self.memtables };
        self.memtables += 1;
        self.is_changed = true;
        let (id, pieces) = (self.new_id(), segments.into_iter().map(Arc::new).collect());
        let run = Run { id, class, span, level, pieces, replaced: Size::default() };
        self.edit(Edit { run: Some(run), ..Edit::default() });
    }

    pub(crate) fn has_entries_in_memory(&self) -> bool {
        !self.version.frozen.is_empty() || self.open_memtables.iter().any(Option::is_some)
    }

    /// Whether a run in RAM, or a memtable, may have entries that are as old as this age or older.
    pub(crate) fn has_in_memory_up_to(&self, newest: u64) -> bool {
        let frozen = self.version.frozen.iter().map(|one| one.span.oldest);
        frozen.chain(self.open_memtables.iter().flatten().copied()).any(|oldest| oldest <= newest)
    }

    /// Whether merges found the disk full, and are not to be tried again yet.
    pub(super) fn waits_for_space(&self) -> bool {
        self.no_space.as_ref().is_some_and(|full| self.memtables < full.retry_memtables)
    }

    /// Lets merges that found the disk full be tried again.
    pub(super) fn retry(&mut self) {
        self.no_space = self.no_space.take().map(|full| NoSpace { retry_memtables: 0, ..full });
    }

    /// Drops all runs of these classes, and the jobs that read them; classes that are merged with each other go together. Returns the
    /// files that nobody needs any more.
    pub(crate) fn drop_classes(&mut self, is_dropped: impl Fn(T::Class) -> bool) -> Vec<FileId> {
        let frozen = self.version.frozen.iter().filter(|one| is_dropped(one.class)).map(|one| one.id);
        let runs = self.version.runs.iter().filter(|run| is_dropped(run.class)).map(|run| run.id);
        let removed: Vec<u64> = frozen.chain(runs).collect();
        let reads = |job: &&MergeJob<T>| job.inputs.iter().any(|input| removed.contains(input));
        let readers: Vec<u64> = self.jobs.iter().filter(reads).map(|job| job.id).collect();
        let mut dead: Vec<FileId> = readers.into_iter().flat_map(|job| self.give_up(job)).collect();
        self.is_changed = true;
        dead.extend(self.edit(Edit { removed, ..Edit::default() }));
        dead
    }
}
