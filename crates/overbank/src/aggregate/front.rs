//! States of the keys that come again soon, before their leaves: a row of such a key changes one and is not recorded.
//!
//! ```text
//!   hash ─▶ one slot:  it has the key       ─▶ its state is changed
//!                      it is empty          ─▶ the key's state begins there
//!                      it has another key   ─▶ seven of eight times the row goes its way
//!                                              the eighth: if that key has credit it loses some, and the row goes its way;
//!                                              if it has none, its state goes to its leaf as a record, the key's begins
//! ```
//!
//! In a stream where few keys have most of the rows, as words of a text, these stay here and are merged once in thousands of rows. Where
//! keys come evenly, almost none is found again: then the table is off, but for a sample now and then.
//!
//! | cost | |
//! |---|---|
//! | CPU of a row | some 40 instructions if it is taken, and as many more otherwise; nothing while it is off |
//! | RAM | a 64th of the memory for all threads, at most 4096 slots for each; as much is kept for the records that they become |

use super::leaf::Ground;
use super::state::{Aggregate, Row, Shape, StateMut};
use crate::KeyHash;

/// The longest key that has a slot: with it a slot takes 32 bytes.
const KEY_BYTES_MAX: usize = 22;
/// Of states that are longer, few would fit.
const STATE_WORDS_MAX: usize = 8;
const LG_SLOTS_MAX: u32 = 12;
/// Rows after which it is judged.
const SAMPLE_ROWS: u32 = 4096;
/// It is off for so many samples where less than an eighth of the rows is found.
const SAMPLES_OFF: u32 = 31;
const LG_ROWS_A_HIT: u32 = 3;
/// A key that is to stay comes soon again: let in at once, keys that do not would each make a record of a state, which is longer than
/// a row's.
const ROWS_A_TRY: u32 = 8;
const CREDIT_MAX: u8 = 3;

/// The table of one thread.
#[derive(Debug)]
pub(super) struct Front {
    slots: Vec<Slot>,
    /// As many for each slot as a state has.
    words: Vec<u64>,
    state_words: usize,
    lg_slots: u32,
    /// Rows until it is judged, or on again.
    rows_left: u32,
    hits: u32,
    misses: u32,
    is_on: bool,
    /// States here have none.
    tail: Vec<u8>,
}

/// A key whose state is here, or none.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The first bits of the hash.
    high: u64,
    /// How often others are turned away.
    credit: u8,
    key_bytes: u8,
    key: [u8; KEY_BYTES_MAX],
}

/// No key has as many bytes.
const EMPTY: Slot = Slot { high: 0, credit: 0, key_bytes: u8::MAX, key: [0; KEY_BYTES_MAX] };

impl Slot {
    #[inline(always)]
    fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key_bytes)]
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.key_bytes == u8::MAX
    }
}

/// A state that is to become a record.
#[derive(Debug)]
pub(super) struct Evicted {
    slot: Slot,
    words: [u64; STATE_WORDS_MAX],
    state_words: usize,
}

impl Evicted {
    pub(super) fn hash(&self) -> KeyHash {
        // Leaves and records go by the first bits.
        KeyHash(u128::from(self.slot.high) << 64)
    }

    pub(super) fn key(&self) -> &[u8] {
        self.slot.key()
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.state_words]
    }
}

/// What became of a row.
#[derive(Debug)]
pub(super) enum Taken {
    /// It is in a state here.
    Whole,
    /// So it is, and another state has to go.
    InPlaceOf(Evicted),
    /// It was not taken.
    No,
}

impl Front {
    /// A table of at most `memory_bytes`.
    pub(super) fn new(shape: Shape, memory_bytes: usize) -> Front {
        let slot_bytes = size_of::<Slot>() + 8 * shape.state_words;
        let slots = memory_bytes / slot_bytes;
        let is_on = !shape.has_tail && shape.state_words <= STATE_WORDS_MAX && slots > 0;
        let lg_slots = slots.max(1).ilog2().min(LG_SLOTS_MAX);
        let slots = if is_on { 1 << lg_slots } else { 0 };
        Front {
            slots: vec![EMPTY; slots],
            words: vec![0; slots * shape.state_words],
            state_words: shape.state_words,
            lg_slots,
            rows_left: if is_on { SAMPLE_ROWS } else { u32::MAX },
            hits: 0,
            misses: 0,
            is_on,
            tail: Vec::new(),
        }
    }

    /// Bytes that it keeps.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.words.capacity() * 8
    }

    /// Whether no state is here.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(Slot::is_empty)
    }

    #[inline(always)]
    fn slot_of(&self, hash: KeyHash) -> usize {
        // The last bits: the first are those of the leaf.
        hash.0 as usize & ((1usize.wrapping_shl(self.lg_slots)).wrapping_sub(1))
    }

    /// Takes a row into the state of its key, if that is to be here.
    #[inline(always)]
    pub(super) fn take<A: Aggregate>(
        &mut self,
        ground: &Ground<A>,
        hash: KeyHash,
        key: &[u8],
        row: Row<'_>,
    ) -> Taken {
        self.rows_left = self.rows_left.wrapping_sub(1);
        if self.rows_left == 0 {
            self.judge();
        }
        if self.is_on { self.take_by_slot(ground, hash, key, row) } else { Taken::No }
    }

    #[inline]
    fn take_by_slot<A: Aggregate>(
        &mut self,
        ground: &Ground<A>,
        hash: KeyHash,
        key: &[u8],
        row: Row<'_>,
    ) -> Taken {
        let at = self.slot_of(hash);
        let slot = &mut self.slots[at];
        if slot.high == hash.high() && !slot.is_empty() && slot.key() == key {
            slot.credit = slot.credit.wrapping_add(1).min(CREDIT_MAX);
            self.hits = self.hits.wrapping_add(1);
            let Front { words, tail, .. } = self;
            let words = words_of(words, at, ground.shape().state_words);
            ground.aggregate.update(StateMut { words, tail }, row);
            return Taken::Whole;
        }
        self.misses = self.misses.wrapping_add(1);
        if self.misses.is_multiple_of(ROWS_A_TRY) || slot.is_empty() {
            return self.try_begin(ground, hash, key, row);
        }
        Taken::No
    }

    /// Begins the state of a key with a row, if the key that is in its slot gives way.
    #[inline(never)]
    fn try_begin<A: Aggregate>(
        &mut self,
        ground: &Ground<A>,
        hash: KeyHash,
        key: &[u8],
        row: Row<'_>,
    ) -> Taken {
        let at = self.slot_of(hash);
        let slot = &mut self.slots[at];
        if key.len() > KEY_BYTES_MAX {
            return Taken::No;
        }
        if slot.credit > 0 {
            slot.credit -= 1;
            return Taken::No;
        }
        let old = std::mem::replace(slot, Slot { high: hash.high(), key_bytes: key.len() as u8, ..EMPTY });
        slot.key[..key.len()].copy_from_slice(key);
        let Front { words, tail, .. } = self;
        let words = words_of(words, at, ground.shape().state_words);
        let taken = if old.is_empty() { Taken::Whole } else { Taken::InPlaceOf(evicted(old, words)) };
        words.fill(0);
        ground.aggregate.start(StateMut { words, tail });
        ground.aggregate.update(StateMut { words, tail }, row);
        taken
    }

    /// Decides whether it is on for the next rows.
    #[cold]
    fn judge(&mut self) {
        let is_worth = !self.is_on || self.hits >> (SAMPLE_ROWS.ilog2() - LG_ROWS_A_HIT) > 0;
        self.is_on = is_worth && !self.slots.is_empty();
        self.rows_left = if self.is_on { SAMPLE_ROWS } else { SAMPLE_ROWS * SAMPLES_OFF };
        self.hits = 0;
    }

    /// The words of a key's state, if it is here.
    pub(super) fn get(&self, hash: KeyHash, key: &[u8]) -> Option<&[u64]> {
        let at = self.slot_of(hash);
        let slot = self.slots.get(at)?;
        let is_here = slot.high == hash.high() && !slot.is_empty() && slot.key() == key;
        is_here.then(|| &self.words[at * self.state_words..(at + 1) * self.state_words])
    }

    /// Takes a state out, from slot `at` on, and says which is the next slot; `None` if there is none.
    pub(super) fn take_next(&mut self, at: usize) -> Option<(Evicted, usize)> {
        let at = at + self.slots.get(at..)?.iter().position(|slot| !slot.is_empty())?;
        let old = std::mem::replace(&mut self.slots[at], EMPTY);
        Some((evicted(old, words_of(&mut self.words, at, self.state_words)), at + 1))
    }
}

/// The words of a slot.
#[inline(always)]
fn words_of(words: &mut [u64], slot: usize, state_words: usize) -> &mut [u64] {
    let begin = slot.wrapping_mul(state_words);
    &mut words[begin..begin.wrapping_add(state_words)]
}

#[inline]
fn evicted(slot: Slot, words: &[u64]) -> Evicted {
    let mut evicted = Evicted { slot, words: [0; STATE_WORDS_MAX], state_words: words.len() };
    evicted.words[..words.len()].copy_from_slice(words);
    evicted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::group::GroupHasher;
    use crate::aggregate::{Count, GroupsOptions};
    use crate::{HashKind, KeyHasher, Seed};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn ground() -> Ground<Count> {
        let hasher = GroupHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(3)), 0);
        Ground::new(Arc::new(Count), hasher, &GroupsOptions::new().shares().unwrap()).unwrap()
    }

    fn front(slots: usize) -> Front {
        Front::new(Shape::of(&Count), slots * 40)
    }

    fn take(front: &mut Front, ground: &Ground<Count>, key: &[u8]) -> Taken {
        front.take(ground, ground.hasher.hash(key), key, Row::default())
    }

    proptest! {
        /// What is here, what had to go and what was not taken are all rows together.
        #[test]
        fn no_row_is_lost(rows in prop::collection::vec(0u32..60, 0..3000), slots in 1usize..20) {
            let (ground, mut front) = (ground(), front(slots));
            let (mut expected, mut found) = (BTreeMap::new(), BTreeMap::new());
            for (i, row) in rows.iter().enumerate() {
                // Also keys that are too long for a slot.
                let key = if row % 7 == 0 { vec![*row as u8; 23] } else { vec![*row as u8; *row as usize % 23] };
                *expected.entry(key.clone()).or_insert(0) += 1u64;
                match take(&mut front, &ground, &key) {
                    Taken::Whole => {}
                    Taken::InPlaceOf(other) => *found.entry(other.key().to_vec()).or_insert(0) += other.words()[0],
                    Taken::No => *found.entry(key.clone()).or_insert(0) += 1,
                }
                if i % 100 == 0 {
                    let here = front.get(ground.hasher.hash(&key), &key).map_or(0, |words| words[0]);
                    let elsewhere = found.get(&key).copied().unwrap_or(0);
                    prop_assert_eq!(here + elsewhere, expected[&key]);
                }
            }
            let mut at = 0;
            while let Some((other, next)) = front.take_next(at) {
                prop_assert_eq!(other.hash().high(), ground.hasher.hash(other.key()).high());
                *found.entry(other.key().to_vec()).or_insert(0) += other.words()[0];
                at = next;
            }
            prop_assert_eq!(found, expected);
            prop_assert!(front.slots.iter().all(Slot::is_empty));
        }
    }

    #[test]
    fn it_is_off_where_no_key_comes_again_and_on_where_some_do() {
        let (ground, mut front) = (ground(), front(256));
        for i in 0..50_000u32 {
            let _ = take(&mut front, &ground, &i.to_le_bytes());
        }
        assert!(!front.is_on);
        for i in 0..200_000u32 {
            let _ = take(&mut front, &ground, &(i % 100).to_le_bytes());
        }
        assert!(front.is_on);
        let recorded =
            (0..1000u32).filter(|i| matches!(take(&mut front, &ground, &(i % 100).to_le_bytes()), Taken::No));
        assert!(recorded.count() < 500);
    }

    #[test]
    fn without_memory_for_a_slot_it_is_always_off() {
        let (ground, mut front) = (ground(), front(0));
        let taken = (0..300_000u32).filter(|i| !matches!(take(&mut front, &ground, &[*i as u8]), Taken::No));
        assert_eq!((taken.count(), front.memory_bytes()), (0, 0));
    }
}
