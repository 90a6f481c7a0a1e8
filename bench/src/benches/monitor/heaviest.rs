//! The keys that weigh most, beside a sketch that keeps none: what each worker of sketch-merge has, and what the ideal has.
//!
//! A key that is known costs a look-up. The heap's weights are lower bounds, corrected when they come to the top: weights only grow.

use hashbrown::HashTable;

/// A table of the heaviest keys.
#[derive(Clone, Debug)]
pub(super) struct Heaviest<K> {
    capacity: usize,
    /// Hash, key, weight.
    slots: Vec<(u64, K, u64)>,
    index: HashTable<u32>,
    /// The least on top: weight when looked at last, slot.
    heap: Vec<(u64, u32)>,
}

impl<K: Copy + Eq> Heaviest<K> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            slots: Vec::with_capacity(capacity),
            index: HashTable::with_capacity(capacity),
            heap: Vec::with_capacity(capacity),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// A weight that lets no key in that is not in already.
    #[inline]
    pub(super) fn floor(&self) -> u64 {
        if self.heap.len() < self.capacity { 0 } else { self.heap.first().map_or(0, |least| least.0) }
    }

    /// Takes a key of this weight in, if it is among the heaviest.
    #[inline]
    pub(super) fn offer(&mut self, hash: u64, key: K, weight: u64) {
        if weight <= self.floor() {
            return;
        }
        if let Some(&slot) = self.index.find(hash, |&slot| self.slots[slot as usize].1 == key) {
            let known = &mut self.slots[slot as usize].2;
            *known = weight.max(*known);
            return;
        }
        let slot = if self.slots.len() < self.capacity {
            self.slots.push((hash, key, weight));
            self.slots.len() - 1
        } else {
            let Some(slot) = self.least_below(weight) else { return };
            let old = self.slots[slot].0;
            if let Ok(entry) = self.index.find_entry(old, |&at| at as usize == slot) {
                entry.remove();
            }
            self.slots[slot] = (hash, key, weight);
            slot
        };
        self.index.insert_unique(hash, slot as u32, |&slot| self.slots[slot as usize].0);
        self.push((weight, slot as u32));
    }

    /// Takes the least key off the heap, if it weighs less than this.
    fn least_below(&mut self, weight: u64) -> Option<usize> {
        loop {
            let (known, slot) = *self.heap.first()?;
            let now = self.slots[slot as usize].2;
            if known == now {
                return (weight > now).then(|| {
                    self.heap.swap_remove(0);
                    self.sink();
                    slot as usize
                });
            }
            self.heap[0].0 = now;
            self.sink();
        }
    }

    /// The keys with their hashes.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u64, K)> {
        self.slots.iter().map(|&(hash, key, _)| (hash, key))
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.index.clear();
        self.heap.clear();
    }

    fn push(&mut self, entry: (u64, u32)) {
        self.heap.push(entry);
        let mut at = self.heap.len() - 1;
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.heap.swap(at, (at - 1) / 2);
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
            self.heap.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        // The oracle: all weights. What weighs more than the capacity-th is there, each key once.
        #[test]
        fn the_heaviest_are_there(offers in prop::collection::vec((0u64..40, 1u64..100), 0..300)) {
            let (mut heaviest, mut weights) = (Heaviest::new(8), BTreeMap::new());
            for (key, more) in offers {
                let weight = weights.entry(key).or_insert(0);
                *weight += more;
                heaviest.offer(key % 3, key, *weight);
            }
            let mut kept: Vec<u64> = heaviest.keys().map(|key| key.1).collect();
            kept.sort_unstable();
            prop_assert_eq!(kept.len(), weights.len().min(8));
            kept.dedup();
            prop_assert_eq!(kept.len(), weights.len().min(8));
            let mut all: Vec<u64> = weights.values().copied().collect();
            all.sort_unstable_by(|one, other| other.cmp(one));
            let least = all.get(7).copied().unwrap_or(0);
            prop_assert!(weights.iter().all(|(key, &weight)| weight <= least || kept.contains(key)));
            heaviest.clear();
            prop_assert_eq!((heaviest.keys().count(), heaviest.floor()), (0, 0));
        }
    }
}
