//! What a pass found, as tables for people and as JSON for programs.

mod counts;
mod filter;
mod monitor;

pub(crate) use counts::{Counts, count_page, flash_json, flash_lines};
pub(crate) use filter::{
    DedupCost, FilterFacts, RowCounts, filter_json, filter_lines, print_dedup, run_table,
};
pub(crate) use monitor::{
    distinct_flows_json, epoch_json, epoch_section, facts, flow_json, flow_table, monitor_json, monitor_page,
    signed, size_figures, size_lines, sizes_json, title, top_note,
};

use crate::arguments::Form;
use crate::failure::Failure;
use crate::page::{Align, Page, key_text};
use crate::plain::{self, Field};
use crate::units;
use overbank::profile::{Distribution, HeavyHitter, Measure, ProfileReport};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What a run cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Wall-clock seconds of this run.
    pub(crate) seconds: f64,
    /// Rows read in this run, which is less than the report's where a run was resumed.
    pub(crate) rows: u64,
    /// Malformed rows of this run.
    pub(crate) malformed: u64,
    /// Rows of this run without a key.
    pub(crate) missing: u64,
    /// Decompressed bytes read in this run.
    pub(crate) bytes: u64,
    /// The most memory that the process held at once, in bytes; 0 where the system does not tell.
    pub(crate) peak_memory_bytes: u64,
    /// The budget.
    pub(crate) memory_bytes: u64,
    /// Bytes that the store holds; 0 without one.
    pub(crate) stored_bytes: u64,
    /// Bytes that this run wrote to devices; 0 where the system does not tell.
    pub(crate) written_bytes: u64,
    /// Threads.
    pub(crate) threads: usize,
}

/// A row that yields no key.
#[derive(Clone, Debug)]
pub(crate) struct Skipped {
    pub(crate) fault: overbank_ingest::Fault,
    pub(crate) input: String,
    pub(crate) line: u64,
    pub(crate) why: String,
}

/// The report as text.
pub(crate) fn page(
    title: &str,
    report: &ProfileReport,
    counts: &Counts,
    skipped: &[Skipped],
    cost: &Cost,
) -> Page {
    let mut page = Page::new();
    page.heading(&format!("Profile of {title}"), "");
    stream_lines(&mut page, report, skipped);
    counts.line(&mut page);
    heavy_section(&mut page, report);
    quantile_lines(&mut page, &report.values);
    cost_section(&mut page, cost);
    page
}

/// Rows, bytes, distinct keys.
pub(crate) fn stream_lines(page: &mut Page, report: &ProfileReport, skipped: &[Skipped]) {
    page.fact("rows", &units::count(report.rows), "");
    if report.weight != u128::from(report.rows) {
        page.fact("total weight", &units::count(report.weight), "");
    }
    page.fact("bytes", &units::bytes(report.bytes), "");
    let distinct = &report.distinct;
    page.fact(
        "distinct keys",
        &rounded(distinct.estimate),
        &within(distinct.exact, rounded(distinct.lower), rounded(distinct.upper)),
    );
    let (least, most) = report.repeat_share_bounds();
    page.fact(
        "repeats",
        &units::percent(report.repeat_share()),
        &within(distinct.exact, units::percent(least), units::percent(most)),
    );
    if report.skipped > 0 {
        page.fact("rows skipped", &units::count(report.skipped), "malformed, or without a key");
    }
    for row in skipped {
        page.line(&format!("    {}:{}: {}", row.input, row.line, row.why));
    }
}

fn cost_section(page: &mut Page, cost: &Cost) {
    page.heading("Cost", "");
    let rate = |amount: u64| if cost.seconds > 0.0 { amount as f64 / cost.seconds } else { 0.0 };
    page.fact(
        "time",
        &units::seconds(cost.seconds),
        &format!(
            "{} rows/s, {}/s, {} threads",
            units::rate(rate(cost.rows)),
            units::bytes(rate(cost.bytes) as u64),
            cost.threads
        ),
    );
    page.fact(
        "peak memory",
        &units::bytes(cost.peak_memory_bytes),
        &format!("budget {}", units::bytes(cost.memory_bytes)),
    );
    if cost.stored_bytes > 0 {
        let written = format!("{} written in this run", units::bytes(cost.written_bytes));
        page.fact(
            "store",
            &units::bytes(cost.stored_bytes),
            if cost.written_bytes > 0 { &written } else { "" },
        );
    }
}

/// The heavy keys with their share of the weight. Where there are more keys than candidates, those that may weigh no more
/// than a key that is missing are left out: they are as heavy as any other.
pub(crate) fn heavy_section(page: &mut Page, report: &ProfileReport) {
    let threshold = report.heavy_threshold;
    let note = match threshold {
        0 => "every key was counted".to_owned(),
        u64::MAX => "counters are full: heavier keys may be missing".to_owned(),
        _ => format!("every key above {} is a candidate", units::count(threshold)),
    };
    page.heading("Heavy hitters", &note);
    let weight = report.weight.max(1) as f64;
    let rows: Vec<Vec<String>> = report
        .heavy
        .iter()
        .filter(|key| key.upper > threshold || threshold == u64::MAX)
        .map(|key| {
            // A key without an upper bound has no estimate either.
            let share = units::percent(key.estimate as f64 / weight);
            vec![
                units::bound(key.estimate),
                units::count(key.lower),
                units::bound(key.upper),
                if key.saturated() { String::new() } else { share },
                shown_key(key, 34),
            ]
        })
        .collect();
    if rows.is_empty() && report.rows > 0 && threshold == 0 {
        return page.line("  none were asked for");
    }
    if rows.is_empty() {
        return page.line(&format!("  none: no key came more than {} times", units::count(threshold)));
    }
    page.table(
        &[
            ("count", Align::Right),
            ("at least", Align::Right),
            ("at most", Align::Right),
            ("share", Align::Right),
            ("key", Align::Left),
        ],
        &rows,
    );
}

/// The heavy keys as lines, all that there are.
pub(crate) fn print_heavy(form: Form, heavy: &[HeavyHitter]) -> Result<(), Failure> {
    let names: Vec<Vec<u8>> = heavy
        .iter()
        .map(|key| if key.truncated { [&key.key[..], "…".as_bytes()].concat() } else { key.key.clone() })
        .collect();
    let rows = heavy.iter().zip(&names).map(|(key, name)| {
        [Field::bound(key.estimate), Field::Count(key.lower), Field::bound(key.upper), Field::Text(name)]
    });
    plain::print(form, &["estimate", "lower", "upper", "key"], rows)
}

/// The lines of quantiles.
pub(crate) fn quantile_lines(page: &mut Page, values: &Distribution) {
    let what = match values.measure {
        Measure::KeyLength => "Key length in bytes",
        Measure::Value => "Value",
    };
    page.heading(what, &format!("within {} of the true quantile", units::percent(values.relative_error)));
    if values.count == 0 {
        page.line("  no values");
        return;
    }
    let quantiles = values.quantiles.iter().map(|&(rank, number)| (rank_name(rank), units::number(number)));
    let mean = values.mean.map(|mean| ("mean".to_owned(), units::number(mean)));
    let (names, numbers): (Vec<String>, Vec<String>) = quantiles.chain(mean).unzip();
    page.figures(&names, &numbers);
}

/// `p50`, `p99.9`, `min`, `max`.
pub(crate) fn rank_name(rank: f64) -> String {
    match rank {
        0.0 => "min".to_owned(),
        1.0 => "max".to_owned(),
        rank => {
            let percent = format!("{:.6}", rank * 100.0);
            format!("p{}", percent.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

fn shown_key(key: &HeavyHitter, columns: usize) -> String {
    let text = key_text(&key.key, columns);
    if key.truncated && !text.ends_with('…') { format!("{text}…") } else { text }
}

/// The bounds of what is estimated from the registers of distinct keys.
pub(crate) fn within(is_exact: bool, lower: String, upper: String) -> String {
    if is_exact { "exact".to_owned() } else { format!("{lower} to {upper} (95 %)") }
}

fn rounded(value: f64) -> String {
    units::count(value.round() as u64)
}

/// The report as JSON: the same facts, exact numbers, keys as text and, where they are not UTF-8, as hexadecimal too.
pub(crate) fn json(
    inputs: &[String],
    report: &ProfileReport,
    counts: &Counts,
    skipped: &[Skipped],
    cost: &Cost,
) -> Value {
    let mut object = stream_json(inputs, report, counts, skipped, cost);
    object["values"] = values_json(&report.values);
    object
}

/// The report of `count` as JSON, which is what the reports of all passes have.
pub(crate) fn stream_json(
    inputs: &[String],
    report: &ProfileReport,
    counts: &Counts,
    skipped: &[Skipped],
    cost: &Cost,
) -> Value {
    let (least, most) = report.repeat_share_bounds();
    json!({
        "inputs": inputs,
        "rows": report.rows,
        "weight": weight_json(report.weight),
        "bytes": report.bytes,
        "skipped": report.skipped,
        "malformed": cost.malformed,
        "missing": cost.missing,
        "skipped_first": skipped.iter().map(|row| json!({"input": row.input, "line": row.line, "why": row.why})).collect::<Vec<_>>(),
        "distinct": distinct_json(&report.distinct),
        "repeat_share": {"estimate": report.repeat_share(), "lower": least, "upper": most, "exact": report.distinct.exact},
        "counts": counts.json(),
        "heavy_threshold": bound_json(report.heavy_threshold),
        "heavy": report.heavy.iter().map(heavy_json).collect::<Vec<_>>(),
        "cost": {
            "seconds": cost.seconds,
            "rows": cost.rows,
            "bytes": cost.bytes,
            "peak_memory_bytes": cost.peak_memory_bytes,
            "memory_bytes": cost.memory_bytes,
            "stored_bytes": cost.stored_bytes,
            "written_bytes": cost.written_bytes,
            "threads": cost.threads,
        },
    })
}

/// What several stores counted together, as JSON.
pub(crate) fn merged_json(stores: &[PathBuf], report: &ProfileReport) -> Value {
    let (least, most) = report.repeat_share_bounds();
    json!({
        "stores": stores.iter().map(|store| store.display().to_string()).collect::<Vec<_>>(),
        "rows": report.rows,
        "weight": weight_json(report.weight),
        "bytes": report.bytes,
        "skipped": report.skipped,
        "distinct": distinct_json(&report.distinct),
        "repeat_share": {"estimate": report.repeat_share(), "lower": least, "upper": most, "exact": report.distinct.exact},
        "heavy_threshold": bound_json(report.heavy_threshold),
        "heavy": report.heavy.iter().map(heavy_json).collect::<Vec<_>>(),
    })
}

/// Distinct keys as JSON.
pub(crate) fn distinct_json(distinct: &overbank::profile::DistinctCount) -> Value {
    json!({
        "estimate": distinct.estimate.round(),
        "lower": distinct.lower.floor(),
        "upper": distinct.upper.ceil(),
        "confidence": if distinct.exact { 1.0 } else { 0.95 },
        "relative_error": distinct.relative_error,
        "exact": distinct.exact,
    })
}

/// A weight that one counter may not hold: a whole number, and from 2^64 on the nearest double.
pub(crate) fn weight_json(weight: u128) -> Value {
    u64::try_from(weight).map_or_else(|_| json!(weight as f64), |weight| json!(weight))
}

/// A bound, or null where none is known.
pub(crate) fn bound_json(bound: u64) -> Value {
    if bound == u64::MAX { Value::Null } else { bound.into() }
}

/// One heavy key as JSON. Where a counter of it was full, `saturated` is true, and neither its estimate nor its upper bound is
/// known.
pub(crate) fn heavy_json(key: &HeavyHitter) -> Value {
    let mut object = json!({
        "key": String::from_utf8_lossy(&key.key),
        "estimate": bound_json(key.estimate),
        "lower": key.lower,
        "upper": bound_json(key.upper),
    });
    if key.saturated() {
        object["saturated"] = true.into();
    }
    if std::str::from_utf8(&key.key).is_err() {
        object["key_hex"] = key.key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    }
    if key.truncated {
        object["truncated"] = true.into();
    }
    object
}

/// Quantiles as JSON.
pub(crate) fn values_json(values: &Distribution) -> Value {
    json!({
        "measure": match values.measure { Measure::KeyLength => "key_length_bytes", Measure::Value => "value" },
        "count": values.count,
        "min": values.range.map(|range| range.0),
        "max": values.range.map(|range| range.1),
        "mean": values.mean,
        "relative_error": values.relative_error,
        "quantiles": values.quantiles.iter().map(|&(rank, value)| json!({"rank": rank, "value": value})).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_names_people_use() {
        assert_eq!(rank_name(0.0), "min");
        assert_eq!(rank_name(0.5), "p50");
        assert_eq!(rank_name(0.999), "p99.9");
        assert_eq!(rank_name(1.0), "max");
    }
}
