//! The version, and the jobs that make the next ones: what the tree's lock guards.
//!
//! Whoever holds a [`State`] holds that lock. Nothing here waits, reads or writes.

use super::commit::Durable;
use super::frozen::Joining;
use super::job::{MergeJob, Stage, lanes};
use super::picker::{Choice, Policy, Shape, due, level_of, restful, sparing};
use super::run::{FrozenRun, Run, Size, Span};
use super::scheduler::Limits;
use super::version::{Edit, Merging, Version};
use super::{Input, LaneSpec, Order, Table};
use crate::Error;
use crate::store::FileId;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// After a full disk, merges are tried again when so many memtables have come since.
const RETRY_MEMTABLES: u64 = 16;

/// A disk that was full.
#[derive(Clone, Debug)]
pub(crate) struct NoSpace {
    pub(crate) path: PathBuf,
    needed_bytes: u64,
    /// The job that found it so.
    pub(crate) job: u64,
    /// A flush found it full, with no merge that held space.
    pub(crate) is_flush: bool,
    /// How many memtables there are when merges are tried again.
    retry_memtables: u64,
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
    version: Arc<Version<T>>,
    /// The merges that are due or under way: flushes first, then the shortest.
    pub(super) jobs: Vec<MergeJob<T>>,
    /// Frozen runs that are being joined in RAM.
    pub(super) joining: Joining,
    /// What the table notes of new entries.
    pub(crate) writes: T::Writes,
    /// Memtables that were frozen: the clock by which ages are told.
    pub(crate) memtables: u64,
    /// How many there were when the memtable of each writer took its first entry; `None` where it is empty.
    open_memtables: Vec<Option<u64>>,
    pub(crate) no_space: Option<NoSpace>,
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
    next_id: u64,
}

/// A lane that a thread takes.
#[derive(Debug)]
pub(super) struct Taken<T: Table> {
    pub(super) job: u64,
    pub(super) is_flush: bool,
    pub(super) lane: usize,
    pub(super) stage: Stage<T>,
    pub(super) spec: LaneSpec<T::Class>,
    /// Empty where the merge has its inputs already.
    pub(super) inputs: Vec<Input<T>>,
}

impl<T: Table> State<T> {
    /// Of a tree with this version and so many writers.
    pub(crate) fn new(writes: T::Writes, memtables: u64, writers: usize, version: Version<T>) -> Self {
        let next_id = version.runs.iter().map(|run| run.id + 1).max().unwrap_or(0);
        State {
            durable: Durable::nothing(),
            version: Arc::new(version),
            jobs: Vec::new(),
            joining: Joining::default(),
            writes,
            memtables,
            open_memtables: vec![None; writers],
            no_space: None,
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
    fn edit(&mut self, edit: Edit<T>) -> Vec<FileId> {
        let before = Arc::clone(&self.version);
        let has_files =
            edit.merging.is_some() || before.runs.iter().any(|run| edit.removed.contains(&run.id));
        self.version = Arc::new(before.edited(edit));
        let after = if has_files { self.version.files() } else { BTreeSet::new() };
        if has_files { before.files().difference(&after).copied().collect() } else { Vec::new() }
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

    /// How many writers there are at most.
    pub(crate) fn writers(&self) -> usize {
        self.open_memtables.len()
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

    /// Adds a segment that is as new as a memtable that is frozen now.
    pub(crate) fn push_run(&mut self, segment: T::Segment, class: T::Class, level: i32) {
        let span = Span { oldest: self.memtables, newest: self.memtables };
        self.memtables += 1;
        self.is_changed = true;
        let (id, pieces) = (self.new_id(), vec![Arc::new(segment)]);
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

    /// Begins to flush the frozen runs, of the oldest one's class if there are several, and of the classes that belong to it by
    /// [`Table::whole_class`]: a job each, one after the other. Nothing is begun while a flush is under way.
    pub(super) fn begin_flush(&mut self, limits: &Limits) {
        if self.jobs.iter().any(|job| job.is_flush) {
            return;
        }
        let is_idle = |one: &&FrozenRun<T>| !self.is_busy(one.id);
        let frozen = self.version.frozen.iter();
        let idle: Vec<&FrozenRun<T>> = match T::ORDER {
            Order::Sums => frozen.filter(is_idle).collect(),
            // What is older than others goes to flash before them.
            Order::NewestWins => frozen.take_while(is_idle).collect(),
        };
        let Some(whole) = idle.first().map(|one| T::whole_class(one.class)) else { return };
        let mut together: Vec<&FrozenRun<T>> =
            idle.into_iter().filter(|one| T::whole_class(one.class) == whole).collect();
        together.sort_by_key(|one| one.class);
        let choices: Vec<(Choice<T::Class>, u64)> = (together.chunk_by(|a, b| a.class == b.class))
            .map(|runs| {
                let inputs = runs.iter().map(|one| one.id).collect();
                let entries = runs.iter().map(|one| one.size().entries).sum();
                (Choice { inputs, class: runs[0].class }, entries)
            })
            .collect();
        for (choice, entries) in choices {
            self.begin(true, choice, entries, 0, limits.lanes_for_threads(entries));
        }
    }

    /// Begins the merges that are due, and goes on with those that were cut off.
    pub(super) fn begin_merges(&mut self, policy: Policy, limits: &Limits) {
        if self.waits_for_space() {
            return;
        }
        self.resume(limits);
        loop {
            let shapes = self.shapes();
            let in_memory: Vec<Span> = self.version.frozen.iter().map(|one| one.span).collect();
            let wanted = T::wanted(&self.writes, &shapes);
            let choice = wanted.or_else(|| due(T::ORDER, &shapes, &in_memory, limits.flush_entries, policy));
            let Some(choice) = choice else { return };
            self.begin_merge(choice, limits, Limits::PIECES_DUE_MAX);
        }
    }

    /// Goes on with merges that have published a part of their result and are nobody's job.
    fn resume(&mut self, limits: &Limits) {
        let version = Arc::clone(&self.version);
        for Merging { inputs, output, border } in &version.merges {
            let is_job = self.jobs.iter().any(|job| job.output == Some(*output));
            let Some(run) = version.runs.iter().find(|run| run.id == *output).filter(|_| !is_job) else {
                continue;
            };
            let of_inputs = || version.runs.iter().filter(|run| inputs.contains(&run.id));
            let entries: u64 = of_inputs().map(Run::entries).sum();
            // What is left has its share of the lanes.
            let left = |whole: u64| ((u128::from(whole) * ((1 << 64) - u128::from(*border))) >> 64) as u64;
            let bytes = of_inputs().map(|run| run.size().bytes).sum::<u64>() + run.size().bytes;
            let parts =
                left(limits.lanes_for_space(entries, bytes, version.flash_bytes(), Limits::PIECES_MAX)) + 1;
            let choice = Choice { inputs: inputs.clone(), class: run.class };
            self.begin(false, choice, left(entries), *border, parts);
            if let Some(job) = self.jobs.iter_mut().find(|job| job.inputs == *inputs) {
                job.output = Some(*output);
            }
        }
    }

    /// Begins to merge runs on flash.
    pub(super) fn begin_merge(&mut self, choice: Choice<T::Class>, limits: &Limits, pieces_max: u64) {
        let inputs = || self.version.runs.iter().filter(|run| choice.inputs.contains(&run.id));
        let entries: u64 = inputs().map(Run::entries).sum();
        let bytes: u64 = inputs().map(|run| run.size().bytes).sum();
        let parts = limits.lanes_for_space(entries, bytes, self.version.flash_bytes(), pieces_max);
        self.begin(false, choice, entries, 0, parts);
    }

    /// Of runs that are all to become one, those to be merged now: see [`sparing`].
    pub(super) fn spare(&self, all: Choice<T::Class>, limits: &Limits) -> Choice<T::Class> {
        let bytes = self.version.flash_bytes();
        let spare = (bytes / Limits::SPARE.1 * Limits::SPARE.0).max(Limits::SPARE_BYTES_MIN);
        let open = limits.lanes as u64 * (bytes / Limits::PIECES_MAX);
        sparing(T::ORDER, &self.shapes(), all, open, spare)
    }

    /// Begins a merge that is not due, if nothing is: see [`restful`].
    pub(super) fn begin_restful(&mut self, is_patient: bool, limits: &Limits) {
        if !self.jobs.is_empty() || self.waits_for_space() {
            return;
        }
        let Some(all) = restful(T::ORDER, &self.shapes(), T::whole_class, is_patient) else { return };
        let (choice, job) = (self.spare(all, limits), self.next_id);
        self.begin_merge(choice, limits, Limits::PIECES_MAX);
        self.jobs.iter_mut().filter(|one| one.id == job).for_each(|one| one.is_restful = true);
    }

    /// Whether a merge is half done that nothing makes go on now.
    pub(super) fn has_cut_off(&self) -> bool {
        let is_job = |merging: &Merging| self.jobs.iter().any(|job| job.output == Some(merging.output));
        self.jobs.iter().any(|job| job.is_restful) || !self.version.merges.iter().all(is_job)
    }

    /// Whether a job is due: one that writers owe, and that waits for nothing.
    pub(super) fn has_due_jobs(&self) -> bool {
        self.jobs.iter().any(|job| !job.is_restful)
    }

    /// Ends the merges that are not due; what they published stays, and is gone on with as any merge that was cut off.
    pub(super) fn end_restful(&mut self) -> Vec<FileId> {
        self.rests = false;
        let restful: Vec<u64> = self.jobs.iter().filter(|job| job.is_restful).map(|job| job.id).collect();
        restful.into_iter().flat_map(|job| self.give_up(job)).collect()
    }

    /// Begins to merge what runs have from a hash on.
    fn begin(&mut self, is_flush: bool, choice: Choice<T::Class>, entries: u64, border: u64, parts: u64) {
        let Choice { inputs, class } = choice;
        let Some(span) = self.version.span_of(&inputs) else { return };
        // A tombstone takes from what is older than it: if all of that is merged here, there is nothing left for it to take.
        let own = |id: &u64| self.version.merges.iter().any(|one| one.output == *id && one.inputs == inputs);
        let mut own: Vec<u64> = self.version.runs.iter().map(|run| run.id).filter(own).collect();
        own.extend(&inputs);
        let is_oldest = (self.version.other_spans(&own).map(|other| other.oldest))
            .chain(self.open_memtables.iter().flatten().copied())
            .all(|oldest| oldest > span.newest);
        let (id, lanes, output) = (self.new_id(), lanes(border, parts), None);
        if !is_flush {
            // It has the memory that a merge which is not due may have.
            self.closed
                .extend(self.jobs.iter_mut().filter(|job| job.is_restful).flat_map(MergeJob::close_lanes));
        }
        let is_restful = false;
        self.jobs.push(MergeJob {
            id,
            is_flush,
            is_restful,
            inputs,
            output,
            class,
            span,
            is_oldest,
            entries,
            lanes,
        });
        // Flushes make room, and short merges are not to wait for long ones.
        self.jobs.sort_by_key(|job| if job.is_flush { (false, 0) } else { (true, job.entries) });
    }

    /// Takes a lane that can be worked on. At most so many merges are open at a time as the limits say, for each holds memory.
    pub(super) fn take_lane(&mut self, limits: &Limits, may_end: bool, is_behind: bool) -> Option<Taken<T>> {
        let first = |at: usize| Some((at, self.jobs[at].lanes_to_take(limits.lanes, may_end).next()?));
        let (at, lane) = self.open_jobs(limits.merges).into_iter().find_map(first)?;
        let job = &mut self.jobs[at];
        let stage = std::mem::replace(&mut job.lanes[lane].stage, Stage::Taken);
        let MergeJob { id, is_flush, class, is_oldest, .. } = *job;
        let spec = LaneSpec { class, range: job.lanes[lane].range.clone(), is_oldest, is_behind };
        let inputs = if matches!(stage, Stage::Waiting) { self.inputs_of(at, lane) } else { Vec::new() };
        Some(Taken { job: id, is_flush, lane, stage, spec, inputs })
    }

    /// What a lane of a job merges, the oldest first.
    fn inputs_of(&self, job: usize, lane: usize) -> Vec<Input<T>> {
        let (ids, range) = (&self.jobs[job].inputs, &self.jobs[job].lanes[lane].range);
        let runs = self.version.runs.iter().filter(|run| ids.contains(&run.id));
        let frozen = self.version.frozen.iter().filter(|one| ids.contains(&one.id));
        let has_some = |piece: &&Arc<T::Segment>| {
            let hashes = T::hashes(piece);
            hashes.start() <= range.end() && hashes.end() >= range.start()
        };
        (runs.flat_map(|run| run.pieces.iter().filter(has_some).cloned().map(Input::Flash)))
            .chain(frozen.map(|one| Input::Memory(Arc::clone(&one.entries))))
            .collect()
    }

    /// How many lanes [`State::take_lane`] would give.
    pub(super) fn lanes_to_take(&self, limits: &Limits, may_end: bool) -> usize {
        let lanes = |at: usize| self.jobs[at].lanes_to_take(limits.lanes, may_end).count();
        self.open_jobs(limits.merges).into_iter().map(lanes).sum()
    }

    /// Puts a lane back where [`State::take_lane`] took it; whether its job is to publish what it has done: all, or so much that a piece
    /// of an input is not needed any more.
    ///
    /// # Errors
    /// The stage, if its job was given up meanwhile.
    pub(super) fn put_lane(&mut self, job: u64, lane: usize, stage: Stage<T>) -> Result<bool, Stage<T>> {
        let has_merges = self.jobs.iter().any(|one| !one.is_flush && !one.is_restful);
        let Some(job) = self.jobs.iter_mut().find(|one| one.id == job) else { return Err(stage) };
        job.lanes[lane].stage = stage;
        if job.is_restful && has_merges {
            self.closed.extend(job.close_lanes());
        }
        let Some(border) = job.border() else { return Ok(true) };
        // A commit takes in how far a merge has come.
        self.is_changed |= job.has_news();
        let is_over = |piece: &Arc<T::Segment>| *T::hashes(piece).end() < border;
        let mut inputs = self.version.runs.iter().filter(|run| job.inputs.contains(&run.id));
        Ok(job.has_news() && inputs.any(|run| run.pieces.iter().any(is_over)))
    }

    /// The merges that have done something which is not published.
    pub(super) fn merges_with_news(&self) -> Vec<u64> {
        self.jobs.iter().filter(|job| job.has_news()).map(|job| job.id).collect()
    }

    /// The jobs that may be worked on: the first flush, merges that have begun, and the shortest others up to `merges_max`; and one that
    /// is not due, where there are no other merges.
    fn open_jobs(&self, merges_max: usize) -> Vec<usize> {
        let has_merges = self.jobs.iter().any(|job| !job.is_flush && !job.is_restful);
        let is_merge = |job: &&MergeJob<T>| !job.is_flush && !job.is_restful;
        let mut open = self.jobs.iter().filter(is_merge).filter(|job| job.has_begun()).count();
        let mut flushes = 0;
        let may_go = |(_, job): &(usize, &MergeJob<T>)| {
            if job.is_restful {
                return self.rests && !has_merges;
            }
            if job.is_flush {
                flushes += 1;
                return flushes == 1;
            }
            if job.has_begun() {
                return true;
            }
            open += 1;
            open <= merges_max
        };
        self.jobs.iter().enumerate().filter(may_go).map(|(at, _)| at).collect()
    }

    /// Ends a job: what it published stays, and its inputs from its border on. Returns the files that are to be removed now.
    pub(super) fn give_up(&mut self, id: u64) -> Vec<FileId> {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else { return Vec::new() };
        let job = self.jobs.remove(at);
        self.orphaned_lanes += job.taken();
        job.into_pieces().map(|piece| T::file_ref(&piece).id).collect()
    }

    /// Ends a job a lane of which failed, and is no more. Returns the files that are to be removed now.
    pub(super) fn fail(&mut self, id: u64, is_flush: bool, error: &Error) -> Vec<FileId> {
        let mut dead = self.give_up(id);
        self.orphaned_lanes -= 1;
        let Error::Full { path, needed_bytes } = error else { return dead };
        // Flushes go before merges also in space: what these have written goes, and the flush may be tried again at once.
        let merges = self.jobs.iter().filter(|job| is_flush && !job.is_flush && job.has_begun());
        let merges: Vec<u64> = merges.map(|job| job.id).collect();
        self.no_space = Some(NoSpace {
            path: path.clone(),
            needed_bytes: *needed_bytes,
            job: id,
            is_flush: is_flush && merges.is_empty() && self.orphaned_lanes == 0,
            retry_memtables: self.memtables + RETRY_MEMTABLES,
        });
        dead.extend(merges.into_iter().flat_map(|merge| self.give_up(merge)));
        dead
    }

    /// Whether merges found the disk full, and are not to be tried again yet.
    pub(super) fn waits_for_space(&self) -> bool {
        self.no_space.as_ref().is_some_and(|full| self.memtables < full.retry_memtables)
    }

    /// Lets merges that found the disk full be tried again.
    pub(super) fn retry(&mut self) {
        self.no_space = self.no_space.take().map(|full| NoSpace { retry_memtables: 0, ..full });
    }

    /// Puts what a job has done in the place of what its inputs had there. Returns the files that nobody needs any more.
    pub(super) fn publish(&mut self, id: u64, flush_entries: u64, policy: Policy) -> Vec<FileId> {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else { return Vec::new() };
        let job = &mut self.jobs[at];
        // That there is room for a flush does not say that there is enough for a merge.
        self.no_space = self.no_space.take().filter(|full| job.is_flush && !full.is_flush);
        let (class, span, inputs, border) = (job.class, job.span, job.inputs.clone(), job.border());
        let mut pieces = self.version.pieces_of(job.output);
        pieces.extend(job.take_done());
        let entries: u64 = pieces.iter().map(|piece| T::segment_size(piece).entries).sum();
        let level = level_of(entries, flush_entries, policy);
        let output = job.output.unwrap_or(self.next_id);
        self.next_id = self.next_id.max(output + 1);
        job.output = Some(output);
        self.is_changed = true;
        let is_empty = pieces.is_empty();
        let run = Run { id: output, class, span, level, pieces, replaced: Size::default() };
        let Some(border) = border else {
            self.jobs.remove(at);
            self.durable.note_merged(&inputs, output);
            let (mut removed, run) = (inputs, (!is_empty).then_some(run));
            removed.extend(is_empty.then_some(output));
            return self.edit(Edit { removed, run, ..Edit::default() });
        };
        let merging = Some(Merging { inputs, output, border });
        self.edit(Edit { run: Some(run), merging, ..Edit::default() })
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
