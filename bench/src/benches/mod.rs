//! Every registered bench. One file or folder a bench or two; the name on the command line begins with the file's.

use crate::Bench;

mod aggregate;
mod bits;
mod block_index;
mod cascade;
mod dedup;
mod device;
mod dictionary;
mod filter;
mod filter_runs;
mod frequency;
mod hash;
mod ingest;
mod memory;
mod monitor;
mod partition;
mod profile;
mod rank;
mod sketch;
mod sort;

/// All benches, in the order in which `all` runs them.
pub const ALL: &[&Bench] = &[
    &hash::BENCH,
    &partition::BENCH,
    &sort::BENCH,
    &bits::BENCH,
    &rank::BENCH,
    &block_index::BENCH,
    &sketch::BENCH,
    &filter::BENCH,
    &device::BENCH,
    &filter_runs::BENCH,
    &cascade::BENCH,
    &cascade::QUERIES,
    &frequency::BENCH,
    &dictionary::BENCH,
    &dictionary::UPDATES,
    &dictionary::QUERIES,
    &dictionary::INDEXES,
    &aggregate::BENCH,
    &aggregate::INTERVALS,
    &aggregate::FACTORS,
    &aggregate::SHAPES,
    &monitor::SPEED,
    &monitor::ACCURACY,
    &monitor::QUEUES,
    &monitor::CASES,
    &ingest::BENCH,
    &profile::BENCH,
    &memory::BENCH,
    &dedup::BENCH,
];

/// The bench of that name, or else all whose names begin with it as a word: `monitor` for `monitor_accuracy` and the like.
pub fn find(name: &str) -> Vec<&'static Bench> {
    if let Some(bench) = ALL.iter().find(|bench| bench.name == name) {
        return vec![bench];
    }
    let is_of = |bench: &&Bench| bench.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    ALL.iter().copied().filter(is_of).collect()
}
