//! What a dictionary says of itself, as a page and as JSON.

use crate::commands::filter::pass::Passed;
use crate::failure::Failure;
use crate::page::{Align, Page, print_json};
use crate::units;
use overbank::dictionary::{Compression, DictionaryOptions, DictionaryReport, MergeOperator, Numbers};
use serde_json::{Value, json};
use std::path::Path;

/// The report of a dictionary.
pub(in crate::commands) fn as_json(report: &DictionaryReport) -> Value {
    let options = &report.options;
    json!({
        "items": report.items,
        "items_in_memory": report.items_in_memory,
        "deletions": report.deletions,
        "key_bytes": report.key_bytes,
        "value_bytes": report.value_bytes,
        "flash_bytes": report.flash_bytes,
        "page_bytes": options.chosen_page_bytes(),
        "compression": compression(options.chosen_compression()),
        "merge": options.chosen_operator().map(operator),
        "ranks": options.has_ranks(),
        "memory": {
            "index_bytes": report.index_bytes,
            "front_bytes": report.front_bytes,
            "rank_bytes": report.rank_bytes,
            "memtable_bytes": report.memtable_bytes,
        },
        "bits_an_item": {
            "index": bits(report.index_bytes, report),
            "fronts": bits(report.front_bytes, report),
            "ranks": bits(report.rank_bytes, report),
            "all": report.bits_an_item(),
            "flash": report.flash_bytes as f64 * 8.0 / report.items.max(1) as f64,
        },
        "runs": report.runs.iter().map(|run| json!({
            "items": run.items,
            "deletions": run.deletions,
            "pieces": run.pieces,
            "bytes": run.bytes,
            "fill": run.fill,
        })).collect::<Vec<_>>(),
        "stalled": report.stalled,
    })
}

fn bits(bytes: usize, report: &DictionaryReport) -> f64 {
    bytes as f64 * 8.0 / report.items.max(1) as f64
}

/// The facts of a report.
pub(in crate::commands) fn lines(page: &mut Page, report: &DictionaryReport) {
    let options = &report.options;
    let several = if report.runs.len() > 1 { "a key may be in several runs" } else { "" };
    page.fact("items", &units::count(report.items), several);
    if report.deletions > 0 {
        page.fact("deletions", &units::count(report.deletions), "of them, until they meet what they delete");
    }
    if report.items_in_memory > 0 {
        page.fact("in RAM alone", &units::count(report.items_in_memory), "items");
    }
    page.fact("keys", &units::bytes(report.key_bytes), &mean(report.key_bytes, report.items));
    page.fact("values", &units::bytes(report.value_bytes), &mean(report.value_bytes, report.items));
    page.fact("flash", &units::bytes(report.flash_bytes), &shape(options));
    let line = |page: &mut Page, name: &str, bytes: usize, what: &str| {
        let note = format!("{} bits an item{what}", units::small(bits(bytes, report)));
        page.fact(name, &units::bytes(bytes as u64), &note);
    };
    line(page, "index", report.index_bytes, ", which tells a page");
    if report.front_bytes > 0 {
        line(page, "fronts", report.front_bytes, ", before newer runs");
    }
    if options.has_ranks() {
        line(page, "ranks", report.rank_bytes, "");
    }
    if let Some(operator_of) = options.chosen_operator() {
        page.fact("merge", operator(operator_of), "of values of one key");
    }
    if let Some(place) = &report.stalled {
        page.fact("stalled", "disk full", place);
    }
}

/// A table of the runs.
pub(super) fn run_table(page: &mut Page, report: &DictionaryReport) {
    page.heading("Runs", "the oldest first; a lookup asks the newest first");
    let rows: Vec<Vec<String>> = report
        .runs
        .iter()
        .map(|run| {
            vec![
                units::count(run.items),
                units::count(run.deletions),
                run.pieces.to_string(),
                units::bytes(run.bytes),
                units::percent(run.fill),
            ]
        })
        .collect();
    let header = [
        ("items", Align::Right),
        ("deletions", Align::Right),
        ("files", Align::Right),
        ("bytes", Align::Right),
        ("full", Align::Right),
    ];
    page.table(&header, &rows);
}

fn mean(bytes: u64, items: u64) -> String {
    format!("{} a key on average", units::bytes(bytes / items.max(1)))
}

fn shape(options: &DictionaryOptions) -> String {
    let page = units::bytes(options.chosen_page_bytes().into());
    match options.chosen_compression() {
        Compression::None => format!("pages of {page}"),
        compressed => format!("pages of {page}, {}", compression(compressed)),
    }
}

/// A compression as a user types it.
fn compression(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

/// An operator as a user types it.
fn operator(operator: MergeOperator) -> &'static str {
    match operator {
        MergeOperator::Append => "append",
        MergeOperator::Sum(Numbers::Text) => "sum",
        MergeOperator::Max(Numbers::Text) => "max",
        MergeOperator::Min(Numbers::Text) => "min",
        MergeOperator::Sum(_) => "sum-binary",
        MergeOperator::Max(_) => "max-binary",
        MergeOperator::Min(_) => "min-binary",
        _ => "unknown",
    }
}

/// Says what a pass over `rows` rows made of the dictionary at `place`.
pub(super) fn print_change(
    place: &Path,
    rows: u64,
    passed: &Passed,
    report: &DictionaryReport,
    is_json: bool,
) -> Result<(), Failure> {
    if is_json {
        return print_json(&json!({
            "rows": rows,
            "malformed": passed.losses.malformed,
            "missing": passed.losses.missing,
            "seconds": passed.seconds,
            "dictionary": as_json(report),
        }));
    }
    let mut page = Page::new();
    page.heading(&format!("Dictionary {}", place.display()), "");
    let rate = format!("{} rows/s", units::rate(rows as f64 / passed.seconds));
    page.fact("rows", &units::count(rows), &rate);
    lines(&mut page, report);
    page.print()
}
