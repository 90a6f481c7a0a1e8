//! Rows of Parquet inputs, written to another Parquet file: all their columns, lists and all, copied cell by cell.
//!
//! Rows that are kept are only named, and marked in a bitmap. When enough for a row group are marked, each column of the inputs'
//! row groups is read once more and its marked cells are written. So memory holds one page of one column, whatever the rows hold,
//! and nothing needs to wait but the bitmap.

use super::column::{CellValue, Column};
use super::file::{Place, TableFile};
use super::header::invalid;
use super::{Fault, ROW_BYTES};
use crate::{Error, Result};
use ::parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a row group, at least, unless there are no more: as many as DuckDB writes.
const GROUP_ROWS: u64 = 122_880;
/// How far apart the first and the last row of a row group may be in the input: a bitmap of 1 MiB.
const SPAN_ROWS: u64 = 8 << 20;
/// Cells written at a time.
const BATCH_CELLS: usize = 1024;
/// What a cell takes in a batch beside its bytes: its levels, and the handle of a string.
const CELL_BYTES: usize = 48;

/// A Parquet file of the rows that are kept of others.
pub struct ParquetWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    inputs: Vec<PathBuf>,
    memory_bytes: usize,
    file: TableFile,
    /// Which of the inputs is open.
    input: usize,
    marked: Marked,
}

/// Rows of one input that wait.
#[derive(Default)]
struct Marked {
    first: u64,
    bits: Vec<u64>,
    count: u64,
}

impl Marked {
    fn mark(&mut self, row: u64) {
        if self.count == 0 {
            self.first = row;
        }
        let at = row - self.first;
        self.bits.resize((at / 64) as usize + 1, 0);
        self.bits[(at / 64) as usize] |= 1 << (at % 64);
        self.count += 1;
    }

    fn contains(&self, row: u64) -> bool {
        let Some(at) = row.checked_sub(self.first) else { return false };
        self.bits.get((at / 64) as usize).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }

    /// From the first row to the last.
    fn span(&self) -> Range<u64> {
        let last = self.bits.last().map_or(0, |bits| 64 - u64::from(bits.leading_zeros()));
        self.first..self.first + (self.bits.len() as u64).saturating_sub(1) * 64 + last
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// A file with the schema, the codecs and the metadata of the first of `inputs`, which are Parquet files with one schema.
    /// Copying takes at most `memory_bytes`.
    ///
    /// # Errors
    /// Whatever opening the first input brings.
    pub fn new(out: W, inputs: Vec<PathBuf>, memory_bytes: usize) -> Result<Self> {
        let first = inputs.first().cloned().unwrap_or_default();
        let file = open(&first, memory_bytes)?;
        let schema = file.metadata.file_metadata().schema_descr().root_schema_ptr();
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties(&file, memory_bytes)));
        let out = out.map_err(|error| unwritten(error, &first))?;
        Ok(Self { out, inputs, memory_bytes, file, input: 0, marked: Marked::default() })
    }

    /// Writes the row that a batch's [`crate::Batch::row`] names. Rows come in their order.
    ///
    /// # Errors
    /// An input of another schema; whatever reading the input and writing the output brings.
    pub fn keep(&mut self, row: &[u8]) -> Result<()> {
        let (Some((input, row)), ROW_BYTES) = (row.split_first_chunk::<4>(), row.len()) else {
            return Err(Error::InvalidOption {
                name: "output",
                value: "Parquet".into(),
                why: "rows of text and of Parquet do not go into one output; run them apart".into(),
            });
        };
        let row = row.iter().rev().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        self.go_to(u32::from_le_bytes(*input) as usize)?;
        let span = self.marked.span();
        if self.marked.count > 0 {
            let is_enough = self.marked.count >= GROUP_ROWS;
            let group = self.file.groups.partition_point(|group| group.end < span.end);
            let is_next_group = self.file.groups.get(group).is_some_and(|group| group.end <= row);
            if is_enough && is_next_group || row - span.start >= SPAN_ROWS {
                self.write_group()?;
            }
        }
        self.marked.mark(row);
        Ok(())
    }

    /// Writes what waits and the end of the file; the output, as it was given.
    ///
    /// # Errors
    /// As [`ParquetWriter::keep`].
    pub fn finish(mut self) -> Result<W> {
        self.write_group()?;
        self.out.into_inner().map_err(|error| unwritten(error, &self.file.path))
    }

    /// Opens another input, if it is another.
    fn go_to(&mut self, input: usize) -> Result<()> {
        if input == self.input {
            return Ok(());
        }
        self.write_group()?;
        let path = self.inputs.get(input).cloned().unwrap_or_default();
        let next = open(&path, self.memory_bytes)?;
        if next.schema().root_schema() != self.file.schema().root_schema() {
            return Err(Error::InvalidOption {
                name: "input",
                value: path.display().to_string(),
                why: format!(
                    "its columns are not those of {}, and one Parquet output has one schema; run it by itself",
                    self.file.path.display()
                ),
            });
        }
        (self.file, self.input) = (next, input);
        Ok(())
    }

    /// Writes the marked rows as a row group.
    fn write_group(&mut self) -> Result<()> {
        let marked = std::mem::take(&mut self.marked);
        if marked.count == 0 {
            return Ok(());
        }
        let file = &self.file;
        let failed = |error| unwritten(error, &file.path);
        let mut group = self.out.next_row_group().map_err(failed)?;
        for leaf in 0..file.schema().num_columns() {
            let name = file.schema().column(leaf).path().string();
            let Some(mut column) = group.next_column().map_err(failed)? else { break };
            let mut copy = Copy { file, leaf, marked: &marked, memory_bytes: self.memory_bytes };
            let copied = copy.column(column.untyped());
            copied.map_err(|fault| match fault {
                CopyFault::Read(fault) => {
                    let (path, row) = (file.path.as_path(), marked.first);
                    Place { path, column: &name, row, memory_bytes: self.memory_bytes }.explain(fault)
                }
                CopyFault::Write(error) => failed(error),
            })?;
            column.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }
}

fn open(path: &Path, memory_bytes: usize) -> Result<TableFile> {
    let file = File::open(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
    TableFile::open(file, path, memory_bytes)
}

/// Each column is compressed as it was, and has a dictionary if it had one. Statistics are kept a row group, not a page: those
/// would grow with the file.
fn properties(file: &TableFile, memory_bytes: usize) -> WriterProperties {
    let page_bytes = (memory_bytes / 16).clamp(16 << 10, 1 << 20);
    let mut properties = WriterProperties::builder()
        .set_data_page_size_limit(page_bytes)
        .set_dictionary_page_size_limit(page_bytes)
        .set_write_batch_size(BATCH_CELLS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(file.metadata.file_metadata().key_value_metadata().cloned());
    if let Some(group) = file.metadata.row_groups().first() {
        for column in group.columns() {
            let path = column.column_path().clone();
            properties = properties
                .set_column_dictionary_enabled(path.clone(), column.dictionary_page_offset().is_some())
                .set_column_compression(path, column.compression());
        }
    }
    properties.build()
}

/// What the writer says: of the output, or of what was to be written.
fn unwritten(error: ParquetError, input: &Path) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => Error::Write { source: *source },
            Err(source) => Error::Write { source: io::Error::other(source) },
        },
        other => Error::Unsupported { path: input.to_path_buf(), what: format!("Parquet output ({other})") },
    }
}

enum CopyFault {
    Read(Fault),
    Write(ParquetError),
}

impl From<Fault> for CopyFault {
    fn from(fault: Fault) -> Self {
        Self::Read(fault)
    }
}

impl From<ParquetError> for CopyFault {
    fn from(error: ParquetError) -> Self {
        Self::Write(error)
    }
}

/// One column on its way.
struct Copy<'a> {
    file: &'a TableFile,
    leaf: usize,
    marked: &'a Marked,
    memory_bytes: usize,
}

impl Copy<'_> {
    fn column(&mut self, out: &mut ColumnWriter<'_>) -> std::result::Result<(), CopyFault> {
        match out {
            ColumnWriter::BoolColumnWriter(out) => self.typed::<BoolType>(out, |value| Ok(value != [0])),
            ColumnWriter::Int32ColumnWriter(out) => {
                self.typed::<Int32Type>(out, |value| Ok(i32::from_le_bytes(array(value)?)))
            }
            ColumnWriter::Int64ColumnWriter(out) => {
                self.typed::<Int64Type>(out, |value| Ok(i64::from_le_bytes(array(value)?)))
            }
            ColumnWriter::Int96ColumnWriter(out) => self.typed::<Int96Type>(out, |value| {
                let parts: [u8; 12] = array(value)?;
                let part =
                    |at: usize| u32::from_le_bytes([parts[at], parts[at + 1], parts[at + 2], parts[at + 3]]);
                let mut moment = Int96::new();
                moment.set_data(part(0), part(4), part(8));
                Ok(moment)
            }),
            ColumnWriter::FloatColumnWriter(out) => {
                self.typed::<FloatType>(out, |value| Ok(f32::from_le_bytes(array(value)?)))
            }
            ColumnWriter::DoubleColumnWriter(out) => {
                self.typed::<DoubleType>(out, |value| Ok(f64::from_le_bytes(array(value)?)))
            }
            ColumnWriter::ByteArrayColumnWriter(out) => {
                self.typed::<ByteArrayType>(out, |value| Ok(ByteArray::from(value.to_vec())))
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(out) => {
                self.typed::<FixedLenByteArrayType>(out, |value| Ok(FixedLenByteArray::from(value.to_vec())))
            }
        }
    }

    fn typed<T: DataType>(
        &mut self,
        out: &mut ColumnWriterImpl<'_, T>,
        make: impl Fn(&[u8]) -> std::result::Result<T::T, Fault>,
    ) -> std::result::Result<(), CopyFault> {
        let descriptor = self.file.schema().column(self.leaf);
        let (is_list, is_optional) = (descriptor.max_rep_level() > 0, descriptor.max_def_level() > 0);
        let (batch_bytes, limit) = (self.memory_bytes / 16, self.memory_bytes / 4);
        let mut permit = self.file.memory.take("row", batch_bytes as u64)?;
        let mut permitted_bytes = batch_bytes;
        let mut batch = Batch::<T>::default();
        let mut value = Vec::new();
        let span = self.marked.span();
        for (number, rows) in self.file.groups.iter().enumerate() {
            if rows.end <= span.start || rows.start >= span.end {
                continue;
            }
            let mut column: Column = self.file.column(number, self.leaf)?;
            let mut next = rows.start;
            if !is_list && span.start > next {
                column.skip(span.start - next)?;
                next = span.start;
            }
            let end = rows.end.min(span.end);
            let mut is_kept = false;
            loop {
                if !is_list && next == end {
                    break;
                }
                let Some(cell) = column.next(&mut value, limit)? else { break };
                if cell.repetition == 0 {
                    if next == end {
                        break;
                    }
                    is_kept = self.marked.contains(next);
                    next += 1;
                    // A batch ends where a row does.
                    if batch.definitions.len() >= BATCH_CELLS || batch.bytes >= batch_bytes {
                        batch.write(out, is_list, is_optional)?;
                    }
                }
                if !is_kept {
                    continue;
                }
                batch.definitions.push(cell.definition);
                batch.repetitions.push(cell.repetition);
                batch.bytes += CELL_BYTES;
                match cell.value {
                    CellValue::Null => {}
                    CellValue::TooLong => {
                        let (bytes, needed_bytes) = (limit as u64 + 1, 2 * self.memory_bytes as u64);
                        return Err(Fault::DoesNotFit { what: "value", bytes, needed_bytes }.into());
                    }
                    CellValue::Read => {
                        batch.bytes += value.len();
                        batch.values.push(make(&value)?);
                    }
                }
                if batch.bytes > permitted_bytes {
                    permit.grow("row", (batch.bytes - permitted_bytes) as u64)?;
                    permitted_bytes = batch.bytes;
                }
            }
            if next < end {
                return Err(Fault::from(invalid("a column has fewer rows than its row group")).into());
            }
        }
        batch.write(out, is_list, is_optional)
    }
}

/// Cells to be written together.
struct Batch<T: DataType> {
    values: Vec<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    bytes: usize,
}

impl<T: DataType> Default for Batch<T> {
    fn default() -> Self {
        Self { values: Vec::new(), definitions: Vec::new(), repetitions: Vec::new(), bytes: 0 }
    }
}

impl<T: DataType> Batch<T> {
    fn write(
        &mut self,
        out: &mut ColumnWriterImpl<'_, T>,
        is_list: bool,
        is_optional: bool,
    ) -> std::result::Result<(), CopyFault> {
        let definitions = is_optional.then_some(&self.definitions[..]);
        let repetitions = is_list.then_some(&self.repetitions[..]);
        out.write_batch(&self.values, definitions, repetitions)?;
        self.values.clear();
        self.definitions.clear();
        self.repetitions.clear();
        self.bytes = 0;
        Ok(())
    }
}

fn array<const N: usize>(value: &[u8]) -> std::result::Result<[u8; N], Fault> {
    value.try_into().map_err(|_| invalid("a value of another length than its type").into())
}
