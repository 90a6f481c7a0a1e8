//! The dictionary as all its threads see it: the newest items, and the tree of runs below them.

use super::item::ItemHasher;
use super::lookup_memory::LookupMemory;
use super::memtable::Memtable;
use super::options::{DictionaryOptions, Shares};
use super::table::{ItemState, ItemTree};
use crate::Result;
use crate::lock::lock;
use crate::store::{Files, Gate};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: DictionaryOptions,
    pub(super) shares: Shares,
    pub(super) gate: Gate,
    pub(super) files: Files,
    pub(super) hasher: ItemHasher,
    /// The newest items; locked before the tree.
    pub(super) memtable: Mutex<Memtable>,
    pub(super) tree: Arc<ItemTree>,
    pub(super) lookups: LookupMemory,
}

impl Shared {
    /// The tree's lock.
    pub(super) fn state(&self) -> MutexGuard<'_, ItemState> {
        self.tree.state()
    }

    /// Makes the newest items a run in RAM. Whoever looks holds the memtable or comes after it.
    pub(super) fn freeze(self: &Arc<Self>, memtable: &mut Memtable) {
        if memtable.is_empty() {
            return;
        }
        let frozen = memtable.freeze();
        let mut state = self.state();
        state.push_frozen(Some(0), [(frozen, ())]);
        self.tree.schedule(&mut state);
    }

    /// As [`Dictionary::flush`](super::Dictionary::flush).
    pub(super) fn flush(self: &Arc<Self>) -> Result<()> {
        self.gate.writable()?;
        let _change = self.gate.change();
        self.freeze(&mut lock(&self.memtable));
        self.tree.flush()
    }

    /// As [`Dictionary::settle`](super::Dictionary::settle).
    pub(super) fn finish_merges(self: &Arc<Self>) -> Result<()> {
        self.gate.writable()?;
        let _change = self.gate.change();
        let first_job = self.state().next_job();
        self.tree.finish_merges(first_job)
    }

    /// As [`Dictionary::compact`](super::Dictionary::compact).
    pub(super) fn compact(self: &Arc<Self>) -> Result<()> {
        self.flush()?;
        self.finish_merges()?;
        let _change = self.gate.change();
        self.tree.merge_all()
    }
}
