//! What `profile` and `count` share besides their input: weights, and where they keep what they found.

use super::input::{InputArguments, MachineArguments, parse_seconds};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// The options that `profile` and `count` share.
#[derive(Args, Debug)]
pub(crate) struct StreamArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// The field that holds a row's weight, a whole number; without it every row counts 1
    #[arg(short, long, value_name = "FIELD")]
    pub(crate) weight: Option<String>,

    /// Keep the summaries in this directory, for top, estimate, distinct, quantile, info and verify
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,

    /// Go on where an interrupted run of the same command stopped
    #[arg(long, requires = "store")]
    pub(crate) resume: bool,

    /// Add these files to what the store has already seen
    #[arg(long, requires = "store", conflicts_with = "resume")]
    pub(crate) append: bool,

    /// Seconds between commits to the store, if something new came
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "store", value_parser = parse_seconds)]
    pub(crate) commit_every: f64,

    /// How many of the heaviest keys to show [default: 10]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) top: Option<usize>,

    #[command(flatten)]
    pub(crate) machine: MachineArguments,
}
