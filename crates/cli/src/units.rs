//! Human units, both ways: `64MiB` into bytes, and counts, bytes, rates and times into short text.

/// Parses a size such as `64MiB`, `1.5GB`, `4096`. Binary suffixes are powers of 1024, decimal ones of 1000;
/// a bare `K`, `M`, `G`, `T` is binary, as in most tools that take memory sizes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is not a size; write one such as 64MiB or 2GB"))?;
    let scale: f64 = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        other => {
            return Err(format!("{other:?} is not a unit of size; use KiB, MiB, GiB, TiB, KB, MB, GB or TB"));
        }
    };
    let bytes = number * scale;
    if bytes >= 9e18 {
        return Err(format!("{text:?} is larger than any memory; the most is 8EiB"));
    }
    Ok(bytes as u64)
}

/// Parses a number of things such as `1000000`, `1e9`, `2.5e6`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    match text.trim().parse::<f64>() {
        Ok(count) if (1.0..=1e18).contains(&count) => Ok(count as u64),
        _ => Err(format!("{text:?} is not a number from 1 to 1e18; write one such as 1000000 or 1e9")),
    }
}

/// So many things: `1 run`, `2 runs`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `1234567` as `1,234,567`.
pub(crate) fn count(value: impl Into<u128>) -> String {
    let digits = value.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count that is an upper bound, or a weight that one is taken from: `u64::MAX` is none.
pub(crate) fn bound(value: u64) -> String {
    if value == u64::MAX { "no bound".to_owned() } else { count(value) }
}

/// Bytes with a binary unit and three significant digits: `64.0 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = if scaled < 9.995 {
        2
    } else if scaled < 99.95 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$} {}", UNITS[unit])
}

/// A rate a second with a decimal unit: `12.3 M`.
pub(crate) fn rate(per_second: f64) -> String {
    let (scaled, unit) = match per_second {
        r if r >= 1e9 => (r / 1e9, " G"),
        r if r >= 1e6 => (r / 1e6, " M"),
        r if r >= 1e3 => (r / 1e3, " k"),
        r => (r, ""),
    };
    let decimals = if scaled < 10.0 {
        2
    } else if scaled < 100.0 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$}{unit}")
}

/// Seconds as `0.42 s`, `12.3 s`, `4 min 05 s`, `2 h 03 min`.
pub(crate) fn seconds(value: f64) -> String {
    let whole = value as u64;
    if value < 10.0 {
        format!("{value:.2} s")
    } else if value < 100.0 {
        format!("{value:.1} s")
    } else if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
    }
}

/// A share of one as a percentage: `12.3 %`, `0.012 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 10.0 {
        format!("{percent:.1} %")
    } else if percent >= 0.1 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.2e} %")
    }
}

/// A number that may be very small, with three significant digits: `0`, `1.02e-7`, `0.0067`, `1.23`, `4,711`.
pub(crate) fn small(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 1e-3 => format!("{v:.2e}"),
        v if v < 0.1 => format!("{v:.4}"),
        v if v < 100.0 => format!("{v:.2}"),
        v => count(v.round() as u64),
    }
}

/// A measured number: whole ones and those of more than six digits (a time since 1970 in any unit, say) without a fraction, others
/// with six significant digits; with an exponent only beyond 2^63 and below 1e-4.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 2f64.powi(63) && (value.fract() == 0.0 || magnitude >= 999_999.5) {
        let text = count(magnitude.round() as u64);
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    if (1.0..1e6).contains(&magnitude) {
        let digits_before = magnitude.log10().floor() as usize + 1;
        return format!("{value:.*}", 6usize.saturating_sub(digits_before));
    }
    if (1e-4..1.0).contains(&magnitude) { format!("{value:.5}") } else { format!("{value:.5e}") }
}

/// A time in nanoseconds since 1970 as RFC 3339 has it, in UTC, with as many digits behind the second as it takes, in threes:
/// `2026-11-23T14:05:00Z`, `2026-11-23T14:05:00.250Z`.
pub(crate) fn utc(time_ns: u64) -> String {
    let (seconds, nanoseconds) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years of 365 days with a day more in each fourth, but for 3 of 4 centuries, counted from the first of March of the year 0.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, months have 31, 30, 31, 30, 31 days over and over.
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match nanoseconds {
        0 => String::new(),
        ns if ns.is_multiple_of(1_000_000) => format!(".{:03}", ns / 1_000_000),
        ns if ns.is_multiple_of(1000) => format!(".{:06}", ns / 1000),
        ns => format!(".{ns:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (time_ns, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (951_868_799_999_999_999, "2000-02-29T23:59:59.999999999Z"),
            (951_868_800_000_001_000, "2000-03-01T00:00:00.000001Z"),
            (1_709_164_800_000_000_000, "2024-02-29T00:00:00Z"),
            (1_735_689_599_500_000_000, "2024-12-31T23:59:59.500Z"),
            (1_735_689_600_000_000_000, "2025-01-01T00:00:00Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00Z"),
            (u64::MAX, "2554-07-21T23:34:33.709551615Z"),
        ] {
            assert_eq!(utc(time_ns), text);
        }
    }

    #[test]
    fn sizes_parse_with_every_unit() {
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes(" 1.5 GB "), Ok(1_500_000_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        assert!(parse_bytes("64MiX").unwrap_err().contains("mix"));
        assert!(parse_bytes("MiB").unwrap_err().contains("64MiB"));
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("1e30T").is_err());
    }

    #[test]
    fn numbers_of_things_parse_with_exponents() {
        assert_eq!(parse_count("1e9"), Ok(1_000_000_000));
        assert_eq!(parse_count("12"), Ok(12));
        for bad in ["0", "-1", "nan", "1e19", "many", ""] {
            assert!(parse_count(bad).unwrap_err().contains("1e9"), "{bad}");
        }
    }

    #[test]
    fn numbers_print_short() {
        let shorts = [0.0, 1.0166e-7, 0.00674, 1.234, 4711.4].map(small);
        assert_eq!(shorts, ["0", "1.02e-7", "0.0067", "1.23", "4,711"]);
        assert_eq!(count(0u32), "0");
        assert_eq!(count(1_234_567u32), "1,234,567");
        assert_eq!(count(1u128 << 64), "18,446,744,073,709,551,616");
        assert_eq!([bound(u64::MAX - 1), bound(u64::MAX)], ["18,446,744,073,709,551,614", "no bound"]);
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(1023 * 1024), "1.00 MiB");
        assert_eq!(rate(12_345_678.0), "12.3 M");
        assert_eq!(seconds(0.4213), "0.42 s");
        assert_eq!(seconds(245.0), "4 min 05 s");
        assert_eq!(seconds(7385.0), "2 h 03 min");
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(number(12.0), "12");
        assert_eq!(number(-1234.5), "-1234.50");
        assert_eq!(number(0.25), "0.25000");
        assert_eq!(number(1_577_836_800.25), "1,577,836,800");
        assert_eq!(number(-4.000_000_000_5e15), "-4,000,000,000,500,000");
        assert_eq!(number(999_999.7), "1,000,000");
        assert_eq!(number(1.7e308), "1.70000e308");
        assert_eq!(number(-5e-324), "-4.94066e-324");
    }
}
