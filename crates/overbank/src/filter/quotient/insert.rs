//! One fingerprint in or out: the run is found, and what lies between it and the next hole is shifted by one slot.
//!
//! ```text
//!   before   │ a1 │ a2 │ b1 │ c1 │ free │      into a's run, in order:   │ a1 │ new │ a2 │ b1 │ c1 │
//!              └─a──┘    b    c                                            └── a ────┘    b    c
//! ```
//!
//! Offsets: each block that begins behind the quotient and not behind the hole sees one slot more, or less.

use super::blocks::{BLOCK_SLOTS, Blocks};

impl Blocks {
    /// Puts a remainder into the run of `quotient`.
    pub(super) fn insert(&mut self, quotient: usize, remainder: u64) {
        self.prefetch(quotient);
        let end = self.end_through(quotient);
        if end <= quotient {
            self.set_remainder(quotient, remainder);
            self.mark_runend(quotient, true);
            self.mark_occupied(quotient, true);
            return;
        }
        let hole = self.first_free(end);
        if !self.is_occupied(quotient) {
            self.shift_in(end, hole, remainder, true);
            self.mark_occupied(quotient, true);
        } else {
            let slot = self.place_from(end - 1, quotient, remainder).behind;
            let last = slot == end;
            if last {
                self.mark_runend(end - 1, false);
            }
            self.shift_in(slot, hole, remainder, last);
        }
        for block in quotient / BLOCK_SLOTS + 1..=hole / BLOCK_SLOTS {
            self.set_offset(block, self.offset(block) + 1);
        }
    }

    /// Takes one occurrence of a remainder out of the run of `quotient`; says whether there was one.
    pub(super) fn remove(&mut self, quotient: usize, remainder: u64) -> bool {
        if !self.is_occupied(quotient) {
            return false;
        }
        let end = self.run_end(quotient / BLOCK_SLOTS, self.occupied_through(quotient));
        let place = self.place_from(end, quotient, remainder);
        if !place.found {
            return false;
        }
        let slot = place.behind - 1;
        let (first, last) = (self.starts_run(slot, quotient), slot == end);
        let hole = self.first_unshifted(end + 1) - 1;
        self.shift_out(slot, hole);
        if first && last {
            self.mark_occupied(quotient, false);
        } else if last {
            self.mark_runend(slot - 1, true);
        }
        for block in quotient / BLOCK_SLOTS + 1..=hole / BLOCK_SLOTS {
            self.set_offset(block, self.offset(block) - 1);
        }
        true
    }
}
