//! The version, and the jobs that make the next ones: what the tree's lock guards.
//!
//! Whoever holds a [`State`] holds that lock. Nothing here waits, reads or writes.

use super::commit::Durable;
use super::frozen::Joining;
use super::job::{Lane, MergeJob, Stage, lanes};
use super::picker::{Choice, Policy, Shape, due, level_of};
use super::run::{FrozenRun, Run, Span};
use super::version::{Edit, Version};
use super::{Input, LaneSpec, Order, Table};
use crate::Error;
use crate::store::FileId;
use std::path::PathBuf;
use std::sync::Arc;

/// After a full disk, merges are tried again when so many memtables have come since.
const RETRY_MEMTABLES: u64 = 16;
/// A merge of fewer entries is not worth a second thread, and its pieces not a second file.
const LANE_ENTRIES_MIN: u64 = 1 << 20;

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
    /// Background threads that look for lanes.
    pub(super) drivers: usize,
    pub(super) durable: Durable,
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
    /// Of a tree with these runs on flash, whose ids are below their number, and with so many writers.
    pub(crate) fn new(writes: T::Writes, memtables: u64, writers: usize, runs: Vec<Run<T>>) -> Self {
        let next_id = runs.iter().map(|run| run.id + 1).max().unwrap_or(0);
        State {
            durable: Durable::of(&runs),
            version: Arc::new(Version::new(runs)),
            jobs: Vec::new(),
            joining: Joining::default(),
            writes,
            memtables,
            open_memtables: vec![None; writers],
            no_space: None,
            orphaned_lanes: 0,
            is_changed: false,
            drivers: 0,
            next_id,
        }
    }

    /// The runs that a reader sees.
    pub(crate) fn version(&self) -> &Arc<Version<T>> {
        &self.version
    }

    pub(super) fn edit(&mut self, edit: Edit<T>) {
        self.version = Arc::new(self.version.edited(edit));
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
            Shape { id, class, span, level, entries: run.size().entries, is_busy: self.is_busy(id) }
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

    /// Takes the frozen memtable of a writer in, or a run that had none.
    pub(crate) fn push_frozen(&mut self, writer: Option<usize>, entries: T::Frozen, class: T::Class) {
        let newest = self.memtables;
        self.memtables += 1;
        self.is_changed = true;
        let began = writer.and_then(|writer| self.open_memtables[writer].take());
        self.put_frozen(entries, class, Span { oldest: began.unwrap_or(newest), newest }, Vec::new());
    }

    /// Puts a frozen run in the place of `removed` ones.
    pub(super) fn put_frozen(&mut self, entries: T::Frozen, class: T::Class, span: Span, removed: Vec<u64>) {
        let has_entries = T::frozen_size(&entries).entries > 0;
        let id = self.new_id();
        let frozen = has_entries.then(|| FrozenRun { id, class, span, entries: Arc::new(entries) });
        self.edit(Edit { removed, frozen, run: None });
    }

    /// Adds a segment that is as new as a memtable that is frozen now.
    pub(crate) fn push_run(&mut self, segment: T::Segment, class: T::Class, level: i32) {
        let span = Span { oldest: self.memtables, newest: self.memtables };
        self.memtables += 1;
        self.is_changed = true;
        let run = Run { id: self.new_id(), class, span, level, pieces: vec![Arc::new(segment)] };
        self.edit(Edit { run: Some(run), ..Edit::default() });
    }

    pub(crate) fn has_entries_in_memory(&self) -> bool {
        !self.version.frozen.is_empty() || self.open_memtables.iter().any(Option::is_some)
    }

    /// Begins to flush the frozen runs, of the oldest one's class if there are several, unless that is under way.
    pub(super) fn begin_flush(&mut self, lanes: usize) {
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
        let Some(class) = idle.first().map(|one| one.class) else { return };
        let inputs = || idle.iter().filter(|one| one.class == class);
        let entries = inputs().map(|one| one.size().entries).sum();
        let choice = Choice { inputs: inputs().map(|one| one.id).collect(), class };
        self.begin(true, choice, entries, lanes);
    }

    /// Begins the merges that are due.
    pub(super) fn begin_merges(&mut self, policy: Policy, flush_entries: u64, lanes: usize) {
        if self.no_space.as_ref().is_some_and(|full| self.memtables < full.retry_memtables) {
            return;
        }
        loop {
            let shapes = self.shapes();
            let in_memory: Vec<Span> = self.version.frozen.iter().map(|one| one.span).collect();
            let wanted = T::wanted(&self.writes, &shapes);
            let choice = wanted.or_else(|| due(T::ORDER, &shapes, &in_memory, flush_entries, policy));
            let Some(choice) = choice else { return };
            self.begin_merge(choice, lanes);
        }
    }

    /// Begins to merge runs on flash.
    pub(super) fn begin_merge(&mut self, choice: Choice<T::Class>, lanes: usize) {
        let inputs = self.version.runs.iter().filter(|run| choice.inputs.contains(&run.id));
        let entries = inputs.map(|run| run.size().entries).sum();
        self.begin(false, choice, entries, lanes);
    }

    fn begin(&mut self, is_flush: bool, choice: Choice<T::Class>, entries: u64, lanes_max: usize) {
        let Choice { inputs, class } = choice;
        let Some(span) = self.version.span_of(&inputs) else { return };
        // A tombstone takes from what is older than it: if all of that is merged here, there is nothing left for it to take.
        let is_oldest = (self.version.other_spans(&inputs).map(|other| other.oldest))
            .chain(self.open_memtables.iter().flatten().copied())
            .all(|oldest| oldest > span.newest);
        let id = self.new_id();
        let lanes = lanes((entries / LANE_ENTRIES_MIN).clamp(1, lanes_max as u64));
        self.jobs.push(MergeJob { id, is_flush, inputs, class, span, is_oldest, entries, lanes });
        // Flushes make room, and short merges are not to wait for long ones.
        self.jobs.sort_by_key(|job| (!job.is_flush, job.entries));
    }

    /// Takes a lane that can be worked on. At most `merges_max` merges are open at a time, for each holds memory.
    pub(super) fn take_lane(
        &mut self,
        merges_max: usize,
        may_end: bool,
        is_behind: bool,
    ) -> Option<Taken<T>> {
        let can_go = |lane: &Lane<T>| lane.stage.can_go(may_end);
        let open = self.open_jobs(merges_max);
        let at = open.into_iter().find(|&at| self.jobs[at].lanes.iter().any(can_go))?;
        let job = &mut self.jobs[at];
        let lane = job.lanes.iter().position(can_go)?;
        let stage = std::mem::replace(&mut job.lanes[lane].stage, Stage::Taken);
        let MergeJob { id, is_flush, class, is_oldest, .. } = *job;
        let spec = LaneSpec { class, range: job.lanes[lane].range.clone(), is_oldest, is_behind };
        let inputs = if matches!(stage, Stage::Waiting) { self.inputs_of(at) } else { Vec::new() };
        Some(Taken { job: id, is_flush, lane, stage, spec, inputs })
    }

    /// What a job merges, the oldest first.
    fn inputs_of(&self, job: usize) -> Vec<Input<T>> {
        let ids = &self.jobs[job].inputs;
        let runs = self.version.runs.iter().filter(|run| ids.contains(&run.id));
        let frozen = self.version.frozen.iter().filter(|one| ids.contains(&one.id));
        (runs.flat_map(|run| run.pieces.iter().cloned().map(Input::Flash)))
            .chain(frozen.map(|one| Input::Memory(Arc::clone(&one.entries))))
            .collect()
    }

    /// How many lanes [`State::take_lane`] would give.
    pub(super) fn lanes_to_take(&self, merges_max: usize, may_end: bool) -> usize {
        let lanes = self.open_jobs(merges_max).into_iter().flat_map(|at| &self.jobs[at].lanes);
        lanes.filter(|lane| lane.stage.can_go(may_end)).count()
    }

    /// Puts a lane back where [`State::take_lane`] took it; whether its job is done.
    ///
    /// # Errors
    /// The stage, if its job was given up meanwhile.
    pub(super) fn put_lane(&mut self, job: u64, lane: usize, stage: Stage<T>) -> Result<bool, Stage<T>> {
        let Some(job) = self.jobs.iter_mut().find(|one| one.id == job) else { return Err(stage) };
        job.lanes[lane].stage = stage;
        Ok(job.is_done())
    }

    /// The jobs that may be worked on: flushes, merges that have begun, and the shortest others up to `merges_max`.
    fn open_jobs(&self, merges_max: usize) -> Vec<usize> {
        let mut open = self.jobs.iter().filter(|job| !job.is_flush && job.has_begun()).count();
        let may_go = |(_, job): &(usize, &MergeJob<T>)| {
            if job.is_flush || job.has_begun() {
                return true;
            }
            open += 1;
            open <= merges_max
        };
        self.jobs.iter().enumerate().filter(may_go).map(|(at, _)| at).collect()
    }

    /// Ends a job without a result: its inputs stay. Returns the files that are to be removed now.
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

    /// Lets merges that found the disk full be tried again.
    pub(super) fn retry(&mut self) {
        self.no_space = self.no_space.take().map(|full| NoSpace { retry_memtables: 0, ..full });
    }

    /// Puts the result of a job that is done in the place of its inputs. Returns the files that are to be removed now.
    pub(super) fn publish(&mut self, id: u64, flush_entries: u64, policy: Policy) -> Vec<FileId> {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else { return Vec::new() };
        let mut job = self.jobs.remove(at);
        // That there is room for a flush does not say that there is enough for a merge.
        self.no_space = self.no_space.take().filter(|full| job.is_flush && !full.is_flush);
        let (inputs, class, span) = (std::mem::take(&mut job.inputs), job.class, job.span);
        let pieces: Vec<Arc<T::Segment>> = job.into_pieces().collect();
        let entries = pieces.iter().map(|piece| T::segment_size(piece).entries).sum();
        let level = level_of(entries, flush_entries, policy);
        let run = (!pieces.is_empty()).then(|| Run { id: self.new_id(), class, span, level, pieces });
        self.replace(inputs, run)
    }

    /// Drops all runs of these classes, and the jobs that read them. Returns the files that are to be removed now.
    pub(crate) fn drop_classes(&mut self, is_dropped: impl Fn(T::Class) -> bool) -> Vec<FileId> {
        let frozen = self.version.frozen.iter().filter(|one| is_dropped(one.class)).map(|one| one.id);
        let runs = self.version.runs.iter().filter(|run| is_dropped(run.class)).map(|run| run.id);
        let removed: Vec<u64> = frozen.chain(runs).collect();
        let reads = |job: &&MergeJob<T>| job.inputs.iter().any(|input| removed.contains(input));
        let readers: Vec<u64> = self.jobs.iter().filter(reads).map(|job| job.id).collect();
        let mut dead: Vec<FileId> = readers.into_iter().flat_map(|job| self.give_up(job)).collect();
        dead.extend(self.replace(removed, None));
        dead
    }

    /// Puts a run, or none, in the place of others. Returns the files that are to be removed now.
    fn replace(&mut self, removed: Vec<u64>, run: Option<Run<T>>) -> Vec<FileId> {
        self.is_changed = true;
        let gone = self.version.runs.iter().filter(|run| removed.contains(&run.id));
        let files: Vec<FileId> =
            gone.flat_map(|run| &run.pieces).map(|piece| T::file_ref(piece).id).collect();
        self.edit(Edit { removed, frozen: None, run });
        self.durable.give_up(files)
    }
}
