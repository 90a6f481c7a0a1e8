//! Rows to insert: what groups, snapshots of them and the tree are tested with.

use super::{Model, ModelRow};
use crate::aggregate::Row;
use proptest::prelude::*;

/// Rows of this many keys, from the first on, each so often.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggregate) struct Insert {
    pub(in crate::aggregate) first: u32,
    pub(in crate::aggregate) keys: u32,
    pub(in crate::aggregate) each: u32,
    pub(in crate::aggregate) kind: u8,
}

/// A few keys, or up to `keys` of them, each less than `each` times.
pub(in crate::aggregate) fn inserts(keys: u32, each: u32) -> impl Strategy<Value = Insert> {
    (0u32..3000, prop_oneof![1u32..10, 100..keys], 1..each, 0u8..4)
        .prop_map(|(first, keys, each, kind)| Insert { first, keys, each, kind })
}

/// Keys of one length, of several, of several alphabets, and a long one here and there.
pub(in crate::aggregate) fn key(number: u32, kind: u8) -> Vec<u8> {
    match kind {
        0 => format!("{number:06}").into_bytes(),
        1 => format!("{number}").repeat(1 + number as usize % 7).into_bytes(),
        2 => number.wrapping_mul(0x9e37_79b1).to_le_bytes().to_vec(),
        _ if number.is_multiple_of(500) => format!("{number}:").repeat(1500).into_bytes(),
        _ => format!("https://example.org/{}/{number}", number % 10).into_bytes(),
    }
}

impl Insert {
    fn keys(self) -> Vec<Vec<u8>> {
        (0..self.keys * self.each).map(|i| key(self.first + i % self.keys, self.kind)).collect()
    }

    /// Gives the rows to `take` and to the model; `row` makes each of its number, of which `number` is the first.
    pub(in crate::aggregate) fn insert(
        self,
        model: &mut Model,
        number: &mut u32,
        row: impl Fn(u32) -> ModelRow,
        take: impl FnOnce(&[Vec<u8>], &[Row<'_>]),
    ) {
        let keys = self.keys();
        let rows: Vec<ModelRow> = (*number..).take(keys.len()).map(row).collect();
        *number += keys.len() as u32;
        let rows: Vec<Row<'_>> = rows.iter().map(|(words, bytes)| Row { words, bytes }).collect();
        take(&keys, &rows);
        keys.iter().zip(&rows).for_each(|(key, row)| model.insert(key, *row));
    }
}
