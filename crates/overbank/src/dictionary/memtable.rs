//! The newest items, as they come.
//!
//! ```text
//!   parts     by the first bits of the hash, so that what is sorted together lies together
//!   arena     │ item │ item │ …     one piece of memory a part
//!   index     hash ─▶ item          made by the first question
//! ```
//!
//! Who only writes pays for a hash and a copy: nothing is known of an item but where it lies, until a flush or a reader sorts its part.
//!
//! Invariant: with an index, each key has one item that is not dead: what is written meets what it changes at once.

use super::arena::{HEAD_BYTES_MAX, bury, for_each_key, item_at, make_put, push_item};
use super::frozen::Frozen;
use super::item::{Item, Value};
use super::operator::{Combined, combine};
use super::rules::Rules;
use super::window::{Row, Window};
use crate::KeyHash;
use std::sync::Arc;

/// What an item costs beside its bytes when a reader had it sorted, and the least that it counts for: what sorts it takes twice that.
const MARK_BYTES: usize = 2;
const LONG_MARK_BYTES: usize = 16;
const LONG_BYTES: usize = 256;
const ITEM_BYTES_MIN: usize = 16;
/// Slots of the index an item, at least.
const INDEX_SLACK: usize = 2;

/// A part takes about so much when it is frozen: those of some memtables are then sorted in a core's second cache.
const PART_BYTES: usize = 128 << 10;
const LG_PARTS_MAX: u32 = 8;
/// A larger one has parts of so many bytes at most: what sorts those of all memtables takes memory.
const PART_BYTES_MAX: usize = 1 << 20;
const LG_PARTS_MOST: u32 = 10;
/// Bytes that a part takes with its first item.
const PART_BYTES_FIRST: usize = 4 << 10;
/// Less is frozen in one part.
const PARTED_BYTES_MIN: usize = 64 << 10;
/// So many times the items that the shortest ones would fill a part with, and keys have come many times each.
const CROWDED: usize = 2;

/// The newest items.
#[derive(Debug)]
pub(super) struct Memtable {
    rules: Rules,
    /// By the first bits of the hash.
    parts: Vec<Part>,
    lg_parts: u32,
    /// Bytes of a part of a full one.
    part_bytes: usize,
    items: usize,
    tombstones: u64,
    bytes: usize,
    longest: usize,
}

/// Items in the order in which they came.
#[derive(Debug, Default)]
struct Part {
    arena: Vec<u8>,
    /// Places in the arena, and 1; 0 where there is none. Its length is a power of 2, or 0 where nobody asked.
    index: Vec<u32>,
    items: usize,
    /// What they count for, and with how many each key is to be left once.
    bytes: usize,
    crowded_at: usize,
    scratch: Vec<u8>,
}

impl Memtable {
    /// An empty one, that will be frozen when it takes so many bytes.
    pub(super) fn new(frozen_at_bytes: usize, rules: Rules) -> Self {
        let lg = |parts: usize, most: u32| parts.checked_ilog2().unwrap_or(0).min(most);
        let lg_parts = lg(frozen_at_bytes / PART_BYTES, LG_PARTS_MAX)
            .max(lg(frozen_at_bytes / PART_BYTES_MAX, LG_PARTS_MOST));
        let part_bytes = frozen_at_bytes >> lg_parts;
        let mut memtable = Memtable {
            rules,
            parts: Vec::new(),
            lg_parts,
            part_bytes,
            items: 0,
            tombstones: 0,
            bytes: 0,
            longest: 0,
        };
        memtable.empty();
        memtable
    }

    fn empty(&mut self) {
        let crowded_at = self.crowded_at();
        self.parts.clear();
        self.parts.resize_with(1 << self.lg_parts, || Part { crowded_at, ..Part::default() });
        (self.items, self.tombstones, self.bytes, self.longest) = (0, 0, 0, 0);
    }

    fn crowded_at(&self) -> usize {
        (self.part_bytes / ITEM_BYTES_MIN * CROWDED).max(1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Items, those that met newer ones among them.
    pub(super) fn len(&self) -> usize {
        self.items
    }

    /// Whether it has items, and would take more than so many bytes with another one.
    #[inline]
    pub(super) fn is_full_for(&self, item: &Item<'_>, bytes_max: usize) -> bool {
        let bytes = bytes_of(item.key.len() + item.value.bytes().len() + HEAD_BYTES_MAX);
        self.bytes + bytes > bytes_max && !self.is_empty()
    }

    /// RAM that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    fn part_of(&self, hash: KeyHash) -> usize {
        // Two shifts, for a shift by 64 is none.
        (hash.high() >> 1 >> (63 - self.lg_parts)) as usize
    }

    /// Adds an item that is newer than all others.
    #[inline]
    pub(super) fn push(&mut self, item: Item<'_>) {
        let at = self.part_of(item.hash);
        let part = &mut self.parts[at];
        let before = part.memory_bytes();
        part.push(item, self.part_bytes, &self.rules);
        self.items += 1;
        if part.items > part.crowded_at {
            part.leave_each_key_once(&self.rules, self.lg_parts);
        }
        self.tombstones += u64::from(matches!(item.value, Value::Deleted));
        self.longest = self.longest.max(item.key.len() + item.value.bytes().len());
        self.bytes = self.bytes - before + self.parts[at].memory_bytes();
    }

    /// What is known of a key here.
    pub(super) fn get(&mut self, hash: KeyHash, key: &[u8]) -> Option<Value<'_>> {
        let at = self.part_of(hash);
        let part = &mut self.parts[at];
        let before = part.memory_bytes();
        part.prepare(&self.rules);
        self.bytes += part.memory_bytes() - before;
        self.parts[at].get(hash, key)
    }

    /// Takes all items out, for those who sort them, and leaves it empty.
    pub(super) fn freeze(&mut self) -> Frozen {
        let items: u64 = self.parts.iter().map(|part| part.items as u64).sum();
        let counts = (items, self.tombstones.min(items));
        let sizes = (self.parts.iter().map(|part| part.bytes).sum(), self.longest);
        let arena_bytes: usize = self.parts.iter().map(|part| part.arena.len()).sum();
        let mut arenas: Vec<Vec<u8>> =
            self.parts.iter_mut().map(|part| std::mem::take(&mut part.arena)).collect();
        if arena_bytes < PARTED_BYTES_MIN {
            arenas = vec![arenas.concat()];
        }
        arenas.iter_mut().for_each(Vec::shrink_to_fit);
        self.empty();
        Frozen::new(&self.rules, arenas, counts, sizes)
    }
}

impl Part {
    fn memory_bytes(&self) -> usize {
        self.bytes + self.index.len() * size_of::<u32>()
    }

    /// Adds an item to a part that is to become `full_bytes` long.
    #[inline]
    fn push(&mut self, item: Item<'_>, full_bytes: usize, rules: &Rules) {
        if self.arena.capacity() - self.arena.len()
            < item.key.len() + item.value.bytes().len() + HEAD_BYTES_MAX
        {
            self.grow(full_bytes);
        }
        let place = push_item(&mut self.arena, item.key, item.value);
        self.bytes += bytes_of(self.arena.len() - place as usize);
        self.items += 1;
        if !self.index.is_empty() {
            if self.items * INDEX_SLACK > self.index.len() {
                self.make_index(rules);
            } else {
                self.link(place, item.hash, rules);
            }
        }
    }

    /// Takes memory for all that is to come, once there is something; what comes more, the arena grows for by itself.
    #[cold]
    fn grow(&mut self, full_bytes: usize) {
        // Parts differ; with a sixteenth more few of them have to be copied.
        let full_bytes = full_bytes + full_bytes / 16;
        let wanted = if self.arena.is_empty() { full_bytes.min(PART_BYTES_FIRST) } else { full_bytes };
        self.arena.reserve_exact(wanted.saturating_sub(self.arena.len()));
    }

    /// Makes the index, if there is none.
    fn prepare(&mut self, rules: &Rules) {
        if self.index.is_empty() && !self.arena.is_empty() {
            self.make_index(rules);
        }
    }

    /// What is known of a key here; [`Part::prepare`] was called.
    fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Value<'_>> {
        if self.arena.is_empty() {
            return None;
        }
        let place = self.index[self.slot_of(hash, key)].checked_sub(1)?;
        Some(item_at(&self.arena, place.into()).1)
    }

    /// Makes the index anew, with room for as many items again.
    fn make_index(&mut self, rules: &Rules) {
        self.index.clear();
        self.index.resize((self.items * INDEX_SLACK * 2).next_power_of_two().max(64), 0);
        let mut keys = Vec::with_capacity(self.items);
        for_each_key(&self.arena, 0..self.arena.len(), |key, place| {
            keys.push((rules.hasher.hash(key), place))
        });
        for (hash, place) in keys {
            self.link(place, hash, rules);
        }
    }

    /// Puts an item into the index, where it meets an older one of its key.
    fn link(&mut self, place: u64, hash: KeyHash, rules: &Rules) {
        let slot = self.slot_of(hash, item_at(&self.arena, place).0);
        let older = self.index[slot].checked_sub(1);
        let place = older.map_or(place, |older| self.resolve(older.into(), place, rules));
        self.index[slot] = place as u32 + 1;
    }

    /// The slot of the index that has a key's item, or is to have it.
    fn slot_of(&self, hash: KeyHash, key: &[u8]) -> usize {
        let mask = self.index.len() - 1;
        // The last bits: those before are alike in a shard.
        let mut slot = hash.low() as usize & mask;
        loop {
            let Some(place) = self.index[slot].checked_sub(1) else { return slot };
            if item_at(&self.arena, place.into()).0 == key {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The place of what an older and a newer item of one key come to; nothing else is left of them.
    fn resolve(&mut self, older: u64, newer: u64, rules: &Rules) -> u64 {
        let (arena, scratch) = (&mut self.arena, &mut self.scratch);
        let (key, newer_value) = item_at(arena, newer);
        let combined = combine(rules.operator, item_at(arena, older).1, newer_value, scratch);
        let value = match combined {
            Combined::Older => {
                bury(arena, newer);
                return older;
            }
            Combined::Newer | Combined::NewerAsPut => {
                bury(arena, older);
                if combined == Combined::NewerAsPut {
                    make_put(arena, newer);
                }
                return newer;
            }
            Combined::Put => Value::Put(scratch),
            Combined::Operand => Value::Operand(scratch),
        };
        let key = key.to_vec();
        bury(arena, older);
        bury(arena, newer);
        let place = push_item(arena, &key, value);
        self.bytes += bytes_of(self.arena.len() - place as usize);
        place
    }

    /// Has one item left of each key.
    #[cold]
    fn leave_each_key_once(&mut self, rules: &Rules, skip_bits: u32) {
        let arena = Arc::new(std::mem::take(&mut self.arena));
        let mut window = Window::new(rules);
        let row = Row { bytes: 0..arena.len(), arena };
        window.fill(std::iter::once(row), &(0..=u64::MAX), skip_bits);
        (self.items, self.bytes) = (0, 0);
        self.index = Vec::new();
        while window.advance() {
            let item = window.item();
            let place = push_item(&mut self.arena, item.key, item.value);
            self.bytes += bytes_of(self.arena.len() - place as usize);
            self.items += 1;
        }
        window.finish();
        self.crowded_at = self.crowded_at.max(2 * self.items);
    }
}

/// What an item of so many bytes counts for.
fn bytes_of(item_bytes: usize) -> usize {
    let mark_bytes = if item_bytes > LONG_BYTES { LONG_MARK_BYTES } else { MARK_BYTES };
    (item_bytes + mark_bytes).max(ITEM_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::super::frozen::FrozenMerger;
    use super::super::item::ItemHasher;
    use super::super::operator::{MergeOperator, Numbers};
    use super::*;
    use crate::{HashKind, KeyHasher, Seed};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_memtable_is_a_map(
            steps in prop::collection::vec((0u8..6, 0u16..40, prop::collection::vec(any::<u8>(), 0..300)), 0..300),
            has_operator: bool,
            // Hashes of two bits: most keys share all of theirs with others.
            is_narrow: bool,
            parts in 0usize..9,
        ) {
            let mask = if is_narrow { 1 << 90 | 1 << 20 } else { u128::MAX };
            let hasher = ItemHasher::masked(KeyHasher::new(HashKind::Xxh3, Seed(3)), mask);
            let operator = has_operator.then_some(MergeOperator::Append);
            let rules = Rules::new(hasher, operator);
            let mut memtable = Memtable::new(parts << 17, rules.clone());
            let mut model: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
            for (kind, key, bytes) in steps {
                let key = format!("{key:0width$}", width = key as usize * 10).into_bytes();
                let value = match (kind, has_operator) {
                    (0, _) => Value::Put(&bytes),
                    (1, false) => Value::IfAbsent(&bytes),
                    (1 | 2, true) => Value::Operand(&bytes),
                    (3, _) => Value::Deleted,
                    _ => {
                        let found = memtable.get(hasher.hash(&key), &key);
                        let found = found.map(|value| match value.as_put() { Value::Put(bytes) => Some(bytes.to_vec()), _ => None });
                        prop_assert_eq!(found, model.get(&key).cloned());
                        continue;
                    }
                };
                memtable.push(Item { hash: hasher.hash(&key), key: &key, value });
                let before = model.get(&key).cloned().flatten();
                let now = match value {
                    Value::Put(bytes) => Some(bytes.to_vec()),
                    Value::IfAbsent(bytes) => before.or_else(|| Some(bytes.to_vec())),
                    Value::Operand(bytes) => Some([before.unwrap_or_default(), bytes.to_vec()].concat()),
                    Value::Deleted => None,
                };
                model.insert(key, now);
            }
            let frozen = Arc::new(memtable.freeze());
            prop_assert!(memtable.is_empty());
            prop_assert!(frozen.len() >= model.len() as u64 && frozen.tombstones() <= frozen.len());
            let mut merger = FrozenMerger::new(vec![frozen], &rules, &(0..=u64::MAX), true);
            let mut found = BTreeMap::new();
            while let Some(item) = merger.next_item() {
                found.insert(item.key.to_vec(), item.value.bytes().to_vec());
            }
            model.retain(|_, value| value.is_some());
            prop_assert_eq!(found, model.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect());
        }
    }

    /// One key that comes again and again takes no more than a few.
    #[test]
    fn a_crowded_part_has_each_key_once() {
        let hasher = ItemHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(3)));
        let rules = Rules::new(hasher, Some(MergeOperator::Sum(Numbers::Text)));
        let mut memtable = Memtable::new(1 << 20, rules);
        for number in 0..200_000u64 {
            let key = if number % 2 == 0 { number.to_le_bytes() } else { *b"everyone" };
            memtable.push(Item { hash: hasher.hash(&key), key: &key, value: Value::Operand(b"1") });
            if number == 150_000 {
                let found = memtable.get(hasher.hash(b"everyone"), b"everyone");
                assert_eq!(found, Some(Value::Operand(b"75000")));
            }
        }
        assert_eq!(memtable.len(), 200_000);
        let frozen = memtable.freeze();
        assert!(frozen.len() < 140_000, "{}", frozen.len());
        assert_eq!(frozen.get(hasher.hash(b"everyone"), b"everyone"), Some(Value::Operand(b"100000")));
    }

    #[test]
    fn keys_that_repeat_are_counted() {
        let hasher = ItemHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(3)));
        let rules = Rules::new(hasher, None);
        let mut memtable = Memtable::new(4096, rules.clone());
        rules.count_repeats();
        for (key, value) in [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"4")] {
            let item = Item { hash: hasher.hash(key), key, value: Value::Put(value) };
            memtable.push(item);
        }
        let frozen = memtable.freeze();
        assert_eq!(frozen.get(hasher.hash(b"a"), b"a"), Some(Value::Put(b"4")));
        let repeats = rules.take_repeats().unwrap();
        assert_eq!((repeats.count, repeats.example.as_deref()), (2, Some(&b"a"[..])));
    }
}
