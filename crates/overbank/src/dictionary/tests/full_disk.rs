//! Disks that are full for a while: every item that was taken is there, loads and merges go on when there is room.

use super::*;
use crate::Error;
use crate::device::Device;
use crate::device::sim::{Fault, FaultKind};
use crate::dictionary::Duplicates;

/// Items of a call.
const BATCH: u64 = 100;

#[test]
fn a_full_disk_refuses_items_only_while_it_is_full() {
    for threads in [0, 2] {
        let (device, store) = simulated(threads);
        let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
        device.set_capacity_bytes(1 << 20);
        let mut taken = 0;
        let full = loop {
            let (keys, values) = pairs(taken..taken + BATCH, 1, false);
            match dictionary.insert_many(&keys, &values) {
                Ok(()) => taken += BATCH,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full}");
        // How many depends on the merges that were under way.
        assert!(taken >= 1_000, "{taken} items");
        assert!(all_there(&dictionary, 0..taken, 1, false));
        let (refused, _) = pairs(taken..taken + BATCH, 1, false);
        assert_eq!(dictionary.contains_many(&refused).unwrap(), [false; BATCH as usize]);
        assert!(matches!(store.commit(b""), Err(Error::Full { .. })));
        assert!(matches!(dictionary.flush(), Err(Error::Full { .. })));
        assert_eq!(scanned(&dictionary).len() as u64, taken);

        device.set_capacity_bytes(u64::MAX);
        let (keys, values) = pairs(taken..taken + BATCH, 1, false);
        dictionary.insert_many(&keys, &values).unwrap();
        taken += BATCH;
        dictionary.flush().unwrap();
        dictionary.settle().unwrap();
        let report = dictionary.report();
        // Three of each of two lengths, beside the oldest: four would be merged.
        assert!(report.stalled.is_none() && report.runs.len() <= 7, "{report:?}");
        assert!(all_there(&dictionary, 0..taken, 1, false));
        store.commit(b"").unwrap();
        drop((dictionary, store));
        let store = Store::open_on(device.clone(), store_options(threads)).unwrap();
        let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
        assert!(all_there(&dictionary, 0..taken, 1, false));
        assert_eq!(scanned(&dictionary).len() as u64, taken);
        dictionary.verify().unwrap();
    }
}

#[test]
fn a_load_that_finds_the_disk_full_goes_on_when_there_is_room() {
    for threads in [0, 1] {
        let (device, store) = simulated(threads);
        let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
        let (keys, values) = pairs(0..1_000, 1, false);
        dictionary.insert_many(&keys, &values).unwrap();
        store.commit(b"before").unwrap();
        device.set_capacity_bytes(device.used_bytes() + (1 << 20));
        let mut load = dictionary.load(Duplicates::Last).unwrap();
        let (mut taken, mut times_full) = (500, 0);
        while taken < 12_000 {
            let (keys, values) = pairs(taken..taken + BATCH, 2, false);
            match load.insert_many(&keys, &values) {
                Ok(()) => taken += BATCH,
                Err(Error::Full { .. }) => {
                    times_full += 1;
                    assert!(all_there(&dictionary, 0..500, 1, false));
                    assert!(all_there(&dictionary, 500..taken, 2, false));
                    // What was committed is whole, whatever the load does.
                    let image = Arc::new(device.fork());
                    let store = Store::open_on(image, store_options(0)).unwrap();
                    let then = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
                    assert_eq!(store.position(), b"before");
                    assert!(scanned(&then).len() == 1_000 && all_there(&then, 0..1_000, 1, false));
                    // Little at a time.
                    device.set_capacity_bytes(device.used_bytes() + (600 << 10));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(times_full >= 2, "full {times_full} times");
        // The merge of all finds it full too; nothing is lost, and it is made up for.
        device.set_capacity_bytes(device.used_bytes() + (64 << 10));
        let finished = load.finish();
        assert!(matches!(finished, Err(Error::Full { .. })), "{finished:?}");
        assert!(all_there(&dictionary, 500..taken, 2, false));
        device.set_capacity_bytes(u64::MAX);
        dictionary.compact().unwrap();
        assert_eq!(dictionary.report().runs.len(), 1);
        assert!(all_there(&dictionary, 0..500, 1, false) && all_there(&dictionary, 500..taken, 2, false));
        dictionary.verify().unwrap();
        store.commit(b"after").unwrap();
        assert!(store.verify().unwrap().is_whole());
    }
}

/// A dictionary of two runs, whose merge is under way, and of some items in RAM.
fn with_half_a_merge() -> (Arc<SimDevice>, Store, Dictionary, u64) {
    let (device, store) = simulated(0);
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    for numbers in [0..1_000, 1_000..1_900] {
        let (keys, values) = pairs(numbers, 1, false);
        dictionary.insert_many(&keys, &values).unwrap();
        dictionary.compact().unwrap();
    }
    let (keys, values) = pairs(1_900..3_500, 1, false);
    // A load's runs are merged when it is over.
    let mut load = dictionary.load(Duplicates::Last).unwrap();
    load.insert_many(&keys, &values).unwrap();
    dictionary.flush().unwrap();
    drop(load);
    let tree = &dictionary.shared().tree;
    tree.schedule(&mut tree.state());
    let before = device.used_bytes();
    while device.used_bytes() < before + (32 << 10) {
        assert!(tree.step(false).unwrap());
    }
    assert!(tree.has_begun_job());
    (device, store, dictionary, 3_500)
}

#[test]
fn a_flush_takes_the_room_that_half_a_merge_holds() {
    let (device, store, dictionary, mut taken) = with_half_a_merge();
    // Less than a memtable, so that nothing goes to flash with it.
    let (keys, values) = pairs(taken..taken + 20, 1, false);
    device.set_capacity_bytes(device.used_bytes() + (8 << 10));
    dictionary.insert_many(&keys, &values).unwrap();
    taken += 20;
    dictionary.flush().unwrap();
    assert!(all_there(&dictionary, 0..taken, 1, false));
    store.commit(b"").unwrap();
    assert!(matches!(dictionary.compact(), Err(Error::Full { .. })));
    assert!(dictionary.report().stalled.is_some(), "the merge waits");
    device.set_capacity_bytes(u64::MAX);
    dictionary.settle().unwrap();
    assert!(dictionary.report().stalled.is_none());
    assert!(all_there(&dictionary, 0..taken, 1, false));
}

#[test]
fn a_merge_that_finds_the_disk_full_leaves_no_file_and_is_tried_again() {
    let (device, store, dictionary, taken) = with_half_a_merge();
    dictionary.shared().state().memtables += 100;
    let named = || {
        let version = dictionary.shared().tree.version();
        let pieces = version.runs.iter().flat_map(|run| &run.pieces);
        pieces.map(|piece| piece.file_ref().id).collect::<std::collections::BTreeSet<_>>().len()
    };
    let files = || device.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count();
    assert!(files() > named());
    let operation = device.changes();
    device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: true });
    assert!(matches!(dictionary.settle(), Err(Error::Full { .. })));
    assert_eq!(files(), named());
    assert!(all_there(&dictionary, 0..taken, 1, false));
    assert!(dictionary.report().stalled.is_some());
    device.heal();
    dictionary.compact().unwrap();
    let report = dictionary.report();
    assert!(report.stalled.is_none() && report.runs.len() == 1, "{report:?}");
    assert!(all_there(&dictionary, 0..taken, 1, false));
    store.commit(b"").unwrap();
}

#[test]
fn a_commit_that_found_the_disk_full_is_made_up_for_by_the_next() {
    let (device, store) = simulated(0);
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    let fail = || {
        let operation = device.changes();
        device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: true });
        assert!(matches!(store.commit(b""), Err(Error::Full { .. })));
        device.heal();
    };
    // Nothing is in it but itself.
    fail();
    store.commit(b"").unwrap();
    assert!(store.record("d").is_some());
    let (keys, values) = pairs(0..100, 1, false);
    dictionary.insert_many(&keys, &values).unwrap();
    fail();
    store.commit(b"").unwrap();
    // Deletions alone.
    dictionary.remove_many(&keys[50..]).unwrap();
    fail();
    store.commit(b"").unwrap();
    drop((dictionary, store));
    let store = Store::open_on(device.clone(), store_options(0)).unwrap();
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    assert!(scanned(&dictionary).len() == 50 && all_there(&dictionary, 0..50, 1, false));
}
