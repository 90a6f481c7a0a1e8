//! Where the reader of captures lays packets down, and the threads that count take them up.
//!
//! ```text
//!   reader ── deal ──▶ │ job 7 │ job 8 │ ──▶ take ──▶ decode ──▶ resolve, in the order of jobs ──▶ count ──▶ done
//!      ▲                                                                                           │
//!      └──────────────────────────── chunks to be filled again ◀───────────────────────────────────┘
//! ```
//!
//! 1. There are so many chunks and no more: a reader that is faster than those who count waits for them.
//! 2. The later fragments of datagrams get the ports of their first ones in the order of packets, whoever counts them.
//! 3. Where a thread ends before its time, nobody waits for it: the others come to their end.

use super::crew::lock;
use crate::failure::Failure;
use overbank_ingest::capture::{FlowBatch, Fragments, PacketChunk};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Packets of a chunk, to be counted.
pub(super) struct Job {
    pub(super) chunk: Arc<PacketChunk>,
    pub(super) packets: Range<usize>,
    number: u64,
}

/// What a thread is to do next.
pub(super) enum Next {
    Count(Job),
    /// To leave an epoch that has ended, and to let the gatherer have what is due.
    Turn,
    End,
}

/// The desk.
pub(super) struct Desk {
    state: Mutex<State>,
    /// There is something to take.
    work: Condvar,
    /// Something was done.
    done: Condvar,
    /// It is another job's turn to be resolved.
    order: Condvar,
    fragments: Mutex<Fragments>,
    threads: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    free: Vec<PacketChunk>,
    /// Chunks that there are.
    chunks: usize,
    /// Jobs that are being done.
    busy: usize,
    dealt: u64,
    /// Jobs below this have their ports.
    resolved: u64,
    /// Counts the turns that were asked for.
    round: u64,
    /// How many threads have made this turn.
    turned: usize,
    is_closed: bool,
    is_broken: bool,
}

impl Desk {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            order: Condvar::new(),
            fragments: Mutex::default(),
            threads,
        }
    }

    /// A chunk to be filled, once there is one.
    pub(super) fn chunk(&self) -> Result<PacketChunk, Failure> {
        let mut state = lock(&self.state);
        loop {
            check(&state)?;
            if let Some(chunk) = state.free.pop() {
                return Ok(chunk);
            }
            if state.chunks < self.threads + 2 {
                state.chunks += 1;
                return Ok(PacketChunk::new());
            }
            state = wait(&self.done, state);
        }
    }

    /// Gives a chunk back of which nothing is to be counted.
    pub(super) fn give_back(&self, chunk: PacketChunk) {
        lock(&self.state).free.push(chunk);
    }

    /// Has packets of a chunk counted.
    pub(super) fn deal(&self, chunk: &Arc<PacketChunk>, packets: Range<usize>) {
        if packets.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        let job = Job { chunk: Arc::clone(chunk), packets, number: state.dealt };
        state.dealt += 1;
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
    }

    /// Waits until everything that was dealt is counted.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        while !state.jobs.is_empty() || state.busy > 0 {
            check(&state)?;
            state = wait(&self.done, state);
        }
        check(&state)
    }

    /// Has every thread turn, and waits for that.
    pub(super) fn turn(&self) -> Result<(), Failure> {
        self.ask_to_turn();
        let mut state = lock(&self.state);
        while state.turned < self.threads {
            check(&state)?;
            state = wait(&self.done, state);
        }
        check(&state)
    }

    /// Has every thread turn.
    pub(super) fn ask_to_turn(&self) {
        let mut state = lock(&self.state);
        state.round += 1;
        state.turned = 0;
        drop(state);
        self.work.notify_all();
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.work.notify_all();
    }

    /// What to do next, for a thread that has made `round` turns.
    pub(super) fn take(&self, round: &mut u64) -> Next {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.busy += 1;
                return Next::Count(job);
            }
            if *round != state.round {
                *round = state.round;
                return Next::Turn;
            }
            if state.is_closed || state.is_broken {
                return Next::End;
            }
            state = wait(&self.work, state);
        }
    }

    /// Gives later fragments the ports of their first ones, when all packets before have theirs.
    pub(super) fn resolve(&self, job: &Job, batch: &mut FlowBatch) {
        let mut state = lock(&self.state);
        while state.resolved != job.number && !state.is_broken {
            state = wait(&self.order, state);
        }
        drop(state);
        lock(&self.fragments).resolve(batch);
        lock(&self.state).resolved += 1;
        self.order.notify_all();
    }

    /// A job is done.
    pub(super) fn finish(&self, job: Job) {
        lock(&self.state).busy -= 1;
        self.let_go(job.chunk);
    }

    /// Whoever is the last to let go of a chunk, the reader or one who counts, has it filled again.
    pub(super) fn let_go(&self, chunk: Arc<PacketChunk>) {
        lock(&self.state).free.extend(Arc::into_inner(chunk));
        self.done.notify_all();
    }

    /// A turn is made.
    pub(super) fn has_turned(&self) {
        lock(&self.state).turned += 1;
        self.done.notify_all();
    }
}

fn wait<'s>(condition: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}

fn check(state: &State) -> Result<(), Failure> {
    match state.is_broken {
        // Whoever ended early says why.
        true => Err(Failure::Usage(
            "a thread that counts has ended early; run again with fewer --threads".to_owned(),
        )),
        false => Ok(()),
    }
}

/// A thread's place at the desk. If it is left before its time, the others are told.
pub(super) struct Seat<'d> {
    desk: &'d Desk,
    is_done: bool,
}

impl<'d> Seat<'d> {
    pub(super) fn new(desk: &'d Desk) -> Self {
        Self { desk, is_done: false }
    }

    /// It was left in time.
    pub(super) fn leave(mut self) {
        self.is_done = true;
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        lock(&self.desk.state).is_broken = true;
        self.desk.work.notify_all();
        self.desk.done.notify_all();
        self.desk.order.notify_all();
    }
}

/// The reader's place at the desk. When it is left, nothing more will come.
pub(super) struct Lectern<'d>(pub(super) &'d Desk);

impl Drop for Lectern<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_early_is_not_waited_for() {
        let desk = Desk::new(2);
        let chunk = Arc::new(desk.chunk().expect("there are some"));
        desk.deal(&chunk, 0..1);
        desk.deal(&chunk, 1..2);
        desk.deal(&chunk, 2..2);
        let mut round = 0;
        let Next::Count(job) = desk.take(&mut round) else { panic!("there are two jobs") };
        assert_eq!(job.packets, 0..1);
        drop(Seat::new(&desk));
        assert!(desk.settle().is_err() && desk.turn().is_err() && desk.chunk().is_err());
        let mut batch = FlowBatch::new();
        let Next::Count(second) = desk.take(&mut round) else { panic!("there is one left") };
        // The first job's turn never comes.
        desk.resolve(&second, &mut batch);
        assert!(matches!(desk.take(&mut round), Next::Turn) && matches!(desk.take(&mut round), Next::End));
    }

    #[test]
    fn chunks_come_again_once_all_of_them_is_counted() {
        let desk = Desk::new(1);
        let chunks: Vec<PacketChunk> = (0..3).map(|_| desk.chunk().expect("three for one thread")).collect();
        let chunk = Arc::new(chunks.into_iter().next().expect("three"));
        desk.deal(&chunk, 0..1);
        desk.deal(&chunk, 1..2);
        let mut round = 0;
        for _ in 0..2 {
            let Next::Count(job) = desk.take(&mut round) else { panic!("two jobs") };
            desk.resolve(&job, &mut FlowBatch::new());
            desk.finish(job);
            assert_eq!(lock(&desk.state).free.len(), 0, "the reader has it still");
        }
        desk.let_go(chunk);
        assert_eq!(lock(&desk.state).free.len(), 1);
        desk.settle().expect("all is done");
        assert!(desk.chunk().is_ok());
        drop(Lectern(&desk));
        assert!(matches!(desk.take(&mut round), Next::End));
    }
}
