//! What there is, what is being merged, and what is to be merged next.
//!
//! ```text
//!   logs ─freeze─▶ packed runs in RAM ─flush, a task─▶ runs on flash ─merges, tasks─▶ longer runs
//!                                     a task is cut into lanes, by hash range: one thread takes a lane for a step
//! ```
//!
//! Invariants:
//! 1. A packed run or run is in the list until what replaces it is whole and stands in its place, in one change under the lock. So
//!    every look at the board sees each entry exactly once.
//! 2. A file that the last commit, or one under way, names is not removed; the store does that once no commit names it.

use super::levels::{Age, Run, due, level_of};
use super::options::{FilterOptions, Policy};
use super::task::{Lane, Task, ranges};
use crate::Error;
use crate::filter::run::{FingerprintSegment, PackedRun, RunKind};
use crate::store::FileId;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// After a full disk, merges are tried again when so many logs have come since.
const RETRY_LOGS: u64 = 16;
/// A merge of fewer keys is not worth a second thread, and its pieces not a second file.
const LANE_KEYS_MIN: u64 = 1 << 20;
/// Fewer keys are not worth a look at the whole filter of their own, as long as there are more.
const TOGETHER_KEYS_MIN: u64 = 1 << 12;

/// What new entries belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Era {
    /// Counts the changes of the others.
    pub(super) number: u64,
    pub(super) generation: u32,
    pub(super) pane: u64,
}

/// Entries in RAM.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub(super) id: u64,
    pub(super) run: Arc<PackedRun>,
    pub(super) bits: u32,
    pub(super) pane: u64,
    pub(super) age: Age,
    pub(super) is_busy: bool,
}

/// A disk that was full.
#[derive(Clone, Debug)]
pub(super) struct Stall {
    pub(super) path: PathBuf,
    pub(super) needed_bytes: u64,
    /// What found it so.
    pub(super) task: u64,
    /// A flush found it full, with no merge that held space.
    pub(super) is_flush: bool,
    /// Logs at which merges are tried again.
    retry_logs: u64,
}

impl Stall {
    pub(super) fn error(&self) -> Error {
        Error::Full { path: self.path.clone(), needed_bytes: self.needed_bytes }
    }
}

#[derive(Debug)]
pub(super) struct Board {
    pub(super) era: Era,
    /// Oldest first.
    pub(super) packed: Vec<Packed>,
    pub(super) packed_bytes: usize,
    /// Oldest first.
    pub(super) runs: Vec<Run>,
    pub(super) tasks: Vec<Task>,
    /// Memtables that were frozen.
    pub(super) logs: u64,
    /// How many there were when the log of each writer took its first entry; `None` where it is empty.
    pub(super) open_logs: Vec<Option<u64>>,
    pub(super) stall: Option<Stall>,
    /// Lanes that threads have of tasks that were given up: they hold space until they come back.
    pub(super) strays: usize,
    pub(super) is_changed: bool,
    /// Background jobs that look for lanes.
    pub(super) drivers: usize,
    /// A commit is under way, or failed.
    pub(super) is_prepared: bool,
    /// What the last commit names, and what that one does.
    pub(super) committed: BTreeSet<FileId>,
    pub(super) prepared: BTreeSet<FileId>,
    /// Files that were replaced while a commit under way may have named them.
    pub(super) replaced: Vec<FileId>,
    pub(super) next_id: u64,
}

impl Board {
    pub(super) fn new(era: Era, logs: u64, writers: usize, runs: Vec<Run>) -> Self {
        let committed: BTreeSet<FileId> =
            runs.iter().flat_map(|run| &run.pieces).map(|piece| piece.file_ref().id).collect();
        let next_id = runs.iter().map(|run| run.id + 1).max().unwrap_or(0);
        Board {
            era,
            packed: Vec::new(),
            packed_bytes: 0,
            runs,
            tasks: Vec::new(),
            logs,
            open_logs: vec![None; writers],
            stall: None,
            strays: 0,
            is_changed: false,
            drivers: 0,
            is_prepared: false,
            prepared: committed.clone(),
            committed,
            replaced: Vec::new(),
            next_id,
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Notes that a writer's log takes its first entry; returns how many it may take before the generation could be full.
    pub(super) fn begin_log(&mut self, writer: usize, options: &FilterOptions) -> u64 {
        self.open_logs[writer] = Some(self.logs);
        self.is_changed = true;
        self.left(options) / self.open_logs.len() as u64
    }

    /// How many different fingerprints the generation takes yet, for sure.
    pub(super) fn left(&self, options: &FilterOptions) -> u64 {
        let generation = self.era.generation;
        options.capacity(generation).saturating_sub(self.fingerprints_of(generation, options))
    }

    /// Takes the packed log of a writer in, or a packed run that had none, and begins a generation if this one is full.
    pub(super) fn add_packed(
        &mut self,
        writer: Option<usize>,
        run: PackedRun,
        era: Era,
        options: &FilterOptions,
    ) {
        let newest = self.logs;
        self.logs += 1;
        self.is_changed = true;
        let began = writer.and_then(|writer| self.open_logs[writer].take());
        let age = Age { oldest: began.unwrap_or(newest), newest };
        self.put_packed(run, options.bits(era.generation) + options.value_bits, era.pane, age);
        if era == self.era && self.left(options) == 0 {
            self.begin_generation(options);
        }
    }

    /// Begins a generation of longer fingerprints; false if this one has the longest.
    fn begin_generation(&mut self, options: &FilterOptions) -> bool {
        let Era { number, generation, .. } = self.era;
        let is_longer = options.bits(generation + 1) > options.bits(generation);
        if is_longer {
            self.era = Era { number: number + 1, generation: generation + 1, ..self.era };
            self.is_changed = true;
        }
        is_longer
    }

    /// How many of `keys` keys may be looked up and inserted together while the logs hold `in_logs`, at least one. More than the
    /// generation takes would be told apart by its short fingerprints alone, and taken for each other beyond the promised rate. Where
    /// little room is left a generation begins, so that long batches are not asked for in many short ones.
    pub(super) fn room_for(&mut self, keys: usize, in_logs: u64, options: &FilterOptions) -> usize {
        loop {
            let left = self.left(options).saturating_sub(in_logs);
            let worth_asking = (options.capacity(self.era.generation) / 8).max(TOGETHER_KEYS_MIN);
            if left >= worth_asking.min(keys as u64) {
                return keys.min(usize::try_from(left).unwrap_or(usize::MAX));
            }
            if !self.begin_generation(options) {
                return keys;
            }
        }
    }

    /// Lets new entries have fingerprints that are no shorter than any there is: a shorter tombstone would take from other keys too,
    /// and what shorter ones call alike may be in with longer ones.
    pub(super) fn reach_longest(&mut self, options: &FilterOptions) {
        let longest = self.runs.iter().map(|run| run.bits).max().unwrap_or(0);
        while options.bits(self.era.generation) + options.value_bits < longest {
            if !self.begin_generation(options) {
                break;
            }
        }
    }

    pub(super) fn put_packed(&mut self, run: PackedRun, bits: u32, pane: u64, age: Age) {
        if run.fingerprints() == 0 {
            return;
        }
        self.packed_bytes += run.memory_bytes();
        let id = self.new_id();
        self.packed.push(Packed { id, run: Arc::new(run), bits, pane, age, is_busy: false });
        self.packed.sort_by_key(|packed| packed.age.newest);
    }

    /// Nobody merges these any more.
    pub(super) fn release_packed(&mut self, ids: &[u64]) {
        self.packed.iter_mut().filter(|packed| ids.contains(&packed.id)).for_each(|one| one.is_busy = false);
    }

    pub(super) fn drop_packed(&mut self, ids: &[u64]) {
        self.packed.retain(|packed| !ids.contains(&packed.id));
        self.packed_bytes = self.packed.iter().map(|packed| packed.run.memory_bytes()).sum();
    }

    pub(super) fn has_entries_in_memory(&self) -> bool {
        !self.packed.is_empty() || self.open_logs.iter().any(Option::is_some)
    }

    /// Different fingerprints of a generation, as far as is known without merging.
    fn fingerprints_of(&self, generation: u32, options: &FilterOptions) -> u64 {
        let bits = options.bits(generation) + options.value_bits;
        let packed =
            self.packed.iter().filter(|packed| packed.bits == bits).map(|packed| packed.run.fingerprints());
        let runs = self.runs.iter().filter(|run| run.bits == bits).map(Run::fingerprints);
        packed.chain(runs).sum()
    }

    /// Begins to flush the packed runs, of the oldest family if there are several, unless that is under way.
    pub(super) fn begin_flush(&mut self, kind: RunKind, lanes: usize) {
        if self.tasks.iter().any(|task| task.is_flush) {
            return;
        }
        let Some(&Packed { bits, pane, .. }) = self.packed.iter().find(|packed| !packed.is_busy) else {
            return;
        };
        let mut inputs = Vec::new();
        let mut keys = 0;
        for packed in self
            .packed
            .iter_mut()
            .filter(|packed| !packed.is_busy && (packed.bits, packed.pane) == (bits, pane))
        {
            packed.is_busy = true;
            keys += packed.run.fingerprints();
            inputs.push(packed.id);
        }
        self.begin(true, inputs, Vec::new(), RunKind { fingerprint_bits: bits, ..kind }, pane, keys, lanes);
    }

    /// Begins the merges that are due.
    pub(super) fn begin_merges(&mut self, kind: RunKind, policy: Policy, flush_keys: u64, lanes: usize) {
        if self.stall.as_ref().is_some_and(|stall| self.logs < stall.retry_logs) {
            return;
        }
        while let Some(inputs) = due(&self.runs, self.era.pane, flush_keys, policy) {
            self.begin_merge(kind, inputs, lanes);
        }
    }

    /// Begins to merge the runs `inputs`, all of one family.
    pub(super) fn begin_merge(&mut self, kind: RunKind, inputs: Vec<u64>, lanes: usize) {
        let (mut keys, mut family) = (0, None);
        for run in self.runs.iter_mut().filter(|run| inputs.contains(&run.id)) {
            run.is_busy = true;
            keys += run.fingerprints();
            family = Some((run.bits, run.pane));
        }
        let Some((bits, pane)) = family else { return };
        self.begin(false, Vec::new(), inputs, RunKind { fingerprint_bits: bits, ..kind }, pane, keys, lanes);
    }

    #[allow(clippy::too_many_arguments, reason = "they are the parts of a task")]
    fn begin(
        &mut self,
        is_flush: bool,
        packed: Vec<u64>,
        runs: Vec<u64>,
        kind: RunKind,
        pane: u64,
        keys: u64,
        lanes: usize,
    ) {
        let ages = self.packed.iter().filter(|one| packed.contains(&one.id)).map(|one| one.age);
        let Some(age) =
            Age::joined(ages.chain(self.runs.iter().filter(|run| runs.contains(&run.id)).map(|run| run.age)))
        else {
            return;
        };
        // A tombstone takes from what is older than it: if all of that is merged here, there is nothing left for it to take.
        let is_oldest = (self.runs.iter().filter(|run| !runs.contains(&run.id)).map(|run| run.age))
            .chain(self.packed.iter().filter(|one| !packed.contains(&one.id)).map(|one| one.age))
            .map(|other| other.oldest)
            .chain(self.open_logs.iter().flatten().copied())
            .all(|oldest| oldest > age.newest);
        let lanes = (keys / LANE_KEYS_MIN).clamp(1, lanes as u64);
        let id = self.new_id();
        let lanes = ranges(kind.fingerprint_bits, lanes).map(Lane::Waiting).collect();
        self.tasks.push(Task { id, is_flush, packed, runs, kind, pane, age, is_oldest, keys, lanes });
        // Flushes make room, and short merges are not to wait for long ones.
        self.tasks.sort_by_key(|task| (!task.is_flush, task.keys));
    }

    /// Takes a lane that can be worked on. At most `merges_max` merges are open at a time, for each holds memory.
    pub(super) fn take_lane(&mut self, merges_max: usize, may_end: bool) -> Option<(u64, usize, Lane)> {
        let tasks = self.open_tasks(merges_max);
        for task in tasks {
            let task = &mut self.tasks[task];
            if let Some(at) = task.lanes.iter().position(|lane| lane.can_go(may_end)) {
                let lane = std::mem::replace(&mut task.lanes[at], Lane::Away);
                return Some((task.id, at, lane));
            }
        }
        None
    }

    /// How many lanes [`Board::take_lane`] would give.
    pub(super) fn lanes_to_take(&self, merges_max: usize, may_end: bool) -> usize {
        let lanes = self.open_tasks(merges_max).into_iter().flat_map(|task| &self.tasks[task].lanes);
        lanes.filter(|lane| lane.can_go(may_end)).count()
    }

    /// Puts a lane back where [`Board::take_lane`] took it; whether its task is done.
    ///
    /// # Errors
    /// The lane, if its task was given up meanwhile.
    pub(super) fn put_lane(&mut self, id: u64, at: usize, lane: Lane) -> Result<bool, Lane> {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else { return Err(lane) };
        task.lanes[at] = lane;
        Ok(task.is_done())
    }

    /// The tasks that may be worked on: flushes, merges that have begun, and the shortest others up to `merges_max`.
    fn open_tasks(&self, merges_max: usize) -> Vec<usize> {
        let mut open = self.tasks.iter().filter(|task| !task.is_flush && task.has_begun()).count();
        let may_go = |(_, task): &(usize, &Task)| {
            if task.is_flush || task.has_begun() {
                return true;
            }
            open += 1;
            open <= merges_max
        };
        self.tasks.iter().enumerate().filter(may_go).map(|(at, _)| at).collect()
    }

    /// Ends a task without a result: its inputs stay. Returns the files that are to be removed now.
    pub(super) fn give_up(&mut self, id: u64) -> Vec<FileId> {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else { return Vec::new() };
        let task = self.tasks.remove(at);
        self.strays += task.lanes.iter().filter(|lane| matches!(lane, Lane::Away)).count();
        self.release_packed(&task.packed);
        self.runs.iter_mut().filter(|run| task.runs.contains(&run.id)).for_each(|run| run.is_busy = false);
        task.into_pieces().map(|piece| piece.file_ref().id).collect()
    }

    /// Drops what belongs to panes before `oldest`. Returns the files that are to be removed now.
    pub(super) fn drop_before(&mut self, oldest: u64) -> Vec<FileId> {
        let flushes: Vec<u64> = (self.tasks.iter())
            .filter(|task| task.is_flush && task.pane < oldest)
            .map(|task| task.id)
            .collect();
        let mut dead: Vec<FileId> = flushes.into_iter().flat_map(|task| self.give_up(task)).collect();
        let packed: Vec<u64> =
            self.packed.iter().filter(|packed| packed.pane < oldest).map(|packed| packed.id).collect();
        self.drop_packed(&packed);
        dead.extend(self.drop_runs(|run| run.pane < oldest));
        dead
    }

    /// Ends a task a lane of which failed, and is no more. Returns the files that are to be removed now.
    pub(super) fn fail(&mut self, id: u64, is_flush: bool, error: &Error) -> Vec<FileId> {
        let mut dead = self.give_up(id);
        self.strays -= 1;
        let Error::Full { path, needed_bytes } = error else { return dead };
        // Flushes go before merges also in space: what these have written goes, and the flush may be tried again at once.
        let merges = self.tasks.iter().filter(|task| is_flush && !task.is_flush && task.has_begun());
        let merges: Vec<u64> = merges.map(|task| task.id).collect();
        self.stall = Some(Stall {
            path: path.clone(),
            needed_bytes: *needed_bytes,
            task: id,
            is_flush: is_flush && merges.is_empty() && self.strays == 0,
            retry_logs: self.logs + RETRY_LOGS,
        });
        dead.extend(merges.into_iter().flat_map(|merge| self.give_up(merge)));
        dead
    }

    /// Lets merges that found the disk full be tried again.
    pub(super) fn retry(&mut self) {
        self.stall = self.stall.take().map(|stall| Stall { retry_logs: 0, ..stall });
    }

    /// Puts the result of a task that is done in the place of its inputs. Returns the files that are to be removed now.
    pub(super) fn publish(&mut self, id: u64, flush_keys: u64, policy: Policy) -> Vec<FileId> {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else { return Vec::new() };
        let task = self.tasks.remove(at);
        // That there is room for a flush does not say that there is enough for a merge.
        self.stall = self.stall.take().filter(|stall| task.is_flush && !stall.is_flush);
        self.is_changed = true;
        self.drop_packed(&task.packed);
        let dead = self.drop_runs(|run| task.runs.contains(&run.id));
        let (bits, pane, age) = (task.kind.fingerprint_bits, task.pane, task.age);
        let pieces: Vec<Arc<FingerprintSegment>> = task.into_pieces().collect();
        if !pieces.is_empty() {
            let keys = pieces.iter().map(|piece| piece.fingerprints()).sum();
            let level = level_of(keys, flush_keys, policy);
            let id = self.new_id();
            self.runs.push(Run { id, pieces, level, bits, pane, age, is_busy: false });
            self.runs.sort_by_key(|run| run.age.newest);
        }
        dead
    }

    /// Drops runs, and the tasks that read them. Returns the files that are to be removed now.
    pub(super) fn drop_runs(&mut self, is_dropped: impl Fn(&Run) -> bool) -> Vec<FileId> {
        let (dropped, kept): (Vec<Run>, Vec<Run>) =
            std::mem::take(&mut self.runs).into_iter().partition(is_dropped);
        self.runs = kept;
        let mut dead = Vec::new();
        for run in dropped.iter().filter(|run| run.is_busy) {
            let reader = self.tasks.iter().find(|task| task.runs.contains(&run.id)).map(|task| task.id);
            dead.extend(reader.into_iter().flat_map(|task| self.give_up(task)));
        }
        for piece in dropped.iter().flat_map(|run| &run.pieces) {
            let id = piece.file_ref().id;
            match (self.committed.contains(&id), self.prepared.contains(&id)) {
                // The store removes it with the next commit.
                (true, _) => {}
                (false, true) => self.replaced.push(id),
                (false, false) => dead.push(id),
            }
        }
        dead
    }
}
