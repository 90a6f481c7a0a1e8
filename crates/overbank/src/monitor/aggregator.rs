//! The aggregator: takes the workers' messages, keeps the heavy keys, sets τ, and ends epochs.

use super::heavy::HeavyKeys;
use super::message;
use super::monitored::{Monitored, Weighed};
use super::ring::Receiver;
use super::rule::Rule;
use super::shared::{Shared, State};
use super::sync::{Ordering, fence};
use super::threshold::{Allocation, Threshold};
use super::worker::Worker;
use crate::Result;
use crate::error::invalid;
use std::sync::Arc;

/// Messages taken from one worker before the next one's turn.
const TURN: u64 = 64;
/// Rounds over all workers before τ is looked at.
const ROUNDS: usize = 4;
/// Counters that are settled or cleared in one poll: some tens of microseconds beside sixteen workers.
const SETTLED_AT_ONCE: usize = 4096;

/// What a [`poll`](Aggregator::poll) did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polled {
    /// Messages applied.
    pub applied: u64,
    /// Messages that still wait.
    pub queue: u64,
    /// For how long the caller should rest before the next poll, in nanoseconds: 0 unless the policy limits it.
    pub rest_ns: u64,
}

/// Applies what the workers send. One thread calls [`poll`](Self::poll) again and again; queries do not need it to run.
#[derive(Debug)]
pub struct Aggregator<S: Monitored> {
    shared: Arc<Shared<S>>,
    receivers: Vec<Receiver>,
    /// Of each half and group.
    heavy: [Vec<HeavyKeys<S::Key>>; 2],
    policy: Allocation,
    threshold: Threshold,
    settling: Option<Settling>,
    tau_max_seen: u8,
    /// What the workers had kept back when the current epoch began.
    kept_before: u64,
    /// Of the epoch before it, while that is settled: the highest τ, and what had been kept back when it began.
    left: (u8, u64),
    messages: u64,
}

/// How far an epoch that is over is settled.
#[derive(Clone, Copy, Debug)]
enum Settling {
    /// Some worker may still be in it.
    Leaving,
    /// Counters below this are in the archive.
    Adding(usize),
    /// Counters below this are zero.
    Clearing(usize),
}

impl<S: Monitored> Aggregator<S> {
    pub(super) fn new(
        shared: Arc<Shared<S>>,
        policy: Allocation,
        threshold: Threshold,
        heavy_keys: usize,
    ) -> Self {
        let receivers = shared.lanes.iter().map(|_| Receiver::default()).collect();
        let groups = shared.sketch.groups();
        let heavy = [(); 2]
            .map(|()| (0..groups).map(|group| HeavyKeys::new(group * heavy_keys, heavy_keys)).collect());
        shared.set_control(0, threshold.tau());
        let tau_max_seen = threshold.tau();
        Self {
            shared,
            receivers,
            heavy,
            policy,
            threshold,
            settling: None,
            tau_max_seen,
            kept_before: 0,
            left: (tau_max_seen, 0),
            messages: 0,
        }
    }

    /// Takes what waits, up to some hundred messages a worker, and sets τ if a window has ended. `clock` gives nanoseconds that do not go
    /// back.
    pub fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
        let began_ns = clock();
        let mut polled = Polled::default();
        for _ in 0..ROUNDS {
            let applied: u64 = (0..self.receivers.len()).map(|worker| self.take(worker, TURN)).sum();
            polled.applied += applied;
            if applied == 0 {
                break;
            }
        }
        self.messages = self.messages.wrapping_add(polled.applied);
        polled.queue = self.queue();
        self.settle();
        let now_ns = clock();
        if self.threshold.observe(now_ns, polled.queue, || self.shared.standing()) {
            self.shared.set_control(self.shared.control().0, self.threshold.tau());
            self.tau_max_seen = self.tau_max_seen.max(self.threshold.tau());
        }
        polled.rest_ns = self.policy.rest_ns(now_ns.saturating_sub(began_ns));
        polled
    }

    /// Begins a new epoch, and returns its number; `None` while the one before the current is still being settled. Workers go over at
    /// their next insertion or [`publish`](super::Worker::publish).
    pub fn begin_epoch(&mut self) -> Option<u64> {
        if self.settling.is_some() {
            return None;
        }
        let epoch = self.shared.control().0 + 1;
        self.settling = Some(Settling::Leaving);
        self.left = (self.tau_max_seen, self.kept_before);
        (self.tau_max_seen, self.kept_before) = (self.threshold.tau(), self.shared.kept());
        self.shared.set_control(epoch, self.threshold.tau());
        Some(epoch)
    }

    /// Takes over all that these workers hold, and ends them: its own counters of the current epoch then say what queries say, as far as
    /// these workers go. Nobody else need poll meanwhile. Flows whose counters never reached the threshold stay without a name.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) where a worker is another monitor's; those before it are taken over.
    pub fn drain(&mut self, workers: Vec<Worker<S>>) -> Result<()> {
        for mut worker in workers {
            let Some(index) = worker.index_in(&self.shared) else {
                return invalid(
                    "workers",
                    "of another monitor",
                    "give each monitor's workers to its own aggregator",
                );
            };
            let mut from = Some(0);
            while let Some(at) = from {
                from = worker.flush(at);
                self.take_published_by(index);
            }
        }
        Ok(())
    }

    /// Whether the epoch before the current one is still being settled: some worker may be in it, or its counters are not in their place.
    pub fn is_settling(&self) -> bool {
        self.settling.is_some()
    }

    /// The threshold.
    pub fn tau(&self) -> u8 {
        self.threshold.tau()
    }

    /// The highest threshold of this epoch: what the bounds of [`bounds`](super::bounds) take.
    pub fn tau_max(&self) -> u8 {
        self.tau_max_seen
    }

    /// How many messages were applied.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn policy(&self) -> Allocation {
        self.policy
    }

    /// Whether there is work to do at an epoch that is over, without waiting for a worker.
    pub(super) fn can_settle(&self) -> bool {
        !matches!(self.settling, None | Some(Settling::Leaving))
    }

    /// Applies what has been published by now.
    pub(super) fn take_published(&mut self) {
        (0..self.receivers.len()).for_each(|worker| self.take_published_by(worker));
    }

    fn take_published_by(&mut self, worker: usize) {
        let waiting = self.shared.lanes[worker].ring.waiting(&mut self.receivers[worker]);
        let applied = self.take(worker, waiting);
        self.messages = self.messages.wrapping_add(applied);
    }

    fn queue(&mut self) -> u64 {
        let lanes = self.shared.lanes.iter().zip(&mut self.receivers);
        lanes.map(|(lane, receiver)| lane.ring.waiting(receiver)).sum()
    }

    fn take(&mut self, worker: usize, limit: u64) -> u64 {
        let shared = &*self.shared;
        let (sketch, tally) = (&shared.sketch, &shared.tally);
        let (cells, heavy) = (sketch.cells(), &mut self.heavy);
        let ring = &shared.lanes[worker].ring;
        let taken = ring.take(&mut self.receivers[worker], limit, |number, word, key: S::Key| {
            let sum = tally.apply::<S::Rule>(worker, number, word);
            if !S::SHOWS_KEYS || !message::is_keyed(word) {
                return;
            }
            let half = usize::from(message::cell(word) >= cells);
            let heavy = &mut heavy[half][sketch.group_of(key)];
            if !S::Rule::CAPS_KEYS || sum > heavy.floor() {
                let weighed = sketch.weigh(key, |places, sums| {
                    let counters = places.iter().map(|&place| tally.applied(half * cells + place as usize));
                    sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum = counter);
                });
                if let Some(Weighed { weight, hash }) = weighed {
                    heavy.offer(&shared.boards[half], hash, key, weight);
                }
            }
        });
        self.threshold.note_sent(worker, taken);
        taken
    }

    /// Goes on with the epoch before the current one.
    fn settle(&mut self) {
        let Some(settling) = self.settling else { return };
        let shared = Arc::clone(&self.shared);
        let old = shared.control().0 - 1;
        let (half, cells) = ((old % 2) as usize, shared.sketch.cells());
        let archived = &shared.archive[(old % shared.archive.len() as u64) as usize];
        let some = |first: usize| first..cells.min(first + SETTLED_AT_ONCE);
        self.settling = match settling {
            Settling::Leaving => {
                let has_left = |state: &State| state.epoch.load(Ordering::Acquire) > old;
                let is_over = shared.states.iter().all(|state| has_left(&state.0));
                // What the workers published before they left is seen by now; younger messages are of the current epoch.
                if is_over {
                    self.take_published();
                    archived.tag.store(0, Ordering::Relaxed);
                    fence(Ordering::Release);
                }
                Some(if is_over { Settling::Adding(0) } else { settling })
            }
            Settling::Adding(first) => {
                for cell in some(first) {
                    archived.cells[cell].store(shared.settled(old, cell), Ordering::Relaxed);
                }
                if some(first).end < cells {
                    Some(Settling::Adding(some(first).end))
                } else {
                    archived.weight.store(shared.live_weight(old), Ordering::Relaxed);
                    archived.board.copy(&shared.boards[half]);
                    let (tau_max, kept_before) = self.left;
                    let floor = self.heavy[half].iter().map(HeavyKeys::floor).max().unwrap_or(0);
                    archived.known.floor.store(floor, Ordering::Relaxed);
                    archived.known.tau_max.store(tau_max.into(), Ordering::Relaxed);
                    // What was kept in the next epoch meanwhile counts here, too: the bound is then not as tight.
                    archived.known.kept.store(shared.kept().saturating_sub(kept_before), Ordering::Relaxed);
                    archived.tag.store(old + 1, Ordering::Release);
                    shared.closed.store(old + 1, Ordering::Release);
                    // Whoever reads a cleared counter will see the epoch closed.
                    fence(Ordering::Release);
                    Some(Settling::Clearing(0))
                }
            }
            Settling::Clearing(first) => {
                for cell in some(first).map(|cell| shared.base(old) + cell) {
                    shared.tally.clear(cell);
                    shared.lanes.iter().for_each(|lane| lane.clear(cell));
                }
                if some(first).end < cells {
                    Some(Settling::Clearing(some(first).end))
                } else {
                    shared.states.iter().for_each(|state| state.0.weight[half].store(0, Ordering::Relaxed));
                    shared.boards[half].clear();
                    self.heavy[half].iter_mut().for_each(HeavyKeys::clear);
                    None
                }
            }
        };
    }
}
