//! A report as a frame of the full-screen view: a pure function, whatever the size of the terminal.
//!
//! ```text
//!   what is watched                                             keys
//!   ┌ Packets ───────────────────────┐┌ Monitor ───────────────────┐
//!   ├ Top flows ──────────────────────────────────────────────────┤
//!   ├ Spreaders ────────────┐┌ Changes ────────────────────────────┤
//!   └ Packet sizes ────────────────────────────────────────────────┘
//! ```
//!
//! Where there is no room for the boxes, the heaviest flows stand alone under their head.

use crate::page::key_text;
use crate::picture::{facts, signed, size_figures, title};
use crate::report::{Change, Report, Spreads, TopFlow};
use crate::units;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};

/// What a frame shows.
pub(crate) struct View<'a> {
    pub(crate) report: &'a Report,
    /// What is watched.
    pub(crate) source: &'a str,
    /// Packets a second, lately.
    pub(crate) rate: f64,
}

/// Lines of the upper boxes, their borders included.
const FACT_LINES: u16 = 10;
/// Fewer lines or columns have no room for boxes.
const BOXED_LINES: u16 = FACT_LINES + 12;
const BOXED_COLUMNS: u16 = 60;
/// The widest address of a flow in the lower boxes.
const NAME_COLUMNS: usize = 44;

/// Draws a view.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let report = view.report;
    let area = frame.area();
    if area.height < BOXED_LINES || area.width < BOXED_COLUMNS {
        return draw_small(frame, area, view);
    }
    let [head, upper, flows, lower, sizes] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(FACT_LINES),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(3),
    ])
    .areas(area);
    draw_head(frame, head, view);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(upper);
    let (packets, monitor): (Vec<_>, Vec<_>) =
        facts(report).into_iter().partition(|fact| !is_of_monitor(fact.0));
    draw_facts(frame, left, "Packets", &packets);
    draw_facts(frame, right, "Monitor", &monitor);
    draw_flows(frame, flows, report);
    let [left, right] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(3)]).areas(lower);
    draw_spreaders(frame, left, report.spreaders.as_deref().unwrap_or_default());
    draw_changes(frame, right, report.changes.as_deref());
    let figures = report.packet_sizes.iter().flat_map(size_figures);
    let figures = figures.flat_map(|(name, size)| [Span::raw(name).dim(), Span::raw(format!(" {size}  "))]);
    let sizes_box = Block::bordered().title("Packet sizes in bytes");
    frame.render_widget(Paragraph::new(Line::from_iter(figures)).block(sizes_box), sizes);
}

fn draw_small(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let packets = units::count(view.report.packets.packets);
    let head =
        Line::from(vec![Span::raw(packets).bold(), Span::raw(format!(" {}/s", units::rate(view.rate)))]);
    let flow = |flow: &TopFlow| {
        Line::from(vec![
            Span::raw(units::bound(flow.size.estimate)).bold(),
            Span::raw(format!(" {}", flow.key)),
        ])
    };
    let lines: Vec<Line<'_>> = [head].into_iter().chain(view.report.top.iter().map(flow)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Whether a fact tells how the monitor fares.
fn is_of_monitor(name: &str) -> bool {
    matches!(name, "thresholds" | "messages" | "entropy of flows" | "distinct flows")
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let (epoch, note) = title(view.report);
    let source = key_text(view.source.as_bytes(), NAME_COLUMNS);
    let head = Line::from(vec![
        Span::raw(source).bold(),
        Span::raw(format!("  {}/s  ", units::rate(view.rate))),
        Span::raw(epoch),
        Span::raw(format!("  {note}")).dim(),
    ]);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(8)]).areas(area);
    frame.render_widget(head, left);
    frame.render_widget(Line::from("q quits").right_aligned().dim(), right);
}

fn draw_facts(frame: &mut Frame<'_>, area: Rect, title: &str, facts: &[(&str, String, String)]) {
    let line = |(name, value, remark): &(&str, String, String)| {
        Line::from(vec![
            Span::raw(format!("{name:<17}")),
            Span::raw(format!("{value:>14}  ")).bold(),
            Span::raw(remark.clone()).dim(),
        ])
    };
    let lines: Vec<Line<'_>> = facts.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title.to_owned())), area);
}

fn draw_flows(frame: &mut Frame<'_>, area: Rect, report: &Report) {
    let weight = report.weight().max(1) as f64;
    let row = |flow: &TopFlow| {
        let size = flow.size;
        Row::new([
            right(units::bound(size.estimate)),
            right(units::count(size.lower)),
            right(units::bound(size.upper)),
            right(units::percent(size.estimate as f64 / weight)),
            Line::from(flow.key.to_string()),
        ])
    };
    let widths = [16, 16, 16, 9].map(Constraint::Length).into_iter().chain([Constraint::Fill(1)]);
    let head = ["size", "at least, 95 %", "at most", "share"].map(|name| right(name.to_owned()));
    let head = Row::new(head.into_iter().chain([Line::from("flow")])).style(Style::new().dim());
    let title = format!("Top flows by {}, {}", report.by.name(), report.kind);
    let table =
        Table::new(report.top.iter().map(row), widths).header(head).block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn draw_spreaders(frame: &mut Frame<'_>, area: Rect, spreaders: &[Spreads]) {
    let row = |spreads: &Spreads| {
        let bounds = spreads.destinations;
        let [estimate, lower] =
            [bounds.estimate, bounds.lower].map(|value| units::count(value.round() as u64));
        let upper = match bounds.upper.is_finite() {
            true => units::count(bounds.upper.round() as u64),
            false => "?".to_owned(),
        };
        Row::new([
            right(estimate),
            Line::from(format!("{lower} to {upper}")),
            Line::from(spreads.source.to_string()),
        ])
    };
    let widths = [Constraint::Length(8), Constraint::Length(16), Constraint::Fill(1)];
    let title = "Spreaders: distinct destinations";
    let table = Table::new(spreaders.iter().map(row), widths).block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn draw_changes(frame: &mut Frame<'_>, area: Rect, changes: Option<&[Change]>) {
    let row =
        |change: &Change| Row::new([right(signed(change.estimate())), Line::from(change.key.to_string())]);
    let rows = changes.unwrap_or_default().iter().map(row);
    let title = if changes.is_some() { "Changes since the epoch before" } else { "Changes: no epoch before" };
    let table =
        Table::new(rows, [Constraint::Length(16), Constraint::Fill(1)]).block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn right(text: String) -> Line<'static> {
    Line::from(text).right_aligned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Measure;
    use crate::report::{Distinct, Ended, Entropy, PacketSizes, Readings};
    use overbank::sketch::CountBounds;
    use overbank::sketch::locher::DistinctBounds;
    use overbank_ingest::capture::{FlowKey, FlowKind, PacketCounts};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn report() -> Report {
        let v4 = FlowKey::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 443, 6);
        let v6 = FlowKey::v6([0xfe; 16].into(), [0xfd; 16].into(), 50_000, 443, 17);
        let size = CountBounds { lower: 1_234, estimate: 1_300, upper: u64::MAX };
        let source = |key: FlowKey| key.project(FlowKind::SOURCE).expect("a five-tuple has one");
        let destinations = DistinctBounds { lower: 90.0, estimate: 100.0, upper: f64::INFINITY };
        Report {
            epoch: 3,
            span: Some(crate::report::Span { start_ns: 0, end_ns: 10_000_000_000 }),
            ended: Ended::NotYet,
            kind: FlowKind::FIVE_TUPLE,
            by: Measure::Packets,
            threads: 2,
            packets: PacketCounts {
                packets: 4_711,
                wire_bytes: 1 << 20,
                not_ip: 11,
                ..PacketCounts::default()
            },
            counted: 4_700,
            counted_bytes: 1 << 20,
            dropped: Some(17),
            flows: Distinct { estimate: 99.0, lower: 90.0, upper: 110.0, relative_error: 0.01 },
            top: [v4, v6].map(|key| TopFlow { key, size }).to_vec(),
            heavy_threshold: None,
            changes: Some(vec![Change {
                key: v4,
                before: size,
                after: CountBounds { estimate: 1_000, ..size },
            }]),
            spreaders: Some([v4, v6].map(|key| Spreads { source: source(key), destinations }).to_vec()),
            entropy: Some(Entropy { bits: 5.25, standard_error: 0.125 }),
            packet_sizes: Some(PacketSizes {
                count: 4_700,
                mean: Some(223.5),
                quantiles: vec![(0.0, 64.0), (1.0, 1_518.0)],
                range: None,
            }),
            readings: Readings { taus: [4, 2, 1, 3, 255].map(Some), queue: 99, messages: 1_000, kept: 0 },
        }
    }

    fn drawn(report: &Report, columns: u16, lines: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a terminal in memory");
        let view = View { report, source: "trace.pcap", rate: 1_234_567.0 };
        terminal.draw(|frame| draw(frame, &view)).expect("memory takes it");
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(columns.max(1)));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn everything_is_there() {
        let text = drawn(&report(), 140, 40);
        for words in [
            "trace.pcap",
            "1.23 M/s",
            "Epoch 3  1970-01-01T00:00:00Z to 1970-01-01T00:00:10Z",
            "so far, 2 threads",
            "q quits",
            "4,711",
            "dropped",
            "17  by the kernel",
            "90 to 110 (95 %)",
            "5.250 bits",
            "4/2/1/3/255",
            "1,000  99 wait",
            "1,300",
            "1,234",
            "no bound",
            "10.0.0.1:80 > 10.0.0.2:443 tcp",
            "90 to ?",
            "-300",
            "min 64",
            "max 1,518",
            "mean 223.5",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        let first = Report { changes: None, dropped: None, ..report() };
        let text = drawn(&first, 140, 40);
        assert!(text.contains("no epoch before") && !text.contains("dropped"), "{text}");
    }

    #[test]
    fn any_size_will_do() {
        for columns in [0, 1, 2, 10, 40, 80, 300] {
            for lines in [0, 1, 2, 5, 12, 24, 100] {
                drawn(&report(), columns, lines);
            }
        }
        let boxed = drawn(&report(), 80, 24);
        assert!(boxed.contains("10.0.0.1:80") && boxed.contains("packets"), "{boxed}");
        for (columns, lines) in [(20, 5), (300, 5), (20, 100)] {
            let small = drawn(&report(), columns, lines);
            assert!(
                small.starts_with("4,711 1.23 M/s") && small.contains("\n1,300 10.0.0.1:80 >"),
                "{small}"
            );
        }
    }
}
