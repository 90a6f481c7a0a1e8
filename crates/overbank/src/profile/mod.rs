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
//! 8. Conservative updates on flash are the exception to 1: the estimates of keys outside the heavy ones then depend on the order
//!    in which threads send them. Bounds hold all the same.
//!
//! | operation | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | a row | O(1) expected, O(log capacity) for a key that displaces another | 0 | 0 | – |
//! | … with flash, of a key that is not heavy | and its part of a sort | as [`Frequency`](crate::frequency) | the same | its part of the outbox |
//! | `report` | O(registers + heavy keys) | 0; with flash about 1 a listed key | 0 | the listed keys |
//! | commit | O(state) | 0 | state / 4080 B | one piece of the state at a time |
//! | the profile | – | – | – | [`Plan`]'s budget |
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
mod plan;
mod query;
mod report;
mod saved;
#[cfg(test)]
mod tests;

pub use flash::FlashReport;
pub use plan::{FLASH_MEMORY_BYTES_MIN, LG_SHARDS, MEMORY_BYTES_MIN, Plan, SHARDS};
pub use query::EstimateError;
pub use report::{Distinct, Estimate, HeavyHitter, Measure, Report, Values};

use crate::device::require_memory;
use crate::pipeline::{self, Rows};
use crate::sketch::{CountMin, DdSketch, HashId, HyperLogLog, SpaceSaving};
use crate::store::{Files, Reservation};
use crate::{Error, Result};
use counting::{Counting, Shard, Tally};
use flash::{Flash, Outbox};
use std::sync::Mutex;

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

/// The whole picture of a stream, growing as rows come.
///
/// # Blocking
/// [`update`](Profile::update) has the profile alone and blocks for as long as the stream lasts; `load`, `merge_from` and, with
/// flash, the report and the estimates block on the device. From asynchronous code, call them by `spawn_blocking` or its like.
#[derive(Debug)]
pub struct Profile {
    plan: Plan,
    totals: Totals,
    distinct: HyperLogLog,
    counts: CountMin<u32>,
    heavy: Vec<SpaceSaving>,
    values: DdSketch,
    flash: Option<Flash>,
    /// The totals of the commit under way, and of the last one: equal totals mean that nothing has come since.
    prepared: Option<Totals>,
    committed: Option<Totals>,
    /// Where its commits write, once it takes part in some.
    files: Option<Files>,
    /// What is held of the store's budget.
    reservation: Option<Reservation>,
}

/// What is counted exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    measure: Measure,
    rows: u64,
    skipped: u64,
    bytes: u64,
    weight: u128,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.skipped += other.skipped;
        self.bytes += other.bytes;
        self.weight = self.weight.saturating_add(other.weight);
    }
}

impl Profile {
    /// An empty profile of `plan` for keys hashed under `hash_id`, with quantiles of `measure`.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOption`] where the plan is too small for its parts; [`crate::Error::OutOfMemory`] where the system
    /// does not give what it plans with.
    pub fn new(plan: Plan, hash_id: impl Into<HashId>, measure: Measure) -> Result<Self> {
        let hash_id = hash_id.into();
        require_memory("a profile", usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX))?;
        let heavy = (0..SHARDS).map(|_| SpaceSaving::new(plan.heavy_capacity, plan.key_bytes_max, hash_id));
        Ok(Self {
            plan,
            totals: Totals { measure, ..Totals::default() },
            distinct: HyperLogLog::new(plan.lg_registers, hash_id)?,
            counts: CountMin::with_bytes(plan.count_bytes, COUNT_DEPTH, SHARDS, hash_id)?,
            heavy: heavy.collect::<Result<_>>()?,
            values: empty_values(),
            flash: None,
            prepared: None,
            committed: None,
            files: None,
            reservation: None,
        })
    }

    /// The rows counted so far.
    pub fn rows(&self) -> u64 {
        self.totals.rows
    }

    /// The sum of the weights of the rows counted so far.
    pub fn weight(&self) -> u128 {
        self.totals.weight
    }

    /// What the quantiles are of.
    pub fn measure(&self) -> Measure {
        self.totals.measure
    }

    /// The memory that the sketches in RAM hold, in bytes.
    pub fn allocated_bytes(&self) -> usize {
        let heavy = self.heavy.iter().map(SpaceSaving::memory_bytes).sum::<usize>();
        self.distinct.memory_bytes() + self.counts.memory_bytes() + heavy + self.values.memory_bytes()
    }

    /// How it divides its budget.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The budget that this profile was made for, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.plan.memory_bytes
    }

    /// Counts the chunks that `next` yields, with `threads` threads, until it yields `None`.
    ///
    /// # Errors
    /// That of the first chunk that could not be read or parsed; everything before it is counted, nothing behind it. That of
    /// the sketch on flash (`Full`, `Io`); the profile is then `Poisoned`, and its store holds the last commit.
    pub fn update<P: Parse>(
        &mut self,
        threads: usize,
        parser: &P,
        next: impl FnMut() -> std::result::Result<Option<P::Chunk>, P::Error> + Send,
    ) -> std::result::Result<(), P::Error> {
        let measure = self.totals.measure;
        let outbox = || self.flash.as_ref().map_or_else(Outbox::default, Flash::outbox);
        if let Some(flash) = &self.flash {
            flash.check()?;
        }
        let tallies = (0..threads.max(1)).map(|_| Tally::new(measure, outbox()));
        let mut tallies: Vec<Tally> = tallies.collect();
        let mut counts = self.counts.split_mut(SHARDS).expect("the pages were made a multiple of the shards");
        let distinct = self.distinct.split_mut(SHARDS).expect("there are more registers than shards");
        let shards = distinct.into_iter().zip(counts.as_mut_slice()).zip(&mut self.heavy);
        let shards = shards.map(|((distinct, counts), heavy)| Shard { distinct, counts, heavy }).collect();
        let values = Mutex::new(&mut self.values);
        let counting = Counting { parser, values, shards: std::marker::PhantomData };
        let outcome = pipeline::run(&counting, next, shards, &mut tallies);
        drop(counts);
        for tally in tallies {
            let outbox = tally.add_to(&mut self.totals, &mut self.values);
            if let Some(flash) = &mut self.flash {
                flash.absorb(outbox);
            }
        }
        outcome
    }

    /// Everything there is to say: the `top` heaviest keys and the quantiles at `ranks` (from 0 to 1).
    ///
    /// # Errors
    /// As [`Profile::estimates`].
    pub fn report(&self, top: usize, ranks: &[f64]) -> Result<Report> {
        Ok(Report {
            rows: self.totals.rows,
            skipped: self.totals.skipped,
            bytes: self.totals.bytes,
            weight: self.totals.weight,
            distinct: self.distinct(),
            heavy: self.heavy(top)?,
            heavy_threshold: self.heavy_threshold(),
            values: self.values(ranks),
        })
    }

    /// How many distinct keys came.
    pub fn distinct(&self) -> Distinct {
        let kept = self.heavy.iter().map(SpaceSaving::len).sum::<usize>() as f64;
        if self.holds_every_key() {
            return Distinct { estimate: kept, lower: kept, upper: kept, relative_error: 0.0, exact: true };
        }
        // Keys in slots are distinct, and each has a row.
        let between = |count: f64| count.max(kept).min((self.totals.rows as f64).max(kept));
        Distinct {
            estimate: between(self.distinct.estimate()),
            lower: between(self.distinct.lower_bound(SIGMAS)),
            upper: between(self.distinct.upper_bound(SIGMAS)),
            relative_error: self.distinct.relative_standard_error(),
            exact: false,
        }
    }

    /// Whether every key that came is among the heavy ones, with its exact weight.
    pub fn holds_every_key(&self) -> bool {
        self.heavy.iter().all(|shard| shard.len() < shard.capacity())
    }

    /// Quantiles at `ranks`, from 0 to 1.
    pub fn values(&self, ranks: &[f64]) -> Values {
        let range = self.values.min().zip(self.values.max());
        // A length is whole, so up to 50 bytes rounding undoes the relative error of 1 %.
        let shown =
            |value: f64| if self.totals.measure == Measure::KeyLength { value.round() } else { value };
        Values {
            measure: self.totals.measure,
            count: u64::try_from(self.values.count()).unwrap_or(u64::MAX),
            range,
            mean: self.values.mean(),
            quantiles: ranks
                .iter()
                .filter_map(|&rank| Some((rank, shown(self.values.quantile(rank)?))))
                .collect(),
            relative_error: QUANTILE_ERROR,
        }
    }
}

fn empty_values() -> DdSketch {
    DdSketch::new(QUANTILE_ERROR).expect("the error is in range")
}
