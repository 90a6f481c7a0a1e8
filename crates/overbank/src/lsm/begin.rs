//! Which jobs begin: flushes, the merges that are due, those that were cut off, and those that nobody waits for.

use super::job::{MergeJob, lanes};
use super::picker::{Choice, Policy, due, restful, sparing};
use super::run::{FrozenRun, Run, Span};
use super::state::State;
use super::version::Merging;
use super::{Limits, Order, Table};
use crate::store::FileId;
use std::sync::Arc;

impl<T: Table> State<T> {
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
            let by_length = || due(T::ORDER, &shapes, &in_memory, limits.flush_entries, policy);
            let choice = wanted.or_else(|| if T::BY_LENGTH { by_length() } else { None });
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
        sparing(T::ORDER, &self.shapes(), all, (open, spare), limits.inputs_max)
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
}
