//! How jobs go on and end: their lanes are taken for a step and put back, what is done is published, and a job that fails is given up.

use super::job::{MergeJob, Stage};
use super::picker::{Policy, level_of};
use super::run::{Run, Size};
use super::state::{NoSpace, State};
use super::version::{Edit, Merging};
use super::{Input, LaneSpec, Limits, Table};
use crate::Error;
use crate::store::FileId;
use std::sync::Arc;

/// After a full disk, merges are tried again when so many memtables have come since.
const RETRY_MEMTABLES: u64 = 16;

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
}
