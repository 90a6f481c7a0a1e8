//! One worker's slots, its queue of what left them, and what a query sees of both.
//!
//! ```text
//!   insert ─▶ slots   below τ ──────────────────────────────── from τ on ─▶ message: block, count, flow ─▶ ring
//!               ▲                                                 │
//!               └──────────── a full ring: the slot keeps it ─────┘
//! ```
//!
//! 1. A slot is emptied and its message counts as sent in one step, that of [`Blocks::change`].
//! 2. Nothing is lost where the ring is full: the slot goes on counting in 64 bits, and is sent when it is next added to, or by the next
//!    [`publish`](Post::publish) that finds room.
//! 3. A slot that is kept is emptied likewise, and stays its flow's until it is given to another.
//! 4. For every addition that had ended when a read began, the read finds its weight once: in a slot, or in a message that the reader was
//!    not told to have been applied.

use super::blocks::{Blocks, Moment};
use super::key::Key;
use super::ring::{Ring, Sender};

/// What a message brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim<F> {
    pub(super) count: u64,
    pub(super) flow: F,
}

impl<F: Key> Key for Claim<F> {
    const WORDS: usize = 1 + F::WORDS;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        put(self.count);
        self.flow.store(put);
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        Self { count: next(), flow: F::load(next) }
    }
}

/// What a worker, the aggregator and queries share.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) blocks: Blocks,
    pub(super) ring: Ring,
}

/// What the worker alone has.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) sender: Sender,
    /// How often a slot that was to be sent was kept.
    pub(super) kept: u64,
    /// Slots that were to be sent and were not: a bit each.
    due: Box<[u64]>,
    due_count: usize,
}

impl Seat {
    /// For a worker that goes over to slots that are free.
    pub(super) fn turn(&mut self) {
        if self.due_count > 0 {
            self.due.fill(0);
            self.due_count = 0;
        }
    }

    #[cold]
    fn note(&mut self, slot: usize) {
        self.kept += 1;
        let (word, bit) = (&mut self.due[slot / 64], 1 << (slot % 64));
        self.due_count += usize::from(*word & bit == 0);
        *word |= bit;
    }
}

impl Post {
    /// Free slots, and a ring of `2^lg_slots - 1` messages.
    pub(super) fn new<F: Key>(blocks: usize, block_slots: usize, lg_slots: u32) -> Self {
        Self {
            blocks: Blocks::new(blocks, block_slots, F::WORDS),
            ring: Ring::new(lg_slots, Claim::<F>::WORDS),
        }
    }

    /// For the worker, before it begins.
    pub(super) fn seat(&self) -> Seat {
        let slots = self.blocks.blocks() * self.blocks.block_slots();
        let due = vec![0; slots.div_ceil(64)].into();
        Seat { sender: Sender::default(), kept: 0, due, due_count: 0 }
    }

    /// A slot's count becomes `count`, and the slot that of `taker` if there is one; it is sent if that is due.
    #[inline(always)]
    pub(super) fn put<F: Key>(
        &self,
        seat: &mut Seat,
        (block, slot): (usize, usize),
        count: u64,
        taker: Option<F>,
        tau: u8,
    ) {
        if count < u64::from(tau) {
            self.hold(block, slot, count, taker);
        } else {
            self.send_or_hold(seat, block, slot, count, taker);
        }
    }

    #[inline(always)]
    fn hold<F: Key>(&self, block: usize, slot: usize, count: u64, taker: Option<F>) {
        match taker {
            None => self.blocks.set_count(slot, count),
            taker => self.blocks.change(block, slot, count, taker, Moment::NONE, || ()),
        }
    }

    #[inline(never)]
    fn send_or_hold<F: Key>(&self, seat: &mut Seat, block: usize, slot: usize, count: u64, taker: Option<F>) {
        if self.ring.has_room(&mut seat.sender) {
            let flow = taker.unwrap_or_else(|| self.blocks.flow(slot));
            self.send(seat, block, slot, Claim { count, flow });
        } else {
            seat.note(slot);
            self.hold(block, slot, count, taker);
        }
    }

    /// Sends what empties a slot; there is room.
    fn send<F: Key>(&self, seat: &mut Seat, block: usize, slot: usize, claim: Claim<F>) {
        self.ring.stage(&mut seat.sender, block, 0, Some(claim));
        if self.blocks.count(slot) == 0 {
            self.ring.complete(&mut seat.sender);
        } else {
            self.complete::<F>(seat, (block, slot), 0, None, || ());
        }
    }

    /// Ends the message that is staged by the change of its slot, of which `meanwhile` is part.
    fn complete<F: Key>(
        &self,
        seat: &mut Seat,
        (block, slot): (usize, usize),
        count: u64,
        taker: Option<F>,
        meanwhile: impl FnOnce(),
    ) {
        // The sequence is odd: the message under way is the one that makes up the pair.
        let number = self.ring.sequence() / 2 + 1;
        let moment = Moment { source: 0, number };
        self.blocks.change(block, slot, count, taker, moment, || {
            meanwhile();
            self.ring.complete(&mut seat.sender);
        });
    }

    /// Gives a slot to a flow that keeps it from now on, and sends what the flow before it left there; false, and nothing is changed,
    /// where the ring has no room for that.
    pub(super) fn give<F: Key>(
        &self,
        seat: &mut Seat,
        (block, slot): (usize, usize),
        claim: Claim<F>,
        is_flagged: bool,
        tau: u8,
    ) -> bool {
        let Claim { count, flow } = claim;
        let (left, is_due) = (self.blocks.count(slot), count >= u64::from(tau));
        let has_room = (left > 0 || is_due) && self.ring.has_room(&mut seat.sender);
        if left > 0 && !has_room {
            seat.kept += 1;
            return false;
        }
        let at = slot - block * self.blocks.block_slots();
        if is_flagged {
            self.blocks.flag(block, at);
        }
        let keep = || self.blocks.keep(block, at, is_flagged);
        if left > 0 {
            let left = Claim { count: left, flow: self.blocks.flow::<F>(slot) };
            self.ring.stage(&mut seat.sender, block, 0, Some(left));
            self.complete(seat, (block, slot), count, Some(flow), keep);
            if is_due {
                self.send_or_hold::<F>(seat, block, slot, count, None);
            }
        } else if has_room {
            self.ring.stage(&mut seat.sender, block, 0, Some(claim));
            self.complete(seat, (block, slot), 0, Some(flow), keep);
        } else {
            if is_due {
                seat.note(slot);
            }
            self.blocks.change(block, slot, count, Some(flow), Moment::NONE, keep);
        }
        true
    }

    /// Sends what could not be sent before, as far as there is room, and publishes all.
    pub(super) fn publish<F: Key>(&self, seat: &mut Seat) {
        let mut words = 0..seat.due.len();
        while seat.due_count > 0
            && self.ring.has_room(&mut seat.sender)
            && let Some(word) = words.next()
        {
            while seat.due[word] != 0 && self.ring.has_room(&mut seat.sender) {
                let slot = 64 * word + seat.due[word].trailing_zeros() as usize;
                self.empty::<F>(seat, slot);
                seat.due[word] &= seat.due[word] - 1;
                seat.due_count -= 1;
            }
        }
        self.ring.publish(&mut seat.sender);
    }

    /// Sends slots `first..end` that hold anything, until the ring is full; where it stopped, or `end`.
    pub(super) fn flush<F: Key>(&self, seat: &mut Seat, first: usize, end: usize) -> usize {
        for slot in first..end {
            if self.blocks.count(slot) > 0 {
                if !self.ring.has_room(&mut seat.sender) {
                    return slot;
                }
                self.empty::<F>(seat, slot);
            }
        }
        self.ring.publish(&mut seat.sender);
        end
    }

    /// Sends what a slot holds, for which there is room.
    fn empty<F: Key>(&self, seat: &mut Seat, slot: usize) {
        let count = self.blocks.count(slot);
        if count > 0 {
            let claim = Claim { count, flow: self.blocks.flow::<F>(slot) };
            self.send(seat, slot / self.blocks.block_slots(), slot, claim);
        }
    }

    /// Appends what these slots of a block held beyond the first `applied` messages, and what the messages of the block brought that are
    /// not applied, at one moment; false where those messages are gone by now: `applied` was told too long ago.
    pub(super) fn read<F: Key>(
        &self,
        block: usize,
        wanted: &[u32],
        applied: u64,
        held: &mut Vec<(u64, F)>,
    ) -> bool {
        let (sent, moment) = self.blocks.read(block, wanted, held, || self.ring.sequence() / 2);
        let to = if moment.number == Moment::NONE.number { sent } else { moment.number };
        if to - applied > self.ring.slots() {
            return false;
        }
        for number in applied..to {
            if super::message::cell(self.ring.first_word(number)) == block {
                let (_, Claim { count, flow }) = self.ring.message(number);
                held.push((count, flow));
            }
        }
        self.ring.has_kept(applied)
    }
}
