//! Many fingerprints in ascending order, in one pass from the front, in place.
//!
//! ```text
//!   incoming ──────────────────────────────┐
//!                                          ▼ the lesser one
//!   blocks  │ new … │ new │ zero │ old │ … merge ──▶ next free slot
//!                          opened ▲ │      ▲
//!                                   └─▶ waiting: read, not yet written again
//! ```
//!
//! 1. Blocks below `opened` have been read and zeroed; all that they held is in place again or in `waiting`.
//! 2. A block is opened before anything is written to it, and before a fingerprint of its quotients or above is chosen.
//! 3. What has been written lies in opened blocks.
//! 4. Stretches that no incoming fingerprint touches are jumped over, from and to blocks that no run reaches into.
//!
//! Cost: one read and one write of each block that changes; `waiting` is as long as runs are shifted, at most one entry for
//! each incoming fingerprint and each of the longest cluster.

use super::blocks::{BLOCK_SLOTS, Blocks};
use super::shape::Shape;
use std::collections::VecDeque;

/// No quotient.
const NONE: usize = usize::MAX;

/// A pass under way.
pub(super) struct Sweep<'b> {
    shape: Shape,
    blocks: &'b mut Blocks,
    waiting: VecDeque<u64>,
    opened: usize,
    /// Behind the last slot that was read.
    read_end: usize,
    /// Behind the last slot that was written.
    end: usize,
    /// The quotient of the last slot that was written, whose run may go on, or [`NONE`].
    last: usize,
    /// Blocks below have their offset.
    settled: usize,
}

impl<'b> Sweep<'b> {
    pub(super) fn new(shape: Shape, blocks: &'b mut Blocks) -> Self {
        Self {
            shape,
            blocks,
            waiting: VecDeque::new(),
            opened: 0,
            read_end: 0,
            end: 0,
            last: NONE,
            settled: 0,
        }
    }

    /// Merges fingerprints in ascending order with those in the blocks.
    pub(super) fn merge(mut self, incoming: impl IntoIterator<Item = u64>) {
        for fingerprint in incoming {
            let block = self.shape.split(fingerprint).0 / BLOCK_SLOTS;
            if block >= self.opened {
                self.jump(block);
                self.open(block);
            }
            while let Some(&waiting) = self.waiting.front()
                && waiting <= fingerprint
            {
                self.waiting.pop_front();
                self.push(waiting);
            }
            self.push(fingerprint);
        }
        self.finish();
    }

    /// Writes what waits, and what it displaces.
    fn finish(&mut self) {
        while let Some(waiting) = self.waiting.pop_front() {
            self.push(waiting);
        }
        self.end_run();
        self.settle(self.opened);
    }

    /// Moves on towards block `to`, if all that was read is in place again: then nothing reaches beyond the opened blocks.
    fn jump(&mut self, to: usize) {
        if !self.waiting.is_empty() {
            return;
        }
        let first = (self.opened + 1..=to).rev().find(|&block| self.blocks.offset(block) == 0);
        if let Some(first) = first {
            self.end_run();
            self.settle(self.opened);
            self.last = NONE;
            (self.opened, self.settled) = (first, first);
            (self.read_end, self.end) = (first * BLOCK_SLOTS, first * BLOCK_SLOTS);
        }
    }

    /// Reads and zeroes blocks up to `through`, or makes them.
    fn open(&mut self, through: usize) {
        while self.opened <= through {
            self.blocks.reach(self.opened);
            let (shape, waiting) = (self.shape, &mut self.waiting);
            let whole = decode(self.blocks, shape, self.opened, &mut self.read_end, |fingerprint| {
                waiting.push_back(fingerprint);
            });
            debug_assert!(whole, "a run of block {} has no end", self.opened);
            self.blocks.clear(self.opened);
            self.opened += 1;
        }
    }

    /// Writes the next fingerprint.
    #[inline]
    fn push(&mut self, fingerprint: u64) {
        let (quotient, remainder) = self.shape.split(fingerprint);
        let slot = self.end.max(quotient);
        if slot / BLOCK_SLOTS >= self.opened {
            self.open(slot / BLOCK_SLOTS);
        }
        if quotient / BLOCK_SLOTS >= self.settled {
            self.settle(quotient / BLOCK_SLOTS + 1);
        }
        if quotient != self.last {
            self.end_run();
            self.blocks.mark_occupied(quotient, true);
            self.last = quotient;
        }
        self.blocks.fill(slot, remainder);
        self.end = slot + 1;
    }

    /// Marks the last slot that was written as the last of its run.
    #[inline(always)]
    fn end_run(&mut self) {
        if self.last != NONE {
            self.blocks.mark_runend(self.end - 1, true);
        }
    }

    /// Sets the offsets of blocks below `below`: no more fingerprint of earlier blocks will come.
    fn settle(&mut self, below: usize) {
        for block in self.settled..below {
            self.blocks.set_offset(block, self.end.saturating_sub(block * BLOCK_SLOTS));
        }
        self.settled = self.settled.max(below);
    }
}

/// Hands out the fingerprints of the quotients of a block, in order. `end` is behind the last slot of earlier blocks'
/// runs, and afterwards behind this block's. False where a run has no end, as may be in bytes from elsewhere.
pub(super) fn decode(
    blocks: &Blocks,
    shape: Shape,
    block: usize,
    end: &mut usize,
    mut take: impl FnMut(u64),
) -> bool {
    let (mut here, mut view) = (block, blocks.view(block));
    let mut occupieds = view.occupieds;
    while occupieds != 0 {
        let quotient = block * BLOCK_SLOTS + occupieds.trailing_zeros() as usize;
        occupieds &= occupieds - 1;
        let mut slot = quotient.max(*end);
        loop {
            let (at, place) = (slot / BLOCK_SLOTS, slot % BLOCK_SLOTS);
            if at != here {
                if at >= blocks.len() {
                    return false;
                }
                (here, view) = (at, blocks.view(at));
            }
            take(shape.join(quotient, blocks.remainder_of(&view, place as u32)));
            slot += 1;
            if view.runends >> place & 1 == 1 {
                break;
            }
        }
        *end = slot;
    }
    true
}

/// All fingerprints in ascending order, each as often as it was inserted: `lg_quotients + remainder_bits` bits, right-aligned.
#[derive(Clone, Debug)]
pub struct Fingerprints<'f> {
    shape: Shape,
    blocks: &'f Blocks,
    waiting: VecDeque<u64>,
    next_block: usize,
    end: usize,
    left: u64,
}

impl<'f> Fingerprints<'f> {
    pub(super) fn new(shape: Shape, blocks: &'f Blocks, len: u64) -> Self {
        Self { shape, blocks, waiting: VecDeque::new(), next_block: 0, end: 0, left: len }
    }
}

impl Iterator for Fingerprints<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let blocks = self.shape.slots() / BLOCK_SLOTS;
        while self.waiting.is_empty() && self.next_block < blocks {
            let waiting = &mut self.waiting;
            let whole = decode(self.blocks, self.shape, self.next_block, &mut self.end, |fingerprint| {
                waiting.push_back(fingerprint);
            });
            self.next_block = if whole { self.next_block + 1 } else { blocks };
        }
        let next = self.waiting.pop_front();
        self.left = self.left.saturating_sub(u64::from(next.is_some()));
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Fingerprints<'_> {}
