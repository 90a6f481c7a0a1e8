//! Frequency beyond RAM: a count-min sketch on flash, updated in sequential passes, with every estimate one block away.
//!
//! ```text
//!   KeyHash ─▶ entry (page, residue) ─▶ buffer ──full──▶ log: one file a flush, in hash order
//!                   one a slot, side by side │                │ more than `pending` of them
//!                                           │                ▼
//!                                           │      one pass over the groups, in lanes: read, add, write elsewhere
//!                                           │                │                         │
//!              estimate: least cell of  buffers     +   log blocks of the page   +   the page
//! ```
//!
//! 1. A key's cells lie in one page, a page is one block, and pages are in hash order.
//! 2. An estimate counts every update made before it, wherever it waits, and equals that of the in-RAM sketch of the same
//!    layout: it depends neither on the order of updates nor on batches, buffer, pending chunks or commits. (In
//!    conservative mode it does, and lies between the true count and that estimate.)
//! 3. An estimate writes nothing, waits for no writer, pass or commit, and keeps none of them waiting (unless the whole was replaced, by
//!    a decay, say, four times while it asked: then it keeps the next one waiting). With `pending = 0` it reads exactly one block, and
//!    none of a page never written; beside a pass, about one more of each log that the pass applies.
//! 4. What the last commit needs is never written over: groups move to free extents, logs are immutable.
//! 5. Cells saturate; what they then say is at most the total weight, or `u64::MAX` where that is not known to bound it.
//! 6. Small cells (4 or 8 bits) merge with their neighbours where a count outgrows them. Additions alone leave what one RAM
//!    table of exact counts says, in any order. A merge is never undone: after removals or a decay, estimates lie between
//!    those of that table without what was removed and those with all additions made first, and depend on the order.
//!
//! With `k` pages, `M` updates in the buffer and `P` chunks pending:
//!
//! | operation | CPU | block reads | block writes |
//! |---|---|---|---|
//! | `update` | a sort, then `depth` cells | `(k / (P + 1)) / M`, and 1 / 1018 for the log | the same |
//! | `estimate` | `depth` cells, and the records of the page | 1, and about 1 a pending chunk | 0 |
//! | `estimate` of `q` keys | a sort of `q` | at most one of each page | 0 |
//! | `commit` | a sort | 0; a pass where more than `P` chunks would be pending | the buffer's log; 12 bytes a group after a pass |
//!
//! RAM: `memory_bytes`; beside it 28 bytes a group, 4.5 bytes a block of log, and 16 or 32 bytes a key of each call's batch
//! of estimates; where several threads ask at the same time, up to 1 MiB for each of them but one. Flash: the sketch once or, between a
//! pass and the commit behind it, up to twice, and where a whole pass ends while a commit is under way, three times; and the logs.
//!
//! Source: Goswami, Medjedovic, Mekic, Pandey, "Buffered count-min sketch on SSD: theory and experiments" (ESA 2018).
//!
//! Deviations: the paper keeps a sub-buffer a page group and rewrites one page when its sub-buffer is full, which is a
//! random read and write for a few hundred updates. Here the whole buffer is sorted and either logged or applied in one
//! sequential pass, so the device never sees a small write. The paper's estimate empties the sub-buffer and writes; ours
//! adds it to a copy. A key's columns come from 23 (or 40) bits of its hash, kept in the log, instead of from all of it;
//! [`FrequencyOptions::record_bytes`] says what that costs.

mod bounds;
mod cells;
mod commitment;
mod cursor;
mod estimates;
mod flash;
mod format;
mod heavy;
mod intake;
mod log;
mod memory;
mod merge_from;
#[cfg(test)]
mod model;
mod options;
mod page;
mod pass;
mod plan;
mod query;
mod rounds;
mod saved;
mod scan;
mod shape;
mod sketch;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod upkeep;
mod window;
mod writer;

pub use options::FrequencyOptions;
pub use plan::FrequencyPlan;
pub use window::FrequencyWindow;

use crate::sketch::CountBounds;
use crate::sketch::count_min::Layout;
use crate::store::Handle;
use crate::{KeyHash, Result};
use sketch::Sketch;
use std::sync::atomic::Ordering;

/// A count-min sketch that lives in a store; see the module's own page. [`Store::frequency`](crate::store::Store::frequency) creates or
/// opens one.
///
/// It is a handle: clones are the same sketch, for as many threads as like to add and to ask. An update counts in every estimate and
/// commit that begins after it has returned; what is added while an estimate is under way may count or not, key by key. Up to
/// [`writers`](FrequencyOptions::writers) threads add side by side, others wait for one of them. All methods may block on the device: in
/// asynchronous code, call them where blocking is allowed (`spawn_blocking`).
///
/// ```
/// use overbank::frequency::FrequencyOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let options = FrequencyOptions::new().error(1e-4, 0.01).memory_bytes(8 << 20);
/// let clicks = store.frequency("clicks", options)?;
/// let key = |text: &str| store.hasher().hash(text.as_bytes());
/// clicks.update(&[key("/index.html"), key("/about.html")], Some(&[3, 1]))?;
/// assert_eq!(clicks.estimate(&[key("/index.html"), key("/none")])?, [3, 0]);
/// store.commit(b"offset=2")?;
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone)]
pub struct Frequency {
    sketch: Handle<Sketch>,
}

impl std::fmt::Debug for Frequency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frequency")
            .field("name", &self.sketch.name())
            .field("layout", &self.layout())
            .finish_non_exhaustive()
    }
}

impl Frequency {
    /// Adds `weights[i]` to `hashes[i]`; without weights, 1 to each.
    ///
    /// # Cost
    /// Amortised far below one block an update; every so often it logs the buffer or passes over the sketch.
    ///
    /// # Errors
    /// `InvalidOption` unless there is a weight for each hash; `ReadOnly`; `Full` and other I/O errors. A batch of up to
    /// [`Frequency::buffer_updates`] updates is then not taken; of a longer one, the parts of that length before the failure are.
    pub fn update(&self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.sketch.update(hashes, weights)
    }

    /// Takes `weights[i]` off `hashes[i]`; without weights, 1 from each. No key may fall below zero: the strict turnstile
    /// model.
    ///
    /// # Accuracy
    /// Where a key is taken off more often than it was added, its own and other keys' estimates may be too low. A saturated
    /// cell stays saturated.
    ///
    /// # Errors
    /// As [`Frequency::update`]; `InvalidOption` for a weight above `i64::MAX`, and in conservative mode.
    pub fn remove(&self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.sketch.remove(hashes, weights)
    }

    /// How often each key occurred: never too low, too high by little. In the order of `hashes`. A key whose cells are full is
    /// estimated at the total weight; `u64::MAX` says that it may be more.
    ///
    /// # Cost
    /// One block read for each distinct page, and about one for each of its pending chunks, up to 128 in flight; pages that
    /// lie close together are read in one request, so that a large batch becomes a sequential sweep.
    ///
    /// # Accuracy
    /// As [`Frequency::bounds`].
    ///
    /// # Errors
    /// `Corrupt`, or what the device says; `Outdated` in a store that is open read-only ([`Store::refresh`](crate::Store::refresh)).
    pub fn estimate(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        self.sketch.estimate(hashes)
    }

    /// The estimates with bounds that hold for each key with probability `confidence`.
    ///
    /// # Cost
    /// As [`Frequency::estimate`], and one sum over row 0 of each page.
    ///
    /// # Accuracy
    /// `upper` is certain (if no key was taken off too often), and `u64::MAX` where no bound is known. `lower` fails with probability
    /// at most `1 - confidence` over the choice of the seed, for a key chosen without looking at the sketch, whatever the stream: the
    /// weight `W` of the key's page is known, so by Markov all rows are off by `b W / columns` with probability `b^-depth`, and keys
    /// with the same residue weigh `t W / 2^residue_bits` with probability `1 / t`. Each takes half of the failures. A row
    /// whose cell `s` columns share may be off by `s` times as much. In a page with a saturated cell, `lower` is 0.
    ///
    /// # Errors
    /// `InvalidOption` for a `confidence` that is no probability; as [`Frequency::estimate`].
    pub fn bounds(&self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        self.sketch.bounds(hashes, confidence)
    }

    /// Theorem 1: the error that an estimate reaches with probability at most `e^-depth + pages^-c`, for a stream of the
    /// present weight in which no key weighs much.
    ///
    /// `n epsilon (1 + sqrt(2 (c + 1) k ln k / n))`; [`Frequency::bounds`] needs no such stream. Of small cells, those that
    /// have not merged.
    pub fn theorem_1_error(&self, c: f64) -> f64 {
        self.layout().theorem_1_error((self.total_weight() as f64).max(1.0), c)
    }

    /// Moves everything that waits to the pages, in one pass. Other threads go on adding and asking.
    ///
    /// # Cost
    /// Reads and writes every group that something waits for.
    ///
    /// # Errors
    /// `Full` leaves everything countable, and can be tried again; other errors of writing poison the store.
    pub fn apply(&self) -> Result<()> {
        self.sketch.apply()
    }

    /// Adds the other sketch: the result is that of one sketch that saw both streams. Both may be in use, writers wait meanwhile; a
    /// sketch merged with itself is doubled.
    ///
    /// # Cost
    /// A pass over both sketches, and a group of RAM of each.
    ///
    /// # Errors
    /// `Incompatible` where hash, seed or shape differ; `InvalidOption` in conservative mode; `ReadOnly`; what the devices
    /// say. Then nothing changed.
    pub fn merge(&self, other: &Frequency) -> Result<()> {
        self.sketch.merge(&other.sketch).map_err(|error| other.sketch.outdated(error))
    }

    /// Halves the number of pages, without the stream: page `i` becomes the sum of pages `2 i` and `2 i + 1`. The error
    /// doubles; two sketches of which one is a fold of the other's shape can then be merged.
    ///
    /// # Errors
    /// `InvalidOption` if the number of pages is odd; `ReadOnly`; what the device says. Then nothing changed.
    pub fn fold(&self) -> Result<()> {
        self.sketch.fold()
    }

    /// Halves all counts, rounding down: what happened before weighs half from now on. Candidates for
    /// [`heavy`](Self::heavy) are decayed beside it, by [`SpaceSaving::decay`](crate::sketch::SpaceSaving::decay).
    ///
    /// # Accuracy
    /// An estimate becomes its half, rounded down, and so is never below half of the true count, rounded down. A lower bound
    /// may be too high by as much as rounding took from the page's weight: at most `(1 - confidence)^(-1 / depth)` for each
    /// column of the key's cell. A saturated cell stays saturated, and small cells that have merged stay merged.
    ///
    /// # Errors
    /// `ReadOnly`; what the device says. Then nothing changed.
    pub fn decay(&self) -> Result<()> {
        self.sketch.decay()
    }

    /// Forgets everything that was counted.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn clear(&self) -> Result<()> {
        self.sketch.clear(None)
    }

    /// The sum of all weights; `u64::MAX` stands for that and more.
    pub fn total_weight(&self) -> u64 {
        self.sketch.total_weight()
    }

    /// Whether a pass or an estimate has seen a cell that stands at its maximum.
    pub fn saturated(&self) -> bool {
        self.sketch.saturated.load(Ordering::Relaxed)
    }

    /// The shape of the sketch now.
    pub fn layout(&self) -> Layout {
        self.sketch.shape().layout
    }

    /// Bits of a cell that has not merged with another.
    pub fn cell_bits(&self) -> u32 {
        self.sketch.shape().cell_bits
    }

    /// Whether an update raises only the cells that it must ([`FrequencyOptions::conservative`]).
    pub fn is_conservative(&self) -> bool {
        self.sketch.shape().is_conservative
    }

    /// How many updates of weight 1 the buffer of a writer holds; those of other weights take twice the space.
    pub fn buffer_updates(&self) -> usize {
        self.sketch.buffer_updates()
    }

    /// How many chunks a group may have now: logs that are not applied yet.
    pub fn pending_chunks(&self) -> usize {
        self.sketch.pending_chunks()
    }
}

fn plus(weight: u128, more: i128) -> u128 {
    let change = more.unsigned_abs();
    if more < 0 { weight.saturating_sub(change) } else { weight.saturating_add(change) }
}

/// `u64::MAX` where it is more.
fn narrowed(weight: u128) -> u64 {
    u64::try_from(weight).unwrap_or(u64::MAX)
}
