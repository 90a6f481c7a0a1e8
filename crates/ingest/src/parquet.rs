//! Parquet: chunks name rows, and parsing decodes the wanted columns of these rows, a block at a time.
//!
//! Strings and byte arrays give their bytes; integers their decimal text, floats the shortest text that reads back the
//! same, booleans `true` and `false`: so a key hashes as it does from CSV. A null is a missing key. Columns
//! inside lists or maps, decimals and 96-bit timestamps are refused when the file is opened.
//!
//! Only the column readers of the `parquet` crate are used, not its Arrow side: one value at a time is all that is
//! needed here. The crate's decoders meet hostile bytes, so a panic in them is caught and reported as damage.

use crate::batch::Span;
use crate::page_header::PlausiblePages;
use crate::parser::Rows;
use crate::{Error, Options, Result, page_header};
use ::parquet::basic::{ConvertedType, LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{AsBytes, DataType};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::reader::{ChunkReader, FileReader, Length};
use ::parquet::file::serialized_reader::{SerializedFileReader, SerializedPageReader};
use ::parquet::schema::types::ColumnDescriptor;
use bytes::Bytes;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows decoded at a time: enough to keep the decoders' loops long, few enough that decoded values stay in cache.
const BLOCK_ROWS: usize = 4096;
/// What a row of a batch takes besides its key: hash, place, weight.
const ROW_BYTES: u64 = 32;

/// Bytes read at a time for a page's header; most have no statistics and take 20 to 60.
const HEADER_BYTES: usize = 256;

/// An open file, its row groups and the wanted columns.
pub(crate) struct ParquetInput {
    file: SerializedFileReader<Positional>,
    /// The file again, for pages.
    pages: Arc<Positional>,
    path: PathBuf,
    size: u64,
    /// Leaf columns, by slot.
    leaves: Vec<usize>,
    /// Row numbers of each row group.
    groups: Arc<[Group]>,
}

#[derive(Clone, Debug)]
struct Group {
    rows: Range<u64>,
    chunk_rows: u64,
}

impl std::fmt::Debug for ParquetInput {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("ParquetInput").field("path", &self.path).field("leaves", &self.leaves).finish()
    }
}

impl ParquetInput {
    /// Reads the file's metadata and finds the wanted columns.
    pub(crate) fn open(file: File, path: &Path, options: &Options) -> Result<Self> {
        let size =
            file.metadata().map_err(|source| Error::Read { path: path.to_path_buf(), at: 0, source })?.len();
        let source = Positional { file: Arc::new(file), size, pages: false };
        let pages = Arc::new(Positional { file: Arc::clone(&source.file), size, pages: true });
        let file = guarded(path, 0, || Ok(SerializedFileReader::new(source)))?;
        let schema = file.metadata().file_metadata().schema_descr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        if options.keep_rows {
            return Err(Error::NoText { path: path.to_path_buf() });
        }
        if options.keys.is_empty() {
            let choices = format!("columns are: {}", names.join(", "));
            return Err(Error::KeyNeeded { path: path.to_path_buf(), choices });
        }
        let mut leaves = Vec::new();
        for field in options.fields() {
            let Some(leaf) = names.iter().position(|name| name == field) else {
                return Err(Error::NoSuchColumn {
                    name: field.into(),
                    path: path.to_path_buf(),
                    columns: names,
                });
            };
            if let Some(why) = unusable(&schema.column(leaf)) {
                let (name, path) = (field.into(), path.to_path_buf());
                return Err(Error::ColumnUnusable { name, path, why: why.into() });
            }
            leaves.push(leaf);
        }
        let groups = groups(&file, &leaves, options).ok_or_else(|| Error::Damaged {
            path: path.to_path_buf(),
            what: "Parquet",
            at: 0,
            why: "a row group has an impossible number of rows or columns".into(),
        })?;
        Ok(Self { file, pages, path: path.to_path_buf(), size, leaves, groups })
    }

    /// Cuts the rows from number `row` on into chunks.
    pub(crate) fn rows_from(&self, row: u64) -> RowCursor {
        RowCursor { groups: Arc::clone(&self.groups), row, size: self.size, reported: 0 }
    }
}

/// The chunks of a file, in order. A chunk lies in one row group; where it ends depends on where it starts only.
pub(crate) struct RowCursor {
    groups: Arc<[Group]>,
    row: u64,
    size: u64,
    reported: u64,
}

impl RowCursor {
    /// The next chunk's rows, and the file's bytes that stand for them. `progress` follows.
    pub(crate) fn next(&mut self, progress: &AtomicU64) -> Option<(Range<u64>, u64)> {
        let row = self.row;
        let group = self.groups.iter().find(|group| group.rows.contains(&row));
        let Some(group) = group else {
            progress.fetch_add(self.size - self.reported, Ordering::Relaxed);
            self.reported = self.size;
            return None;
        };
        let end = group.rows.end.min(row.saturating_add(group.chunk_rows));
        self.row = end;
        let bytes_before = self.bytes_before(end);
        progress.fetch_add(bytes_before.saturating_sub(self.reported), Ordering::Relaxed);
        self.reported = bytes_before;
        Some((row..end, bytes_before - self.bytes_before(row)))
    }

    /// The file's bytes, shared out evenly over its rows.
    fn bytes_before(&self, row: u64) -> u64 {
        let rows = self.groups.last().map_or(1, |group| group.rows.end).max(1);
        (u128::from(self.size) * u128::from(row) / u128::from(rows)) as u64
    }
}

/// Decodes the wanted columns of `range`.
pub(crate) fn parse(input: &ParquetInput, range: Range<u64>, rows: &mut Rows) -> Result<()> {
    let start = range.start;
    guarded(&input.path, start, || parse_rows(input, range, rows))?
}

/// The outer error is the decoder's, the inner one a row's.
fn parse_rows(input: &ParquetInput, range: Range<u64>, rows: &mut Rows) -> Result<ParquetResult<Result<()>>> {
    let Some(index) = input.groups.iter().position(|group| group.rows.contains(&range.start)) else {
        return Ok(Ok(Ok(())));
    };
    Ok((|| {
        let group = input.file.metadata().row_group(index);
        let group_rows = &input.groups[index].rows;
        let first = (range.start - group_rows.start) as usize;
        let mut columns = Vec::new();
        for &leaf in &input.leaves {
            let chunk = group.column(leaf);
            let rows = group_rows.end - group_rows.start;
            let pages = SerializedPageReader::new(Arc::clone(&input.pages), chunk, rows as usize, None)?;
            let pages = Box::new(PlausiblePages { pages, rows });
            let mut column =
                column(get_column_reader(chunk.column_descr_ptr(), pages), chunk.column_descr())?;
            column.skip(first)?;
            columns.push(column);
        }
        let count = (range.end - range.start) as usize;
        for block in (0..count).step_by(BLOCK_ROWS) {
            let block_rows = BLOCK_ROWS.min(count - block);
            for column in &mut columns {
                column.read(block_rows)?;
            }
            for row in 0..block_rows {
                if let Err(error) = take_row(&mut columns, row, block + row, rows) {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(()))
    })())
}

/// Row `row` of the block, which is row `at` of the chunk.
fn take_row(columns: &mut [Box<dyn Column>], row: usize, at: usize, rows: &mut Rows) -> Result<()> {
    rows.begin();
    let mut null = None;
    for (slot, column) in columns.iter_mut().enumerate() {
        let start = rows.out.arena.len();
        if column.append(row, &mut rows.out.arena) {
            rows.out.fields[slot] = Span::arena_from(start, &rows.out.arena).unwrap_or(Span::MISSING);
        } else {
            null = null.or(Some(slot));
        }
    }
    match null {
        None => rows.end(at..at),
        Some(slot) => rows.missing(slot, at..at, |_| true, "null"),
    }
}

/// One column's values, a block at a time.
trait Column {
    fn skip(&mut self, rows: usize) -> ParquetResult<()>;
    fn read(&mut self, rows: usize) -> ParquetResult<()>;
    /// Appends the text of the block's row `row`, or tells that it is null. Rows are asked for in order.
    fn append(&mut self, row: usize, arena: &mut Vec<u8>) -> bool;
}

struct Typed<T: DataType, F> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    levels: Vec<i16>,
    level_max: i16,
    next_value: usize,
    print: F,
}

impl<T: DataType, F: Fn(&T::T, &mut Vec<u8>)> Column for Typed<T, F> {
    fn skip(&mut self, rows: usize) -> ParquetResult<()> {
        match self.reader.skip_records(rows)? {
            skipped if skipped == rows => Ok(()),
            skipped => Err(ParquetError::EOF(format!("a column has {skipped} rows before row {rows}"))),
        }
    }

    fn read(&mut self, rows: usize) -> ParquetResult<()> {
        self.values.clear();
        self.levels.clear();
        self.next_value = 0;
        let (read, _, _) = self.reader.read_records(rows, Some(&mut self.levels), None, &mut self.values)?;
        match read == rows {
            true => Ok(()),
            false => Err(ParquetError::EOF(format!("a column ends {} rows early", rows - read))),
        }
    }

    fn append(&mut self, row: usize, arena: &mut Vec<u8>) -> bool {
        let null = self.level_max > 0 && self.levels.get(row) != Some(&self.level_max);
        let value = if null { None } else { self.values.get(self.next_value) };
        let Some(value) = value else { return false };
        (self.print)(value, arena);
        self.next_value += 1;
        true
    }
}

fn column(reader: ColumnReader, descriptor: &ColumnDescriptor) -> ParquetResult<Box<dyn Column>> {
    fn typed<T: DataType>(
        reader: ColumnReaderImpl<T>,
        descriptor: &ColumnDescriptor,
        print: impl Fn(&T::T, &mut Vec<u8>) + 'static,
    ) -> ParquetResult<Box<dyn Column>> {
        let (values, levels, level_max) = (Vec::new(), Vec::new(), descriptor.max_def_level());
        Ok(Box::new(Typed { reader, values, levels, level_max, next_value: 0, print }))
    }
    /// Writing to a vector cannot fail.
    fn text(arena: &mut Vec<u8>, value: impl std::fmt::Display) {
        let _ = write!(arena, "{value}");
    }
    let unsigned = unsigned(descriptor);
    match reader {
        ColumnReader::BoolColumnReader(reader) => typed(reader, descriptor, |&value, out| text(out, value)),
        ColumnReader::Int32ColumnReader(reader) if unsigned => {
            typed(reader, descriptor, |&value, out| text(out, value as u32))
        }
        ColumnReader::Int32ColumnReader(reader) => typed(reader, descriptor, |&value, out| text(out, value)),
        ColumnReader::Int64ColumnReader(reader) if unsigned => {
            typed(reader, descriptor, |&value, out| text(out, value as u64))
        }
        ColumnReader::Int64ColumnReader(reader) => typed(reader, descriptor, |&value, out| text(out, value)),
        ColumnReader::FloatColumnReader(reader) => typed(reader, descriptor, |&value, out| text(out, value)),
        ColumnReader::DoubleColumnReader(reader) => typed(reader, descriptor, |&value, out| text(out, value)),
        ColumnReader::ByteArrayColumnReader(reader) => {
            typed(reader, descriptor, |value, out| out.extend_from_slice(value.as_bytes()))
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            typed(reader, descriptor, |value, out| out.extend_from_slice(value.as_bytes()))
        }
        ColumnReader::Int96ColumnReader(_) => Err(ParquetError::NYI("96-bit timestamps".into())),
    }
}

fn unsigned(column: &ColumnDescriptor) -> bool {
    let converted = matches!(
        column.converted_type(),
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
    );
    converted || matches!(column.logical_type_ref(), Some(LogicalType::Integer(kind)) if !kind.is_signed)
}

/// Why a column cannot be a key, weight or value.
fn unusable(column: &ColumnDescriptor) -> Option<&'static str> {
    let decimal = column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    if column.max_rep_level() > 0 {
        Some(
            "it lies in a list or a map, so a row has any number of values; choose another or flatten it first",
        )
    } else if decimal {
        Some("it is a decimal; cast it to a float, an integer or text first")
    } else if column.physical_type() == Type::INT96 {
        Some("it holds 96-bit timestamps, which Parquet has given up; cast it to a 64-bit timestamp first")
    } else {
        None
    }
}

/// The row groups that have rows; `None` if the metadata contradict themselves.
fn groups(
    file: &SerializedFileReader<Positional>,
    leaves: &[usize],
    options: &Options,
) -> Option<Arc<[Group]>> {
    let mut start = 0u64;
    let mut groups = Vec::new();
    for group in file.metadata().row_groups() {
        let count = u64::try_from(group.num_rows()).ok()?;
        let end = start.checked_add(count)?;
        let mut bytes = 0u64;
        for &leaf in leaves {
            let column = group.columns().get(leaf)?;
            let unencoded = column.unencoded_byte_array_data_bytes().unwrap_or(0);
            let column_bytes = column.uncompressed_size().max(unencoded);
            bytes = bytes.saturating_add(u64::try_from(column_bytes).ok()?);
        }
        let row_bytes = (bytes / count.max(1)).saturating_add(ROW_BYTES);
        let chunk_rows = (options.chunk_bytes as u64 / row_bytes).clamp(1, options.chunk_lines as u64);
        groups.push(Group { rows: start..end, chunk_rows });
        start = end;
    }
    Some(groups.into())
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, at this moment, is one that is caught here and becomes [`Error::Damaged`]: for the
/// panic hook of a program.
///
/// The `parquet` crate panics on some damaged files. The panic is caught, but before that the process's panic hook
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

/// Runs a decoder of the `parquet` crate; its errors and panics are damage near row `at`.
fn guarded<T>(path: &Path, at: u64, decode: impl FnOnce() -> Result<ParquetResult<T>>) -> Result<T> {
    let damaged = |why| Error::Damaged { path: path.to_path_buf(), what: "Parquet", at, why };
    DECODING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    match outcome {
        Ok(outcome) => outcome?.map_err(|error| damaged(error.to_string())),
        Err(_) => Err(damaged("the decoder gave up".into())),
    }
}

/// A file read at given places, so that threads do not share a cursor (clones of a `File` do).
struct Positional {
    file: Arc<File>,
    size: u64,
    /// Whether what is read from a place on is a page's header, to be checked first.
    pages: bool,
}

impl Length for Positional {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Positional {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let unchecked = self.pages.then(|| self.size.saturating_sub(start));
        Ok(BufReader::new(From { file: Arc::clone(&self.file), at: start, unchecked }))
    }

    /// A length that the file does not have is refused before anything is allocated for it.
    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.size) {
            let what = format!("{length} bytes at {start} of a file of {} bytes", self.size);
            return Err(ParquetError::EOF(what));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The file's bytes from a place on.
struct From {
    file: Arc<File>,
    at: u64,
    /// How many bytes the file has from here on, where a page's header starts here that was not yet checked. The
    /// page reader also asks for places that hold no header, but does not read there.
    unchecked: Option<u64>,
}

impl Read for From {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(left_bytes) = self.unchecked.take() {
            let header = From { file: Arc::clone(&self.file), at: self.at, unchecked: None };
            page_header::check(BufReader::with_capacity(HEADER_BYTES, header), left_bytes)?;
        }
        let count = self.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
