//! The parts that the states of functions are made of. Functions share those that are equal: a sum and a mean, all quantiles of a column.

use super::function::Function;
use super::sections::bins::{self, Quantizer};
use super::sections::{bitmap, distinct, frequent, list, registers};
use super::signed::{from_wide_signed, signed, wide_signed};
use super::tail::{Change, push_section};
use super::value::{ColumnType, Item};
use super::{float_sum, moments};
use crate::KeyHasher;
use std::cmp::Ordering;

/// What a part keeps of the items of its column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kept {
    /// How many rows.
    Rows,
    /// How many items.
    Count,
    Sum,
    /// The sum of squares.
    Squares,
    Min,
    Max,
    /// The place, and the item.
    First,
    Last,
    BitAnd,
    BitOr,
    BitXor,
    List {
        most: usize,
    },
    Distinct {
        most: usize,
    },
    Frequent {
        tracked: usize,
    },
    Registers {
        lg_m: u32,
    },
    Bins(Quantizer),
    /// How many were not below the bound; those that were.
    Bitmap {
        below: u32,
    },
}

/// A part, and where it is in a state. Its bit in the first word says whether there was an item.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Part {
    pub(super) kept: Kept,
    pub(super) column: usize,
    /// That of its column; of whole numbers where it has none.
    pub(super) column_type: ColumnType,
    /// Its first word.
    pub(super) at: usize,
    /// Its section of the tail.
    pub(super) section: Option<usize>,
}

impl Kept {
    /// What a function needs, with what is its own first.
    pub(super) fn of(function: Function) -> Vec<Kept> {
        match function {
            Function::CountRows => vec![Kept::Rows],
            Function::Count { .. } => vec![Kept::Count],
            Function::Sum { .. } => vec![Kept::Sum],
            Function::Min { .. } | Function::Any { .. } => vec![Kept::Min],
            Function::Max { .. } => vec![Kept::Max],
            Function::Mean { .. } => vec![Kept::Sum, Kept::Count],
            Function::Variance { .. } | Function::Deviation { .. } => {
                vec![Kept::Squares, Kept::Sum, Kept::Count]
            }
            Function::First { .. } => vec![Kept::First],
            Function::Last { .. } => vec![Kept::Last],
            Function::List { most, .. } => vec![Kept::List { most }, Kept::Count],
            Function::Distinct { most, .. } => vec![Kept::Distinct { most }],
            Function::Top { tracked, .. } => vec![Kept::Frequent { tracked }, Kept::Count],
            Function::DistinctCount { lg_m, .. } => vec![Kept::Registers { lg_m }],
            Function::Quantile { alpha, .. } => vec![Kept::Bins(Quantizer::new(alpha))],
            Function::Bitmap { below, .. } => vec![Kept::Bitmap { below }],
            Function::BitAnd { .. } => vec![Kept::BitAnd],
            Function::BitOr { .. } => vec![Kept::BitOr],
            Function::BitXor { .. } => vec![Kept::BitXor],
        }
    }

    /// Words of a state.
    pub(super) fn words(self, column_type: ColumnType) -> usize {
        let of_item = if column_type == ColumnType::Bytes { 0 } else { column_type.words() };
        match (self, column_type) {
            (Kept::Sum | Kept::Squares, ColumnType::Float) => float_sum::WORDS,
            (Kept::Sum, ColumnType::Wide) => moments::WIDE_SUM_WORDS,
            (Kept::Sum, _) => 2,
            // Twice the bits of a number, and 64 for how many there are.
            (Kept::Squares, ColumnType::Wide) => 5,
            (Kept::Squares, _) => 3,
            (Kept::Min | Kept::Max, _) => of_item,
            (Kept::First | Kept::Last, _) => 1 + of_item,
            (
                Kept::List { .. }
                | Kept::Distinct { .. }
                | Kept::Frequent { .. }
                | Kept::Registers { .. }
                | Kept::Bins(_),
                _,
            ) => 0,
            (
                Kept::Rows | Kept::Count | Kept::BitAnd | Kept::BitOr | Kept::BitXor | Kept::Bitmap { .. },
                _,
            ) => 1,
        }
    }

    /// Whether it asks for the places of rows.
    pub(super) fn has_place(self) -> bool {
        matches!(self, Kept::First | Kept::Last | Kept::List { .. } | Kept::Frequent { .. })
    }

    /// Whether it is not enough that there is an item.
    pub(super) fn looks_at_items(self) -> bool {
        !matches!(self, Kept::Rows | Kept::Count)
    }

    /// Whether its section is of a form of its own, and not the bytes of an item.
    pub(super) fn is_coded(self) -> bool {
        matches!(
            self,
            Kept::List { .. }
                | Kept::Distinct { .. }
                | Kept::Frequent { .. }
                | Kept::Registers { .. }
                | Kept::Bins(_)
                | Kept::Bitmap { .. }
        )
    }

    /// The most bytes of its section, of items of `item_bytes`; `None` if it has none.
    pub(super) fn section_bytes_max(self, column_type: ColumnType, item_bytes: usize) -> Option<usize> {
        // A word in bits of 7.
        let of_item =
            if column_type == ColumnType::Bytes { 10 + item_bytes } else { 10 * column_type.words() };
        match self {
            Kept::Min | Kept::Max | Kept::First | Kept::Last => {
                (column_type == ColumnType::Bytes).then_some(item_bytes)
            }
            Kept::List { most } => Some(list::bytes_max(of_item, most)),
            Kept::Distinct { most } => Some(distinct::bytes_max(of_item, most)),
            Kept::Frequent { tracked } => Some(frequent::bytes_max(of_item, tracked)),
            Kept::Registers { lg_m } => Some(registers::bytes_max(lg_m)),
            Kept::Bins(_) => Some(bins::bytes_max()),
            Kept::Bitmap { below } => Some(bitmap::bytes_max(below)),
            _ => None,
        }
    }
}

/// Whether what stands in order `order` to the kept one takes its place.
#[inline]
fn is_better(kept: Kept, order: Ordering) -> bool {
    match kept {
        Kept::Min | Kept::First => order.is_lt(),
        _ => order.is_gt(),
    }
}

impl Part {
    pub(super) fn words(&self) -> usize {
        self.kept.words(self.column_type)
    }

    /// Takes an item into the words.
    #[inline]
    pub(super) fn update(&self, own: &mut [u64], is_first: bool, item: Item<'_>, place: u64) {
        match (self.kept, item) {
            (Kept::Rows | Kept::Count, _) => own[0] = own[0].saturating_add(1),
            (Kept::Sum, Item::Unsigned(number)) => set_wide(own, wide(own).saturating_add(number.into())),
            (Kept::Sum, Item::Signed(number)) => {
                let sum = from_wide_signed(wide(own)).saturating_add(number.into());
                set_wide(own, wide_signed(sum));
            }
            (Kept::Sum, Item::Wide(number)) => moments::add_wide(own, number),
            (Kept::Sum, Item::Float(number)) => float_sum::add(own, number),
            (Kept::Squares, Item::Unsigned(number)) => moments::add_square(own, number.into()),
            (Kept::Squares, Item::Signed(number)) => moments::add_square(own, number.unsigned_abs().into()),
            (Kept::Squares, Item::Wide(number)) => moments::add_square(own, number.unsigned_abs()),
            (Kept::Squares, Item::Float(number)) => float_sum::add_square(own, number),
            (Kept::Min | Kept::Max, item)
                if is_first
                    || is_better(self.kept, item.order(Item::of_words(self.column_type, own, &[]))) =>
            {
                put(own, item);
            }
            (Kept::First | Kept::Last, item) => {
                let order = || {
                    let kept = Item::of_words(self.column_type, &own[1..], &[]);
                    place.cmp(&own[0]).then_with(|| item.order(kept))
                };
                if is_first || is_better(self.kept, order()) {
                    own[0] = place;
                    put(&mut own[1..], item);
                }
            }
            (Kept::BitAnd | Kept::BitOr | Kept::BitXor, item) => {
                own[0] = self.bits(own[0], item.words().0[0], is_first);
            }
            _ => {}
        }
    }

    /// Takes the words of another state, which had an item, into these.
    pub(super) fn merge(&self, own: &mut [u64], is_first: bool, others: &[u64]) {
        match (self.kept, self.column_type) {
            (Kept::Rows | Kept::Count, _) => own[0] = own[0].saturating_add(others[0]),
            (Kept::Sum | Kept::Squares, ColumnType::Float) => float_sum::merge(own, others),
            (Kept::Sum, ColumnType::Unsigned) => set_wide(own, wide(own).saturating_add(wide(others))),
            (Kept::Sum, ColumnType::Wide) => moments::merge_wide(own, others),
            (Kept::Sum, _) => {
                let sum = from_wide_signed(wide(own)).saturating_add(from_wide_signed(wide(others)));
                set_wide(own, wide_signed(sum));
            }
            (Kept::Squares, _) => moments::add_words(own, others),
            (Kept::Min | Kept::Max, column_type) => {
                self.update(own, is_first, Item::of_words(column_type, others, &[]), 0);
            }
            (Kept::First | Kept::Last, column_type) => {
                self.update(own, is_first, Item::of_words(column_type, &others[1..], &[]), others[0]);
            }
            (Kept::BitAnd | Kept::BitOr | Kept::BitXor, _) => {
                own[0] = self.bits(own[0], others[0], is_first);
            }
            _ => {}
        }
    }

    /// Takes an item into the words and the section, whose bytes these are; `None` where they are not such.
    pub(super) fn update_section(
        &self,
        own: &mut [u64],
        section: &mut [u8],
        is_first: bool,
        (item, place): (Item<'_>, u64),
        hasher: &KeyHasher,
    ) -> Option<Change> {
        let column_type = self.column_type;
        match (self.kept, item) {
            (Kept::Min | Kept::Max, Item::Bytes(bytes)) => {
                let is_better = is_first || is_better(self.kept, bytes.cmp(section));
                Some(if is_better { Change::To(bytes.to_vec()) } else { Change::Done })
            }
            (Kept::First | Kept::Last, Item::Bytes(bytes)) => {
                let order = place.cmp(&own[0]).then_with(|| bytes.cmp(section));
                if !is_first && !is_better(self.kept, order) {
                    return Some(Change::Done);
                }
                own[0] = place;
                Some(Change::To(bytes.to_vec()))
            }
            (Kept::List { most }, item) => list::update(section, column_type, most, place, item),
            (Kept::Distinct { most }, item) => distinct::update(section, column_type, most, item),
            (Kept::Frequent { tracked }, item) => {
                let hash = (hasher.hash_u64(place).high() >> 32) as u32;
                frequent::update(section, column_type, tracked, hash, item)
            }
            (Kept::Registers { lg_m }, item) => registers::update(section, lg_m, item.hash(hasher)),
            (Kept::Bins(quantizer), item) => quantizer.update(section, item.as_float()),
            (Kept::Bitmap { below }, Item::Unsigned(number)) => match u32::try_from(number) {
                Ok(number) if number < below => bitmap::update(section, below, number),
                _ => {
                    own[0] = own[0].saturating_add(1);
                    Some(Change::Done)
                }
            },
            _ => Some(Change::Done),
        }
    }

    /// As [`Part::update_section`] of each of some items with their places, of which there is one at least.
    pub(super) fn update_section_by_all(
        &self,
        own: &mut [u64],
        section: &mut [u8],
        is_first: bool,
        items: &[(Item<'_>, u64)],
        hasher: &KeyHasher,
    ) -> Option<Change> {
        let column_type = self.column_type;
        match self.kept {
            Kept::List { most } => {
                let entries = items.iter().map(|&(item, place)| (place, item)).collect();
                list::update_all(section, column_type, most, entries)
            }
            Kept::Distinct { most } => {
                distinct::update_all(section, column_type, most, items.iter().map(|row| row.0))
            }
            Kept::Frequent { tracked } => {
                let hash = |place| (hasher.hash_u64(place).high() >> 32) as u32;
                let rows = items.iter().map(|&(item, place)| (item, hash(place)));
                frequent::update_all(section, column_type, tracked, rows)
            }
            Kept::Registers { lg_m } => {
                registers::update_all(section, lg_m, items.iter().map(|row| row.0.hash(hasher)))
            }
            Kept::Bins(quantizer) => quantizer.update_all(section, items.iter().map(|row| row.0.as_float())),
            Kept::Bitmap { below } => {
                let number = |item| match item {
                    Item::Unsigned(number) => u32::try_from(number).ok().filter(|&number| number < below),
                    _ => None,
                };
                let numbers: Vec<u32> = items.iter().filter_map(|row| number(row.0)).collect();
                own[0] = own[0].saturating_add((items.len() - numbers.len()) as u64);
                bitmap::update_all(section, below, numbers)
            }
            kept => {
                // The best of them is all that counts.
                let order = |one: &(Item<'_>, u64), other: &(Item<'_>, u64)| {
                    let of_place = if kept.has_place() { one.1.cmp(&other.1) } else { Ordering::Equal };
                    of_place.then_with(|| one.0.order(other.0))
                };
                let best = |best, next| if is_better(kept, order(&next, &best)) { next } else { best };
                match items.iter().copied().reduce(best) {
                    Some(best) => self.update_section(own, section, is_first, best, hasher),
                    None => Some(Change::Done),
                }
            }
        }
    }

    /// Takes another state's words and section into the words, and appends the section that becomes of both, with its length; `None` where
    /// they are no sections.
    pub(super) fn merge_sections(
        &self,
        (own, section): (&mut [u64], &[u8]),
        (others, other): (&[u64], &[u8]),
        merged: &mut Vec<u8>,
    ) -> Option<()> {
        let column_type = self.column_type;
        let both = match self.kept {
            Kept::List { most } => list::merge(section, other, column_type, most)?,
            Kept::Distinct { most } => distinct::merge(section, other, column_type, most)?,
            Kept::Frequent { tracked } => frequent::merge(section, other, column_type, tracked)?,
            Kept::Registers { lg_m } => registers::merge(section, other, lg_m)?,
            Kept::Bins(quantizer) => quantizer.merge(section, other)?,
            Kept::Bitmap { below } => {
                own[0] = own[0].saturating_add(others[0]);
                bitmap::merge(section, other, below)?
            }
            kept => {
                let of_place = if kept.has_place() { others[0].cmp(&own[0]) } else { Ordering::Equal };
                let is_other = is_better(kept, of_place.then_with(|| other.cmp(section)));
                if is_other {
                    own.copy_from_slice(others);
                }
                push_section(merged, if is_other { other } else { section });
                return Some(());
            }
        };
        push_section(merged, &both);
        Some(())
    }

    /// The words of two items, by their bits.
    fn bits(&self, own: u64, other: u64, is_first: bool) -> u64 {
        if is_first {
            return other;
        }
        let raw = |word| match Item::of_words(self.column_type, &[word], &[]) {
            Item::Signed(number) => number as u64,
            _ => word,
        };
        let both = match self.kept {
            Kept::BitAnd => raw(own) & raw(other),
            Kept::BitOr => raw(own) | raw(other),
            _ => raw(own) ^ raw(other),
        };
        match self.column_type {
            ColumnType::Signed => signed(both as i64),
            _ => both,
        }
    }
}

fn put(words: &mut [u64], item: Item<'_>) {
    let (new, count) = item.words();
    words[..count].copy_from_slice(&new[..count]);
}

/// Two words as one number.
pub(super) fn wide(words: &[u64]) -> u128 {
    u128::from(words[0]) | u128::from(words[1]) << 64
}

fn set_wide(words: &mut [u64], value: u128) {
    (words[0], words[1]) = (value as u64, (value >> 64) as u64);
}
