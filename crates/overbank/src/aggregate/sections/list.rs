//! The first items in the order of their rows' places.
//!
//! ```text
//!   ┼ entries ┼ place ┼ item ┼ place down ┼ item ┼ place down ┼ item ┼        the last entry first, for rows come in order, mostly
//! ```
//!
//! Cost: O(1) an item that comes behind all others, a pass over the section for any other,
//! and for any number at once.

use super::super::tail::{Change, Reader, put_item};
use super::super::value::{ColumnType, Item};
use crate::bits::varint;
use std::cmp::Ordering;

/// A place and an item.
type Entry<'a> = (u64, Item<'a>);

fn order(one: &Entry<'_>, other: &Entry<'_>) -> Ordering {
    one.0.cmp(&other.0).then_with(|| one.1.order(other.1))
}

/// Takes the item of a row into a section of at most `most`.
pub(in super::super) fn update(
    section: &[u8],
    column_type: ColumnType,
    most: usize,
    place: u64,
    item: Item<'_>,
) -> Option<Change> {
    let new = (place, item);
    if section.is_empty() {
        return Some(Change::To(encoded(&[new])));
    }
    let mut reader = Reader::new(section);
    let count = reader.varint()?;
    let last_place = reader.varint()?;
    let rest = reader;
    let last = (last_place, reader.item(column_type)?);
    if order(&new, &last).is_lt() {
        let mut entries = decoded(section, column_type, most)?;
        let at = entries.partition_point(|entry| order(entry, &new).is_gt());
        entries.insert(at, new);
        let left_out = entries.len().saturating_sub(most);
        return Some(Change::To(encoded(&entries[left_out..])));
    }
    if count >= most as u64 {
        return Some(Change::Done);
    }
    let mut bytes = Vec::with_capacity(section.len() + 16);
    varint::push(count + 1, &mut bytes);
    varint::push(place, &mut bytes);
    put_item(&mut bytes, item);
    varint::push(place - last_place, &mut bytes);
    bytes.extend_from_slice(rest.rest());
    Some(Change::To(bytes))
}

/// Takes the items of rows into a section of at most `most`, in one pass.
pub(in super::super) fn update_all(
    section: &[u8],
    column_type: ColumnType,
    most: usize,
    mut entries: Vec<Entry<'_>>,
) -> Option<Change> {
    entries.sort_by(|one, other| order(other, one));
    Some(Change::To(joined(&decoded(section, column_type, most)?, &entries, most)))
}

/// The section of the items of two.
pub(in super::super) fn merge(
    one: &[u8],
    other: &[u8],
    column_type: ColumnType,
    most: usize,
) -> Option<Vec<u8>> {
    Some(joined(&decoded(one, column_type, most)?, &decoded(other, column_type, most)?, most))
}

/// The section of the entries of two, the last first.
fn joined<'a>(one: &[Entry<'a>], other: &[Entry<'a>], most: usize) -> Vec<u8> {
    let (mut left, mut right) = (one, other);
    let mut entries = Vec::with_capacity(one.len() + other.len());
    while let (Some(first), Some(second)) = (left.first(), right.first()) {
        let side = if order(first, second).is_ge() { &mut left } else { &mut right };
        entries.push(side[0]);
        *side = &side[1..];
    }
    entries.extend_from_slice(left);
    entries.extend_from_slice(right);
    let left_out = entries.len().saturating_sub(most);
    encoded(&entries[left_out..])
}

/// The items, in the order of their places.
pub(in super::super) fn items(section: &[u8], column_type: ColumnType, most: usize) -> Option<Vec<Item<'_>>> {
    Some(decoded(section, column_type, most)?.into_iter().rev().map(|entry| entry.1).collect())
}

/// The most bytes of a section.
pub(in super::super) fn bytes_max(item_bytes: usize, most: usize) -> usize {
    10 + most.saturating_mul(item_bytes + 10)
}

/// Entries, the last first.
fn encoded(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(&(last_place, _)) = entries.first() {
        varint::push(entries.len() as u64, &mut bytes);
        let mut before = None;
        for &(place, item) in entries {
            varint::push(before.map_or(last_place, |before: u64| before - place), &mut bytes);
            put_item(&mut bytes, item);
            before = Some(place);
        }
    }
    bytes
}

fn decoded(section: &[u8], column_type: ColumnType, most: usize) -> Option<Vec<Entry<'_>>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    if section.is_empty() {
        return Some(entries);
    }
    let mut reader = Reader::new(section);
    let count = reader.varint()?;
    if count == 0 || count > most as u64 {
        return None;
    }
    for _ in 0..count {
        let place = reader.varint()?;
        let place = entries.last().map_or(Some(place), |before| before.0.checked_sub(place))?;
        let entry = (place, reader.item(column_type)?);
        if entries.last().is_some_and(|before| order(before, &entry).is_lt()) {
            return None;
        }
        entries.push(entry);
    }
    reader.is_empty().then_some(entries)
}
