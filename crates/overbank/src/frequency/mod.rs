//! Frequency beyond RAM: a count-min sketch on flash, updated in sequential passes, with every estimate one block away.
//!
//! ```text
//!   KeyHash ─▶ entry (page, residue) ─▶ buffer ──full──▶ log: one file a flush, in hash order
//!                one a writer, side by side │                │ more than `pending` of them
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
//! 3. An estimate writes nothing. With `pending = 0` it reads exactly one block, and none of a page never written.
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
//! RAM: `memory_bytes`; beside it 12 bytes a group, 4 bytes a block of log, and 16 or 32 bytes a key of one call's batch
//! of estimates. Flash: the sketch once or, between a pass and the
//! commit behind it, up to twice; and the logs.
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
mod cursor;
mod flash;
mod format;
mod heavy;
mod intake;
mod log;
mod memory;
#[cfg(test)]
mod model;
mod options;
mod page;
mod panes;
mod pass;
mod place;
mod plan;
mod query;
mod rounds;
mod saved;
mod shared;
#[cfg(test)]
mod tests;
mod whole;
mod writer;

pub use options::FrequencyOptions;
pub use panes::FrequencyPanes;
pub use plan::FrequencyPlan;
pub use shared::FrequencyWriter;

use crate::error::invalid;
use crate::sketch::count_min::Layout;
use crate::sketch::{CountBounds, HashId};
use crate::store::{FileRef, Reservation};
use crate::{KeyHash, Result};
use bounds::Reading;
use flash::Pages;
use intake::{Batch, Held, Intake};
use log::Log;
use place::Shape;
use query::View;
use std::sync::Arc;

/// A count-min sketch that lives in a store; see the module's own page.
///
/// ```
/// use overbank::frequency::{Frequency, FrequencyOptions};
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let options = FrequencyOptions::new().error(1e-4, 0.01).memory_bytes(8 << 20);
/// let clicks = Frequency::create(&store, "clicks", options)?;
/// let key = |text: &str| store.hasher().hash(text.as_bytes());
/// let mut sketch = clicks.lock().unwrap();
/// sketch.update(&[key("/index.html"), key("/about.html")], Some(&[3, 1]))?;
/// assert_eq!(sketch.estimate(&[key("/index.html"), key("/none")])?, [3, 0]);
/// drop(sketch);
/// store.commit(b"offset=2")?;
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct Frequency {
    shape: Shape,
    hash_id: HashId,
    intake: Arc<Intake>,
    pages: Pages,
    /// Most lanes of a pass.
    lanes_max: usize,
    /// How many writers there were.
    writers_given: usize,
    /// Which pane of a window it is; 0 otherwise.
    epoch: u64,
    /// The weight of what the slots have reported.
    weight: u128,
    saturated: bool,
    /// Whether there is something to commit.
    is_changed: bool,
    table: Option<FileRef>,
    prepared_table: Option<FileRef>,
    is_table_changed: bool,
    /// What the options asked for.
    memory_bytes: usize,
    /// RAM of a pass, for all its lanes.
    pass_bytes: usize,
    /// Of its own, or of the window that it is a pane of.
    _reservation: Arc<Reservation>,
}

impl Frequency {
    /// Adds `weights[i]` to `hashes[i]`; without weights, 1 to each.
    ///
    /// # Cost
    /// Amortised far below one block an update; every so often it logs the buffer or passes over the sketch.
    ///
    /// # Errors
    /// `ReadOnly`; `Full` and other I/O errors. A batch of up to [`Frequency::buffer_updates`] updates is then not taken; of
    /// a longer one, the parts of that length before the failure are.
    ///
    /// # Panics
    /// If there are weights, but not one for each hash.
    pub fn update(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        let intake = Arc::clone(&self.intake);
        add(&intake, 0, hashes, weights, &mut || self.make_way())
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
    ///
    /// # Panics
    /// If there are weights, but not one for each hash.
    pub fn remove(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.intake.writable()?;
        self.plain("remove")?;
        assert!(weights.is_none_or(|weights| weights.len() == hashes.len()), "one weight for each hash");
        let mut records = Vec::with_capacity(hashes.len());
        for (i, &hash) in hashes.iter().enumerate() {
            let weight = weights.map_or(1, |weights| weights[i]);
            let Ok(signed) = i64::try_from(weight) else {
                return invalid("weight", weight, "take off at most 2^63 - 1 at a time");
            };
            if signed != 0 {
                records.push((hash, -signed));
            }
        }
        let intake = Arc::clone(&self.intake);
        intake.take(0, Batch::Weighted(&records), &mut || self.make_way())
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
    /// `Corrupt`, or what the device says.
    pub fn estimate(&mut self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        let mut estimates = vec![0; hashes.len()];
        let mut is_full = false;
        self.answer(hashes, &mut |i, reading| {
            estimates[i] = reading.estimate();
            is_full |= reading.is_full(estimates[i]);
        })?;
        self.saturated |= is_full;
        Ok(estimates)
    }

    /// The estimates with bounds that hold for each key with probability `confidence`.
    ///
    /// # Cost
    /// As [`Frequency::estimate`], and one sum over row 0 of each page.
    ///
    /// # Accuracy
    /// `upper` is certain (if no key was taken off too often), and `u64::MAX` where no bound is known. `lower` fails with
    /// probability at most `1 - confidence` over the choice of the seed, for a key chosen without looking at the sketch, whatever
    /// the stream: the weight `W` of
    /// the key's page is known, so by Markov all rows are off by `b W / columns` with probability `b^-depth`, and keys
    /// with the same residue weigh `t W / 2^residue_bits` with probability `1 / t`. Each takes half of the failures. A row
    /// whose cell `s` columns share may be off by `s` times as much. In a page with a saturated cell, `lower` is 0.
    ///
    /// # Errors
    /// As [`Frequency::estimate`].
    pub fn bounds(&mut self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        let mut bounds = vec![CountBounds::default(); hashes.len()];
        let mut is_full = false;
        self.answer(hashes, &mut |i, reading| {
            bounds[i] = reading.bounds(confidence);
            is_full |= reading.is_full(bounds[i].upper);
        })?;
        self.saturated |= is_full;
        Ok(bounds)
    }

    /// Theorem 1: the error that an estimate reaches with probability at most `e^-depth + pages^-c`, for a stream of the
    /// present weight in which no key weighs much.
    ///
    /// `n epsilon (1 + sqrt(2 (c + 1) k ln k / n))`; [`Frequency::bounds`] needs no such stream. Of small cells, those that
    /// have not merged.
    pub fn theorem_1_error(&self, c: f64) -> f64 {
        self.shape.layout.theorem_1_error((self.total_weight() as f64).max(1.0), c)
    }

    /// Moves everything that waits to the pages, in one pass.
    ///
    /// # Cost
    /// Reads and writes every group that something waits for.
    ///
    /// # Errors
    /// `Full` leaves everything countable, and can be tried again; other errors of writing poison the store.
    pub fn apply(&mut self) -> Result<()> {
        self.intake.writable()?;
        let intake = Arc::clone(&self.intake);
        let mut held = intake.hold();
        self.hear(&mut held);
        held.drain()?;
        self.pass(&mut held)
    }

    /// Moves everything to the pages and gives the buffers' memory back, until the next update.
    fn rest(&mut self) -> Result<()> {
        self.apply()?;
        self.intake.hold().release();
        Ok(())
    }

    /// The sum of all weights; `u64::MAX` stands for that and more.
    pub fn total_weight(&self) -> u64 {
        narrowed(plus(self.weight, self.intake.weight()))
    }

    /// Whether a pass or an estimate has seen a cell that stands at its maximum.
    pub fn saturated(&self) -> bool {
        self.saturated
    }

    /// The shape of the sketch.
    pub fn layout(&self) -> &Layout {
        &self.shape.layout
    }

    /// Bits of a cell that has not merged with another.
    pub fn cell_bits(&self) -> u32 {
        self.shape.cell_bits
    }

    /// How many updates of weight 1 the buffer of a writer holds; those of other weights take twice the space.
    pub fn buffer_updates(&self) -> usize {
        self.intake.slot(0).buffer.capacity()
    }

    /// How many chunks a group may have now: logs that are not applied yet.
    pub fn pending_chunks(&self) -> usize {
        self.intake.hold().logs.len()
    }

    /// Empties the buffers: to logs or, where a group would have too many chunks, to the pages.
    #[cfg(test)]
    fn flush(&mut self) -> Result<()> {
        let intake = Arc::clone(&self.intake);
        self.move_on(&mut intake.hold())
    }

    /// Makes it possible that a full buffer is logged, unless that has become possible meanwhile.
    fn make_way(&mut self) -> Result<()> {
        let intake = Arc::clone(&self.intake);
        let mut held = intake.hold();
        if held.has_way() { Ok(()) } else { self.move_on(&mut held) }
    }

    /// Empties the buffers: all that they held is in the pages, or in no more logs than may wait.
    fn move_on(&mut self, held: &mut Held<'_>) -> Result<()> {
        self.hear(held);
        // What a pass that failed left goes first: the logs would grow in number from try to try.
        self.thin(held)?;
        held.drain()?;
        self.thin(held)
    }

    /// Sees to it that no more logs wait than may.
    fn thin(&mut self, held: &mut Held<'_>) -> Result<()> {
        if held.logs.len() <= self.intake.pending() || self.merge_logs(held)? {
            return Ok(());
        }
        self.pass(held)
    }

    /// Applies the logs to the pages.
    fn pass(&mut self, held: &mut Held<'_>) -> Result<()> {
        if held.logs.is_empty() {
            return Ok(());
        }
        let plan = pass::Plan::new(self.shape, held.logs.len(), self.lanes_max, self.pass_bytes);
        let sequence = held.next_sequence();
        (self.is_changed, self.is_table_changed) = (true, true);
        let (saturated, applied) = self.pages.apply(self.intake.files(), &held.logs, sequence, plan);
        self.saturated |= saturated;
        applied?;
        held.discard_logs();
        Ok(())
    }

    /// Makes one log of all, if that is cheaper than a pass over a single group.
    fn merge_logs(&mut self, held: &mut Held<'_>) -> Result<bool> {
        let blocks = held.logs.iter().map(Log::blocks).sum::<u64>();
        if self.intake.pending() == 0 || 8 * blocks > u64::from(self.shape.group_pages) {
            return Ok(false);
        }
        self.is_changed = true;
        let pages = &self.pages;
        held.merge_logs(self.shape, |group| pages.table[group].sequence)?;
        Ok(true)
    }

    /// Takes down what the slots have to report.
    fn hear(&mut self, held: &mut Held<'_>) {
        let (weight, is_fresh) = held.take_news();
        self.weight = plus(self.weight, weight);
        self.is_changed |= is_fresh;
    }

    fn answer(&mut self, hashes: &[KeyHash], each: &mut dyn FnMut(usize, Reading<'_>)) -> Result<()> {
        self.intake.files().check_process()?;
        let intake = Arc::clone(&self.intake);
        let mut held = intake.hold();
        self.hear(&mut held);
        held.settle();
        rounds::answer(&self.view(&held), hashes, self.lanes_max > 1, each)
    }

    fn view<'a>(&'a self, held: &'a Held<'_>) -> View<'a> {
        View {
            shape: self.shape,
            files: self.intake.files(),
            pages: &self.pages,
            logs: &held.logs,
            waiting: held.waiting().collect(),
            total_weight: narrowed(self.weight),
        }
    }

    fn plain(&self, operation: &'static str) -> Result<()> {
        if self.shape.is_conservative {
            return invalid("mode", "conservative", format!("cells raised so do not {operation}"));
        }
        Ok(())
    }
}

/// Adds a batch through slot `at` of `intake`.
fn add(
    intake: &Intake,
    at: usize,
    hashes: &[KeyHash],
    weights: Option<&[u64]>,
    make_way: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    intake.writable()?;
    let Some(weights) = weights else {
        return intake.take(at, Batch::Units(hashes), make_way);
    };
    assert_eq!(hashes.len(), weights.len(), "one weight for each hash");
    let mut records = Vec::with_capacity(hashes.len());
    for (&hash, &weight) in hashes.iter().zip(weights) {
        let mut left = weight;
        // A record's weight is signed: one above i64::MAX takes two or three.
        while left > 0 {
            let part = left.min(i64::MAX as u64);
            records.push((hash, part as i64));
            left -= part;
        }
    }
    intake.take(at, Batch::Weighted(&records), make_way)
}

fn plus(weight: u128, more: i128) -> u128 {
    let change = more.unsigned_abs();
    if more < 0 { weight.saturating_sub(change) } else { weight.saturating_add(change) }
}

/// `u64::MAX` where it is more.
fn narrowed(weight: u128) -> u64 {
    u64::try_from(weight).unwrap_or(u64::MAX)
}
