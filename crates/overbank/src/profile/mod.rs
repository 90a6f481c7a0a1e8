//! The whole picture of a stream in one pass: rows, distinct keys, heavy keys, how often any key came, quantiles.
//!
//! ```text
//!   chunk ─▶ rows ─┬─ by hash range ─▶ shard 0 … 31: is the key among the heavy ones?
//!                  │                       yes: counted there, exactly
//!                  │                       no:  HyperLogLog registers (distinct keys), count-min pages (how often);
//!                  │                            heavier than the least heavy key ─▶ takes its place, which goes to the pages
//!                  └─ by thread ─────▶ tally ─▶ DDSketch of the value or the key's length, rows, bytes, weight
//!                                       outbox ─▶ with flash: what the pages were told, for a count-min sketch beyond RAM
//! ```
//!
//! Invariants:
//! 1. The state is a function of the sequence of rows and of the plan: not of threads, chunks, or interruptions.
//! 2. A shard owns one range of the hash in every sketch, so shards never share a byte.
//! 3. A row's weight is in exactly one place: with its key while that is among the heavy ones, else in the pages, and in the
//!    sketch on flash likewise.
//! 4. Every key that weighs more than the least heavy one of its shard is among the heavy ones: the pages never estimate it
//!    below its weight, so it was admitted at its last row. (After a merge the slots remember what keys may have weighed that
//!    both profiles lacked.)
//! 5. While every shard has a free slot, the slots hold every key that came, with its exact weight.
//! 6. Totals are exact. A count that outgrows 64 bits stops, and its upper bound says that none is known.
//! 7. Memory is allocated when the profile is made, but for the bins of values, and stays inside the plan.
//! 8. A question and a commit see the profile between two chunks of a pass, never in one; a commit has both parts, RAM and flash, as they
//!    were at one such moment.
//! 9. Conservative updates on flash are the exception to 1: the estimates of keys outside the heavy ones then depend on the order
//!    in which threads send them. Bounds hold all the same.
//!
//! | operation | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | a row | O(1) expected, O(log capacity) for a key that displaces another | 0 | 0 | – |
//! | … with flash, of a key that is not heavy | and its part of a sort | as [`Frequency`](crate::frequency) | the same | its part of the outbox |
//! | `report` | O(registers + heavy keys) | 0; with flash about 1 a listed key | 0 | the listed keys |
//! | commit | O(state) | 0 | state / 4080 B | one piece of the state at a time |
//! | the profile | – | – | – | [`ProfilePlan`]'s budget |
//!
//! Heavy keys stand before the pages and are exchanged with them, as in Roy, Khan, Alonso, "Augmented sketch" (SIGMOD 2016): a row
//! of a heavy key costs one probe, a key that comes once displaces nobody, and heavy keys do not swell the cells of light ones.
//!
//! Deviations: a sketch a thread, merged at the end, is what most tools do. It multiplies memory by the threads, makes heavy
//! keys depend on their number, and cannot be resumed to the same answer; ranges of the hash cost one grouping pass a chunk.

mod counting;
mod flash;
mod format;
mod merge;
mod options;
mod plan;
mod query;
mod record;
mod report;
mod saved;
mod sketches;
#[cfg(test)]
mod tests;
mod totals;
mod turns;

pub use flash::FlashReport;
pub use options::ProfileOptions;
pub use plan::{FLASH_MEMORY_BYTES_MIN, LG_SHARDS, MEMORY_BYTES_MIN, ProfilePlan, SHARDS};
pub use query::EstimateError;
pub use report::{DistinctCount, Distribution, Estimate, HeavyHitter, Measure, ProfileReport};

use crate::pipeline::Rows;
use crate::store::{Handle, Store};
use crate::{Error, KeyHash, Result};
use saved::Summary;

/// The relative error of quantiles.
const QUANTILE_ERROR: f64 = 0.01;
/// Rows of the count-min sketch: an estimate is off by more than e/width of a page's weight for 1 key in 55.
const COUNT_DEPTH: u32 = 4;
/// Key lengths that are tallied in an array; longer ones go to the quantile sketch one by one.
const TALLIED_LENGTHS: usize = 1024;
/// Two standard errors: the truth lies outside for about 1 stream in 20.
const SIGMAS: f64 = 2.0;
/// The confidence of a count's lower bound.
const CONFIDENCE: f64 = 0.95;

/// Rows with what a profile counts.
pub trait KeyedRows: Rows {
    /// The key of a row.
    fn key(&self, row: usize) -> &[u8];
    /// The length of a row's key in bytes.
    fn key_bytes(&self, row: usize) -> usize {
        self.key(row).len()
    }
    /// The rows' weights, where they have any.
    fn weights(&self) -> Option<&[u64]>;
    /// The rows' values, where they have any; finite.
    fn values(&self) -> Option<&[f64]>;
    /// Malformed rows that were left out.
    fn skipped(&self) -> u64;
    /// Bytes of input that the rows came from.
    fn bytes(&self) -> u64;
}

/// Turns chunks of a stream into rows.
pub trait Parse: Sync {
    /// A piece of the stream, cut at a row's end.
    type Chunk: Send;
    /// Its rows.
    type Rows: KeyedRows + Default;
    /// Why a chunk cannot be used, or why the sketch on flash could not be written.
    type Error: Send + From<Error>;

    /// Turns a chunk into rows; called by many threads.
    ///
    /// # Errors
    /// Ends the stream before this chunk.
    fn parse(&self, chunk: Self::Chunk, rows: &mut Self::Rows) -> std::result::Result<(), Self::Error>;
}

/// The whole picture of a stream, growing as rows come. [`Store::profile`] creates or opens one.
///
/// A handle: clones are the same profile, and any thread may use them. Two updates take turns chunk by chunk, and so do questions and the
/// commits of the store beside an update: each waits for the end of the chunks that are under way, no longer. What an update calls, its
/// `next` and its parser, is told [`InvalidOption`](Error::InvalidOption) if it asks the profile that it works for, changes another one
/// with a sketch on flash, or has the store commit, close or verify: each would wait for the other.
///
/// # Blocking
/// [`update`](Profile::update) blocks for as long as its stream lasts; `merge_from` and, with flash, the report and the estimates block
/// on the device. From asynchronous code, call them by `spawn_blocking` or its like.
#[derive(Clone, Debug)]
pub struct Profile {
    summary: Handle<Summary>,
}

impl Profile {
    /// How it divides its budget.
    pub fn plan(&self) -> &ProfilePlan {
        &self.summary.plan
    }

    /// The budget that it was made for, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.summary.plan.memory_bytes
    }

    /// What the quantiles are of.
    pub fn measure(&self) -> Measure {
        self.summary.measure
    }

    /// Counts the chunks that `next` yields, with `threads` threads, until it yields `None`.
    ///
    /// # Cost
    /// As the table of this module has it. Where somebody asks meanwhile, the chunks under way end first; the threads begin anew then.
    ///
    /// # Errors
    /// That of the first chunk that could not be read or parsed; everything before it is counted, nothing behind it. That of
    /// the sketch on flash (`Full`, `Io`); the profile is then `Poisoned`, and its store holds the last commit. `ReadOnly`, `Closed`,
    /// `Forked`.
    pub fn update<P: Parse>(
        &self,
        threads: usize,
        parser: &P,
        next: impl FnMut() -> std::result::Result<Option<P::Chunk>, P::Error> + Send,
    ) -> std::result::Result<(), P::Error> {
        self.summary.pass(threads, parser, next)
    }

    /// Adds what the profile `name` in `source` counted, at its last commit. The store of this one commits it when it commits next.
    ///
    /// # Errors
    /// `Incompatible` where hash, seed, memory, measure or the sketch on flash differ; `InvalidOption` for conservative
    /// sketches, which do not add up: then nothing changed. `NotFound`, `WrongKind`, `Corrupt`, `UnsupportedVersion`, and what the devices
    /// say: then this profile may be `Poisoned`, and its store holds the last commit.
    pub fn merge_from(&self, source: &Store, name: &str) -> Result<()> {
        self.summary.change(|sketches| sketches.merge_from(source, name))
    }

    /// Everything there is to say: the `top` heaviest keys and the quantiles at `ranks` (from 0 to 1).
    ///
    /// # Errors
    /// As [`Profile::estimates`].
    pub fn report(&self, top: usize, ranks: &[f64]) -> Result<ProfileReport> {
        self.summary.look(|sketches| sketches.report(top, ranks))?
    }

    /// The rows counted so far.
    ///
    /// # Errors
    /// `Closed`, `Forked`, `Poisoned`.
    pub fn rows(&self) -> Result<u64> {
        self.summary.look(|sketches| sketches.totals.rows)
    }

    /// The sum of the weights of the rows counted so far.
    ///
    /// # Errors
    /// As [`Profile::rows`].
    pub fn weight(&self) -> Result<u128> {
        self.summary.look(|sketches| sketches.totals.weight)
    }

    /// How many distinct keys came.
    ///
    /// # Errors
    /// As [`Profile::rows`].
    pub fn distinct(&self) -> Result<DistinctCount> {
        self.summary.look(sketches::Sketches::distinct)
    }

    /// Whether every key that came is among the heavy ones, with its exact weight.
    ///
    /// # Errors
    /// As [`Profile::rows`].
    pub fn holds_every_key(&self) -> Result<bool> {
        self.summary.look(sketches::Sketches::holds_every_key)
    }

    /// Quantiles at `ranks`, from 0 to 1.
    ///
    /// # Errors
    /// As [`Profile::rows`].
    pub fn values(&self, ranks: &[f64]) -> Result<Distribution> {
        self.summary.look(|sketches| sketches.values(ranks))
    }

    /// How often each key came: never above `upper`; never below `lower` if it is among the heavy ones, else below it for at
    /// most 1 key in 20, as [`Estimate::lower_confidence`] says.
    ///
    /// # Cost
    /// Without flash, one page a key. With it, as [`Frequency::bounds`](crate::frequency::Frequency::bounds): ask for many
    /// keys at a time.
    ///
    /// # Errors
    /// As [`Profile::rows`]. With flash also `Corrupt`, or what the device says; `Outdated` in a store that is open read-only
    /// ([`Store::refresh`]); `Poisoned` after the sketch there refused an update.
    pub fn estimates(&self, hashes: &[KeyHash]) -> Result<Vec<Estimate>> {
        self.summary.look(|sketches| sketches.estimates(hashes))?
    }

    /// The `top` heaviest keys by their estimates, heaviest first; of equals those whose bytes come first.
    ///
    /// # Cost
    /// A sort of the candidates, and an estimate of each that may still be among the heaviest.
    ///
    /// # Errors
    /// As [`Profile::estimates`].
    pub fn heavy(&self, top: usize) -> Result<Vec<HeavyHitter>> {
        self.summary.look(|sketches| sketches.heavy(top))?
    }

    /// No key heavier than this is missing from the candidates of [`Profile::heavy`]; `u64::MAX` says that no such weight is
    /// known.
    ///
    /// # Errors
    /// As [`Profile::rows`].
    pub fn heavy_threshold(&self) -> Result<u64> {
        self.summary.look(sketches::Sketches::heavy_threshold)
    }

    /// By how much estimates are too high now.
    ///
    /// # Cost
    /// Estimates of 1024 keys.
    ///
    /// # Accuracy
    /// Keys fall on cells by their hash, so other keys outside the heavy ones fare as those that never came. With
    /// conservative updates they fare better, the more often they came.
    ///
    /// # Errors
    /// As [`Profile::estimates`].
    pub fn estimate_error(&self) -> Result<EstimateError> {
        self.summary.look(sketches::Sketches::estimate_error)?
    }

    /// The sketch on flash, if there is one.
    ///
    /// # Errors
    /// As [`Profile::estimates`].
    pub fn flash(&self) -> Result<Option<FlashReport>> {
        self.summary.look(sketches::Sketches::flash_report)?
    }
}
