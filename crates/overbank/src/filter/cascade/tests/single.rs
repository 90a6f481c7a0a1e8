//! One key at a time, and keys that are not hashed: the answers are those of batches.

use super::*;
use crate::Error;

/// Fingerprints that no two of the keys share.
fn long() -> FilterOptions {
    FilterOptions { keys: 1 << 30, false_positive_rate: 1e-9, ..small() }
}

#[test]
fn a_stream_that_is_asked_key_by_key_fills_memtables_runs_in_ram_and_flash() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { writers: 2, memory_bytes: 20 << 20, ..long() }).unwrap();
    let mut random = Random(7);
    let (mut new, mut seen) = (0u64, std::collections::HashSet::new());
    for _ in 0..1_500_000 {
        let key = random.below(1 << 21);
        let hash = store.hasher().hash_u64(key);
        let is_new = filter.insert_one_if_absent(hash).unwrap();
        assert_eq!(is_new, seen.insert(key), "key {key}");
        new += u64::from(is_new);
    }
    let report = filter.report();
    assert!(report.memory_bytes <= 20 << 20 && !report.runs.is_empty() && report.in_memory > 0, "{report:?}");
    assert_eq!(report.occurrences, new);
    for key in 0..3_000 {
        assert_eq!(filter.contains(store.hasher().hash_u64(key)).unwrap(), seen.contains(&key));
    }
}

#[test]
fn packed_runs_are_joined_for_single_questions_too() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { memory_bytes: 64 << 20, ..long() }).unwrap();
    let keys_max = 1 << 20;
    for key in 0..keys_max {
        assert!(filter.insert_one_if_absent(store.hasher().hash_u64(key)).unwrap());
    }
    let version = filter.shared().tree.version();
    assert!(version.frozen.len() <= 5 && version.runs.is_empty(), "{} runs in RAM", version.frozen.len());
}

#[test]
fn what_comes_one_by_one_has_cells_and_runs_with_fronts() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { memory_bytes: 20 << 20, ..long() }).unwrap();
    let shared = filter.shared();
    let is_open = || shared.tree.table.shards.is_open();
    let frozen = |has_fronts: bool| {
        let version = shared.tree.version();
        !version.frozen.is_empty() && version.frozen.iter().all(|one| one.entries.has_front() == has_fronts)
    };
    // Who inserts batches pays neither for cells nor for fronts.
    let before = shared.tree.frozen_room(&shared.state());
    filter.insert(&keys(&store, 0..100_000)).unwrap();
    assert!(!is_open() && frozen(false) && shared.tree.frozen_room(&shared.state()) == before);
    for key in 100_000..200_000 {
        assert!(filter.insert_one_if_absent(store.hasher().hash_u64(key)).unwrap());
    }
    assert!(is_open() && frozen(true) && shared.tree.frozen_room(&shared.state()) < before);
    let version = shared.tree.version();
    let counted: usize = version.frozen.iter().map(|one| one.size().memory_bytes).sum();
    assert_eq!(version.frozen_bytes, counted);
    for key in (0..200_000).step_by(3) {
        assert!(!filter.insert_one_if_absent(store.hasher().hash_u64(key)).unwrap(), "key {key}");
    }
    assert_eq!(filter.count_many(&keys(&store, 0..300_000)).unwrap().iter().sum::<u64>(), 200_000);
}

#[test]
fn runs_that_went_to_flash_are_kept_in_ram_by_nobody() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let frozen = || -> Vec<std::sync::Weak<crate::filter::run::PackedRun>> {
        let version = filter.shared().tree.version();
        version.frozen.iter().map(|one| Arc::downgrade(&one.entries)).collect()
    };
    for key in 0..60_000 {
        filter.insert_one_if_absent(store.hasher().hash_u64(key)).unwrap();
    }
    let before = frozen();
    assert!(!before.is_empty() && before.iter().all(|one| one.strong_count() > 0));
    filter.flush().unwrap();
    assert!(before.iter().all(|one| one.strong_count() == 0));
}

#[test]
fn a_window_forgets_what_came_one_by_one() {
    let (_, store) = simulated(0);
    let window = store.filter("w", FilterOptions { panes: 2, ..long() }).unwrap();
    for pane in 0..3u64 {
        let hashes = keys(&store, pane * 60_000..(pane + 1) * 60_000);
        hashes.iter().for_each(|&hash| assert!(window.insert_one_if_absent(hash).unwrap()));
        assert!(!window.insert_one_if_absent(hashes[7]).unwrap() && window.contains(hashes[8]).unwrap());
        window.advance().unwrap();
        assert!(window.contains(hashes[9]).unwrap());
        window.advance().unwrap();
        assert!(!window.contains(hashes[9]).unwrap() && window.report().in_memory == 0);
    }
}

#[test]
fn of_threads_that_ask_key_by_key_one_is_told_that_it_is_new() {
    const KEYS: u64 = 120_000;
    let store = Store::in_memory(store_options(1)).unwrap();
    let filter = store.filter("f", long()).unwrap();
    let told = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (filter, hasher, told) = (filter.clone(), store.hasher(), &told);
            scope.spawn(move || {
                // All in one order, so that they meet, also where cells are full and packed.
                for key in 0..KEYS {
                    let is_new = filter.insert_one_if_absent(hasher.hash_u64(key)).unwrap();
                    told.fetch_add(is_new.into(), std::sync::atomic::Ordering::Relaxed);
                    assert!(filter.contains(hasher.hash_u64(key)).unwrap());
                    if thread == 0 && key % 50_000 == 7 {
                        filter.flush().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!((told.into_inner(), filter.report().occurrences), (KEYS, KEYS));
}

#[test]
fn removals_are_seen_wherever_the_insertions_are() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let [hash] = keys(&store, [7])[..] else { panic!("one key") };
    // In a memtable, in a packed run, on flash, each taken out of the next memtable.
    for place in 0..3 {
        assert!(filter.insert_one_if_absent(hash).unwrap() && !filter.insert_one_if_absent(hash).unwrap());
        match place {
            0 => {}
            1 => filter.shared().freeze_all().unwrap(),
            _ => filter.flush().unwrap(),
        }
        assert!(filter.contains(hash).unwrap());
        filter.remove(&[hash]).unwrap();
        assert_eq!((filter.contains(hash).unwrap(), filter.count(hash).unwrap()), (false, 0));
    }
}

#[test]
fn keys_are_hashed_as_the_store_hashes_them() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let words = ["one", "two", "three", "two"];
    let hashes = words.map(|word| store.hasher().hash(word.as_bytes()));
    assert_eq!(filter.insert_keys_if_absent(&words).unwrap(), [true, true, true, false]);
    assert_eq!(filter.contains_many(&hashes).unwrap(), [true; 4]);
    filter.insert_keys(&[b"two".to_vec()]).unwrap();
    assert_eq!(filter.count_many(&hashes).unwrap(), [1, 2, 1, 2]);
    filter.remove_keys(&["one"]).unwrap();
    assert_eq!(filter.contains_keys(&words).unwrap(), [false, true, true, true]);
    assert_eq!(
        filter.remove_keys_if_present(&["one", "two", "two", "two"]).unwrap(),
        [false, true, true, false]
    );
    let maplet = store.maplet("m", small_maplet(3)).unwrap();
    maplet.insert_keys(&words, &[1, 2, 3, 4]).unwrap();
    assert_eq!(maplet.values_of_keys(&words[..2]).unwrap(), [vec![(1, 1)], vec![(2, 1), (4, 1)]]);
}

#[test]
fn answers_have_the_length_of_the_questions() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let hashes = keys(&store, 0..3);
    let mut answers = [true; 3];
    filter.insert_if_absent_into(&hashes[..2], &mut answers[..2]).unwrap();
    filter.insert_if_absent_into(&hashes, &mut answers).unwrap();
    assert_eq!(answers, [false, false, true]);
    filter.remove_if_present_into(&hashes[..1], &mut answers[..1]).unwrap();
    filter.contains_many_into(&hashes, &mut answers).unwrap();
    assert_eq!(answers, [false, true, true]);
    let refused = |result: crate::Result<()>| {
        assert!(matches!(result, Err(Error::InvalidOption { name: "answers", .. })), "{result:?}");
    };
    refused(filter.insert_if_absent_into(&hashes, &mut answers[..2]));
    refused(filter.remove_if_present_into(&hashes[..2], &mut answers));
    refused(filter.contains_many_into(&hashes, &mut []));
    refused(filter.count_many_into(&[], &mut [0]));
}
