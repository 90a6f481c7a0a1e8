//! The keys of the highest scores, where a score is an estimate that is made anew and may also fall.
//!
//! ```text
//!   hash ─▶ index ─▶ slot: hash, score │ first bytes of the key
//!
//!   a key that is present:    its score is the new one
//!   a slot is free:           any key gets it
//!   no slot is free:          a key whose score is above the least takes that one's slot; of equal ones the first slot's
//! ```
//!
//! Cost: O(1) for a key that is present or scores below `floor`; else O(capacity). Memory is allocated at construction.

use super::format::{Decoder, Encoder};
use super::index::Index;
use super::keys::KeyStore;
use crate::error::invalid;
use crate::{KeyHash, Result};

/// The index finds a home in 32 bits of the hash.
const CAPACITY_MAX: usize = 1 << 24;
/// A slot's bytes without the key's.
const SLOT_BYTES: usize = size_of::<u128>() + size_of::<u64>();

#[derive(Clone, Debug)]
pub(crate) struct TopKeys {
    capacity: usize,
    hashes: Vec<KeyHash>,
    scores: Vec<u64>,
    keys: KeyStore,
    index: Index,
    /// While every slot is in use, no score is below this.
    floor: u64,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopKey<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
    pub(crate) truncated: bool,
}

impl PartialEq for TopKeys {
    /// What decides answers and bytes; where the index has an entry does not.
    fn eq(&self, other: &Self) -> bool {
        (self.capacity, &self.hashes, &self.scores, &self.keys)
            == (other.capacity, &other.hashes, &other.scores, &other.keys)
    }
}

impl TopKeys {
    /// `capacity` free slots with up to `key_bytes_max` bytes of each key.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless `1 <= capacity <= 2^24` and `key_bytes_max < 2^15`.
    pub(super) fn new(capacity: usize, key_bytes_max: usize) -> Result<Self> {
        if capacity == 0 || capacity > CAPACITY_MAX {
            return invalid("capacity", capacity, format!("choose 1 to {CAPACITY_MAX} slots"));
        }
        Ok(Self {
            capacity,
            hashes: Vec::with_capacity(capacity),
            scores: Vec::with_capacity(capacity),
            keys: KeyStore::new(capacity, key_bytes_max)?,
            index: Index::new(capacity),
            floor: 0,
        })
    }

    /// Gives a key its score, if it is or becomes one of the best.
    pub(super) fn offer(&mut self, hash: KeyHash, score: u64, key: &[u8]) {
        self.offer_kept(hash, score, key, false);
    }

    /// As [`offer`](Self::offer), with what was kept of a key before.
    pub(super) fn offer_kept(&mut self, hash: KeyHash, score: u64, key: &[u8], truncated: bool) {
        let place = match self.index.find(hash, &self.hashes) {
            Ok(slot) => {
                self.scores[slot] = score;
                self.floor = self.floor.min(score);
                return;
            }
            Err(place) => place,
        };
        if self.hashes.len() < self.capacity {
            let slot = self.hashes.len();
            self.index.insert(place, hash, slot);
            self.hashes.push(hash);
            self.scores.push(score);
            self.keys.keep_kept(slot, key, truncated);
            return;
        }
        if score <= self.floor {
            return;
        }
        let least = self.scores.iter().enumerate().min_by_key(|&(_, score)| *score);
        let Some((slot, &least)) = least else { return };
        self.floor = least;
        if score <= least {
            return;
        }
        // In this order, so that the place still holds; should both have one entry, either may go.
        self.index.insert(place, hash, slot);
        self.index.remove(self.hashes[slot], slot);
        (self.hashes[slot], self.scores[slot]) = (hash, score);
        self.keys.keep_kept(slot, key, truncated);
    }

    /// The keys that are present, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = TopKey<'_>> {
        self.hashes.iter().enumerate().map(|(slot, &hash)| {
            let (key, truncated) = self.keys.get(slot);
            TopKey { hash, key, truncated }
        })
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn key_bytes_max(&self) -> usize {
        self.keys.bytes_max()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.hashes.capacity() * size_of::<KeyHash>() + self.scores.capacity() * size_of::<u64>();
        slots + self.keys.memory_bytes() + self.index.memory_bytes()
    }

    /// Appends capacity u32, key_bytes_max u32, slots in use u32, zero u32; of each slot: hash u128, score u64, key length u16 (bit 15:
    /// truncated), key bytes padded with zeros. Free slots are zero.
    pub(super) fn put(&self, encoder: &mut Encoder) {
        for value in [self.capacity, self.key_bytes_max(), self.hashes.len(), 0] {
            encoder.u32(value as u32);
        }
        for slot in 0..self.hashes.len() {
            encoder.u128(self.hashes[slot].0);
            encoder.u64(self.scores[slot]);
            self.keys.put(slot, encoder);
        }
        encoder.zeros((self.capacity - self.hashes.len()) * self.slot_bytes());
    }

    /// How many bytes [`put`](Self::put) appends.
    pub(super) fn encoded_bytes(&self) -> usize {
        4 * size_of::<u32>() + self.capacity * self.slot_bytes()
    }

    /// Reads what [`put`](Self::put) appended.
    pub(super) fn read(decoder: &mut Decoder<'_>) -> Result<Self> {
        let (capacity, key_bytes_max) = (decoder.u32()?, decoder.u32()? as usize);
        let used = decoder.u32()? as usize;
        decoder.zeros(4)?;
        let slot_bytes = SLOT_BYTES.saturating_add(KeyStore::encoded_bytes(key_bytes_max));
        let capacity = decoder.counted("the number of slots", capacity, slot_bytes)?;
        let top = Self::new(capacity, key_bytes_max).ok().filter(|_| used <= capacity);
        let Some(mut top) = top else {
            let found = format!("{used} of {capacity} slots with keys of up to {key_bytes_max} bytes");
            return Err(decoder.corrupt("the slots", "a valid shape", found));
        };
        for slot in 0..used {
            let (hash, score) = (KeyHash(decoder.u128()?), decoder.u64()?);
            let Err(place) = top.index.find(hash, &top.hashes) else {
                return Err(decoder.corrupt("the hash of a slot", "in one slot only", format!("{hash:?}")));
            };
            top.index.insert(place, hash, slot);
            top.hashes.push(hash);
            top.scores.push(score);
            top.keys.read(slot, decoder)?;
        }
        decoder.zeros((capacity - used) * slot_bytes)?;
        Ok(top)
    }

    fn slot_bytes(&self) -> usize {
        SLOT_BYTES + KeyStore::encoded_bytes(self.key_bytes_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashKind, KeyHasher, Seed};
    use proptest::prelude::*;

    fn hash(key: u64) -> KeyHash {
        KeyHasher::new(HashKind::Xxh3, Seed(1)).hash_u64(key)
    }

    /// A heap that compared with its least also while it had room would keep the first key only.
    #[test]
    fn while_there_is_room_every_key_gets_in() {
        let mut top = TopKeys::new(3, 0).unwrap();
        for (key, score) in [(1, 9), (2, 0), (3, 5)] {
            top.offer(hash(key), score, &[]);
        }
        assert_eq!(top.scores, [9, 0, 5]);
        top.offer(hash(4), 0, &[]);
        assert_eq!(top.scores, [9, 0, 5]);
        top.offer(hash(4), 1, &[]);
        assert_eq!(top.scores, [9, 1, 5]);
    }

    proptest! {
        #[test]
        fn slots_are_those_of_the_obvious_version(
            offers in prop::collection::vec((0u64..20, 0u64..30), 0..200), capacity in 1usize..8,
        ) {
            let mut top = TopKeys::new(capacity, 8).unwrap();
            let mut model: Vec<(u64, u64)> = Vec::new();
            for (key, score) in offers {
                top.offer(hash(key), score, &key.to_le_bytes());
                if let Some(entry) = model.iter_mut().find(|entry| entry.0 == key) {
                    entry.1 = score;
                } else if model.len() < capacity {
                    model.push((key, score));
                } else {
                    let least = model.iter().map(|entry| entry.1).min().unwrap();
                    if score > least {
                        *model.iter_mut().find(|entry| entry.1 == least).unwrap() = (key, score);
                    }
                }
                let keys = top.iter().map(|slot| u64::from_le_bytes(slot.key.try_into().unwrap()));
                let slots: Vec<(u64, u64)> = keys.zip(top.scores.iter().copied()).collect();
                prop_assert_eq!(&slots, &model);
                prop_assert!(top.iter().all(|slot| slot.hash == hash(u64::from_le_bytes(slot.key.try_into().unwrap()))));
            }
        }
    }
}
