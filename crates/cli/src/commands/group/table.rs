//! Rows of fields as record batches: which fields are read, of what types, and how they become arrays.

use super::pass::{First, Grouping, Take};
use super::session::Definition;
use crate::arguments::{GroupArguments, text_of_types};
use crate::failure::Failure;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use overbank_ingest::key_text;
use overbank_ingest::{Batch, Column, ColumnOption, ColumnType, Options};
use overbank_table::CallFunction;
use std::sync::Arc;

/// Rows of a record batch: what is made of them at once stays small.
pub(super) const BATCH_ROWS: usize = 4096;

/// The fields of `group`: those of the key, then those of functions.
pub(super) struct Fields<'a> {
    pub(super) arguments: &'a GroupArguments,
}

impl Fields<'_> {
    /// The type of a field by the values that it has in the first rows, as column `number`, if what is computed of it depends on that.
    /// Without any, functions of numbers take floats, and whole numbers where there can be no others.
    fn guess(&self, name: &str, rows: &Batch, number: usize) -> ColumnType {
        let calls = self.arguments.agg.0.iter().filter(|call| call.column.as_deref() == Some(name));
        let functions: Vec<CallFunction> = calls.map(|call| call.function).collect();
        if !functions.iter().any(|function| function.orders()) {
            return ColumnType::Text;
        }
        let known: Vec<&[u8]> = match (rows.rows() > 0).then(|| rows.column(number)) {
            Some(Column::Texts(texts)) => {
                let texts = texts.iter().zip(rows.nulls(number));
                texts.filter(|(text, is_null)| !**is_null && !text.is_empty()).map(|(text, _)| text).collect()
            }
            _ => Vec::new(),
        };
        if !known.is_empty() || !functions.iter().any(|function| function.needs_numbers()) {
            return ColumnType::of_sample(known);
        }
        if functions.contains(&CallFunction::Bitmap) { ColumnType::Integer } else { ColumnType::Float }
    }
}

impl Grouping for Fields<'_> {
    fn ask(&self, options: &mut Options) {
        let keys = std::mem::take(&mut options.keys);
        let columns = self.arguments.agg.0.iter().filter_map(|call| call.column.clone());
        for name in keys.into_iter().chain(columns) {
            if options.columns.iter().all(|column| column.name != name) {
                // What is not UTF-8 is said to be none of its type, once that is known.
                options.columns.push(ColumnOption { name, kind: ColumnType::Bytes });
            }
        }
        options.bare_rows = options.columns.is_empty();
    }

    fn settle(&self, columns: &mut [ColumnOption], first: &First<'_>) -> Result<(), Failure> {
        for (number, column) in columns.iter_mut().enumerate() {
            let stored = first.types.and_then(|types| types.get(number));
            column.kind = match (self.arguments.type_of(&column.name), stored) {
                (Some(given), _) => given,
                (None, Some(stored)) => *stored,
                (None, None) => self.guess(&column.name, first.rows, number),
            };
        }
        Ok(())
    }

    fn check_types(&self, columns: &[ColumnOption]) -> Result<(), Failure> {
        for name in self.arguments.typed_fields() {
            let Some(column) = columns.iter().find(|column| column.name == name) else {
                return Err(Failure::Usage(format!(
                    "--types names the field {name}, which neither --by nor --agg reads; leave it away, or correct its name"
                )));
            };
            if self.arguments.type_of(name) != Some(column.kind) {
                return Err(Failure::Usage(format!(
                    "the store has another type for the field {name}: {}; give the same --types, or another directory",
                    text_of_types(std::iter::once((name, column.kind)))
                )));
            }
        }
        Ok(())
    }

    fn definition(&self, columns: &[ColumnOption]) -> Definition {
        Definition {
            schema: schema(columns),
            by: self.arguments.input.keys(),
            calls: self.arguments.agg.0.clone(),
            overflow: self.arguments.overflow.into(),
        }
    }

    fn command(&self) -> String {
        let calls: Vec<String> = self.arguments.agg.0.iter().map(ToString::to_string).collect();
        format!("group --by {} --agg {}", self.arguments.input.keys().join(","), calls.join(","))
    }

    fn each(&self, columns: &[ColumnOption], rows: &Batch, take: Take<'_>) -> Result<(), Failure> {
        let schema = Arc::new(schema(columns));
        for begin in (0..rows.rows()).step_by(BATCH_ROWS) {
            let end = rows.rows().min(begin + BATCH_ROWS);
            take(&record_batch(&schema, columns, rows, begin..end)?, begin as u64)?;
        }
        Ok(())
    }
}

fn schema(columns: &[ColumnOption]) -> Schema {
    let field = |column: &ColumnOption| Field::new(&column.name, data_type(column.kind), true);
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

fn data_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Text => DataType::Utf8,
        ColumnType::Bytes => DataType::Binary,
        ColumnType::Integer => DataType::Int64,
        ColumnType::Unsigned => DataType::UInt64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float => DataType::Float64,
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Decimal { precision, scale } => DataType::Decimal128(precision, scale.cast_signed()),
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp { unit, is_utc } => {
            let unit = match unit {
                key_text::TimeUnit::Milliseconds => TimeUnit::Millisecond,
                key_text::TimeUnit::Microseconds => TimeUnit::Microsecond,
                key_text::TimeUnit::Nanoseconds => TimeUnit::Nanosecond,
            };
            DataType::Timestamp(unit, is_utc.then(|| "UTC".into()))
        }
    }
}

fn record_batch(
    schema: &SchemaRef,
    columns: &[ColumnOption],
    rows: &Batch,
    range: std::ops::Range<usize>,
) -> Result<RecordBatch, Failure> {
    let arrays =
        columns.iter().enumerate().map(|(number, column)| array(rows, number, range.clone(), column.kind));
    let options = RecordBatchOptions::new().with_row_count(Some(range.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays.collect(), &options)
        .map_err(|error| super::told(error.into()))
}

fn array(rows: &Batch, column: usize, range: std::ops::Range<usize>, kind: ColumnType) -> ArrayRef {
    let nulls = &rows.nulls(column)[range.clone()];
    let data_type = data_type(kind);
    match rows.column(column) {
        Column::Texts(texts) => {
            let texts =
                texts.iter().skip(range.start).zip(nulls).map(|(text, is_null)| (!is_null).then_some(text));
            if kind == ColumnType::Bytes {
                Arc::new(texts.collect::<BinaryArray>())
            } else {
                // The reader refuses what is not UTF-8, and an empty text stands where nothing is.
                let texts = texts.map(|text| text.map(|text| std::str::from_utf8(text).unwrap_or_default()));
                Arc::new(texts.collect::<StringArray>())
            }
        }
        Column::Integers(values) => {
            let values = values[range].iter().copied();
            match data_type {
                // The reader takes years of six digits at most.
                DataType::Date32 => numbers::<Date32Type>(values.map(|days| days as i32), nulls, &data_type),
                DataType::Timestamp(TimeUnit::Millisecond, _) => {
                    numbers::<TimestampMillisecondType>(values, nulls, &data_type)
                }
                DataType::Timestamp(TimeUnit::Microsecond, _) => {
                    numbers::<TimestampMicrosecondType>(values, nulls, &data_type)
                }
                DataType::Timestamp(..) => numbers::<TimestampNanosecondType>(values, nulls, &data_type),
                _ => numbers::<Int64Type>(values, nulls, &data_type),
            }
        }
        Column::Unsigned(values) => numbers::<UInt64Type>(values[range].iter().copied(), nulls, &data_type),
        Column::Floats(values) if kind == ColumnType::Float32 => {
            numbers::<Float32Type>(values[range].iter().map(|&value| value as f32), nulls, &data_type)
        }
        Column::Floats(values) => numbers::<Float64Type>(values[range].iter().copied(), nulls, &data_type),
        Column::Decimals(values) => {
            numbers::<Decimal128Type>(values[range].iter().copied(), nulls, &data_type)
        }
        Column::Booleans(values) => {
            let values = values[range].iter().zip(nulls).map(|(value, is_null)| (!is_null).then_some(*value));
            Arc::new(values.collect::<BooleanArray>())
        }
    }
}

fn numbers<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = T::Native>,
    nulls: &[bool],
    data_type: &DataType,
) -> ArrayRef {
    let values = values.zip(nulls).map(|(value, is_null)| (!is_null).then_some(value));
    Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
}
