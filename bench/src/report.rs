//! Where figures go: a table of 80 columns on standard output, and JSON lines in a file.

use crate::{Bench, Case, Figure, Metric, Result, Size, machine};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Collects figures as they are measured, and prints each at once, so an interrupted run keeps what it has.
pub struct Report {
    out: Box<dyn Write>,
    json: Option<File>,
    machine: String,
    /// The contest being printed, and its first engine's values, to which the others are compared.
    table: Option<(&'static str, Case, String)>,
    firsts: Vec<(&'static str, Metric, f64)>,
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Report")
            .field("json", &self.json)
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

impl Report {
    /// Prints to standard output, and to the file `json` when given, which is replaced.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn new(json: Option<&Path>) -> Result<Self> {
        let json = match json {
            None => None,
            Some(path) => Some(
                File::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))?,
            ),
        };
        Ok(Self {
            out: Box::new(std::io::stdout()),
            json,
            machine: machine(),
            table: None,
            firsts: Vec::new(),
        })
    }

    /// Names the bench that follows.
    pub(crate) fn heading(&mut self, bench: &Bench, size: Size) {
        self.table = None;
        self.line(&format!("{} ({}): {}", bench.name, size.name(), bench.about));
        let machine = format!("on {}", self.machine);
        self.line(&machine);
    }

    /// Prints a sentence between the tables.
    pub(crate) fn say(&mut self, sentence: &str) {
        self.line(&format!("note: {sentence}"));
    }

    /// Prints one figure and writes its JSON line.
    pub(crate) fn figure(&mut self, mut figure: Figure) -> Result<()> {
        if !figure.value.is_finite() {
            let (case, engine, metric) = (figure.case.name(), figure.engine, figure.metric.name());
            return Err(format!("{case} of {engine}: {metric} is {}", figure.value).into());
        }
        self.row(&figure);
        figure.params.insert("machine".into(), Value::from(self.machine.as_str()));
        if let Some(json) = &mut self.json {
            writeln!(json, "{}", figure.to_json())?;
        }
        Ok(())
    }

    fn row(&mut self, figure: &Figure) {
        let title = title(figure);
        let table = Some((figure.bench, figure.case, title.clone()));
        if self.table != table {
            self.line("");
            self.line(&format!("{} {title}", figure.case.name()));
            self.line(&format!(
                "  {:<18}{:<17}{:>11}{:>11}{:>11}{:>8}",
                "engine", "metric", "median", "min", "max", "ratio"
            ));
            self.table = table;
            self.firsts.clear();
        }
        let first = self.firsts.iter().find(|first| first.1 == figure.metric);
        let ratio = match first {
            Some(&(engine, _, value)) if engine != figure.engine && value != 0.0 => {
                format!("{:.2}x", figure.value / value)
            }
            _ => String::new(),
        };
        if first.is_none() {
            self.firsts.push((figure.engine, figure.metric, figure.value));
        }
        let bound = |name| figure.params.get(name).and_then(Value::as_f64).map_or(String::new(), scaled);
        let row = format!(
            "  {:<18}{:<17}{:>11}{:>11}{:>11}{:>8}",
            figure.engine,
            figure.metric.name(),
            scaled(figure.value),
            bound("min"),
            bound("max"),
            ratio
        );
        self.line(row.trim_end());
    }

    /// A closed pipe (`| head`) must not end the measurement, whose JSON may be what is wanted.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }
}

/// The parameters that tell two tables of one case apart.
fn title(figure: &Figure) -> String {
    let own =
        |name: &&String| !["min", "max", "rounds", "size", "time_boxed", "ops_done"].contains(&name.as_str());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts: Vec<_> = figure
        .params
        .iter()
        .filter(|(name, _)| own(name))
        .map(|(name, value)| format!("{name}={}", text(value)))
        .collect();
    parts.join(" ")
}

/// Four significant digits with a suffix: `52.10M`, `1.234k`, `0.0123`.
fn scaled(value: f64) -> String {
    let suffixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let magnitude = value.abs();
    match suffixes.iter().find(|(scale, _)| magnitude >= *scale) {
        Some((scale, suffix)) => format!("{:.2}{suffix}", value / scale),
        None if magnitude >= 1.0 || magnitude == 0.0 => format!("{value:.2}"),
        None => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic while held").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn figure(engine: &'static str, value: f64) -> Figure {
        let params = Params::from_iter([
            ("workload".to_owned(), Value::from("zipf(1.1)")),
            ("min".to_owned(), Value::from(value / 2.0)),
            ("max".to_owned(), Value::from(value * 2.0)),
        ]);
        Figure {
            bench: "b",
            case: Case::LookupNegative,
            engine,
            metric: Metric::DeviceOpsPerS,
            value,
            params,
        }
    }

    #[test]
    fn rows_fit_80_columns_and_rivals_are_compared_to_the_first_engine() {
        let shared = Shared::default();
        let mut report = Report::new(None).expect("no file");
        report.out = Box::new(shared.clone());
        report.figure(figure("overbank", 123_456_789.0)).expect("printed");
        report.figure(figure("voracious_radix", 61_728_394.5)).expect("printed");
        let text = String::from_utf8(shared.0.lock().expect("no panic").clone()).expect("UTF-8");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("123.46M") && text.contains("0.50x"), "{text}");
        assert_eq!(text.matches("lookup_negative").count(), 1, "one table:\n{text}");
    }

    #[test]
    fn json_lines_go_to_the_file_with_the_machine() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut report = Report::new(Some(file.path())).expect("created");
        report.out = Box::new(std::io::sink());
        report.figure(figure("overbank", 1.0)).expect("written");
        report.figure(figure("paper", 2.0)).expect("written");
        let text = std::fs::read_to_string(file.path()).expect("read");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1]["engine"], "paper");
        assert!(lines[1]["params"]["machine"].as_str().is_some_and(|machine| machine.contains("cores")));
    }

    #[test]
    fn a_value_that_is_no_number_is_refused() {
        let mut report = Report::new(None).expect("no file");
        report.out = Box::new(std::io::sink());
        assert!(report.figure(figure("overbank", f64::NAN)).is_err());
    }

    #[test]
    fn values_are_short_at_every_magnitude() {
        let shown: Vec<_> = [0.0, 0.000123, 1.5, 999.0, 1234.0, 5.2e7, 8e14].map(scaled).into();
        assert_eq!(shown, ["0.00", "1.23e-4", "1.50", "999.00", "1.23k", "52.00M", "800.00T"]);
    }
}
