//! Updates on their way to the pages: each thread takes a free slot, whose buffer is logged when it is full.
//!
//! ```text
//!   thread ─▶ slot 0 ─┐ full: sorted, written ┌─────────┐   more than `pending`    ┌───────┐
//!   thread ─▶ slot 1 ─┴──────────────────────▶│  logs   │────────────────────────▶ │ pages │
//!              one thread at a time in each   └─────────┘   upkeep.rs              └───────┘
//! ```
//!
//! 1. An update is in exactly one place: a buffer, a log, or the pages; `table.rs` says how it moves.
//! 2. Locks are taken in this order: the upkeep's, the slots' turns by number, a slot's waiting updates, the table's, a file's extents.
//!    A reader takes the table's first, but has given it back when it comes to the slots.
//! 3. Whoever has a slot's turn adds to its buffer, sorts it or logs it, and nobody else empties it. Its waiting updates are locked for
//!    writing by the holder of the turn alone, for no longer than a sort takes, and by an estimate that sorts them, if they are free at
//!    once; for reading by anybody, and across device I/O by the holder of the turn who logs them, so that estimates go on meanwhile.
//! 4. A log's sequence is drawn under its slot's turn, and a pass draws its own while upkeep has all turns: a log is above every pass
//!    that did not see it.
//! 5. A writer logs by itself only while there are fewer than `pending` logs, those being written counted.
//! 6. Removals wait in slot 0 alone, and nothing overtakes an addition: estimates look at slot 0 before the others and add what it holds
//!    last, and removals are logged only behind what waits in all other slots. A cell that stops at zero would else have more than was
//!    added.

use super::log::Log;
use super::shape::Shape;
use super::sketch::Sketch;
use super::slots::{Batch, Waiting};
use super::writer::Writer;
use crate::error::invalid;
use crate::lock::{lock, read, try_lock, write};
use crate::{KeyHash, Result};
use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads are numbered as they first add something, so that each begins with a slot of its own.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// Lets this thread begin with slot `at`.
#[cfg(test)]
pub(super) fn begin_with_slot(at: usize) {
    THREAD.set(at);
}

/// What became of the front of a batch.
enum Pushed {
    /// So many of its updates are in the slot's buffer.
    Taken(usize),
    /// None is: the buffer is full and cannot be logged now. How often it was emptied before.
    IsFull { emptied: u64 },
}

impl Sketch {
    /// Adds a batch with these weights, or each hash once.
    pub(super) fn update(&self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.writable()?;
        let Some(weights) = weights else {
            return self.take(Batch::Units(hashes), false);
        };
        require_same_length(hashes, weights)?;
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
        self.take(Batch::Weighted(&records), false)
    }

    /// Takes off what was added.
    pub(super) fn remove(&self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.writable()?;
        self.require_plain("remove")?;
        if let Some(weights) = weights {
            require_same_length(hashes, weights)?;
        }
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
        self.take(Batch::Weighted(&records), true)
    }

    /// Takes a batch into a free slot, or removals into slot 0. Where its buffer is full and cannot be logged, upkeep makes room,
    /// with no lock held here.
    fn take(&self, batch: Batch<'_>, are_removals: bool) -> Result<()> {
        let mut rest = batch;
        // It ends: an empty buffer takes a part of any batch, so each turn either takes one, or empties this buffer, or waits until it was
        // emptied or can be. That has to be done again only where other threads have filled it meanwhile, and so have got on.
        while rest.len() > 0 {
            let (slot, turn) = if are_removals { self.slot_of_removals() } else { self.free_slot() };
            match self.push_part(slot, rest)? {
                Pushed::Taken(taken) => rest = rest.split_at(taken).1,
                Pushed::IsFull { emptied } => {
                    drop(turn);
                    self.make_room(slot, emptied)?;
                }
            }
        }
        Ok(())
    }

    fn slot_of_removals(&self) -> (usize, MutexGuard<'_, ()>) {
        (0, lock(&self.slots[0].turn))
    }

    /// A slot that no thread is in, beginning with this thread's; where there is none, this thread's, when it is free.
    fn free_slot(&self) -> (usize, MutexGuard<'_, ()>) {
        let slots = self.slots.len();
        let own = THREAD.get() % slots;
        let free =
            (own..own + slots).find_map(|at| Some((at % slots, try_lock(&self.slots[at % slots].turn)?)));
        free.unwrap_or_else(|| (own, lock(&self.slots[own].turn)))
    }

    /// Takes the front of a batch into a slot whose turn is held.
    fn push_part(&self, slot: usize, batch: Batch<'_>) -> Result<Pushed> {
        let is_weighted = matches!(batch, Batch::Weighted(_));
        let emptied = {
            let mut waiting = write(&self.slots[slot].waiting);
            let part = batch.split_at(batch.len().min(waiting.buffer.batch_max(is_weighted))).0;
            if waiting.buffer.room(is_weighted) >= part.len()
                || waiting.buffer.condense(part.len(), is_weighted)
            {
                waiting.push(part);
                return Ok(Pushed::Taken(part.len()));
            }
            waiting.emptied
        };
        // It is empty after that, and so there is room.
        Ok(if self.flush_alone(slot)? { Pushed::Taken(0) } else { Pushed::IsFull { emptied } })
    }

    /// Whether what waits in other slots has to be logged before this one.
    fn must_be_last(&self, waiting: &Waiting) -> bool {
        waiting.has_removals && self.slots.len() > 1
    }

    /// Logs a slot's buffer, if there may be another log and it need not wait for others. The slot's turn is held. Returns whether it
    /// did.
    fn flush_alone(&self, slot: usize) -> Result<bool> {
        if self.must_be_last(&read(&self.slots[slot].waiting)) {
            return Ok(false);
        }
        let one_more = |count| (count < self.pending).then_some(count + 1);
        if self.log_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Ok(false);
        }
        let logged = self.log_buffer(slot);
        // Out of the count, should no log have come to be.
        if !logged.as_ref().is_ok_and(|&is_log| is_log) {
            self.log_count.fetch_sub(1, Ordering::Relaxed);
        }
        logged.map(|_| true)
    }

    /// Empties a slot's buffer into a log; false where all its weights cancel, and there is none. The slot's turn is held; estimates
    /// look at the buffer until the log has taken its place.
    fn log_buffer(&self, slot: usize) -> Result<bool> {
        let lock_of_waiting = &self.slots[slot].waiting;
        write(lock_of_waiting).buffer.sorted();
        let log = {
            let waiting = read(lock_of_waiting);
            // Nobody adds without the turn, so it is in order still.
            let updates = waiting.buffer.in_order();
            self.new_log(waiting.shape, self.next_sequence(), |log| log.push_all(updates))?
        };
        let mut waiting = write(lock_of_waiting);
        let mut table = lock(&self.table);
        table.weight = super::plus(table.weight, waiting.weight);
        waiting.clear();
        table.emptied[slot] = waiting.emptied;
        table.change();
        let is_log = log.is_some();
        if let Some(log) = log {
            table.add_log(log);
        }
        Ok(is_log)
    }

    /// Writes what `fill` pushes as a log of this sequence; `None` if that is nothing.
    pub(super) fn new_log(
        &self,
        shape: Shape,
        sequence: u64,
        fill: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<Option<Log>> {
        Log::write(&self.files, (shape, self.hash_id), sequence, self.write_behind, fill)
    }

    /// A sequence above all that were drawn.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes all slots' turns: no thread adds or logs until they are given back. Estimates go on.
    pub(super) fn hold_still(&self) -> Still<'_> {
        Still { sketch: self, _turns: self.slots.iter().map(|slot| lock(&slot.turn)).collect() }
    }

    /// Whether a slot that was full when its buffer had been emptied so often was emptied since, or can be logged by itself.
    pub(super) fn has_room(&self, slot: usize, emptied: u64) -> bool {
        if read(&self.slots[slot].waiting).emptied != emptied {
            return true;
        }
        self.log_count.load(Ordering::Relaxed) < self.pending
            && !self.slots.iter().any(|slot| self.must_be_last(&read(&slot.waiting)))
    }

    /// Whether something waits in a buffer.
    pub(super) fn has_waiting(&self) -> bool {
        self.slots.iter().any(|slot| !read(&slot.waiting).buffer.is_empty())
    }
}

/// All slots' turns.
pub(super) struct Still<'a> {
    sketch: &'a Sketch,
    _turns: Vec<MutexGuard<'a, ()>>,
}

impl Still<'_> {
    /// Logs everything that waits in the buffers, removals last.
    pub(super) fn drain(&self) -> Result<()> {
        for slot in (0..self.sketch.slots.len()).rev() {
            if !read(&self.sketch.slots[slot].waiting).buffer.is_empty() && self.sketch.log_buffer(slot)? {
                self.sketch.log_count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Gives the memory of empty buffers back.
    pub(super) fn release(&self) {
        for slot in &self.sketch.slots {
            let mut waiting = write(&slot.waiting);
            if waiting.buffer.is_empty() {
                waiting.buffer.release();
            }
        }
    }
}

fn require_same_length(hashes: &[KeyHash], weights: &[u64]) -> Result<()> {
    if hashes.len() == weights.len() {
        return Ok(());
    }
    invalid("weights", weights.len(), format!("give one weight for each of the {} hashes", hashes.len()))
}
