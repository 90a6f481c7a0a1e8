//! The options of the commands that ask whether a key was seen before.

use super::OutputArguments;
use super::input::{InputArguments, MachineArguments, form_of, parse_seconds};
use crate::units::{parse_bytes, parse_count};
use clap::{Args, Subcommand, ValueHint};
use overbank_ingest::KeyForm;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The size of a new filter.
#[derive(Args, Debug)]
pub(crate) struct FilterArguments {
    /// How many different keys are expected, such as 1e10; more are taken too, with longer fingerprints [default: 1e9]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) keys: Option<u64>,

    /// The share of new keys that may be taken for seen ones, whatever the number of keys [default: 1e-6]
    #[arg(long, value_name = "SHARE")]
    pub(crate) error: Option<f64>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
A row is a line, or what the format has for one; it comes out byte for byte as it came in, in its place. Without a
field the whole line is the key. \"New\" is certain; a new key is taken for a seen one at the rate of --error.

Rows of Parquet come out as Parquet, with all columns, when all rows are there; it is written as a whole, so an
interrupted run starts anew.

Rows wait while they are asked for together, but those of a pipe no longer than 0.1 s or ten times the last answer; a
pipe that pauses gets its answer at once. A store remembers what was printed, and after an interruption the same
command with --resume goes on behind it: give --output FILE (or >> FILE). The file must hold what it held at the last
commit, wherever it is now; what came after is cut off. So no row is lost or comes twice, or the command refuses. A pipe
may get the rows since the last commit a second time after a crash, never after Ctrl-C: what it did not take then, the
next run prints.

Examples:
  overbank dedup urls.txt.gz > unique.txt
  overbank dedup --key url --format jsonl 'crawl/*.jsonl.zst' --memory 1GiB --keys 1e10
  overbank dedup --store seen today.csv --key id --output new.csv
  overbank dedup --key url crawl.parquet --output new.parquet
  tail -f log | overbank dedup --window 1e6
  overbank dedup --store seen --remove withdrawn.txt")]
pub(crate) struct DedupArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// Print the repeats instead of the first rows
    #[arg(short = 'v', long)]
    pub(crate) invert: bool,

    /// Forget the keys of the input instead, and print nothing; at the rate of --error a key that was never there takes a seen one
    /// with it, and one that was taken for another goes with that
    #[arg(long, requires = "store", conflicts_with_all = ["invert", "window"])]
    pub(crate) remove: bool,

    /// Write the rows to FILE instead of standard output: with --store in place, so that --resume goes on in it; without, FILE is
    /// replaced once all rows are there
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "remove")]
    pub(crate) output: Option<PathBuf>,

    /// Print the rows' numbers instead of the rows: from 1, over all inputs; headers do not count, rows that are left out do
    #[arg(long, conflicts_with = "remove")]
    pub(crate) row_numbers: bool,

    /// Remember a key for about so many rows, such as 1e6, or so long, such as 10m, from its first row on: between 7/8 of the
    /// window and all of it. The store of an earlier run keeps its window's kind
    #[arg(long, value_name = "ROWS|TIME", value_parser = parse_window)]
    pub(crate) window: Option<WindowLength>,

    /// Remember the keys in this directory for later runs, for seen, info and verify
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,

    /// Go on where an interrupted run of the same command stopped
    #[arg(long, requires = "store")]
    pub(crate) resume: bool,

    /// Start with other input although the last run was interrupted
    #[arg(long, requires = "store", conflicts_with = "resume")]
    pub(crate) append: bool,

    /// Seconds between commits to the store, if something new came; rows that wait for their answer are not hurried
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "store", value_parser = parse_seconds)]
    pub(crate) commit_every: f64,

    #[command(flatten)]
    pub(crate) filter: FilterArguments,

    /// Where rows wait, and keys without --store; files there vanish with the command [default: $TMPDIR or /var/tmp; the
    /// store for rows]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) spool: Option<PathBuf>,

    /// Say at the end, on standard error, what was kept and what it cost
    #[arg(long)]
    pub(crate) stats: bool,

    /// Say so as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
A key that is \"new\" surely never came. One that is \"seen\" did, except for the share of keys that the filter's error says.

Examples:
  overbank seen keys https://example.org/
  overbank seen keys --counts --keys-from wanted.txt")]
pub(crate) struct SeenArguments {
    #[command(flatten)]
    pub(crate) keys: KeyArguments,

    /// Show how often each came: dedup remembers a key once, `filter build` each time; never less than the truth
    #[arg(long)]
    pub(crate) counts: bool,
}

/// A store, and the keys that it is asked for.
#[derive(Args, Debug)]
pub(crate) struct KeyArguments {
    /// A store that an earlier command made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) asked: AskedKeys,

    /// Keys that are integers are numbers, as programs hash them by hash_u64; a store that this command filled knows by itself
    #[arg(long)]
    integers: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The keys that a store is asked for.
#[derive(Args, Debug)]
pub(crate) struct AskedKeys {
    /// Keys to look up; of a key with several fields, the fields as they are, with tabs between them
    #[arg(value_name = "KEY", required_unless_present = "keys_from")]
    pub(crate) keys: Vec<OsString>,

    /// Keys are written as `top --json` prints them: of several fields, a tab in a field is \\t and a backslash \\
    #[arg(long)]
    pub(crate) escaped: bool,

    /// A NUL byte ends a key of --keys-from instead of a newline
    #[arg(short = 'z', long)]
    pub(crate) null: bool,

    /// Also look up every line of this file, - for standard input, compressed or not; in bulk, with bounded memory, however long it is
    #[arg(long, visible_alias = "keys", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keys_from: Option<PathBuf>,
}

impl KeyArguments {
    /// What of a key is hashed, in a store that does not know it.
    pub(crate) fn key_form(&self) -> KeyForm {
        form_of(self.integers)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum FilterCommand {
    /// Put all keys of files into the filter of a store, each as often as it comes
    Build(Box<BuildArguments>),
    /// Add the filters of other stores, built under the same seed, to that of a store
    Merge(MergeArguments),
    /// Show what a filter holds: levels, runs, bits a key, fullness, present error, flash, RAM
    Info(FilterInfoArguments),
    /// Show what a filter will cost before you start: fingerprints, reads, writes, flash
    Plan(FilterPlanArguments),
}

#[derive(Args, Debug)]
pub(crate) struct BuildArguments {
    /// The store; it is made if it is not there
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// Go on where an interrupted run of the same command stopped
    #[arg(long)]
    pub(crate) resume: bool,

    /// Start with other input although the last run was interrupted
    #[arg(long, conflicts_with = "resume")]
    pub(crate) append: bool,

    /// Seconds between commits to the store, if something new came
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = parse_seconds)]
    pub(crate) commit_every: f64,

    #[command(flatten)]
    pub(crate) filter: FilterArguments,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArguments {
    /// The store that takes them; it is made like the first of the others if it is not there
    #[arg(value_name = "INTO", value_hint = ValueHint::DirPath)]
    pub(crate) into: PathBuf,

    /// The stores that are added; they stay as they are
    #[arg(value_name = "FROM", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) from: Vec<PathBuf>,

    /// The memory that everything together may use; the program itself takes up to 8 MiB beside it
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    pub(crate) memory: u64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FilterInfoArguments {
    /// A store that `overbank dedup` or `overbank filter build` made
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  overbank filter plan --keys 1e10 --error 1e-6 --memory 1GiB")]
pub(crate) struct FilterPlanArguments {
    #[command(flatten)]
    pub(crate) filter: FilterArguments,

    /// The memory that everything together may use
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    pub(crate) memory: u64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long a key is remembered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WindowLength {
    /// For so many rows.
    Rows(u64),
    /// For so long.
    Time(Duration),
}

/// A window is forgotten in so many steps.
pub(crate) const PANES: u32 = 8;

fn parse_window(text: &str) -> Result<WindowLength, String> {
    let unit_seconds = match text.chars().last() {
        Some('s') => 1.0,
        Some('m') => 60.0,
        Some('h') => 3600.0,
        Some('d') => 86_400.0,
        _ => {
            let rows = parse_count(text)?;
            let least = u64::from(PANES);
            return if rows < least {
                Err(format!("it must be {least} rows or more"))
            } else {
                Ok(WindowLength::Rows(rows))
            };
        }
    };
    match text[..text.len() - 1].trim().parse::<f64>() {
        Ok(number) if (1.0..=1e9).contains(&(number * unit_seconds)) => {
            Ok(WindowLength::Time(Duration::from_secs_f64(number * unit_seconds)))
        }
        _ => Err("it must be a number of rows such as 1e6, or a time such as 30s, 10m, 2h, 7d".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_rows_or_times() {
        assert_eq!(parse_window("1e6"), Ok(WindowLength::Rows(1_000_000)));
        assert_eq!(parse_window("10m"), Ok(WindowLength::Time(Duration::from_secs(600))));
        assert_eq!(parse_window("1.5h"), Ok(WindowLength::Time(Duration::from_secs(5400))));
        for bad in ["7", "", "m", "0s", "-1m", "1e12d", "soon"] {
            assert!(parse_window(bad).is_err(), "{bad}");
        }
    }
}
