//! A memtable that takes no more items: a run in RAM.
//!
//! ```text
//!   parts     by the first bits of the hash
//!             │ items as they came │  ─ the first question ─▶  │ items in order │   marks: hash and place of each eighth
//!                     └──────────────── a flush ─────────────────────┴──▶ windows, sorted, each key once
//! ```
//!
//! Who only writes pays for one sort, that of the flush; who asks has each part sorted that he touches. Items that are long on average
//! stay where they are, and each has a mark.
//!
//! Invariant: a part that is sorted has each key once, in the order of (hash, key).

use super::arena::{item_and_end, push_item};
use super::item::{Item, Value};
use super::operator::MergeOperator;
use super::rules::Rules;
use super::run::Expected;
use super::window::{Row, Window};
use crate::KeyHash;
use crate::lock::lock;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, OnceLock};

/// Items that are longer on average than this many bytes stay where they are.
const GATHERED_BYTES_MAX: usize = 256;
/// Items a mark, where they lie in order: 2 bytes an item, and a lookup goes through one more row of them.
const LG_STRIDE: u32 = 3;
/// The place of an item that several came to, where the others stay where they are.
const IS_COMBINED: u64 = 1 << 63;

/// A run in RAM.
#[derive(Debug)]
pub(crate) struct Frozen {
    rules: Rules,
    /// By the first bits of the hash.
    parts: Vec<Part>,
    lg_parts: u32,
    /// As it was frozen, items that met newer ones among them.
    items: u64,
    tombstones: u64,
    bytes: usize,
    longest: usize,
}

#[derive(Debug, Default)]
struct Part {
    /// Items as they came, until they are sorted.
    unsorted: Mutex<Option<Arc<Vec<u8>>>>,
    sorted: OnceLock<Arc<Sorted>>,
}

/// Items in order.
#[derive(Debug, Default)]
struct Sorted {
    arena: Arc<Vec<u8>>,
    /// Items that several came to, where the others stay where they are.
    combined: Vec<u8>,
    /// The first 64 bits of the hash, and the place, of each `1 << lg_stride`-th item.
    marks: Vec<[u64; 2]>,
    lg_stride: u32,
    items: usize,
    /// Bytes of the longest key with its value.
    longest: usize,
}

/// Goes through a range of hashes of a run in RAM.
#[derive(Debug)]
pub(super) struct FrozenScan {
    frozen: Arc<Frozen>,
    range: RangeInclusive<u64>,
    /// The next part, and the one that it is in.
    part: usize,
    sorted: Option<Arc<Sorted>>,
    /// The next item of the part, where the one before it ends, and where the present one is.
    number: usize,
    end: u64,
    place: u64,
}

impl Frozen {
    /// Of arenas, one for each value of the first bits of a hash, in which items lie as they came.
    pub(super) fn new(
        rules: &Rules,
        arenas: Vec<Vec<u8>>,
        (items, tombstones): (u64, u64),
        (bytes, longest): (usize, usize),
    ) -> Self {
        let lg_parts = arenas.len().ilog2();
        let part = |arena| Part { unsorted: Mutex::new(Some(Arc::new(arena))), sorted: OnceLock::new() };
        let parts = arenas.into_iter().map(part).collect();
        let mut frozen = Frozen { rules: rules.clone(), parts, lg_parts, items, tombstones, bytes, longest };
        if rules.operator == Some(MergeOperator::Append) {
            // How long what was appended is, no operand alone tells, and whoever appends more asks.
            let sorted = (0..frozen.parts.len()).map(|part| frozen.sorted(part).longest);
            frozen.longest = sorted.max().unwrap_or(0);
        }
        frozen
    }

    /// What is in `windows`, in one part.
    pub(super) fn joined(rules: &Rules, windows: &mut FrozenMerger) -> Self {
        let (mut builder, mut tombstones) = (SortedBuilder::default(), 0);
        while let Some(item) = windows.next_item() {
            tombstones += u64::from(matches!(item.value, Value::Deleted));
            builder.push(&item);
        }
        let sorted = builder.finish();
        let (items, bytes, longest) = (sorted.items as u64, sorted.memory_bytes(), sorted.longest);
        let part = Part { unsorted: Mutex::new(None), sorted: OnceLock::from(Arc::new(sorted)) };
        Frozen { rules: rules.clone(), parts: vec![part], lg_parts: 0, items, tombstones, bytes, longest }
    }

    /// Items, those that met newer ones perhaps among them.
    pub(super) fn len(&self) -> u64 {
        self.items
    }

    /// Deletions among the items.
    pub(super) fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// Bytes of the longest key with its value.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// RAM that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// How many items, of how many bytes, are in a range of hashes, about.
    pub(super) fn expected(&self, range: &RangeInclusive<u64>) -> Expected {
        let share = ((range.end().saturating_sub(*range.start())) as f64 + 1.0) / 2f64.powi(64);
        let part = |all: u64| (all as f64 * share).ceil() as u64;
        Expected { items: part(self.items), bytes: part(self.bytes as u64) }
    }

    /// What is known of a key here.
    pub(super) fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Value<'_>> {
        self.sorted(self.part_of(hash.high())).get(hash.high(), key, self.lg_parts)
    }

    fn part_of(&self, high: u64) -> usize {
        // Two shifts, for a shift by 64 is none.
        (high >> 1 >> (63 - self.lg_parts)) as usize
    }

    /// A part, sorted.
    fn sorted(&self, part: usize) -> &Arc<Sorted> {
        let Part { unsorted, sorted } = &self.parts[part];
        sorted.get_or_init(|| {
            let _turn = lock(&self.rules.sorting);
            let arena = lock(unsorted).clone().unwrap_or_default();
            let sorted = Arc::new(Sorted::of(arena, &self.rules, self.lg_parts));
            *lock(unsorted) = None;
            sorted
        })
    }

    /// All items of a range of hashes, with others. What is not sorted is sorted only if a part is more than the windows are that
    /// divide all hashes in `1 << lg_windows`.
    fn rows(&self, range: &RangeInclusive<u64>, lg_windows: u32) -> impl Iterator<Item = Row> {
        (self.part_of(*range.start())..=self.part_of(*range.end())).map(move |part| {
            let unsorted = lock(&self.parts[part].unsorted).clone().filter(|_| self.lg_parts >= lg_windows);
            match unsorted {
                Some(arena) => Row { bytes: 0..arena.len(), arena },
                None => self.sorted(part).row(range),
            }
        })
    }
}

impl Sorted {
    /// Sorts items, whose hashes begin with the same `skip_bits`.
    fn of(arena: Arc<Vec<u8>>, rules: &Rules, skip_bits: u32) -> Sorted {
        let mut window = Window::new(rules);
        let row = Row { bytes: 0..arena.len(), arena: Arc::clone(&arena) };
        window.fill(std::iter::once(row), &(0..=u64::MAX), skip_bits);
        let sorted = if arena.len() <= window.len() * GATHERED_BYTES_MAX {
            drop(arena);
            let mut builder = SortedBuilder::default();
            while window.advance() {
                builder.push(&window.item());
            }
            builder.finish()
        } else {
            let mut sorted = Sorted { arena, ..Sorted::default() };
            while window.advance() {
                let item = window.item();
                let place = window
                    .place()
                    .unwrap_or_else(|| push_item(&mut sorted.combined, item.key, item.value) | IS_COMBINED);
                sorted.marks.push([item.hash.high(), place]);
                sorted.longest = sorted.longest.max(item.key.len() + item.value.bytes().len());
            }
            sorted.marks.shrink_to_fit();
            sorted.items = sorted.marks.len();
            sorted
        };
        window.finish();
        sorted
    }

    fn memory_bytes(&self) -> usize {
        self.arena.len() + self.combined.len() + self.marks.len() * size_of::<[u64; 2]>()
    }

    /// What has the items of a range of hashes, with others.
    fn row(&self, range: &RangeInclusive<u64>) -> Row {
        let arena = Arc::clone(&self.arena);
        if self.lg_stride == 0 {
            return Row { bytes: 0..arena.len(), arena };
        }
        let start = self.marks.partition_point(|mark| mark[0] < *range.start()).saturating_sub(1);
        let end = self.marks.partition_point(|mark| mark[0] <= *range.end());
        let place = |mark: usize| self.marks.get(mark).map_or(arena.len(), |mark| mark[1] as usize);
        Row { bytes: place(start)..place(end), arena }
    }

    fn get(&self, high: u64, key: &[u8], skip_bits: u32) -> Option<Value<'_>> {
        let first = self.first_not_below(high, skip_bits);
        // Items of the hash may stand behind the mark before.
        let from = if self.lg_stride == 0 { first } else { first.saturating_sub(1) };
        for mark in from..self.marks.len() {
            if self.marks[mark][0] > high {
                return None;
            }
            let mut end = 0;
            for number in self.items_of(mark) {
                let (found, value);
                (found, value, end) = self.item(self.place(number, end));
                if found == key {
                    return Some(value);
                }
            }
        }
        None
    }

    /// The items from a mark to the next.
    fn items_of(&self, mark: usize) -> Range<usize> {
        let first = mark << self.lg_stride;
        first..(first + (1 << self.lg_stride)).min(self.items)
    }

    /// The place of an item that has no mark is where the one before ends.
    #[inline]
    fn place(&self, number: usize, end_before: u64) -> u64 {
        let is_marked = number & ((1 << self.lg_stride) - 1) == 0;
        if is_marked { self.marks[number >> self.lg_stride][1] } else { end_before }
    }

    /// The key and value at a place, and where they end.
    #[inline]
    fn item(&self, place: u64) -> (&[u8], Value<'_>, u64) {
        let arena = if place & IS_COMBINED == 0 { &self.arena[..] } else { &self.combined[..] };
        let (key, value, end) = item_and_end(arena, (place & !IS_COMBINED) as usize);
        (key, value, end as u64)
    }

    /// The first mark whose hash begins with `high` or what is above: hashes are spread evenly behind the bits that all have in common, so
    /// it is near where its share says.
    fn first_not_below(&self, high: u64, skip_bits: u32) -> usize {
        let marks = &self.marks;
        let guess = ((u128::from(high << skip_bits) * marks.len() as u128) >> 64) as usize;
        // Twice as far each time, on the side that it is on.
        let (mut from, mut to, mut step) = (guess, guess, 4);
        while from > 0 && marks[from - 1][0] >= high {
            (to, from, step) = (from, from.saturating_sub(step), step * 2);
        }
        step = 4;
        while to < marks.len() && marks[to][0] < high {
            (from, to, step) = (to, (to + step).min(marks.len()), step * 2);
        }
        from + marks[from..to].partition_point(|mark| mark[0] < high)
    }
}

/// Takes items in order.
#[derive(Debug, Default)]
struct SortedBuilder {
    arena: Vec<u8>,
    marks: Vec<[u64; 2]>,
    items: usize,
    longest: usize,
}

impl SortedBuilder {
    #[inline]
    fn push(&mut self, item: &Item<'_>) {
        let place = push_item(&mut self.arena, item.key, item.value);
        if self.items & ((1 << LG_STRIDE) - 1) == 0 {
            self.marks.push([item.hash.high(), place]);
        }
        self.items += 1;
        self.longest = self.longest.max(item.key.len() + item.value.bytes().len());
    }

    fn finish(mut self) -> Sorted {
        // What is not used goes back, without a copy where the allocator cuts pieces off.
        self.arena.shrink_to_fit();
        self.marks.shrink_to_fit();
        let SortedBuilder { arena, marks, items, longest } = self;
        Sorted { arena: Arc::new(arena), combined: Vec::new(), marks, lg_stride: LG_STRIDE, items, longest }
    }
}

impl FrozenScan {
    pub(super) fn new(frozen: &Arc<Frozen>, range: &RangeInclusive<u64>) -> Self {
        let part = frozen.part_of(*range.start());
        let (frozen, range) = (Arc::clone(frozen), range.clone());
        FrozenScan { frozen, range, part, sorted: None, number: 0, end: 0, place: 0 }
    }

    /// Goes to the next item; its hash, if there is one.
    pub(super) fn advance(&mut self) -> Option<KeyHash> {
        loop {
            if let Some(sorted) = self.sorted.as_ref().filter(|sorted| self.number < sorted.items) {
                self.place = sorted.place(self.number, self.end);
                self.number += 1;
                let key;
                (key, _, self.end) = sorted.item(self.place);
                let hash = self.frozen.rules.hasher.hash(key);
                if hash.high() > *self.range.end() {
                    (self.part, self.sorted) = (self.frozen.parts.len(), None);
                    return None;
                }
                if hash.high() >= *self.range.start() {
                    return Some(hash);
                }
                continue;
            }
            if self.part >= self.frozen.parts.len() {
                self.sorted = None;
                return None;
            }
            let sorted = Arc::clone(self.frozen.sorted(self.part));
            let first = sorted.marks.partition_point(|mark| mark[0] < *self.range.start()).saturating_sub(1);
            self.number = first << sorted.lg_stride;
            self.sorted = Some(sorted);
            self.part += 1;
        }
    }

    /// The item that it stands at, whose hash is known.
    #[inline]
    pub(super) fn item(&self, hash: KeyHash) -> Option<Item<'_>> {
        let (key, value, _) = self.sorted.as_ref()?.item(self.place);
        Some(Item { hash, key, value })
    }
}

/// Several runs in RAM as one: each key once, in order, with what its items come to.
#[derive(Debug)]
pub(super) struct FrozenMerger {
    /// The oldest first.
    inputs: Vec<Arc<Frozen>>,
    range: RangeInclusive<u64>,
    /// Where the next window begins.
    next: Option<u64>,
    /// All hashes are cut into so many windows.
    lg_windows: u32,
    window: Window,
    /// Nothing is older than the inputs: what is deleted is left out, and every other item is a value.
    is_oldest: bool,
}

impl FrozenMerger {
    /// Of `inputs`, the oldest first.
    pub(super) fn new(
        inputs: Vec<Arc<Frozen>>,
        rules: &Rules,
        range: &RangeInclusive<u64>,
        is_oldest: bool,
    ) -> Self {
        let lg_windows = inputs.iter().map(|frozen| frozen.lg_parts).max().unwrap_or(0);
        let (next, window) = (Some(*range.start()), Window::new(rules));
        FrozenMerger { inputs, range: range.clone(), next, lg_windows, window, is_oldest }
    }

    /// The next key, with what its items come to.
    #[inline]
    pub(super) fn next_item(&mut self) -> Option<Item<'_>> {
        loop {
            while !self.window.advance() {
                if !self.open_window() {
                    return None;
                }
            }
            if !self.is_oldest || !matches!(self.window.item().value, Value::Deleted) {
                break;
            }
        }
        let item = self.window.item();
        Some(if self.is_oldest { Item { value: item.value.as_put(), ..item } } else { item })
    }

    /// Goes to the next window; whether there is one.
    fn open_window(&mut self) -> bool {
        let Some(first) = self.next else { return false };
        let last = (first | u64::MAX >> self.lg_windows).min(*self.range.end());
        self.next = if last < *self.range.end() { Some(last + 1) } else { None };
        let range = first..=last;
        let rows = self.inputs.iter().flat_map(|frozen| frozen.rows(&range, self.lg_windows));
        self.window.fill(rows, &range, self.lg_windows);
        true
    }

    /// Tells of keys that came twice, when all was merged.
    pub(super) fn finish(self) {
        self.window.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::ItemHasher;
    use super::super::memtable::Memtable;
    use super::*;
    use crate::{HashKind, KeyHasher, Seed};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<(KeyHash, Vec<u8>), Option<Vec<u8>>>;

    fn bytes_of(value: Value<'_>) -> Option<Vec<u8>> {
        match value.as_put() {
            Value::Put(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    /// A scan's items, with whether they are in order.
    fn scanned(frozen: &Arc<Frozen>, range: &RangeInclusive<u64>) -> Model {
        let (mut scan, mut found, mut last) = (FrozenScan::new(frozen, range), Model::new(), None);
        while let Some(hash) = scan.advance() {
            let item = scan.item(hash).unwrap();
            let place = (item.hash, item.key.to_vec());
            assert!(last < Some(place.clone()));
            last = Some(place.clone());
            found.insert(place, bytes_of(item.value));
        }
        found
    }

    fn merged(inputs: &[Arc<Frozen>], rules: &Rules, range: &RangeInclusive<u64>, is_oldest: bool) -> Model {
        let mut merger = FrozenMerger::new(inputs.to_vec(), rules, range, is_oldest);
        let (mut found, mut last) = (Model::new(), None);
        while let Some(item) = merger.next_item() {
            let place = (item.hash, item.key.to_vec());
            assert!(last < Some(place.clone()));
            last = Some(place.clone());
            found.insert(place, bytes_of(item.value));
        }
        found
    }

    fn within(model: &Model, range: &RangeInclusive<u64>) -> Model {
        model.clone().into_iter().filter(|(place, _)| range.contains(&place.0.high())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Several runs in RAM, some of them sorted, some joined, are what one map of all items is.
        #[test]
        fn runs_in_memory_are_a_map(
            runs in prop::collection::vec((0u8..4, 0usize..1200, any::<bool>()), 1..5),
            seed: u64,
            // Short items are gathered, long ones stay; hashes of two bits are those of most keys.
            is_long: bool,
            is_narrow: bool,
            has_operator: bool,
            from: u64,
            to: u64,
        ) {
            let mask = if is_narrow { 1 << 126 | 1 << 90 | 1 << 20 } else { u128::MAX };
            let hasher = ItemHasher::masked(KeyHasher::new(HashKind::Xxh3, Seed(3)), mask);
            let rules = Rules::new(hasher, has_operator.then_some(MergeOperator::Append));
            let (mut model, mut number) = (Model::new(), seed);
            let mut inputs = Vec::new();
            for (lg_parts, count, is_sorted) in runs {
                let mut memtable = Memtable::new(128 << 10 << lg_parts, rules.clone());
                let mut own = Model::new();
                for _ in 0..count {
                    number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    let key = format!("{}", (number >> 33) % 700).into_bytes();
                    let bytes = (number >> 40).to_le_bytes().repeat(if is_long { 50 } else { 1 });
                    let value = match ((number >> 60) % 4, has_operator) {
                        (0 | 1, _) => Value::Put(&bytes),
                        (2, true) => Value::Operand(&bytes[..8]),
                        (2, false) => Value::IfAbsent(&bytes),
                        _ => Value::Deleted,
                    };
                    let place = (hasher.hash(&key), key);
                    memtable.push(Item { hash: place.0, key: &place.1, value });
                    for model in [&mut model, &mut own] {
                        let before = model.get(&place).cloned().flatten();
                        let now = match value {
                            Value::Operand(bytes) => Some([before.unwrap_or_default(), bytes.to_vec()].concat()),
                            Value::IfAbsent(_) if before.is_some() => before,
                            value => bytes_of(value),
                        };
                        model.insert(place.clone(), now);
                    }
                }
                let frozen = Arc::new(memtable.freeze());
                if is_sorted {
                    for (place, value) in &own {
                        prop_assert_eq!(frozen.get(place.0, &place.1).and_then(bytes_of), value.clone());
                    }
                    prop_assert_eq!(frozen.get(hasher.hash(b"none"), b"none"), None);
                    prop_assert_eq!(scanned(&frozen, &(from..=to)), within(&own, &(from..=to)));
                }
                inputs.push(frozen);
            }
            let all = 0..=u64::MAX;
            let alive = |model: &Model| model.clone().into_iter().filter(|one| one.1.is_some()).collect::<Model>();
            prop_assert_eq!(merged(&inputs, &rules, &all, false), model.clone());
            prop_assert_eq!(merged(&inputs, &rules, &all, true), alive(&model));
            if from <= to {
                prop_assert_eq!(merged(&inputs, &rules, &(from..=to), false), within(&model, &(from..=to)));
            }
            let mut merger = FrozenMerger::new(inputs.clone(), &rules, &all, false);
            let joined = Arc::new(Frozen::joined(&rules, &mut merger));
            prop_assert_eq!(joined.len(), model.len() as u64);
            prop_assert_eq!(scanned(&joined, &all), model.clone());
            for (place, value) in &model {
                prop_assert_eq!(joined.get(place.0, &place.1).and_then(bytes_of), value.clone());
            }
            // Beside those that are not sorted, and have more parts.
            let mut merger = FrozenMerger::new(inputs[..1].to_vec(), &rules, &all, false);
            inputs[0] = Arc::new(Frozen::joined(&rules, &mut merger));
            if from <= to {
                prop_assert_eq!(merged(&inputs, &rules, &(from..=to), true), within(&alive(&model), &(from..=to)));
            }
        }

        #[test]
        fn marks_are_found_however_hashes_are_spread(
            mut highs in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..50, Just(u64::MAX)], 0..200),
            asked in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..60], 20),
        ) {
            highs.sort_unstable();
            let sorted = Sorted { marks: highs.iter().map(|&high| [high, 0]).collect(), ..Sorted::default() };
            for &high in asked.iter().chain(&highs) {
                let expected = highs.partition_point(|&one| one < high);
                prop_assert_eq!(sorted.first_not_below(high, 0), expected);
                prop_assert_eq!(sorted.first_not_below(high, 9), expected);
            }
        }
    }
}
