//! Removals in runs of their own: what they cost, when they meet what they take, and what lookups see before.

use super::*;
use crate::filter::cascade::report::RunReport;

fn sides(filter: &Filter) -> [u64; 2] {
    let runs = filter.report().runs;
    [false, true].map(|is_removals| {
        let of_it = |run: &&RunReport| run.is_removals == is_removals;
        runs.iter().filter(of_it).map(|run| run.fingerprints).sum()
    })
}

/// One key a fingerprint.
fn precise() -> FilterOptions {
    FilterOptions { keys: 1 << 20, false_positive_rate: 1e-9, ..small() }
}

#[test]
fn few_removals_stay_apart_and_many_annihilate() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", precise()).unwrap();
    filter.insert(&keys(&store, 0..9000)).unwrap();
    filter.flush().unwrap();
    filter.remove(&keys(&store, 0..1000)).unwrap();
    filter.flush().unwrap();
    filter.settle().unwrap();
    assert_eq!(sides(&filter), [9000, 1000]);
    let report = filter.report();
    assert_eq!((report.fingerprints, report.tombstones, report.occurrences), (9000, 1000, 9000));
    let expected: Vec<bool> = (0..9000).map(|key| key >= 1000).collect();
    assert_eq!(filter.contains_many(&keys(&store, 0..9000)).unwrap(), expected);
    // A third of what was inserted.
    filter.remove(&keys(&store, 1000..3000)).unwrap();
    filter.flush().unwrap();
    filter.settle().unwrap();
    assert_eq!(sides(&filter), [6000, 0]);
    let report = filter.report();
    assert_eq!((report.fingerprints, report.tombstones, report.occurrences), (6000, 0, 6000));
    assert_eq!(report.runs.len(), 1);
    filter.remove(&keys(&store, 3000..9000)).unwrap();
    filter.compact().unwrap();
    assert_eq!((sides(&filter), filter.report().runs.len()), ([0, 0], 0));
    store.commit(b"").unwrap();
    assert!(store.verify().unwrap().is_whole());
}

#[test]
fn what_is_inserted_and_removed_before_a_freeze_is_in_no_run() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", precise()).unwrap();
    filter.insert(&keys(&store, (0..3000).chain(0..1500))).unwrap();
    filter.remove(&keys(&store, (0..2000).chain(9000..9100))).unwrap();
    filter.flush().unwrap();
    // Of those there twice one is left; what was never in stays a removal until a merge of all.
    assert_eq!(sides(&filter), [2500, 100]);
    let counts = filter.count_many(&keys(&store, 0..3000)).unwrap();
    assert_eq!(counts, (0..3000).map(|key| u64::from(!(1500..2000).contains(&key))).collect::<Vec<_>>());
    filter.compact().unwrap();
    assert_eq!(sides(&filter), [2500, 0]);
}

#[test]
fn a_removal_on_flash_takes_an_insertion_that_is_in_ram() {
    let (_, store) = simulated(0);
    let filter =
        store.filter("f", FilterOptions { writers: 2, memory_bytes: 24 << 20, ..precise() }).unwrap();
    let hashes = keys(&store, 0..100);
    filter.insert(&hashes).unwrap();
    let shared = filter.shared();
    // Another thread would take the second slot while this one has the first.
    let first = shared.writers.take();
    filter.remove(&hashes[..50]).unwrap();
    drop(first);
    // Only the memtable with the removals gets to flash.
    shared.freeze(1, &mut crate::lock::lock(&shared.slots[1])).unwrap();
    shared.tree.flush().unwrap();
    assert_eq!(sides(&filter), [0, 50]);
    let expected: Vec<bool> = (0..100).map(|key| key >= 50).collect();
    assert_eq!(filter.contains_many(&hashes).unwrap(), expected);
    let one_by_one: Vec<bool> = hashes.iter().map(|&hash| filter.contains(hash).unwrap()).collect();
    assert_eq!(one_by_one, expected);
    assert_eq!(filter.insert_if_absent(&hashes).unwrap(), (0..100).map(|key| key < 50).collect::<Vec<_>>());
    filter.compact().unwrap();
    assert_eq!(sides(&filter), [100, 0]);
}

#[test]
fn both_sides_of_what_was_frozen_are_flushed_together() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", precise()).unwrap();
    for turn in 0..3 {
        filter.insert(&keys(&store, turn * 1000..(turn + 1) * 1000)).unwrap();
        filter.shared().freeze_all().unwrap();
        filter.remove(&keys(&store, turn * 1000..turn * 1000 + 100)).unwrap();
        filter.shared().freeze_all().unwrap();
    }
    filter.flush().unwrap();
    let report = filter.report();
    assert_eq!((sides(&filter), report.runs.len(), report.in_memory), ([3000, 300], 2, 0));
    let spans: Vec<_> = filter.shared().state().version().runs.iter().map(|run| run.span.newest).collect();
    assert_eq!(spans, [4, 5], "each as new as its newest memtable");
}

#[test]
fn keys_that_come_and_go_take_no_more_room_in_time() {
    let (_, store) = simulated(0);
    // So few are expected that generations begin, and what the first one has is taken by removals of later ones.
    for expected in [500, 1 << 20] {
        let filter =
            store.filter(&format!("f{expected}"), FilterOptions { keys: expected, ..precise() }).unwrap();
        let mut most = 0;
        for turn in 0..60u64 {
            filter.insert(&keys(&store, turn * 1000..(turn + 1) * 1000)).unwrap();
            filter.flush().unwrap();
            if turn > 0 {
                filter.remove(&keys(&store, (turn - 1) * 1000..turn * 1000)).unwrap();
                filter.flush().unwrap();
            }
            filter.settle().unwrap();
            let [inserted, removed] = sides(&filter);
            most = most.max(inserted + removed);
        }
        // 1,000 keys are in; a quarter of what is on flash, or a third of the rest, may wait, and a level's runs.
        assert!(most <= 6500, "{most} entries of {expected} expected keys");
        let seen = filter.contains_many(&keys(&store, 0..60_000)).unwrap();
        assert_eq!(seen, (0..60_000).map(|key| key >= 59_000).collect::<Vec<_>>());
    }
}

#[test]
fn removals_survive_commits_and_reopening() {
    let (device, store) = simulated(0);
    let filter = store.filter("f", precise()).unwrap();
    filter.insert(&keys(&store, 0..5000)).unwrap();
    store.commit(b"").unwrap();
    filter.remove(&keys(&store, 0..700)).unwrap();
    store.commit(b"").unwrap();
    drop((filter, store));
    for read_only in [true, false] {
        let open = if read_only { Store::open_read_only_on } else { Store::open_on };
        let store = open(device.clone(), store_options(0)).unwrap();
        let filter = store.filter("f", precise()).unwrap();
        assert_eq!(sides(&filter), [5000, 700]);
        let seen = filter.contains_many(&keys(&store, 0..5000)).unwrap();
        assert_eq!(seen, (0..5000).map(|key| key >= 700).collect::<Vec<_>>());
    }
}
