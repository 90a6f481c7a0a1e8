//! What goes into the usual functions and what comes out: items of rows, values of groups.

use super::signed::{from_signed, from_wide_signed, signed, wide_signed};
use crate::{KeyHash, KeyHasher};
use std::cmp::Ordering;

/// What the items of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ColumnType {
    /// `u64`. Booleans are of this kind, as 0 and 1.
    Unsigned,
    /// `i64`. Dates and times are of this kind.
    Signed,
    /// `i128`. Decimals are of this kind: who asks knows their scale.
    Wide,
    /// `f64`.
    Float,
    /// Bytes: strings, compared byte by byte.
    Bytes,
}

/// What a row has in a column.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// Nothing is known.
    Null,
    /// Of [`ColumnType::Unsigned`].
    Unsigned(u64),
    /// Of [`ColumnType::Signed`].
    Signed(i64),
    /// Of [`ColumnType::Wide`].
    Wide(i128),
    /// Of [`ColumnType::Float`].
    Float(f64),
    /// Of [`ColumnType::Bytes`].
    Bytes(&'a [u8]),
}

/// What a function says of a group.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No row had an item.
    Null,
    /// A count, or an item.
    Unsigned(u64),
    /// An item, or a sum of such.
    Signed(i64),
    /// An item, or a sum of such.
    Wide(i128),
    /// An item, a sum, or a mean.
    Float(f64),
    /// An item.
    Bytes(Vec<u8>),
    /// Some items.
    List {
        /// The items, none of which is `Null`.
        values: Vec<Value>,
        /// Whether all there are is listed.
        left_out: LeftOut,
    },
    /// Items and how often each came, the most frequent first.
    Counts {
        /// The items.
        counts: Vec<Counted>,
        /// An item that is not listed came at most so often.
        others_at_most: u64,
    },
    /// What is known within bounds.
    About {
        /// The estimate.
        value: f64,
        /// What the truth is not below.
        lower: f64,
        /// What the truth is not above.
        upper: f64,
    },
}

/// What a list lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftOut {
    /// So many.
    Exactly(u64),
    /// One or more.
    Some,
}

/// An item, and how often it came.
#[derive(Clone, PartialEq, Debug)]
pub struct Counted {
    /// The item.
    pub value: Value,
    /// How often it came, perhaps estimated.
    pub count: u64,
    /// How far the count may be off, either way; 0 where it is exact.
    pub error: u64,
}

impl ColumnType {
    /// Words of an item in a row and in a state; that of bytes is their number.
    pub(super) fn words(self) -> usize {
        if self == ColumnType::Wide { 2 } else { 1 }
    }
}

impl<'a> Item<'a> {
    /// The item that [`Item::words`] were made of; `bytes` are its bytes, if it is of such.
    #[inline]
    pub(super) fn of_words(column_type: ColumnType, words: &[u64], bytes: &'a [u8]) -> Item<'a> {
        match column_type {
            ColumnType::Unsigned => Item::Unsigned(words[0]),
            ColumnType::Signed => Item::Signed(from_signed(words[0])),
            ColumnType::Wide => {
                Item::Wide(from_wide_signed(u128::from(words[0]) | u128::from(words[1]) << 64))
            }
            ColumnType::Float => Item::Float(canonical(f64::from_bits(words[0].swap_bytes()))),
            ColumnType::Bytes => Item::Bytes(bytes),
        }
    }

    /// Words that are near zero where the item is a number near zero or of few digits, and how many.
    #[inline]
    pub(super) fn words(self) -> ([u64; 2], usize) {
        match self {
            Item::Null => ([0; 2], 1),
            Item::Unsigned(number) => ([number, 0], 1),
            Item::Signed(number) => ([signed(number), 0], 1),
            Item::Wide(number) => {
                let word = wide_signed(number);
                ([word as u64, (word >> 64) as u64], 2)
            }
            // The end of most fractions is zeros.
            Item::Float(number) => ([canonical(number).to_bits().swap_bytes(), 0], 1),
            Item::Bytes(bytes) => ([bytes.len() as u64, 0], 1),
        }
    }

    /// Whether it may stand in a column of this type.
    pub(super) fn is_of(self, column_type: ColumnType) -> bool {
        matches!(
            (self, column_type),
            (Item::Null, _)
                | (Item::Unsigned(_), ColumnType::Unsigned)
                | (Item::Signed(_), ColumnType::Signed)
                | (Item::Wide(_), ColumnType::Wide)
                | (Item::Float(_), ColumnType::Float)
                | (Item::Bytes(_), ColumnType::Bytes)
        )
    }

    /// The order of items of one column; floats in the total order of IEEE 754, with NaN, of which there is one, as the greatest.
    #[inline]
    pub(super) fn order(self, other: Item<'_>) -> Ordering {
        match (self, other) {
            (Item::Unsigned(one), Item::Unsigned(other)) => one.cmp(&other),
            (Item::Signed(one), Item::Signed(other)) => one.cmp(&other),
            (Item::Wide(one), Item::Wide(other)) => one.cmp(&other),
            (Item::Float(one), Item::Float(other)) => one.total_cmp(&other),
            (Item::Bytes(one), Item::Bytes(other)) => one.cmp(other),
            _ => Ordering::Equal,
        }
    }

    /// The item that is the same for all that are equal: zero has no sign.
    #[inline]
    pub(super) fn as_distinct(self) -> Self {
        if self == Item::Float(0.0) { Item::Float(0.0) } else { self }
    }

    /// The hash of what is the same for all that are equal.
    #[inline]
    pub(super) fn hash(self, hasher: &KeyHasher) -> KeyHash {
        match self.as_distinct() {
            Item::Null => hasher.hash(&[]),
            Item::Unsigned(number) => hasher.hash_u64(number),
            Item::Signed(number) => hasher.hash_u64(number as u64),
            Item::Wide(number) => hasher.hash(&number.to_le_bytes()),
            Item::Float(number) => hasher.hash_u64(number.to_bits()),
            Item::Bytes(bytes) => hasher.hash(bytes),
        }
    }

    /// The nearest double.
    #[inline]
    pub(super) fn as_float(self) -> f64 {
        match self {
            Item::Unsigned(number) => number as f64,
            Item::Signed(number) => number as f64,
            Item::Wide(number) => number as f64,
            Item::Float(number) => number,
            Item::Null | Item::Bytes(_) => f64::NAN,
        }
    }

    /// Its value.
    pub(super) fn value(self) -> Value {
        match self {
            Item::Null => Value::Null,
            Item::Unsigned(number) => Value::Unsigned(number),
            Item::Signed(number) => Value::Signed(number),
            Item::Wide(number) => Value::Wide(number),
            Item::Float(number) => Value::Float(number),
            Item::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        }
    }
}

/// Of all the numbers that are none, one.
#[inline]
fn canonical(number: f64) -> f64 {
    if number.is_nan() { f64::from_bits(0x7ff8 << 48) } else { number }
}
