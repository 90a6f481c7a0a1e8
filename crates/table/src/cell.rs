//! Single values out of arrays and into them, in the few forms that keys and functions know.
//!
//! | form | types |
//! |---|---|
//! | whole | integers of 8 to 64 bits, booleans, dates, times, timestamps, durations; decimals without their point |
//! | float | of 32 and 64 bits |
//! | bytes | strings, binary |
//! | list | of one of these, or of structs |
//! | struct | of these |
//!
//! Dictionaries and views are taken as what they stand for, floats of 16 bits as those of 32, decimals of 32 and 64 bits as those of 128.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, ListArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, TimeUnit};
use arrow_select::take::take;
use std::cmp::Ordering;
use std::sync::Arc;

/// The form of a type's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Whole,
    Float32,
    Float64,
    Bytes,
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    Null,
    Whole(i128),
    Float(f64),
    Bytes(Vec<u8>),
    List(Vec<Cell>),
    /// The values of a struct's fields.
    Struct(Vec<Cell>),
}

/// What a column of this type is read as, and written as; `None` for types without a form.
pub(crate) fn plain(data_type: &DataType) -> Option<(DataType, Form)> {
    let (plain, form) = match data_type {
        DataType::Dictionary(_, values) => return plain(values),
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal128(..) => (data_type.clone(), Form::Whole),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            (DataType::Decimal128(*precision, *scale), Form::Whole)
        }
        DataType::Float16 | DataType::Float32 => (DataType::Float32, Form::Float32),
        DataType::Float64 => (DataType::Float64, Form::Float64),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_) => (data_type.clone(), Form::Bytes),
        DataType::Utf8View => (DataType::Utf8, Form::Bytes),
        DataType::BinaryView => (DataType::Binary, Form::Bytes),
        _ => return None,
    };
    Some((plain, form))
}

/// The array as one of `plain` type, which is what [`plain()`] says of its own.
pub(crate) fn as_plain(array: &ArrayRef, plain: &DataType) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        own if own == plain => Arc::clone(array),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // A value may be NULL, and so may a place.
            return as_plain(&take(dictionary.values(), dictionary.keys(), None)?, plain);
        }
        DataType::Utf8View => Arc::new(array.as_string_view().iter().collect::<StringArray>()),
        DataType::BinaryView => Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()),
        DataType::Float16 => {
            Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float32Type>(|value| value.to_f32()))
        }
        DataType::Decimal32(..) => {
            let wide = array.as_primitive::<Decimal32Type>().unary::<_, Decimal128Type>(i128::from);
            Arc::new(wide.with_data_type(plain.clone()))
        }
        DataType::Decimal64(..) => {
            let wide = array.as_primitive::<Decimal64Type>().unary::<_, Decimal128Type>(i128::from);
            Arc::new(wide.with_data_type(plain.clone()))
        }
        _ => return Err(Error::Foreign { what: "type" }),
    })
}

/// A column's values, to be read row by row.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

#[derive(Clone, Copy)]
enum Values<'a> {
    Boolean(&'a BooleanArray),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    Fixed(&'a FixedSizeBinaryArray),
}

fn numbers<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

impl<'a> Cells<'a> {
    /// Those of an array of a plain type; `None` for others.
    pub(crate) fn of(array: &'a dyn Array) -> Option<Cells<'a>> {
        let values = match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int8 => Values::I8(numbers::<Int8Type>(array)),
            DataType::Int16 => Values::I16(numbers::<Int16Type>(array)),
            DataType::Int32 => Values::I32(numbers::<Int32Type>(array)),
            DataType::Int64 => Values::I64(numbers::<Int64Type>(array)),
            DataType::UInt8 => Values::U8(numbers::<UInt8Type>(array)),
            DataType::UInt16 => Values::U16(numbers::<UInt16Type>(array)),
            DataType::UInt32 => Values::U32(numbers::<UInt32Type>(array)),
            DataType::UInt64 => Values::U64(numbers::<UInt64Type>(array)),
            DataType::Date32 => Values::I32(numbers::<Date32Type>(array)),
            DataType::Date64 => Values::I64(numbers::<Date64Type>(array)),
            DataType::Time32(TimeUnit::Second) => Values::I32(numbers::<Time32SecondType>(array)),
            DataType::Time32(_) => Values::I32(numbers::<Time32MillisecondType>(array)),
            DataType::Time64(TimeUnit::Microsecond) => Values::I64(numbers::<Time64MicrosecondType>(array)),
            DataType::Time64(_) => Values::I64(numbers::<Time64NanosecondType>(array)),
            DataType::Timestamp(unit, _) => Values::I64(match unit {
                TimeUnit::Second => numbers::<TimestampSecondType>(array),
                TimeUnit::Millisecond => numbers::<TimestampMillisecondType>(array),
                TimeUnit::Microsecond => numbers::<TimestampMicrosecondType>(array),
                TimeUnit::Nanosecond => numbers::<TimestampNanosecondType>(array),
            }),
            DataType::Duration(unit) => Values::I64(match unit {
                TimeUnit::Second => numbers::<DurationSecondType>(array),
                TimeUnit::Millisecond => numbers::<DurationMillisecondType>(array),
                TimeUnit::Microsecond => numbers::<DurationMicrosecondType>(array),
                TimeUnit::Nanosecond => numbers::<DurationNanosecondType>(array),
            }),
            DataType::Decimal128(..) => Values::I128(numbers::<Decimal128Type>(array)),
            DataType::Float32 => Values::F32(numbers::<Float32Type>(array)),
            DataType::Float64 => Values::F64(numbers::<Float64Type>(array)),
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string()),
            DataType::Binary => Values::Binary(array.as_binary()),
            DataType::LargeBinary => Values::LargeBinary(array.as_binary()),
            DataType::FixedSizeBinary(_) => Values::Fixed(array.as_fixed_size_binary()),
            _ => return None,
        };
        Some(Cells { values, nulls: array.nulls() })
    }

    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// The value of a row, of the whole form.
    #[inline]
    pub(crate) fn whole(&self, row: usize) -> i128 {
        match self.values {
            Values::Boolean(values) => values.value(row).into(),
            Values::I8(values) => values[row].into(),
            Values::I16(values) => values[row].into(),
            Values::I32(values) => values[row].into(),
            Values::I64(values) => values[row].into(),
            Values::I128(values) => values[row],
            Values::U8(values) => values[row].into(),
            Values::U16(values) => values[row].into(),
            Values::U32(values) => values[row].into(),
            Values::U64(values) => values[row].into(),
            _ => 0,
        }
    }

    /// The value of a row, of a float.
    #[inline]
    pub(crate) fn float(&self, row: usize) -> f64 {
        match self.values {
            Values::F32(values) => values[row].into(),
            Values::F64(values) => values[row],
            _ => 0.0,
        }
    }

    /// The value of a row, of the form of bytes.
    #[inline]
    pub(crate) fn bytes(&self, row: usize) -> &'a [u8] {
        match self.values {
            Values::Text(values) => values.value(row).as_bytes(),
            Values::LargeText(values) => values.value(row).as_bytes(),
            Values::Binary(values) => values.value(row),
            Values::LargeBinary(values) => values.value(row),
            Values::Fixed(values) => values.value(row),
            _ => &[],
        }
    }
}

impl Cell {
    /// The order in which people expect values: floats by size and every NaN as the greatest, bytes as bytes. NULL is not smaller or
    /// greater than anything: whoever sorts puts it where it belongs.
    pub(crate) fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Whole(own), Cell::Whole(other)) => own.cmp(other),
            (Cell::Float(own), Cell::Float(other)) => own.total_cmp(other),
            (Cell::Bytes(own), Cell::Bytes(other)) => own.cmp(other),
            (Cell::List(own), Cell::List(other)) | (Cell::Struct(own), Cell::Struct(other)) => {
                let different = own.iter().zip(other).map(|(own, other)| own.order(other));
                different.into_iter().find(|order| order.is_ne()).unwrap_or(own.len().cmp(&other.len()))
            }
            _ => Ordering::Equal,
        }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Cell>()
            + match self {
                Cell::Bytes(bytes) => bytes.capacity(),
                Cell::List(cells) | Cell::Struct(cells) => cells.iter().map(Cell::memory_bytes).sum(),
                _ => 0,
            }
    }

    fn whole(&self) -> Option<i128> {
        if let Cell::Whole(value) = self { Some(*value) } else { None }
    }

    fn float(&self) -> Option<f64> {
        if let Cell::Float(value) = self { Some(*value) } else { None }
    }

    fn bytes(&self) -> Option<&[u8]> {
        if let Cell::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    fn text(&self) -> Result<Option<&str>> {
        self.bytes()
            .map(|bytes| std::str::from_utf8(bytes).map_err(|_| Error::Foreign { what: "text" }))
            .transpose()
    }
}

/// Whole values as an array whose numbers are of type `T`.
fn whole<T: ArrowPrimitiveType>(cells: &[Cell], data_type: &DataType) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128>,
{
    let native = |value| T::Native::try_from(value).map_err(|_| Error::Foreign { what: "number" });
    let values = cells.iter().map(|cell| cell.whole().map(native).transpose());
    let array: PrimitiveArray<T> = values.collect::<Result<_>>()?;
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

/// An array of `data_type`, which is a plain one, a list of one, or a list of structs of such.
pub(crate) fn array(cells: &[Cell], data_type: &DataType) -> Result<ArrayRef> {
    let texts = || cells.iter().map(Cell::text);
    let bytes = || cells.iter().map(Cell::bytes);
    Ok(match data_type {
        DataType::Boolean => {
            Arc::new(cells.iter().map(|cell| cell.whole().map(|value| value != 0)).collect::<BooleanArray>())
        }
        DataType::Int8 => return whole::<Int8Type>(cells, data_type),
        DataType::Int16 => return whole::<Int16Type>(cells, data_type),
        DataType::Int32 => return whole::<Int32Type>(cells, data_type),
        DataType::Int64 => return whole::<Int64Type>(cells, data_type),
        DataType::UInt8 => return whole::<UInt8Type>(cells, data_type),
        DataType::UInt16 => return whole::<UInt16Type>(cells, data_type),
        DataType::UInt32 => return whole::<UInt32Type>(cells, data_type),
        DataType::UInt64 => return whole::<UInt64Type>(cells, data_type),
        DataType::Date32 => return whole::<Date32Type>(cells, data_type),
        DataType::Date64 => return whole::<Date64Type>(cells, data_type),
        DataType::Time32(TimeUnit::Second) => return whole::<Time32SecondType>(cells, data_type),
        DataType::Time32(_) => return whole::<Time32MillisecondType>(cells, data_type),
        DataType::Time64(TimeUnit::Microsecond) => return whole::<Time64MicrosecondType>(cells, data_type),
        DataType::Time64(_) => return whole::<Time64NanosecondType>(cells, data_type),
        DataType::Timestamp(TimeUnit::Second, _) => return whole::<TimestampSecondType>(cells, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            return whole::<TimestampMillisecondType>(cells, data_type);
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            return whole::<TimestampMicrosecondType>(cells, data_type);
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            return whole::<TimestampNanosecondType>(cells, data_type);
        }
        DataType::Duration(TimeUnit::Second) => return whole::<DurationSecondType>(cells, data_type),
        DataType::Duration(TimeUnit::Millisecond) => {
            return whole::<DurationMillisecondType>(cells, data_type);
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            return whole::<DurationMicrosecondType>(cells, data_type);
        }
        DataType::Duration(TimeUnit::Nanosecond) => return whole::<DurationNanosecondType>(cells, data_type),
        DataType::Decimal128(precision, _) => {
            let limit = 10i128.pow((*precision).into());
            if let Some(sum) =
                cells.iter().filter_map(Cell::whole).find(|value| value.unsigned_abs() >= limit as u128)
            {
                return Err(Error::TooManyDigits { value: sum, digits: *precision });
            }
            return whole::<Decimal128Type>(cells, data_type);
        }
        DataType::Float32 => {
            let values = cells.iter().map(|cell| cell.float().map(|value| value as f32));
            Arc::new(values.collect::<PrimitiveArray<Float32Type>>())
        }
        DataType::Float64 => Arc::new(cells.iter().map(Cell::float).collect::<PrimitiveArray<Float64Type>>()),
        DataType::Utf8 => Arc::new(texts().collect::<Result<StringArray>>()?),
        DataType::LargeUtf8 => Arc::new(texts().collect::<Result<LargeStringArray>>()?),
        DataType::Binary => Arc::new(bytes().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(bytes().collect::<LargeBinaryArray>()),
        DataType::FixedSizeBinary(length) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes(), *length)?)
        }
        DataType::List(item) => {
            let lists = cells.iter().map(|cell| if let Cell::List(items) = cell { &items[..] } else { &[] });
            let items: Vec<Cell> = lists.clone().flatten().cloned().collect();
            let nulls = cells.iter().map(|cell| !matches!(cell, Cell::Null)).collect::<NullBuffer>();
            let offsets = OffsetBuffer::from_lengths(lists.map(<[Cell]>::len));
            Arc::new(ListArray::try_new(
                Arc::clone(item),
                offsets,
                array(&items, item.data_type())?,
                Some(nulls),
            )?)
        }
        DataType::Struct(fields) => {
            let column = |place: usize, field: &Field| {
                let of_field = |cell: &Cell| match cell {
                    Cell::Struct(values) => values.get(place).cloned().unwrap_or(Cell::Null),
                    _ => Cell::Null,
                };
                array(&cells.iter().map(of_field).collect::<Vec<_>>(), field.data_type())
            };
            let columns = fields.iter().enumerate().map(|(place, field)| column(place, field));
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, None)?)
        }
        _ => return Err(Error::Foreign { what: "type" }),
    })
}
