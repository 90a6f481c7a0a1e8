//! From hash to slot: open addressing with linear probing, at most half full.
//!
//! ```text
//!   entry, 64 bits:  │ tag: top 32 bits of low() │ slot + 1 (0: empty) │      home = top bits of the tag
//! ```
//!
//! 1. Between an entry and its home there is no empty place: deletion shifts back what follows.
//! 2. The tag holds the home, so neither shifting nor a miss reads the hashes.
//!
//! Cost: one or two cache lines a look-up. Source: Knuth, TAOCP 3, section 6.4, Algorithm R.
//! The home comes from `low()`, since shards share the top bits of `high()`.

use crate::KeyHash;

#[derive(Clone, Debug)]
pub(super) struct Index {
    entries: Vec<u64>,
    home_shift: u32,
}

impl Index {
    pub(super) fn new(capacity: usize) -> Self {
        let len = Self::len_for(capacity);
        Self { entries: vec![0; len], home_shift: 64 - len.trailing_zeros() }
    }

    /// Places for `capacity` slots: a power of two, at least twice as many.
    pub(super) fn len_for(capacity: usize) -> usize {
        (2 * capacity).next_power_of_two()
    }

    #[inline]
    pub(super) fn find(&self, hash: KeyHash, hashes: &[KeyHash]) -> Option<usize> {
        let mask = self.entries.len() - 1;
        let mut at = self.home(hash.low());
        loop {
            let entry = self.entries[at & mask];
            if entry == 0 {
                return None;
            }
            let slot = slot_of(entry);
            if (entry ^ hash.low()) >> 32 == 0 && hashes[slot] == hash {
                return Some(slot);
            }
            at += 1;
        }
    }

    /// Adds a hash that is absent.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash, slot: usize) {
        let mask = self.entries.len() - 1;
        let mut at = self.home(hash.low());
        while self.entries[at & mask] != 0 {
            at += 1;
        }
        self.entries[at & mask] = entry_of(hash, slot);
    }

    /// Removes a hash that is present in `slot`.
    #[inline]
    pub(super) fn remove(&mut self, hash: KeyHash, slot: usize) {
        let mask = self.entries.len() - 1;
        let entry = entry_of(hash, slot);
        let mut hole = self.home(hash.low());
        while self.entries[hole & mask] != entry {
            hole += 1;
        }
        let mut at = hole;
        loop {
            at += 1;
            let entry = self.entries[at & mask];
            if entry == 0 {
                break;
            }
            // It may move back if its home is not behind the hole.
            let from_home = at.wrapping_sub(self.home(entry)) & mask;
            if from_home >= at - hole {
                self.entries[hole & mask] = entry;
                hole = at;
            }
        }
        self.entries[hole & mask] = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    /// The home of an entry, or of a hash's `low()`: they share the upper half.
    #[inline]
    fn home(&self, upper: u64) -> usize {
        (upper >> self.home_shift) as usize
    }
}

#[inline]
fn entry_of(hash: KeyHash, slot: usize) -> u64 {
    (hash.low() & !0xffff_ffff) | (slot as u64 + 1)
}

#[inline]
fn slot_of(entry: u64) -> usize {
    (entry as u32).wrapping_sub(1) as usize
}
