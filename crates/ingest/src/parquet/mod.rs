//! Parquet: the wanted columns of a file, row by row, as text that parsers take.
//!
//! ```text
//!   pages in the file ─▶ bytes, decompressed as they are asked for ─▶ cells: levels, values ─▶ records of a chunk
//!   header.rs               codec.rs, lz.rs                           column.rs, values.rs      here
//! ```
//!
//! 1. Pages are streams, never held whole: DuckDB writes pages of 64 MiB, and memory is for the user to choose. What must be
//!    held (dictionaries, levels, windows) is taken from one [`memory::Memory`] before it is allocated, whatever the file claims.
//! 2. The reader decodes, as it decompresses text: so one page of each wanted column is open, however many threads parse. Each
//!    page is read once; and where a chunk ends is known by its bytes.
//! 3. The `parquet` crate reads the metadata, which is guarded; everything behind them is decoded here, because its decoders take
//!    what a page claims.
//!
//! | | memory |
//! |---|---|
//! | a wanted column | its dictionary; buffers of 128 KiB; what its codec looks back on, 128 KiB for most; 4 bytes a value for some encodings |
//! | a chunk | as for text: its bytes |
//!
//! A record of a chunk, in the reader's own form:
//!
//! ```text
//! (input u32 │ row u64, where rows are kept) │ each field: length u32, all ones if null │ bytes
//! ```

mod codec;
mod column;
mod delta;
mod file;
mod header;
mod kind;
mod lz;
mod memory;
mod rle;
mod values;
mod writer;

pub use writer::ParquetWriter;

use crate::batch::Span;
use crate::cell::ColumnType;
use crate::chunk::{Buffer, Pool};
use crate::layout::{column_named, no_rows};
use crate::rows::Rows;
use crate::{Error, Options, Payload, Result};
use ::parquet::errors::Result as ParquetResult;
use column::{CellValue, Column};
use file::{Place, TableFile};
use kind::Kind;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The least buffer.
const MIN_BUFFER_BYTES: u64 = 4 << 10;
/// The length of a field that is null.
const NULL: u32 = u32::MAX;
/// What names a row that is kept.
const ROW_BYTES: usize = 12;

/// What can go wrong below a file's name.
#[derive(Debug)]
enum Fault {
    Read(io::Error),
    Damaged(String),
    Unsupported(String),
    /// `what` takes `bytes`, and with what is there already `needed_bytes`.
    DoesNotFit {
        what: &'static str,
        bytes: u64,
        needed_bytes: u64,
    },
}

impl Fault {
    /// The fault, of something else that did not fit.
    fn of(self, what: &'static str) -> Self {
        match self {
            Self::DoesNotFit { bytes, needed_bytes, .. } => Self::DoesNotFit { what, bytes, needed_bytes },
            other => other,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            _ if error.raw_os_error().is_some() => Self::Read(error),
            io::ErrorKind::UnexpectedEof => Self::Damaged("a page ends early".into()),
            _ => Self::Damaged(error.to_string()),
        }
    }
}

/// How long the values of a physical type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Bit,
    Fixed(usize),
    Any,
}

/// A file that is being read.
pub(crate) struct TableInput {
    file: TableFile,
    input: u32,
    wanted: Vec<Wanted>,
    memory_bytes: usize,
    keep_rows: bool,
    /// The row group at hand and its columns, and the next row.
    group: usize,
    columns: Vec<Column>,
    row: u64,
    /// The record at hand, which may be the first of the next chunk.
    record: Vec<u8>,
    value: Vec<u8>,
    reported: u64,
}

/// A wanted column.
struct Wanted {
    leaf: usize,
    name: String,
    kind: Kind,
    column_type: ColumnType,
}

/// What was cut off a file.
pub(crate) struct Records {
    pub(crate) text: Buffer,
    /// The row behind the last.
    pub(crate) end: u64,
    /// The file's bytes that stand for the rows.
    pub(crate) consumed: u64,
}

impl TableInput {
    /// Reads the metadata of input number `input`, finds the wanted columns and goes to row `row`.
    pub(crate) fn open(file: File, path: &Path, input: usize, row: u64, options: &Options) -> Result<Self> {
        let file = TableFile::open(file, path, options.parquet_bytes_max)?;
        let schema = file.schema();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        if options.lacks_key() {
            let choices = format!("columns are: {}", names.join(", "));
            return Err(Error::KeyNeeded { path: path.to_path_buf(), choices });
        }
        if options.payload == Payload::Row {
            return Err(no_rows(path));
        }
        let mut wanted = Vec::new();
        for field in options.fields() {
            let leaf = column_named(&names, field, path)?;
            let kind = Kind::of(&schema.column(leaf)).map_err(|why| Error::ColumnUnusable {
                name: field.into(),
                path: path.to_path_buf(),
                why: why.into(),
            })?;
            let column_type = kind.column_type(&schema.column(leaf));
            wanted.push(Wanted { leaf, name: field.into(), kind, column_type });
        }
        let mut table = Self {
            file,
            input: u32::try_from(input).unwrap_or(u32::MAX),
            wanted,
            memory_bytes: options.parquet_bytes_max,
            keep_rows: options.keep_rows || options.bare_rows,
            group: 0,
            columns: Vec::new(),
            row,
            record: Vec::new(),
            value: Vec::new(),
            reported: 0,
        };
        table.group = table.file.groups.partition_point(|group| group.end <= row);
        if row > 0 {
            table.open_group()?;
        }
        Ok(table)
    }

    /// The next rows, as many as fit into a chunk.
    pub(crate) fn next(&mut self, pool: &Arc<Pool>, options: &Options) -> Result<Option<Records>> {
        let mut text = pool.take();
        text.spare(options.chunk_bytes);
        let before = self.bytes_before(self.row);
        let mut rows = 0;
        loop {
            if self.record.is_empty() && !self.read_record(options)? {
                break;
            }
            let is_full = text.len() + self.record.len() > options.chunk_bytes || rows == options.chunk_lines;
            if is_full && rows > 0 {
                break;
            }
            text.extend(&self.record);
            self.record.clear();
            self.row += 1;
            rows += 1;
        }
        let consumed = self.bytes_before(self.row) - before;
        Ok((rows > 0).then_some(Records { text, end: self.row, consumed }))
    }

    /// The types of the last `count` of the wanted columns.
    pub(crate) fn column_types(&self, count: usize) -> Vec<ColumnType> {
        let first = self.wanted.len() - count;
        self.wanted[first..].iter().map(|wanted| wanted.column_type).collect()
    }

    /// How far the file is read that was not told before; all of it where `is_end`.
    pub(crate) fn progress(&mut self, is_end: bool) -> u64 {
        let reached = if is_end { self.file.size } else { self.bytes_before(self.row) };
        let new = reached.saturating_sub(self.reported);
        self.reported += new;
        new
    }

    /// The file's bytes, shared out evenly over its rows.
    fn bytes_before(&self, row: u64) -> u64 {
        let rows = self.file.rows().max(1);
        (u128::from(self.file.size) * u128::from(row) / u128::from(rows)) as u64
    }

    /// Reads the next row; false at the end.
    fn read_record(&mut self, options: &Options) -> Result<bool> {
        while self.file.groups.get(self.group).is_some_and(|group| group.end <= self.row) {
            (self.group, self.columns) = (self.group + 1, Vec::new());
        }
        if self.group == self.file.groups.len() {
            return Ok(false);
        }
        if self.columns.is_empty() {
            self.open_group()?;
        }
        if self.keep_rows {
            self.record.extend(self.input.to_le_bytes());
            self.record.extend(self.row.to_le_bytes());
        }
        let limit = options.record_limit();
        for slot in 0..self.columns.len() {
            if let Err(fault) = self.read_field(slot, limit) {
                self.record.clear();
                return Err(self.place(slot).explain(fault));
            }
        }
        Ok(true)
    }

    fn read_field(&mut self, slot: usize, limit: usize) -> std::result::Result<(), Fault> {
        let start = self.record.len();
        self.record.extend(NULL.to_le_bytes());
        let cell = self.columns[slot].next(&mut self.value, limit)?;
        let Some(cell) = cell else {
            return Err(Fault::Damaged("a column has fewer rows than its row group".into()));
        };
        match cell.value {
            CellValue::Null => {}
            CellValue::TooLong => {
                let bytes = limit as u64 + 1;
                // Rows have a share of the memory as pages have one, and both grow with it.
                let needed_bytes = self.memory_bytes as u64 * 2;
                return Err(Fault::DoesNotFit { what: "value", bytes, needed_bytes });
            }
            CellValue::Read => {
                self.wanted[slot].kind.append(&self.value, &mut self.record)?;
                let length = (self.record.len() - start - 4) as u32;
                self.record[start..start + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Opens the columns of the row group at hand, at the row at hand.
    fn open_group(&mut self) -> Result<()> {
        let Some(rows) = self.file.groups.get(self.group) else { return Ok(()) };
        let passed = self.row - rows.start;
        for slot in 0..self.wanted.len() {
            let open = || {
                let mut column = self.file.column(self.group, self.wanted[slot].leaf)?;
                column.skip(passed)?;
                Ok(column)
            };
            let column = open().map_err(|fault| self.place(slot).explain(fault))?;
            self.columns.push(column);
        }
        Ok(())
    }

    fn place(&self, slot: usize) -> Place<'_> {
        let (path, column) = (self.file.path.as_path(), self.wanted[slot].name.as_str());
        Place { path, column, row: self.row, memory_bytes: self.memory_bytes }
    }
}

/// Finds the fields of a chunk's records.
pub(crate) fn parse(keeps_rows: bool, rows: &mut Rows) -> Result<()> {
    let mut at = 0;
    while at < rows.text.len() {
        let start = at;
        at += if keeps_rows { ROW_BYTES } else { 0 };
        let row = start..at;
        rows.begin();
        let mut null = None;
        for slot in 0..rows.out.fields.len() {
            // The reader has written these lengths.
            let Some(length) = rows.text[at..].first_chunk::<4>() else { return Ok(()) };
            let length = u32::from_le_bytes(*length);
            at += 4;
            if length == NULL {
                // A column may be null.
                null = null.or(Some(slot).filter(|&slot| !rows.is_of_column(slot)));
            } else {
                rows.out.fields[slot] = Span::text(at, length as usize);
                at += length as usize;
            }
        }
        match null {
            None => rows.end(row)?,
            Some(slot) => rows.missing(slot, row, |_| true, "null")?,
        }
    }
    Ok(())
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, at this moment, is one that is caught here and becomes [`Error::Damaged`]: for the
/// panic hook of a program.
///
/// The `parquet` crate panics on some damaged metadata. The panic is caught, but before that the process's panic hook
/// prints its message. The hook belongs to the program, so this library leaves it alone, and tells it instead:
///
/// ```
/// let print = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |panic| {
///     if !overbank_ingest::is_panic_caught() {
///         print(panic);
///     }
/// }));
/// ```
pub fn is_panic_caught() -> bool {
    DECODING.get()
}

/// Runs a decoder of the `parquet` crate; what is wrong if it fails or panics.
fn guarded<T>(decode: impl FnOnce() -> ParquetResult<T>) -> std::result::Result<T, String> {
    DECODING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    match outcome {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err("the decoder gave up".into()),
    }
}
