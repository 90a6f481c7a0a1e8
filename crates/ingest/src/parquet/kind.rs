//! What a column's values mean, and so their text as keys.

use super::Fault;
use super::header::invalid;
use crate::cell::{ColumnType, PRECISION_MAX};
use crate::key_text::{self, TimeUnit};
use ::parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit, Type};
use ::parquet::schema::types::ColumnDescriptor;

/// 1970-01-01 as a Julian day.
const JULIAN_1970: i64 = 2_440_588;
/// More digits than decimals have anywhere; the text of one takes time by the square of them.
const SCALE_MAX: i32 = 1000;
const DECIMAL_BYTES_MAX: usize = 512;

/// The meaning of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bytes,
    Bool,
    Signed,
    Unsigned,
    Float,
    Double,
    /// Of this scale; in bytes, the highest first, or else as a little-endian number.
    Decimal {
        scale: u32,
        is_big_endian: bool,
    },
    Date,
    Time {
        unit: TimeUnit,
        is_utc: bool,
    },
    Timestamp {
        unit: TimeUnit,
        is_utc: bool,
    },
    /// Nanoseconds of the day and a Julian day.
    Julian,
    Uuid,
}

impl Kind {
    /// The meaning of a column, or why it cannot be a key, weight or value.
    pub(super) fn of(column: &ColumnDescriptor) -> Result<Self, &'static str> {
        use TimeUnit::{Microseconds, Milliseconds};
        if column.max_rep_level() > 0 {
            return Err(
                "it lies in a list or a map, so a row has any number of values; choose another or flatten it first",
            );
        }
        let physical = column.physical_type();
        let is_number = matches!(physical, Type::INT32 | Type::INT64);
        let decimal = |scale: i32| Self::Decimal {
            scale: u32::try_from(scale).unwrap_or(0),
            is_big_endian: !is_number,
        };
        Ok(match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Float16), _) => {
                return Err("it holds 16-bit floats; cast it to a float first");
            }
            (Some(LogicalType::Decimal(_)), _) | (None, ConvertedType::DECIMAL) => {
                if column.type_scale() > SCALE_MAX {
                    return Err("it is a decimal of more than 1,000 digits; cast it to text first");
                }
                decimal(column.type_scale())
            }
            (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) if is_number => Self::Date,
            (Some(LogicalType::Time(time)), _) if is_number => {
                Self::Time { unit: unit(time.unit), is_utc: time.is_adjusted_to_u_t_c }
            }
            (Some(LogicalType::Timestamp(time)), _) if is_number => {
                Self::Timestamp { unit: unit(time.unit), is_utc: time.is_adjusted_to_u_t_c }
            }
            (None, ConvertedType::TIME_MILLIS) if is_number => {
                Self::Time { unit: Milliseconds, is_utc: true }
            }
            (None, ConvertedType::TIME_MICROS) if is_number => {
                Self::Time { unit: Microseconds, is_utc: true }
            }
            (None, ConvertedType::TIMESTAMP_MILLIS) if is_number => {
                Self::Timestamp { unit: Milliseconds, is_utc: true }
            }
            (None, ConvertedType::TIMESTAMP_MICROS) if is_number => {
                Self::Timestamp { unit: Microseconds, is_utc: true }
            }
            (Some(LogicalType::Uuid), _) if column.type_length() == 16 => Self::Uuid,
            (Some(LogicalType::Integer(kind)), _) if is_number && !kind.is_signed => Self::Unsigned,
            (
                None,
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64,
            ) if is_number => Self::Unsigned,
            _ => match physical {
                Type::BOOLEAN => Self::Bool,
                Type::INT32 | Type::INT64 => Self::Signed,
                Type::INT96 => Self::Julian,
                Type::FLOAT => Self::Float,
                Type::DOUBLE => Self::Double,
                Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => Self::Bytes,
            },
        })
    }

    /// The type of its values as those of a typed column; text where there is none for them.
    pub(super) fn column_type(self, column: &ColumnDescriptor) -> ColumnType {
        let is_text = matches!(
            column.logical_type_ref(),
            Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
        ) || matches!(
            column.converted_type(),
            ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
        );
        match self {
            Self::Bytes if is_text => ColumnType::Text,
            Self::Bytes => ColumnType::Bytes,
            Self::Bool => ColumnType::Boolean,
            Self::Signed => ColumnType::Integer,
            Self::Unsigned => ColumnType::Unsigned,
            Self::Float => ColumnType::Float32,
            Self::Double => ColumnType::Float,
            Self::Decimal { scale, .. } => match (u8::try_from(column.type_precision()), u8::try_from(scale))
            {
                (Ok(precision), Ok(scale)) if (1..=PRECISION_MAX).contains(&precision) => {
                    ColumnType::Decimal { precision, scale }
                }
                _ => ColumnType::Text,
            },
            Self::Date => ColumnType::Date,
            Self::Timestamp { unit, is_utc } => ColumnType::Timestamp { unit, is_utc },
            Self::Julian => ColumnType::Timestamp { unit: TimeUnit::Nanoseconds, is_utc: false },
            Self::Time { .. } | Self::Uuid => ColumnType::Text,
        }
    }

    /// Appends the text of a value.
    #[inline]
    pub(super) fn append(self, value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Bytes => out.extend_from_slice(value),
            Self::Bool => key_text::append_bool(value != [0], out),
            Self::Signed => key_text::append_integer(signed(value), out),
            Self::Unsigned => match value {
                [_, _, _, _] => key_text::append_integer(signed(value) as u32, out),
                _ => key_text::append_integer(signed(value) as u64, out),
            },
            Self::Float => key_text::append_f32(f32::from_le_bytes(array(value)?), out),
            Self::Double => key_text::append_f64(f64::from_le_bytes(array(value)?), out),
            Self::Decimal { is_big_endian: true, .. } if value.len() > DECIMAL_BYTES_MAX => {
                return Err(invalid(format!("a decimal of {} bytes", value.len())).into());
            }
            Self::Decimal { scale, is_big_endian: true } => key_text::append_decimal(value, scale, out),
            Self::Decimal { scale, .. } => key_text::append_decimal(&signed(value).to_be_bytes(), scale, out),
            Self::Date => key_text::append_date(signed(value), out),
            Self::Time { unit, is_utc } => key_text::append_time(signed(value), unit, is_utc, out),
            Self::Timestamp { unit, is_utc } => key_text::append_timestamp(signed(value), unit, is_utc, out),
            Self::Julian => {
                let [a, b, c, d, e, f, g, h, day @ ..] = array::<12>(value)?;
                key_text::append_date(i64::from(u32::from_le_bytes(day)) - JULIAN_1970, out);
                out.push(b'T');
                let nanoseconds = i64::from_le_bytes([a, b, c, d, e, f, g, h]);
                key_text::append_time(nanoseconds, TimeUnit::Nanoseconds, false, out);
            }
            Self::Uuid => key_text::append_uuid(&array(value)?, out),
        }
        Ok(())
    }
}

fn unit(unit: ParquetUnit) -> TimeUnit {
    match unit {
        ParquetUnit::MILLIS => TimeUnit::Milliseconds,
        ParquetUnit::MICROS => TimeUnit::Microseconds,
        ParquetUnit::NANOS => TimeUnit::Nanoseconds,
    }
}

/// A number of 32 or 64 bits.
fn signed(value: &[u8]) -> i64 {
    match *value {
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

fn array<const N: usize>(value: &[u8]) -> Result<[u8; N], Fault> {
    value.try_into().map_err(|_| invalid("a value of another length than its type").into())
}
