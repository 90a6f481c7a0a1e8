//! How entries get in: through a writer's log, packed when it is full.

use super::class::WriteClass;
use super::memtable::EntryLayout;
use super::shared::{Shared, Slot};
use crate::Result;
use crate::filter::run::{PackedRun, RunKind};
use crate::lock::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Keys taken at a time: all of them or, where the disk is full, none.
pub(super) const CHUNK_KEYS: usize = 1 << 12;

impl Shared {
    /// Adds entries, a key's hash and a value each, through the memtable of a slot that is free.
    pub(super) fn add(
        self: &Arc<Self>,
        mut entries: impl ExactSizeIterator<Item = (u64, u64)>,
        is_removal: bool,
    ) -> Result<()> {
        self.writable()?;
        if entries.len() == 0 {
            return Ok(());
        }
        let _change = self.change();
        let taken_slot = self.writers.take();
        let slot = taken_slot.number;
        while entries.len() > 0 {
            let keys = entries.len().min(CHUNK_KEYS);
            self.make_room()?;
            let mut held = self.slot(slot)?;
            let (mut taken, mut has_frozen) = (0, false);
            while taken < keys {
                if held.memtable.is_empty() {
                    self.filled.fetch_or(1 << slot, Ordering::AcqRel);
                    let mut state = self.state();
                    // Under that lock they open.
                    let beside = if self.tree.table.shards.is_open() { self.shards_limit() } else { 0 };
                    held.memtable.begin(state.open_memtable(slot, beside, &self.options));
                }
                let place = self.place(held.class);
                taken += held.memtable.push(entries.by_ref().take(keys - taken), place, is_removal);
                if held.memtable.is_full() {
                    self.freeze(slot, &mut held)?;
                    self.renew_class(&mut held);
                    has_frozen = true;
                }
            }
            drop(held);
            // To pack a log is a step by itself; the work that it held up is done with the next keys.
            self.tree.pace(keys, has_frozen)?;
        }
        Ok(())
    }

    /// Adds an occurrence of each of many keys, whose hashes ascend: they need no log.
    pub(super) fn add_sorted(self: &Arc<Self>, prefixes: impl ExactSizeIterator<Item = u64>) -> Result<()> {
        let keys = prefixes.len();
        let _change = self.change();
        let (class, left) = {
            let state = self.state();
            (state.writes, state.left(&self.options))
        };
        if keys as u64 > left {
            return self.add(prefixes.map(|prefix| (prefix, 0)), false);
        }
        let kind = RunKind { fingerprint_bits: self.entry_bits(class), ..self.kind };
        let mask = self.place(class).mask;
        let fingerprints: Vec<u64> =
            prefixes.map(|prefix| (prefix & mask) >> (64 - kind.fingerprint_bits)).collect();
        let packed = PackedRun::new(kind, &fingerprints)?;
        self.make_room_for(packed.memory_bytes())?;
        let mut state = self.state();
        state.add_packed(None, [packed], class, &self.options);
        self.note_class(&state);
        self.tree.schedule(&mut state);
        drop(state);
        self.tree.pace(keys, false)
    }

    /// The slot of a writer, its log being of the present class.
    fn slot(self: &Arc<Self>, at: usize) -> Result<MutexGuard<'_, Slot>> {
        let mut slot = lock(&self.slots[at]);
        if slot.class.revision != self.revision() {
            self.freeze(at, &mut slot)?;
            self.renew_class(&mut slot);
        }
        Ok(slot)
    }

    pub(super) fn renew_class(&self, slot: &mut Slot) {
        slot.class = self.state().writes;
    }

    /// Where the parts of a class's entries lie.
    pub(super) fn place(&self, class: WriteClass) -> EntryLayout {
        let mask = u64::MAX << (64 - self.options.bits(class.generation));
        EntryLayout { mask, value_shift: 64 - self.entry_bits(class) }
    }

    /// Packs a writer's log. Whoever looks at the filter holds the slot, and so sees its entries in one place.
    pub(super) fn freeze(self: &Arc<Self>, at: usize, slot: &mut Slot) -> Result<()> {
        if slot.memtable.is_empty() {
            return Ok(());
        }
        let kind = RunKind { fingerprint_bits: self.entry_bits(slot.class), ..self.kind };
        let packed = slot.memtable.freeze(kind)?;
        let mut state = self.state();
        state.add_packed(Some(at), packed, slot.class, &self.options);
        self.note_class(&state);
        self.tree.schedule(&mut state);
        drop(state);
        self.filled.fetch_and(!(1 << at), Ordering::AcqRel);
        Ok(())
    }

    /// Packs the memtables of all writers, and what came one key at a time.
    pub(super) fn freeze_all(self: &Arc<Self>) -> Result<()> {
        (0..self.slots.len()).try_for_each(|at| self.freeze(at, &mut lock(&self.slots[at])))?;
        self.freeze_shards()
    }

    /// Sees to it that a chunk of entries fits into RAM, packed logs and all.
    pub(super) fn make_room(self: &Arc<Self>) -> Result<()> {
        self.make_room_for(0)
    }

    /// As [`Shared::make_room`], for a packed run of so many bytes beside.
    fn make_room_for(self: &Arc<Self>, bytes: usize) -> Result<()> {
        // With many writers and many fences the logs alone may be more than that: what is not there cannot be flushed.
        self.tree.make_room(self.memtables_bytes_packed() + bytes)
    }

    /// What the memtables of all writers, and what came one key at a time, take at most when they are packed.
    fn memtables_bytes_packed(&self) -> usize {
        let table = &self.tree.table;
        let memtables = self.slots.len() + usize::from(table.asks_singly());
        memtables * (self.options.packed_memtable_bytes() + table.front_bytes(self.options.memtable_keys()))
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
