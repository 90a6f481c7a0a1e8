//! Updates on their way to the pages: a buffer for each writer, and the logs that the buffers were flushed to.
//!
//! ```text
//!   writer 0 ─▶ slot 0 ─┐ full: sorted, written ┌─────────┐   more than `pending`    ┌───────┐
//!   writer 1 ─▶ slot 1 ─┴──────────────────────▶│  logs   │────────────────────────▶ │ pages │
//!                 each under its own lock       └─────────┘   all locks held          └───────┘
//! ```
//!
//! 1. An update is in exactly one place: a buffer, a log, or the pages. It moves only while its slot's lock is held.
//! 2. Locks are taken in this order: the sketch, the slots by number, the list of logs. [`Intake::hold`] takes all but the
//!    first: nothing then moves.
//! 3. A log's sequence is drawn under its slot's lock, and a pass draws its own while it holds all slots: a log is above
//!    every pass that did not see it.
//! 4. A writer logs by itself only while there are fewer than `pending` logs, those being written counted.
//! 5. Removals wait in slot 0 alone, and nothing overtakes an addition: estimates take slot 0 last, and removals are logged only
//!    behind what waits in all other slots. A cell that stops at zero would else have more than was added.

use super::log::Log;
use super::memory::Buffer;
use super::page::Updates;
use super::place::Shape;
use crate::lock::lock;
use crate::store::Files;
use crate::{Error, KeyHash, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What the writers of a sketch share with it.
#[derive(Debug)]
pub(super) struct Intake {
    files: Files,
    pending: usize,
    /// Where the store is, if it cannot be written.
    read_only: Option<PathBuf>,
    /// Logs are written while the next part of them is composed.
    write_behind: bool,
    sequence: AtomicU64,
    log_count: AtomicUsize,
    logs: Mutex<Vec<Log>>,
    slots: Vec<Mutex<Slot>>,
}

/// One writer's updates.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) shape: Shape,
    pub(super) buffer: Buffer,
    /// The sum of the weights taken since the sketch last asked.
    pub(super) weight: i128,
    /// Whether anything came since the sketch last asked.
    pub(super) is_fresh: bool,
    /// Whether something was taken off that waits in the buffer.
    pub(super) has_removals: bool,
}

/// All slots and the logs, held still.
pub(super) struct Held<'a> {
    intake: &'a Intake,
    pub(super) slots: Vec<MutexGuard<'a, Slot>>,
    pub(super) logs: MutexGuard<'a, Vec<Log>>,
}

/// What one call adds.
#[derive(Clone, Copy)]
pub(super) enum Batch<'a> {
    /// Each hash once.
    Units(&'a [KeyHash]),
    /// Each hash with its weight.
    Weighted(&'a [(KeyHash, i64)]),
}

impl Batch<'_> {
    fn len(self) -> usize {
        match self {
            Batch::Units(hashes) => hashes.len(),
            Batch::Weighted(records) => records.len(),
        }
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        match self {
            Batch::Units(hashes) => {
                let (head, tail) = hashes.split_at(at);
                (Batch::Units(head), Batch::Units(tail))
            }
            Batch::Weighted(records) => {
                let (head, tail) = records.split_at(at);
                (Batch::Weighted(head), Batch::Weighted(tail))
            }
        }
    }
}

impl Intake {
    pub(super) fn new(
        shape: Shape,
        files: Files,
        buffers: impl IntoIterator<Item = Buffer>,
        (logs, pending, sequence): (Vec<Log>, usize, u64),
        (read_only, write_behind): (Option<PathBuf>, bool),
    ) -> Self {
        let slot =
            |buffer| Mutex::new(Slot { shape, buffer, weight: 0, is_fresh: false, has_removals: false });
        Self {
            files,
            pending,
            read_only,
            write_behind,
            sequence: AtomicU64::new(sequence),
            log_count: AtomicUsize::new(logs.len()),
            logs: Mutex::new(logs),
            slots: buffers.into_iter().map(slot).collect(),
        }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn writers(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    pub(super) fn writable(&self) -> Result<()> {
        self.files.check_process()?;
        match &self.read_only {
            Some(path) => Err(Error::ReadOnly { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// The weight that the slots have not reported.
    pub(super) fn weight(&self) -> i128 {
        self.slots.iter().map(|slot| lock(slot).weight).sum()
    }

    pub(super) fn slot(&self, at: usize) -> MutexGuard<'_, Slot> {
        lock(&self.slots[at])
    }

    /// Holds everything still.
    pub(super) fn hold(&self) -> Held<'_> {
        Held { intake: self, slots: self.slots.iter().map(lock).collect(), logs: lock(&self.logs) }
    }

    /// Adds a batch through slot `at`. Where the buffer is full and cannot be logged, `make_way` is called, with no lock
    /// held, to empty it.
    pub(super) fn take(
        &self,
        at: usize,
        batch: Batch<'_>,
        make_way: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut rest = batch;
        while rest.len() > 0 {
            let mut slot = self.slot(at);
            let is_weighted = matches!(rest, Batch::Weighted(_));
            let (part, after) = rest.split_at(rest.len().min(slot.buffer.batch_max(is_weighted)));
            if slot.buffer.room(is_weighted) >= part.len()
                || slot.buffer.condense(part.len(), is_weighted)
                || self.flush_alone(&mut slot)?
            {
                slot.push(part);
                rest = after;
            } else {
                drop(slot);
                make_way()?;
            }
        }
        Ok(())
    }

    /// Whether what waits in other slots has to be logged before this one.
    fn must_be_last(&self, slot: &Slot) -> bool {
        slot.has_removals && self.writers() > 1
    }

    /// Logs a slot's buffer, if there may be another log and it need not wait for others. Returns whether it did.
    fn flush_alone(&self, slot: &mut Slot) -> Result<bool> {
        if self.must_be_last(slot) {
            return Ok(false);
        }
        let one_more = |count| (count < self.pending).then_some(count + 1);
        if self.log_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Ok(false);
        }
        let written = self.write_log(slot);
        // Out of the count until it is in the list, should it not have come to be.
        let logged = written.as_ref().is_ok_and(Option::is_some);
        if !logged {
            self.log_count.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(log) = written? {
            // Writers end in another order than they drew their numbers in, and a commit names the logs by number.
            let mut logs = lock(&self.logs);
            let at = logs.partition_point(|earlier| earlier.sequence < log.sequence);
            logs.insert(at, log);
        }
        Ok(true)
    }

    /// Empties a slot's buffer into a log; `None` where all its weights cancel.
    fn write_log(&self, slot: &mut Slot) -> Result<Option<Log>> {
        let shape = slot.shape;
        let updates = slot.buffer.sorted();
        let log = self.new_log(shape, |log| log.push_all(updates))?;
        slot.clear();
        Ok(log)
    }

    /// Writes what `fill` pushes as a log with a new sequence.
    fn new_log(
        &self,
        shape: Shape,
        fill: impl FnOnce(&mut super::writer::Writer<'_>) -> Result<()>,
    ) -> Result<Option<Log>> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let log = Log::write(&self.files, shape, sequence, self.write_behind, fill)?;
        if log.blocks() > 0 {
            return Ok(Some(log));
        }
        let _ = self.files.discard(log.file_ref.id);
        Ok(None)
    }
}

impl Slot {
    fn push(&mut self, part: Batch<'_>) {
        self.is_fresh = true;
        // Under the lock: a fold changes what entry a hash has.
        let place = self.shape.place();
        match part {
            Batch::Units(hashes) => {
                self.buffer.push_units(hashes.iter().map(|&hash| place.entry(hash)));
                self.weight += hashes.len() as i128;
            }
            Batch::Weighted(records) => {
                for &(hash, weight) in records {
                    self.buffer.push(place.entry(hash), weight);
                    self.weight += i128::from(weight);
                    self.has_removals |= weight < 0;
                }
            }
        }
    }

    /// Forgets what waits.
    fn clear(&mut self) {
        self.buffer.clear();
        self.has_removals = false;
    }
}

impl Held<'_> {
    /// Whether a slot that is full can be logged by itself.
    pub(super) fn has_way(&self) -> bool {
        self.logs.len() < self.intake.pending && !self.slots.iter().any(|slot| self.intake.must_be_last(slot))
    }

    /// Logs everything that waits in the buffers, removals last.
    pub(super) fn drain(&mut self) -> Result<()> {
        for slot in self.slots.iter_mut().rev() {
            if !slot.buffer.is_empty() {
                self.logs.extend(self.intake.write_log(slot)?);
                self.intake.log_count.store(self.logs.len(), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A sequence above that of every log there is.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.intake.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes one log of all, `applied(group)` being the sequence up to which a group needs none of them.
    pub(super) fn merge_logs(&mut self, shape: Shape, applied: impl Fn(usize) -> u64) -> Result<()> {
        let (logs, intake) = (&self.logs, self.intake);
        let merged = intake.new_log(shape, |writer| super::cursor::merge(writer, shape, logs, applied))?;
        self.discard_logs();
        self.logs.extend(merged);
        self.intake.log_count.store(self.logs.len(), Ordering::Relaxed);
        Ok(())
    }

    /// The logs' updates are in other places now.
    pub(super) fn discard_logs(&mut self) {
        for log in self.logs.drain(..) {
            self.intake.files.retire(log.file_ref.id);
        }
        self.intake.log_count.store(0, Ordering::Relaxed);
    }

    /// Gives the memory of empty buffers back.
    pub(super) fn release(&mut self) {
        self.slots.iter_mut().filter(|slot| slot.buffer.is_empty()).for_each(|slot| slot.buffer.release());
    }

    /// Forgets what waits in the buffers and the logs, for a sketch that is now of `shape`.
    pub(super) fn forget(&mut self, shape: Shape) {
        for slot in &mut self.slots {
            slot.clear();
            slot.shape = shape;
        }
        self.discard_logs();
    }

    /// Sorts the buffers where too much of them is not in order.
    pub(super) fn settle(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.buffer.settle());
    }

    /// The updates in the buffers, removals last: in order, and not.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Updates<'_>, Updates<'_>)> {
        self.slots.iter().rev().map(|slot| slot.buffer.parts())
    }

    /// The weight that came since the last call, and whether anything did.
    pub(super) fn take_news(&mut self) -> (i128, bool) {
        self.slots.iter_mut().fold((0, false), |(weight, is_fresh), slot| {
            (weight + std::mem::take(&mut slot.weight), is_fresh | std::mem::take(&mut slot.is_fresh))
        })
    }
}
