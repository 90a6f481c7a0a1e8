//! What trees share, and the threads that work for them.
//!
//! Locks, in the order in which they are taken: root buffers in the order of trees, the schedule, spare runs.

use super::super::group::GroupHasher;
use super::super::state::{Aggregate, Shape};
use super::fragment::{Compressor, Scratch};
use super::merge::merge;
use super::nodes::{Destination, NodeId};
use super::options::Knobs;
use super::root::{RootBuffer, Sorting};
use super::run::{Held, Run, TUPLE_BYTES};
use super::schedule::{Done, Schedule, Task};
use super::stats::{Counters, add};
use crate::device::thread;
use crate::lock::{lock, wait};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Trees of hash ranges, and what is done to them.
#[derive(Debug)]
pub(super) struct Shared<A> {
    pub(super) aggregate: A,
    pub(super) shape: Shape,
    pub(super) hasher: GroupHasher,
    pub(super) knobs: Knobs,
    pub(super) compressor: Compressor,
    pub(super) counters: Counters,
    clock: Option<fn() -> u64>,
    /// Bytes of root buffers, of runs, and of what workers keep.
    pub(super) held: Arc<AtomicUsize>,
    /// A tree's root buffer that rows go into.
    pub(super) buffers: Vec<Mutex<RootBuffer>>,
    pub(super) schedule: Mutex<Schedule>,
    /// There are tasks, or there will be none.
    work: Condvar,
    /// A task was done.
    progress: Condvar,
    /// Runs that nobody uses: a few are kept, so that their memory is not asked for and given back again and again.
    spare: Mutex<Vec<Run>>,
    /// Whether a worker was started; if none was, whoever waits works.
    has_workers: AtomicBool,
}

/// What a thread that works keeps.
#[derive(Debug)]
pub(super) struct Desk {
    sorting: Sorting,
    pub(super) scratch: Scratch,
    held: Held,
}

impl Desk {
    pub(super) fn new(held: &Arc<AtomicUsize>) -> Desk {
        Desk { sorting: Sorting::default(), scratch: Scratch::default(), held: Held::of(held) }
    }
}

/// The shared part, and its threads; they end with it.
#[derive(Debug)]
pub(super) struct Workers<A: Aggregate> {
    pub(super) shared: Arc<Shared<A>>,
    threads: Vec<JoinHandle<()>>,
}

impl<A: Aggregate> Workers<A> {
    pub(super) fn start(
        aggregate: A,
        shape: Shape,
        hasher: GroupHasher,
        knobs: Knobs,
        compressor: Compressor,
        clock: Option<fn() -> u64>,
    ) -> Workers<A> {
        let held = Arc::default();
        let shared = Arc::new(Shared {
            aggregate,
            shape,
            hasher,
            knobs,
            compressor,
            counters: Counters::default(),
            clock,
            buffers: (0..knobs.trees).map(|_| Mutex::new(RootBuffer::new(&held))).collect(),
            held,
            schedule: Mutex::new(Schedule::new(&knobs)),
            work: Condvar::new(),
            progress: Condvar::new(),
            spare: Mutex::default(),
            has_workers: AtomicBool::new(false),
        });
        let start = |_| {
            let worker = Arc::clone(&shared);
            thread::start("overbank-tree", None, move || worker.work_on()).ok()
        };
        let threads: Vec<_> = (0..knobs.workers).map_while(start).collect();
        shared.has_workers.store(!threads.is_empty(), Ordering::Relaxed);
        Workers { shared, threads }
    }
}

impl<A: Aggregate> Drop for Workers<A> {
    fn drop(&mut self) {
        lock(&self.shared.schedule).stop();
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was told to the callers as a failure.
            let _ = thread.join();
        }
    }
}

/// Says that a task failed, unless it is told that it did not: a panic of the user's aggregate or codec is a failure, too.
struct Panics<'s, A: Aggregate>(Option<&'s Shared<A>>);

impl<A: Aggregate> Drop for Panics<'_, A> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            lock(&shared.schedule).fail("a thread panicked in an aggregate or a codec".to_owned());
            shared.wake();
        }
    }
}

impl<A: Aggregate> Shared<A> {
    /// The tree of a hash: trees are ranges of it.
    #[inline]
    pub(super) fn tree_of(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.knobs.trees as u64) >> 32) as usize
    }

    fn work_on(&self) {
        let mut desk = Desk::new(&self.held);
        loop {
            let mut schedule = lock(&self.schedule);
            let task = loop {
                match schedule.next() {
                    Some(task) => break task,
                    None if schedule.is_over() => return,
                    None => schedule = wait(&self.work, schedule),
                }
            };
            drop(schedule);
            self.perform(task, &mut desk);
        }
    }

    /// Does a task and what follows from it.
    fn perform(&self, task: Task, desk: &mut Desk) {
        let mut panics = Panics(Some(self));
        let done = self.timed_result_of(task, desk);
        panics.0 = None;
        desk.held.set(desk.sorting.memory_bytes() + desk.scratch.memory_bytes());
        let mut schedule = lock(&self.schedule);
        match done {
            Ok(done) => schedule.done(done),
            Err(error) => schedule.fail(error.to_string()),
        }
        drop(schedule);
        self.wake();
    }

    pub(super) fn wake(&self) {
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Waits until `is_ready`, working meanwhile if there are no workers.
    ///
    /// # Errors
    /// `WorkerFailed`.
    pub(super) fn wait_until<'s>(
        &'s self,
        mut schedule: MutexGuard<'s, Schedule>,
        is_ready: impl Fn(&Schedule) -> bool,
    ) -> Result<MutexGuard<'s, Schedule>> {
        let mut desk = None;
        loop {
            if let Some(why) = schedule.failure() {
                return Err(Error::WorkerFailed { what: "a buffer tree", why: why.to_owned() });
            }
            if is_ready(&schedule) {
                return Ok(schedule);
            }
            let task = if self.has_workers.load(Ordering::Relaxed) { None } else { schedule.next() };
            match task {
                Some(task) => {
                    drop(schedule);
                    self.perform(task, desk.get_or_insert_with(|| Desk::new(&self.held)));
                    schedule = lock(&self.schedule);
                }
                None => schedule = wait(&self.progress, schedule),
            }
        }
    }

    fn timed_result_of(&self, task: Task, desk: &mut Desk) -> Result<Done> {
        let Some(clock) = self.clock else { return self.result_of(task, desk) };
        let time = match task {
            Task::Sort { .. } => &self.counters.sort_time,
            Task::Decompress { .. } => &self.counters.decompress_time,
            Task::Merge { .. } => &self.counters.merge_time,
            Task::Empty { .. } => &self.counters.divide_time,
            Task::Compress { .. } => &self.counters.compress_time,
        };
        let begin = clock();
        let done = self.result_of(task, desk);
        time.fetch_add(clock().saturating_sub(begin), Ordering::Relaxed);
        done
    }

    fn result_of(&self, task: Task, desk: &mut Desk) -> Result<Done> {
        match task {
            Task::Sort { tree, mut buffer } => {
                let mut run = self.spare_run();
                run.reserve(0, buffer.raw_bytes() / 2)?;
                add(&self.counters.objects_sorted, buffer.len());
                buffer.sort(&self.aggregate, self.shape, &mut desk.sorting, &mut run)?;
                add(&self.counters.objects_aggregated, run.len());
                Ok(Done::Sorted { tree, buffer, run })
            }
            Task::Decompress { tree, node, fragments } => {
                let (mut input, mut ends) = (self.spare_run(), Vec::with_capacity(fragments.len()));
                let objects = fragments.iter().map(|fragment| fragment.objects).sum();
                let raw_bytes: usize = fragments.iter().map(|fragment| fragment.raw_bytes).sum();
                input.reserve(objects, raw_bytes - objects * TUPLE_BYTES)?;
                for fragment in fragments {
                    self.compressor.decode(&fragment.bytes, &mut input, &mut desk.scratch)?;
                    ends.push(input.len());
                    add(&self.counters.decompressed_from_bytes, fragment.bytes.len());
                }
                add(&self.counters.decompressed_to_bytes, raw_bytes);
                Ok(Done::Decompressed { tree, node, input, ends })
            }
            Task::Merge { tree, node, input, ends } => {
                let mut run = self.spare_run();
                merge(&self.aggregate, self.shape, &input, &ends, &mut run)?;
                add(&self.counters.objects_merged, input.len());
                add(&self.counters.objects_aggregated, run.len());
                self.give_back(input);
                Ok(Done::Merged { tree, node, run })
            }
            Task::Empty { tree, node, run, children } => {
                let parts = divide(&run, &children, self.knobs.buffer_bytes);
                Ok(Done::Divided { tree, node, run, parts })
            }
            Task::Compress { tree, node, to, run, objects } => {
                let fragment = self.compressor.encode(&run, objects, &mut desk.scratch);
                add(&self.counters.fragments_compressed, 1);
                add(&self.counters.compressed_from_bytes, fragment.raw_bytes);
                add(&self.counters.compressed_to_bytes, fragment.bytes.len());
                if let Some(run) = Arc::into_inner(run) {
                    self.give_back(run);
                }
                Ok(Done::Compressed { tree, node, to, fragment })
            }
        }
    }

    fn spare_run(&self) -> Run {
        lock(&self.spare).pop().unwrap_or_else(|| Run::new(&self.held))
    }

    fn give_back(&self, mut run: Run) {
        run.clear();
        let mut spare = lock(&self.spare);
        if spare.len() < self.knobs.workers.max(1) {
            spare.push(run);
        }
    }
}

/// Which objects belong where: to children by their ranges, or to a leaf, which is split where more than half of a buffer is left of it.
fn divide(run: &Run, children: &[(u32, NodeId)], buffer_bytes: usize) -> Vec<(Destination, Range<usize>)> {
    let all = 0..run.len();
    if children.is_empty() {
        let is_large = run.raw_bytes(&all) > buffer_bytes / 2;
        return match run.middle().filter(|_| is_large) {
            Some(middle) => vec![(Destination::Leaf, 0..middle), (Destination::Leaf, middle..all.end)],
            None => vec![(Destination::Leaf, all)],
        };
    }
    let mut parts = Vec::with_capacity(children.len());
    let mut start = 0;
    for (i, &(_, child)) in children.iter().enumerate() {
        let end = match children.get(i + 1) {
            Some(&(next, _)) => start + run.hashes[start..].partition_point(|&hash| hash < next),
            None => all.end,
        };
        if end > start {
            parts.push((Destination::Child(child), start..end));
        }
        start = end;
    }
    parts
}
