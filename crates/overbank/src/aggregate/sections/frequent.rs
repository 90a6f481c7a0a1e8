//! How often each item came: exact while there are few different ones, and else by a sample of rows.
//!
//! ```text
//!   ┼ 0: counts, 1: none ┼ rows of the sample ┼ greatest hash of them ┼ items … ┼
//!   an item   ┼ item ┼ count, if there are counts ┼ rows of the sample ┼ their hashes, of 4 bytes, ascending ┼
//! ```
//!
//! 1. There are counts, and all are exact, while there are no more than `tracked` different items.
//! 2. The sample is the `tracked` rows whose places have the least hashes: any row is as likely in it as any other, and which ones are
//!    does not depend on order or on merges. That is what a list of frequent items with counters that are taken over, as space-saving has
//!    it, cannot promise; it would err by less with as many counters.
//! 3. While there are no more than `tracked` rows, the sample is all of them.
//!
//! # Accuracy
//! Of n rows and a sample of s, an item that has k rows of the sample has about n k / s rows. Its error is that of Wilson's
//! interval at three standard errors, n / s × (3 sqrt(k (1 - k / s) + 9 / 4) + 9 / 2), and is greater in less than one case of 200, if the
//! places of rows are different numbers. An item of more than 7 n / s rows is in the sample with a probability above 99.9 %.
//!
//! Cost: a pass over the section for a row that is in the sample or, while there are counts, for any row; else a comparison. A pass for any
//! number of rows at once.

use super::super::tail::{Change, Reader, put_item};
use super::super::value::{ColumnType, Counted, Item, Value};
use crate::bits::varint;
use std::cmp::Reverse;

/// No item has more rows than can be where it is not in the sample, in rows of n / s.
const UNSEEN: u64 = 7;
const HASH_BYTES: usize = 4;

#[derive(Clone, PartialEq, Debug)]
struct Entry<'a> {
    item: Item<'a>,
    count: u64,
    hashes: Vec<u32>,
}

#[derive(Clone, PartialEq, Default, Debug)]
struct Items<'a> {
    is_sample: bool,
    /// Ascending.
    entries: Vec<Entry<'a>>,
}

struct Head {
    is_sample: bool,
    rows: u64,
    hash_max: u32,
}

/// Takes the item of a row whose place has this hash into a section.
pub(in super::super) fn update(
    section: &mut [u8],
    column_type: ColumnType,
    tracked: usize,
    hash: u32,
    item: Item<'_>,
) -> Option<Change> {
    let item = item.as_distinct();
    let new = || Items { is_sample: false, entries: vec![Entry { item, count: 1, hashes: vec![hash] }] };
    if section.is_empty() {
        return Some(Change::To(new().encoded()));
    }
    let mut reader = Reader::new(section);
    let head = Head::read(&mut reader)?;
    let left = reader.left();
    if head.rows >= tracked as u64 && hash > head.hash_max {
        if head.is_sample {
            return Some(Change::Done);
        }
        if count_in_place(section, left, column_type, item)? {
            return Some(Change::Done);
        }
    }
    if !head.is_sample && head.rows < tracked as u64 {
        return Some(Change::To(with_row(&section[section.len() - left..], &head, column_type, hash, item)?));
    }
    let both = Items::decoded(section, column_type, tracked)?.merged(new(), tracked);
    Some(Change::To(both.encoded()))
}

/// Takes the items of rows, with the hashes of their places, into a section, in one pass.
pub(in super::super) fn update_all<'a>(
    section: &'a [u8],
    column_type: ColumnType,
    tracked: usize,
    rows: impl Iterator<Item = (Item<'a>, u32)>,
) -> Option<Change> {
    let mut hash_max = u32::MAX;
    if !section.is_empty() {
        let head = Head::read(&mut Reader::new(section))?;
        if head.is_sample && head.rows >= tracked as u64 {
            hash_max = head.hash_max;
        }
    }
    let rows = rows.filter(|&(_, hash)| hash <= hash_max);
    let mut rows: Vec<(Item<'_>, u32)> = rows.map(|(item, hash)| (item.as_distinct(), hash)).collect();
    if rows.is_empty() {
        return Some(Change::Done);
    }
    rows.sort_unstable_by(|one, other| one.0.order(other.0).then(one.1.cmp(&other.1)));
    let entry = |rows: &[(Item<'a>, u32)]| Entry {
        item: rows[0].0,
        count: rows.len() as u64,
        hashes: rows.iter().map(|row| row.1).collect(),
    };
    let entries = rows.chunk_by(|one, other| one.0.order(other.0).is_eq()).map(entry).collect();
    let new = Items { is_sample: false, entries };
    Some(Change::To(Items::decoded(section, column_type, tracked)?.merged(new, tracked).encoded()))
}

/// The section that has a row more than these items, where all rows are in the sample and one more has room.
fn with_row(
    items: &[u8],
    head: &Head,
    column_type: ColumnType,
    hash: u32,
    item: Item<'_>,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(items.len() + 32);
    varint::push(0, &mut bytes);
    varint::push(head.rows.checked_add(1)?, &mut bytes);
    bytes.extend_from_slice(&hash.max(head.hash_max).to_le_bytes());
    let (mut reader, mut own) = (Reader::new(items), &[][..]);
    // Where what is replaced begins and ends.
    let (mut begin, mut end, mut count) = (items.len(), items.len(), 0);
    while !reader.is_empty() {
        let at = items.len() - reader.left();
        let order = reader.item(column_type)?.as_distinct().order(item);
        let of_item = reader.varint()?;
        let hashes = usize::try_from(reader.varint()?).ok()?.checked_mul(HASH_BYTES)?;
        let hashes = reader.take(hashes)?;
        if order.is_lt() {
            continue;
        }
        (begin, end) = (at, at);
        if order.is_eq() {
            (own, end, count) = (hashes, items.len() - reader.left(), of_item);
        }
        break;
    }
    bytes.extend_from_slice(&items[..begin]);
    put_item(&mut bytes, item);
    varint::push(count.saturating_add(1), &mut bytes);
    varint::push((own.len() / HASH_BYTES) as u64 + 1, &mut bytes);
    let is_before = |own: &&[u8]| own.iter().rev().lt(hash.to_le_bytes().iter().rev());
    let before = own.chunks_exact(HASH_BYTES).take_while(is_before).count() * HASH_BYTES;
    bytes.extend_from_slice(&own[..before]);
    bytes.extend_from_slice(&hash.to_le_bytes());
    bytes.extend_from_slice(&own[before..]);
    bytes.extend_from_slice(&items[end..]);
    Some(bytes)
}

/// Adds one to the count of an item in the last `left` bytes, if it has one and that does not become longer.
fn count_in_place(section: &mut [u8], left: usize, column_type: ColumnType, item: Item<'_>) -> Option<bool> {
    let mut reader = Reader::new(&section[section.len() - left..]);
    while !reader.is_empty() {
        let order = reader.item(column_type)?.as_distinct().order(item);
        let at = section.len() - reader.left();
        let count = reader.varint()?;
        let end = section.len() - reader.left();
        if order.is_gt() {
            break;
        }
        if order.is_eq() {
            let mut bytes = Vec::with_capacity(10);
            varint::push(count.saturating_add(1), &mut bytes);
            let fits = bytes.len() == end - at;
            if fits {
                section[at..end].copy_from_slice(&bytes);
            }
            return Some(fits);
        }
        let hashes = usize::try_from(reader.varint()?).ok()?.checked_mul(HASH_BYTES)?;
        reader.take(hashes)?;
    }
    Some(false)
}

/// The section of the rows of two.
pub(in super::super) fn merge(
    one: &[u8],
    other: &[u8],
    column_type: ColumnType,
    tracked: usize,
) -> Option<Vec<u8>> {
    let one = Items::decoded(one, column_type, tracked)?;
    Some(one.merged(Items::decoded(other, column_type, tracked)?, tracked).encoded())
}

/// The `most` items that came most often, of `rows` rows in all.
pub(in super::super) fn value(
    section: &[u8],
    column_type: ColumnType,
    tracked: usize,
    most: usize,
    rows: u64,
) -> Option<Value> {
    let Items { is_sample, mut entries } = Items::decoded(section, column_type, tracked)?;
    let weight = |entry: &Entry<'_>| if is_sample { entry.hashes.len() as u64 } else { entry.count };
    // Ascending as they are: of those that came as often, the lesser stays before.
    entries.sort_by_key(|entry| Reverse(weight(entry)));
    let sampled = entries.iter().map(|entry| entry.hashes.len()).sum::<usize>().max(1) as f64;
    let counted = |entry: &Entry<'_>| {
        if !is_sample {
            return Counted { value: entry.item.value(), count: entry.count, error: 0 };
        }
        let own = entry.hashes.len() as f64;
        let error = 3.0 * (own * (1.0 - own / sampled) + 2.25).sqrt() + 4.5;
        let of_all = |sample_rows: f64| (sample_rows * rows as f64 / sampled).ceil() as u64;
        Counted { value: entry.item.value(), count: of_all(own), error: of_all(error) }
    };
    let counts: Vec<Counted> = entries.iter().take(most).map(counted).collect();
    let next = entries.get(most).map(counted);
    let of_listed = next.map_or(0, |next| next.count.saturating_add(next.error));
    let unseen = if is_sample { (UNSEEN as f64 * rows as f64 / sampled).ceil() as u64 } else { 0 };
    Some(Value::Counts { counts, others_at_most: of_listed.max(unseen).min(rows) })
}

/// The most bytes of a section.
pub(in super::super) fn bytes_max(item_bytes: usize, tracked: usize) -> usize {
    15 + tracked.saturating_mul(item_bytes + 12 + HASH_BYTES)
}

impl Head {
    fn read(reader: &mut Reader<'_>) -> Option<Head> {
        let is_sample = match reader.varint()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Head { is_sample, rows: reader.varint()?, hash_max: read_hash(reader)? })
    }
}

fn read_hash(reader: &mut Reader<'_>) -> Option<u32> {
    Some(u32::from_le_bytes(reader.take(HASH_BYTES)?.try_into().ok()?))
}

impl<'a> Items<'a> {
    fn merged(self, other: Items<'a>, tracked: usize) -> Items<'a> {
        let mut both = Items {
            is_sample: self.is_sample || other.is_sample,
            entries: Vec::with_capacity(self.entries.len() + other.entries.len()),
        };
        let (mut left, mut right) =
            (self.entries.into_iter().peekable(), other.entries.into_iter().peekable());
        while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
            let order = one.item.order(other.item);
            let one = left.next_if(|_| order.is_le());
            let other = right.next_if(|_| order.is_ge());
            both.entries.push(match (one, other) {
                (Some(mut one), Some(other)) => {
                    one.count = one.count.saturating_add(other.count);
                    one.hashes.extend(other.hashes);
                    one.hashes.sort_unstable();
                    one
                }
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => break,
            });
        }
        both.entries.extend(left.chain(right));
        both.is_sample |= both.entries.len() > tracked;
        both.cut(tracked);
        both
    }

    /// Leaves no more rows in the sample than it may have, and forgets what only a count would keep, where there are none.
    fn cut(&mut self, tracked: usize) {
        let rows: usize = self.entries.iter().map(|entry| entry.hashes.len()).sum();
        if rows > tracked {
            let mut all: Vec<(u32, usize)> = Vec::with_capacity(rows);
            for (i, entry) in self.entries.iter().enumerate() {
                all.extend(entry.hashes.iter().map(|&hash| (hash, i)));
            }
            // Of equal hashes, those of lesser items stay.
            let (_, &mut last, _) = all.select_nth_unstable(tracked - 1);
            let ties = all[..tracked].iter().filter(|&&row| row == last).count();
            for (i, entry) in self.entries.iter_mut().enumerate() {
                let kept = entry.hashes.partition_point(|&hash| (hash, i) < last);
                let ties = if i == last.1 { ties } else { 0 };
                entry.hashes.truncate(kept + ties);
            }
        }
        if self.is_sample {
            self.entries.retain(|entry| !entry.hashes.is_empty());
            self.entries.iter_mut().for_each(|entry| entry.count = 0);
        }
    }

    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.entries.is_empty() {
            return bytes;
        }
        let rows: usize = self.entries.iter().map(|entry| entry.hashes.len()).sum();
        let hash_max = self.entries.iter().filter_map(|entry| entry.hashes.last()).max().copied();
        varint::push(self.is_sample.into(), &mut bytes);
        varint::push(rows as u64, &mut bytes);
        bytes.extend_from_slice(&hash_max.unwrap_or(0).to_le_bytes());
        for Entry { item, count, hashes } in &self.entries {
            put_item(&mut bytes, *item);
            if !self.is_sample {
                varint::push(*count, &mut bytes);
            }
            varint::push(hashes.len() as u64, &mut bytes);
            hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
        }
        bytes
    }

    fn decoded(section: &'a [u8], column_type: ColumnType, tracked: usize) -> Option<Items<'a>> {
        let mut items = Items::default();
        if section.is_empty() {
            return Some(items);
        }
        let mut reader = Reader::new(section);
        let head = Head::read(&mut reader)?;
        items.is_sample = head.is_sample;
        let mut left = usize::try_from(head.rows).ok().filter(|&rows| rows <= tracked)?;
        let (is_full, mut hash_max) = (left == tracked, 0);
        while !reader.is_empty() {
            let item = reader.item(column_type)?.as_distinct();
            let count = if head.is_sample { 0 } else { reader.varint()? };
            let rows = usize::try_from(reader.varint()?).ok()?;
            left = left.checked_sub(rows)?;
            let hashes = (0..rows).map(|_| read_hash(&mut reader)).collect::<Option<Vec<u32>>>()?;
            let is_next = items.entries.last().is_none_or(|before| before.item.order(item).is_lt());
            // A sample that is not full has all rows.
            let is_counted = match head.is_sample {
                true => rows > 0 && is_full,
                false => count > 0 && if is_full { count >= rows as u64 } else { count == rows as u64 },
            };
            if !is_next || !is_counted || !hashes.is_sorted() || items.entries.len() == tracked {
                return None;
            }
            hash_max = hashes.last().map_or(hash_max, |&last| last.max(hash_max));
            items.entries.push(Entry { item, count, hashes });
        }
        (left == 0 && hash_max == head.hash_max && !items.entries.is_empty()).then_some(items)
    }
}
