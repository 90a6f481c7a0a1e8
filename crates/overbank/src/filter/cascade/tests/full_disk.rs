//! Disks that are full for a while: every key that was taken is there, and merges go on when there is room.

use super::*;
use crate::Error;
use crate::device::Device;
use crate::device::sim::{Fault, FaultKind};

/// Fingerprints of 51 bits: 4.7 bytes a key.
fn long() -> FilterOptions {
    FilterOptions { keys: 1 << 30, false_positive_rate: 1e-6, ..small() }
}

fn sample(store: &Store, keys_taken: u64) -> Vec<KeyHash> {
    keys(store, (0..keys_taken).step_by(101))
}

fn all_there(filter: &Filter, store: &Store, keys_taken: u64) {
    let counts = filter.count_many(&sample(store, keys_taken)).unwrap();
    assert!(counts.iter().all(|&count| count == 1), "of {keys_taken} keys");
}

#[test]
fn a_full_disk_refuses_keys_only_while_it_is_full() {
    for threads in [0, 2] {
        let (device, store) = simulated(threads);
        let filter = store.filter("f", long()).unwrap();
        device.set_capacity_bytes(7 << 20);
        let (mut taken, mut stalled_at) = (0, None);
        let full = loop {
            let batch = keys(&store, taken..taken + 4096);
            match filter.insert(&batch) {
                Ok(()) => taken += 4096,
                Err(error) => break error,
            }
            if stalled_at.is_none() && filter.report().stalled.is_some() {
                stalled_at = Some(taken);
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full}");
        // Merges stood still before there was no room left for keys; in the background perhaps not for long.
        let has_stalled = stalled_at.is_some_and(|keys| keys < taken);
        assert!(has_stalled || threads > 0, "{stalled_at:?} of {taken}");
        assert!(filter.report().memory_bytes <= long().memory_bytes);
        all_there(&filter, &store, taken);
        assert!(matches!(store.commit(b""), Err(Error::Full { .. })));
        assert!(matches!(filter.flush(), Err(Error::Full { .. })));
        assert!(matches!(filter.settle(), Err(Error::Full { .. })));
        assert_eq!(filter.report().occurrences, taken);

        device.set_capacity_bytes(u64::MAX);
        filter.insert(&keys(&store, taken..taken + 4096)).unwrap();
        taken += 4096;
        filter.flush().unwrap();
        filter.settle().unwrap();
        let report = filter.report();
        assert!(report.stalled.is_none() && report.runs.len() <= 4, "{report:?}");
        all_there(&filter, &store, taken);
        store.commit(b"").unwrap();
        drop((filter, store));
        let store = Store::open_on(device.clone(), store_options(threads)).unwrap();
        let filter = store.filter("f", small()).unwrap();
        all_there(&filter, &store, taken);
        assert_eq!(filter.report().occurrences, taken);
    }
}

/// A filter of two runs, whose merge has written a mebibyte, and of some keys in RAM.
fn with_half_a_merge() -> (Arc<SimDevice>, Store, Filter, u64) {
    let (device, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    for run in 0..2 {
        filter.insert(&keys(&store, run * 300_000..(run + 1) * 300_000)).unwrap();
        filter.flush().unwrap();
    }
    let before = device.used_bytes();
    while device.used_bytes() < before + (1 << 20) {
        assert!(filter.shared().tree.step(false).unwrap());
    }
    // The flushes were work enough for these.
    filter.insert(&keys(&store, 600_000..700_000)).unwrap();
    assert!(filter.shared().tree.has_begun_job());
    (device, store, filter, 700_000)
}

#[test]
fn a_flush_takes_the_room_that_half_a_merge_holds() {
    let (device, store, filter, taken) = with_half_a_merge();
    device.set_capacity_bytes(device.used_bytes() + (128 << 10));
    filter.flush().unwrap();
    assert!(filter.report().stalled.is_some(), "the merge waits");
    all_there(&filter, &store, taken);
    store.commit(b"").unwrap();
    assert!(matches!(filter.settle(), Err(Error::Full { .. })));
    device.set_capacity_bytes(u64::MAX);
    filter.settle().unwrap();
    assert!(filter.report().stalled.is_none());
    all_there(&filter, &store, taken);
}

#[test]
fn a_merge_that_finds_the_disk_full_leaves_no_file_and_is_tried_again() {
    let (device, store, filter, taken) = with_half_a_merge();
    filter.shared().state().memtables += 100;
    let files = || device.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count();
    assert!(files() > 2);
    device.inject(Fault {
        operation: device.changes(),
        on_reads: false,
        kind: FaultKind::Enospc,
        sticky: true,
    });
    assert!(matches!(filter.settle(), Err(Error::Full { .. })));
    assert_eq!(files(), 2);
    all_there(&filter, &store, taken);
    assert!(filter.report().stalled.is_some());
    device.heal();
    filter.settle().unwrap();
    let report = filter.report();
    assert!(report.stalled.is_none() && report.runs.len() == 1, "{report:?}");
    all_there(&filter, &store, taken);
}

#[test]
fn a_commit_that_found_the_disk_full_is_made_up_for_by_the_next() {
    let (device, store) = simulated(0);
    let options = FilterOptions { panes: 1, ..long() };
    let filter = store.filter("f", options).unwrap();
    let fail = || {
        let fault =
            Fault { operation: device.changes(), on_reads: false, kind: FaultKind::Enospc, sticky: true };
        device.inject(fault);
        assert!(matches!(store.commit(b""), Err(Error::Full { .. })));
        device.heal();
    };
    // Nothing is in it but itself.
    fail();
    store.commit(b"").unwrap();
    assert!(store.record("f").is_some());
    filter.insert(&keys(&store, 0..100)).unwrap();
    store.commit(b"").unwrap();
    // The keys are forgotten, and that is all.
    filter.advance().unwrap();
    fail();
    store.commit(b"").unwrap();
    drop((filter, store));
    let store = Store::open_on(device.clone(), store_options(0)).unwrap();
    let filter = store.filter("f", small()).unwrap();
    assert_eq!(filter.report().pane, 1);
    assert_eq!(filter.contains_many(&keys(&store, 0..100)).unwrap(), [false; 100]);
}
