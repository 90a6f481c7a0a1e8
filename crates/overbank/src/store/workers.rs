//! The store's background threads: merges and sorts that need not hold up an insert.
//!
//! Invariants:
//! 1. A job that fails or panics poisons the store with its text; nothing fails in silence.
//! 2. With zero threads a job runs inside `spawn`, so a simulated run is deterministic.
//! 3. Dropping the pool waits for the jobs that have been spawned.
//! 4. Threads that the system refuses are done without, down to none.
//! 5. A fork of the process that started the threads has none of them: jobs spawned there fail, and nobody waits for them.
//! 6. When no job came or was under way for 200 ms, the threads ask who wants to hear of it whether there is work that nobody waits for;
//!    they ask again as long as one of them says so, and once jobs have come.
//! 7. A job goes to the thread that was idle last, so few jobs at a time are done by few threads: allocators hold for each thread
//!    what its jobs freed. Eight threads in turn held 8 times the memory of the one that would do.

use super::poison::Poison;
use crate::Result;
use crate::device::thread;
use crate::lock::{lock, wait, wait_timeout_while, wait_while};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// A small pool of threads. Shared by everything that a store has open.
pub struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    poison: Poison,
}

/// Without a job for so long, the threads are idle.
const IDLE: Duration = Duration::from_millis(200);

/// Is told that the threads are idle: whether it wants to be told again though no job comes. `None` once it is gone.
type Rester = Arc<dyn Fn() -> Option<bool> + Send + Sync>;

struct Queue {
    state: Mutex<QueueState>,
    /// Wakes each thread.
    wake: Vec<Condvar>,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Box<dyn FnOnce() + Send>>,
    /// Threads that wait for a job, the one that came last at the end.
    idle: Vec<usize>,
    resters: Vec<Rester>,
    /// Somebody is to be told when the threads are idle.
    is_watched: bool,
    /// Jobs that have begun, and those that have not ended.
    begun: u64,
    running: usize,
    closed: bool,
}

/// A spawned job.
#[derive(Debug)]
pub struct Job {
    outcome: Arc<Outcome>,
    poison: Poison,
}

#[derive(Debug, Default)]
struct Outcome {
    /// `None` while it runs; then whether it succeeded.
    done: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Workers {
    /// A pool of at most so many threads.
    pub(super) fn new(threads: usize, poison: Poison) -> Self {
        let wake = (0..threads).map(|_| Condvar::new()).collect();
        let queue = Arc::new(Queue { state: Mutex::default(), wake });
        let serve = |i| {
            let queue = Arc::clone(&queue);
            thread::start(&format!("overbank-{i}"), None, move || queue.serve(i)).ok()
        };
        let threads = (0..threads).map_while(serve).collect();
        Workers { queue, threads, poison }
    }

    /// How many threads there are; 0 means that jobs run inside [`Workers::spawn`].
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Runs `job` on a free thread.
    ///
    /// # Errors
    /// None here: a job's failure poisons the store and shows in [`Job::wait`].
    pub fn spawn(&self, job: impl FnOnce() -> Result<()> + Send + 'static) -> Job {
        let (job, run) = Job::new(self.poison.clone(), job);
        if self.poison.check_process().is_err() {
            // Nobody would run it; waiting for it says so.
            return job;
        }
        if self.threads.is_empty() {
            run();
        } else {
            self.queue.push(Box::new(run));
        }
        job
    }

    /// For summaries whose jobs spawn others, or that are shared by threads of their own.
    pub fn spawner(&self) -> Spawner {
        Spawner { queue: Arc::clone(&self.queue), threads: self.threads(), poison: self.poison.clone() }
    }
}

/// Spawns jobs as long as the store is open. Clones share the pool.
#[derive(Clone)]
pub struct Spawner {
    queue: Arc<Queue>,
    threads: usize,
    poison: Poison,
}

impl Spawner {
    /// How many threads there are; 0 once the store is closing.
    pub fn threads(&self) -> usize {
        if self.poison.check_process().is_err() || lock(&self.queue.state).closed { 0 } else { self.threads }
    }

    /// Has `rester` called by a thread whenever the threads are idle, until it returns `None`; if there is no thread, never. It returns
    /// whether it wants to be called again though no job comes. It must not take long: what it finds to do are jobs. A panic poisons
    /// the store.
    pub(crate) fn when_idle(&self, rester: impl Fn() -> Option<bool> + Send + Sync + 'static) {
        if self.threads() > 0 {
            let poison = self.poison.clone();
            let mut state = lock(&self.queue.state);
            state.resters.push(Arc::new(move || {
                let rested = catch_unwind(AssertUnwindSafe(&rester));
                rested.unwrap_or_else(|panic| {
                    poison.set(format!("a background job panicked: {}", thread::panic_text(&*panic)));
                    None
                })
            }));
            self.queue.watch(&mut state);
        }
    }

    /// Runs `job` on a free thread; if there is none, never. Its failure poisons the store.
    pub fn spawn(&self, job: impl FnOnce() -> Result<()> + Send + 'static) {
        if self.threads() > 0 {
            self.queue.push(Box::new(Job::new(self.poison.clone(), job).1));
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Job {
    /// A job, and what runs it.
    fn new(poison: Poison, job: impl FnOnce() -> Result<()> + Send + 'static) -> (Job, impl FnOnce() + Send) {
        let outcome = Arc::<Outcome>::default();
        let (result, poisons) = (Arc::clone(&outcome), poison.clone());
        let run = move || {
            let success = match catch_unwind(AssertUnwindSafe(job)) {
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    poisons.set(format!("a background job failed: {error}"));
                    false
                }
                Err(panic) => {
                    poisons.set(format!("a background job panicked: {}", thread::panic_text(&*panic)));
                    false
                }
            };
            *lock(&result.done) = Some(success);
            result.changed.notify_all();
        };
        (Job { outcome, poison }, run)
    }

    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        lock(&self.outcome.done).is_some()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// `Poisoned` if it failed or panicked; `Forked`.
    pub fn wait(&self) -> Result<()> {
        self.poison.check_process()?;
        let mut done = lock(&self.outcome.done);
        while done.is_none() {
            done = wait(&self.outcome.changed, done);
        }
        if *done == Some(true) { Ok(()) } else { self.poison.check() }
    }
}

impl Queue {
    fn push(&self, job: Box<dyn FnOnce() + Send>) {
        let mut state = lock(&self.state);
        // Nobody would run it, and it may hold what holds this queue.
        if !state.closed {
            state.jobs.push_back(job);
            self.watch(&mut state);
            if let Some(thread) = state.idle.pop() {
                self.wake[thread].notify_one();
            }
        }
    }

    /// The life of a thread, of this number.
    fn serve(&self, thread: usize) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.begun += 1;
                state.running += 1;
                drop(state);
                job();
                state = lock(&self.state);
                state.running -= 1;
                continue;
            }
            if state.closed {
                return;
            }
            state.idle.push(thread);
            let is_idle = |state: &mut QueueState| !state.closed && state.idle.contains(&thread);
            let watches = thread == 0 && state.is_watched && !state.resters.is_empty();
            if !watches {
                let is_idle = |state: &mut QueueState| is_idle(state) && (thread != 0 || !state.is_watched);
                state = wait_while(&self.wake[thread], state, is_idle);
                state.idle.retain(|&idle| idle != thread);
                continue;
            }
            let begun = state.begun;
            let (after, timed_out) = wait_timeout_while(&self.wake[thread], state, IDLE, is_idle);
            state = after;
            state.idle.retain(|&idle| idle != thread);
            if timed_out && state.running == 0 && state.begun == begun && !state.closed {
                state = self.rest(state);
            }
        }
    }

    /// Sees to it that the first thread looks whether all are idle.
    fn watch(&self, state: &mut QueueState) {
        if !state.is_watched && !state.resters.is_empty() {
            state.is_watched = true;
            self.wake[0].notify_one();
        }
    }

    /// Tells who wants to hear of it that the threads are idle; without the lock meanwhile.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        let resters = state.resters.clone();
        state.is_watched = false;
        drop(state);
        let (mut gone, mut wants_more) = (Vec::new(), false);
        for rester in &resters {
            match rester() {
                Some(more) => wants_more |= more,
                None => gone.push(Arc::as_ptr(rester)),
            }
        }
        // What a rester holds may be the last of a tree.
        drop(resters);
        let mut state = lock(&self.state);
        let (kept, dropped) = std::mem::take(&mut state.resters)
            .into_iter()
            .partition(|one| !gone.iter().any(|other| std::ptr::addr_eq(*other, Arc::as_ptr(one))));
        state.resters = kept;
        state.is_watched |= wants_more;
        drop::<Vec<Rester>>(dropped);
        state
    }
}

impl Workers {
    /// Waits for all jobs and ends the threads.
    pub(super) fn finish(&mut self) {
        if self.poison.check_process().is_err() {
            // The threads are those of another process, and one of them may have held the queue.
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        lock(&self.queue.state).closed = true;
        self.queue.wake.iter().for_each(Condvar::notify_one);
        for thread in self.threads.drain(..) {
            // A job that had the last clone of the store.
            if thread.thread().id() == std::thread::current().id() {
                continue;
            }
            // Jobs catch their own panics, so a thread has nothing to report here.
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn pool(threads: usize) -> (Workers, Poison) {
        let poison = Poison::new("store".into());
        (Workers::new(threads, poison.clone()), poison)
    }

    #[test]
    fn threads_that_cannot_start_are_done_without() {
        for granted in 0..3 {
            let poison = Poison::new("store".into());
            let workers = thread::refusal::after(granted, || Workers::new(3, poison.clone()));
            assert_eq!((workers.threads(), workers.spawner().threads()), (granted, granted));
            let ran = Arc::new(AtomicUsize::new(0));
            let jobs: Vec<Job> = (0..10)
                .map(|_| {
                    let ran = Arc::clone(&ran);
                    workers.spawn(move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })
                })
                .collect();
            jobs.iter().for_each(|job| job.wait().unwrap());
            assert_eq!(ran.load(Ordering::Relaxed), 10);
        }
    }

    #[test]
    fn all_jobs_run_before_the_pool_is_gone() {
        for threads in [0, 1, 3] {
            let ran = Arc::new(AtomicUsize::new(0));
            let (workers, poison) = pool(threads);
            for _ in 0..100 {
                let ran = Arc::clone(&ran);
                workers.spawn(move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
            }
            drop(workers);
            assert_eq!(ran.load(Ordering::Relaxed), 100);
            poison.check().unwrap();
        }
    }

    #[test]
    fn one_job_at_a_time_is_done_by_one_thread() {
        let (workers, _) = pool(8);
        let is_all_idle = || lock(&workers.queue.state).idle.len() == 8;
        let doers: Vec<_> = (0..50)
            .map(|_| {
                while !is_all_idle() {
                    std::thread::yield_now();
                }
                let (tell, told) = std::sync::mpsc::channel();
                let job = workers.spawn(move || {
                    tell.send(std::thread::current().id()).expect("somebody listens");
                    Ok(())
                });
                job.wait().unwrap();
                told.recv().unwrap()
            })
            .collect();
        assert!(doers.iter().all(|doer| *doer == doers[0]), "{doers:?}");
    }

    #[test]
    fn idle_threads_ask_for_work_as_long_as_there_is_some_and_again_after_jobs() {
        for threads in [1, 3] {
            let (workers, poison) = pool(threads);
            let (tell, told) = std::sync::mpsc::channel();
            let calls = AtomicUsize::new(0);
            workers.spawner().when_idle(move || {
                let call = calls.fetch_add(1, Ordering::Relaxed);
                tell.send(call).ok()?;
                // The third call finds nothing more to do.
                Some(call < 2)
            });
            assert_eq!([told.recv(), told.recv(), told.recv()], [Ok(0), Ok(1), Ok(2)]);
            workers.spawn(|| Ok(())).wait().unwrap();
            assert_eq!(told.recv(), Ok(3));
            drop(told);
            // Who is gone is asked once more, and no more: its channel is closed.
            workers.spawn(|| Ok(())).wait().unwrap();
            while !lock(&workers.queue.state).resters.is_empty() {
                std::thread::yield_now();
            }
            poison.check().unwrap();
        }
    }

    #[test]
    fn a_panic_while_the_threads_are_idle_poisons() {
        let (workers, poison) = pool(2);
        workers.spawner().when_idle(|| panic!("a planted panic"));
        while poison.check().is_ok() {
            std::thread::yield_now();
        }
        assert!(poison.check().unwrap_err().to_string().contains("a planted panic"));
        drop(workers);
    }

    #[test]
    fn a_panic_or_an_error_poisons_with_its_text() {
        for threads in [0, 2] {
            let (workers, poison) = pool(threads);
            assert!(workers.spawn(|| panic!("broken merge")).wait().is_err());
            assert!(poison.check().unwrap_err().to_string().contains("broken merge"));
            let (workers, _) = pool(threads);
            let missing = || Err(crate::Error::NotFound { what: "file", name: "x".to_owned() });
            let error = workers.spawn(missing).wait().unwrap_err();
            assert!(error.to_string().contains("no file"), "{error}");
        }
    }
}
