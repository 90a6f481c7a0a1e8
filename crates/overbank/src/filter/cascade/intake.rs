//! How entries get in: through a writer's log, packed when it is full.

use super::board::{Board, Era};
use super::shared::{Shared, Slot, lock};
use crate::filter::run::RunKind;
use crate::{KeyHash, Result};
use std::sync::{Arc, MutexGuard};

/// Keys taken at a time: all of them or, where the disk is full, none.
const CHUNK_KEYS: usize = 1 << 12;

/// Inserts and removes beside other writers, from a thread of its own; see [`CascadeFilter::writer`](super::CascadeFilter::writer).
#[derive(Debug)]
pub struct CascadeWriter {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: usize,
}

impl CascadeWriter {
    /// As [`CascadeFilter::insert`](super::CascadeFilter::insert).
    ///
    /// # Errors
    /// As there.
    pub fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        self.shared.add(self.slot, hashes.iter().map(|hash| hash.high()), false)
    }

    /// As [`CascadeFilter::remove`](super::CascadeFilter::remove).
    ///
    /// # Errors
    /// As there.
    pub fn remove(&mut self, hashes: &[KeyHash]) -> Result<()> {
        self.shared.removable()?;
        self.shared.add(self.slot, hashes.iter().map(|hash| hash.high()), true)
    }
}

impl Shared {
    /// Adds entries, the bits of their hashes on the left, through the log of a writer.
    pub(super) fn add(
        self: &Arc<Self>,
        slot: usize,
        mut prefixes: impl ExactSizeIterator<Item = u64>,
        is_removal: bool,
    ) -> Result<()> {
        self.writable()?;
        while prefixes.len() > 0 {
            let keys = prefixes.len().min(CHUNK_KEYS);
            self.make_room()?;
            let mut held = self.slot(slot)?;
            let (mut taken, mut has_sealed) = (0, false);
            while taken < keys {
                if held.log.is_empty() {
                    held.log.begin(self.board().begin_log(slot, &self.options));
                }
                let mask = self.mask(held.era);
                taken += held.log.push(prefixes.by_ref().take(keys - taken), mask, is_removal);
                if held.log.is_full() {
                    self.seal(slot, &mut held)?;
                    self.begin_era(&mut held);
                    has_sealed = true;
                }
            }
            drop(held);
            // To pack a log is a step by itself; the work that it held up is done with the next keys.
            self.pace(keys, has_sealed)?;
        }
        Ok(())
    }

    /// The slot of a writer, its log being of the present era.
    fn slot(self: &Arc<Self>, at: usize) -> Result<MutexGuard<'_, Slot>> {
        let mut slot = lock(&self.slots[at]);
        if slot.era.number != self.era_number() {
            self.seal(at, &mut slot)?;
            self.begin_era(&mut slot);
        }
        Ok(slot)
    }

    fn begin_era(&self, slot: &mut Slot) {
        slot.era = self.board().era;
    }

    /// Bits of the hashes that entries of an era keep.
    pub(super) fn mask(&self, era: Era) -> u64 {
        u64::MAX << (64 - self.options.bits(era.generation))
    }

    /// Packs a writer's log. Whoever looks at the filter holds the slot, and so sees its entries in one place.
    pub(super) fn seal(self: &Arc<Self>, at: usize, slot: &mut Slot) -> Result<()> {
        if slot.log.is_empty() {
            return Ok(());
        }
        let kind = RunKind { fingerprint_bits: self.entry_bits(slot.era), ..self.kind };
        let packed = slot.log.seal(kind)?;
        let mut board = self.board();
        board.add_packed(at, packed, slot.era, &self.options);
        self.note_era(&board);
        self.schedule(&mut board);
        Ok(())
    }

    /// Packs the logs of all writers.
    pub(super) fn seal_all(self: &Arc<Self>) -> Result<()> {
        (0..self.slots.len()).try_for_each(|at| self.seal(at, &mut lock(&self.slots[at])))
    }

    /// Sees to it that a chunk of entries fits into RAM, packed logs and all.
    fn make_room(self: &Arc<Self>) -> Result<()> {
        // With many writers and many fences the logs alone may be more than that: what is not there cannot be flushed.
        let has_room = |board: &Board| {
            board.packed.is_empty() || board.packed_bytes + self.log_bytes_packed() <= self.packed_room(board)
        };
        if has_room(&self.board()) { Ok(()) } else { self.flush_until(has_room) }
    }

    /// What the logs of all writers take at most when they are packed.
    fn log_bytes_packed(&self) -> usize {
        self.slots.len() * self.options.packed_log_bytes()
    }

    /// Refuses removals where entries are forgotten by their age.
    pub(super) fn removable(&self) -> Result<()> {
        if self.options.panes == 0 {
            return Ok(());
        }
        let why = "a window forgets by age, also the removals; use a filter without panes";
        crate::error::invalid("remove", format!("a key of a window of {} panes", self.options.panes), why)
    }
}
