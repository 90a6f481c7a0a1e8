//! Items one behind the other, as they come.
//!
//! ```text
//!   │ kind │ key's length │ value's length │ key │ value │ kind │ …
//! ```

use super::item::Value;
use std::ops::Range;

/// The most bytes of an item beside its key and value: a kind and two lengths, of 64 bits.
pub(super) const HEAD_BYTES_MAX: usize = 1 + 2 * 10;
/// The kind of an item that met a newer one.
const DEAD: u8 = 4;

/// Writes an item behind the others; its place.
#[inline]
pub(super) fn push_item(arena: &mut Vec<u8>, key: &[u8], value: Value<'_>) -> u64 {
    let place = arena.len() as u64;
    let bytes = value.bytes();
    if key.len() < 0x80 && bytes.len() < 0x80 {
        arena.extend_from_slice(&[value.code(), key.len() as u8, bytes.len() as u8]);
    } else {
        arena.push(value.code());
        push_length(arena, key.len());
        push_length(arena, bytes.len());
    }
    arena.extend_from_slice(key);
    arena.extend_from_slice(bytes);
    place
}

/// The item at a place.
#[inline]
pub(super) fn item_at(arena: &[u8], place: u64) -> (&[u8], Value<'_>) {
    let (key, value, _) = item_and_end(arena, place as usize);
    (key, value)
}

/// The item at a place that others follow, and where it ends.
#[inline]
pub(super) fn item_and_end(arena: &[u8], place: usize) -> (&[u8], Value<'_>, usize) {
    let (code, key_bytes, value_bytes, start) = head_at(arena, place);
    let end = start + key_bytes + value_bytes;
    let (key, bytes) = arena[start..end].split_at(key_bytes);
    let value = match code {
        0 => Value::Put(bytes),
        1 => Value::IfAbsent(bytes),
        2 => Value::Operand(bytes),
        _ => Value::Deleted,
    };
    (key, value, end)
}

/// Calls `visit` with the key and the place of each item in a range of bytes that is not dead, as they lie there.
#[inline]
pub(super) fn for_each_key(arena: &[u8], bytes: Range<usize>, mut visit: impl FnMut(&[u8], u64)) {
    let mut place = bytes.start;
    while place < bytes.end {
        let (code, key_bytes, value_bytes, start) = head_at(arena, place);
        if code != DEAD {
            visit(&arena[start..start + key_bytes], place as u64);
        }
        place = start + key_bytes + value_bytes;
    }
}

/// Notes that the item at a place met a newer one.
pub(super) fn bury(arena: &mut [u8], place: u64) {
    arena[place as usize] = DEAD;
}

/// Makes the item at a place a value, whatever was before.
pub(super) fn make_put(arena: &mut [u8], place: u64) {
    arena[place as usize] = Value::Put(&[]).code();
}

/// Kind, length of the key, length of the value, and where the key begins.
#[inline]
fn head_at(arena: &[u8], place: usize) -> (u8, usize, usize, usize) {
    if let Some(&[code, key_bytes, value_bytes]) = arena[place..].first_chunk()
        && (key_bytes | value_bytes) < 0x80
    {
        return (code, key_bytes.into(), value_bytes.into(), place + 3);
    }
    let mut at = place + 1;
    let key_bytes = read_length(arena, &mut at);
    let value_bytes = read_length(arena, &mut at);
    (arena[place], key_bytes, value_bytes, at)
}

/// Seven bits a byte, the last ones first.
fn push_length(arena: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        arena.push(length as u8 | 0x80);
        length >>= 7;
    }
    arena.push(length as u8);
}

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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_as_they_were_written(
            items in prop::collection::vec((0u8..5, prop_oneof![0usize..300, 16_000usize..17_000], 0usize..300), 0..40),
        ) {
            let (mut arena, mut expected) = (Vec::new(), Vec::new());
            for (number, &(kind, key_bytes, value_bytes)) in items.iter().enumerate() {
                let (key, bytes) = (vec![number as u8; key_bytes], vec![!(number as u8); value_bytes]);
                let value = [Value::Put(&bytes), Value::IfAbsent(&bytes), Value::Operand(&bytes), Value::Deleted];
                let value = value[usize::from(kind).min(3)];
                let place = push_item(&mut arena, &key, value);
                prop_assert_eq!(item_and_end(&arena, place as usize), (&key[..], value, arena.len()));
                if kind == 4 {
                    bury(&mut arena, place);
                } else {
                    expected.push((key, place));
                }
            }
            let mut found = Vec::new();
            for_each_key(&arena, 0..arena.len(), |key, place| found.push((key.to_vec(), place)));
            prop_assert_eq!(found, expected);
        }
    }
}
