//! A bucket of the heavy part: seven keys, their votes, and the votes against them.
//!
//! ```text
//!   line 0   │ low() of 7 hashes  │ flags │        bit i: slot i's key may have weight in the light part
//!   line 1   │ high() of 7 hashes │ epoch │        of a bucket that many epochs use in turn; else 0
//!   line 2   │ votes of 7 keys    │ votes against │
//! ```
//!
//! 1. A slot is free iff its votes are 0. Slots are filled in order and never freed but all at once, for another epoch.
//! 2. A key is in one slot at most.

use crate::KeyHash;

/// Of the votes against to the least votes, what gives the slot away: the paper's lambda.
const LAMBDA: u128 = 8;

/// Keys of a bucket: what leaves one word of each cache line for the bucket's own.
pub(crate) const SLOTS: usize = 7;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    lows: [u64; SLOTS],
    pub(super) flags: u64,
    highs: [u64; SLOTS],
    epoch: u64,
    pub(crate) votes: [u64; SLOTS],
    pub(super) against: u64,
}

const _: () = assert!(size_of::<Bucket>() == 192);

/// What becomes of a weight that comes to a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vote {
    /// The key has this slot, whose votes have grown by it.
    Own(usize),
    /// The key may have this slot, which is free.
    Free(usize),
    /// The key has none: it voted against those that have, and goes to the light part.
    Against,
    /// The same, and the votes against are enough for the key to have this slot.
    Wins(usize),
}

impl Bucket {
    /// Seven free slots.
    pub(super) fn with_against(against: u64) -> Self {
        Self { against, ..Self::default() }
    }

    /// Frees all slots if they are another epoch's.
    #[inline]
    pub(crate) fn begin(&mut self, epoch: u64) {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::default() };
        }
    }

    /// Counts a weight above 0 for its key, or against those that have slots.
    #[inline]
    pub(crate) fn vote(&mut self, hash: KeyHash, weight: u64) -> Vote {
        match self.find(hash) {
            Some(slot) => {
                self.votes[slot] = self.votes[slot].saturating_add(weight);
                Vote::Own(slot)
            }
            None => self.vote_absent(weight),
        }
    }

    fn vote_absent(&mut self, weight: u64) -> Vote {
        if let Some(slot) = self.free() {
            return Vote::Free(slot);
        }
        let slot = self.least();
        self.against = self.against.saturating_add(weight);
        let is_enough = u128::from(self.against) >= LAMBDA * u128::from(self.votes[slot]);
        if is_enough { Vote::Wins(slot) } else { Vote::Against }
    }

    /// Gives a slot to the key that won it.
    pub(crate) fn replace(&mut self, slot: usize, hash: KeyHash, votes: u64, flag: bool) {
        self.set(slot, hash, votes, flag);
        // As in the paper, the vote that decided stays.
        self.against = votes;
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

    pub(crate) fn hash(&self, slot: usize) -> KeyHash {
        KeyHash::new(self.highs[slot], self.lows[slot])
    }

    /// Gives a slot to a key.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, hash: KeyHash, votes: u64, flag: bool) {
        (self.lows[slot], self.highs[slot], self.votes[slot]) = (hash.low(), hash.high(), votes);
        self.flags = self.flags & !(1 << slot) | u64::from(flag) << slot;
    }

    /// Whether a slot's key may have weight in the light part.
    pub(crate) fn flag(&self, slot: usize) -> bool {
        self.flags >> slot & 1 == 1
    }
}
