//! A dictionary in its store: what a commit names, and how it comes back.
//!
//! A commit flushes what is in RAM to a run, however short, and names all runs. Merges go on beside it: what they replace stays
//! until a record that does not name it.

use super::Dictionary;
use super::format;
use super::item::ItemHasher;
use super::lookup_memory::LookupMemory;
use super::memtable::Memtable;
use super::operator::MergeOperator;
use super::options::{DictionaryOptions, Shares};
use super::rules::Rules;
use super::shared::Shared;
use super::table::{ItemState, ItemTable, ItemVersion, Writes};
use crate::error::invalid;
use crate::lock::lock;
use crate::lsm::{Tree, Version};
use crate::store::registry::{self, Kind};
use crate::store::{Entry, Gate, Openable, Participant, Prepared, Reservation, Store, Structure};
use crate::{Error, Result};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A dictionary, whose handles share it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) shared: Arc<Shared>,
    /// Its share of the store's budget, until it is closed.
    reservation: Mutex<Option<Reservation>>,
}

impl Store {
    /// The dictionary of this name: the one that is open, the stored one, or a new one. Its RAM comes from the store's budget. In a store
    /// that is open read-only it can be asked only.
    ///
    /// # Errors
    /// `InvalidOption`, `BudgetExceeded`; `WrongKind` if something else has this name; `Incompatible` if another operator was asked for
    /// than the stored one has; `UnsupportedVersion`, `Corrupt`; `NotFound` if there is none and the store is open read-only.
    pub fn dictionary(&self, name: &str, options: DictionaryOptions) -> Result<Dictionary> {
        let hasher = ItemHasher::new(self.hasher());
        let shares = options.shares(self.workers().spawner().threads());
        open(self, name, options, Setup { hasher, shares })
    }
}

impl Dictionary {
    /// The options of the dictionary of this name at the store's last commit, without opening it; the memory is that which it was last
    /// written with.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `UnsupportedVersion`, `Corrupt`.
    pub fn stored_options(store: &Store, name: &str) -> Result<DictionaryOptions> {
        let entry = store.record(name);
        let entry = entry.ok_or_else(|| crate::error::missing("dictionary", name))?;
        Ok(decode(name, &entry)?.0)
    }
}

/// What follows from the store and the options; tests have small memtables, and hashes that meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) hasher: ItemHasher,
    pub(super) shares: Shares,
}

pub(super) fn open(
    store: &Store,
    name: &str,
    options: DictionaryOptions,
    setup: Setup,
) -> Result<Dictionary> {
    let core = store.open_with(name, |stored| match stored {
        None => Core::create(store, name, options, setup),
        Some(entry) => Core::recover(store, name, options, entry, setup),
    })?;
    // One that was open already was not made for this call.
    options.with_shape_of(&core.shared.options.shape)?;
    Ok(Dictionary { core })
}

impl Openable for Core {
    const KIND: Kind = registry::DICTIONARY;
}

impl Core {
    fn create(store: &Store, name: &str, options: DictionaryOptions, setup: Setup) -> Result<Self> {
        if store.is_read_only() {
            return Err(crate::error::missing("dictionary", name));
        }
        options.check()?;
        // What is appended grows beyond what comes.
        let grows = options.shape.operator == Some(MergeOperator::Append);
        let longest_item = if grows { options.item_bytes_max() } else { 0 };
        let rules = Rules::new(setup.hasher, options.shape.operator);
        let table = ItemTable::new(options, rules, setup.shares, longest_item);
        Self::assemble(store, name, table, setup.shares, |writes| {
            let mut state = ItemState::new(writes, 0, 1, Version::default());
            state.is_changed = true;
            Ok(state)
        })
    }

    fn recover(
        store: &Store,
        name: &str,
        options: DictionaryOptions,
        entry: &Entry,
        setup: Setup,
    ) -> Result<Self> {
        let (stored, tree) = decode(name, entry)?;
        let options = options.with_shape_of(&stored.shape)?;
        if store.is_read_only() {
            options.check_for_reading()?;
        } else {
            options.check()?;
        }
        let longest_item = options.item_bytes_max();
        let rules = Rules::new(setup.hasher, options.shape.operator);
        let table = ItemTable::new(options, rules, setup.shares, longest_item);
        let version = tree.open(&table, store.files(), name)?;
        Self::assemble(store, name, table, setup.shares, |writes| {
            let mut state = ItemState::new(writes.clone(), tree.memtables, 1, version);
            state.note_committed(tree, writes);
            Ok(state)
        })
    }

    fn assemble(
        store: &Store,
        name: &str,
        table: ItemTable,
        shares: Shares,
        state: impl FnOnce(Writes) -> Result<ItemState>,
    ) -> Result<Self> {
        let (options, rules) = (table.options, table.rules.clone());
        let hasher = rules.hasher;
        let bytes = options.memory_bytes;
        let reservation = store.budget().reserve(&format!("dictionary {name:?}"), bytes, bytes)?;
        let read_only = store.is_read_only().then(|| store.device().path());
        let spawner = store.workers().spawner();
        let files = store.files().clone();
        let state = state(table.writes())?;
        let policy = DictionaryOptions::policy();
        let tree = Tree::new(table, (files.clone(), spawner), policy, shares.limits, state);
        if read_only.is_none() {
            tree.serve(store.publisher(name));
        }
        let gate = Gate::new("dictionary", name, files.clone(), read_only);
        let memtable = Mutex::new(Memtable::new(shares.memtable_bytes, rules));
        let lookups = LookupMemory::new(shares.lookup_bytes);
        let shared = Arc::new(Shared { options, shares, gate, files, hasher, memtable, tree, lookups });
        shared.check_index()?;
        Ok(Core { shared, reservation: Mutex::new(Some(reservation)) })
    }
}

impl Shared {
    /// Refuses to go on where the indexes of the runs take the memory of everything else.
    ///
    /// # Errors
    /// `BudgetExceeded`.
    pub(super) fn check_index(&self) -> Result<()> {
        let index_bytes: usize = self.state().version().runs.iter().map(|run| run.size().memory_bytes).sum();
        if index_bytes <= self.shares.index_bytes_max {
            return Ok(());
        }
        Err(Error::BudgetExceeded {
            what: "the index of a dictionary, which may be half of its memory,".to_owned(),
            wanted_bytes: index_bytes,
            available_bytes: self.shares.index_bytes_max,
            budget_bytes: self.options.memory_bytes,
        })
    }
}

/// Bytes of the longest item of the runs, in RAM and on flash: its key and its value.
pub(super) fn longest_item_bytes(version: &ItemVersion) -> usize {
    let memory = version.frozen.iter().map(|one| one.entries.longest());
    let pieces = version.runs.iter().flat_map(|run| &run.pieces);
    let flash = pieces.filter_map(|piece| piece.counts().longest).map(|bytes| bytes as usize);
    memory.chain(flash).max().unwrap_or(0)
}

impl Shared {
    /// Refuses operands where appended ones have made an item longer than any may be.
    ///
    /// # Errors
    /// `BudgetExceeded` if more memory would let them in, else `InvalidOption`.
    pub(super) fn check_growth(&self) -> Result<()> {
        if !self.options.is_appending() {
            return Ok(());
        }
        let longest = longest_item_bytes(&self.tree.version());
        if longest <= self.options.item_bytes_max() {
            return Ok(());
        }
        let Some(wanted_bytes) = DictionaryOptions::memory_for_appending(longest) else {
            let why = format!(
                "an item has {longest} bytes, with what was appended: remove or replace its value, and compact the dictionary"
            );
            return invalid("merge", "an operand", why);
        };
        let what = format!("a dictionary that has an item of {longest} bytes, for more to be appended,");
        let memory_bytes = self.options.memory_bytes;
        Err(Error::BudgetExceeded {
            what,
            wanted_bytes,
            available_bytes: memory_bytes,
            budget_bytes: memory_bytes,
        })
    }
}

impl Participant for Core {
    fn structure(&self) -> Structure {
        registry::DICTIONARY.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let shared = &self.shared;
        shared.gate.check_whole()?;
        if !shared.tree.is_changed() {
            return Ok(Prepared::Unchanged);
        }
        shared.flush()?;
        Ok(Prepared::Changed(shared.tree.prepare()))
    }

    fn committed(&self) {
        self.shared.tree.committed();
    }

    fn is_changed(&self) -> bool {
        self.shared.tree.is_changed()
    }

    fn close(&self) {
        self.shared.gate.close();
        drop(lock(&self.reservation).take());
    }
}

fn decode(name: &str, entry: &Entry) -> Result<(DictionaryOptions, crate::lsm::StoredTree<()>)> {
    entry.require(name, registry::DICTIONARY)?;
    let decoded = format::decode(&entry.record.state, &entry.record.files);
    decoded.map_err(|error| error.in_file(Path::new(name)))
}
