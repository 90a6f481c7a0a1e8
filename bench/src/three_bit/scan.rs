//! From slots to entries and back, in ascending order, one pass: what merges are made of.

use super::{CONTINUATION, METADATA_BITS, OCCUPIED, SHIFTED};
use std::collections::VecDeque;

/// Turns slots, shown one after the other from the first, into entries.
#[derive(Clone, Debug)]
pub struct Scan {
    remainder_bits: u32,
    /// The next slot's number.
    at: u64,
    /// Quotients whose runs are still to come.
    quotients: VecDeque<u64>,
    /// The quotient of the run that was shown last.
    quotient: u64,
}

impl Scan {
    /// Before the first slot.
    pub fn new(remainder_bits: u32) -> Self {
        Self { remainder_bits, at: 0, quotients: VecDeque::new(), quotient: 0 }
    }

    /// The entry in the next slot, if one is.
    #[inline]
    pub fn entry(&mut self, slot: u64) -> Option<u64> {
        let at = self.at;
        self.at += 1;
        if slot & OCCUPIED != 0 {
            self.quotients.push_back(at);
        }
        if slot & (OCCUPIED | CONTINUATION | SHIFTED) == 0 {
            return None;
        }
        if slot & CONTINUATION == 0 {
            self.quotient = self.quotients.pop_front()?;
        }
        Some(self.quotient << self.remainder_bits | slot >> METADATA_BITS)
    }
}

/// Where entries go that come in ascending order.
#[derive(Clone, Debug)]
pub struct Placement {
    remainder_bits: u32,
    /// The first slot behind the last entry.
    free: u64,
    last_quotient: Option<u64>,
}

impl Placement {
    /// Before the first entry.
    pub fn new(remainder_bits: u32) -> Self {
        Self { remainder_bits, free: 0, last_quotient: None }
    }

    /// The slot of an entry not below the one before, and what to put there; [`OCCUPIED`] is to be set in the slot of
    /// its quotient besides.
    #[inline]
    pub fn place(&mut self, entry: u64) -> Placed {
        let quotient = entry >> self.remainder_bits;
        let at = self.free.max(quotient);
        self.free = at + 1;
        let mut slot = (entry & ((1 << self.remainder_bits) - 1)) << METADATA_BITS;
        if at != quotient {
            slot |= SHIFTED;
        }
        if self.last_quotient == Some(quotient) {
            slot |= CONTINUATION;
        }
        self.last_quotient = Some(quotient);
        Placed { quotient, at, slot }
    }
}

/// One entry's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The slot to mark as occupied.
    pub quotient: u64,
    /// The slot of the remainder.
    pub at: u64,
    /// Remainder and its two bits.
    pub slot: u64,
}
