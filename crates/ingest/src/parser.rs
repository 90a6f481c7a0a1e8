//! The parallel stage: chunks in, batches of hashed keys out.

use crate::batch::{Batch, Span, resolve};
use crate::chunk::{Body, Chunk};
use crate::key::append_field;
use crate::layout::Layout;
use crate::text::newlines;
use crate::{BadRow, Error, Options, Result, csv, delimited, json, parquet};
use keyhash::KeyHasher;
use std::ops::Range;

/// Parses chunks into batches. It holds no state between chunks, so any number of threads share one.
#[derive(Clone, Debug)]
pub struct Parser {
    hasher: KeyHasher,
    names: Vec<String>,
    keys: usize,
    weighted: bool,
    valued: bool,
    strict: bool,
    keep_rows: bool,
    number_rows: bool,
    bad_rows_kept: usize,
}

impl Parser {
    /// A parser for the chunks of a reader with the same `options`; `hasher` hashes the keys.
    pub fn new(options: &Options, hasher: KeyHasher) -> Self {
        Self {
            hasher,
            names: options.fields().map(str::to_owned).collect(),
            keys: options.keys.len(),
            weighted: options.weight.is_some(),
            valued: options.value.is_some(),
            strict: options.strict,
            keep_rows: options.keep_rows,
            number_rows: options.number_rows,
            bad_rows_kept: options.bad_rows_kept,
        }
    }

    /// Replaces what is in `out` by the rows of `chunk`, in order.
    ///
    /// # Cost
    /// One pass to parse and one to hash; no allocation a row, save where a JSON string has escapes.
    ///
    /// # Errors
    /// [`Error::BadRow`] for a malformed row, if `strict`; for Parquet, whatever reading the file brings. `out` is
    /// then empty.
    pub fn parse(&self, chunk: Chunk, out: &mut Batch) -> Result<()> {
        out.reset(self.weighted, self.valued);
        if let Err(error) = self.fill(&chunk, out) {
            out.reset(self.weighted, self.valued);
            return Err(error);
        }
        out.chunk = Some(chunk);
        out.hash_keys(&self.hasher);
        Ok(())
    }

    fn fill(&self, chunk: &Chunk, out: &mut Batch) -> Result<()> {
        out.fields.clear();
        out.fields.resize(self.names.len(), Span::MISSING);
        let mut rows = Rows { text: chunk.text(), chunk, out, parser: self };
        match (&chunk.body, &*chunk.layout) {
            (Body::TooLong { limit_bytes }, _) => rows.bad(0, || {
                format!("the record is longer than {limit_bytes} bytes (a quote that is never closed?)")
            })?,
            (Body::Text(_), Layout::Parquet { keeps_rows }) => parquet::parse(*keeps_rows, &mut rows)?,
            (Body::Text(_), Layout::Lines) => rows.lines(),
            (Body::Text(_), Layout::Delimited { delimiter, columns }) => {
                delimited::parse(*delimiter, columns, &mut rows)?;
            }
            (Body::Text(_), Layout::Csv { delimiter, columns, .. }) => {
                csv::parse(*delimiter, columns, &mut rows)?
            }
            (Body::Text(_), Layout::Json(tree)) => json::parse(tree, &mut rows)?,
        }
        Ok(())
    }
}

/// Where the formats put the rows that they find.
pub(crate) struct Rows<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) out: &'a mut Batch,
    chunk: &'a Chunk,
    parser: &'a Parser,
}

impl Rows<'_> {
    /// Every line is a row and its key.
    fn lines(&mut self) {
        let (text, keys, rows) = (self.text, &mut self.out.keys, &mut self.out.rows);
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', text) {
            keys.push(trimmed(text, start, newline));
            if self.parser.keep_rows {
                rows.push(Span::text(start, newline + 1 - start));
            }
            start = newline + 1;
        }
        if start < text.len() {
            keys.push(trimmed(text, start, text.len()));
            if self.parser.keep_rows {
                rows.push(Span::text(start, text.len() - start));
            }
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
        let at = row.start;
        if let Some(slot) = self.out.fields.iter().position(|&field| field == Span::MISSING) {
            let name = &self.parser.names[slot];
            return self.bad(at, || format!("the row has no field {name}"));
        }
        let weight = match self.parser.weighted {
            true => match whole_number(self.field(self.parser.keys)) {
                Some(weight) => Some(weight),
                None => {
                    return self.bad_field(at, self.parser.keys, "a weight, which is a whole number from 0");
                }
            },
            false => None,
        };
        let value_slot = self.parser.keys + usize::from(self.parser.weighted);
        let value = match self.parser.valued {
            true => match finite_number(self.field(value_slot)) {
                Some(value) => Some(value),
                None => return self.bad_field(at, value_slot, "a value, which is a finite number"),
            },
            false => None,
        };
        let key = match self.parser.keys {
            1 => self.out.fields[0],
            _ => match self.join() {
                Some(key) => key,
                None => return self.bad(at, || "the chunk's keys take more than 2 GiB".into()),
            },
        };
        if self.parser.number_rows {
            self.out.ordinals.push((self.out.keys.len() as u64 + self.out.skipped) as u32);
        }
        self.out.keys.push(key);
        if self.parser.keep_rows {
            self.out.rows.push(Span::text(at, row.len()));
        }
        self.out.weights.extend(weight);
        self.out.values.extend(value);
        Ok(())
    }

    /// The row that starts at byte `at` cannot be used.
    #[cold]
    pub(crate) fn bad(&mut self, at: usize, why: impl FnOnce() -> String) -> Result<()> {
        self.out.skipped += 1;
        let keep = self.out.bad_rows.len() < self.parser.bad_rows_kept;
        if !keep && !self.parser.strict {
            return Ok(());
        }
        let line = match *self.chunk.layout {
            // This one is skipped, and counted already.
            Layout::Parquet { .. } => self.chunk.line + self.out.keys.len() as u64 + self.out.skipped - 1,
            _ => self.chunk.line + newlines(&self.text[..at]),
        };
        let why = why();
        if self.parser.strict {
            return Err(Error::BadRow { path: self.chunk.input.to_path_buf(), line, why });
        }
        self.out.bad_rows.push(BadRow { input: self.chunk.input.clone(), line, why });
        Ok(())
    }

    #[cold]
    fn bad_field(&mut self, at: usize, slot: usize, wanted: &str) -> Result<()> {
        let field = self.field(slot);
        let mut shown = String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned();
        if field.len() > 40 {
            shown.push('…');
        }
        let name = &self.parser.names[slot];
        self.bad(at, || format!("field {name} is {shown:?}, not {wanted}"))
    }

    /// The name that the field in `slot` was asked for by.
    pub(crate) fn name(&self, slot: usize) -> &str {
        &self.parser.names[slot]
    }

    fn field(&self, slot: usize) -> &[u8] {
        resolve(self.out.fields[slot], self.text, &self.out.arena)
    }

    fn join(&mut self) -> Option<Span> {
        let start = self.out.arena.len();
        for slot in 0..self.parser.keys {
            if slot > 0 {
                self.out.arena.push(b'\t');
            }
            let field = self.out.fields[slot];
            append_field(field, self.text, &mut self.out.arena);
        }
        Span::arena_from(start, &self.out.arena)
    }
}

/// `text[start..end]` without a carriage return at its end.
#[inline]
pub(crate) fn trimmed(text: &[u8], start: usize, end: usize) -> Span {
    let cut = usize::from(end > start && text[end - 1] == b'\r');
    Span::text(start, end - start - cut)
}

fn whole_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

fn finite_number(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}
