//! Batches of reads on a pool of threads, for kernels and containers without io_uring.
//!
//! ```text
//!   caller ──jobs──▶ queue ──▶ threads in pread ──▶ done ──▶ caller: callback, then the buffer's next job
//!            up to 2 × depth buffers                 woken when done was empty
//! ```
//!
//! Invariants:
//! 1. A job owns its buffer and its file, so a caller that leaves early (an error, a panic) leaves nothing dangling.
//! 2. At most `depth` threads work for a batch: no more jobs than that are taken from it at once, though as many again
//!    wait, so that a thread which finishes finds its next job without going to sleep.
//! 3. Threads are started when jobs wait and none is idle, never more than `threads_max`, and end with the pool. Fewer serve
//!    as well, if more slowly.
//! 4. A fork of the process that made the pool has none of its threads: it neither hands them jobs nor waits for them.

use super::opened::Opened;
use super::reads::{Begun, Reads};
use crate::device::{AlignedBuf, Process, thread};
use crate::lock::{lock, wait};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// Enough for `pread` and an error; a thread needs no more.
const STACK_BYTES: usize = 128 << 10;
/// Above this a second buffer a thread costs more memory than the wake-ups it saves.
const QUEUE_AHEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct ThreadPool {
    shared: Arc<Shared>,
    threads_max: usize,
    owner: Process,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Arc<Batch>>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closing: bool,
}

/// The meeting place of one batch's caller and the threads that serve it.
#[derive(Debug)]
struct Batch {
    depth: usize,
    state: Mutex<BatchState>,
    completed: Condvar,
}

#[derive(Debug, Default)]
struct BatchState {
    waiting: VecDeque<Job>,
    /// Threads that work for the batch.
    served_by: usize,
    done: Vec<(Job, Result<()>)>,
}

#[derive(Debug)]
struct Job {
    read: usize,
    file: Arc<Opened>,
    offset: u64,
    bytes: usize,
    buffer: AlignedBuf,
}

impl ThreadPool {
    pub(super) fn new(threads_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max, owner: Process::current() }
    }

    pub(super) fn threads_max(&self) -> usize {
        self.threads_max
    }

    /// Does all of `reads`, none longer than `longest` bytes, with up to `depth` threads; none where no thread can be
    /// started.
    pub(super) fn read_many(
        &self,
        reads: &Reads<'_>,
        longest: usize,
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<Begun> {
        self.owner.require_current(&reads.file(0).path)?;
        let depth = depth.min(self.threads_max);
        let ahead = if longest <= QUEUE_AHEAD_BYTES_MAX { depth } else { 0 };
        let batch = Arc::new(Batch { depth, state: Mutex::default(), completed: Condvar::new() });
        let mut pending = 0..reads.len();
        let mut next_job = |buffer| {
            pending.next().map(|read| Job {
                read,
                file: Arc::clone(reads.file(read)),
                offset: reads.request(read).offset,
                bytes: reads.request(read).bytes as usize,
                buffer,
            })
        };
        let mut jobs: Vec<Job> =
            (0..depth + ahead).map_while(|_| next_job(AlignedBuf::zeroed(longest))).collect();
        let mut outstanding = 0;
        let mut failure: Option<Error> = None;
        let mut finished = Vec::new();
        loop {
            outstanding += jobs.len();
            if !self.hand_over(&batch, &mut jobs) {
                // Only the first jobs can find no thread: threads stay.
                return Ok(Begun::No);
            }
            if outstanding == 0 {
                return failure.map_or(Ok(Begun::Yes), Err);
            }
            batch.take_done(&mut finished);
            for (job, outcome) in finished.drain(..) {
                outstanding -= 1;
                if failure.is_some() {
                    continue;
                }
                match outcome.and_then(|()| done(job.read, &job.buffer[..job.bytes])) {
                    Ok(()) => jobs.extend(next_job(job.buffer)),
                    Err(e) => failure = Some(e),
                }
            }
            if failure.is_some() {
                jobs.clear();
                outstanding -= batch.withdraw();
            }
        }
    }

    /// Queues `jobs` and sees to it that threads serve them; false if there is no thread and none can be started.
    fn hand_over(&self, batch: &Arc<Batch>, jobs: &mut Vec<Job>) -> bool {
        if jobs.is_empty() {
            return true;
        }
        let wanted = {
            let mut state = lock(&batch.state);
            state.waiting.extend(jobs.drain(..));
            let wanted = state.waiting.len().min(batch.depth - state.served_by);
            state.served_by += wanted;
            wanted
        };
        if wanted == 0 {
            return true;
        }
        let mut queue = lock(&self.shared.queue);
        queue.batches.extend(std::iter::repeat_n(batch, wanted).cloned());
        let mut missing = queue.batches.len().saturating_sub(queue.idle);
        while missing > 0 && queue.threads.len() < self.threads_max {
            let shared = self.shared.clone();
            match thread::start("overbank-read", Some(STACK_BYTES), move || serve(&shared)) {
                Ok(thread) => queue.threads.push(thread),
                Err(_) => break,
            }
            missing -= 1;
        }
        if queue.threads.is_empty() {
            queue.batches.retain(|queued| !Arc::ptr_eq(queued, batch));
            return false;
        }
        drop(queue);
        for _ in 0..wanted {
            self.shared.wake.notify_one();
        }
        true
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // A lock of the queue may have been a thread's that is not here.
            return std::mem::forget(Arc::clone(&self.shared));
        }
        let threads = {
            let mut queue = lock(&self.shared.queue);
            queue.closing = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.wake.notify_all();
        for thread in threads {
            // A thread never holds the pool, only its queue, so it cannot be waiting for itself here.
            let _ = thread.join();
        }
    }
}

impl Batch {
    /// Waits until something is done, and takes it.
    fn take_done(&self, into: &mut Vec<(Job, Result<()>)>) {
        let mut state = lock(&self.state);
        while state.done.is_empty() {
            state = wait(&self.completed, state);
        }
        std::mem::swap(&mut state.done, into);
    }

    /// Takes back the jobs that no thread has begun; how many they were.
    fn withdraw(&self) -> usize {
        let mut state = lock(&self.state);
        let waiting = state.waiting.len();
        state.waiting.clear();
        waiting
    }

    /// Reads until nothing waits.
    fn work(&self) {
        let mut state = lock(&self.state);
        while let Some(mut job) = state.waiting.pop_front() {
            drop(state);
            let outcome = job.file.read_exact(job.offset, &mut job.buffer[..job.bytes]);
            state = lock(&self.state);
            if state.done.is_empty() {
                self.completed.notify_one();
            }
            state.done.push((job, outcome));
        }
        state.served_by -= 1;
    }
}

/// A thread's life: one batch after the other.
fn serve(shared: &Shared) {
    let mut queue = lock(&shared.queue);
    loop {
        if let Some(batch) = queue.batches.pop_front() {
            drop(queue);
            batch.work();
            queue = lock(&shared.queue);
        } else if queue.closing {
            return;
        } else {
            queue.idle += 1;
            queue = wait(&shared.wake, queue);
            queue.idle -= 1;
        }
    }
}
