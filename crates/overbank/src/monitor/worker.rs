//! A worker: in the loop that receives packets, it counts them in its own 8-bit counters.

use super::lane::{Half, Limit, NEWS_MIN, PATIENCE, PLACES_MAX, Writer};
use super::monitored::Monitored;
use super::rule::Rule;
use super::shared::{GONE, Shared};
use super::sync::{Ordering, fence};
use std::sync::Arc;

/// A flow is told early that has the `2^-14`th part of what its worker has counted in the epoch, or more: at most 2^14 flows have as much
/// at a time, and the least that the paper calls heavy, of 1/5000, have three times as much.
const LG_EARLY: u32 = 14;

/// Elements that go together where they can wait: the counters of eight rows' worth fit [`PLACES_MAX`].
const AT_ONCE: usize = 8;

/// Inserts, on one thread: no lock, no hashing, and no key kept but some of those that a full ring holds up.
///
/// Insertions count at once: a query that begins after one has returned finds it. What a worker holds when it is dropped stays counted.
///
/// # Cost
/// An insertion reads and writes one byte a row; one in about τ of them also a message. Until a worker has counted `2^14 τ` in an epoch,
/// one element in 32 of its batches tells the aggregator of its flow below τ, if that has come twice. Where the processor reorders stores,
/// an insertion or a batch has a fence. Nothing is allocated, but once: 16 bytes for each counter, when one first outgrows its byte, which
/// takes a full ring or a weight of 2^39.
// The memory of two workers' cores is apart, however workers lie.
#[derive(Debug)]
#[repr(align(128))]
pub struct Worker<S: Monitored> {
    shared: Arc<Shared<S>>,
    index: usize,
    writer: Writer<S::Key>,
    epoch: u64,
    /// Where the epoch's counters begin, and how many there are.
    base: usize,
    cells: usize,
    weight: u64,
    elements: u64,
    /// The epoch of the last flush.
    flushing: u64,
    /// Elements of batches since one was looked at early.
    since_early: usize,
    /// How often it waited for room that τ should have left.
    waited: u64,
}

impl<S: Monitored> Worker<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, index: usize) -> Self {
        let writer = shared.lanes[index].writer::<S::Rule, S::Key>();
        let cells = shared.sketch.cells();
        let (epoch, base, weight, elements, flushing, since_early, waited) = (0, 0, 0, 0, 0, 0, 0);
        Self { shared, index, writer, epoch, base, cells, weight, elements, flushing, since_early, waited }
    }

    /// Inserts one element. Messages go to the aggregator eight at a time: call [`publish`](Self::publish) when there is nothing to do.
    #[inline]
    pub fn insert(&mut self, element: S::Element) {
        let limit = Limit::new(self.begin(1, self.shared.sketch.weight(element)));
        let sketch = &self.shared.sketch;
        let half = self.shared.lanes[self.index].half(self.base, self.cells);
        change(sketch, half, &mut self.writer, element, limit);
    }

    /// Inserts a batch, such as the packets of one receive call, and publishes: twice as fast as one by one, and beside a full ring far
    /// faster.
    pub fn insert_batch(&mut self, elements: &[S::Element]) {
        let tau = self.begin_all(elements);
        let early = self.early(tau);
        for some in elements.chunks(PATIENCE) {
            self.insert_some(some, Limit::new(tau), early);
        }
        self.publish();
    }

    /// Inserts a batch by the threshold, or by `tau_max` if that is lower, and publishes. For a replay, which can wait, so that no name is
    /// lost to a ring that was full: while it has no room, `wait` is called, and returns whether to go on waiting. Once it says no, the
    /// rest goes as by [`insert_batch`](Self::insert_batch). With a `tau_max` of 1, and rings of 127 messages or more,
    /// the aggregator hears of every element.
    ///
    /// The aggregator makes room, so whoever polls on this very thread has `wait` do that.
    pub fn insert_patiently(&mut self, elements: &[S::Element], tau_max: u8, mut wait: impl FnMut() -> bool) {
        let (mut rest, mut is_waiting) = (elements, false);
        while !rest.is_empty() {
            let (some, others) = rest.split_at(rest.len().min(AT_ONCE));
            let ring = &self.shared.lanes[self.index].ring;
            if ring.has_room_for(&mut self.writer.sender, PLACES_MAX as u64) {
                let tau = self.begin_all(some).min(tau_max.max(1));
                self.insert_some(some, Limit::insistent(tau), self.early(tau));
                (rest, is_waiting) = (others, false);
                continue;
            }
            // A higher τ would not have spared one that goes by its own.
            if !is_waiting && self.shared.control().1 <= tau_max {
                self.waited += 1;
                self.shared.states[self.index].0.waited.store(self.waited, Ordering::Relaxed);
            }
            is_waiting = true;
            if !wait() {
                return self.insert_batch(rest);
            }
        }
        self.publish();
    }

    /// Inserts at most [`PATIENCE`] elements, the first of them by `early` if it is its turn.
    fn insert_some(&mut self, elements: &[S::Element], mut limit: Limit, early: Option<Limit>) {
        let half = self.shared.lanes[self.index].half(self.base, self.cells);
        let (sketch, mut rest) = (&self.shared.sketch, elements);
        self.since_early += elements.len();
        if self.since_early >= PATIENCE {
            self.since_early = 0;
            if let (Some(early), Some((first, others))) = (early, elements.split_first()) {
                let next = change_all(sketch, half, &mut self.writer, std::slice::from_ref(first), early);
                (limit, rest) = (if next.tries { limit } else { next }, others);
            }
        }
        change_all(sketch, half, &mut self.writer, rest, limit);
    }

    /// [`begin`](Self::begin) of so many.
    fn begin_all(&mut self, elements: &[S::Element]) -> u8 {
        // As many words cannot wrap 128 bits.
        let weights = elements.iter().map(|&element| u128::from(self.shared.sketch.weight(element)));
        let weight = weights.fold(0u128, u128::wrapping_add);
        self.begin(elements.len() as u64, weight.try_into().unwrap_or(u64::MAX))
    }

    /// Lets the aggregator have what is due, with what a full ring kept back, as far as there is room now; and goes over to a new epoch if
    /// one has begun. To be called now and then by a worker that has nothing to insert: epochs end when all workers have left them.
    pub fn publish(&mut self) {
        self.shared.lanes[self.index].publish::<S::Rule, S::Key>(&mut self.writer);
        let state = &self.shared.states[self.index].0;
        state.elements.store(self.elements, Ordering::Relaxed);
        state.kept.store(self.writer.kept, Ordering::Relaxed);
        self.begin(0, 0);
    }

    /// Sends every counter that holds anything, however little, without keys but those that a full ring held up: for whoever asks the
    /// aggregator's own counters. Answers that read through need no flush. Stops where the ring is full; `from` is 0 at first, then what
    /// the last call returned, until it returns `None`. What it returned in an epoch that is over counts as 0.
    pub fn flush(&mut self, from: usize) -> Option<usize> {
        self.begin(0, 0);
        let from = if self.flushing == self.epoch { from } else { 0 };
        self.flushing = self.epoch;
        let (base, cells) = (self.base, self.cells);
        let (first, end) = (base + from.min(cells), base + cells);
        let at = self.shared.lanes[self.index].flush::<S::Rule, S::Key>(&mut self.writer, first, end);
        (at < end).then_some(at - base)
    }

    /// Which worker of this monitor it is; `None` if it is another's.
    pub(super) fn index_in(&self, shared: &Arc<Shared<S>>) -> Option<usize> {
        Arc::ptr_eq(&self.shared, shared).then_some(self.index)
    }

    /// Notes what is about to be inserted, and in which epoch; τ.
    #[inline]
    fn begin(&mut self, elements: u64, weight: u64) -> u8 {
        let (epoch, tau) = self.shared.control();
        if epoch != self.epoch {
            self.turn(epoch);
        }
        // Before the insertions, so that bounds which rest on the total weight are never too tight.
        self.elements = self.elements.wrapping_add(elements);
        self.weight = self.weight.saturating_add(weight);
        let state = &self.shared.states[self.index].0;
        state.weight[(epoch % 2) as usize].store(self.weight, Ordering::Relaxed);
        if weight > 0 {
            // Whoever finds one of the insertions in a counter will find its weight.
            fence(Ordering::Release);
        }
        tau
    }

    /// What one element in [`PATIENCE`] goes by instead of τ, so that queries know the keys of flows before their counters reach it.
    fn early(&self, tau: u8) -> Option<Limit> {
        let first = (self.weight >> LG_EARLY).max(NEWS_MIN.into());
        let is_early = S::SHOWS_KEYS && S::Rule::CLEARS && first < tau.into();
        is_early.then(|| Limit::early(first as u8, tau))
    }

    /// Leaves its counters as they are and goes on with those of the new epoch, which are zero.
    #[cold]
    fn turn(&mut self, epoch: u64) {
        self.leave(epoch);
        self.epoch = epoch;
        self.base = self.shared.base(epoch);
        self.weight = 0;
        self.writer.turn();
        // Whoever finds anything in the new epoch's counters will find the epoch that had them before closed.
        fence(Ordering::Release);
    }

    fn leave(&mut self, epoch: u64) {
        self.shared.lanes[self.index].publish::<S::Rule, S::Key>(&mut self.writer);
        let state = &self.shared.states[self.index].0;
        state.kept.store(self.writer.kept, Ordering::Relaxed);
        state.epoch.store(epoch, Ordering::Release);
    }
}

/// Inserts elements; the limit to go on with. A function of its own, whose arguments the compiler knows to stay as they are.
#[inline(never)]
fn change_all<S: Monitored>(
    sketch: &S,
    half: Half<'_>,
    writer: &mut Writer<S::Key>,
    elements: &[S::Element],
    mut limit: Limit,
) -> Limit {
    for &element in elements {
        limit = change(sketch, half, writer, element, limit);
    }
    limit
}

/// Changes an element's counters; the limit to go on with.
#[inline(always)]
fn change<S: Monitored>(
    sketch: &S,
    half: Half<'_>,
    writer: &mut Writer<S::Key>,
    element: S::Element,
    limit: Limit,
) -> Limit {
    let mut next = limit;
    sketch.visit_below(element, limit.tau, |cell, amount, tau| {
        let limit = Limit { tau, ..limit };
        half.change::<S::Rule, S::Key>(writer, cell, amount, limit, &mut next, sketch.key(element));
    });
    next
}

impl<S: Monitored> Drop for Worker<S> {
    fn drop(&mut self) {
        self.leave(GONE);
    }
}
