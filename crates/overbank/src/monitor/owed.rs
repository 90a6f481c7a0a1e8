//! The counters that a worker could not send while its ring was full, and for whom: sent once there is room, though nobody adds to them.
//!
//! ```text
//!   slot of a counter = its number mod the number of slots:   │ – │ counter 513, key A, 812 votes │ – │ …
//! ```
//!
//! 1. Additions that were kept vote for their counter and key, by their weight. A slot that is taken by another counter or key loses as
//!    many votes, and is taken over when it has none left: what more than half of a slot's kept weight was for stands in it
//!    (Boyer, Moore, "MJRTY: a fast majority vote algorithm", 1981).
//! 2. A counter that loses its slot is sent with the next addition to it.
//!
//! Cost: O(1) an addition; the slots are allocated once.

use super::key::Key;

/// A key that makes up a hundredth of what is kept has most of its slots; some ten KiB of them stay in a core's cache.
const SLOTS_MAX: usize = 512;

/// Who has a slot.
#[derive(Clone, Copy, Debug)]
struct Due<K> {
    cell: usize,
    key: K,
    votes: u64,
}

/// The slots.
#[derive(Debug)]
pub(super) struct Owed<K> {
    /// A power of two of them.
    slots: Box<[Option<Due<K>>]>,
    count: usize,
    /// The slot that [`step`](Self::step) comes to next.
    next: usize,
}

impl<K: Key> Owed<K> {
    /// For so many counters.
    pub(super) fn new(cells: usize) -> Self {
        let slots = cells.next_power_of_two().min(SLOTS_MAX);
        Self { slots: vec![None; slots].into(), count: 0, next: 0 }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn clear(&mut self) {
        if !self.is_empty() {
            self.slots.fill(None);
            self.count = 0;
        }
    }

    /// Notes that an addition of this weight to a counter is still to be sent.
    pub(super) fn keep(&mut self, cell: usize, key: K, weight: u64) {
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[cell & mask];
        match slot {
            None => {
                *slot = Some(Due { cell, key, votes: weight });
                self.count += 1;
            }
            Some(due) if due.cell == cell && due.key == key => due.votes = due.votes.saturating_add(weight),
            Some(due) if due.votes >= weight => due.votes -= weight,
            Some(due) => *due = Due { cell, key, votes: weight - due.votes },
        }
    }

    /// A counter is sent, with an addition of this weight for `key` or none: owes it no more, and says for whom most of it is.
    pub(super) fn settle(&mut self, cell: usize, key: Option<K>, weight: u64) -> Option<K> {
        if self.is_empty() {
            return key;
        }
        let mask = self.slots.len() - 1;
        let Some(due) = self.slots[cell & mask].take_if(|due| due.cell == cell) else { return key };
        self.count -= 1;
        key.filter(|_| weight > due.votes).or(Some(due.key))
    }

    /// Goes to the next slot, in turn; the counter in this one, if there is any.
    pub(super) fn step(&mut self) -> Option<usize> {
        let slot = &self.slots[self.next];
        self.next = (self.next + 1) % self.slots.len();
        slot.map(|due| due.cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The oracle: the weight that each slot's counters and keys were kept with since it was empty.
        #[test]
        fn who_has_most_of_a_slot_keeps_it(
            events in prop::collection::vec((0usize..12, 0u64..3, 1u64..20, 0u8..20), 0..300),
        ) {
            const SLOTS: usize = 8;
            let mut owed = Owed::new(SLOTS);
            let mut kept: [BTreeMap<(usize, u64), u64>; SLOTS] = Default::default();
            for (cell, key, weight, event) in events {
                if event > 0 {
                    owed.keep(cell, key, weight);
                    *kept[cell % SLOTS].entry((cell, key)).or_insert(0) += weight;
                } else {
                    let slot = &mut kept[cell % SLOTS];
                    let total: u64 = slot.values().sum();
                    let most = slot.iter().find(|(at, weight)| at.0 == cell && 2 * *weight > total);
                    let most = most.map(|(at, _)| at.1);
                    let is_other = slot.keys().all(|at| at.0 != cell);
                    let settled = owed.settle(cell, None, 0);
                    prop_assert!(most.is_none() || settled == most, "{:?} of {:?}", settled, slot);
                    prop_assert!(!is_other || settled.is_none());
                    if settled.is_some() {
                        slot.clear();
                    }
                }
                prop_assert_eq!(owed.is_empty(), kept.iter().all(BTreeMap::is_empty));
            }
            let counters = (0..SLOTS).filter_map(|_| owed.step()).count();
            prop_assert_eq!(counters, kept.iter().filter(|slot| !slot.is_empty()).count());
            owed.clear();
            prop_assert!(owed.is_empty() && (0..SLOTS).all(|_| owed.step().is_none()));
        }
    }

    #[test]
    fn the_heavier_of_two_names_a_counter() {
        let mut owed = Owed::new(1000);
        owed.keep(7, 1u64, 10);
        assert_eq!(owed.settle(7, Some(2), 9), Some(1));
        assert_eq!(owed.settle(7, Some(2), 9), Some(2), "owed no more");
        owed.keep(7, 1, 10);
        assert_eq!(owed.settle(8, Some(2), 9), Some(2), "another counter");
        assert_eq!(owed.settle(7, Some(2), 11), Some(2));
        assert!(owed.is_empty());
        assert_eq!(owed.slots(), SLOTS_MAX);
    }
}
