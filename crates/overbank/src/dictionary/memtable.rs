//! The newest items, in the order in which they came, and, frozen, in hash order.
//!
//! ```text
//!   parts     by the first bits of the hash, so that what is sorted together lies together
//!   arena     │ kind │ key's length │ value's length │ key │ value │ kind │ …        one piece of memory a part, items as they came
//!   entries   │ hash, place in the arena │ …                                           16 bytes an item: what is sorted
//!   index     hash ─▶ entry                                                            made by the first question
//!
//!   frozen    one arena, items in order
//! ```
//!
//! Invariants:
//! 1. With an index, each key has one entry that is not dead: what is written meets what it changes at once.
//! 2. A frozen memtable has each key once, in the order of (hash, key).

use super::item::{Item, ItemHasher, Value};
use super::operator::{Combined, MergeOperator, combine, combine_more};
use super::run::Expected;
use crate::KeyHash;
use crate::batch::Sorter;
use std::ops::RangeInclusive;

/// The place of an entry whose item met a newer one.
const DEAD: u64 = u64::MAX;
/// Bits of a place in an arena.
const PLACE_BITS: u32 = 40;
/// Items that are longer on average than this many bytes stay where they are.
const GATHERED_BYTES_MAX: usize = 256;
/// Bytes of an entry; the room to sort it in is that of one part.
const ENTRY_BYTES: usize = size_of::<[u64; 2]>();
/// Slots of the index an entry, at least.
const INDEX_SLACK: usize = 2;

/// A part is about so long when it is frozen: its sort and its gathering then stay in the second-level cache and its translations.
const PART_BYTES: usize = 1 << 20;
const LG_PARTS_MAX: u32 = 8;

/// The newest items.
#[derive(Debug)]
pub(super) struct Memtable {
    /// By the first bits of the hash.
    parts: Vec<Part>,
    lg_parts: u32,
    items: usize,
    bytes: usize,
}

/// Items in the order in which they came.
#[derive(Debug, Default)]
struct Part {
    arena: Vec<u8>,
    entries: Vec<[u64; 2]>,
    /// Places in `entries`, less 1; 0 where there is none. Its length is a power of 2, or 0 where nobody asked.
    index: Vec<u32>,
    scratch: Vec<u8>,
}

/// Items in the order of their hashes and keys, each key once.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    /// One whose items are in order, or those of the parts, where to gather long items would cost more than it saves.
    arenas: Vec<Vec<u8>>,
    /// A place is the arena's number above the place in it.
    entries: Vec<[u64; 2]>,
    tombstones: u64,
    longest: usize,
}

/// A key that was written twice while somebody counted that.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    pub(super) count: u64,
    pub(super) example: Option<Vec<u8>>,
}

impl Repeats {
    pub(super) fn note(&mut self, key: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| key.to_vec());
    }

    pub(super) fn add(&mut self, other: Repeats) {
        self.count += other.count;
        self.example = self.example.take().or(other.example);
    }
}

impl Memtable {
    /// An empty one, that will be frozen when it takes so many bytes.
    pub(super) fn new(frozen_at_bytes: usize) -> Self {
        let lg_parts = (frozen_at_bytes / PART_BYTES).checked_ilog2().unwrap_or(0).min(LG_PARTS_MAX);
        let mut parts = Vec::new();
        parts.resize_with(1 << lg_parts, Part::default);
        Memtable { parts, lg_parts, items: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Items, those that met newer ones among them.
    pub(super) fn len(&self) -> usize {
        self.items
    }

    /// RAM that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    fn part_of(&mut self, hash: KeyHash) -> &mut Part {
        // Two shifts, for a shift by 64 is none.
        &mut self.parts[(hash.high() >> 1 >> (63 - self.lg_parts)) as usize]
    }

    /// Adds an item that is newer than all others.
    #[inline]
    pub(super) fn push(&mut self, item: Item<'_>, hasher: &ItemHasher, operator: Option<MergeOperator>) {
        let part = self.part_of(item.hash);
        let before = part.memory_bytes();
        part.push(item, hasher, operator);
        let grown = part.memory_bytes() - before;
        self.bytes += grown;
        self.items += 1;
    }

    /// What is known of a key here.
    pub(super) fn get(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        hasher: &ItemHasher,
        operator: Option<MergeOperator>,
    ) -> Option<Value<'_>> {
        let part = self.part_of(hash);
        let before = part.memory_bytes();
        part.prepare(hasher, operator);
        let grown = part.memory_bytes() - before;
        self.bytes += grown;
        self.part_of(hash).get(hash, key)
    }

    /// Sorts it, and leaves an empty one; keys that were written several times are told to `repeats`.
    pub(super) fn freeze(
        &mut self,
        hasher: &ItemHasher,
        operator: Option<MergeOperator>,
        mut repeats: Option<&mut Repeats>,
    ) -> Frozen {
        let mut frozen = Frozen::builder();
        let arena_bytes: usize = self.parts.iter().map(|part| part.arena.len()).sum();
        let is_gathered = arena_bytes <= self.items * GATHERED_BYTES_MAX;
        frozen.reserve(if is_gathered { arena_bytes } else { 0 }, self.items);
        let (mut sorter, mut scratch) = (Sorter::new(), Vec::new());
        for part in &mut self.parts {
            // Its memory is free for the next items while those of the next part are gathered.
            let part = std::mem::take(part);
            let sorted = part.sorted(&mut sorter, &mut scratch, hasher, operator, repeats.as_deref_mut());
            frozen.append(sorted, is_gathered);
        }
        (self.items, self.bytes) = (0, 0);
        frozen.finish()
    }
}

impl Part {
    fn memory_bytes(&self) -> usize {
        self.arena.len() + self.entries.len() * ENTRY_BYTES + self.index.len() * 4
    }

    #[inline]
    fn push(&mut self, item: Item<'_>, hasher: &ItemHasher, operator: Option<MergeOperator>) {
        let place = push_item(&mut self.arena, item.key, item.value);
        self.entries.push([item.hash.high(), place]);
        if !self.index.is_empty() {
            if self.entries.len() * INDEX_SLACK > self.index.len() {
                self.make_index(hasher, operator);
            } else {
                self.link(self.entries.len() - 1, item.hash, operator);
            }
        }
    }

    /// Makes the index, if there is none.
    fn prepare(&mut self, hasher: &ItemHasher, operator: Option<MergeOperator>) {
        if self.index.is_empty() && !self.entries.is_empty() {
            self.make_index(hasher, operator);
        }
    }

    /// What is known of a key here; [`Part::prepare`] was called.
    fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Value<'_>> {
        if self.entries.is_empty() {
            return None;
        }
        let entry = (self.index[self.slot_of(hash, key)] as usize).checked_sub(1)?;
        Some(item_at(&self.arena, self.entries[entry][1]).1)
    }

    /// Makes the index anew, with room for as many entries again.
    fn make_index(&mut self, hasher: &ItemHasher, operator: Option<MergeOperator>) {
        self.index.clear();
        self.index.resize((self.entries.len() * INDEX_SLACK * 2).next_power_of_two().max(64), 0);
        for at in 0..self.entries.len() {
            let place = self.entries[at][1];
            if place != DEAD {
                self.link(at, hasher.hash(item_at(&self.arena, place).0), operator);
            }
        }
    }

    /// Puts an entry into the index, where it meets an older one of its key.
    fn link(&mut self, at: usize, hash: KeyHash, operator: Option<MergeOperator>) {
        let place = self.entries[at][1];
        let slot = self.slot_of(hash, item_at(&self.arena, place).0);
        if let Some(older) = (self.index[slot] as usize).checked_sub(1) {
            let older = std::mem::replace(&mut self.entries[older][1], DEAD);
            let newer = std::iter::once(place);
            self.entries[at][1] = resolve_all(&mut self.arena, older, newer, operator, &mut self.scratch);
        }
        self.index[slot] = at as u32 + 1;
    }

    /// The slot of the index that has a key's entry, or is to have it.
    fn slot_of(&self, hash: KeyHash, key: &[u8]) -> usize {
        let mask = self.index.len() - 1;
        // The last bits: those before are alike in a shard.
        let mut slot = hash.low() as usize & mask;
        loop {
            let Some(entry) = (self.index[slot] as usize).checked_sub(1) else { return slot };
            let [high, place] = self.entries[entry];
            if high == hash.high() && item_at(&self.arena, place).0 == key {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Sorts its items, each key once; where they lie stays as it is.
    fn sorted(
        self,
        sorter: &mut Sorter<[u64; 2]>,
        sorted: &mut Vec<[u64; 2]>,
        hasher: &ItemHasher,
        operator: Option<MergeOperator>,
        mut repeats: Option<&mut Repeats>,
    ) -> Part {
        let Part { mut arena, mut entries, .. } = self;
        entries.retain(|entry| entry[1] != DEAD);
        sorter.sort(&mut entries, sorted);
        let mut kept = 0;
        let mut from = 0;
        let mut scratch = Vec::new();
        while from < entries.len() {
            let high = entries[from][0];
            let mut to = from + 1;
            while to < entries.len() && entries[to][0] == high {
                to += 1;
            }
            if to - from > 1 {
                let order = |entry: &[u64; 2]| {
                    let key = item_at(&arena, entry[1]).0;
                    (hasher.hash(key).low(), key)
                };
                // Stable: of one key, the oldest stays first.
                entries[from..to].sort_by(|a, b| order(a).cmp(&order(b)));
            }
            while from < to {
                let first = entries[from][1];
                let key = item_at(&arena, first).0;
                let is_same = |entry: &&[u64; 2]| item_at(&arena, entry[1]).0 == key;
                let behind = from + 1 + entries[from + 1..to].iter().take_while(is_same).count();
                if let Some(repeats) = &mut repeats {
                    (from + 1..behind).for_each(|_| repeats.note(key));
                }
                let newer = entries[from + 1..behind].iter().map(|entry| entry[1]);
                let place = resolve_all(&mut arena, first, newer, operator, &mut scratch);
                entries[kept] = [high, place];
                (kept, from) = (kept + 1, behind);
            }
        }
        entries.truncate(kept);
        Part { arena, entries, ..Part::default() }
    }
}

impl Frozen {
    /// An empty one, to be filled in order.
    pub(super) fn builder() -> FrozenBuilder {
        FrozenBuilder(Frozen::default())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// Bytes of the longest key with its value.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    #[inline]
    fn count(&mut self, key: &[u8], value: Value<'_>) {
        self.tombstones += u64::from(matches!(value, Value::Deleted));
        self.longest = self.longest.max(key.len() + value.bytes().len());
    }

    /// RAM that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.arena_bytes() + self.entries.len() * ENTRY_BYTES
    }

    fn arena_bytes(&self) -> usize {
        self.arenas.iter().map(Vec::len).sum()
    }

    /// The key and value of an entry.
    #[inline]
    fn at(&self, entry: &[u64; 2]) -> (&[u8], Value<'_>) {
        let [_, place] = *entry;
        item_at(&self.arenas[(place >> PLACE_BITS) as usize], place & ((1 << PLACE_BITS) - 1))
    }

    /// How many items, of how many bytes, are in a range of hashes, about.
    pub(super) fn expected(&self, range: &RangeInclusive<u64>) -> Expected {
        let items = self.range(range).len();
        let bytes = self.arena_bytes() as u128 * items as u128 / self.len().max(1) as u128;
        Expected { items: items as u64, bytes: bytes as u64 }
    }

    /// The entries whose hashes begin as the range says.
    pub(super) fn range(&self, range: &RangeInclusive<u64>) -> std::ops::Range<usize> {
        let start = self.entries.partition_point(|entry| entry[0] < *range.start());
        let end = self.entries.partition_point(|entry| entry[0] <= *range.end());
        start..end.max(start)
    }

    /// The `at`-th item.
    #[inline]
    pub(super) fn item(&self, at: usize, hasher: &ItemHasher) -> Item<'_> {
        let (key, value) = self.at(&self.entries[at]);
        Item { hash: hasher.hash(key), key, value }
    }

    /// The `at`-th item, whose hash is known.
    #[inline]
    pub(super) fn item_of(&self, at: usize, hash: KeyHash) -> Item<'_> {
        let (key, value) = self.at(&self.entries[at]);
        Item { hash, key, value }
    }

    /// What is known of a key here.
    pub(super) fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Value<'_>> {
        let high = hash.high();
        let from = self.first_not_below(high);
        let alike = self.entries[from..].iter().take_while(|entry| entry[0] == high);
        alike.map(|entry| self.at(entry)).find(|item| item.0 == key).map(|item| item.1)
    }

    /// The first entry whose hash begins with `high` or what is above: hashes are spread evenly, so it is near where its share says.
    fn first_not_below(&self, high: u64) -> usize {
        let entries = &self.entries;
        let guess = ((u128::from(high) * entries.len() as u128) >> 64) as usize;
        // Twice as far each time, on the side that it is on.
        let (mut from, mut to, mut step) = (guess, guess, 16);
        while from > 0 && entries[from - 1][0] >= high {
            (to, from, step) = (from, from.saturating_sub(step), step * 2);
        }
        step = 16;
        while to < entries.len() && entries[to][0] < high {
            (from, to, step) = (to, (to + step).min(entries.len()), step * 2);
        }
        from + entries[from..to].partition_point(|entry| entry[0] < high)
    }
}

/// A frozen memtable that is filled in order.
#[derive(Debug)]
pub(super) struct FrozenBuilder(Frozen);

impl FrozenBuilder {
    /// Takes room for so many items, of so many bytes in an arena.
    fn reserve(&mut self, arena_bytes: usize, items: usize) {
        self.0.arenas = vec![Vec::with_capacity(arena_bytes)];
        self.0.entries.reserve_exact(items);
    }

    /// Adds the items of a part that was sorted: gathered, or as they lie there.
    fn append(&mut self, part: Part, is_gathered: bool) {
        let Part { mut arena, entries, .. } = part;
        if is_gathered {
            for [high, place] in entries {
                let (key, value) = item_at(&arena, place);
                self.push(Item { hash: KeyHash::new(high, 0), key, value });
            }
            return;
        }
        let number = (self.0.arenas.len() as u64) << PLACE_BITS;
        for [high, place] in entries {
            let (key, value) = item_at(&arena, place);
            self.0.count(key, value);
            self.0.entries.push([high, number | place]);
        }
        arena.shrink_to_fit();
        self.0.arenas.push(arena);
    }

    /// Adds an item whose hash and key are above those before; only the first 64 bits of the hash are of interest.
    #[inline]
    pub(super) fn push(&mut self, item: Item<'_>) {
        if self.0.arenas.is_empty() {
            self.0.arenas.push(Vec::new());
        }
        let place = push_item(&mut self.0.arenas[0], item.key, item.value);
        self.0.entries.push([item.hash.high(), place]);
        self.0.count(item.key, item.value);
    }

    pub(super) fn finish(self) -> Frozen {
        let FrozenBuilder(mut frozen) = self;
        // What is not used goes back, without a copy where the allocator cuts pieces off.
        frozen.arenas.iter_mut().for_each(Vec::shrink_to_fit);
        frozen.entries.shrink_to_fit();
        frozen
    }
}

/// The value of an item that only fills a gap, or of an operand, where nothing is older.
pub(super) fn as_put(value: Value<'_>) -> Value<'_> {
    match value {
        Value::IfAbsent(bytes) | Value::Operand(bytes) => Value::Put(bytes),
        value => value,
    }
}

/// The place of what an item and newer ones of its key come to.
fn resolve_all(
    arena: &mut Vec<u8>,
    first: u64,
    newer: impl Iterator<Item = u64>,
    operator: Option<MergeOperator>,
    scratch: &mut Vec<u8>,
) -> u64 {
    // While `scratch` has what they came to so far, the place is an older one's.
    let (mut place, mut so_far) = (first, Combined::Older);
    for at in newer {
        let value = item_at(arena, at).1;
        so_far = match so_far {
            Combined::Put | Combined::Operand => combine_more(operator, so_far, value, scratch),
            _ => combine(operator, item_at(arena, place).1, value, scratch),
        };
        match so_far {
            Combined::Newer => place = at,
            Combined::NewerAsPut => {
                arena[at as usize] = Value::Put(&[]).code();
                place = at;
            }
            Combined::Older | Combined::Put | Combined::Operand => {}
        }
    }
    let value = match so_far {
        Combined::Put => Value::Put(scratch),
        Combined::Operand => Value::Operand(scratch),
        Combined::Older | Combined::Newer | Combined::NewerAsPut => return place,
    };
    let key = item_at(arena, first).0.to_vec();
    push_item(arena, &key, value)
}

/// Writes an item behind the others; its place.
#[inline]
fn push_item(arena: &mut Vec<u8>, key: &[u8], value: Value<'_>) -> u64 {
    let place = arena.len() as u64;
    let bytes = value.bytes();
    arena.push(value.code());
    push_length(arena, key.len());
    push_length(arena, bytes.len());
    arena.extend_from_slice(key);
    arena.extend_from_slice(bytes);
    place
}

/// The item at a place.
#[inline]
fn item_at(arena: &[u8], place: u64) -> (&[u8], Value<'_>) {
    let mut at = place as usize;
    let code = arena[at];
    at += 1;
    let key_bytes = read_length(arena, &mut at);
    let value_bytes = read_length(arena, &mut at);
    let (key, rest) = arena[at..].split_at(key_bytes);
    let bytes = &rest[..value_bytes];
    let value = match code {
        0 => Value::Put(bytes),
        1 => Value::IfAbsent(bytes),
        2 => Value::Operand(bytes),
        _ => Value::Deleted,
    };
    (key, value)
}

/// Seven bits a byte, the last ones first.
#[inline]
fn push_length(arena: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        arena.push(length as u8 | 0x80);
        length >>= 7;
    }
    arena.push(length as u8);
}

#[inline]
fn read_length(arena: &[u8], at: &mut usize) -> usize {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = arena[*at];
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return length;
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
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
            let mut memtable = Memtable::new(parts << 20);
            let mut model: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
            for (kind, key, bytes) in steps {
                let key = format!("{key:0width$}", width = key as usize * 10).into_bytes();
                let value = match (kind, has_operator) {
                    (0, _) => Value::Put(&bytes),
                    (1, false) => Value::IfAbsent(&bytes),
                    (1 | 2, true) => Value::Operand(&bytes),
                    (3, _) => Value::Deleted,
                    _ => {
                        let found = memtable.get(hasher.hash(&key), &key, &hasher, operator);
                        let found = found.map(|value| match as_put(value) { Value::Put(bytes) => Some(bytes.to_vec()), _ => None });
                        prop_assert_eq!(found, model.get(&key).cloned());
                        continue;
                    }
                };
                memtable.push(Item { hash: hasher.hash(&key), key: &key, value }, &hasher, operator);
                let before = model.get(&key).cloned().flatten();
                let now = match value {
                    Value::Put(bytes) => Some(bytes.to_vec()),
                    Value::IfAbsent(bytes) => before.or_else(|| Some(bytes.to_vec())),
                    Value::Operand(bytes) => Some([before.unwrap_or_default(), bytes.to_vec()].concat()),
                    Value::Deleted => None,
                };
                model.insert(key, now);
            }
            let frozen = memtable.freeze(&hasher, operator, None);
            prop_assert!(memtable.is_empty());
            prop_assert_eq!(frozen.len(), model.len());
            let items: Vec<Item<'_>> = (0..frozen.len()).map(|at| frozen.item(at, &hasher)).collect();
            prop_assert!(items.is_sorted_by(|a, b| (a.hash, a.key) < (b.hash, b.key)));
            prop_assert_eq!(frozen.range(&(0..=u64::MAX)), 0..frozen.len());
            for (key, value) in &model {
                let found = frozen.get(hasher.hash(key), key).map(as_put);
                prop_assert_eq!(found, Some(value.as_ref().map_or(Value::Deleted, |bytes| Value::Put(bytes))));
            }
            prop_assert_eq!(frozen.get(hasher.hash(b"none"), b"none"), None);
            prop_assert_eq!(frozen.tombstones(), model.values().filter(|value| value.is_none()).count() as u64);
        }

        #[test]
        fn entries_are_found_however_hashes_are_spread(
            mut highs in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..50, Just(u64::MAX)], 0..200),
            asked in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..60], 20),
        ) {
            highs.sort_unstable();
            let mut builder = Frozen::builder();
            for &high in &highs {
                builder.push(Item { hash: KeyHash::new(high, 0), key: &high.to_le_bytes(), value: Value::Deleted });
            }
            let frozen = builder.finish();
            for &high in asked.iter().chain(&highs) {
                prop_assert_eq!(frozen.first_not_below(high), highs.partition_point(|&one| one < high));
            }
        }
    }

    #[test]
    fn keys_that_repeat_are_counted() {
        let hasher = ItemHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(3)));
        let (mut memtable, mut repeats) = (Memtable::new(0), Repeats::default());
        for (key, value) in [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"4")] {
            let item = Item { hash: hasher.hash(key), key, value: Value::Put(value) };
            memtable.push(item, &hasher, None);
        }
        let frozen = memtable.freeze(&hasher, None, Some(&mut repeats));
        assert_eq!((repeats.count, repeats.example.as_deref()), (2, Some(&b"a"[..])));
        assert_eq!(frozen.get(hasher.hash(b"a"), b"a"), Some(Value::Put(b"4")));
    }
}
