//! A worker: in the loop that receives packets, it counts them in its own 8-bit counters.

use super::lane::Writer;
use super::monitored::Monitored;
use super::shared::{GONE, Shared};
use super::sync::{Ordering, fence};
use std::sync::Arc;

/// Inserts, on one thread: no lock, no hashing, and no key kept but some of those that a full ring holds up.
///
/// Insertions count at once: a query that begins after one has returned finds it. What a worker holds when it is dropped stays counted.
///
/// # Cost
/// An insertion reads and writes one byte a row; one in about τ of them also a message. Where the processor reorders stores, an insertion
/// or a batch has a fence. Nothing is allocated, but once: 16 bytes for each counter, when one first outgrows its byte, which takes a
/// full ring or a weight of 2^39.
#[derive(Debug)]
pub struct Worker<S: Monitored> {
    shared: Arc<Shared<S>>,
    index: usize,
    writer: Writer<S::Key>,
    epoch: u64,
    /// Where the epoch's counters begin.
    base: usize,
    weight: u64,
    elements: u64,
    /// The epoch of the last flush.
    flushing: u64,
}

impl<S: Monitored> Worker<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, index: usize) -> Self {
        let writer = shared.lanes[index].writer::<S::Rule, S::Key>();
        Self { shared, index, writer, epoch: 0, base: 0, weight: 0, elements: 0, flushing: 0 }
    }

    /// Inserts one element. Messages go to the aggregator eight at a time: call [`publish`](Self::publish) when there is nothing to do.
    #[inline]
    pub fn insert(&mut self, element: S::Element) {
        let tau = self.begin(1, self.shared.sketch.weight(element));
        self.change(element, tau);
    }

    /// Inserts a batch, such as the packets of one receive call, and publishes.
    pub fn insert_batch(&mut self, elements: &[S::Element]) {
        let weights = elements.iter().map(|&element| self.shared.sketch.weight(element));
        let weight = weights.fold(0, u64::saturating_add);
        let tau = self.begin(elements.len() as u64, weight);
        for &element in elements {
            self.change(element, tau);
        }
        self.publish();
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
        let (base, cells) = (self.base, self.shared.sketch.cells());
        let (first, end) = (base + from.min(cells), base + cells);
        let at = self.shared.lanes[self.index].flush::<S::Rule, S::Key>(&mut self.writer, first, end);
        (at < end).then_some(at - base)
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

    #[inline(always)]
    fn change(&mut self, element: S::Element, tau: u8) {
        let (lane, writer, base) = (&self.shared.lanes[self.index], &mut self.writer, self.base);
        let sketch = &self.shared.sketch;
        sketch.visit_below(element, tau, |cell, amount, tau| {
            lane.change::<S::Rule, S::Key>(writer, base + cell, amount, tau, sketch.key(element));
        });
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
        self.shared.states[self.index].0.epoch.store(epoch, Ordering::Release);
    }
}

impl<S: Monitored> Drop for Worker<S> {
    fn drop(&mut self) {
        self.leave(GONE);
    }
}
