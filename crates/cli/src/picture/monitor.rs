//! Reports of `overbank monitor`, as pages for people and as JSON for programs.

use super::{bound_json, rank_name};
use crate::arguments::Measure;
use crate::kept_epochs::{KeptEpoch, KeptEpochs};
use crate::page::{Align, Page, key_text};
use crate::report::{
    CONFIDENCE, Change, Distinct, Ended, PacketSizes, Report, SIZE_ERROR, SKETCHES, Span, Spreads, TopFlow,
};
use crate::units;
use overbank::sketch::CountBounds;
use overbank_ingest::capture::FlowKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The columns that a flow has on a page.
const KEY_COLUMNS: usize = 42;

/// A report as text.
pub(crate) fn monitor_page(report: &Report) -> Page {
    let mut page = Page::new();
    let (title, note) = title(report);
    page.heading(&title, &note);
    for (name, value, remark) in facts(report) {
        page.fact(name, &value, &remark);
    }
    page.heading("Top flows", &top_note(report.by, report.kind, report.heavy_threshold));
    flow_table(&mut page, &report.top, report.weight());
    if let Some(changes) = &report.changes {
        page.heading("Changes", "against the epoch before");
        change_table(&mut page, changes);
    }
    if let Some(spreaders) = &report.spreaders {
        page.heading("Spreaders", "distinct destinations of a source, within their bounds with 95 %");
        spreader_table(&mut page, spreaders);
    }
    if let Some(sizes) = &report.packet_sizes {
        let note = format!("within {} of the true quantile", units::percent(SIZE_ERROR));
        page.heading("Packet sizes in bytes", &note);
        size_lines(&mut page, sizes);
    }
    page
}

/// What the heaviest flows are of, and above which size all are known.
pub(crate) fn top_note(by: Measure, kind: FlowKind, threshold: Option<u64>) -> String {
    let of = format!("by {}, {kind}", by.name());
    match threshold {
        None => of,
        Some(0) => format!("{of}; all are known"),
        Some(size) => format!("{of}; none above {} is missing (95 %)", units::count(size)),
    }
}

/// What a report is of: the epoch, and when that was.
pub(crate) fn title(report: &Report) -> (String, String) {
    let when = report.span.map_or_else(
        || "no packet came".to_owned(),
        |Span { start_ns, end_ns }| format!("{} to {}", units::utc(start_ns), units::utc(end_ns)),
    );
    (format!("Epoch {}", report.epoch), when)
}

/// The facts of a report: names, values and remarks.
pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String, String)> {
    let packets = &report.packets;
    let whole = |value: f64| units::count(value.round() as u64);
    let ended = match report.ended {
        Ended::ByTime => "the whole epoch",
        Ended::ByInput => "to the end of the input",
        Ended::ByUser => "until it was interrupted",
        Ended::NotYet => "so far",
    };
    let threads = units::counted(report.threads as u64, "thread");
    let mut facts = vec![
        ("packets", units::count(packets.packets), format!("{ended}, {threads}")),
        ("bytes", units::bytes(packets.wire_bytes), "on the wire".to_owned()),
    ];
    let missed = [
        ("not IP", packets.not_ip),
        ("malformed", packets.malformed),
        ("cut off", packets.cut),
        ("unknown link", packets.unknown_link),
    ];
    let missed = missed.into_iter().filter(|(_, count)| *count > 0);
    facts.extend(missed.map(|(why, count)| (why, units::count(count), "packets without a flow".to_owned())));
    if let Some(dropped) = report.dropped {
        facts.push(("dropped", units::count(dropped), "by the kernel, for want of room".to_owned()));
    }
    let Distinct { estimate, lower, upper, .. } = report.flows;
    facts.push(("distinct flows", whole(estimate), format!("{} to {} (95 %)", whole(lower), whole(upper))));
    if let Some(entropy) = report.entropy {
        facts.push((
            "entropy of flows",
            format!("{:.3} bits", entropy.bits),
            format!("give or take {:.3}", entropy.standard_error),
        ));
    }
    let readings = report.readings;
    let names = ["flows", "distinct", "spreaders", "entropy", "sizes"];
    let (taus, names): (Vec<String>, Vec<&str>) =
        readings.taus.into_iter().zip(names).filter_map(|(tau, name)| Some((tau?.to_string(), name))).unzip();
    facts.push(("thresholds", taus.join("/"), names.join("/")));
    let wait = format!("{} wait", units::count(readings.queue));
    facts.push(("messages", units::count(readings.messages), wait));
    facts
}

/// Flows with their bounds.
pub(crate) fn flow_table(page: &mut Page, flows: &[TopFlow], weight: u64) {
    if flows.is_empty() {
        return page.line("  none");
    }
    let row = |flow: &TopFlow| {
        let CountBounds { lower, estimate, upper } = flow.size;
        vec![
            units::bound(estimate),
            units::count(lower),
            units::bound(upper),
            units::percent(estimate as f64 / weight.max(1) as f64),
            key_text(flow.key.to_string().as_bytes(), KEY_COLUMNS),
        ]
    };
    let rows: Vec<Vec<String>> = flows.iter().map(row).collect();
    page.table(
        &[
            ("size", Align::Right),
            ("at least, 95 %", Align::Right),
            ("at most", Align::Right),
            ("share", Align::Right),
            ("flow", Align::Left),
        ],
        &rows,
    );
}

fn change_table(page: &mut Page, changes: &[Change]) {
    if changes.is_empty() {
        return page.line("  none");
    }
    let row = |change: &Change| {
        vec![
            signed(change.estimate()),
            units::bound(change.before.estimate),
            units::bound(change.after.estimate),
            key_text(change.key.to_string().as_bytes(), KEY_COLUMNS),
        ]
    };
    let rows: Vec<Vec<String>> = changes.iter().map(row).collect();
    page.table(
        &[("change", Align::Right), ("before", Align::Right), ("after", Align::Right), ("flow", Align::Left)],
        &rows,
    );
}

/// Sources with how many destinations they have.
pub(crate) fn spreader_table(page: &mut Page, spreaders: &[Spreads]) {
    if spreaders.is_empty() {
        return page.line("  none");
    }
    let row = |spreads: &Spreads| {
        let bounds = spreads.destinations;
        let [estimate, lower] =
            [bounds.estimate, bounds.lower].map(|value| units::count(value.round() as u64));
        let upper = match bounds.upper.is_finite() {
            true => units::count(bounds.upper.round() as u64),
            false => "no bound".to_owned(),
        };
        vec![estimate, lower, upper, spreads.source.to_string()]
    };
    let rows: Vec<Vec<String>> = spreaders.iter().map(row).collect();
    page.table(
        &[
            ("destinations", Align::Right),
            ("at least", Align::Right),
            ("at most", Align::Right),
            ("source", Align::Left),
        ],
        &rows,
    );
}

/// Quantiles of packet sizes.
pub(crate) fn size_lines(page: &mut Page, sizes: &PacketSizes) {
    if sizes.count == 0 {
        return page.line("  no packets");
    }
    let (names, numbers) = size_figures(sizes).into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    page.figures(&names, &numbers);
}

/// Quantiles and mean of packet sizes, with their names.
pub(crate) fn size_figures(sizes: &PacketSizes) -> Vec<(String, String)> {
    let quantiles =
        sizes.quantiles.iter().map(|&(rank, bytes)| (rank_name(rank), units::count(bytes.round() as u64)));
    let mean = sizes.mean.map(|mean| ("mean".to_owned(), format!("{mean:.1}")));
    quantiles.chain(mean).collect()
}

/// A change with its sign.
pub(crate) fn signed(change: i128) -> String {
    let sign = if change < 0 { '-' } else { '+' };
    format!("{sign}{}", units::count(change.unsigned_abs()))
}

/// A report as JSON.
pub(crate) fn monitor_json(report: &Report) -> Value {
    let packets = &report.packets;
    let readings = report.readings;
    json!({
        "epoch": report.epoch,
        "start": report.span.map(|span| units::utc(span.start_ns)),
        "end": report.span.map(|span| units::utc(span.end_ns)),
        "ended": report.ended.name(),
        "key": report.kind.to_string(),
        "by": report.by.name(),
        "packets": packets.packets,
        "bytes": packets.wire_bytes,
        "counted": report.counted,
        "counted_bytes": report.counted_bytes,
        "not_counted": {
            "not_ip": packets.not_ip,
            "malformed": packets.malformed,
            "cut": packets.cut,
            "unknown_link": packets.unknown_link,
        },
        "without_ports": packets.without_ports,
        "dropped": report.dropped,
        "flows": distinct_flows_json(&report.flows),
        "top": report.top.iter().map(flow_json).collect::<Vec<_>>(),
        "heavy_threshold": report.heavy_threshold,
        "changes": report.changes.as_ref().map(|changes| changes.iter().map(change_json).collect::<Vec<_>>()),
        "spreaders": report.spreaders.as_ref().map(|all| all.iter().map(spreader_json).collect::<Vec<_>>()),
        "entropy": report.entropy.map(|entropy| json!({"bits": entropy.bits, "standard_error": entropy.standard_error})),
        "packet_sizes": report.packet_sizes.as_ref().map(sizes_json),
        "monitor": {
            "threads": report.threads,
            "thresholds": SKETCHES.into_iter().zip(readings.taus).filter(|(_, tau)| tau.is_some()).collect::<BTreeMap<_, _>>(),
            "queue": readings.queue,
            "messages": readings.messages,
            "kept": readings.kept,
        },
    })
}

/// Distinct flows as JSON, as other commands have distinct keys.
pub(crate) fn distinct_flows_json(distinct: &Distinct) -> Value {
    json!({
        "estimate": distinct.estimate.round(),
        "lower": distinct.lower.floor(),
        "upper": distinct.upper.ceil(),
        "confidence": CONFIDENCE,
        "relative_error": distinct.relative_error,
        "exact": false,
    })
}

/// A flow as JSON, as other commands have heavy keys.
pub(crate) fn flow_json(flow: &TopFlow) -> Value {
    json!({
        "key": flow.key.to_string(),
        "estimate": bound_json(flow.size.estimate),
        "lower": flow.size.lower,
        "upper": bound_json(flow.size.upper),
        "lower_confidence": CONFIDENCE,
    })
}

/// A kept epoch as JSON.
pub(crate) fn epoch_json(epoch: &KeptEpoch) -> Value {
    json!({
        "epoch": epoch.number,
        "start": units::utc(epoch.span.start_ns),
        "end": units::utc(epoch.span.end_ns),
        "ended": epoch.ended.name(),
        "packets": epoch.packets,
        "bytes": epoch.bytes,
        "counted": epoch.counted,
        "counted_bytes": epoch.counted_bytes,
    })
}

/// The epochs that a store keeps.
pub(crate) fn epoch_section(page: &mut Page, kept: &KeptEpochs) {
    page.heading("Epochs", &format!("of {} by {}", kept.kind, kept.by.name()));
    let row = |epoch: &KeptEpoch| {
        vec![
            epoch.number.to_string(),
            units::count(epoch.packets),
            units::bytes(epoch.bytes),
            units::utc(epoch.span.start_ns),
            units::utc(epoch.span.end_ns),
        ]
    };
    let rows: Vec<Vec<String>> = kept.epochs.iter().map(row).collect();
    if rows.is_empty() {
        return page.line("  none yet");
    }
    page.table(
        &[
            ("epoch", Align::Right),
            ("packets", Align::Right),
            ("bytes", Align::Right),
            ("from", Align::Left),
            ("to", Align::Left),
        ],
        &rows,
    );
}

fn change_json(change: &Change) -> Value {
    // A difference of two counts has at most 65 bits: JSON's numbers end before, as those of total weights do.
    let number =
        |value: i128| i64::try_from(value).map_or_else(|_| json!(value as f64), |value| json!(value));
    let (lower, upper) = change.bounds();
    json!({
        "key": change.key.to_string(),
        "before": bound_json(change.before.estimate),
        "after": bound_json(change.after.estimate),
        "estimate": number(change.estimate()),
        "lower": number(lower),
        "upper": number(upper),
    })
}

fn spreader_json(spreads: &Spreads) -> Value {
    let bounds = spreads.destinations;
    json!({
        "key": spreads.source.to_string(),
        "estimate": bounds.estimate,
        "lower": bounds.lower,
        "upper": Some(bounds.upper).filter(|upper| upper.is_finite()),
        "confidence": CONFIDENCE,
    })
}

/// Packet sizes as JSON, as other commands have values.
pub(crate) fn sizes_json(sizes: &PacketSizes) -> Value {
    json!({
        "measure": "packet_bytes",
        "count": sizes.count,
        "min": sizes.range.map(|range| range.0),
        "max": sizes.range.map(|range| range.1),
        "mean": sizes.mean,
        "relative_error": SIZE_ERROR,
        "quantiles": sizes.quantiles.iter().map(|&(rank, value)| json!({"rank": rank, "value": value})).collect::<Vec<_>>(),
    })
}
