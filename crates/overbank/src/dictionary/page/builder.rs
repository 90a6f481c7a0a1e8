//! Collects items, and makes pages of the first of them.

use super::super::item::Item;
use super::format::{KINDS_A_BYTE, Kind, Sizes};

/// What is taken away from the front goes when it is so much: what is left moves then.
const DROPPED_BYTES: u32 = 64 << 10;

/// Items that wait for their page, in order.
#[derive(Default, Debug)]
pub(crate) struct PageBuilder {
    slots: Vec<Slot>,
    keys: Vec<u8>,
    values: Vec<u8>,
    /// Slots of items that were taken away, whose bytes are still there.
    dropped: usize,
}

/// Where an item's key and value end.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The first 64 bits of its hash.
    hash: u64,
    key_end: u32,
    value_end: u32,
    tag: u8,
    kind: Kind,
}

impl PageBuilder {
    /// Adds an item behind the others; whoever adds sees to it that all keys, and all values, are shorter than 4 GiB together.
    #[inline]
    pub(crate) fn push(&mut self, item: &Item<'_>) {
        let (kind, bytes) = Kind::split(&item.value);
        self.keys.extend_from_slice(item.key);
        self.values.extend_from_slice(bytes);
        let (key_end, value_end) = (self.keys.len() as u32, self.values.len() as u32);
        self.slots.push(Slot {
            hash: item.hash.high(),
            key_end,
            value_end,
            tag: item.hash.low() as u8,
            kind,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == self.dropped
    }

    /// The first 64 bits of the hashes of the first and the last of the first `items`, one at least.
    pub(crate) fn ends_of(&self, items: usize) -> (u64, u64) {
        (self.slots[self.dropped].hash, self.slots[self.dropped + items - 1].hash)
    }

    /// The key that came last.
    pub(crate) fn last_key(&self) -> &[u8] {
        let start = self.slots.len().checked_sub(2).map_or(0, |before| self.slots[before].key_end as usize);
        &self.keys[start..]
    }

    /// The first 64 bits of each item's hash, and what a page of the items up to it takes.
    pub(crate) fn grown(&self) -> impl Iterator<Item = (u64, Sizes)> {
        self.grown_from(self.dropped).map(|(slot, sizes)| (slot.hash, sizes))
    }

    fn grown_from(&self, first: usize) -> impl Iterator<Item = (&Slot, Sizes)> {
        let ends = self.ends_before(first);
        self.slots[first..].iter().scan(
            (Sizes::default(), ends),
            |(sizes, (key_start, value_start)), slot| {
                let (key_length, value_length) = (slot.key_end - *key_start, slot.value_end - *value_start);
                *sizes = sizes.grown(key_length.into(), slot.kind, value_length.into());
                (*key_start, *value_start) = (slot.key_end, slot.value_end);
                Some((slot, *sizes))
            },
        )
    }

    /// Where the key and the value before an item end.
    fn ends_before(&self, item: usize) -> (u32, u32) {
        item.checked_sub(1)
            .map_or((0, 0), |before| (self.slots[before].key_end, self.slots[before].value_end))
    }

    /// Appends the page of the first items, whose `sizes` these are, to `into`.
    pub(crate) fn encode(&self, sizes: &Sizes, into: &mut Vec<u8>) {
        self.encode_from(self.dropped, sizes, into);
    }

    /// As [`PageBuilder::encode`], of what stands before the keys; the keys, and the values.
    pub(crate) fn encode_columns(&self, sizes: &Sizes, into: &mut Vec<u8>) -> (&[u8], &[u8]) {
        self.columns_from(self.dropped, sizes, into)
    }

    /// Appends pages of some `page_bytes` of all items, one after the other, to `into`; their lengths.
    pub(crate) fn samples(&self, page_bytes: u64, into: &mut Vec<u8>) -> Vec<usize> {
        let (mut first, mut lengths) = (self.dropped, Vec::new());
        while first < self.slots.len() {
            let is_short = |(_, sizes): &(&Slot, Sizes)| sizes.items == 1 || sizes.bytes() <= page_bytes;
            let Some((_, sizes)) = self.grown_from(first).take_while(is_short).last() else { break };
            let start = into.len();
            self.encode_from(first, &sizes, into);
            lengths.push(into.len() - start);
            first += sizes.items as usize;
        }
        lengths
    }

    /// Appends the page of items from `first` on, whose `sizes` these are, to `into`.
    fn encode_from(&self, first: usize, sizes: &Sizes, into: &mut Vec<u8>) {
        let (keys, values) = self.columns_from(first, sizes, into);
        into.extend_from_slice(keys);
        into.extend_from_slice(values);
    }

    fn columns_from(&self, first: usize, sizes: &Sizes, into: &mut Vec<u8>) -> (&[u8], &[u8]) {
        let slots = &self.slots[first..first + sizes.items as usize];
        let Some(last) = slots.last() else { return (&[], &[]) };
        let (key_start, value_start) = self.ends_before(first);
        let header = sizes.header();
        into.extend_from_slice(&header.encode());
        if header.has_tags() {
            into.extend(slots.iter().map(|slot| slot.tag));
        }
        put_lengths(key_start, slots.iter().map(|slot| slot.key_end), header.key_width, into);
        put_lengths(value_start, slots.iter().map(|slot| slot.value_end), header.value_width, into);
        if header.kind.is_none() {
            let byte = |four: &[Slot]| four.iter().rev().fold(0, |byte, slot| byte << 2 | slot.kind as u8);
            into.extend(slots.chunks(KINDS_A_BYTE).map(byte));
        }
        (
            &self.keys[key_start as usize..last.key_end as usize],
            &self.values[value_start as usize..last.value_end as usize],
        )
    }

    /// Takes the first `items` away.
    pub(crate) fn drop_first(&mut self, items: usize) {
        self.dropped += items;
        let (key_bytes, value_bytes) = self.ends_before(self.dropped);
        if self.is_empty() {
            self.slots.clear();
            self.keys.clear();
            self.values.clear();
            self.dropped = 0;
        } else if key_bytes.saturating_add(value_bytes) >= DROPPED_BYTES {
            self.slots.drain(..self.dropped);
            self.keys.drain(..key_bytes as usize);
            self.values.drain(..value_bytes as usize);
            for slot in &mut self.slots {
                slot.key_end -= key_bytes;
                slot.value_end -= value_bytes;
            }
            self.dropped = 0;
        }
    }
}

/// Puts the lengths between ends, the first of which is counted from `start`, in `width` bytes each.
fn put_lengths(mut start: u32, ends: impl Iterator<Item = u32>, width: u8, into: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    for end in ends {
        into.extend_from_slice(&(end - start).to_le_bytes()[..usize::from(width)]);
        start = end;
    }
}
