//! The counters that a worker has sent lately with a key, and what they have to come to before they go again where not all can.
//!
//! ```text
//!   slot of a counter = its number mod the number of slots:   │ counter 513, 24 │ – │ counter 7, 128 │ …
//! ```
//!
//! 1. A counter that was sent goes again when it holds twice as much as it did then: so a flow's `n` packets take `log n` messages, and of
//!    each flow the aggregator knows a third at least of what it would know otherwise.
//! 2. A counter that loses its slot to another is as one that was never sent: it goes once more than it had to.
//!
//! Cost: O(1); the slots are allocated once.

/// Some thousand flows have their slots, and 16 KiB stay in a core's cache.
const SLOTS: usize = 4096;

/// The slots.
#[derive(Debug)]
pub(super) struct Recent {
    /// A counter's number, and in the lowest byte what it is to hold; 0 where nobody is.
    slots: Box<[u32]>,
}

impl Recent {
    /// Nobody so far; without slots, nobody ever.
    pub(super) fn new(has_slots: bool) -> Self {
        Self { slots: vec![0; if has_slots { SLOTS } else { 0 }].into() }
    }

    /// What a counter is to hold before it goes again; 0 if it was not sent lately.
    #[inline]
    pub(super) fn again(&self, cell: usize) -> u8 {
        match self.slots.get(cell % SLOTS) {
            Some(slot) if slot >> 8 == cell as u32 => *slot as u8,
            _ => 0,
        }
    }

    /// A counter of this size was sent; from `most` on it goes in any case.
    #[inline]
    pub(super) fn note(&mut self, cell: usize, size: u64, most: u8) {
        if let Some(slot) = self.slots.get_mut(cell % SLOTS) {
            *slot = (cell as u32) << 8 | size.saturating_mul(2).clamp(1, most.into()) as u32;
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_goes_again_when_it_holds_twice_as_much() {
        let mut recent = Recent::new(true);
        for (cell, size, again) in
            [(0, 1, 2), (1, 12, 24), (2, 64, 128), (3, 65, 128), (4, u64::MAX, 128), (5, 0, 1)]
        {
            assert_eq!(recent.again(cell), 0);
            recent.note(cell, size, 128);
            assert_eq!(recent.again(cell), again);
        }
        recent.note(SLOTS + 1, 3, 128);
        assert_eq!((recent.again(SLOTS + 1), recent.again(1)), (6, 0), "one loses its slot");
        let last = (1 << 24) - 1;
        recent.note(last, 3, 64);
        assert_eq!((recent.again(last), recent.again(last % SLOTS)), (6, 0));
        recent.clear();
        assert!((0..10).all(|cell| recent.again(cell) == 0));
    }

    #[test]
    fn without_slots_nobody_was_sent() {
        let mut recent = Recent::new(false);
        recent.note(7, 1, 128);
        assert_eq!(recent.again(7), 0);
        recent.clear();
    }
}
