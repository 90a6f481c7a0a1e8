//! Filters added to filters: the counts are those of all their keys together.

use crate::device::memory::MemoryDevice;
use crate::filter::cascade::{CascadeFilter, CascadeOptions};
use crate::store::{Store, StoreOptions};
use crate::{Error, KeyHash, Seed};
use std::sync::{Arc, Mutex, MutexGuard};

const OPTIONS: CascadeOptions = CascadeOptions {
    memory_bytes: 16 << 20,
    keys: 1 << 20,
    false_positive_rate: 1e-9,
    policy: crate::filter::cascade::Policy::Tiered { fan_out: 4 },
    value_bits: 0,
    writers: 1,
    panes: 0,
};

fn store(seed: u128) -> Store {
    Store::create_on(
        Arc::new(MemoryDevice::new()),
        StoreOptions::new().memory_bytes(64 << 20).seed(Seed(seed)),
    )
    .unwrap()
}

fn open(filter: &Mutex<CascadeFilter>) -> MutexGuard<'_, CascadeFilter> {
    filter.lock().unwrap()
}

fn hashes(store: &Store, keys: std::ops::Range<u64>) -> Vec<KeyHash> {
    keys.map(|key| store.hasher().hash(&key.to_le_bytes())).collect()
}

#[test]
fn counts_add_up() {
    let (here, there) = (store(1), store(1));
    let (into, from) = (here.cascade("a", OPTIONS).unwrap(), there.cascade("b", OPTIONS).unwrap());
    open(&into).insert(&hashes(&here, 0..30_000)).unwrap();
    // On flash, in packed runs, in the log: once, often, and removed.
    open(&from).insert(&hashes(&here, 10_000..50_000)).unwrap();
    open(&from).insert(&vec![hashes(&here, 7..8)[0]; 1_000]).unwrap();
    there.commit(b"").unwrap();
    open(&from).insert(&hashes(&here, 40_000..60_000)).unwrap();
    open(&from).remove(&hashes(&here, 20_000..21_000)).unwrap();
    open(&into).merge_from(&open(&from)).unwrap();
    here.commit(b"").unwrap();
    let counts = open(&into).count_many(&hashes(&here, 0..61_000)).unwrap();
    for (key, count) in (0u64..).zip(counts) {
        let expected = u64::from(key < 30_000)
            + u64::from((10_000..50_000).contains(&key) && !(20_000..21_000).contains(&key))
            + u64::from((40_000..60_000).contains(&key))
            + if key == 7 { 1_000 } else { 0 };
        assert_eq!(count, expected, "key {key}");
    }
}

#[test]
fn strangers_are_refused() {
    let (here, there) = (store(1), store(2));
    let (into, from) = (here.cascade("a", OPTIONS).unwrap(), there.cascade("b", OPTIONS).unwrap());
    assert!(matches!(
        open(&into).merge_from(&open(&from)),
        Err(Error::Incompatible { what: "the hash", .. })
    ));
    let coarse = CascadeOptions { false_positive_rate: 1e-3, ..OPTIONS };
    let short = here.cascade("c", coarse).unwrap();
    open(&short).insert(&hashes(&here, 0..10)).unwrap();
    let outcome = open(&into).merge_from(&open(&short));
    assert!(matches!(outcome, Err(Error::Incompatible { what: "the length of fingerprints", .. })));
    let window = there.cascade("d", CascadeOptions { panes: 4, ..OPTIONS }).unwrap();
    assert!(matches!(
        open(&from).merge_from(&open(&window)),
        Err(Error::InvalidOption { name: "panes", .. })
    ));
}
