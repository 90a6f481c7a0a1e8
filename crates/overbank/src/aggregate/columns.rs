//! The usual aggregates, several at once, over columns of items that may be NULL.
//!
//! ```text
//!   row     NULLs │ place │ column 0 │ column 1 │ …            a bit a column that is NULL
//!   state   seen │ words of part 0 │ words of part 1 │ …       tail: sections of the parts that are not of a fixed size
//! ```
//!
//! 1. A NULL takes part in no function, as in SQL: a minimum, maximum or sum of nothing but NULLs is NULL; a count of rows counts all.
//! 2. Sums of whole numbers are wider than their columns until they are asked for: whether one fits is judged by its end, not by what the
//!    order of the rows made of it on the way.
//! 3. Floats are in the total order of IEEE 754, every NaN as the greatest, as in most databases; their sums are those of
//!    [`float_sum`](super::float_sum), the same for any order.
//! 4. What no state of these functions is, as bytes from a file may be, is an error of [`Columns::values`] and never a panic.

use super::function::{Function, Overflow};
use super::part::{Kept, Part, wide};
use super::rows::{PLACE_AT, RowBatch, RowColumn, item_of};
use super::sections::{bitmap, distinct, frequent, list, registers};
use super::signed::from_wide_signed;
use super::state::{Aggregate, Row, State, StateMut, WORDS_MAX};
use super::tail::{self, Reader};
use super::value::{ColumnType, Item, LeftOut, Value};
use super::{float_sum, moments};
use crate::error::{corrupt_bytes, invalid};
use crate::{Error, HashKind, KeyHasher, Result, Seed};

/// Columns and parts that there may be: one bit each in a word.
const COLUMNS_MAX: usize = WORDS_MAX - 1;
/// Standard errors from the estimate of a distinct count to its bounds: the truth is beyond one in a case of 370.
const SIGMAS: f64 = 3.0;
/// Bytes of an item, unless another bound is chosen.
const ITEM_BYTES_MAX: usize = 4096;

/// Some functions over some columns: an [`Aggregate`].
///
/// ```
/// use overbank::aggregate::{ColumnType, Columns, Function, Groups, GroupsOptions, Item, RowBatch, Value};
///
/// let functions = [Function::CountRows, Function::Sum { column: 0 }, Function::Max { column: 0 }];
/// let columns = Columns::new(&[ColumnType::Signed], &functions)?;
/// let sales = Groups::new(columns.clone(), GroupsOptions::new())?;
/// let mut rows = RowBatch::new();
/// for (place, amount) in [Some(30), None, Some(-4)].into_iter().enumerate() {
///     columns.push_row(place as u64, &[amount.map_or(Item::Null, Item::Signed)], &mut rows)?;
/// }
/// sales.insert_batch(&["pear", "pear", "pear"], &rows)?;
/// let pears = sales.get(b"pear")?.ok_or("no pears")?;
/// assert_eq!(columns.values(pears.as_state())?, [Value::Unsigned(3), Value::Signed(26), Value::Signed(30)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<RowColumn>,
    row_words: usize,
    functions: Vec<Asked>,
    parts: Vec<Part>,
    state_words: usize,
    sections: usize,
    overflow: Overflow,
    item_bytes_max: usize,
    hasher: KeyHasher,
}

/// A function, and its parts.
#[derive(Clone, PartialEq, Debug)]
struct Asked {
    function: Function,
    parts: Vec<usize>,
}

impl Columns {
    /// `functions` over columns of these types.
    ///
    /// # Errors
    /// `InvalidOption` for a function of a column that is not there or not of a type that it takes, for arguments out of their range, for
    /// more than 63 columns, functions or parts of functions, or more than 64 words of a row or a state.
    pub fn new(column_types: &[ColumnType], functions: &[Function]) -> Result<Columns> {
        if column_types.len() > COLUMNS_MAX || functions.len() > COLUMNS_MAX {
            let why = format!("a group has at most {COLUMNS_MAX} columns and as many functions");
            return invalid("columns", column_types.len().max(functions.len()), why);
        }
        let mut made = Columns {
            columns: Vec::new(),
            row_words: 1,
            functions: Vec::new(),
            parts: Vec::new(),
            state_words: 1,
            sections: 0,
            overflow: Overflow::Error,
            item_bytes_max: ITEM_BYTES_MAX,
            hasher: KeyHasher::new(HashKind::Xxh3, Seed(0)),
        };
        for &function in functions {
            made.push_function(function, column_types)?;
        }
        made.row_words += usize::from(made.has_places());
        for (column, &column_type) in column_types.iter().enumerate() {
            let at = made.row_words;
            made.row_words += column_type.words();
            let has_bytes = column_type == ColumnType::Bytes
                && made.parts.iter().any(|part| part.column == column && part.kept.looks_at_items());
            made.columns.push(RowColumn { column_type, at, has_bytes });
        }
        if made.parts.len() > COLUMNS_MAX {
            return invalid(
                "functions",
                made.parts.len(),
                format!("they have at most {COLUMNS_MAX} parts together"),
            );
        }
        if made.state_words.max(made.row_words) > WORDS_MAX {
            let why = format!("a row and the states of a group have at most {WORDS_MAX} words");
            return invalid("columns", made.state_words.max(made.row_words), why);
        }
        Ok(made)
    }

    fn push_function(&mut self, function: Function, column_types: &[ColumnType]) -> Result<()> {
        let (column, column_type) = match function.column() {
            None => (0, ColumnType::Unsigned),
            Some(column) => match column_types.get(column) {
                Some(&column_type) if function.takes(column_type) => (column, column_type),
                Some(column_type) => {
                    let why =
                        format!("column {column} is {column_type:?}; ask it of a column of another type");
                    return invalid("a function", function.name(), why);
                }
                None => {
                    return invalid(
                        "a function's column",
                        column,
                        format!("there are {}", column_types.len()),
                    );
                }
            },
        };
        function.require()?;
        let mut parts = Vec::new();
        for kept in Kept::of(function) {
            let same = |part: &Part| part.kept == kept && part.column == column;
            let index = self.parts.iter().position(same).unwrap_or_else(|| {
                let section = kept.section_bytes_max(column_type, 0).map(|_| self.sections);
                self.sections += usize::from(section.is_some());
                self.parts.push(Part { kept, column, column_type, at: self.state_words, section });
                self.state_words += kept.words(column_type);
                self.parts.len() - 1
            });
            parts.push(index);
        }
        self.functions.push(Asked { function, parts });
        Ok(())
    }

    /// What is done with sums that do not fit their type.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// The most bytes of an item of [`ColumnType::Bytes`] of which a function keeps items; 4096 if it is not said.
    pub fn item_bytes_max(mut self, bytes: usize) -> Self {
        self.item_bytes_max = bytes;
        self
    }

    /// How items are hashed for [`Function::DistinctCount`], and places for the sample of [`Function::Top`]. One that nobody knows keeps
    /// those who choose the items from choosing the answers, too; states are merged under the one that they were made under.
    pub fn hasher(mut self, hasher: KeyHasher) -> Self {
        self.hasher = hasher;
        self
    }

    /// The most bytes of the tail of a state.
    pub fn tail_bytes_max(&self) -> usize {
        let bytes = |part: &Part| part.kept.section_bytes_max(part.column_type, self.item_bytes_max);
        self.parts.iter().filter_map(bytes).fold(0, |sum, bytes| sum.saturating_add(10).saturating_add(bytes))
    }

    /// Whether a function asks for the places of rows.
    pub fn has_places(&self) -> bool {
        self.parts.iter().any(|part| part.kept.has_place())
    }

    /// The functions.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = Function> {
        self.functions.iter().map(|asked| asked.function)
    }

    /// The type of each column.
    pub fn column_types(&self) -> impl ExactSizeIterator<Item = ColumnType> {
        self.columns.iter().map(|column| column.column_type)
    }

    /// Appends a row of these items, one a column. `place` is its place in the stream, for functions that ask which row is before which:
    /// whoever numbers the rows says what their order is, for threads have none.
    ///
    /// # Cost
    /// Some nanoseconds an item, and a copy of its bytes; nothing is allocated where `rows` was as long before.
    ///
    /// # Errors
    /// `InvalidOption` if they are not as many as the columns, or not of their types, or longer than [`Columns::item_bytes_max`];
    /// the row is then not in.
    pub fn push_row(&self, place: u64, items: &[Item<'_>], rows: &mut RowBatch) -> Result<()> {
        if items.len() != self.columns.len() {
            return invalid(
                "a row's items",
                items.len(),
                format!("there are {} columns", self.columns.len()),
            );
        }
        let (words, bytes) = (rows.words.len(), rows.bytes.len());
        rows.words.push(0);
        if self.row_words > 1 && self.has_places() {
            rows.words.push(place);
        }
        for (column, (&item, made)) in items.iter().zip(&self.columns).enumerate() {
            if let Err(error) = self.require(item, column) {
                rows.words.truncate(words);
                rows.bytes.truncate(bytes);
                return Err(error);
            }
            let (own, count) = item.words();
            match item {
                Item::Null => {
                    rows.words[words] |= 1 << column;
                    rows.words.resize(rows.words.len() + made.column_type.words(), 0);
                    continue;
                }
                Item::Bytes(own) if made.has_bytes => rows.bytes.extend_from_slice(own),
                _ => {}
            }
            rows.words.extend_from_slice(&own[..count]);
        }
        rows.ends.push((rows.words.len(), rows.bytes.len()));
        Ok(())
    }

    fn require(&self, item: Item<'_>, column: usize) -> Result<()> {
        let RowColumn { column_type, has_bytes, .. } = self.columns[column];
        match item {
            item if !item.is_of(column_type) => {
                invalid("a row's item", format!("{item:?}"), format!("column {column} is {column_type:?}"))
            }
            Item::Bytes(bytes) if has_bytes && bytes.len() > self.item_bytes_max => {
                let most = self.item_bytes_max;
                let why = format!("column {column} has at most {most}; raise item_bytes_max, or cut it off");
                invalid("the bytes of a row's item", bytes.len(), why)
            }
            _ => Ok(()),
        }
    }

    /// The values of the functions of a group, in their order.
    ///
    /// # Errors
    /// `InvalidOption` for a sum that does not fit its type, where [`Overflow::Error`] is asked for; `Corrupt` for what is no
    /// state of these functions.
    pub fn values(&self, state: State<'_>) -> Result<Vec<Value>> {
        if state.words.len() != self.state_words {
            return Err(corrupt_bytes(
                0,
                "the words of a group's state",
                self.state_words,
                state.words.len(),
            ));
        }
        let sections = self.sections_of(state.tail).ok_or_else(|| corrupt_tail(state.tail))?;
        self.functions.iter().map(|asked| self.value(asked, state, &sections)).collect()
    }

    /// The sections of a tail, and nothing else.
    fn sections_of<'t>(&self, tail: &'t [u8]) -> Option<Vec<&'t [u8]>> {
        if tail.is_empty() {
            return Some(vec![&[]; self.sections]);
        }
        let mut reader = Reader::new(tail);
        let sections = (0..self.sections).map(|_| reader.section()).collect::<Option<_>>()?;
        reader.is_empty().then_some(sections)
    }

    fn value(&self, asked: &Asked, state: State<'_>, sections: &[&[u8]]) -> Result<Value> {
        let index = asked.parts[0];
        let part = &self.parts[index];
        let column_type = part.column_type;
        let words_of = |i: usize| {
            let part = &self.parts[asked.parts[i]];
            &state.words[part.at..part.at + part.words()]
        };
        let own = words_of(0);
        let section = part.section.map_or(&[][..], |section| sections[section]);
        let float = |value: Option<f64>| value.map_or(Value::Null, Value::Float);
        if part.kept.is_coded() {
            let count =
                if asked.parts.len() > 1 { words_of(1)[0] } else { own.first().copied().unwrap_or(0) };
            return self
                .of_section(asked.function, part, section, count)
                .ok_or_else(|| corrupt_tail(state.tail));
        }
        if matches!(part.kept, Kept::Rows | Kept::Count) {
            return Ok(Value::Unsigned(own[0]));
        }
        if state.words[0] >> index & 1 == 0 {
            return Ok(Value::Null);
        }
        Ok(match (asked.function, part.kept) {
            (Function::Mean { .. }, _) => {
                let count = match column_type {
                    ColumnType::Float => float_sum::count(own),
                    _ => words_of(1)[0],
                };
                float(moments::mean(moments::sum_of(column_type, own), count))
            }
            (Function::Variance { of, .. } | Function::Deviation { of, .. }, _) => {
                let squares = moments::squares_of(column_type, own);
                let sum = moments::sum_of(column_type, words_of(1));
                let is_root = matches!(asked.function, Function::Deviation { .. });
                float(moments::variance(sum, squares, words_of(2)[0], of, is_root))
            }
            (_, Kept::Sum) => self.sum(column_type, own)?,
            (_, Kept::First | Kept::Last) => Item::of_words(column_type, &own[1..], section).value(),
            _ => Item::of_words(column_type, own, section).value(),
        })
    }

    /// What a section says; `count` is that of items, or of those that are not in a bitmap.
    fn of_section(&self, function: Function, part: &Part, section: &[u8], count: u64) -> Option<Value> {
        let column_type = part.column_type;
        let list = |items: Vec<Item<'_>>, left_out| Value::List {
            values: items.into_iter().map(Item::value).collect(),
            left_out,
        };
        Some(match (function, part.kept) {
            (_, Kept::List { most }) => {
                let items = list::items(section, column_type, most)?;
                let left_out = count.saturating_sub(items.len() as u64);
                list(items, LeftOut::Exactly(left_out))
            }
            (_, Kept::Distinct { most }) => {
                let (items, has_more) = distinct::decoded(section, column_type, most)?;
                list(items, if has_more { LeftOut::Some } else { LeftOut::Exactly(0) })
            }
            (Function::Top { most, .. }, Kept::Frequent { tracked }) => {
                frequent::value(section, column_type, tracked, most, count)?
            }
            (_, Kept::Registers { lg_m }) => {
                let sketch = registers::sketch(section, lg_m, &self.hasher)?;
                let (lower, upper) = (sketch.lower_bound(SIGMAS), sketch.upper_bound(SIGMAS));
                Value::About { value: sketch.estimate(), lower, upper }
            }
            (Function::Quantile { q, .. }, Kept::Bins(quantizer)) => quantizer.quantile(section, q)?,
            (_, Kept::Bitmap { below }) => {
                let numbers = bitmap::decoded(section, below)?;
                let items = numbers.into_iter().map(|number| Item::Unsigned(number.into())).collect();
                list(items, LeftOut::Exactly(count))
            }
            _ => return None,
        })
    }

    fn sum(&self, column_type: ColumnType, own: &[u64]) -> Result<Value> {
        Ok(match column_type {
            ColumnType::Float => Value::Float(float_sum::value(own)),
            ColumnType::Unsigned => Value::Unsigned(match u64::try_from(wide(own)) {
                Ok(sum) => sum,
                Err(_) => self.overflowed(wide(own), u64::MAX)?,
            }),
            ColumnType::Wide => Value::Wide(match moments::wide_of(own) {
                Ok(sum) => sum,
                Err((is_negative, digits)) => {
                    self.overflowed(digits, if is_negative { i128::MIN } else { i128::MAX })?
                }
            }),
            _ => {
                let sum = from_wide_signed(wide(own));
                Value::Signed(match i64::try_from(sum) {
                    Ok(sum) => sum,
                    Err(_) => self.overflowed(sum, if sum < 0 { i64::MIN } else { i64::MAX })?,
                })
            }
        })
    }

    fn overflowed<T>(&self, sum: impl ToString, nearest: T) -> Result<T> {
        match self.overflow {
            Overflow::Saturate => Ok(nearest),
            Overflow::Error => invalid(
                "a sum",
                sum,
                "it does not fit its column's type; ask for saturated sums, or sum a wider type",
            ),
        }
    }
}

fn corrupt_tail(tail: &[u8]) -> Error {
    corrupt_bytes(
        0,
        "the tail of a group's state",
        "one of these functions",
        format!("{} other bytes", tail.len()),
    )
}

impl Aggregate for Columns {
    /// The columns' types and the functions. What is done on overflow is not in it, for it changes no state.
    fn name(&self) -> String {
        let types: Vec<ColumnType> = self.columns.iter().map(|column| column.column_type).collect();
        let functions: Vec<Function> = self.functions.iter().map(|asked| asked.function).collect();
        format!("columns {types:?} {functions:?} of items of at most {} bytes", self.item_bytes_max)
    }

    fn row_words(&self) -> usize {
        self.row_words
    }

    fn state_words(&self) -> usize {
        self.state_words
    }

    fn has_tail(&self) -> bool {
        self.sections > 0 || self.columns.iter().any(|column| column.has_bytes)
    }

    fn update(&self, state: StateMut<'_>, row: Row<'_>) {
        let (seen, words) = state.words.split_at_mut(1);
        let place = row.words.get(PLACE_AT).copied().unwrap_or(0);
        for (i, part) in self.parts.iter().enumerate() {
            let mut item = Item::Null;
            if part.kept != Kept::Rows {
                item = item_of(row, &self.columns, part.column);
                if item == Item::Null {
                    continue;
                }
            }
            let is_first = seen[0] >> i & 1 == 0;
            seen[0] |= 1 << i;
            let own = &mut words[part.at - 1..part.at - 1 + part.words()];
            match part.section {
                None => part.update(own, is_first, item, place),
                Some(section) => tail::update_section(state.tail, section, self.sections, |old| {
                    part.update_section(own, old, is_first, (item, place), &self.hasher)
                }),
            }
        }
    }

    fn update_all(&self, state: StateMut<'_>, rows: &[Row<'_>]) {
        let StateMut { words, tail } = state;
        if self.sections == 0 {
            rows.iter().for_each(|&row| self.update(StateMut { words, tail }, row));
            return;
        }
        let (seen, words) = words.split_at_mut(1);
        let mut items = Vec::with_capacity(rows.len());
        for (i, part) in self.parts.iter().enumerate() {
            items.clear();
            items.extend(rows.iter().filter_map(|&row| {
                let place = row.words.get(PLACE_AT).copied().unwrap_or(0);
                if part.kept == Kept::Rows {
                    return Some((Item::Null, place));
                }
                Some(item_of(row, &self.columns, part.column))
                    .filter(|&item| item != Item::Null)
                    .zip(Some(place))
            }));
            if items.is_empty() {
                continue;
            }
            let is_first = seen[0] >> i & 1 == 0;
            seen[0] |= 1 << i;
            let own = &mut words[part.at - 1..part.at - 1 + part.words()];
            match part.section {
                None => {
                    for (i, &(item, place)) in items.iter().enumerate() {
                        part.update(own, is_first && i == 0, item, place);
                    }
                }
                Some(section) => tail::update_section(tail, section, self.sections, |old| {
                    part.update_section_by_all(own, old, is_first, &items, &self.hasher)
                }),
            }
        }
    }

    fn merge(&self, state: StateMut<'_>, other: State<'_>) {
        let (seen, words) = state.words.split_at_mut(1);
        let sections = self.sections_of(state.tail).zip(self.sections_of(other.tail));
        let mut merged = Vec::new();
        let mut has_any = false;
        let mut is_whole = sections.is_some();
        let (owns, others) = sections.unwrap_or_default();
        for (i, part) in self.parts.iter().enumerate() {
            let (is_first, has_other) = (seen[0] >> i & 1 == 0, other.words[0] >> i & 1 == 1);
            let own = &mut words[part.at - 1..part.at - 1 + part.words()];
            let other = &other.words[part.at..part.at + part.words()];
            let Some(section) = part.section else {
                if has_other {
                    part.merge(own, is_first, other);
                }
                continue;
            };
            if !is_whole {
                continue;
            }
            let before = merged.len();
            is_whole = match (is_first, has_other) {
                (_, false) => {
                    tail::push_section(&mut merged, owns[section]);
                    true
                }
                (true, true) => {
                    own.copy_from_slice(other);
                    tail::push_section(&mut merged, others[section]);
                    true
                }
                (false, true) => {
                    let (own, other) = ((own, owns[section]), (other, others[section]));
                    part.merge_sections(own, other, &mut merged).is_some()
                }
            };
            has_any |= merged.len() > before + 1;
        }
        seen[0] |= other.words[0];
        if self.sections == 0 {
            return;
        }
        if !is_whole {
            tail::corrupt(state.tail);
        } else if has_any {
            *state.tail = merged;
        } else {
            state.tail.clear();
        }
    }
}
