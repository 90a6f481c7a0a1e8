//! The least items, each once.
//!
//! ```text
//!   ┼ items × 2, and 1 if there are more ┼ item ┼ item ┼ …        ascending
//! ```
//!
//! Whether there are more than are kept is known for certain; how many more is not.
//!
//! Cost: a pass over the section, for any number of items.

use super::super::tail::{Change, Reader, put_item};
use super::super::value::{ColumnType, Item};
use crate::bits::varint;

/// Some items, and whether there are more.
type Set<'a> = (Vec<Item<'a>>, bool);

/// Takes an item into a section of at most `most`.
pub(in super::super) fn update(
    section: &mut [u8],
    column_type: ColumnType,
    most: usize,
    item: Item<'_>,
) -> Option<Change> {
    let item = item.as_distinct();
    if section.is_empty() {
        return Some(Change::To(encoded(&[item], false)));
    }
    let mut reader = Reader::new(section);
    let head = reader.varint()?;
    let count = head / 2;
    let mut is_last = true;
    for _ in 0..count {
        let order = reader.item(column_type)?.order(item);
        if order.is_eq() {
            return Some(Change::Done);
        }
        if order.is_gt() {
            is_last = false;
            break;
        }
    }
    if is_last && count >= most as u64 {
        section[0] |= 1;
        return Some(Change::Done);
    }
    let (mut items, mut has_more) = decoded(section, column_type, most)?;
    let at = items.partition_point(|kept| kept.order(item).is_lt());
    items.insert(at, item);
    has_more |= items.len() > most;
    items.truncate(most);
    Some(Change::To(encoded(&items, has_more)))
}

/// Takes items into a section of at most `most`, in one pass.
pub(in super::super) fn update_all<'a>(
    section: &'a [u8],
    column_type: ColumnType,
    most: usize,
    new: impl Iterator<Item = Item<'a>>,
) -> Option<Change> {
    let set = decoded(section, column_type, most)?;
    let new: Vec<Item<'_>> = new.map(Item::as_distinct).collect();
    Some(Change::To(joined(set, (new, false), most)))
}

/// The section of the items of two.
pub(in super::super) fn merge(
    one: &[u8],
    other: &[u8],
    column_type: ColumnType,
    most: usize,
) -> Option<Vec<u8>> {
    Some(joined(decoded(one, column_type, most)?, decoded(other, column_type, most)?, most))
}

/// The section of the items of two, which need not be in order.
fn joined((mut items, has_more): Set<'_>, (others, others_more): Set<'_>, most: usize) -> Vec<u8> {
    items.extend(others);
    items.sort_by(|one, other| one.order(*other));
    items.dedup_by(|one, other| one.order(*other).is_eq());
    let has_more = has_more || others_more || items.len() > most;
    items.truncate(most);
    encoded(&items, has_more)
}

/// The items, ascending, and whether there are more.
pub(in super::super) fn decoded(section: &[u8], column_type: ColumnType, most: usize) -> Option<Set<'_>> {
    let mut items: Vec<Item<'_>> = Vec::new();
    if section.is_empty() {
        return Some((items, false));
    }
    let mut reader = Reader::new(section);
    let head = reader.varint()?;
    if head < 2 || head / 2 > most as u64 {
        return None;
    }
    for _ in 0..head / 2 {
        let item = reader.item(column_type)?.as_distinct();
        if items.last().is_some_and(|before| before.order(item).is_ge()) {
            return None;
        }
        items.push(item);
    }
    reader.is_empty().then_some((items, head % 2 == 1))
}

/// The most bytes of a section.
pub(in super::super) fn bytes_max(item_bytes: usize, most: usize) -> usize {
    10 + most.saturating_mul(item_bytes)
}

fn encoded(items: &[Item<'_>], has_more: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !items.is_empty() {
        varint::push(items.len() as u64 * 2 + u64::from(has_more), &mut bytes);
        items.iter().for_each(|&item| put_item(&mut bytes, item));
    }
    bytes
}
