//! What the workers of all sketches of slots do alike: epochs, weights, publishing.

use super::bucketed::{All, Bucketed};
use super::key::Hashed;
use super::lane::Writer;
use super::monitored::Monitored;
use super::post::Seat;
use super::shared::GONE;
use super::sync::{Ordering, fence};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Stand<S: Bucketed> {
    pub(super) all: Arc<All<S>>,
    pub(super) index: usize,
    pub(super) seat: Seat,
    pub(super) light: Writer<()>,
    pub(super) epoch: u64,
    /// Where the epoch's blocks begin.
    pub(super) first_block: usize,
    weight: u64,
    elements: u64,
    /// The epoch of the last flush.
    flushing: u64,
}

impl<S: Bucketed> Stand<S> {
    pub(super) fn new(all: Arc<All<S>>, index: usize) -> Self {
        let seat = all.posts[index].seat();
        let light = all.base.lanes[index].writer::<<S::Light as Monitored>::Rule, ()>();
        Self { all, index, seat, light, epoch: 0, first_block: 0, weight: 0, elements: 0, flushing: 0 }
    }

    pub(super) fn publish(&mut self) {
        self.send();
        let state = &self.all.base.states[self.index].0;
        state.elements.store(self.elements, Ordering::Relaxed);
        state.kept.store(self.seat.kept.wrapping_add(self.light.kept), Ordering::Relaxed);
        self.begin(0, 0);
    }

    pub(super) fn flush(&mut self, from: usize) -> Option<usize> {
        self.begin(0, 0);
        let from = if self.flushing == self.epoch { from } else { 0 };
        self.flushing = self.epoch;
        let (slots, cells) = (self.slots(), self.all.base.sketch.cells());
        let (first, first_cell) =
            (self.first_block * self.all.sketch.block_slots(), self.all.base.base(self.epoch));
        if from < slots {
            let post = &self.all.posts[self.index];
            let at = post.flush::<Hashed<S::Key>>(&mut self.seat, first + from, first + slots);
            if at < first + slots {
                return Some(at - first);
            }
        }
        let (from, end) = (first_cell + from.clamp(slots, slots + cells) - slots, first_cell + cells);
        let lane = &self.all.base.lanes[self.index];
        let at = lane.flush::<<S::Light as Monitored>::Rule, ()>(&mut self.light, from, end);
        (at < end).then(|| at - first_cell + slots)
    }

    /// Slots of a half.
    fn slots(&self) -> usize {
        self.all.sketch.blocks() * self.all.sketch.block_slots()
    }

    /// Notes what is about to be inserted, and in which epoch; τ.
    #[inline]
    pub(super) fn begin(&mut self, elements: u64, weight: u64) -> u8 {
        let (epoch, tau) = self.all.base.control();
        if epoch != self.epoch {
            self.turn(epoch);
        }
        // Before the insertions, so that bounds which rest on the total weight are never too tight.
        self.elements = self.elements.wrapping_add(elements);
        self.weight = self.weight.saturating_add(weight);
        let state = &self.all.base.states[self.index].0;
        state.weight[(epoch % 2) as usize].store(self.weight, Ordering::Relaxed);
        if weight > 0 {
            // Whoever finds one of the insertions in a slot will find its weight.
            fence(Ordering::Release);
        }
        tau
    }

    /// Leaves its slots as they are and goes on with those of the new epoch, which are free.
    #[cold]
    fn turn(&mut self, epoch: u64) {
        self.leave(epoch);
        self.epoch = epoch;
        self.first_block = self.all.first_block(epoch);
        self.weight = 0;
        self.seat.turn();
        self.light.turn();
        // Whoever finds anything in the new epoch's slots will find the epoch that had them before closed.
        fence(Ordering::Release);
    }

    fn send(&mut self) {
        self.all.posts[self.index].publish::<Hashed<S::Key>>(&mut self.seat);
        self.all.base.lanes[self.index].publish::<<S::Light as Monitored>::Rule, ()>(&mut self.light);
    }

    fn leave(&mut self, epoch: u64) {
        self.send();
        self.all.base.states[self.index].0.epoch.store(epoch, Ordering::Release);
    }
}

impl<S: Bucketed> Drop for Stand<S> {
    fn drop(&mut self) {
        self.leave(GONE);
    }
}
