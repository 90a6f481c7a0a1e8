//! The aggregator of all sketches of slots: takes the workers' messages, sets τ, and ends epochs.

use super::blocks::Moment;
use super::bucketed::{All, Bucketed};
use super::key::Hashed;
use super::message;
use super::monitored::Monitored;
use super::post::Claim;
use super::ring::Receiver;
use super::shared::State;
use super::sync::{Ordering, fence};
use super::threshold::Threshold;
use super::{Allocation, Polled};
use std::sync::Arc;

/// Messages taken from one worker before the next one's turn.
const TURN: u64 = 64;
/// Rounds over all workers before τ is looked at.
const ROUNDS: usize = 4;
/// Slots and counters that are settled or cleared in one poll.
const SETTLED_AT_ONCE: usize = 4096;

#[derive(Debug)]
pub(super) struct Gatherer<S: Bucketed> {
    all: Arc<All<S>>,
    receivers: Vec<Receiver>,
    light: Vec<Receiver>,
    policy: Allocation,
    threshold: Threshold,
    settling: Option<Settling>,
    tau_max_seen: u8,
    messages: u64,
    own: S::Own,
}

/// How far an epoch that is over is settled. Numbers are of blocks, and of as many counters for each as make up all.
#[derive(Clone, Copy, Debug)]
enum Settling {
    /// Some worker may still be in it.
    Leaving,
    /// Blocks below this are in the archive, as the aggregator had them.
    Adding(usize),
    /// What workers below the first, and the first below the second, left is in the archive.
    Adopting(usize, usize),
    /// Blocks below this are concluded.
    Concluding(usize),
    /// Blocks below this are free.
    Clearing(usize),
}

impl<S: Bucketed> Gatherer<S> {
    pub(super) fn new(all: Arc<All<S>>, policy: Allocation, threshold: Threshold, own: S::Own) -> Self {
        let receivers = || all.posts.iter().map(|_| Receiver::default()).collect();
        let (receivers, light) = (receivers(), receivers());
        let tau_max_seen = threshold.tau();
        all.base.set_control(0, tau_max_seen);
        Self { all, receivers, light, policy, threshold, settling: None, tau_max_seen, messages: 0, own }
    }

    pub(super) fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
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
        let (now_ns, base) = (clock(), &self.all.base);
        if self.threshold.observe(now_ns, polled.queue, || base.standing()) {
            base.set_control(base.control().0, self.threshold.tau());
            self.tau_max_seen = self.tau_max_seen.max(self.threshold.tau());
        }
        self.settle();
        polled.rest_ns = self.policy.rest_ns(clock().saturating_sub(began_ns));
        polled
    }

    pub(super) fn begin_epoch(&mut self) -> Option<u64> {
        if self.settling.is_some() {
            return None;
        }
        let epoch = self.all.base.control().0 + 1;
        self.settling = Some(Settling::Leaving);
        self.tau_max_seen = self.threshold.tau();
        self.all.base.set_control(epoch, self.threshold.tau());
        Some(epoch)
    }

    pub(super) fn tau(&self) -> u8 {
        self.threshold.tau()
    }

    pub(super) fn tau_max(&self) -> u8 {
        self.tau_max_seen
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    fn queue(&mut self) -> u64 {
        let posts = self.all.posts.iter().zip(&mut self.receivers);
        let slots: u64 = posts.map(|(post, receiver)| post.ring.waiting(receiver)).sum();
        let lanes = self.all.base.lanes.iter().zip(&mut self.light);
        slots + lanes.map(|(lane, receiver)| lane.ring.waiting(receiver)).sum::<u64>()
    }

    fn take(&mut self, worker: usize, limit: u64) -> u64 {
        let (all, own) = (&*self.all, &mut self.own);
        let receiver = &mut self.receivers[worker];
        let slots =
            all.posts[worker].ring.take(receiver, limit, |number, word, claim: Claim<Hashed<S::Key>>| {
                S::apply(all, own, (worker, number), message::cell(word), claim);
            });
        let receiver = &mut self.light[worker];
        let light = all.base.lanes[worker].ring.take(receiver, limit, |number, word, (): ()| {
            all.base.tally.apply::<<S::Light as Monitored>::Rule>(worker, number, word);
        });
        self.threshold.note_sent(worker, slots + light);
        slots + light
    }

    /// Goes on with the epoch before the current one.
    fn settle(&mut self) {
        let Some(settling) = self.settling else { return };
        let all = Arc::clone(&self.all);
        let old = all.base.control().0 - 1;
        let (first, place) = (all.first_block(old), all.place(old));
        let (blocks, block_slots) = (all.sketch.blocks(), all.sketch.block_slots());
        let (archived, archive) = (&all.base.archive[place], &all.archive[place]);
        let share = block_slots.max(all.share(&(0..1), all.base.sketch.cells()).len());
        let some = |from: usize| from..blocks.min(from + SETTLED_AT_ONCE.div_ceil(share));
        // The counters that go with these blocks.
        let cells = |from: usize| all.share(&some(from), all.base.sketch.cells());
        let ended = || {
            archived.weight.store(all.base.live_weight(old), Ordering::Relaxed);
            archived.tag.store(old + 1, Ordering::Release);
            all.base.closed.store(old + 1, Ordering::Release);
            // Whoever reads a slot that was freed will see the epoch closed.
            fence(Ordering::Release);
            Some(Settling::Clearing(0))
        };
        self.settling = match settling {
            Settling::Leaving => {
                let has_left = |state: &State| state.epoch.load(Ordering::Acquire) > old;
                let is_over = all.base.states.iter().all(|state| has_left(&state.0));
                // What the workers published before they left is seen by now; younger messages are of the current epoch.
                for worker in 0..if is_over { self.receivers.len() } else { 0 } {
                    let slots = all.posts[worker].ring.waiting(&mut self.receivers[worker]);
                    let light = all.base.lanes[worker].ring.waiting(&mut self.light[worker]);
                    self.take(worker, slots.max(light));
                }
                if is_over {
                    archived.tag.store(0, Ordering::Relaxed);
                    fence(Ordering::Release);
                }
                Some(if is_over { Settling::Adding(0) } else { settling })
            }
            Settling::Adding(from) => {
                for cell in cells(from) {
                    archived.cells[cell].store(all.base.settled(old, cell), Ordering::Relaxed);
                }
                for (block, at) in some(from).flat_map(|block| (0..block_slots).map(move |at| (block, at))) {
                    let (here, there) = ((first + block) * block_slots + at, block * block_slots + at);
                    let flow = Some(all.table.blocks.flow::<Hashed<S::Key>>(here));
                    archive.change(block, there, all.table.blocks.count(here), flow, Moment::NONE, || ());
                }
                let end = some(from).end;
                Some(if end < blocks { Settling::Adding(end) } else { Settling::Adopting(0, 0) })
            }
            Settling::Adopting(worker, from) => {
                let left = &all.posts[worker].blocks;
                for (block, at) in some(from).flat_map(|block| (0..block_slots).map(move |at| (block, at))) {
                    let slot = (first + block) * block_slots + at;
                    let count = left.count(slot);
                    if count > 0 {
                        let claim = Claim { count, flow: left.flow(slot) };
                        S::adopt(&all, &mut self.own, old, block, claim);
                    }
                }
                let end = some(from).end;
                if end < blocks {
                    Some(Settling::Adopting(worker, end))
                } else if worker + 1 < all.posts.len() {
                    Some(Settling::Adopting(worker + 1, 0))
                } else if S::CONCLUDES {
                    Some(Settling::Concluding(0))
                } else {
                    ended()
                }
            }
            Settling::Concluding(from) => {
                // Each looks at the slots of all workers.
                let at_once = SETTLED_AT_ONCE.div_ceil(block_slots * all.posts.len());
                let end = blocks.min(from + at_once);
                (from..end).for_each(|block| S::conclude(&all, &mut self.own, old, block));
                if end < blocks { Some(Settling::Concluding(end)) } else { ended() }
            }
            Settling::Clearing(from) => {
                for cell in cells(from).map(|cell| all.base.base(old) + cell) {
                    all.base.tally.clear(cell);
                    all.base.lanes.iter().for_each(|lane| lane.clear(cell));
                }
                for block in some(from).map(|block| first + block) {
                    all.table.blocks.clear(block);
                    all.posts.iter().for_each(|post| post.blocks.clear(block));
                }
                S::clear(&all, old, some(from));
                let end = some(from).end;
                if end < blocks {
                    Some(Settling::Clearing(end))
                } else {
                    let half = (old % 2) as usize;
                    all.base.states.iter().for_each(|state| state.0.weight[half].store(0, Ordering::Relaxed));
                    None
                }
            }
        };
    }
}
