//! A cascade filter in its store: what a commit names, and how it comes back.
//!
//! A commit flushes what is in RAM to a run, however short, and names all runs, and the merges that are half done: they go on where they
//! stand when the filter is opened again. Merges go on beside commits too; `lsm/commit` tells when the space of what they read comes back.

use super::format::{OLDEST_VERSION, State};
use super::fronts::Fronts;
use super::options::CascadeOptions;
use super::shared::Shared;
use super::table::{FilterState, FingerprintTable};
use super::write_class::WriteClass;
use super::{CascadeFilter, Maplet};
use crate::error::invalid;
use crate::filter::run::{RunKind, Sign};
use crate::lock::lock;
use crate::lsm::{Limits, Tree, Version};
use crate::store::{Entry, Participant, Prepared, Store, Structure, lock_whole, registry};
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

impl Store {
    /// The cascade filter of this name: the stored one, or a new one. A stored one keeps its own expected keys and rate; memory,
    /// policy and writers are those given.
    ///
    /// # Errors
    /// As [`CascadeFilter::open`] and [`CascadeFilter::create`]; `Incompatible` if the stored one has panes of another number, or
    /// another false-positive rate.
    pub fn cascade(&self, name: &str, options: CascadeOptions) -> Result<Arc<Mutex<CascadeFilter>>> {
        check_kind(&options, false)?;
        attach(self, name, CascadeFilter::open_or_create(self, name, options)?)
    }

    /// The maplet of this name, as [`Store::cascade`]: the stored one, or a new one.
    ///
    /// # Errors
    /// As there; `Incompatible` also if the stored one has values of another length.
    pub fn maplet(&self, name: &str, options: CascadeOptions) -> Result<Arc<Mutex<Maplet>>> {
        check_kind(&options, true)?;
        attach(self, name, Maplet { filter: CascadeFilter::open_or_create(self, name, options)? })
    }
}

impl CascadeFilter {
    /// A new, empty filter that takes part in the store's commits. Its RAM comes from the store's budget.
    ///
    /// # Errors
    /// `InvalidOption`, `BudgetExceeded`, `AlreadyExists`, `ReadOnly`.
    pub fn create(store: &Store, name: &str, options: CascadeOptions) -> Result<Arc<Mutex<Self>>> {
        check_kind(&options, false)?;
        attach(store, name, Self::create_with(store, name, options)?)
    }

    /// The filter of this name at the store's last commit; in a store that is open read-only it can be asked only.
    ///
    /// # Errors
    /// `NotFound`, `Incompatible` if it is another kind of summary, `UnsupportedVersion`, `Corrupt`, `BudgetExceeded`.
    pub fn open(store: &Store, name: &str) -> Result<Arc<Mutex<Self>>> {
        let options = Self::stored_options(store, name)?;
        attach(store, name, Self::open_with(store, name, options)?)
    }

    /// The options of the filter of this name at the store's last commit, without opening it: what to ask [`Store::cascade`] for,
    /// with other memory if need be.
    ///
    /// # Errors
    /// As [`CascadeFilter::open`], except for what opening its files would find.
    pub fn stored_options(store: &Store, name: &str) -> Result<CascadeOptions> {
        stored_options(store, name, false)
    }

    fn open_or_create(store: &Store, name: &str, options: CascadeOptions) -> Result<Self> {
        if store.record(name).is_none() {
            return Self::create_with(store, name, options);
        }
        options.check()?;
        let stored = stored_options(store, name, options.value_bits > 0)?;
        let shape =
            |options: &CascadeOptions| (options.value_bits, options.panes, options.false_positive_rate);
        if shape(&options) != shape(&stored) {
            let [expected, found] = [&options, &stored].map(|options| {
                let (value_bits, panes, rate) = shape(options);
                format!("{value_bits} bits of value, {panes} panes, a rate of {rate}")
            });
            return Err(Error::Incompatible { what: "the filter", expected, found });
        }
        Self::open_with(store, name, CascadeOptions { keys: stored.keys, ..options })
    }

    fn create_with(store: &Store, name: &str, options: CascadeOptions) -> Result<Self> {
        if store.record(name).is_some() {
            return Err(Error::AlreadyExists { what: "summary", name: name.to_owned() });
        }
        options.check()?;
        let writes = WriteClass { revision: 0, generation: 0, pane: 0 };
        let mut state = FilterState::new(writes, 0, options.writers, Version::default());
        state.is_changed = true;
        Self::assemble(store, name, options, state)
    }

    fn open_with(store: &Store, name: &str, options: CascadeOptions) -> Result<Self> {
        let State { writes, tree, .. } = decode(name, &found(store, name)?)?;
        let table = FingerprintTable { options, kind: kind_of(store), fronts: Fronts::new(0, 0, 0) };
        let version = tree.open(&table, store.files(), name)?;
        let mut state = FilterState::new(writes, tree.memtables, options.writers, version);
        state.note_committed(tree, writes);
        state.reach_longest(&options);
        Self::assemble(store, name, options, state)
    }

    fn assemble(store: &Store, name: &str, options: CascadeOptions, state: FilterState) -> Result<Self> {
        let reservation = store.budget().reserve(
            &format!("cascade filter {name:?}"),
            options.memory_bytes,
            options.memory_bytes,
        )?;
        let read_only = store.is_read_only().then(|| store.device().path());
        let spawner = store.workers().spawner();
        let limits = shares(&options, spawner.threads());
        // Buffers keep half of what they share with fences and fronts. Where nothing is written, there are none.
        let in_front =
            if read_only.is_some() { options.memory_bytes / 4 * 3 } else { limits.frozen_bytes / 2 };
        let fronts = Fronts::new(options.value_bits, in_front, limits.lanes * (limits.merges + 1));
        let table = FingerprintTable { options, kind: kind_of(store), fronts };
        let files = store.files().clone();
        let tree = Tree::new(table, (files.clone(), spawner), options.policy, limits, state);
        let shared = Shared::new(options, files, read_only, tree);
        Ok(CascadeFilter { shared, writers_given: 0, _reservation: reservation })
    }
}

impl Maplet {
    /// A new, empty maplet that takes part in the store's commits. Its RAM comes from the store's budget.
    ///
    /// # Errors
    /// As [`CascadeFilter::create`].
    pub fn create(store: &Store, name: &str, options: CascadeOptions) -> Result<Arc<Mutex<Self>>> {
        check_kind(&options, true)?;
        attach(store, name, Maplet { filter: CascadeFilter::create_with(store, name, options)? })
    }

    /// The maplet of this name at the store's last commit; in a store that is open read-only it can be asked only.
    ///
    /// # Errors
    /// As [`CascadeFilter::open`].
    pub fn open(store: &Store, name: &str) -> Result<Arc<Mutex<Self>>> {
        let options = Self::stored_options(store, name)?;
        attach(store, name, Maplet { filter: CascadeFilter::open_with(store, name, options)? })
    }

    /// The options of the maplet of this name at the store's last commit, without opening it.
    ///
    /// # Errors
    /// As [`CascadeFilter::stored_options`].
    pub fn stored_options(store: &Store, name: &str) -> Result<CascadeOptions> {
        stored_options(store, name, true)
    }
}

/// Has a filter or maplet take part in commits.
fn attach<P>(store: &Store, name: &str, participant: P) -> Result<Arc<Mutex<P>>>
where
    P: AsRef<Shared>,
    Mutex<P>: Participant + 'static,
{
    let participant = Arc::new(Mutex::new(participant));
    match store.attach(name, Arc::clone(&participant) as Arc<dyn Participant>) {
        // Any number of readers may ask; one of them is enough to vouch for the blocks.
        Err(Error::AlreadyExists { .. }) if store.is_read_only() => return Ok(participant),
        attached => attached?,
    }
    if !store.is_read_only() {
        lock(&participant).as_ref().tree.serve(store.publisher(name));
    }
    Ok(participant)
}

impl AsRef<Shared> for CascadeFilter {
    fn as_ref(&self) -> &Shared {
        &self.shared
    }
}

impl AsRef<Shared> for Maplet {
    fn as_ref(&self) -> &Shared {
        &self.filter.shared
    }
}

/// A filter has no values, a maplet has.
fn check_kind(options: &CascadeOptions, is_maplet: bool) -> Result<()> {
    match (is_maplet, options.value_bits) {
        (false, 1..) => invalid(
            "value_bits",
            options.value_bits,
            "a filter keeps no values; make a maplet, with `Store::maplet`",
        ),
        (true, 0) => invalid(
            "value_bits",
            0,
            "a maplet keeps values of 1 to 16 bits; make a filter, with `Store::cascade`, if there are none",
        ),
        _ => Ok(()),
    }
}

/// The options of the filter, or maplet, of this name at the last commit.
fn stored_options(store: &Store, name: &str, is_maplet: bool) -> Result<CascadeOptions> {
    let options = decode(name, &found(store, name)?)?.options;
    if is_maplet == (options.value_bits > 0) {
        return Ok(options);
    }
    let shown = |is_maplet: bool| if is_maplet { "a maplet" } else { "a cascade filter" }.to_owned();
    let (expected, found) = (shown(is_maplet), shown(!is_maplet));
    Err(Error::Incompatible { what: "the kind of a summary", expected, found })
}

/// How a filter divides its memory, beside `threads` background threads.
pub(super) fn shares(options: &CascadeOptions, threads: usize) -> Limits {
    // A lane more is a thread more at a merge; packed runs are to have half of the memory all the same.
    let threads = (threads + options.writers.min(2)).min(LANES_MAX);
    let lanes = threads.min(options.memory_bytes / LANE_BYTES).max(1);
    // Reads in flight of lookups, and what they are sorted in.
    let lookups = options.memory_bytes / 8;
    let merge = WRITER_BYTES + options.policy.fan_out() as usize * CURSOR_BYTES;
    let merges = (options.memory_bytes / MERGE_MEMORY_BYTES).clamp(1, MERGES_MAX);
    let merging = lanes * (merges * merge + WRITER_BYTES + FLUSH_BYTES);
    let logs = options.writers * options.log_bytes();
    let frozen_bytes =
        options.memory_bytes.saturating_sub(lookups + merging + logs).max(options.memory_bytes / 4);
    let flushed_bytes = frozen_bytes / Limits::FLUSH.1 * Limits::FLUSH.0;
    let flush_keys = flushed_bytes / options.packed_log_bytes() * options.log_keys();
    let flush_entries = flush_keys.max(options.log_keys()) as u64;
    let (lane_entries_min, piece_bytes_min) = (Limits::LANE_ENTRIES_MIN, Limits::PIECE_BYTES_MIN);
    Limits { frozen_bytes, flush_entries, lanes, merges, lane_entries_min, piece_bytes_min }
}

impl Participant for Mutex<CascadeFilter> {
    fn structure(&self) -> Structure {
        registry::FILTER.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        lock_whole(self)?.prepare()
    }

    fn committed(&self) {
        lock(self).shared.tree.committed();
    }

    fn is_changed(&self) -> bool {
        lock(self).shared.tree.is_changed()
    }
}

impl Participant for Mutex<Maplet> {
    fn structure(&self) -> Structure {
        registry::FILTER.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        lock_whole(self)?.filter.prepare()
    }

    fn committed(&self) {
        lock(self).filter.shared.tree.committed();
    }

    fn is_changed(&self) -> bool {
        lock(self).filter.shared.tree.is_changed()
    }
}

impl CascadeFilter {
    fn prepare(&mut self) -> Result<Prepared> {
        if !self.shared.tree.is_changed() {
            return Ok(Prepared::Unchanged);
        }
        self.flush()?;
        Ok(Prepared::Changed(self.shared.tree.prepare()))
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

fn found(store: &Store, name: &str) -> Result<Entry> {
    store.record(name).ok_or_else(|| Error::NotFound { what: "cascade filter", name: name.to_owned() })
}

fn decode(name: &str, entry: &Entry) -> Result<State> {
    entry.require_since(name, registry::FILTER, OLDEST_VERSION)?;
    let state = State::decode(&entry.record.state, &entry.record.files);
    state.map_err(|error| error.in_file(Path::new(name)))
}
