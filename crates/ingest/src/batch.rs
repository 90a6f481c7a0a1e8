//! A batch: the keys of one chunk with their hashes, weights, values and payloads, in the chunk's order.

use crate::KeyForm;
use crate::cell::{Cell, ColumnType};
use crate::chunk::Chunk;
use keyhash::{KeyHash, KeyHasher};
use std::path::Path;
use std::sync::Arc;

/// Why a row yields no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not what its format has for a row, or its weight or value is no number.
    Malformed,
    /// It lacks a key field, or has null, an array or an object there.
    Missing,
}

/// A row that yields no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Why not.
    pub fault: Fault,
    /// The input that it stands in.
    pub input: Arc<Path>,
    /// Its line number from 1 (row number for Parquet); a quoted field may run over more lines.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// The rows of one chunk. It is meant to be used again: parsing the next chunk into it allocates nothing once it
/// has grown to the usual size, and gives the last chunk's buffer back to its reader.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) chunk: Option<Chunk>,
    pub(crate) arena: Vec<u8>,
    pub(crate) keys: Vec<Span>,
    /// The rows as they stand in the text, where they are kept.
    pub(crate) rows: Vec<Span>,
    /// The rows' places among all rows of the chunk, where they are wanted and differ from those among the rows here.
    pub(crate) ordinals: Vec<u32>,
    pub(crate) hashes: Vec<KeyHash>,
    pub(crate) weights: Vec<u64>,
    pub(crate) values: Vec<f64>,
    /// What goes with each key, where it is asked for.
    pub(crate) payloads: Vec<Span>,
    /// The typed columns, where they are asked for.
    pub(crate) columns: Vec<StoredColumn>,
    /// The columns that some row has, null or not, as bits.
    pub(crate) columns_seen: u128,
    /// The values of the row at hand, one a column.
    pub(crate) cells: Vec<Option<StoredCell>>,
    pub(crate) weighted: bool,
    pub(crate) valued: bool,
    /// Kept rows without a key: how many rows with one come before, how many rows of any kind, and the row.
    pub(crate) keyless: Vec<(u32, u32, Span)>,
    pub(crate) rejects: Vec<Span>,
    pub(crate) malformed: u64,
    pub(crate) missing: u64,
    /// The fields, by slot, that rows without a key had, as bits.
    pub(crate) seen: u128,
    pub(crate) bad_rows: Vec<BadRow>,
    /// The fields of the row at hand, by slot.
    pub(crate) fields: Vec<Span>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    /// How many decompressed bytes of input they came from; for Parquet, the file's bytes shared out over its rows.
    pub fn bytes(&self) -> u64 {
        self.chunk.as_ref().map_or(0, |chunk| chunk.consumed)
    }

    /// The chunk that the rows came from: its sequence number, input and position.
    ///
    /// # Panics
    /// Before the first [`crate::Parser::parse`] into this batch, and after one that failed.
    pub fn chunk(&self) -> &Chunk {
        self.chunk.as_ref().expect("a batch has a chunk once it was parsed into")
    }

    /// The key of row `i`: the field's bytes, or [`crate::join_key`] of several fields.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::rows`].
    #[inline]
    pub fn key(&self, i: usize) -> &[u8] {
        resolve(self.keys[i], self.text(), &self.arena)
    }

    /// Row `i` as it stands in the input, with its line end if it has one; for Parquet, bytes that name it to a
    /// [`crate::ParquetWriter`]. Only with [`crate::Options::keep_rows`].
    ///
    /// # Panics
    /// If rows are not kept, or `i` is not below [`Batch::rows`].
    #[inline]
    pub fn row(&self, i: usize) -> &[u8] {
        resolve(self.rows[i], self.text(), &[])
    }

    /// The place of row `i` among all rows of the chunk, those that are skipped included, from 0. Only with
    /// [`crate::Options::number_rows`].
    pub fn ordinal(&self, i: usize) -> u64 {
        self.ordinals.get(i).map_or(i as u64, |&ordinal| ordinal.into())
    }

    /// The length in bytes of the key of row `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::rows`].
    #[inline]
    pub fn key_len(&self, i: usize) -> usize {
        self.keys[i].len as usize
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let text = self.text();
        self.keys.iter().map(move |&span| resolve(span, text, &self.arena))
    }

    /// The sum of the keys' lengths.
    pub fn key_bytes(&self) -> u64 {
        self.keys.iter().map(|span| u64::from(span.len)).sum()
    }

    /// The keys' hashes, in order.
    pub fn hashes(&self) -> &[KeyHash] {
        &self.hashes
    }

    /// The rows' weights, where a weight field was asked for.
    pub fn weights(&self) -> Option<&[u64]> {
        self.weighted.then_some(&self.weights)
    }

    /// The rows' values, where a value field was asked for.
    pub fn values(&self) -> Option<&[f64]> {
        self.valued.then_some(&self.values)
    }

    /// What goes with the key of row `i`, as [`crate::Options::payload`] says: the field's bytes, or [`crate::join_key`] of several
    /// fields.
    ///
    /// # Panics
    /// If no payload is asked for, or `i` is not below [`Batch::rows`].
    #[inline]
    pub fn payload(&self, i: usize) -> &[u8] {
        resolve(self.payloads[i], self.text(), &self.arena)
    }

    /// All payloads, in order; none where they are not asked for.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let text = self.text();
        self.payloads.iter().map(move |&span| resolve(span, text, &self.arena))
    }

    /// The values of column `column` of [`crate::Options::columns`], one a row; where [`Batch::nulls`] says so, it is NULL and what stands
    /// here means nothing.
    ///
    /// # Panics
    /// If there are not so many columns.
    pub fn column(&self, column: usize) -> Column<'_> {
        match &self.columns[column].values {
            Values::Texts(spans) => Column::Texts(Texts { spans, text: self.text(), arena: &self.arena }),
            Values::Integers(values) => Column::Integers(values),
            Values::Unsigned(values) => Column::Unsigned(values),
            Values::Floats(values) => Column::Floats(values),
            Values::Booleans(values) => Column::Booleans(values),
            Values::Decimals(values) => Column::Decimals(values),
        }
    }

    /// Whether each row has NULL in column `column`.
    ///
    /// # Panics
    /// If there are not so many columns.
    pub fn nulls(&self, column: usize) -> &[bool] {
        &self.columns[column].nulls
    }

    /// Which columns some row of the batch has, be it with null, as bits from the lowest: one that no row of a whole input has is a name
    /// that was mistyped. Only JSON has no list of its fields to compare names with at once.
    pub fn columns_seen(&self) -> u128 {
        let has_names = self.chunk.as_ref().is_none_or(|chunk| chunk.format() != crate::Format::JsonLines);
        if has_names { u128::MAX } else { self.columns_seen }
    }

    /// Takes the chunk out, to be parsed again in another way; the batch is empty then.
    pub fn take_chunk(&mut self) -> Option<Chunk> {
        let chunk = self.chunk.take();
        self.reset(self.weighted, self.valued);
        chunk
    }

    /// The rows without a key, where [`crate::Missing::Keep`] keeps them: each with how many of the batch's rows come before it and
    /// its place among all rows of the chunk, in order.
    pub fn keyless(&self) -> impl ExactSizeIterator<Item = (usize, u64, &[u8])> {
        let text = self.text();
        self.keyless
            .iter()
            .map(move |&(before, place, span)| (before as usize, place.into(), resolve(span, text, &[])))
    }

    /// The rows that are left out, as they stand in the input, in order. Only with [`crate::Options::keep_rejects`].
    pub fn rejects(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let text = self.text();
        self.rejects.iter().map(move |&span| resolve(span, text, &[]))
    }

    /// How many rows were left out because they are malformed.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// How many rows have no key: kept or left out, as [`crate::Options::missing`] says.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// How many rows were left out, for whatever reason.
    pub fn skipped(&self) -> u64 {
        self.malformed + self.missing - self.keyless.len() as u64
    }

    /// Which key fields some row has, as bits from the lowest: a field that no row of a whole input has is a name that was mistyped.
    pub fn fields_seen(&self) -> u128 {
        if self.keys.is_empty() { self.seen } else { u128::MAX }
    }

    /// The first few of the rows without a key.
    pub fn bad_rows(&self) -> &[BadRow] {
        &self.bad_rows
    }

    pub(crate) fn reset(&mut self, weighted: bool, valued: bool) {
        self.chunk = None;
        self.arena.clear();
        self.keys.clear();
        self.rows.clear();
        self.ordinals.clear();
        self.hashes.clear();
        self.weights.clear();
        self.values.clear();
        self.payloads.clear();
        self.columns.iter_mut().for_each(StoredColumn::clear);
        self.columns_seen = 0;
        (self.weighted, self.valued) = (weighted, valued);
        self.keyless.clear();
        self.rejects.clear();
        (self.malformed, self.missing, self.seen) = (0, 0, 0);
        self.bad_rows.clear();
    }

    pub(crate) fn hash_keys(&mut self, hasher: &KeyHasher, form: KeyForm) {
        let (text, arena) = (self.chunk.as_ref().map_or(&[][..], Chunk::text), &self.arena);
        let keys = self.keys.iter().map(|&span| resolve(span, text, arena));
        match form {
            // The form is looked at once a batch.
            KeyForm::Text => self.hashes.extend(keys.map(|key| hasher.hash(key))),
            KeyForm::Numbers => self.hashes.extend(keys.map(|key| form.hash(hasher, key))),
        }
    }

    fn text(&self) -> &[u8] {
        self.chunk.as_ref().map_or(&[], Chunk::text)
    }
}

/// The values of a column.
#[derive(Clone, Copy, Debug)]
pub enum Column<'b> {
    /// Of text and bytes.
    Texts(Texts<'b>),
    /// Of integers, dates and timestamps.
    Integers(&'b [i64]),
    /// Of integers that are not below zero.
    Unsigned(&'b [u64]),
    /// Of floats.
    Floats(&'b [f64]),
    /// Of truth values.
    Booleans(&'b [bool]),
    /// Of decimals, without the point.
    Decimals(&'b [i128]),
}

/// Texts of a column.
#[derive(Clone, Copy)]
pub struct Texts<'b> {
    spans: &'b [Span],
    text: &'b [u8],
    arena: &'b [u8],
}

impl std::fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").field("rows", &self.spans.len()).finish()
    }
}

impl<'b> Texts<'b> {
    /// All of them, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'b [u8]> {
        self.spans.iter().map(move |&span| resolve(span, self.text, self.arena))
    }
}

/// A typed column of a batch.
#[derive(Debug)]
pub(crate) struct StoredColumn {
    kind: ColumnType,
    values: Values,
    nulls: Vec<bool>,
}

#[derive(Debug)]
enum Values {
    Texts(Vec<Span>),
    Integers(Vec<i64>),
    Unsigned(Vec<u64>),
    Floats(Vec<f64>),
    Booleans(Vec<bool>),
    Decimals(Vec<i128>),
}

/// The value of a typed column in the row at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoredCell {
    Text(Span),
    Typed(Cell),
}

impl StoredColumn {
    pub(crate) fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Text | ColumnType::Bytes => Values::Texts(Vec::new()),
            ColumnType::Integer | ColumnType::Date | ColumnType::Timestamp { .. } => {
                Values::Integers(Vec::new())
            }
            ColumnType::Unsigned => Values::Unsigned(Vec::new()),
            ColumnType::Float32 | ColumnType::Float => Values::Floats(Vec::new()),
            ColumnType::Boolean => Values::Booleans(Vec::new()),
            ColumnType::Decimal { .. } => Values::Decimals(Vec::new()),
        };
        Self { kind, values, nulls: Vec::new() }
    }

    pub(crate) fn kind(&self) -> ColumnType {
        self.kind
    }

    fn clear(&mut self) {
        self.nulls.clear();
        match &mut self.values {
            Values::Texts(values) => values.clear(),
            Values::Integers(values) => values.clear(),
            Values::Unsigned(values) => values.clear(),
            Values::Floats(values) => values.clear(),
            Values::Booleans(values) => values.clear(),
            Values::Decimals(values) => values.clear(),
        }
    }

    /// Adds a value of the column's type, or NULL.
    pub(crate) fn push(&mut self, cell: Option<StoredCell>) {
        self.nulls.push(cell.is_none());
        match (&mut self.values, cell) {
            (Values::Texts(values), Some(StoredCell::Text(span))) => values.push(span),
            (Values::Texts(values), _) => values.push(Span::EMPTY),
            (Values::Integers(values), Some(StoredCell::Typed(Cell::Integer(value)))) => values.push(value),
            (Values::Integers(values), _) => values.push(0),
            (Values::Unsigned(values), Some(StoredCell::Typed(Cell::Unsigned(value)))) => values.push(value),
            (Values::Unsigned(values), _) => values.push(0),
            (Values::Floats(values), Some(StoredCell::Typed(Cell::Float(value)))) => values.push(value),
            (Values::Floats(values), _) => values.push(0.0),
            (Values::Booleans(values), Some(StoredCell::Typed(Cell::Boolean(value)))) => values.push(value),
            (Values::Booleans(values), _) => values.push(false),
            (Values::Decimals(values), Some(StoredCell::Typed(Cell::Decimal(value)))) => values.push(value),
            (Values::Decimals(values), _) => values.push(0),
        }
    }
}

/// Where bytes lie: in the chunk's text, or with the top bit of `start` set, in the batch's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

const IN_ARENA: u32 = 1 << 31;

impl Span {
    /// A field that the row at hand does not have.
    pub(crate) const MISSING: Span = Span { start: u32::MAX, len: u32::MAX };
    /// No bytes.
    pub(crate) const EMPTY: Span = Span { start: 0, len: 0 };

    /// `start` and `len` are below 2^31: chunks are at most [`crate::Options::record_bytes_max`].
    #[inline]
    pub(crate) fn text(start: usize, len: usize) -> Span {
        Span { start: start as u32, len: len as u32 }
    }

    /// Where in the arena it lies, if there.
    pub(crate) fn arena_range(self) -> Option<std::ops::Range<usize>> {
        let start = (self.start & !IN_ARENA) as usize;
        (self.start & IN_ARENA != 0).then_some(start..start + self.len as usize)
    }

    /// The bytes of `arena` from `start` on; `None` where the arena has outgrown 31 bits.
    #[inline]
    pub(crate) fn arena_from(start: usize, arena: &[u8]) -> Option<Span> {
        let len = arena.len() - start;
        (arena.len() < IN_ARENA as usize).then_some(Span { start: start as u32 | IN_ARENA, len: len as u32 })
    }
}

#[inline]
pub(crate) fn resolve<'a>(span: Span, text: &'a [u8], arena: &'a [u8]) -> &'a [u8] {
    let (bytes, start) = if span.start & IN_ARENA == 0 {
        (text, span.start as usize)
    } else {
        (arena, (span.start & !IN_ARENA) as usize)
    };
    &bytes[start..start + span.len as usize]
}
