//! Items of a range of hashes, from memory in which they lie as they came: put in order, each key once, with what its items come to.
//!
//! ```text
//!   oldest ─▶ │ c: 2 │ a: 1 │            entries            hash │ place
//!             │ b: 5 │ c: +1 │    ─▶   one a key's item  ─▶  radix sort, stable  ─▶  a: 1, b: 5, c: 3
//!   newest ─▶ │ b: 6 │                  16 bytes each                                b: 6 for b: 5 is older
//! ```
//!
//! The items stay where they are: what is sorted is their entries.
//!
//! Invariant: entries are in the order of (hash, key), and of one key the oldest is first.

use super::arena::{for_each_key, item_at};
use super::item::{Item, Value};
use super::operator::{Combined, combine, combine_more};
use super::rules::{Repeats, Rules};
use crate::KeyHash;
use crate::batch::Sorter;
use crate::bits::prefetch::prefetch;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Bits of a place in an arena; the arena's number is above.
const PLACE_BITS: u32 = 40;
/// So many entries ahead an item is on its way to the cache.
const ITEMS_AHEAD: usize = 12;

/// Items that are put in order.
#[derive(Debug)]
pub(super) struct Window {
    rules: Rules,
    arenas: Vec<Arc<Vec<u8>>>,
    /// The first 64 bits of each hash, less those that all have in common; and a place.
    entries: Vec<[u64; 2]>,
    scratch: Vec<[u64; 2]>,
    sorter: Sorter<[u64; 2]>,
    /// The first entry that was not looked at.
    next: usize,
    /// The key that it stands at, and what its items come to.
    hash: KeyHash,
    key: u64,
    kept: Kept,
    value: Vec<u8>,
    /// Keys that came twice, if somebody counts them.
    repeats: Option<Repeats>,
}

/// Items one behind the other, as they came or in order.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) arena: Arc<Vec<u8>>,
    /// Where they lie in the arena.
    pub(super) bytes: Range<usize>,
}

/// What the items of a key come to so far.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// The item at a place.
    Of(u64),
    /// The item at a place, as a value, whatever it is.
    AsPut(u64),
    /// What `value` has, as a value or an operand.
    Put,
    Operand,
}

impl Window {
    /// An empty one.
    pub(super) fn new(rules: &Rules) -> Self {
        Window {
            repeats: rules.begin_repeats(),
            rules: rules.clone(),
            arenas: Vec::new(),
            entries: Vec::new(),
            scratch: Vec::new(),
            sorter: Sorter::new(),
            next: 0,
            hash: KeyHash::default(),
            key: 0,
            kept: Kept::Of(0),
            value: Vec::new(),
        }
    }

    /// Takes the items of rows whose hashes, by their first 64 bits, are in `range`, all of which begin with the same `skip_bits`: those of
    /// each row are newer than those before.
    pub(super) fn fill(
        &mut self,
        rows: impl Iterator<Item = Row>,
        range: &RangeInclusive<u64>,
        skip_bits: u32,
    ) {
        self.arenas.clear();
        self.entries.clear();
        self.next = 0;
        for Row { arena, bytes } in rows {
            let number = (self.arenas.len() as u64) << PLACE_BITS;
            for_each_key(&arena, bytes, |key, place| {
                let high = self.rules.hasher.hash(key).high();
                if range.contains(&high) {
                    self.entries.push([high << skip_bits, number | place]);
                }
            });
            self.arenas.push(arena);
        }
        self.sorter.sort(&mut self.entries, &mut self.scratch);
        self.sort_equals();
    }

    /// Puts keys of equal hashes, as far as entries tell, in order.
    fn sort_equals(&mut self) {
        let mut from = 0;
        while from + 1 < self.entries.len() {
            let high = self.entries[from][0];
            if self.entries[from + 1][0] != high {
                from += 1;
                continue;
            }
            let to = from + self.entries[from..].iter().take_while(|entry| entry[0] == high).count();
            let key = |entry: &[u64; 2]| key_at(&self.arenas, entry[1]);
            let group = &self.entries[from..to];
            if group.iter().any(|entry| key(entry) != key(&group[0])) {
                let mut group = group.to_vec();
                // Stable: of one key, the oldest stays first.
                group.sort_by_cached_key(|entry| (self.rules.hasher.hash(key(entry)).low(), key(entry)));
                self.entries[from..to].copy_from_slice(&group);
            }
            from = to;
        }
    }

    /// How many items it was filled with, those that meet newer ones among them.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Goes to the next key; whether there is one.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        let Some(&[high, place]) = self.entries.get(self.next) else { return false };
        if let Some(ahead) = self.entries.get(self.next + ITEMS_AHEAD) {
            prefetch(&self.arenas[(ahead[1] >> PLACE_BITS) as usize], offset_of(ahead[1]) as usize);
        }
        self.next += 1;
        (self.key, self.kept) = (place, Kept::Of(place));
        self.hash = self.rules.hasher.hash(key_at(&self.arenas, place));
        if self.entries.get(self.next).is_some_and(|next| next[0] == high) {
            self.fold(high);
        }
        true
    }

    /// Takes the entries behind the first one of a key that are the key's, too.
    #[cold]
    fn fold(&mut self, high: u64) {
        while let Some(&[_, newer]) = self.entries.get(self.next).filter(|next| next[0] == high) {
            let key = key_at(&self.arenas, newer);
            if key != key_at(&self.arenas, self.key) {
                return;
            }
            if let Some(repeats) = &mut self.repeats {
                repeats.note(key);
            }
            let operator = self.rules.operator;
            let combined = match self.kept {
                Kept::Put | Kept::Operand => {
                    let value = item_at(&self.arenas[(newer >> PLACE_BITS) as usize], offset_of(newer)).1;
                    let is_put = matches!(self.kept, Kept::Put);
                    let older = if is_put { Combined::Put } else { Combined::Operand };
                    combine_more(operator, older, value, &mut self.value)
                }
                Kept::Of(_) | Kept::AsPut(_) => {
                    let mut value = std::mem::take(&mut self.value);
                    let combined = combine(operator, self.item().value, self.at(newer).1, &mut value);
                    self.value = value;
                    combined
                }
            };
            self.kept = match combined {
                Combined::Older => self.kept,
                Combined::Newer => Kept::Of(newer),
                Combined::NewerAsPut => Kept::AsPut(newer),
                Combined::Put => Kept::Put,
                Combined::Operand => Kept::Operand,
            };
            self.next += 1;
        }
    }

    /// The item of the key that it stands at.
    #[inline]
    pub(super) fn item(&self) -> Item<'_> {
        let hash = self.hash;
        let (key, value) = match self.kept {
            Kept::Of(place) => self.at(place),
            Kept::AsPut(place) => {
                let (key, value) = self.at(place);
                (key, value.as_put())
            }
            Kept::Put => (key_at(&self.arenas, self.key), Value::Put(&self.value)),
            Kept::Operand => (key_at(&self.arenas, self.key), Value::Operand(&self.value)),
        };
        Item { hash, key, value }
    }

    /// The place of the item, if it is one of those that were given as it stands.
    pub(super) fn place(&self) -> Option<u64> {
        match self.kept {
            Kept::Of(place) => Some(place),
            _ => None,
        }
    }

    /// Tells of the keys that came twice, once no more windows are to come.
    pub(super) fn finish(self) {
        self.rules.add_repeats(self.repeats);
    }

    #[inline]
    fn at(&self, place: u64) -> (&[u8], Value<'_>) {
        item_at(&self.arenas[(place >> PLACE_BITS) as usize], offset_of(place))
    }
}

#[inline]
fn key_at(arenas: &[Arc<Vec<u8>>], place: u64) -> &[u8] {
    item_at(&arenas[(place >> PLACE_BITS) as usize], offset_of(place)).0
}

#[inline]
fn offset_of(place: u64) -> u64 {
    place & ((1 << PLACE_BITS) - 1)
}
