//! The filter as all its threads see it: writers' memtables, what came one key at a time, and the tree of runs below them.

use super::class::WriteClass;
use super::memtable::Memtable;
use super::options::FilterOptions;
use super::table::{FilterState, FilterTree};
use super::writers::WriterSlots;
use crate::filter::run::{RunKind, Sign};
use crate::lock::lock;
use crate::store::{Change, Files, Gate};
use crate::{KeyHasher, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// A writer's memtable, and what its entries belong to.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) memtable: Memtable,
    pub(super) class: WriteClass,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// For the background.
    pub(super) this: Weak<Shared>,
    pub(super) options: FilterOptions,
    pub(super) files: Files,
    /// The kind of all runs, but for the length of fingerprints.
    pub(super) kind: RunKind,
    pub(super) gate: Gate,
    /// How keys are hashed.
    pub(super) hasher: KeyHasher,
    pub(super) writers: WriterSlots,
    /// The writers' memtables, locked in this order, before the tree's lock; none where the store is open read-only.
    pub(super) slots: Vec<Mutex<Slot>>,
    /// Which memtables have entries, or had a moment ago, a bit each. A bit changes under the memtable's lock.
    pub(super) filled: AtomicU64,
    pub(super) tree: Arc<FilterTree>,
    /// The revision of what new entries belong to.
    revision: AtomicU64,
    /// How many memtables had been frozen when runs in RAM were last made ready for single questions. Whoever does that has the lock.
    pub(super) tended_memtables: AtomicU64,
    pub(super) tending: Mutex<()>,
}

impl Shared {
    pub(super) fn new(
        name: &str,
        options: FilterOptions,
        (files, hasher): (Files, KeyHasher),
        read_only: Option<PathBuf>,
        tree: Arc<FilterTree>,
    ) -> Arc<Self> {
        let class = tree.state().writes;
        let slot = |_| Mutex::new(Slot { memtable: Memtable::new(&options), class });
        let slots = if read_only.is_some() { 0 } else { options.writers };
        Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            gate: Gate::new("filter", name, files.clone(), read_only),
            hasher,
            writers: WriterSlots::new(slots),
            slots: (0..slots).map(slot).collect(),
            filled: AtomicU64::new(0),
            tended_memtables: AtomicU64::new(u64::MAX),
            tending: Mutex::new(()),
            options,
            files,
            kind: tree.table.kind,
            tree,
            revision: AtomicU64::new(class.revision),
        })
    }

    /// The tree's lock.
    pub(super) fn state(&self) -> MutexGuard<'_, FilterState> {
        self.tree.state()
    }

    /// The memtables that have entries, locked from the first on. Others may get some meanwhile.
    pub(super) fn lock_filled(&self) -> Vec<MutexGuard<'_, Slot>> {
        // What was put into a memtable before the question is seen: its bit was set then, and goes when it is in the version.
        let filled = self.filled.load(Ordering::Acquire);
        let slots = self.slots.iter().enumerate().filter(|(at, _)| filled >> at & 1 == 1);
        slots.map(|(_, slot)| lock(slot)).collect()
    }

    /// Bits of the entries of a class, values among them.
    pub(super) fn entry_bits(&self, class: WriteClass) -> u32 {
        class.run_class(&self.options, Sign::Insertions).bits
    }

    /// The revision of what new entries belong to; without a lock.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Says that what new entries belong to may have changed.
    pub(super) fn note_class(&self, state: &FilterState) {
        self.revision.store(state.writes.revision, Ordering::Release);
    }

    /// Refuses those who go on with a filter that is closed, or in a fork.
    #[inline]
    pub(super) fn usable(&self) -> Result<()> {
        self.gate.usable()
    }

    /// Notes, when it is dropped by a panic, that the filter is not to be committed.
    pub(super) fn change(&self) -> Change<'_> {
        self.gate.change()
    }

    pub(super) fn writable(&self) -> Result<()> {
        self.gate.writable()
    }
}
