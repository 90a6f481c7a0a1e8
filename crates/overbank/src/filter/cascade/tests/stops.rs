//! Nobody waits for ever, and nobody for long: merges that panic or fail, stores that close, many writers, long merges.

use super::*;
use crate::Error;
use crate::device::Device;
use crate::device::sim::planted::{Instead, WithoutDataSync};
use crate::device::sim::{Fault, FaultKind};
use std::sync::{Mutex, OnceLock};

#[test]
fn a_merge_that_panics_leaves_nobody_waiting() {
    for threads in [1, 2] {
        let instead = Instead::new(|| panic!("a planted panic"));
        let device = Arc::new(WithoutDataSync(SimDevice::new(1), instead));
        let store = Store::create_on(device, store_options(threads)).unwrap();
        let filter = store.filter("f", small()).unwrap();
        filter.insert(&keys(&store, 0..100)).unwrap();
        let reader = filter.clone();
        let flushed = std::thread::scope(|scope| scope.spawn(|| filter.flush()).join());
        assert!(!matches!(flushed, Ok(Ok(()))));
        assert!(matches!(store.commit(b""), Err(Error::Poisoned { .. })));
        assert_eq!(reader.contains_many(&keys(&store, 0..100)).unwrap(), [true; 100]);
    }
}

#[test]
fn a_failing_disk_and_a_store_that_closes_stop_writers_with_an_error() {
    for closes in [false, true] {
        let (device, store) = simulated(1);
        let options = FilterOptions { keys: 1 << 30, false_positive_rate: 1e-6, writers: 2, ..small() };
        let options = FilterOptions { memory_bytes: 24 << 20, ..options };
        let filter = store.filter("f", options).unwrap();
        let writer = filter.clone();
        let hasher = store.hasher();
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                for from in (0..20_000_000u64).step_by(4096) {
                    let hashes: Vec<KeyHash> = (from..from + 4096).map(|i| hasher.hash_u64(i)).collect();
                    writer.insert(&hashes)?;
                }
                crate::Result::Ok(())
            });
            while filter.report().runs.len() < 2 {
                std::thread::yield_now();
            }
            if closes {
                drop(store);
            } else {
                let operation = device.changes() + 2;
                device.inject(Fault { operation, on_reads: false, kind: FaultKind::Eio, sticky: true });
            }
            let error = writing.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Io { .. } | Error::Poisoned { .. }), "{error}");
        });
    }
}

#[test]
fn a_read_that_fails_ends_its_merge_and_nothing_else() {
    let (device, store) = simulated(0);
    let options = FilterOptions { policy: Policy::Tiered { fan_out: 16 }, ..small() };
    let filter = store.filter("f", options).unwrap();
    let probes = keys(&store, 0..60);
    let (mut failed, mut number) = (0, 0);
    loop {
        for _ in 0..2 {
            filter.insert(&probes).unwrap();
            filter.flush().unwrap();
        }
        let expected = filter.count_many(&probes).unwrap();
        let runs = filter.report().runs;
        let (files, operation) = (device.list().unwrap(), device.reads() + number);
        device.inject(Fault { operation, on_reads: true, kind: FaultKind::Eio, sticky: false });
        let compacted = filter.compact();
        device.heal();
        let is_over = compacted.is_ok();
        if let Err(error) = compacted {
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert_eq!((filter.report().runs, device.list().unwrap()), (runs, files));
            filter.compact().unwrap();
            (failed, number) = (failed + 1, number + 1);
        }
        assert_eq!(filter.count_many(&probes).unwrap(), expected);
        assert_eq!(filter.report().runs.len(), 1);
        store.commit(b"").unwrap();
        if is_over {
            break;
        }
    }
    assert!(failed >= 4, "{failed} reads failed");
}

#[test]
fn what_another_writer_adds_during_a_commit_is_in_the_next() {
    let writer = Arc::new(OnceLock::<Mutex<(Filter, Vec<KeyHash>)>>::new());
    let adds = Arc::clone(&writer);
    let instead = Instead::new(move || {
        if let Some(writer) = adds.get() {
            let mut writer = writer.lock().unwrap();
            let hashes = std::mem::take(&mut writer.1);
            writer.0.insert(&hashes).unwrap();
        }
    });
    let device = SimDevice::new(1);
    let store =
        Store::create_on(Arc::new(WithoutDataSync(device.clone(), instead)), store_options(0)).unwrap();
    let options = FilterOptions { writers: 2, memory_bytes: 24 << 20, ..small() };
    let filter = store.filter("f", options).unwrap();
    filter.insert(&keys(&store, 0..10_000)).unwrap();
    let late = keys(&store, 1 << 40..(1 << 40) + 10);
    let second = filter.clone();
    assert!(writer.set(Mutex::new((second, late.clone()))).is_ok());
    store.commit(b"").unwrap();
    store.commit(b"").unwrap();
    drop((filter, store));
    let store = Store::open_on(Arc::new(device), store_options(0)).unwrap();
    let filter = store.filter("f", small()).unwrap();
    assert_eq!(filter.contains_many(&late).unwrap(), [true; 10]);
}

#[test]
fn many_writers_whose_logs_outgrow_their_share_insert_all_the_same() {
    let options = FilterOptions {
        writers: 64,
        memory_bytes: 176 << 20,
        keys: 1 << 30,
        false_positive_rate: 1e-9,
        ..small()
    };
    let store = Store::in_memory(store_options(0).memory_bytes(256 << 20)).unwrap();
    let filter = store.filter("f", options).unwrap();
    assert!(64 * options.packed_memtable_bytes() > filter.shared().tree.limits.frozen_bytes);
    filter.insert(&keys(&store, 0..200_000)).unwrap();
    assert!(filter.contains_many(&keys(&store, 0..200_000)).unwrap().iter().all(|&there| there));
}

/// The most blocks that one insert may read and write: two steps, each with what the sources read at once and a piece that is
/// written, and the end of a merge.
const BLOCKS_AN_INSERT: u64 = 2 * (48 + 4 * 64 + 256) + 256;

#[test]
fn no_insert_does_more_than_its_share_of_the_longest_merge() {
    let (device, store) = simulated(0);
    let options = FilterOptions {
        keys: 1 << 30,
        false_positive_rate: 1e-6,
        policy: Policy::Tiered { fan_out: 4 },
        ..small()
    };
    let filter = store.filter("f", options).unwrap();
    let blocks = || device.io_counts().blocks_read + device.io_counts().blocks_written;
    let (mut most, mut longest) = (0, 0);
    for from in (0..10_000_000).step_by(4096) {
        let hashes = keys(&store, from..from + 4096);
        let before = blocks();
        filter.insert(&hashes).unwrap();
        most = most.max(blocks() - before);
        assert!(filter.report().memory_bytes <= options.memory_bytes, "after {from} keys");
        longest = longest.max(filter.shared().tree.longest_job());
    }
    println!("{most} blocks at most, a merge of {longest} keys");
    // A block has less than 1,200 of these keys; each is read and written.
    assert!(2 * longest / 1_200 > 5 * BLOCKS_AN_INSERT, "{longest} keys are no long merge");
    assert!(most <= BLOCKS_AN_INSERT, "{most} blocks");
}
