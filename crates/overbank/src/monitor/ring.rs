//! A bounded queue of messages from one worker to the aggregator, without locks, which others may look into.
//!
//! ```text
//!        freed          taken           published        staged
//!          │              │                 │               │
//!   ───────┼──────────────┼─────────────────┼───────────────┼──────────▶ message number, never reused
//!          │ applied, not │   the aggregator│  the worker   │  free: staged - freed < slots - 1
//!          │ yet given    │   may take      │  has written  │
//!          │ back         │                 │               │
//! ```
//!
//! 1. The worker alone writes slots, `sequence` and `published`; the aggregator alone writes `freed`. All are atomic words: a look at
//!    a slot that is being written anew gives words of no meaning, which invariant 4 tells.
//! 2. `published` and `freed` move a batch at a time, so that the lines that both cores share change hands once a batch.
//! 3. `sequence` is twice the number of staged messages, or one more while one is staged: a change of the worker's counters that belongs
//!    to message `n` happens while it is `2n + 1`. It is for queries, which want every message at once, and lies in a line of its own.
//! 4. Message `n` stands in its slot as long as `sequence < 2 (n + slots)`. One slot stays free, so that this holds of all messages that
//!    are not given back: a slot is written anew before the sequence says so.
//!
//! Cost: a message is `1 + key words` stores and two of `sequence`; a fence is an instruction only on processors that reorder stores.
//!
//! Deviation: the paper takes a general concurrent queue that allocates. The slots here are fixed, and a full ring is no loss: the
//! worker keeps its counter.

use super::key::Key;
use super::message::header;
use super::sync::{AtomicU64, Ordering, fence};

/// So many messages are published together, or fewer when the worker says so.
pub(super) const PUBLISH: u64 = 8;

/// Fewer messages than these never make a crowd.
const CROWDED_MIN: u64 = 31;

/// Keeps what one core writes out of another's cache line, and of its neighbour that is fetched along.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Padded<T>(pub(super) T);

/// The queue, shared by its two ends and by queries.
#[derive(Debug)]
pub(super) struct Ring {
    slots: Box<[AtomicU64]>,
    slot_words: usize,
    /// One less than the number of slots, a power of two.
    mask: u64,
    sequence: Padded<AtomicU64>,
    published: Padded<AtomicU64>,
    freed: Padded<AtomicU64>,
}

/// The worker's end.
#[derive(Debug, Default)]
pub(super) struct Sender {
    staged: u64,
    published: u64,
    freed_seen: u64,
}

/// The aggregator's end.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) taken: u64,
    published_seen: u64,
    freed: u64,
}

impl Ring {
    /// A ring of `2^lg_slots - 1` messages with keys of `key_words` words.
    pub(super) fn new(lg_slots: u32, key_words: usize) -> Self {
        let slot_words = 1 + key_words;
        Self {
            slots: (0..slot_words << lg_slots).map(|_| AtomicU64::new(0)).collect(),
            slot_words,
            mask: (1 << lg_slots) - 1,
            sequence: Padded(AtomicU64::new(0)),
            published: Padded(AtomicU64::new(0)),
            freed: Padded(AtomicU64::new(0)),
        }
    }

    /// How many slots it has: one more than messages.
    pub(super) fn slots(&self) -> u64 {
        self.mask + 1
    }

    /// Whether another message fits. Where none does, what is staged is published, so that there will be room.
    #[inline]
    pub(super) fn has_room(&self, sender: &mut Sender) -> bool {
        self.has_room_for(sender, 1)
    }

    /// Whether so many more messages fit, or half of the ring if that is less; where they do not, as [`has_room`](Self::has_room).
    #[inline]
    pub(super) fn has_room_for(&self, sender: &mut Sender, messages: u64) -> bool {
        let most = self.mask - messages.min(self.mask.div_ceil(2));
        if sender.staged - sender.freed_seen <= most {
            return true;
        }
        sender.freed_seen = self.freed.0.load(Ordering::Acquire);
        if sender.staged - sender.freed_seen <= most {
            return true;
        }
        self.publish(sender);
        false
    }

    /// Whether more than an eighth of the messages that fit wait, or are not given back; a ring of a few never is crowded.
    #[inline]
    pub(super) fn is_crowded(&self, sender: &mut Sender) -> bool {
        let most = (self.mask / 8).max(CROWDED_MIN);
        if sender.staged - sender.freed_seen <= most {
            return false;
        }
        sender.freed_seen = self.freed.0.load(Ordering::Acquire);
        sender.staged - sender.freed_seen > most
    }

    /// Writes a message, for which there is room, and announces it: until [`complete`](Self::complete) the worker's counter may or may
    /// not be cleared yet, and counts as cleared.
    #[inline]
    pub(super) fn stage<K: Key>(&self, sender: &mut Sender, cell: usize, value: u64, key: Option<K>) {
        // Whoever reads a word of this message where it looked for an older one will find the sequence moved.
        fence(Ordering::Release);
        let slot = &self.slots[self.slot_of(sender.staged)..][..self.slot_words];
        slot[0].store(header(cell, key.is_some(), value), Ordering::Relaxed);
        if let Some(key) = key {
            let mut words = slot[1..].iter();
            key.store(&mut |word| {
                if let Some(place) = words.next() {
                    place.store(word, Ordering::Relaxed);
                }
            });
        }
        self.sequence.0.store(2 * sender.staged + 1, Ordering::Release);
        // Whoever sees the counter cleared will see the sequence odd, or later.
        fence(Ordering::Release);
    }

    /// Ends what [`stage`](Self::stage) began: the counter is cleared.
    #[inline]
    pub(super) fn complete(&self, sender: &mut Sender) {
        sender.staged += 1;
        self.sequence.0.store(2 * sender.staged, Ordering::Release);
        if sender.staged - sender.published >= PUBLISH {
            self.publish(sender);
        }
    }

    /// Lets the aggregator take all that is staged.
    #[inline]
    pub(super) fn publish(&self, sender: &mut Sender) {
        if sender.published < sender.staged {
            sender.published = sender.staged;
            self.published.0.store(sender.published, Ordering::Release);
        }
    }

    /// How many messages wait for the aggregator.
    pub(super) fn waiting(&self, receiver: &mut Receiver) -> u64 {
        receiver.published_seen = self.published.0.load(Ordering::Acquire);
        receiver.published_seen - receiver.taken
    }

    /// Takes up to `limit` messages in order: `take(number, first word, key)`; how many there were.
    #[inline]
    pub(super) fn take<K: Key>(
        &self,
        receiver: &mut Receiver,
        limit: u64,
        mut take: impl FnMut(u64, u64, K),
    ) -> u64 {
        let count = self.waiting(receiver).min(limit);
        for number in receiver.taken..receiver.taken + count {
            let slot = &self.slots[self.slot_of(number)..][..self.slot_words];
            let mut words = slot[1..].iter();
            let key = K::load(&mut || words.next().map_or(0, |word| word.load(Ordering::Relaxed)));
            take(number, slot[0].load(Ordering::Relaxed), key);
        }
        receiver.taken += count;
        // A quarter at a time: the worker asks only when it has filled what it knew to be free.
        if receiver.taken - receiver.freed > self.mask / 4 || self.waiting(receiver) == 0 {
            self.free(receiver);
        }
        count
    }

    /// Gives what was taken back to the worker.
    fn free(&self, receiver: &mut Receiver) {
        if receiver.freed < receiver.taken {
            receiver.freed = receiver.taken;
            self.freed.0.store(receiver.freed, Ordering::Release);
        }
    }

    /// What invariant 3 says.
    #[inline]
    pub(super) fn sequence(&self) -> u64 {
        self.sequence.0.load(Ordering::Acquire)
    }

    /// The first word of message `number`, if it still stands in its slot: see [`has_kept`](Self::has_kept).
    #[inline]
    pub(super) fn first_word(&self, number: u64) -> u64 {
        self.slots[self.slot_of(number)].load(Ordering::Relaxed)
    }

    /// Message `number`, first word and key, if it still stands in its slot: see [`has_kept`](Self::has_kept).
    pub(super) fn message<K: Key>(&self, number: u64) -> (u64, K) {
        let mut words = self.slots[self.slot_of(number)..][..self.slot_words].iter();
        let mut next = || words.next().map_or(0, |word| word.load(Ordering::Relaxed));
        (next(), K::load(&mut next))
    }

    /// Whether all that was read so far of message `number` and later ones was theirs.
    #[inline]
    pub(super) fn has_kept(&self, number: u64) -> bool {
        fence(Ordering::Acquire);
        self.sequence.0.load(Ordering::Relaxed) / 2 < number + self.slots()
    }

    #[inline]
    fn slot_of(&self, number: u64) -> usize {
        (number & self.mask) as usize * self.slot_words
    }
}
