//! Looking fingerprints up: one run, read from its end.
//!
//! Cost: the block of the quotient; a further block where the run has been shifted out of it.

use super::blocks::Blocks;
use crate::bits::word::low_mask;

/// Keys whose lines are under way at once in a batch.
pub(super) const WAVE: usize = 32;

/// Where in a run a remainder stands, or would.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Behind the last remainder that is not above the one sought.
    pub(super) behind: usize,
    /// Whether the one before is equal.
    pub(super) found: bool,
}

impl Blocks {
    /// Whether the run of `quotient` holds `remainder`.
    ///
    /// It is read to its start, although it is in order: which of two remainders is greater is a guess at even odds, and runs
    /// have 1.5 slots on average.
    #[inline]
    pub(super) fn contains(&self, quotient: usize, remainder: u64) -> bool {
        let (block, place) = (quotient / 64, quotient % 64);
        let view = self.view(block);
        if view.occupieds >> place & 1 == 0 {
            return false;
        }
        let end = self.run_end_within(block, view.occupieds & u64::MAX >> (63 - place), view.runends);
        if end >= 64 {
            return self.contains_beyond(quotient, remainder);
        }
        // Behind the run that ends before, and not before the quotient.
        let before = 64 - (view.runends & low_mask(end)).leading_zeros();
        let start = before.max(place as u32);
        // Compared before it is asked for more, so that a key which is there meets one guess, not two.
        let mut slot = end;
        loop {
            if self.remainder_of(&view, slot) == remainder {
                return true;
            }
            if slot == start {
                return false;
            }
            slot -= 1;
        }
    }

    /// As [`Blocks::contains`], for an occupied quotient whose run ends in another block.
    #[inline(never)]
    fn contains_beyond(&self, quotient: usize, remainder: u64) -> bool {
        let mut slot = self.run_end(quotient / 64, self.occupied_through(quotient));
        loop {
            if self.remainder(slot) == remainder {
                return true;
            }
            if self.starts_run(slot, quotient) {
                return false;
            }
            slot -= 1;
        }
    }

    /// How often the run of `quotient` holds `remainder`.
    pub(super) fn count(&self, quotient: usize, remainder: u64) -> u64 {
        if !self.is_occupied(quotient) {
            return 0;
        }
        let end = self.run_end(quotient / 64, self.occupied_through(quotient));
        let place = self.place_from(end, quotient, remainder);
        if !place.found {
            return 0;
        }
        let (mut slot, mut count) = (place.behind - 1, 1);
        while !self.starts_run(slot, quotient) && self.remainder(slot - 1) == remainder {
            slot -= 1;
            count += 1;
        }
        count
    }

    /// Looks from `end`, the last slot of the run of `quotient`, down for `remainder`.
    #[inline(always)]
    pub(super) fn place_from(&self, end: usize, quotient: usize, remainder: u64) -> Place {
        let mut slot = end;
        loop {
            let held = self.remainder(slot);
            if held <= remainder {
                return Place { behind: slot + 1, found: held == remainder };
            }
            if self.starts_run(slot, quotient) {
                return Place { behind: slot, found: false };
            }
            slot -= 1;
        }
    }

    /// Whether `slot`, in the run of `quotient`, is its first: nothing lies before the quotient, and before a shifted run
    /// another one ends.
    #[inline(always)]
    pub(super) fn starts_run(&self, slot: usize, quotient: usize) -> bool {
        slot == quotient || self.is_runend(slot - 1)
    }
}
