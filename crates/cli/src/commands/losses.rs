//! What did not become part of the answer: malformed rows, rows without a key, inputs that could not be read to their end. It is
//! always said, on standard error, however quiet a command is.

use crate::failure::{Failure, say};
use crate::picture::Skipped;
use crate::units;
use overbank::profile::ProfilePlan;
use overbank_ingest::{Batch, Error, Fault};
use std::path::Path;

/// How many malformed rows, and how many without a key, are shown.
pub(super) const ROWS_SHOWN: usize = 5;

/// The rows of a pass by what became of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    /// Rows that are not what their format has for a row.
    pub(crate) malformed: u64,
    /// Rows that lack a key field, kept or left out.
    pub(crate) missing: u64,
    /// Those of them that were passed on.
    pub(crate) kept: u64,
    /// The first malformed rows, then the first without a key.
    pub(crate) first: Vec<Skipped>,
}

impl Losses {
    /// Says on standard error what was left out.
    pub(super) fn report(&self) {
        let told = |count: u64, fault, what: &str, fate: &str| {
            if count > 0 {
                let was = if count == 1 { "was" } else { "were" };
                let first = self.first.iter().find(|row| row.fault == fault);
                let first = first.map_or(String::new(), |row| format!(", the first in {}", place(row)));
                say(format_args!("{} {what} {was} {fate}{first}", units::count(count)));
            }
        };
        let rows = |count| if count == 1 { "row" } else { "rows" };
        let malformed = format!("malformed {}", rows(self.malformed));
        told(self.malformed, Fault::Malformed, &malformed, "left out");
        let fate = if self.kept > 0 { "passed on" } else { "left out" };
        told(self.missing, Fault::Missing, &format!("{} without a key", rows(self.missing)), fate);
    }
}

fn place(row: &Skipped) -> String {
    format!("line {} of {}: {}", units::count(row.line), row.input, row.why)
}

/// Adds up what batches say of their rows, in any order.
#[derive(Default)]
pub(super) struct Tally {
    rows: u64,
    fields_seen: u128,
    losses: Losses,
    /// The first rows of each fault, with the number of their chunk.
    first: Vec<(u64, Skipped)>,
}

impl Tally {
    pub(super) fn add(&mut self, batch: &Batch) {
        self.rows += batch.rows() as u64;
        let has_rows = batch.rows() > 0 || batch.missing() > 0;
        self.fields_seen |= if has_rows { batch.fields_seen() } else { 0 };
        self.losses.malformed += batch.malformed();
        self.losses.missing += batch.missing();
        self.losses.kept += batch.keyless().len() as u64;
        let sequence = batch.chunk().sequence();
        self.first.extend(batch.bad_rows().iter().map(|row| {
            let input = shown_input(&row.input);
            (sequence, Skipped { fault: row.fault, input, line: row.line, why: row.why.clone() })
        }));
        if self.first.len() > 64 * ROWS_SHOWN {
            self.shorten();
        }
    }

    /// Keeps the first rows of each fault.
    fn shorten(&mut self) {
        let order = |fault| matches!(fault, Fault::Missing);
        self.first.sort_by_key(|(sequence, row)| (order(row.fault), *sequence, row.line));
        let mut shown = [0; 2];
        self.first.retain(|(_, row)| {
            let shown = &mut shown[usize::from(order(row.fault))];
            *shown += 1;
            *shown <= ROWS_SHOWN
        });
    }

    pub(super) fn losses(&mut self) -> Losses {
        self.shorten();
        let first = self.first.iter().map(|(_, row)| row.clone()).collect();
        Losses { first, ..self.losses.clone() }
    }

    pub(super) fn check(&mut self, keys: &[String], rows_before: u64) -> Result<(), Failure> {
        if self.rows > 0 || rows_before > 0 {
            return Ok(());
        }
        let Losses { malformed, missing, first, .. } = self.losses();
        if missing > 0 {
            let unseen = keys.iter().enumerate().find(|(slot, _)| self.fields_seen >> slot & 1 == 0);
            return unseen.map_or(Ok(()), |(_, name)| {
                let read = units::count(missing);
                Err(Failure::Usage(format!(
                    "no row has a field {name} ({read} read); check --key, and --format and --delimiter"
                )))
            });
        }
        match first.first() {
            Some(row) if malformed > 0 => Err(Failure::Usage(format!(
                "all {} rows are malformed, the first in {}; check --format",
                units::count(malformed),
                place(row)
            ))),
            _ => Ok(()),
        }
    }
}

/// The memory of a pass, to say how much more an input needs.
pub(super) struct Budget<F> {
    pub(super) memory_bytes: u64,
    pub(super) threads: usize,
    /// The plan of a memory.
    pub(super) plan: F,
}

impl<F: Fn(u64) -> Option<ProfilePlan>> Budget<F> {
    /// An error of the reader in the words of the command line.
    pub(super) fn explain(&self, error: Error) -> Failure {
        let memory = units::bytes(self.memory_bytes);
        match &error {
            Error::RowTooLong { path, line, bytes, is_whole, is_quoted, limit_bytes, .. } => {
                let remedy = self.remedy(|plan| plan.row_bytes_max(self.threads) as u64 >= *bytes);
                Failure::Usage(format!(
                    "line {} of {} has a row of {}{}, and --memory {memory} has room for rows of {}; {remedy}{}",
                    units::count(*line),
                    shown_input(path),
                    if *is_whole { "" } else { "more than " },
                    units::bytes(*bytes),
                    units::bytes(*limit_bytes as u64),
                    if *is_quoted { ", or close its quote" } else { "" }
                ))
            }
            Error::WindowTooLarge { path, compression, bytes, limit_bytes } => {
                let least = bytes.unwrap_or(2 * *limit_bytes as u64);
                let remedy = self.remedy(|plan| plan.window_bytes_max() as u64 >= least);
                Failure::Usage(format!(
                    "{} ({compression}) needs a window of {}{} to be decompressed, and --memory {memory} has room for {}; {remedy}, \
                     or recompress it with a smaller window",
                    shown_input(path),
                    if bytes.is_some() { "" } else { "more than " },
                    units::bytes(bytes.unwrap_or(*limit_bytes as u64)),
                    units::bytes(*limit_bytes as u64)
                ))
            }
            _ => error.into(),
        }
    }

    /// The least memory, in doublings of this one, whose plan fits.
    fn remedy(&self, fits: impl Fn(&ProfilePlan) -> bool) -> String {
        let sizes = (0..24).map(|doublings| (self.memory_bytes.div_ceil(1 << 20) << 20) << doublings);
        match sizes.into_iter().find(|&size| (self.plan)(size).is_some_and(|plan| fits(&plan))) {
            Some(size) => format!("give --memory {}MiB", size >> 20),
            None => "that is more than any memory serves".to_owned(),
        }
    }
}

/// Says which inputs were left unfinished, and ends with the error that they are.
pub(super) fn report_failures(
    failures: impl ExactSizeIterator<Item = Failure>,
    inputs: usize,
) -> Result<(), Failure> {
    let count = failures.len();
    if count == 0 {
        return Ok(());
    }
    for failure in failures {
        failure.say();
    }
    Err(Failure::Usage(format!(
        "{count} of {inputs} inputs could not be read to the end; what was read of them, and the others, is in the answer"
    )))
}

/// An input as people know it.
pub(super) fn shown_input(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
