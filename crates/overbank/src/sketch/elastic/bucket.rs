//! A bucket of the heavy part: seven keys, their votes, and the votes against them.
//!
//! ```text
//!   line 0   │ low() of 7 hashes  │ flags │        bit i: slot i's key may have weight in the light part
//!   line 1   │ high() of 7 hashes │ –     │
//!   line 2   │ votes of 7 keys    │ votes against │
//! ```
//!
//! 1. A slot is free iff its votes are 0. Slots are filled in order and never freed.
//! 2. A key is in one slot at most.

use crate::KeyHash;

/// Keys of a bucket: what leaves one word of each cache line for the bucket's own.
pub(crate) const SLOTS: usize = 7;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    lows: [u64; SLOTS],
    pub(super) flags: u64,
    highs: [u64; SLOTS],
    unused: u64,
    pub(crate) votes: [u64; SLOTS],
    pub(super) against: u64,
}

const _: () = assert!(size_of::<Bucket>() == 192);

impl Bucket {
    /// Seven free slots.
    pub(super) fn with_against(against: u64) -> Self {
        Self { against, ..Self::default() }
    }

    /// The slot of a key that is present.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash) -> Option<usize> {
        // One comparison of a line; the loop over its hits is over after the first but for one hash in 2^64.
        let mut equal = 0u32;
        for (slot, &low) in self.lows.iter().enumerate() {
            equal |= u32::from(low == hash.low()) << slot;
        }
        while equal != 0 {
            let slot = equal.trailing_zeros() as usize;
            if self.highs[slot] == hash.high() && self.votes[slot] > 0 {
                return Some(slot);
            }
            equal &= equal - 1;
        }
        None
    }

    /// The first free slot.
    #[inline]
    pub(super) fn free(&self) -> Option<usize> {
        self.votes.iter().position(|&votes| votes == 0)
    }

    /// The slot of the least votes, the first of equal ones.
    pub(super) fn least(&self) -> usize {
        (1..SLOTS).fold(0, |least, slot| if self.votes[slot] < self.votes[least] { slot } else { least })
    }

    pub(super) fn hash(&self, slot: usize) -> KeyHash {
        KeyHash::new(self.highs[slot], self.lows[slot])
    }

    /// Gives a slot to a key.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, hash: KeyHash, votes: u64, flag: bool) {
        (self.lows[slot], self.highs[slot], self.votes[slot]) = (hash.low(), hash.high(), votes);
        self.flags = self.flags & !(1 << slot) | u64::from(flag) << slot;
    }

    /// Whether a slot's key may have weight in the light part.
    pub(super) fn flag(&self, slot: usize) -> bool {
        self.flags >> slot & 1 == 1
    }
}
