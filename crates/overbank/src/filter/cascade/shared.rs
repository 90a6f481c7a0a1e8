//! The filter as all its threads see it: writers' memtables, and the tree of runs below them.

use super::memtable::Memtable;
use super::options::CascadeOptions;
use super::table::{FilterState, FilterTree};
use super::write_class::WriteClass;
use crate::filter::run::{RunKind, Sign};
use crate::store::Files;
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// A writer's memtable, and what its entries belong to.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) log: Memtable,
    pub(super) class: WriteClass,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// For the background.
    pub(super) this: Weak<Shared>,
    pub(super) options: CascadeOptions,
    pub(super) files: Files,
    /// The kind of all runs, but for the length of fingerprints.
    pub(super) kind: RunKind,
    /// Where the store is, if it is open read-only.
    pub(super) read_only: Option<PathBuf>,
    /// Locked before the tree's lock.
    pub(super) slots: Vec<Mutex<Slot>>,
    pub(super) tree: Arc<FilterTree>,
    /// The revision of what new entries belong to.
    revision: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        options: CascadeOptions,
        files: Files,
        read_only: Option<PathBuf>,
        tree: Arc<FilterTree>,
    ) -> Arc<Self> {
        let class = tree.state().writes;
        let slot = |_| Mutex::new(Slot { log: Memtable::new(&options), class });
        Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            slots: (0..options.writers).map(slot).collect(),
            options,
            files,
            kind: tree.table.kind,
            read_only,
            tree,
            revision: AtomicU64::new(class.revision),
        })
    }

    /// The tree's lock.
    pub(super) fn state(&self) -> MutexGuard<'_, FilterState> {
        self.tree.state()
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

    pub(super) fn writable(&self) -> Result<()> {
        self.files.check_process()?;
        match &self.read_only {
            Some(path) => Err(Error::ReadOnly { path: path.clone() }),
            None => Ok(()),
        }
    }
}
