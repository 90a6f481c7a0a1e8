//! A group that was read, and how keys are hashed.

use super::state::State;
use crate::{KeyHash, KeyHasher};
use std::ops::RangeInclusive;

/// A key and what is known of its rows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct KeyState {
    /// The key.
    pub key: Vec<u8>,
    /// The words of its state.
    pub words: Vec<u64>,
    /// The tail of its state.
    pub tail: Vec<u8>,
}

impl KeyState {
    /// Its state.
    pub fn as_state(&self) -> State<'_> {
        State { words: &self.words, tail: &self.tail }
    }

    /// Makes it that of a key and a state, in the memory that it has.
    pub(super) fn set(&mut self, key: &[u8], state: State<'_>) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.words.clear();
        self.words.extend_from_slice(state.words);
        self.tail.clear();
        self.tail.extend_from_slice(state.tail);
    }
}

/// How groups hash their keys. Tests have it drop bits, so that different keys share all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupHasher {
    pub(super) hasher: KeyHasher,
    /// Bits of a hash that name the leaf.
    pub(super) lg_leaves: u32,
    #[cfg(test)]
    pub(super) mask: u128,
}

impl GroupHasher {
    pub(super) fn new(hasher: KeyHasher, lg_leaves: u32) -> Self {
        GroupHasher {
            hasher,
            lg_leaves,
            #[cfg(test)]
            mask: u128::MAX,
        }
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        #[cfg(test)]
        let hash = KeyHash(hash.0 & self.mask);
        hash
    }

    /// The leaf of a hash.
    #[inline]
    pub(super) fn leaf(&self, hash: KeyHash) -> usize {
        // Two shifts, for a shift by 64 is none.
        (hash.high() >> 1).wrapping_shr(63u32.wrapping_sub(self.lg_leaves)) as usize
    }

    /// The bits behind those that name the leaf, from the first on: hashes of one leaf are in the order of these.
    #[inline]
    pub(super) fn within(&self, hash: KeyHash) -> u64 {
        hash.high().wrapping_shl(self.lg_leaves)
    }

    /// The hashes of a leaf, by their first 64 bits.
    pub(super) fn range_of(&self, leaf: usize) -> RangeInclusive<u64> {
        // Two shifts, for a shift by 64 is none.
        let first = (leaf as u64) << 1 << (63 - self.lg_leaves);
        first..=first | u64::MAX >> self.lg_leaves
    }
}
