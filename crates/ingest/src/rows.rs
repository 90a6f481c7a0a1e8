//! Where the formats put the rows that they find: their fields are checked here, whatever format they were in.

use crate::batch::{Batch, Fault, Span, StoredCell, resolve};
use crate::cell::ColumnType;
use crate::chunk::Chunk;
use crate::key::append_field;
use crate::layout::Layout;
use crate::piece::Place;
use crate::{BadRow, Error, Missing, Options, Payload, Result};
use std::ops::Range;

/// What is wanted of each row, and what becomes of those that lack it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) names: Vec<String>,
    keys: usize,
    /// The types of the columns, whose fields come behind all others.
    pub(crate) columns: Vec<ColumnType>,
    is_bare: bool,
    pub(crate) weighted: bool,
    pub(crate) valued: bool,
    payload: Payload,
    has_payload: bool,
    has_escapes: bool,
    strict: bool,
    missing: Missing,
    line_end: u8,
    keep_rows: bool,
    number_rows: bool,
    keep_rejects: bool,
    bad_rows_kept: usize,
    has_pieces: bool,
}

impl Wanted {
    /// Whether rows have no key but columns, or nothing.
    pub(crate) fn is_keyless(&self) -> bool {
        self.is_bare || self.keys == 0 && !self.columns.is_empty()
    }

    fn first_column(&self) -> usize {
        self.names.len() - self.columns.len()
    }

    pub(crate) fn of(options: &Options) -> Self {
        Self {
            names: options.fields().map(str::to_owned).collect(),
            keys: options.keys.len(),
            columns: options.columns.iter().map(|column| column.kind).collect(),
            is_bare: options.bare_rows,
            weighted: options.weight.is_some(),
            valued: options.value.is_some(),
            payload: options.payload.clone(),
            has_escapes: options.has_escapes,
            has_payload: options.payload != Payload::None,
            strict: options.strict,
            missing: options.missing,
            line_end: options.line_end(),
            keep_rows: options.keep_rows,
            number_rows: options.number_rows,
            keep_rejects: options.keep_rejects,
            bad_rows_kept: options.bad_rows_kept,
            has_pieces: options.sequence_overlap.is_some(),
        }
    }
}

/// What rows of a format with a key of its own have beside the fields that are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    /// The key where none is asked for, if the row has one.
    pub(crate) key: Option<Span>,
    /// What goes with it.
    pub(crate) payload: Span,
}

/// Why a column of a row cannot be read.
enum Unread {
    Missing,
    /// What it is to be.
    NotOfType(String),
}

/// The rows of one chunk, on their way into its batch.
pub(crate) struct Rows<'a> {
    pub(crate) text: &'a [u8],
    /// The byte that ends a line.
    pub(crate) line_end: u8,
    pub(crate) out: &'a mut Batch,
    chunk: &'a Chunk,
    wanted: &'a Wanted,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(chunk: &'a Chunk, wanted: &'a Wanted, out: &'a mut Batch) -> Self {
        Self { text: chunk.text(), line_end: wanted.line_end, chunk, out, wanted }
    }

    /// Every line is a row and its key.
    pub(crate) fn lines(&mut self) {
        let (text, keys, rows) = (self.text, &mut self.out.keys, &mut self.out.rows);
        let has_return = self.line_end == b'\n';
        let mut start = 0;
        for newline in memchr::memchr_iter(self.line_end, text) {
            keys.push(trimmed(text, start, newline, has_return));
            if self.wanted.keep_rows {
                rows.push(Span::text(start, newline + 1 - start));
            }
            start = newline + 1;
        }
        if start < text.len() {
            keys.push(trimmed(text, start, text.len(), has_return));
            if self.wanted.keep_rows {
                rows.push(Span::text(start, text.len() - start));
            }
        }
        match self.wanted.payload {
            Payload::Row => self.out.payloads.extend_from_slice(&self.out.keys),
            Payload::Natural => self.out.payloads.resize(self.out.keys.len(), Span::EMPTY),
            _ => {}
        }
    }

    /// Forgets the fields of the row before.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.out.fields.fill(Span::MISSING);
    }

    /// The fields are those of the row in these bytes of the text, its line end included (those of its name for Parquet).
    #[inline]
    pub(crate) fn end(&mut self, row: Range<usize>) -> Result<()> {
        self.finish(row, None)
    }

    /// As [`Rows::end`], for a row that has something of its own.
    pub(crate) fn end_with(&mut self, row: Range<usize>, own: Own) -> Result<()> {
        self.finish(row, Some(own))
    }

    #[inline(always)]
    fn finish(&mut self, row: Range<usize>, own: Option<Own>) -> Result<()> {
        let fields = &self.out.fields[..self.wanted.first_column()];
        if let Some(slot) = fields.iter().position(|&field| field == Span::MISSING) {
            return self.missing(slot, row, |_| false, "missing");
        }
        let weight = match self.wanted.weighted {
            true => match whole_number(self.field(self.wanted.keys)) {
                Some(weight) => Some(weight),
                None => {
                    return self.bad_field(row, self.wanted.keys, "a weight, which is a whole number from 0");
                }
            },
            false => None,
        };
        let value_slot = self.wanted.keys + usize::from(self.wanted.weighted);
        let value = match self.wanted.valued {
            true => match finite_number(self.field(value_slot)) {
                Some(value) => Some(value),
                None => return self.bad_field(row, value_slot, "a value, which is a finite number"),
            },
            false => None,
        };
        // Whoever asks for no columns pays for this comparison alone.
        if !self.wanted.columns.is_empty()
            && let Err((slot, why)) = self.read_columns()
        {
            return match why {
                Unread::Missing => self.missing(slot, row, |_| false, "missing"),
                Unread::NotOfType(wanted) => self.bad_field(row, slot, &wanted),
            };
        }
        let key = match (self.wanted.keys, own) {
            (0, _) if self.wanted.is_keyless() => Some(Span::EMPTY),
            (1, _) => Some(self.out.fields[0]),
            (0, Some(Own { key: Some(key), .. })) => Some(key),
            (0, Some(_)) => return self.no_key(row, "the record has no name".to_owned(), |_| false),
            (keys, _) => self.join(0..keys),
        };
        let Some(key) = key else { return self.too_much(row) };
        // Whoever asks for no payload pays for this comparison alone.
        if self.wanted.has_payload && !self.push_payload(&row, own.map_or(Span::EMPTY, |own| own.payload)) {
            return self.too_much(row);
        }
        if self.wanted.number_rows {
            self.out.ordinals.push(self.number());
        }
        self.out.keys.push(key);
        for (column, cell) in self.out.columns.iter_mut().zip(&self.out.cells) {
            column.push(*cell);
        }
        if self.wanted.keep_rows {
            self.out.rows.push(Span::text(row.start, row.len()));
        }
        self.out.weights.extend(weight);
        self.out.values.extend(value);
        Ok(())
    }

    /// Reads the columns of the row at hand; the slot of one that cannot be, and why.
    #[inline(never)]
    fn read_columns(&mut self) -> std::result::Result<(), (usize, Unread)> {
        let first = self.wanted.first_column();
        // A field that is empty says nothing where text has no other way to say so.
        let (has_all, has_nulls) = match *self.chunk.layout {
            Layout::Csv { .. } | Layout::Delimited { .. } => (true, false),
            _ => (false, true),
        };
        self.out.cells.clear();
        for (column, kind) in self.wanted.columns.iter().enumerate() {
            let span = self.out.fields[first + column];
            if span == Span::MISSING {
                if has_all {
                    return Err((first + column, Unread::Missing));
                }
                self.out.cells.push(None);
                continue;
            }
            let text = resolve(span, self.text, &self.out.arena);
            let cell = match kind {
                _ if text.is_empty() && !has_nulls => None,
                ColumnType::Text if std::str::from_utf8(text).is_err() => {
                    return Err((first + column, Unread::NotOfType(kind.shown())));
                }
                kind if kind.is_text() => Some(StoredCell::Text(span)),
                kind => match kind.parse(text) {
                    Ok(cell) => Some(StoredCell::Typed(cell)),
                    Err(wanted) => return Err((first + column, Unread::NotOfType(wanted))),
                },
            };
            self.out.cells.push(cell);
        }
        Ok(())
    }

    /// Whether columns are read.
    pub(crate) fn has_columns(&self) -> bool {
        !self.wanted.columns.is_empty()
    }

    /// Whether the field in `slot` is one of a column, where null is a value like others.
    pub(crate) fn is_of_column(&self, slot: usize) -> bool {
        slot >= self.wanted.first_column()
    }

    /// Notes that rows have something, be it null, in the column of `slot`.
    pub(crate) fn see_column(&mut self, slot: usize) {
        self.out.columns_seen |= 1 << (slot - self.wanted.first_column());
    }

    /// Adds what goes with the key of the row at hand; false where the arena is full.
    #[inline(never)]
    fn push_payload(&mut self, row: &Range<usize>, natural: Span) -> bool {
        let payload = match &self.wanted.payload {
            Payload::None | Payload::Natural => Some(natural),
            Payload::Row => Some(self.bare(row)),
            Payload::Fields(names) => {
                let behind = self.wanted.first_column();
                match names.len() {
                    1 => Some(self.out.fields[behind - 1]),
                    count => self.join(behind - count..behind),
                }
            }
        };
        self.out.payloads.extend(payload);
        payload.is_some()
    }

    /// The batch has no room for what the row takes.
    #[cold]
    pub(crate) fn too_much(&mut self, row: Range<usize>) -> Result<()> {
        self.bad(row, || "the chunk's keys and values take more than 2 GiB".into())
    }

    /// A row without its line end.
    fn bare(&self, row: &Range<usize>) -> Span {
        let is_ended = self.text[row.clone()].last() == Some(&self.line_end);
        trimmed(self.text, row.start, row.end - usize::from(is_ended), self.line_end == b'\n')
    }

    /// The row in these bytes of the text (its name for Parquet) cannot be used.
    #[cold]
    pub(crate) fn bad(&mut self, row: Range<usize>, why: impl FnOnce() -> String) -> Result<()> {
        self.out.malformed += 1;
        if self.wanted.strict {
            let (path, line) = (self.chunk.input.to_path_buf(), self.line(row.start));
            return Err(Error::BadRow { path, line, why: why() });
        }
        if self.out.malformed <= self.wanted.bad_rows_kept as u64 {
            self.note(Fault::Malformed, row.start, why());
        }
        self.reject(row);
        Ok(())
    }

    /// The row has no value in `slot`, or `what`; `is_there` tells of other slots whether it has something there.
    #[cold]
    pub(crate) fn missing(
        &mut self,
        slot: usize,
        row: Range<usize>,
        is_there: impl Fn(usize) -> bool,
        what: &str,
    ) -> Result<()> {
        let name = &self.wanted.names[slot];
        let why = match what {
            "missing" => format!("the row has no field {name}"),
            _ => format!("field {name} is {what}"),
        };
        if slot >= self.wanted.keys {
            return self.bad(row, || why);
        }
        self.no_key(row, why, is_there)
    }

    /// The row has no key; `is_there` tells of slots without a field whether it has something there.
    #[cold]
    fn no_key(&mut self, row: Range<usize>, why: String, is_there: impl Fn(usize) -> bool) -> Result<()> {
        self.out.missing += 1;
        for (slot, field) in self.out.fields.iter().enumerate() {
            self.out.seen |= u128::from(*field != Span::MISSING || is_there(slot)) << slot;
        }
        if self.wanted.missing == Missing::Error {
            let (path, line) = (self.chunk.input.to_path_buf(), self.line(row.start));
            return Err(Error::MissingKey { path, line, why });
        }
        if self.out.missing <= self.wanted.bad_rows_kept as u64 {
            self.note(Fault::Missing, row.start, why);
        }
        match self.wanted.missing {
            Missing::Keep => {
                // This one is counted as missing already.
                let number = self.number() - 1;
                self.out.keyless.push((self.out.keys.len() as u32, number, Span::text(row.start, row.len())));
            }
            _ => self.reject(row),
        }
        Ok(())
    }

    fn note(&mut self, fault: Fault, at: usize, why: String) {
        let (input, line) = (self.chunk.input.clone(), self.line(at));
        self.out.bad_rows.push(BadRow { fault, input, line, why });
    }

    /// The bytes are of a row that is rejected.
    pub(crate) fn reject(&mut self, row: Range<usize>) {
        if self.wanted.keep_rejects {
            self.out.rejects.push(Span::text(row.start, row.len()));
        }
    }

    /// How many rows of the chunk were seen so far, of any kind.
    fn number(&self) -> u32 {
        (self.out.keys.len() as u64 + self.out.malformed + self.out.missing) as u32
    }

    /// The number of the line that byte `at` lies in; of the row that was counted last for Parquet and raw records.
    fn line(&self, at: usize) -> u64 {
        match *self.chunk.layout {
            Layout::Parquet { .. } | Layout::Raw(_) => self.chunk.line + u64::from(self.number()) - 1,
            _ => self.chunk.line + memchr::memchr_iter(self.line_end, &self.text[..at]).count() as u64,
        }
    }

    #[cold]
    fn bad_field(&mut self, row: Range<usize>, slot: usize, wanted: &str) -> Result<()> {
        let field = self.field(slot);
        let mut shown = String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned();
        if field.len() > 40 {
            shown.push('…');
        }
        let name = &self.wanted.names[slot];
        self.bad(row, || format!("field {name} is {shown:?}, not {wanted}"))
    }

    /// Where the text starts, if its rows are pieces of sequences.
    pub(crate) fn place(&self) -> Option<&'a Place> {
        self.chunk.place.as_deref()
    }

    /// Whether sequences are the keys.
    pub(crate) fn has_sequences(&self) -> bool {
        self.wanted.has_pieces
    }

    /// Whether fields are written with escapes.
    pub(crate) fn has_escapes(&self) -> bool {
        self.wanted.has_escapes
    }

    /// Whether the field in `slot` goes into the payload.
    pub(crate) fn is_of_payload(&self, slot: usize) -> bool {
        match &self.wanted.payload {
            Payload::Fields(names) => {
                let behind = self.wanted.first_column();
                (behind - names.len()..behind).contains(&slot)
            }
            _ => false,
        }
    }

    /// The name that the field in `slot` was asked for by.
    pub(crate) fn name(&self, slot: usize) -> &str {
        &self.wanted.names[slot]
    }

    fn field(&self, slot: usize) -> &[u8] {
        resolve(self.out.fields[slot], self.text, &self.out.arena)
    }

    /// Fields as one key or payload; `None` where the arena is full.
    fn join(&mut self, slots: Range<usize>) -> Option<Span> {
        let start = self.out.arena.len();
        for slot in slots.clone() {
            if slot > slots.start {
                self.out.arena.push(b'\t');
            }
            let field = self.out.fields[slot];
            append_field(field, self.text, &mut self.out.arena);
        }
        Span::arena_from(start, &self.out.arena)
    }
}

/// `text[start..end]`, without a carriage return at its end if a newline has one before it.
#[inline]
fn trimmed(text: &[u8], start: usize, end: usize, has_return: bool) -> Span {
    let cut = usize::from(has_return && end > start && text[end - 1] == b'\r');
    Span::text(start, end - start - cut)
}

fn whole_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

fn finite_number(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}
