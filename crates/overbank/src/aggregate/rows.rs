//! Rows of items, packed one behind the other.
//!
//! ```text
//!   words   NULLs │ place │ column 0 │ column 1 │ …       a bit a column that is NULL; a place only where a function asks for it
//!   bytes                   those of column 0, of column 1, …       a column's word is how many it has
//! ```

use super::state::Row;
use super::value::{ColumnType, Item};

/// Rows that [`Columns::push_row`](super::Columns::push_row) packs, to be used again and again.
///
/// ```
/// use overbank::aggregate::{ColumnType, Columns, Function, Groups, GroupsOptions, Item, RowBatch, Value};
///
/// let columns = Columns::new(&[ColumnType::Bytes], &[Function::Min { column: 0 }])?;
/// let groups = Groups::new(columns.clone(), GroupsOptions::new())?;
/// let mut rows = RowBatch::new();
/// for (place, name) in [&b"pear"[..], b"fig"].into_iter().enumerate() {
///     columns.push_row(place as u64, &[Item::Bytes(name)], &mut rows)?;
/// }
/// groups.insert_batch(&["fruit", "fruit"], &rows)?;
/// let fruit = groups.get(b"fruit")?.ok_or("no fruit")?;
/// assert_eq!(columns.values(fruit.as_state())?, [Value::Bytes(b"fig".to_vec())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct RowBatch {
    pub(super) words: Vec<u64>,
    pub(super) bytes: Vec<u8>,
    /// Where the words and the bytes of each row end.
    pub(super) ends: Vec<(usize, usize)>,
}

impl RowBatch {
    /// No rows.
    pub fn new() -> RowBatch {
        RowBatch::default()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets the rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.bytes.clear();
        self.ends.clear();
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn row(&self, i: usize) -> Row<'_> {
        let (words, bytes) = i.checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        let (words_end, bytes_end) = self.ends[i];
        Row { words: &self.words[words..words_end], bytes: &self.bytes[bytes..bytes_end] }
    }
}

/// Where a column stands in rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowColumn {
    pub(super) column_type: ColumnType,
    /// Its first word.
    pub(super) at: usize,
    /// Whether its bytes are in the row, and not only how many they are.
    pub(super) has_bytes: bool,
}

/// Where the place stands in rows that have one.
pub(super) const PLACE_AT: usize = 1;

/// The item of a column of a row, which need not be one that was packed here.
#[inline]
pub(super) fn item_of<'r>(row: Row<'r>, columns: &[RowColumn], column: usize) -> Item<'r> {
    if row.words[0] >> column & 1 == 1 {
        return Item::Null;
    }
    let RowColumn { column_type, at, has_bytes } = columns[column];
    let mut bytes: &[u8] = &[];
    if has_bytes {
        let length = |before: &RowColumn| usize::try_from(row.words[before.at]).unwrap_or(usize::MAX);
        let begin = columns[..column]
            .iter()
            .filter(|before| before.has_bytes)
            .fold(0usize, |sum, before| sum.saturating_add(length(before)));
        bytes = row.bytes.get(begin..).unwrap_or(&[]);
        bytes = &bytes[..bytes.len().min(length(&columns[column]))];
    }
    Item::of_words(column_type, &row.words[at..], bytes)
}
