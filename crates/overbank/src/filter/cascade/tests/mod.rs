//! The law: for any batches, flushes, merges, commits and reopenings, the answers are those of a multiset of fingerprints.

mod bounds;
mod certain;
mod crash;
mod damage;
mod fronts;
mod full_disk;
mod growth;
mod law;
mod maplet;
mod merge_from;
mod opens;
mod removals;
mod single;
mod space;
mod stops;
mod threads;

use super::{Filter, FilterOptions, MapletOptions, Policy};
use crate::device::sim::SimDevice;
use crate::store::{Store, StoreOptions};
use crate::{KeyHash, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The obvious filter: fingerprints and how often they are in.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Model {
    bits: u32,
    counts: BTreeMap<u64, u64>,
}

impl Model {
    fn new(options: &FilterOptions) -> Self {
        Model { bits: options.fingerprint_bits().unwrap(), counts: BTreeMap::new() }
    }

    fn fingerprint(&self, hash: KeyHash) -> u64 {
        hash.high() >> (64 - self.bits)
    }

    fn count(&self, hash: KeyHash) -> u64 {
        self.counts.get(&self.fingerprint(hash)).copied().unwrap_or(0)
    }

    fn insert(&mut self, hash: KeyHash) {
        *self.counts.entry(self.fingerprint(hash)).or_default() += 1;
    }

    fn insert_if_absent(&mut self, hash: KeyHash) -> bool {
        let is_new = self.count(hash) == 0;
        if is_new {
            self.insert(hash);
        }
        is_new
    }

    fn remove_if_present(&mut self, hash: KeyHash) -> bool {
        let fingerprint = self.fingerprint(hash);
        let Some(count) = self.counts.get_mut(&fingerprint) else { return false };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&fingerprint);
        }
        true
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}

/// Few keys, some of which share a fingerprint; runs of a few blocks at most.
fn small() -> FilterOptions {
    FilterOptions {
        memory_bytes: 16 << 20,
        keys: 1 << 17,
        false_positive_rate: 0.5,
        policy: Policy::Tiered { fan_out: 2 },
        ..FilterOptions::default()
    }
}

/// Such a maplet, with values of so many bits.
fn small_maplet(value_bits: u32) -> MapletOptions {
    MapletOptions { filter: small() }.value_bits(value_bits)
}

fn store_options(threads: usize) -> StoreOptions {
    StoreOptions::new().threads(threads).seed(Seed(7)).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

fn simulated(threads: usize) -> (Arc<SimDevice>, Store) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options(threads)).unwrap();
    (device, store)
}

fn keys(store: &Store, numbers: impl IntoIterator<Item = u64>) -> Vec<KeyHash> {
    let hasher = store.hasher();
    numbers.into_iter().map(|number| hasher.hash_u64(number)).collect()
}

fn random_keys(store: &Store, seed: u64, count: usize, range: u64) -> Vec<KeyHash> {
    let mut random = Random(seed);
    keys(store, (0..count).map(|_| random.below(range)))
}

/// A filter of `runs` runs of 30,000 keys, whose fronts have `front_bytes` at most; nothing is committed.
fn of_equal_runs(runs: u64, front_bytes: usize, threads: usize) -> (Arc<SimDevice>, Store, Filter) {
    let (device, store) = simulated(threads);
    let options = FilterOptions {
        policy: Policy::Tiered { fan_out: 16 },
        keys: 1 << 30,
        false_positive_rate: 1e-4,
        ..small()
    };
    let filter = store.filter("f", options).unwrap();
    filter.shared().tree.table.fronts.limit(front_bytes);
    for run in 0..runs {
        filter.insert(&keys(&store, run * 30_000..(run + 1) * 30_000)).unwrap();
        filter.flush().unwrap();
    }
    (device, store, filter)
}
