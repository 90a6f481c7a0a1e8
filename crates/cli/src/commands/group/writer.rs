//! Record batches on the output: CSV, JSON lines, Parquet, or a page for people.
//!
//! | value | csv, tsv, table | json |
//! |---|---|---|
//! | NULL | an empty field | `null` |
//! | text | as it is, quoted where it must be; empty, `""` | a string |
//! | binary | as text, for bytes stay bytes | a string if it is UTF-8, else with `\u{fffd}` and, in a member `name_hex`, as digits |
//! | number | its digits; of a float the fewest that read back as it | the same; `"nan"`, `"inf"` and `"-inf"` as strings |
//! | boolean, date, time | as [`key_text`] writes them | a boolean, strings |
//! | list | the JSON of it | an array; of `topk`, one of objects with the members `value`, `count` and `error` |

use crate::arguments::{GroupForm, GroupedArguments};
use crate::commands::filter::outlet::Escape;
use crate::commands::filter::output::Output;
use crate::commands::filter::sink::{Place, Sink};
use crate::commands::keys::hex;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::page::{Align, Page};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use overbank_ingest::key_text;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Bytes that are written at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Rows of a row group of Parquet: what is written at once stays in memory until then.
const ROW_GROUP_ROWS: usize = 128 << 10;
/// As many bytes are enough for one, however few rows they are.
const ROW_GROUP_BYTES: usize = 4 << 20;

/// Where groups go.
pub(super) struct Writer {
    names: Vec<String>,
    form: Form,
}

enum Form {
    /// Of this delimiter.
    Csv(Output, u8),
    Json(Output),
    Table(Vec<Vec<String>>, Output),
    Parquet(Box<ArrowWriter<BufWriter<Sink>>>),
}

impl Writer {
    /// Opens the output; a file is nothing before it is whole.
    pub(super) fn open(
        arguments: &GroupedArguments,
        schema: &SchemaRef,
        interrupt: &Interrupt,
    ) -> Result<Writer, Failure> {
        let place =
            Place { file: arguments.file().map(|path| path.as_path()), commits: false, resumes: false };
        let call = interrupt
            .call()
            .map_err(|error| Failure::Usage(format!("cannot watch for Ctrl-C: {error}; run again")))?;
        let escape = Escape { call, owed: None };
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let text = |escape| Output::open(place, None, escape, b'\n', None);
        let form = match arguments.form() {
            GroupForm::Csv => Form::Csv(text(escape)?, b','),
            GroupForm::Tsv => Form::Csv(text(escape)?, b'\t'),
            GroupForm::Json => Form::Json(text(escape)?),
            GroupForm::Table => Form::Table(Vec::new(), text(escape)?),
            GroupForm::Parquet => {
                let sink = Sink::open(place, None, escape)?;
                if let Some(why) = sink.takes_no_whole() {
                    return Err(Failure::Usage(format!(
                        "Parquet does not go {why}; give --output FILE, or another --as"
                    )));
                }
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
                    .build();
                let out = BufWriter::with_capacity(PIECE_BYTES, sink);
                let writer = ArrowWriter::try_new(out, SchemaRef::clone(schema), Some(properties));
                Form::Parquet(Box::new(writer.map_err(|error| no_parquet(&error.to_string()))?))
            }
        };
        Ok(Writer { names, form })
    }

    /// Refuses an output that is one of `inputs`.
    pub(super) fn check<'p>(&mut self, inputs: impl Iterator<Item = &'p Path>) -> Result<(), Failure> {
        match &mut self.form {
            Form::Csv(out, _) | Form::Json(out) | Form::Table(_, out) => {
                out.check(inputs)?;
                out.start()
            }
            Form::Parquet(out) => {
                out.inner().get_ref().check(inputs)?;
                out.inner_mut().get_mut().start()
            }
        }
    }

    /// Writes the header, where the form has one.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        let Form::Csv(out, delimiter) = &mut self.form else { return Ok(()) };
        let mut line = Vec::new();
        for (i, name) in self.names.iter().enumerate() {
            if i > 0 {
                line.push(*delimiter);
            }
            append_field(name.as_bytes(), *delimiter, &mut line);
        }
        line.push(b'\n');
        out.part(&line)
    }

    /// Writes the rows of a batch.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let names = &self.names;
        match &mut self.form {
            Form::Csv(out, delimiter) => {
                pieces(out, batch, |row, piece| append_csv(batch, row, *delimiter, piece))
            }
            Form::Json(out) => pieces(out, batch, |row, piece| append_json(names, batch, row, piece)),
            Form::Table(rows, _) => {
                for row in 0..batch.num_rows() {
                    rows.push(batch.columns().iter().map(|array| shown(array.as_ref(), row)).collect());
                }
                Ok(())
            }
            Form::Parquet(out) => {
                let written = out.write(batch);
                written.map_err(|error| parquet_failure(out.inner().get_ref(), error))
            }
        }
    }

    /// Whether a signal came while the output had no room.
    pub(super) fn has_left(&self) -> bool {
        match &self.form {
            Form::Csv(out, _) | Form::Json(out) | Form::Table(_, out) => out.has_left(),
            Form::Parquet(out) => out.inner().get_ref().has_left(),
        }
    }

    /// The last row is written: the output is whole.
    pub(super) fn finish(self, schema: &Schema) -> Result<(), Failure> {
        match self.form {
            Form::Csv(mut out, _) | Form::Json(mut out) => out.finish(),
            Form::Table(rows, mut out) => {
                let mut page = Page::new();
                let header = schema.fields().iter().map(|field| {
                    let align = if field.data_type().is_numeric() { Align::Right } else { Align::Left };
                    (field.name().as_str(), align)
                });
                page.table(&header.collect::<Vec<_>>(), &rows);
                out.part(anstream::adapter::strip_str(&page.into_text()).to_string().as_bytes())?;
                out.finish()
            }
            Form::Parquet(mut out) => {
                let finished = out.finish();
                finished.map_err(|error| parquet_failure(out.inner().get_ref(), error))?;
                let out = out.inner_mut();
                out.flush().map_err(|error| out.get_ref().failure(error))?;
                out.get_mut().finish()
            }
        }
    }
}

/// What the writer of Parquet says: that of the system, where it was a write.
fn parquet_failure(sink: &Sink, error: ParquetError) -> Failure {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => sink.failure(*source),
            Err(source) => no_parquet(&source.to_string()),
        },
        other => no_parquet(&other.to_string()),
    }
}

fn no_parquet(why: &str) -> Failure {
    Failure::Usage(format!("groups cannot be written as Parquet: {why}; choose another --as"))
}

/// Writes rows that `append` makes, some at a time.
fn pieces(
    out: &mut Output,
    batch: &RecordBatch,
    append: impl Fn(usize, &mut Vec<u8>),
) -> Result<(), Failure> {
    let mut piece = Vec::new();
    for row in 0..batch.num_rows() {
        append(row, &mut piece);
        if piece.len() >= PIECE_BYTES {
            out.part(&piece)?;
            piece.clear();
        }
    }
    out.part(&piece)
}

fn append_csv(batch: &RecordBatch, row: usize, delimiter: u8, line: &mut Vec<u8>) {
    let mut value = Vec::new();
    for (i, array) in batch.columns().iter().enumerate() {
        if i > 0 {
            line.push(delimiter);
        }
        if array.is_null(row) {
            continue;
        }
        value.clear();
        append_text(array.as_ref(), row, &mut value);
        append_field(&value, delimiter, line);
    }
    line.push(b'\n');
}

/// A field, in quotes where it must be told from other bytes, or from NULL.
fn append_field(text: &[u8], delimiter: u8, line: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\r' | b'\n') || *byte == delimiter;
    if !text.is_empty() && !text.iter().any(is_special) {
        return line.extend_from_slice(text);
    }
    line.push(b'"');
    for &byte in text {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

/// A value as a page has it.
fn shown(array: &dyn Array, row: usize) -> String {
    let mut text = Vec::new();
    if !array.is_null(row) {
        append_text(array, row, &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn append_json(names: &[String], batch: &RecordBatch, row: usize, line: &mut Vec<u8>) {
    for (i, (name, array)) in names.iter().zip(batch.columns()).enumerate() {
        line.push(if i == 0 { b'{' } else { b',' });
        append_string(name, line);
        line.push(b':');
        append_json_value(array.as_ref(), row, line);
        if let Some(bytes) =
            array.as_binary_opt::<i32>().filter(|array| array.is_valid(row)).map(|array| array.value(row))
            && std::str::from_utf8(bytes).is_err()
        {
            line.push(b',');
            append_string(&format!("{name}_hex"), line);
            line.push(b':');
            append_string(&hex(bytes), line);
        }
    }
    line.extend_from_slice(b"}\n");
}

fn append_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("memory takes what is written to it");
}

fn append_json_value(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    if array.is_null(row) {
        return out.extend_from_slice(b"null");
    }
    match array.data_type() {
        DataType::Float32 | DataType::Float64 if is_finite(array, row) => append_text(array, row, out),
        DataType::Boolean | DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) => {
            append_text(array, row, out);
        }
        DataType::List(_) => append_text(array, row, out),
        DataType::Struct(fields) => {
            for (i, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                out.push(if i == 0 { b'{' } else { b',' });
                append_string(field.name(), out);
                out.push(b':');
                append_json_value(column.as_ref(), row, out);
            }
            out.push(b'}');
        }
        _ => {
            let mut text = Vec::new();
            append_text(array, row, &mut text);
            append_string(&String::from_utf8_lossy(&text), out);
        }
    }
}

fn is_finite(array: &dyn Array, row: usize) -> bool {
    match array.as_primitive_opt::<Float64Type>() {
        Some(array) => array.value(row).is_finite(),
        None => array.as_primitive::<Float32Type>().value(row).is_finite(),
    }
}

/// Appends a value that is not NULL, of a type that groups of the command have.
fn append_text(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    match array.data_type() {
        DataType::Utf8 => out.extend_from_slice(array.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        DataType::Boolean => key_text::append_bool(array.as_boolean().value(row), out),
        DataType::Int64 => key_text::append_integer(array.as_primitive::<Int64Type>().value(row), out),
        DataType::UInt64 => key_text::append_integer(array.as_primitive::<UInt64Type>().value(row), out),
        DataType::Float32 => key_text::append_f32(array.as_primitive::<Float32Type>().value(row), out),
        DataType::Float64 => key_text::append_f64(array.as_primitive::<Float64Type>().value(row), out),
        DataType::Decimal128(_, scale) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row).to_be_bytes();
            key_text::append_decimal(&unscaled, scale.unsigned_abs().into(), out);
        }
        DataType::Date32 => key_text::append_date(array.as_primitive::<Date32Type>().value(row).into(), out),
        DataType::Timestamp(unit, zone) => {
            let (count, unit) = match unit {
                TimeUnit::Second | TimeUnit::Millisecond => (
                    array.as_primitive::<TimestampMillisecondType>().value(row),
                    key_text::TimeUnit::Milliseconds,
                ),
                TimeUnit::Microsecond => (
                    array.as_primitive::<TimestampMicrosecondType>().value(row),
                    key_text::TimeUnit::Microseconds,
                ),
                TimeUnit::Nanosecond => (
                    array.as_primitive::<TimestampNanosecondType>().value(row),
                    key_text::TimeUnit::Nanoseconds,
                ),
            };
            key_text::append_timestamp(count, unit, zone.is_some(), out);
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            out.push(b'[');
            for item in 0..items.len() {
                if item > 0 {
                    out.push(b',');
                }
                append_json_value(items.as_ref(), item, out);
            }
            out.push(b']');
        }
        // No type that fields or functions have.
        other => unreachable!("groups of {other}"),
    }
}
