//! Slots of a flow and a count each, in blocks: one thread writes them, any number reads a block as it was at one moment.
//!
//! ```text
//!   versions  │ 14 │ 3 │ 8 │ …                    a block: odd while one of its slots is being changed
//!   slots     │ count │ flow │ count │ flow │ …   `block_slots` a block; free where the count is 0, unless it is kept
//!   marks     │ 0b1011 │ 0 │ …                    a block: which of its first 32 slots are kept, and which of these are flagged
//!   change    │ slot │ source │ number │ count │ flow │    what the slot holds when the change under way is done
//! ```
//!
//! 1. One thread writes. A count that grows is one store, of which readers find either end.
//! 2. All else is a change: a slot goes to another flow, is emptied into a message, or takes one. From the odd version on it counts as
//!    done: the slot holds what `change` says, whatever its words say yet, and the message of that number belongs to what was before it.
//! 3. `change` is not written anew before the version is even. So who finds one odd version at the beginning and at the end read
//!    whole words of one change, and who finds one even version read words that no change touched.
//! 4. A read repeats only if one of its block's slots was changed meanwhile. A writer that stops, wherever it is, holds nobody up.
//! 5. A slot that is kept has its flow also while it counts 0. It is marked so in the change that gives it to the flow; if the flow is
//!    flagged, that is said before, and that another was, is taken back after: readers may find a flag too much, and none too few.
//!
//! Cost: a change is two stores of the version, one of each word that changes and of its copy; fences are instructions only on
//! processors that reorder stores.

use super::key::Key;
use super::ring::Padded;
use super::sync::{AtomicU64, Ordering, fence, spin_loop};
use crate::bits::prefetch::prefetch;

/// Words of `change` before the flow's.
const CHANGE_HEAD: usize = 4;
/// The words of a cache line.
const LINE: usize = 8;
/// Where the flags begin in a block's marks.
const FLAGS: usize = 32;

#[derive(Debug)]
pub(super) struct Blocks {
    words: Box<[AtomicU64]>,
    /// Where slots begin, so that those of 4 words or 8 lie in one cache line.
    first: usize,
    slot_words: usize,
    block_slots: usize,
    versions: Box<[AtomicU64]>,
    marks: Box<[AtomicU64]>,
    change: Padded<Box<[AtomicU64]>>,
}

/// Which message a change belongs to: after it, what came of the source are `number` messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moment {
    pub(super) source: usize,
    pub(super) number: u64,
}

impl Moment {
    /// That of a change without a message.
    pub(super) const NONE: Self = Self { source: 0, number: u64::MAX };
}

impl Blocks {
    /// Free slots for flows of `flow_words` words.
    pub(super) fn new(blocks: usize, block_slots: usize, flow_words: usize) -> Self {
        let zeros = |count: usize| -> Box<[AtomicU64]> { (0..count).map(|_| AtomicU64::new(0)).collect() };
        let slot_words = 1 + flow_words;
        let words = zeros(blocks * block_slots * slot_words + LINE);
        let first = words.as_ptr().align_offset(size_of::<u64>() * LINE).min(LINE);
        let change = Padded(zeros(CHANGE_HEAD + flow_words));
        Self { words, first, slot_words, block_slots, versions: zeros(blocks), marks: zeros(blocks), change }
    }

    pub(super) fn blocks(&self) -> usize {
        self.versions.len()
    }

    pub(super) fn block_slots(&self) -> usize {
        self.block_slots
    }

    /// What a slot counts, and the first two words of its flow, which tell flows apart.
    #[inline(always)]
    pub(super) fn head(&self, slot: usize) -> (u64, [u64; 2]) {
        let words = self.slot(slot);
        match words {
            [count, low, high, ..] => (load(count), [load(low), load(high)]),
            _ => (0, [0; 2]),
        }
    }

    /// Asks for a slot that will be looked at soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, slot: usize) {
        prefetch(&self.words, slot.wrapping_mul(self.slot_words).wrapping_add(self.first));
    }

    #[inline]
    pub(super) fn count(&self, slot: usize) -> u64 {
        load(&self.slot(slot)[0])
    }

    /// The flow that a slot counts.
    #[inline]
    pub(super) fn flow<F: Key>(&self, slot: usize) -> F {
        load_key(&self.slot(slot)[1..])
    }

    /// A count grows.
    #[inline(always)]
    pub(super) fn set_count(&self, slot: usize, count: u64) {
        self.slot(slot)[0].store(count, Ordering::Relaxed);
    }

    /// Changes a slot of a block in one step, of which `meanwhile` is part: its count, and its flow where one is given.
    #[inline]
    pub(super) fn change<F: Key>(
        &self,
        block: usize,
        slot: usize,
        count: u64,
        flow: Option<F>,
        moment: Moment,
        meanwhile: impl FnOnce(),
    ) {
        let (version, change) = (&self.versions[block], &self.change.0);
        let before = version.load(Ordering::Relaxed);
        // Whoever reads these words for those of an older change will find its version even.
        fence(Ordering::Release);
        let head =
            [(slot as u64) << 1 | u64::from(flow.is_some()), moment.source as u64, moment.number, count];
        change.iter().zip(head).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        if let Some(flow) = flow {
            store_key(&change[CHANGE_HEAD..], flow);
        }
        version.store(before + 1, Ordering::Release);
        // Whoever reads what follows will find the version odd, or later.
        fence(Ordering::Release);
        let words = self.slot(slot);
        words[0].store(count, Ordering::Relaxed);
        if let Some(flow) = flow {
            store_key(&words[1..], flow);
        }
        meanwhile();
        version.store(before + 2, Ordering::Release);
    }

    /// Says that a slot of a block, numbered within it, goes to a flow that is flagged: before the change.
    pub(super) fn flag(&self, block: usize, at: usize) {
        let marks = &self.marks[block];
        marks.store(load(marks) | 1 << (FLAGS + at), Ordering::Relaxed);
    }

    /// Marks a slot of a block, numbered within it, as kept by a flow that is flagged or not: in the change that gives it to the flow.
    pub(super) fn keep(&self, block: usize, at: usize, is_flagged: bool) {
        let marks = &self.marks[block];
        let others = load(marks) & !(1 << (FLAGS + at));
        marks.store(others | 1 << at | u64::from(is_flagged) << (FLAGS + at), Ordering::Relaxed);
    }

    /// Marks a block of which nobody reads: which of its slots are kept, and which of these are flagged.
    pub(super) fn mark(&self, block: usize, kept: u64, flagged: u64) {
        self.marks[block].store(kept | flagged << FLAGS, Ordering::Relaxed);
    }

    /// Whether a flow, by the first words of its key, is flagged in a block, or has no slot there while others keep them all.
    pub(super) fn is_in_doubt(&self, block: usize, identity: [u64; 2]) -> bool {
        let version = &self.versions[block];
        loop {
            let before = version.load(Ordering::Acquire);
            let marks = load(&self.marks[block]);
            let changed = (!before.is_multiple_of(2)).then(|| load(&self.change.0[0]));
            let mut own = None;
            for at in 0..self.block_slots {
                let slot = block * self.block_slots + at;
                let is_new = changed == Some((slot as u64) << 1 | 1);
                let words = if is_new { &self.change.0[CHANGE_HEAD..] } else { &self.slot(slot)[1..] };
                let is_kept = is_new || marks >> at & 1 == 1;
                if is_kept && words.iter().zip(identity).all(|(word, own)| load(word) == own) {
                    own = Some(at);
                }
            }
            fence(Ordering::Acquire);
            if version.load(Ordering::Relaxed) == before {
                let all = (1 << self.block_slots) - 1;
                return own.map_or(marks & all == all, |at| marks >> (FLAGS + at) & 1 == 1);
            }
            spin_loop();
        }
    }

    /// Appends what these slots of a block, numbered within it, held at one moment, if anything or if they are kept; and what `now` said
    /// at the same one. The message to which a change under way belongs counts as arrived.
    pub(super) fn read<F: Key, T>(
        &self,
        block: usize,
        wanted: &[u32],
        held: &mut Vec<(u64, F)>,
        mut now: impl FnMut() -> T,
    ) -> (T, Moment) {
        let (version, start) = (&self.versions[block], held.len());
        loop {
            let before = version.load(Ordering::Acquire);
            let (mut changed, mut moment) = (None, Moment::NONE);
            if !before.is_multiple_of(2) {
                let [head, source, number, count] = [0, 1, 2, 3].map(|at| load(&self.change.0[at]));
                moment = Moment { source: source as usize, number };
                changed = Some((head >> 1, head & 1 == 1, count));
            }
            let marks = load(&self.marks[block]);
            for &at in wanted {
                let slot = block * self.block_slots + at as usize;
                let (count, is_new) = match changed {
                    Some((changed, is_new, count)) if changed == slot as u64 => (count, is_new),
                    _ => (self.count(slot), false),
                };
                if count > 0 || marks != 0 && marks >> at & 1 == 1 {
                    let flow = if is_new { load_key(&self.change.0[CHANGE_HEAD..]) } else { self.flow(slot) };
                    held.push((count, flow));
                }
            }
            let found = now();
            fence(Ordering::Acquire);
            if version.load(Ordering::Relaxed) == before {
                return (found, moment);
            }
            held.truncate(start);
            spin_loop();
        }
    }

    /// Frees the slots of a block that nobody writes or believes any more.
    pub(super) fn clear(&self, block: usize) {
        (block * self.block_slots..(block + 1) * self.block_slots).for_each(|slot| self.set_count(slot, 0));
        self.marks[block].store(0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn slot(&self, slot: usize) -> &[AtomicU64] {
        // Slots are in memory, so the product does not overflow.
        let start = slot.wrapping_mul(self.slot_words).wrapping_add(self.first);
        &self.words[start..start.wrapping_add(self.slot_words)]
    }
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline]
fn load_key<F: Key>(words: &[AtomicU64]) -> F {
    let mut words = words.iter();
    F::load(&mut || words.next().map_or(0, load))
}

#[inline]
fn store_key<F: Key>(words: &[AtomicU64], flow: F) {
    let mut words = words.iter();
    flow.store(&mut |word| {
        if let Some(place) = words.next() {
            place.store(word, Ordering::Relaxed);
        }
    });
}
