//! A cascade filter in its store: what a commit names, and how it comes back.
//!
//! A commit flushes what is in RAM to a run, however short, and names all runs. Merges go on beside it: what they replace stays
//! until a commit that does not name it.

use super::class::WriteClass;
use super::format::{OLDEST_VERSION, State};
use super::fronts::Fronts;
use super::options::FilterOptions;
use super::shared::Shared;
use super::table::{FilterState, FingerprintTable};
use super::{Filter, Maplet, MapletOptions};
use crate::error::invalid;
use crate::filter::run::{RunKind, Sign};
use crate::lock::lock;
use crate::lsm::{Limits, Tree, Version};
use crate::store::registry::{self, Kind};
use crate::store::{Entry, Openable, Participant, Prepared, Reservation, Store, Structure};
use crate::{Error, Result};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The most lanes of a merge.
const LANES_MAX: usize = 8;
/// RAM of a lane's writer, and of each run that it reads.
const WRITER_BYTES: usize = 9 << 18;
const CURSOR_BYTES: usize = 5 << 16;
/// The most merges that are open at a time, and how much memory a filter has for each.
const MERGES_MAX: usize = 3;
const MERGE_MEMORY_BYTES: usize = 16 << 20;
/// A filter has a lane for so much memory: twice what all open merges and a flush take for one.
const LANE_BYTES: usize = 48 << 20;
/// RAM of a flush's lane beside: the windows of a hundred packed runs, and their sort.
const FLUSH_BYTES: usize = 4 << 20;

/// A filter or maplet, whose handles share it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) shared: Arc<Shared>,
    /// Its share of the store's budget, until it is closed.
    reservation: Mutex<Option<Reservation>>,
}

impl Store {
    /// The filter of this name: the one that is open, the stored one, or a new one. Its RAM comes from the store's budget. In a store
    /// that is open read-only it can be asked only.
    ///
    /// # Errors
    /// `InvalidOption`, `BudgetExceeded`; `WrongKind` if something else has this name; `Incompatible` if something else was asked for
    /// than the stored one has; `UnsupportedVersion`, `Corrupt`; `NotFound` if there is none and the store is open read-only.
    pub fn filter(&self, name: &str, options: FilterOptions) -> Result<Filter> {
        open(self, name, options, false)
    }

    /// The maplet of this name, as [`Store::filter`].
    ///
    /// # Errors
    /// As there.
    pub fn maplet(&self, name: &str, options: MapletOptions) -> Result<Maplet> {
        Ok(Maplet { filter: open(self, name, options.filter, true)? })
    }
}

impl Filter {
    /// The options of the filter of this name at the store's last commit, without opening it; memory and writers are those that it
    /// was last written with.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `UnsupportedVersion`, `Corrupt`.
    pub fn stored_options(store: &Store, name: &str) -> Result<FilterOptions> {
        let entry = store.record(name);
        let entry = entry.ok_or_else(|| Error::NotFound { what: "filter", name: name.to_owned() })?;
        let options = decode(name, &entry)?.options;
        check_kind(name, &options, false)?;
        Ok(options)
    }
}

fn open(store: &Store, name: &str, options: FilterOptions, is_maplet: bool) -> Result<Filter> {
    let core = store.open_with(name, |stored| match stored {
        None => Core::create(store, name, options, is_maplet),
        Some(entry) => Core::recover(store, name, options, entry, is_maplet),
    })?;
    let filter = Filter { core };
    // One that was open already was not made for this call.
    let found = filter.options();
    check_kind(name, &found, is_maplet)?;
    options.with_shape_of(&found)?;
    Ok(filter)
}

impl Openable for Core {
    const KIND: Kind = registry::FILTER;
}

impl Core {
    fn create(store: &Store, name: &str, options: FilterOptions, is_maplet: bool) -> Result<Self> {
        if store.is_read_only() {
            let what = if is_maplet { "maplet" } else { "filter" };
            return Err(Error::NotFound { what, name: name.to_owned() });
        }
        if is_maplet && options.value_bits == 0 {
            let why = "a new maplet is told how many bits its values have, 1 to 16";
            return invalid("value_bits", 0, why);
        }
        options.check()?;
        let writes = WriteClass { revision: 0, generation: 0, pane: 0 };
        let mut state = FilterState::new(writes, 0, options.memtables(), Version::default());
        state.is_changed = true;
        Self::assemble(store, name, options, state)
    }

    fn recover(
        store: &Store,
        name: &str,
        options: FilterOptions,
        entry: &Entry,
        is_maplet: bool,
    ) -> Result<Self> {
        let State { options: stored, writes, tree } = decode(name, entry)?;
        check_kind(name, &stored, is_maplet)?;
        let options = options.with_shape_of(&stored)?;
        if store.is_read_only() {
            options.check_for_reading()?
        } else {
            options.check()?
        }
        let table = FingerprintTable::new(options, kind_of(store), Fronts::new(0, 0, 0));
        let version = tree.open(&table, store.files(), name)?;
        let mut state = FilterState::new(writes, tree.memtables, options.memtables(), version);
        state.note_committed(tree, writes);
        state.reach_longest(&options);
        Self::assemble(store, name, options, state)
    }

    fn assemble(store: &Store, name: &str, options: FilterOptions, state: FilterState) -> Result<Self> {
        let what = if options.value_bits > 0 { "maplet" } else { "filter" };
        let bytes = options.memory_bytes;
        let reservation = store.budget().reserve(&format!("{what} {name:?}"), bytes, bytes)?;
        let read_only = store.is_read_only().then(|| store.device().path());
        let spawner = store.workers().spawner();
        let limits = shares(&options, spawner.threads());
        // Buffers keep half of what they share with fences and fronts. Where nothing is written, there are none.
        let in_front =
            if read_only.is_some() { options.memory_bytes / 4 * 3 } else { limits.frozen_bytes / 2 };
        let fronts = Fronts::new(options.value_bits, in_front, limits.lanes * (limits.merges + 1));
        let table = FingerprintTable::new(options, kind_of(store), fronts);
        let files = store.files().clone();
        let tree = Tree::new(table, (files.clone(), spawner), options.policy, limits, state);
        if read_only.is_none() {
            tree.serve(store.publisher(name));
        }
        let shared = Shared::new(name, options, (files, store.hasher()), read_only, tree);
        Ok(Core { shared, reservation: Mutex::new(Some(reservation)) })
    }
}

/// A filter has no values, a maplet has.
fn check_kind(name: &str, options: &FilterOptions, is_maplet: bool) -> Result<()> {
    if is_maplet == (options.value_bits > 0) {
        return Ok(());
    }
    let (expected, found) = if is_maplet { ("maplet", "filter") } else { ("filter", "maplet") };
    Err(Error::WrongKind { name: name.to_owned(), expected, found: found.to_owned() })
}

/// How a filter divides its memory, beside `threads` background threads.
pub(super) fn shares(options: &FilterOptions, threads: usize) -> Limits {
    // A lane more is a thread more at a merge; packed runs are to have half of the memory all the same.
    let threads = (threads + options.writers.min(2)).min(LANES_MAX);
    let lanes = threads.min(options.memory_bytes / LANE_BYTES).max(1);
    // Reads in flight of lookups, and what they are sorted in.
    let lookups = options.memory_bytes / 8;
    let merge = WRITER_BYTES + options.policy.fan_out() as usize * CURSOR_BYTES;
    let merges = (options.memory_bytes / MERGE_MEMORY_BYTES).clamp(1, MERGES_MAX);
    let merging = lanes * (merges * merge + WRITER_BYTES + FLUSH_BYTES);
    // A merge that is not due is alone: it has what all merges and a flush have together, but for its own writer.
    let inputs_max = (merges * merge + FLUSH_BYTES) / CURSOR_BYTES;
    let logs = options.writers * options.memtable_bytes();
    let frozen_bytes =
        options.memory_bytes.saturating_sub(lookups + merging + logs).max(options.memory_bytes / 4);
    let flushed_bytes = frozen_bytes / Limits::FLUSH.1 * Limits::FLUSH.0;
    let flush_keys = flushed_bytes / options.packed_memtable_bytes() * options.memtable_keys();
    let flush_entries = flush_keys.max(options.memtable_keys()) as u64;
    let (lane_entries_min, piece_bytes_min) = (Limits::LANE_ENTRIES_MIN, Limits::PIECE_BYTES_MIN);
    Limits { frozen_bytes, flush_entries, lanes, merges, inputs_max, lane_entries_min, piece_bytes_min }
}

impl Participant for Core {
    fn structure(&self) -> Structure {
        registry::FILTER.structure()
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

fn kind_of(store: &Store) -> RunKind {
    RunKind {
        fingerprint_bits: 1,
        seed_fingerprint: store.seed().fingerprint(),
        hash_kind: store.hash_kind(),
        sign: Sign::Insertions,
    }
}

fn decode(name: &str, entry: &Entry) -> Result<State> {
    entry.require_since(name, registry::FILTER, OLDEST_VERSION)?;
    let state = State::decode(&entry.record.state, &entry.record.files);
    state.map_err(|error| error.in_file(Path::new(name)))
}
