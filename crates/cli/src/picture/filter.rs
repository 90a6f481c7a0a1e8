//! What a filter says of itself, and what a pass of `dedup` was.

use crate::page::{Align, Page};
use crate::units;
use overbank::filter::cascade::{DistinctKeys, Filter, FilterReport};
use serde_json::{Value, json};
use std::io::Write as _;

/// What the rows of a pass over a filter were.
#[derive(Clone, Copy, Default)]
pub(crate) struct RowCounts {
    pub(crate) rows: u64,
    /// Rows that were printed.
    pub(crate) kept: u64,
    /// Rows whose key was new.
    pub(crate) new: u64,
    /// Malformed rows.
    pub(crate) malformed: u64,
    /// Rows without a key, passed on or left out.
    pub(crate) missing: u64,
    pub(crate) bytes: u64,
}

/// What a filter holds.
pub(crate) struct FilterFacts {
    pub(crate) report: FilterReport,
    pub(crate) distinct: DistinctKeys,
}

impl FilterFacts {
    pub(crate) fn of(filter: &Filter) -> overbank::Result<Self> {
        Ok(Self { distinct: filter.distinct()?, report: filter.report() })
    }

    /// Keys as a share of those that were expected.
    fn fullness(&self) -> f64 {
        self.distinct.estimate as f64 / self.report.options.expected_keys() as f64
    }
}

/// What a pass of `dedup` was and took.
pub(crate) struct DedupCost {
    pub(crate) counts: RowCounts,
    /// Keys that were forgotten, where that was asked for.
    pub(crate) removed: Option<u64>,
    pub(crate) seconds: f64,
    pub(crate) threads: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl DedupCost {
    /// Rows with a new key that were taken for repeats, about, at most: each met the error that the filter has at the end.
    fn wrong(&self, report: &FilterReport) -> f64 {
        self.counts.new as f64 * report.false_positive_rate
    }
}

/// Says on standard error what a pass was: standard output belongs to the rows.
pub(crate) fn print_dedup(cost: &DedupCost, facts: &FilterFacts, is_json: bool) {
    let text =
        if is_json { format!("{}\n", dedup_json(cost, facts)) } else { dedup_page(cost, facts).into_text() };
    // Nobody is left to tell when standard error is closed too.
    let _ = anstream::AutoStream::auto(std::io::stderr().lock()).write_all(text.as_bytes());
}

fn dedup_page(cost: &DedupCost, facts: &FilterFacts) -> Page {
    let report = &facts.report;
    let counts = &cost.counts;
    let mut page = Page::new();
    let rate = format!(
        "{} rows/s, {}/s, {} threads",
        units::rate(counts.rows as f64 / cost.seconds),
        units::bytes((counts.bytes as f64 / cost.seconds) as u64),
        cost.threads
    );
    page.fact("rows", &units::count(counts.rows), &rate);
    if let Some(removed) = cost.removed {
        page.fact("forgotten", &units::count(removed), "keys that were there");
    } else {
        page.fact("kept", &units::count(counts.kept), "");
        page.fact("dropped", &units::count(counts.rows - counts.kept), "");
        page.fact("new keys", &units::count(counts.new), "");
        page.fact("taken for seen", &units::small(cost.wrong(report)), "new keys, expected at most");
    }
    if counts.missing > 0 {
        page.fact("without a key", &units::count(counts.missing), "rows beside these");
    }
    if counts.malformed > 0 {
        page.fact("malformed", &units::count(counts.malformed), "rows beside these, left out");
    }
    page.fact("time", &units::seconds(cost.seconds), "");
    let budget = format!("budget {}", units::bytes(cost.memory_bytes));
    page.fact("peak memory", &units::bytes(cost.peak_memory_bytes), &budget);
    let written = format!("{} written in this run", units::bytes(cost.written_bytes));
    page.fact("flash", &units::bytes(report.flash_bytes), &written);
    page
}

fn dedup_json(cost: &DedupCost, facts: &FilterFacts) -> Value {
    let counts = &cost.counts;
    json!({
        "rows": counts.rows,
        "kept": counts.kept,
        "dropped": counts.rows - counts.kept,
        "new": counts.new,
        "removed": cost.removed,
        "malformed": counts.malformed,
        "missing": counts.missing,
        "bytes": counts.bytes,
        "wrong_expected": cost.wrong(&facts.report),
        "seconds": cost.seconds,
        "threads": cost.threads,
        "memory_bytes": cost.memory_bytes,
        "peak_memory_bytes": cost.peak_memory_bytes,
        "written_bytes": cost.written_bytes,
        "filter": filter_json(facts),
    })
}

/// A filter in a few lines.
pub(crate) fn filter_lines(page: &mut Page, facts: &FilterFacts) {
    let FilterFacts { report, distinct } = facts;
    let DistinctKeys { estimate, lower, upper } = *distinct;
    let bounds = match lower == upper {
        true => "different ones".to_owned(),
        false => format!("different ones, about; {} to {}", units::count(lower), units::count(upper)),
    };
    page.fact("keys", &units::count(estimate), &bounds);
    page.fact("inserted", &units::count(report.occurrences), "with repeats");
    let expected = format!("of {} expected", units::count(report.options.expected_keys()));
    page.fact("full", &units::percent(facts.fullness()), &expected);
    let promised = format!("for new keys; {} at most", units::percent(report.options.rate()));
    page.fact("error", &units::percent(report.false_positive_rate), &promised);
    if report.tombstones > 0 {
        page.fact(
            "to be forgotten",
            &units::count(report.tombstones),
            "of those inserted, at the next merge",
        );
    }
    let on_flash = report.fingerprints.saturating_sub(report.in_memory);
    let bits = match on_flash {
        0 => String::new(),
        keys => format!(
            "{:.1} bits a key, {}",
            report.flash_bytes as f64 * 8.0 / keys as f64,
            units::counted(report.runs.len() as u64, "run")
        ),
    };
    page.fact("flash", &units::bytes(report.flash_bytes), &bits);
    let buffered = format!("{} keys not yet on flash", units::count(report.in_memory));
    page.fact("RAM", &units::bytes(report.memory_bytes as u64), &buffered);
    if report.options.window_panes() > 0 {
        page.fact(
            "window",
            &format!("pane {}", report.pane),
            &format!("{} panes are remembered", report.options.window_panes()),
        );
    }
    if let Some(why) = &report.stalled {
        page.line(&format!("  a merge waits: {why}"));
    }
}

/// The runs of a filter, level by level.
pub(crate) fn run_table(page: &mut Page, report: &FilterReport) {
    if report.runs.is_empty() {
        return;
    }
    page.heading("Runs", "");
    let rows: Vec<Vec<String>> = report
        .runs
        .iter()
        .map(|run| {
            let bits = run.bytes as f64 * 8.0 / run.fingerprints.max(1) as f64;
            vec![
                run.level.to_string(),
                run.pane.to_string(),
                run.fingerprint_bits.to_string(),
                units::count(run.fingerprints),
                units::bytes(run.bytes),
                format!("{bits:.1}"),
            ]
        })
        .collect();
    let columns = ["level", "pane", "fingerprint bits", "keys", "bytes", "bits a key"];
    page.table(&columns.map(|name| (name, Align::Right)), &rows);
}

/// All that a filter says of itself.
pub(crate) fn filter_json(facts: &FilterFacts) -> Value {
    let FilterFacts { report, distinct } = facts;
    json!({
        "keys": distinct.estimate,
        "keys_at_least": distinct.lower,
        "keys_at_most": distinct.upper,
        "entries": report.fingerprints,
        "occurrences": report.occurrences,
        "tombstones": report.tombstones,
        "in_memory": report.in_memory,
        "keys_expected": report.options.expected_keys(),
        "fullness": facts.fullness(),
        "error": report.false_positive_rate,
        "error_promised": report.options.rate(),
        "flash_bytes": report.flash_bytes,
        "memory_bytes": report.memory_bytes,
        "generation": report.generation,
        "panes": report.options.window_panes(),
        "pane": report.pane,
        "stalled": report.stalled,
        "runs": report.runs.iter().map(|run| json!({
            "level": run.level,
            "pane": run.pane,
            "fingerprint_bits": run.fingerprint_bits,
            "keys": run.fingerprints,
            "bytes": run.bytes,
        })).collect::<Vec<_>>(),
    })
}
