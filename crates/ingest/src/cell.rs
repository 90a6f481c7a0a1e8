//! The typed values of columns, out of the text that formats give of them: what [`key_text`](crate::key_text) writes, and what people do.
//!
//! | type | text |
//! |---|---|
//! | text | UTF-8, as it is |
//! | bytes | anything, as it is |
//! | integer, unsigned | decimal digits with or without a sign |
//! | float | as Rust's `f64` reads it: `1`, `-1.5e-7`, `inf`, `nan` |
//! | boolean | `true`, `false`, `t`, `f`, `1`, `0` in any case |
//! | decimal | digits with a point; no more behind it than the scale has, zeros aside |
//! | date | `2026-11-22`, with a sign before years of more than four digits |
//! | timestamp | a date, or one with a time of day behind a `T` or a blank: `10:31`, `10:31:21`, `10:31:21.5`; then nothing, `Z` or an offset: `+01:00` |
//!
//! Blanks around all but text and bytes are passed over. What has more digits than its type keeps is refused, not rounded; floats alone are
//! rounded, as everywhere.

use crate::key_text::TimeUnit;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
    /// `i64`.
    Integer,
    /// `u64`.
    Unsigned,
    /// `f32`; batches have it as `f64`.
    Float32,
    /// `f64`.
    Float,
    /// Truth values.
    Boolean,
    /// Of `precision` digits, at most 38, `scale` of them behind the point; batches have them without the point.
    Decimal {
        /// All digits.
        precision: u8,
        /// Those behind the point.
        scale: u8,
    },
    /// Days since 1970-01-01.
    Date,
    /// Units since the start of 1970. A text with an offset is taken to UTC; one without is taken as it is.
    Timestamp {
        /// What is counted.
        unit: TimeUnit,
        /// Whether it is a moment of UTC, and not what a clock somewhere shows.
        is_utc: bool,
    },
}

/// The value of a column in a row, unless it is text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Also dates and timestamps.
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Boolean(bool),
    Decimal(i128),
}

/// The most digits of a decimal.
pub(crate) const PRECISION_MAX: u8 = 38;

impl ColumnType {
    /// The type that all of some texts have, empty ones aside: integer, float, date, timestamp of microseconds, or else text.
    ///
    /// ```
    /// use overbank_ingest::ColumnType;
    /// assert_eq!(ColumnType::of_sample([&b"1"[..], b"", b"-20"]), ColumnType::Integer);
    /// assert_eq!(ColumnType::of_sample([&b"1"[..], b"1.5"]), ColumnType::Float);
    /// assert_eq!(ColumnType::of_sample([&b"1"[..], b"n/a"]), ColumnType::Text);
    /// ```
    pub fn of_sample<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> ColumnType {
        let timestamp = ColumnType::Timestamp { unit: TimeUnit::Microseconds, is_utc: false };
        let mut left = vec![ColumnType::Integer, ColumnType::Float, ColumnType::Date, timestamp];
        let mut is_empty = true;
        for text in texts {
            if !text.is_empty() {
                is_empty = false;
                left.retain(|kind| kind.parse(text).is_ok());
            }
        }
        left.first().copied().filter(|_| !is_empty).unwrap_or(ColumnType::Text)
    }

    /// Whether batches have its values as bytes.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, ColumnType::Text | ColumnType::Bytes)
    }

    /// The value that a text is; what it is not if it is none.
    pub(crate) fn parse(self, text: &[u8]) -> Result<Cell, String> {
        let text = std::str::from_utf8(text.trim_ascii()).unwrap_or("\0");
        match self {
            ColumnType::Text | ColumnType::Bytes => None,
            ColumnType::Integer => text.parse().ok().map(Cell::Integer),
            ColumnType::Unsigned => text.parse().ok().map(Cell::Unsigned),
            ColumnType::Float32 => text.parse().ok().map(|value: f32| Cell::Float(value.into())),
            ColumnType::Float => text.parse().ok().map(Cell::Float),
            ColumnType::Boolean => boolean(text).map(Cell::Boolean),
            ColumnType::Decimal { precision, scale } => decimal(text, precision, scale).map(Cell::Decimal),
            ColumnType::Date => date(text).map(Cell::Integer),
            ColumnType::Timestamp { unit, .. } => timestamp(text, unit).map(Cell::Integer),
        }
        .ok_or_else(|| self.shown())
    }

    /// What a value is to be, in words.
    pub(crate) fn shown(self) -> String {
        match self {
            ColumnType::Text => "UTF-8; give the type binary".to_owned(),
            ColumnType::Bytes => "bytes".to_owned(),
            ColumnType::Integer => "an integer of 64 bits".to_owned(),
            ColumnType::Unsigned => "an integer of 64 bits that is not below zero".to_owned(),
            ColumnType::Float32 | ColumnType::Float => "a float".to_owned(),
            ColumnType::Boolean => "true or false".to_owned(),
            ColumnType::Decimal { precision, scale } => {
                format!("a decimal of {precision} digits, {scale} of them behind the point")
            }
            ColumnType::Date => "a date such as 2026-11-22".to_owned(),
            ColumnType::Timestamp { unit, .. } => {
                format!("a timestamp such as 2026-11-22T10:31:21, of {}", unit.shown())
            }
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept = fraction.trim_end_matches('0');
    let is_number = whole.len() + fraction.len() > 0
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_number || kept.len() > usize::from(scale) {
        return None;
    }
    let zeros = std::iter::repeat_n(b'0', usize::from(scale) - kept.len());
    let mut value = 0i128;
    for digit in whole.bytes().chain(kept.bytes()).chain(zeros) {
        value = value.checked_mul(10)?.checked_add((digit - b'0').into())?;
    }
    let limit = 10i128.checked_pow(precision.min(PRECISION_MAX).into())?;
    (value < limit).then_some(if is_negative { -value } else { value })
}

/// Digits alone, as a number.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Days since 1970-01-01.
fn date(text: &str) -> Option<i64> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut parts = unsigned.splitn(3, '-');
    let year = sign * number(parts.next()?, 4..=6)?;
    let (month, day) = (number(parts.next()?, 1..=2)?, number(parts.next()?, 1..=2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then(|| days_before(year, month) + day - 1)
}

/// Days from 1970-01-01 to the first of a month. Years are counted from March on, so that a leap day ends one.
fn days_before(year: i64, month: i64) -> i64 {
    let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month_from_march + 2) / 5;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// Units since the start of 1970.
fn timestamp(text: &str, unit: TimeUnit) -> Option<i64> {
    let (day, time) = match text.split_once(['T', 't', ' ']) {
        Some((day, time)) => (date(day)?, time),
        None => return date(text)?.checked_mul(86_400)?.checked_mul(unit.per_second()),
    };
    let at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(at);
    let offset = match zone {
        "" | "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = match zone[1..].split_once(':') {
                Some(parts) => parts,
                None => zone[1..].split_at_checked(2)?,
            };
            let minutes = if minutes.is_empty() { 0 } else { number(minutes, 2..=2)? };
            let seconds = (number(hours, 2..=2)? * 60 + minutes) * 60;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let mut parts = clock.trim_end().splitn(3, ':');
    let (hour, minute) = (number(parts.next()?, 1..=2)?, number(parts.next()?, 2..=2)?);
    let (second, fraction) =
        parts.next().map_or(("0", ""), |text| text.split_once('.').unwrap_or((text, "")));
    let second = number(second, 1..=2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = day.checked_mul(86_400)?.checked_add(hour * 3600 + minute * 60 + second - offset)?;
    seconds.checked_mul(unit.per_second())?.checked_add(fraction_of(fraction, unit)?)
}

/// The units that the digits behind a second's point are.
fn fraction_of(digits: &str, unit: TimeUnit) -> Option<i64> {
    let kept = digits.trim_end_matches('0');
    let missing = (unit.digits() as usize).checked_sub(kept.len())?;
    if kept.is_empty() {
        return digits.bytes().all(|byte| byte == b'0').then_some(0);
    }
    Some(number(kept, 1..=9)? * 10i64.pow(missing as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_text;
    use proptest::prelude::*;

    const MICROSECONDS: ColumnType = ColumnType::Timestamp { unit: TimeUnit::Microseconds, is_utc: true };
    const PRICE: ColumnType = ColumnType::Decimal { precision: 5, scale: 2 };

    #[test]
    fn what_people_write_is_read() {
        for (kind, text, expected) in [
            (ColumnType::Integer, " -5 ", Cell::Integer(-5)),
            (ColumnType::Unsigned, "18446744073709551615", Cell::Unsigned(u64::MAX)),
            (ColumnType::Float, "-1.5e-7", Cell::Float(-1.5e-7)),
            (ColumnType::Float32, "0.1", Cell::Float(0.1f32.into())),
            (ColumnType::Boolean, "True", Cell::Boolean(true)),
            (ColumnType::Boolean, "0", Cell::Boolean(false)),
            (PRICE, "12.3", Cell::Decimal(1230)),
            (PRICE, "-.05000", Cell::Decimal(-5)),
            (PRICE, "+999.99", Cell::Decimal(99_999)),
            (ColumnType::Date, "1970-01-02", Cell::Integer(1)),
            (ColumnType::Date, "2000-02-29", Cell::Integer(11_016)),
            (MICROSECONDS, "1970-01-01 00:00:01.5", Cell::Integer(1_500_000)),
            (MICROSECONDS, "1970-01-01T01:00+01:00", Cell::Integer(0)),
            (MICROSECONDS, "1969-12-31T23:59:59-0030", Cell::Integer(1_799_000_000)),
            (MICROSECONDS, "1970-01-02", Cell::Integer(86_400_000_000)),
        ] {
            assert_eq!(kind.parse(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for (kind, texts) in [
            (ColumnType::Integer, &["", "1.0", "9223372036854775808", "x", "1 2"][..]),
            (ColumnType::Unsigned, &["-1", "18446744073709551616"]),
            (ColumnType::Float, &["", "1,5", "0x10"]),
            (ColumnType::Boolean, &["", "2", "yes"]),
            (PRICE, &["", ".", "1000", "1.001", "1e2", "--1", "1.2.3"]),
            (
                ColumnType::Date,
                &["", "-", "2023-02-29", "1900-02-29", "2023-13-01", "2023-00-01", "2023-1", "20230101"],
            ),
            (
                MICROSECONDS,
                &[
                    "",
                    "2023-01-01T24:00",
                    "2023-01-01T10",
                    "2023-01-01T10:00:00.0000001",
                    "2023-01-01T10:00+1",
                    "2023-01-01Tx",
                ],
            ),
        ] {
            for text in texts {
                assert!(kind.parse(text.as_bytes()).is_err(), "{text:?} as {kind:?}");
            }
        }
        assert!(ColumnType::Integer.parse(b"\xff").is_err());
    }

    #[test]
    fn a_sample_has_the_narrowest_type_of_all_its_values() {
        let of = |texts: &[&str]| ColumnType::of_sample(texts.iter().map(|text| text.as_bytes()));
        assert_eq!(of(&[]), ColumnType::Text);
        assert_eq!(of(&["", ""]), ColumnType::Text);
        assert_eq!(of(&["2026-11-22", ""]), ColumnType::Date);
        let local = ColumnType::Timestamp { unit: TimeUnit::Microseconds, is_utc: false };
        assert_eq!(of(&["2026-11-22", "2026-11-22 10:00"]), local);
        assert_eq!(of(&["9223372036854775807", "9223372036854775808"]), ColumnType::Float);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            integer: i64, float in any::<f64>().prop_filter("NaNs differ", |float| !float.is_nan()),
            days in -3_000_000i64..3_000_000, moment in -60_000_000_000_000_000i64..200_000_000_000_000_000,
            unscaled in -99_999i64..100_000,
        ) {
            let mut text = Vec::new();
            let mut check = |kind: ColumnType, append: &dyn Fn(&mut Vec<u8>), cell| {
                text.clear();
                append(&mut text);
                prop_assert_eq!(kind.parse(&text), Ok(cell), "{}", String::from_utf8_lossy(&text));
                Ok(())
            };
            check(ColumnType::Integer, &|out| key_text::append_integer(integer, out), Cell::Integer(integer))?;
            check(ColumnType::Float, &|out| key_text::append_f64(float, out), Cell::Float(float))?;
            check(ColumnType::Date, &|out| key_text::append_date(days, out), Cell::Integer(days))?;
            let decimal = |out: &mut Vec<u8>| key_text::append_decimal(&unscaled.to_be_bytes(), 2, out);
            check(PRICE, &decimal, Cell::Decimal(unscaled.into()))?;
            let timestamp = |out: &mut Vec<u8>| key_text::append_timestamp(moment, TimeUnit::Microseconds, true, out);
            check(MICROSECONDS, &timestamp, Cell::Integer(moment))?;
        }

        #[test]
        fn no_text_panics(text in "[-+.:0-9TZe ]{0,24}") {
            for kind in [ColumnType::Integer, ColumnType::Float, PRICE, ColumnType::Date, MICROSECONDS] {
                let _ = kind.parse(text.as_bytes());
            }
        }
    }
}
