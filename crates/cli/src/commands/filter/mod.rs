//! The commands that ask whether a key was seen before: `dedup`, and `filter build`, `merge`, `info`, `plan`.

mod build;
pub(crate) mod dedup;
pub(super) mod info;
mod keys;
pub(super) mod merge;
pub(super) mod outlet;
pub(super) mod output;
mod owed;
mod parquet;
pub(super) mod pass;
pub(super) mod patience;
mod plan;
mod rows;
pub(super) mod scratch;
pub(super) mod session;
pub(super) mod sink;
mod spool;
mod window;

use crate::arguments::FilterCommand;
use crate::failure::{CommandResult, Failure};
use crate::units;

/// The name that a filter has in its store.
pub(super) const NAME: &str = "filter";

pub(crate) fn run(command: &FilterCommand) -> CommandResult {
    match command {
        FilterCommand::Build(arguments) => build::run(arguments),
        FilterCommand::Merge(arguments) => merge::run(arguments),
        FilterCommand::Info(arguments) => info::run(arguments),
        FilterCommand::Plan(arguments) => plan::run(arguments),
    }
}

/// Why a pass ended early, and what helps.
fn interrupted(rows: u64, kept: bool, is_parquet: bool) -> Failure {
    let rows = units::count(rows);
    if is_parquet {
        return Failure::Interrupted(format!(
            "interrupted after {rows} rows; a Parquet output is written as a whole, so nothing is kept: run the same command again"
        ));
    }
    Failure::Interrupted(if kept {
        format!("interrupted after {rows} rows, which are kept; run the same command with --resume to go on")
    } else {
        format!("interrupted after {rows} rows; nothing is kept without --store")
    })
}
