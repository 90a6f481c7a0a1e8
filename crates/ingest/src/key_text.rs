//! The text of typed values: what a number, a truth value or a moment is as a key, whichever format brings it.
//!
//! Text formats keep a field as it is written: `1.50` in CSV or JSON is the key `1.50`, and the JSON number `1` is the key of the
//! string `"1"`. Formats that store values instead of text give them the text that people and other programs write for them:
//!
//! | value | text |
//! |---|---|
//! | integer | decimal digits: `-8`, `18446744073709551615` |
//! | float | the fewest digits that read back as the same float of that width, as Python's `repr` has it: `-8.0`, `0.0001`, `1e-05`, `1e+16`, `-0.0`, `inf`, `-inf`, `nan` |
//! | truth value | `true`, `false` |
//! | decimal | all digits of its scale: `12.30` |
//! | date | `2026-11-22`; years from 10000 on have a plus, those before 0 a minus: `+12026-01-01`, `-0001-12-31` |
//! | time of day | `10:31:21`, `10:31:21.5`, with a `Z` where it is UTC |
//! | timestamp | `2026-11-22T10:31:21.5Z`; without the `Z` where it is local time. The fraction has no zeros at its end, so a moment is one key in every unit |
//! | UUID | `6fa459ea-ee8a-3ca4-894e-db77e160355e` |
//!
//! Strings and byte arrays are their bytes. Dates are those of the Gregorian calendar, also before there was one.

use std::fmt::LowerExp;
use std::io::Write as _;

/// The part of a second that a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// 1,000 a second.
    Milliseconds,
    /// 1,000,000 a second.
    Microseconds,
    /// 1,000,000,000 a second.
    Nanoseconds,
}

impl TimeUnit {
    pub(crate) fn per_second(self) -> i64 {
        10i64.pow(self.digits())
    }

    /// The digits of a fraction of a second.
    pub(crate) fn digits(self) -> u32 {
        match self {
            Self::Milliseconds => 3,
            Self::Microseconds => 6,
            Self::Nanoseconds => 9,
        }
    }

    /// Its name.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

const DAY_SECONDS: i64 = 86_400;

/// Appends an integer.
pub fn append_integer(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail, here and below.
    let _ = write!(out, "{value}");
}

/// Appends a truth value.
pub fn append_bool(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends a float of 64 bits.
pub fn append_f64(value: f64, out: &mut Vec<u8>) {
    match value {
        _ if value.is_nan() => out.extend_from_slice(b"nan"),
        _ if value.is_infinite() => append_infinity(value < 0.0, out),
        _ => append_finite(value, out),
    }
}

/// Appends a float of 32 bits: 0.1 is `0.1`, not what 64 bits make of it.
pub fn append_f32(value: f32, out: &mut Vec<u8>) {
    match value {
        _ if value.is_nan() => out.extend_from_slice(b"nan"),
        _ if value.is_infinite() => append_infinity(value < 0.0, out),
        _ => append_finite(value, out),
    }
}

fn append_infinity(is_negative: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if is_negative { b"-inf" } else { b"inf" });
}

/// Lays out the shortest digits, which the standard library finds, as Python does: plainly where the decimal exponent is from -4
/// to 15.
fn append_finite(value: impl LowerExp, out: &mut Vec<u8>) {
    let start = out.len();
    let _ = write!(out, "{value:e}");
    let written = out.split_off(start);
    let text = std::str::from_utf8(&written).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replacen('.', "", 1);
    let (first, rest) = digits.split_at(digits.len().min(1));
    out.extend_from_slice(sign.as_bytes());
    let _ = match exponent {
        0..=15 => {
            let whole = exponent as usize + 1;
            let (before, after) = digits.split_at(digits.len().min(whole));
            let after = if after.is_empty() { "0" } else { after };
            write!(out, "{before:0<whole$}.{after}")
        }
        -4..=-1 => write!(out, "0.{:0<zeros$}{digits}", "", zeros = (-exponent - 1) as usize),
        _ => {
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs())
        }
    };
}

/// Appends a decimal: a whole number in two's complement, its highest byte first, of which the last `scale` digits are behind the point.
pub fn append_decimal(unscaled: &[u8], scale: u32, out: &mut Vec<u8>) {
    let is_negative = unscaled.first().is_some_and(|&byte| byte & 0x80 != 0);
    let mut magnitude = unscaled.to_vec();
    if is_negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    // The digits, the lowest first.
    let mut digits = Vec::new();
    while magnitude.iter().any(|&byte| byte != 0) {
        let mut remainder = 0u16;
        for byte in &mut magnitude {
            let part = remainder << 8 | u16::from(*byte);
            (*byte, remainder) = ((part / 10) as u8, part % 10);
        }
        digits.push(b'0' + remainder as u8);
    }
    let scale = scale as usize;
    let missing = (scale + 1).saturating_sub(digits.len());
    digits.extend(std::iter::repeat_n(b'0', missing));
    if is_negative {
        out.push(b'-');
    }
    let (fraction, whole) = digits.split_at(scale);
    out.extend(whole.iter().rev());
    if scale > 0 {
        out.push(b'.');
        out.extend(fraction.iter().rev());
    }
}

/// Appends the date that lies `days` days behind 1970-01-01.
pub fn append_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

/// Appends the time of day that lies `count` units behind midnight.
pub fn append_time(count: i64, unit: TimeUnit, is_utc: bool, out: &mut Vec<u8>) {
    let (seconds, fraction) = (count.div_euclid(unit.per_second()), count.rem_euclid(unit.per_second()));
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds.div_euclid(3600), seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let start = out.len();
        let _ = write!(out, ".{fraction:0digits$}", digits = unit.digits() as usize);
        let zeros = out[start..].iter().rev().take_while(|&&digit| digit == b'0').count();
        out.truncate(out.len() - zeros);
    }
    if is_utc {
        out.push(b'Z');
    }
}

/// Appends the moment that lies `count` units behind the start of 1970.
pub fn append_timestamp(count: i64, unit: TimeUnit, is_utc: bool, out: &mut Vec<u8>) {
    let day = DAY_SECONDS * unit.per_second();
    append_date(count.div_euclid(day), out);
    out.push(b'T');
    append_time(count.rem_euclid(day), unit, is_utc, out);
}

/// Appends a UUID.
pub fn append_uuid(uuid: &[u8; 16], out: &mut Vec<u8>) {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

/// Year, month and day of the Gregorian calendar. Years are counted from March on, so that a leap day ends one, in cycles of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE_DAYS: i64 = 146_097;
    // 0000-03-01 lies 719,468 days before 1970-01-01.
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March on have 153 days in every five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before ".to_vec();
        append(&mut out);
        String::from_utf8(out).expect("text").strip_prefix("before ").expect("only appended").to_owned()
    }

    #[test]
    fn floats_are_what_python_says() {
        // Each right side is what `repr` of Python 3 prints.
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-8.0, "-8.0"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123.456, "123.456"),
            (1e15, "1000000000000000.0"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (12_345_678_901_234_567_890.0, "1.2345678901234567e+19"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (-2.5e-300, "-2.5e-300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ] {
            assert_eq!(text(|out| append_f64(value, out)), expected);
        }
        // Each right side is what `str` of numpy's float32 prints.
        for (value, expected) in [
            (0.1f32, "0.1"),
            (16_777_216.0, "16777216.0"),
            (1e16, "1e+16"),
            (1e-5, "1e-05"),
            (f32::MAX, "3.4028235e+38"),
            (1e-45, "1e-45"),
            (-0.0, "-0.0"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::NAN, "nan"),
        ] {
            assert_eq!(text(|out| append_f32(value, out)), expected);
        }
    }

    #[test]
    fn integers_and_truth_values() {
        assert_eq!(text(|out| append_integer(i64::MIN, out)), "-9223372036854775808");
        assert_eq!(text(|out| append_integer(u64::MAX, out)), "18446744073709551615");
        assert_eq!(text(|out| append_bool(true, out)), "true");
        assert_eq!(text(|out| append_bool(false, out)), "false");
    }

    #[test]
    fn decimals_keep_their_scale() {
        for (unscaled, scale, expected) in [
            (&[0x04, 0xce][..], 2, "12.30"),
            (&[0xfb, 0x32], 2, "-12.30"),
            (&[0], 0, "0"),
            (&[0], 3, "0.000"),
            (&[5], 3, "0.005"),
            (&[0xff], 1, "-0.1"),
            (&[0x80], 0, "-128"),
            (&[], 1, "0.0"),
            (&[0x7f; 16], 0, "169473963133173273960190490760135540607"),
            (
                &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                10,
                "34028236692093846346337460743.1768211456",
            ),
        ] {
            assert_eq!(text(|out| append_decimal(unscaled, scale, out)), expected);
        }
    }

    #[test]
    fn dates_times_and_timestamps_are_iso_8601() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (20_779, "2026-11-22"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (-25_509, "1900-02-28"),
            (-25_508, "1900-03-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
        ] {
            assert_eq!(text(|out| append_date(days, out)), expected);
        }
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds};
        for (count, unit, is_utc, expected) in [
            (0, Milliseconds, true, "1970-01-01T00:00:00Z"),
            (-1, Milliseconds, true, "1969-12-31T23:59:59.999Z"),
            (1_795_343_481_500, Milliseconds, true, "2026-11-22T10:31:21.5Z"),
            (1_795_343_481_500_000, Microseconds, true, "2026-11-22T10:31:21.5Z"),
            (1_795_343_481_500_000_000, Nanoseconds, true, "2026-11-22T10:31:21.5Z"),
            (1_795_343_481_000_001, Microseconds, false, "2026-11-22T10:31:21.000001"),
            (i64::MAX, Nanoseconds, false, "2262-04-11T23:47:16.854775807"),
            (i64::MIN, Nanoseconds, true, "1677-09-21T00:12:43.145224192Z"),
            (i64::MIN, Milliseconds, true, "-292275055-05-16T16:47:04.192Z"),
            (i64::MAX, Milliseconds, true, "+292278994-08-17T07:12:55.807Z"),
        ] {
            assert_eq!(text(|out| append_timestamp(count, unit, is_utc, out)), expected);
        }
        assert_eq!(text(|out| append_time(37_881_500, Milliseconds, false, out)), "10:31:21.5");
        assert_eq!(text(|out| append_time(0, Nanoseconds, true, out)), "00:00:00Z");
    }

    #[test]
    fn uuids_have_their_hyphens() {
        let uuid = 0x6fa4_59ea_ee8a_3ca4_894e_db77_e160_355e_u128.to_be_bytes();
        assert_eq!(text(|out| append_uuid(&uuid, out)), "6fa459ea-ee8a-3ca4-894e-db77e160355e");
    }

    proptest! {
        #[test]
        fn floats_read_back_as_they_were(bits in any::<u64>(), short in any::<u32>()) {
            let value = f64::from_bits(bits);
            let back: f64 = text(|out| append_f64(value, out)).parse().expect("a float");
            prop_assert!(back.to_bits() == bits || value.is_nan() && back.is_nan());
            let value = f32::from_bits(short);
            let back: f32 = text(|out| append_f32(value, out)).parse().expect("a float");
            prop_assert!(back.to_bits() == short || value.is_nan() && back.is_nan());
        }

        #[test]
        fn days_follow_one_another(days in -200_000_000i64..200_000_000) {
            let (year, month, day) = civil(days);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            let next = match (month, day == last) {
                (_, false) => (year, month, day + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
            prop_assert_eq!(civil(days + 1), next);
        }

        #[test]
        fn decimals_are_their_numbers(unscaled in any::<i128>(), scale in 0u32..30) {
            let text = text(|out| append_decimal(&unscaled.to_be_bytes(), scale, out));
            let behind = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            prop_assert_eq!(behind, scale as usize);
            prop_assert_eq!(text.replacen('.', "", 1).parse::<i128>().expect("a number"), unscaled);
        }
    }
}
