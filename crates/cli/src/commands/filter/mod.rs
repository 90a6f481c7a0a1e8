//! The commands that ask whether a key was seen before: `dedup`, and `filter build`, `merge`, `info`, `plan`.

mod build;
pub(crate) mod dedup;
pub(super) mod info;
mod keys;
mod merge;
mod outlet;
mod output;
mod owed;
mod pass;
mod plan;
mod rows;
mod scratch;
mod session;
mod spool;
mod window;

use crate::arguments::FilterCommand;
use crate::failure::{CommandResult, Failure};
use crate::picture::Skipped;
use crate::units;
use std::io::Write as _;

/// The name that a filter has in its store.
pub(super) const NAME: &str = "filter";
/// Filters own this number among the structures of a store.
pub(super) const STRUCTURE: u16 = 19;
/// Rows that a stopped run could not print have this one.
pub(super) const OWED_STRUCTURE: u16 = owed::STRUCTURE;

pub(crate) fn run(command: &FilterCommand) -> CommandResult {
    match command {
        FilterCommand::Build(arguments) => build::run(arguments),
        FilterCommand::Merge(arguments) => merge::run(arguments),
        FilterCommand::Info(arguments) => info::run(arguments),
        FilterCommand::Plan(arguments) => plan::run(arguments),
    }
}

/// Why a pass ended early, and what helps.
fn interrupted(rows: u64, kept: bool) -> Failure {
    let rows = units::count(rows);
    Failure::Interrupted(if kept {
        format!("interrupted after {rows} rows, which are kept; run the same command with --resume to go on")
    } else {
        format!("interrupted after {rows} rows; nothing is kept without --store")
    })
}

/// Says on standard error that rows without a key were left out: they are in no output, so silence would lose them.
fn warn_of_skipped(count: u64, first: &[Skipped], is_quiet: bool) {
    if let [row, ..] = first
        && !is_quiet
    {
        let (what, line) = (if count == 1 { "row was" } else { "rows were" }, units::count(row.line));
        // Nobody is left to tell when standard error is closed too.
        let _ = writeln!(
            std::io::stderr(),
            "overbank: {} malformed {what} left out, the first in line {line} of {}: {}",
            units::count(count),
            row.input,
            row.why
        );
    }
}
