//! A structure of the test's table: one memtable, a tree, and a summary of a store.

use super::table::{Batch, Entry, KvTable, STRUCTURE};
use crate::bytes::ByteReader;
use crate::device::sim::SimDevice;
use crate::lock::lock;
use crate::lsm::{Limits, Policy, State, StoredTree, Tree, Version};
use crate::segment::SegmentKind;
use crate::store::{Participant, Prepared, Store, StoreOptions, Structure};
use crate::{Result, Seed};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

/// Entries of a memtable.
pub(super) const MEMTABLE: usize = 40;

#[derive(Debug)]
pub(super) struct Kv {
    pub(super) tree: Arc<Tree<KvTable>>,
    memtable: Mutex<BTreeMap<u64, Option<u64>>>,
}

pub(super) fn store_options(threads: usize) -> StoreOptions {
    StoreOptions::new().threads(threads).seed(Seed(7)).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

pub(super) fn simulated(threads: usize) -> (Arc<SimDevice>, Store) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options(threads)).unwrap();
    (device, store)
}

/// Runs are of a few memtables, pieces of a few blocks.
pub(super) fn limits() -> Limits {
    let (lane_entries_min, piece_bytes_min) = (100, 16 << 10);
    Limits {
        frozen_bytes: 4 << 10,
        flush_entries: 80,
        lanes: 2,
        merges: 2,
        inputs_max: 16,
        lane_entries_min,
        piece_bytes_min,
    }
}

/// Keys are spread, as hashes are.
pub(super) fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Kv {
    /// The table of the name "kv": that of the last commit, or a new one.
    pub(super) fn open(store: &Store, policy: Policy) -> Result<Arc<Kv>> {
        Self::open_with(store, policy, limits())
    }

    pub(super) fn open_with(store: &Store, policy: Policy, limits: Limits) -> Result<Arc<Kv>> {
        let kind = SegmentKind {
            structure: STRUCTURE,
            seed_fingerprint: store.seed().fingerprint(),
            hash_kind: store.hash_kind(),
        };
        let table = KvTable { kind };
        let state = match store.record("kv") {
            None => {
                let mut state = State::new((), 0, 1, Version::default());
                state.is_changed = true;
                state
            }
            Some(entry) => {
                let mut fields = ByteReader::new(&entry.record.state);
                let tree = StoredTree::decode(&mut fields, &entry.record.files, 0, |_| Ok(()))?;
                let mut state = State::new((), tree.memtables, 1, tree.open(&table, store.files(), "kv")?);
                state.note_committed(tree, ());
                state
            }
        };
        let parts = (store.files().clone(), store.workers().spawner());
        let tree = Tree::new(table, parts, policy, limits, state);
        let kv = Arc::new(Kv { tree, memtable: Mutex::default() });
        store.attach("kv", Arc::clone(&kv) as Arc<dyn Participant>)?;
        kv.tree.serve(store.publisher("kv"));
        Ok(kv)
    }

    pub(super) fn put(&self, key: u64, value: Option<u64>) -> Result<()> {
        self.tree.make_room(0)?;
        let mut memtable = lock(&self.memtable);
        if memtable.is_empty() {
            self.tree.state().begin_memtable(0);
        }
        memtable.insert(key, value);
        if memtable.len() >= MEMTABLE {
            self.freeze_locked(&mut memtable);
        }
        drop(memtable);
        self.tree.pace(1, false)
    }

    pub(super) fn freeze(&self) {
        self.freeze_locked(&mut lock(&self.memtable));
    }

    fn freeze_locked(&self, memtable: &mut BTreeMap<u64, Option<u64>>) {
        if memtable.is_empty() {
            return;
        }
        let batch = Batch(std::mem::take(memtable).into_iter().collect());
        let mut state = self.tree.state();
        state.push_frozen(Some(0), [(batch, ())]);
        self.tree.schedule(&mut state);
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.freeze();
        self.tree.flush()
    }

    pub(super) fn compact(&self) -> Result<()> {
        self.flush()?;
        let first_job = self.tree.state().next_job();
        self.tree.finish_merges(first_job)?;
        self.tree.merge_all()
    }

    /// The value of a key: that of the newest entry.
    pub(super) fn get(&self, key: u64) -> Result<Option<u64>> {
        let memtable = lock(&self.memtable);
        if let Some(value) = memtable.get(&key) {
            return Ok(*value);
        }
        let version = self.tree.version();
        drop(memtable);
        let mut found: Option<(u64, Option<u64>)> = None;
        let mut note = |newest: u64, value: Option<u64>| {
            assert!(found.is_none_or(|other| other.0 != newest), "two runs of one age have key {key:#x}");
            if found.is_none_or(|other| other.0 < newest) {
                found = Some((newest, value));
            }
        };
        for frozen in &version.frozen {
            if let Ok(at) = frozen.entries.0.binary_search_by_key(&key, |entry| entry.0) {
                note(frozen.span.newest, frozen.entries.0[at].1);
            }
        }
        for run in &version.runs {
            for piece in &run.pieces {
                if let Some(value) = piece.get(key)? {
                    note(run.span.newest, value);
                }
            }
        }
        Ok(found.and_then(|found| found.1))
    }

    /// All keys of a range, with their values.
    pub(super) fn scan(&self, range: RangeInclusive<u64>) -> Result<Vec<(u64, u64)>> {
        let memtable = lock(&self.memtable);
        let newest: Vec<Entry> = memtable.range(range.clone()).map(|(key, value)| (*key, *value)).collect();
        let version = self.tree.version();
        drop(memtable);
        let mut parts: Vec<(u64, Vec<Entry>)> = vec![(u64::MAX, newest)];
        for frozen in &version.frozen {
            let entries = frozen.entries.0.iter().filter(|entry| range.contains(&entry.0)).copied();
            parts.push((frozen.span.newest, entries.collect()));
        }
        for run in &version.runs {
            for piece in &run.pieces {
                parts.push((run.span.newest, piece.entries(range.clone())?));
            }
        }
        parts.sort_by_key(|part| part.0);
        let all: BTreeMap<u64, Option<u64>> = parts.into_iter().flat_map(|part| part.1).collect();
        Ok(all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
    }

    /// Whether entries are in one place each and runs are of neighbours in age.
    pub(super) fn check(&self) {
        let version = self.tree.version();
        let is_under_way = |id| version.merges.iter().any(|merging| merging.has(id));
        let spans: Vec<_> =
            version.runs.iter().filter(|run| !is_under_way(run.id)).map(|run| run.span).collect();
        let frozen = version.frozen.iter().map(|one| one.span);
        let under_way = version.merges.iter().map(|merging| version.span_of(&merging.inputs).unwrap());
        let all: Vec<_> = spans.into_iter().chain(frozen).chain(under_way).collect();
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| !one.overlaps(*other)), "{all:?}");
        }
    }
}

impl Participant for Kv {
    fn structure(&self) -> Structure {
        STRUCTURE
    }

    fn prepare(&self) -> Result<Prepared> {
        if !self.tree.is_changed() {
            return Ok(Prepared::Unchanged);
        }
        self.flush()?;
        Ok(Prepared::Changed(self.tree.prepare()))
    }

    fn committed(&self) {
        self.tree.committed();
    }

    fn is_changed(&self) -> bool {
        self.tree.is_changed()
    }
}
