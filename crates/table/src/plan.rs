//! How calls are computed: the columns of rows that they look at, the library's functions, and the types of what comes out.
//!
//! | function | of | type of the result |
//! |---|---|---|
//! | count, distinct | anything | int64 |
//! | sum | signed, unsigned integers | int64, uint64; decimal(38, 0) for [`SumOverflow::Wide`] |
//! | | decimal(p, s), floats, durations, booleans | decimal(38, s), float64, the duration, int64 |
//! | mean, var, stddev, quantile | integers, decimals, floats, durations, booleans | float64 |
//! | min, max, first, last, any | anything | its type |
//! | list, bitmap | anything; bitmap of integers | a list of its type |
//! | topk | anything | a list of structs: `value` of its type, `count` int64, and `error` int64, by which the count may be off either way |
//!
//! PostgreSQL and DuckDB give sums of integers a type of 128 bits or any number of digits, which few who read Parquet or Arrow know; Spark
//! and pandas stay at 64 bits and wrap. Here they stay at 64 bits and are an error beyond, unless it is said what they are to be.

use crate::cell::{Cell, Form, plain};
use crate::{Call, CallFunction, Error, Result};
use arrow_schema::{DataType, Field, Fields, Schema};
use overbank::aggregate::{Basis, ColumnType, Columns, Counted, Function, Overflow, Value};
use std::sync::Arc;

/// Binary logarithm of the registers of `distinct`: a standard error of 1.6 %.
const LG_REGISTERS: u32 = 12;
/// The relative error of quantiles.
const QUANTILE_ERROR: f64 = 0.01;
/// The different values that `topk` counts exactly, and the rows that its estimates are of.
const TRACKED: usize = 1024;
/// The first number that `bitmap` does not list.
const BITMAP_END: u32 = 1 << 16;
/// The digits of the widest decimal, and of sums.
const DIGITS: u8 = 38;

/// What becomes of a sum of integers that does not fit 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SumOverflow {
    /// It is an error when it is asked for.
    #[default]
    Error,
    /// It is the nearest number that fits.
    Saturate,
    /// All sums of integers are decimal(38, 0).
    Wide,
}

/// A column of the rows that functions look at.
pub(crate) struct Input {
    /// Its place in the schema.
    pub(crate) index: usize,
    pub(crate) plain: DataType,
    pub(crate) column_type: ColumnType,
}

/// The result of a call.
struct Output {
    field: Field,
    /// What a float is divided by, for the scale of a decimal.
    divisor: f64,
    is_count: bool,
}

/// How calls are computed.
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Input>,
    pub(crate) columns: Columns,
    outputs: Vec<Output>,
}

/// The place of a column in a schema.
pub(crate) fn index_of(schema: &Schema, name: &str) -> Result<usize> {
    schema.index_of(name).map_err(|_| Error::NoSuchColumn {
        name: name.to_owned(),
        columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
    })
}

/// Whether people add such values up.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || matches!(data_type, DataType::Boolean | DataType::Duration(_))
}

impl Plan {
    pub(crate) fn new(
        schema: &Schema,
        calls: &[Call],
        overflow: SumOverflow,
        item_bytes_max: usize,
    ) -> Result<Plan> {
        let (mut inputs, mut functions, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        for call in calls {
            let Some(name) = &call.column else {
                functions.push(Function::CountRows);
                let field = Field::new(&call.name, DataType::Int64, false);
                outputs.push(Output { field, divisor: 1.0, is_count: true });
                continue;
            };
            let index = index_of(schema, name)?;
            let data_type = schema.field(index).data_type();
            let unsupported = |remedy| Error::Unsupported {
                column: name.clone(),
                data_type: data_type.clone(),
                what: format!("taken by {}", call.function),
                remedy,
            };
            let Some((plain, form)) = plain(data_type) else {
                return Err(unsupported("flatten it or choose another column"));
            };
            if call.function.needs_numbers() && !is_number(&plain) {
                return Err(unsupported(
                    "choose one of a type of numbers, or a function of any type: count, min, max, first, last, any, list, topk, distinct",
                ));
            }
            let column_type = column_type(&plain, form, call.function, overflow)
                .ok_or_else(|| unsupported("choose one of a type of integers"))?;
            let same = |input: &Input| input.index == index && input.column_type == column_type;
            let column = inputs.iter().position(same).unwrap_or_else(|| {
                inputs.push(Input { index, plain: plain.clone(), column_type });
                inputs.len() - 1
            });
            functions.push(function(call.function, column));
            outputs.push(Output::of(call, &plain, column_type));
        }
        let column_types: Vec<ColumnType> = inputs.iter().map(|input| input.column_type).collect();
        let limit = if overflow == SumOverflow::Saturate { Overflow::Saturate } else { Overflow::Error };
        let columns = Columns::new(&column_types, &functions)?.overflow(limit).item_bytes_max(item_bytes_max);
        Ok(Plan { inputs, columns, outputs })
    }

    /// The columns of results.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        self.outputs.iter().map(|output| output.field.clone())
    }

    /// The results of values.
    pub(crate) fn cells(&self, values: Vec<Value>) -> Vec<Cell> {
        self.outputs.iter().zip(values).map(|(output, value)| output.cell(value)).collect()
    }

    /// The results of no rows.
    pub(crate) fn absent(&self) -> Vec<Cell> {
        let cell = |output: &Output| if output.is_count { Cell::Whole(0) } else { Cell::Null };
        self.outputs.iter().map(cell).collect()
    }
}

/// What a column is for a function.
fn column_type(
    plain: &DataType,
    form: Form,
    function: CallFunction,
    overflow: SumOverflow,
) -> Option<ColumnType> {
    let is_decimal = matches!(plain, DataType::Decimal128(..));
    Some(match (form, function) {
        (Form::Float32 | Form::Float64, CallFunction::Bitmap) => return None,
        (Form::Whole, CallFunction::Bitmap) if is_decimal => return None,
        // Numbers below zero are taken for ones far beyond the last bit.
        (Form::Whole, CallFunction::Bitmap) => ColumnType::Unsigned,
        (Form::Whole, _) if is_decimal => ColumnType::Wide,
        (Form::Whole, CallFunction::Sum) if overflow == SumOverflow::Wide && plain.is_integer() => {
            ColumnType::Wide
        }
        (Form::Whole, _) if plain.is_unsigned_integer() || *plain == DataType::Boolean => {
            ColumnType::Unsigned
        }
        (Form::Whole, _) => ColumnType::Signed,
        (Form::Float32 | Form::Float64, _) => ColumnType::Float,
        (Form::Bytes, _) => ColumnType::Bytes,
    })
}

fn function(function: CallFunction, column: usize) -> Function {
    let of = Basis::Sample;
    match function {
        CallFunction::CountRows => Function::CountRows,
        CallFunction::Count => Function::Count { column },
        CallFunction::Sum => Function::Sum { column },
        CallFunction::Mean => Function::Mean { column },
        CallFunction::Min => Function::Min { column },
        CallFunction::Max => Function::Max { column },
        CallFunction::Variance => Function::Variance { column, of },
        CallFunction::Deviation => Function::Deviation { column, of },
        CallFunction::First => Function::First { column },
        CallFunction::Last => Function::Last { column },
        CallFunction::Any => Function::Any { column },
        CallFunction::List(most) => Function::List { column, most },
        CallFunction::TopK(most) => Function::Top { column, most, tracked: most.max(TRACKED) },
        CallFunction::Distinct => Function::DistinctCount { column, lg_m: LG_REGISTERS },
        CallFunction::Quantile(q) => Function::Quantile { column, q, alpha: QUANTILE_ERROR },
        CallFunction::Bitmap => Function::Bitmap { column, below: BITMAP_END },
    }
}

impl Output {
    fn of(call: &Call, plain: &DataType, column_type: ColumnType) -> Output {
        let unit = match plain {
            DataType::Decimal128(_, scale) => 10f64.powi((*scale).into()),
            _ => 1.0,
        };
        let (data_type, divisor) = match call.function {
            CallFunction::CountRows | CallFunction::Count | CallFunction::Distinct => (DataType::Int64, 1.0),
            CallFunction::Sum => (sum_type(plain, column_type), 1.0),
            CallFunction::Mean | CallFunction::Deviation | CallFunction::Quantile(_) => {
                (DataType::Float64, unit)
            }
            CallFunction::Variance => (DataType::Float64, unit * unit),
            CallFunction::Min
            | CallFunction::Max
            | CallFunction::First
            | CallFunction::Last
            | CallFunction::Any => (plain.clone(), 1.0),
            CallFunction::List(_) | CallFunction::Bitmap => (list_of(plain.clone()), 1.0),
            CallFunction::TopK(_) => (list_of(counted_type(plain)), 1.0),
        };
        let is_count = data_type == DataType::Int64
            && matches!(
                call.function,
                CallFunction::CountRows | CallFunction::Count | CallFunction::Distinct
            );
        Output { field: Field::new(&call.name, data_type, !is_count), divisor, is_count }
    }

    /// A list of nothing is NULL, as in SQL.
    fn cell(&self, value: Value) -> Cell {
        match value {
            Value::Null if self.is_count => Cell::Whole(0),
            Value::Unsigned(number) => Cell::Whole(number.into()),
            Value::Signed(number) => Cell::Whole(number.into()),
            Value::Wide(number) => Cell::Whole(number),
            Value::Float(number) => Cell::Float(number / self.divisor),
            Value::About { value, .. } if self.is_count => Cell::Whole(value.round() as i128),
            Value::About { value, .. } => Cell::Float(value / self.divisor),
            Value::Bytes(bytes) => Cell::Bytes(bytes),
            Value::List { values, .. } if values.is_empty() => Cell::Null,
            Value::List { values, .. } => {
                Cell::List(values.into_iter().map(|value| self.cell(value)).collect())
            }
            Value::Counts { counts, .. } if counts.is_empty() => Cell::Null,
            Value::Counts { counts, .. } => {
                let cell = |Counted { value, count, error }| {
                    Cell::Struct(vec![self.cell(value), Cell::Whole(count.into()), Cell::Whole(error.into())])
                };
                Cell::List(counts.into_iter().map(cell).collect())
            }
            _ => Cell::Null,
        }
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, false)))
}

/// The type of a value of `plain` type and how often it came.
fn counted_type(plain: &DataType) -> DataType {
    let number = |name| Field::new(name, DataType::Int64, false);
    DataType::Struct(Fields::from(vec![
        Field::new("value", plain.clone(), false),
        number("count"),
        number("error"),
    ]))
}

fn sum_type(plain: &DataType, column_type: ColumnType) -> DataType {
    match (plain, column_type) {
        (DataType::Decimal128(_, scale), _) => DataType::Decimal128(DIGITS, *scale),
        (_, ColumnType::Wide) => DataType::Decimal128(DIGITS, 0),
        (_, ColumnType::Float) => DataType::Float64,
        (DataType::Duration(_), _) => plain.clone(),
        (DataType::Boolean, _) => DataType::Int64,
        (_, ColumnType::Unsigned) => DataType::UInt64,
        _ => DataType::Int64,
    }
}
