//! The keys that weigh most: a table of the aggregator's, and a board that anybody reads.
//!
//! ```text
//!   index: hash ─▶ slot      heap: (weight when looked at last, slot), least on top
//!   board: version │ words of the key      version odd: being written; 0: never used
//! ```
//!
//! 1. While a slot is free every key that is offered gets one, however little it weighs.
//! 2. A key in a slot whose weight grows costs no heap operation: its weight is noted beside. So the heap's are lower bounds, and the
//!    least is found by correcting the top until it is right. Where a weight falls, as estimates of either sign may, so does the heap's.
//! 3. The aggregator alone writes the board; whoever reads a slot while it changes hands finds neither key.
//!
//! Cost: O(1) a key that is present, amortised O(log capacity) one that gets a slot or whose weight falls.

use super::key::Key;
use super::sync::{AtomicU64, Ordering, fence};
use hashbrown::HashTable;

/// What queries see of the keys.
#[derive(Debug)]
pub(super) struct Board {
    slots: Box<[AtomicU64]>,
    slot_words: usize,
}

impl Board {
    pub(super) fn new(capacity: usize, key_words: usize) -> Self {
        let slot_words = 1 + key_words;
        Self { slots: (0..capacity * slot_words).map(|_| AtomicU64::new(0)).collect(), slot_words }
    }

    /// How many keys there is room for.
    pub(super) fn slots(&self) -> usize {
        self.slots.len() / self.slot_words
    }

    fn write(&self, slot: usize, key: impl Key) {
        let slot = &self.slots[slot * self.slot_words..][..self.slot_words];
        let version = slot[0].load(Ordering::Relaxed);
        slot[0].store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let mut words = slot[1..].iter();
        key.store(&mut |word| {
            if let Some(place) = words.next() {
                place.store(word, Ordering::Relaxed);
            }
        });
        slot[0].store(version + 2, Ordering::Release);
    }

    /// The keys on the board.
    pub(super) fn keys<K: Key>(&self) -> Vec<K> {
        let key = |slot: &[AtomicU64]| {
            let version = slot[0].load(Ordering::Acquire);
            let mut words = slot[1..].iter();
            let key = K::load(&mut || words.next().map_or(0, |word| word.load(Ordering::Relaxed)));
            fence(Ordering::Acquire);
            let is_whole =
                version != 0 && version.is_multiple_of(2) && slot[0].load(Ordering::Relaxed) == version;
            is_whole.then_some(key)
        };
        self.slots.chunks_exact(self.slot_words).filter_map(key).collect()
    }

    /// Takes on what another board shows.
    pub(super) fn copy(&self, other: &Self) {
        self.slots.iter().zip(&other.slots).for_each(|(to, from)| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        });
    }

    pub(super) fn clear(&self) {
        self.slots.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// The aggregator's side.
#[derive(Debug)]
pub(super) struct HeavyKeys<K> {
    /// Its first slot on the board.
    first: usize,
    capacity: usize,
    hashes: Vec<u64>,
    keys: Vec<K>,
    weights: Vec<u64>,
    index: HashTable<u32>,
    heap: Vec<(u64, u32)>,
    /// Where in the heap each slot is.
    places: Vec<u32>,
}

impl<K: Key> HeavyKeys<K> {
    /// None so far, for the board's `capacity` slots from `first` on.
    pub(super) fn new(first: usize, capacity: usize) -> Self {
        Self {
            first,
            capacity,
            hashes: Vec::new(),
            keys: Vec::new(),
            weights: Vec::new(),
            index: HashTable::with_capacity(capacity),
            heap: Vec::new(),
            places: Vec::new(),
        }
    }

    /// A weight that lets nobody in that is not in already.
    #[inline]
    pub(super) fn floor(&self) -> u64 {
        match self.heap.first() {
            Some(top) if self.heap.len() == self.capacity => top.0,
            _ => 0,
        }
    }

    /// Takes in a key of this weight, if it is among the heaviest.
    pub(super) fn offer(&mut self, board: &Board, hash: u64, key: K, weight: u64) {
        let is_it = |&slot: &u32| self.keys[slot as usize] == key;
        if let Some(&slot) = self.index.find(hash, is_it) {
            let known = std::mem::replace(&mut self.weights[slot as usize], weight);
            if weight < known {
                self.fall(slot as usize);
            }
            return;
        }
        if self.heap.len() < self.capacity {
            let slot = self.heap.len();
            self.hashes.push(hash);
            self.keys.push(key);
            self.weights.push(weight);
            self.heap.push((weight, slot as u32));
            self.places.push(slot as u32);
            self.rise(slot);
            self.enter(board, slot, hash);
            return;
        }
        while let Some(&(known, slot)) = self.heap.first() {
            let now = self.weights[slot as usize];
            if known < now {
                self.heap[0].0 = now;
                self.sink();
                continue;
            }
            if weight > now {
                let slot = slot as usize;
                if let Ok(entry) = self.index.find_entry(self.hashes[slot], |&at| at as usize == slot) {
                    entry.remove();
                }
                (self.hashes[slot], self.keys[slot], self.weights[slot]) = (hash, key, weight);
                self.heap[0].0 = weight;
                self.sink();
                self.enter(board, slot, hash);
            }
            return;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.first, self.capacity);
    }

    fn enter(&mut self, board: &Board, slot: usize, hash: u64) {
        self.index.insert_unique(hash, slot as u32, |&slot| self.hashes[slot as usize]);
        board.write(self.first + slot, self.keys[slot]);
    }

    /// Corrects a slot in the heap whose weight is less than it was.
    fn fall(&mut self, slot: usize) {
        let (at, weight) = (self.places[slot] as usize, self.weights[slot]);
        if weight < self.heap[at].0 {
            self.heap[at].0 = weight;
            self.rise(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else { return };
            if self.heap[at] <= self.heap[least] {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].1 as usize] = a as u32;
        self.places[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_that_is_not_full_admits_the_least() {
        let (board, mut heavy) = (Board::new(4, 1), HeavyKeys::new(0, 4));
        for key in [9u64, 1, 5] {
            heavy.offer(&board, key, key, 100 * key);
            assert_eq!(heavy.floor(), 0);
        }
        assert_eq!(board.keys::<u64>(), [9, 1, 5]);
    }

    proptest! {
        // The oracle: all weights; those above the capacity-th largest are certainly there.
        #[test]
        fn the_heaviest_are_on_the_board(offers in prop::collection::vec((0u64..40, 1u64..100), 0..400)) {
            let (board, mut heavy) = (Board::new(8, 1), HeavyKeys::new(0, 8));
            let mut weights = BTreeMap::new();
            for (key, more) in offers {
                let weight = weights.entry(key).or_insert(0);
                *weight += more;
                // Few hashes, so that keys are told apart by themselves.
                heavy.offer(&board, key % 3, key, *weight);
            }
            let mut shown = board.keys::<u64>();
            shown.sort_unstable();
            let mut heaviest: Vec<(u64, u64)> = weights.iter().map(|(&key, &weight)| (weight, key)).collect();
            heaviest.sort_unstable();
            let least_shown = heaviest.iter().rev().nth(7).map_or(0, |least| least.0);
            prop_assert_eq!(shown.len(), heaviest.len().min(8));
            for (weight, key) in heaviest {
                if weight > least_shown {
                    prop_assert!(shown.contains(&key), "{} of weight {}", key, weight);
                }
            }
        }

        /// The oracle: who is absent takes the slot of the least, of equal ones the first slot, whatever was heavier once.
        #[test]
        fn weights_that_fall_make_room(offers in prop::collection::vec((0u64..20, 0u64..30), 0..400)) {
            let (board, mut heavy) = (Board::new(9, 1), HeavyKeys::new(4, 5));
            let mut slots: Vec<(u64, u64)> = Vec::new();
            for (key, weight) in offers {
                heavy.offer(&board, key % 3, key, weight);
                let known = slots.iter().position(|&(_, at)| at == key);
                match known {
                    Some(slot) => slots[slot].0 = weight,
                    None if slots.len() < 5 => slots.push((weight, key)),
                    None => {
                        let least = slots.iter().map(|slot| slot.0).min().expect("five");
                        if weight > least {
                            *slots.iter_mut().find(|slot| slot.0 == least).expect("the least") = (weight, key);
                        }
                    }
                }
                let keys: Vec<u64> = slots.iter().map(|slot| slot.1).collect();
                prop_assert_eq!(board.keys::<u64>(), keys);
            }
        }
    }
}
