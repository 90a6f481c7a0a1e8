//! Who writes where: each thread that inserts takes a memtable of its own for as long as a call lasts.
//!
//! ```text
//!   threads    a      b      c                        d waits: all are taken
//!              │      │      └──────┐
//!   slots    │ 0 │  │ 1 │  │ 2 │  │ 3 │               the first that is free: few threads fill few memtables
//! ```
//!
//! No thread waits for a slot while another one is free. Questions, commits and freezes do not take slots: they take the locks of the
//! memtables, for a moment each.

use crate::lock::{lock, wait};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Which slots are free.
#[derive(Debug)]
pub(super) struct WriterSlots {
    /// A bit each, 1 where it is free.
    free: AtomicU64,
    waiting: AtomicUsize,
    turn: Mutex<()>,
    freed: Condvar,
}

/// A slot that its thread has until this is dropped.
#[derive(Debug)]
pub(super) struct WriterSlot<'a> {
    slots: &'a WriterSlots,
    pub(super) number: usize,
}

impl WriterSlots {
    /// So many, up to 64, all free.
    pub(super) fn new(slots: usize) -> Self {
        let free = if slots == 0 { 0 } else { u64::MAX >> (64 - slots.min(64)) };
        WriterSlots {
            free: AtomicU64::new(free),
            waiting: AtomicUsize::new(0),
            turn: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// Takes the first free slot; if there is none, waits for one.
    pub(super) fn take(&self) -> WriterSlot<'_> {
        if let Some(slot) = self.try_take() {
            return slot;
        }
        let mut turn = lock(&self.turn);
        // Announced before the next look: whoever frees a slot after it sees that somebody waits, and comes for the lock, which is held
        // until the wait has begun.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let slot = loop {
            if let Some(slot) = self.try_take() {
                break slot;
            }
            turn = wait(&self.freed, turn);
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        slot
    }

    fn try_take(&self) -> Option<WriterSlot<'_>> {
        let taken = self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| {
            (free != 0).then(|| free & free.wrapping_sub(1))
        });
        taken.ok().map(|free| WriterSlot { slots: self, number: free.trailing_zeros() as usize })
    }
}

impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {
        self.slots.free.fetch_or(1 << self.number, Ordering::SeqCst);
        if self.slots.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.slots.turn));
            self.slots.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_while_a_slot_is_free_and_who_waits_gets_the_next() {
        let slots = WriterSlots::new(3);
        let mut held: Vec<_> = (0..3).map(|_| slots.take()).collect();
        assert_eq!(held.iter().map(|slot| slot.number).collect::<Vec<_>>(), [0, 1, 2]);
        drop(held.remove(1));
        held.push(slots.take());
        assert_eq!(held[2].number, 1);
        assert!(slots.try_take().is_none());
        std::thread::scope(|scope| {
            let waits: Vec<_> = (0..4).map(|_| scope.spawn(|| slots.take().number)).collect();
            while slots.waiting.load(Ordering::SeqCst) < 4 {
                std::thread::yield_now();
            }
            held.pop();
            // One slot goes through all hands.
            assert!(waits.into_iter().all(|waits| waits.join().unwrap() == 1));
        });
        assert_eq!(slots.free.load(Ordering::SeqCst), 0b010);
    }

    #[test]
    fn a_slot_is_never_taken_twice() {
        let slots = WriterSlots::new(2);
        let in_use = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let slot = slots.take();
                        assert_eq!(in_use[slot.number].fetch_add(1, Ordering::SeqCst), 0);
                        in_use[slot.number].fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
