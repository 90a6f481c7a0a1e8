//! Writers and readers side by side.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn writers_and_readers_side_by_side_lose_nothing() {
    let store = Store::in_memory(store_options(2)).unwrap();
    let options = FilterOptions {
        writers: 3,
        memory_bytes: 24 << 20,
        keys: 1 << 30,
        false_positive_rate: 1e-6,
        ..small()
    };
    let filter = store.filter("f", options).unwrap();
    const EACH: u64 = 3_000_000;
    let hasher = store.hasher();
    let reader = filter.clone();
    let writers = [filter.clone(), filter.clone()];
    let done = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (number, writer) in writers.iter().enumerate() {
            scope.spawn(move || {
                for from in (0..EACH).step_by(50_000) {
                    let base = number as u64 * EACH;
                    let hashes: Vec<KeyHash> =
                        (from..from + 50_000).map(|i| hasher.hash_u64(base + i)).collect();
                    writer.insert(&hashes).unwrap();
                    // Every second key goes again.
                    let removed: Vec<KeyHash> = hashes.iter().step_by(2).copied().collect();
                    writer.remove(&removed).unwrap();
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let mut from = 0;
            while done.load(Ordering::Relaxed) < 2 {
                let hashes: Vec<KeyHash> =
                    (from..from + 2_000).map(|i| hasher.hash_u64((1 << 40) + i)).collect();
                filter.insert(&hashes).unwrap();
                // What this thread inserted is seen by it at once, whatever merges do.
                assert!(reader.count_many(&hashes).unwrap().iter().all(|&count| count > 0));
                from += 2_000;
                store.commit(b"").unwrap();
            }
        });
    });
    store.commit(b"").unwrap();
    let sample: Vec<u64> = (0..2 * EACH).step_by(97).collect();
    let counts = reader.count_many(&keys(&store, sample.iter().copied())).unwrap();
    let wrong = sample.iter().zip(&counts).filter(|&(i, &count)| count != u64::from(i % 2 == 1)).count();
    assert_eq!(wrong, 0, "of {}", sample.len());
    filter.compact().unwrap();
    let report = filter.report();
    assert_eq!(report.tombstones, 0, "{report:?}");
    store.commit(b"").unwrap();
    assert!(store.verify().unwrap().damaged.is_empty());
}

#[test]
fn without_threads_a_large_batch_is_asked_by_one() {
    let answers = |granted: Option<usize>| {
        let store = Store::in_memory(store_options(2)).unwrap();
        let filter = store.filter("f", FilterOptions { memory_bytes: 64 << 20, ..small() }).unwrap();
        let known = random_keys(&store, 1, 30_000, 1 << 40);
        filter.insert(&known).unwrap();
        let asked: Vec<KeyHash> =
            known.iter().copied().chain(random_keys(&store, 2, 30_000, 1 << 40)).collect();
        let ask = || filter.insert_if_absent(&asked).unwrap();
        granted.map_or_else(ask, |granted| crate::device::thread::refusal::after(granted, ask))
    };
    assert_eq!(answers(Some(0)), answers(None));
}

#[test]
fn of_several_threads_that_ask_for_a_key_one_is_told_that_it_is_new() {
    // On flash too, and in more than one generation.
    for (flushed, keys_expected) in [(false, 1 << 30), (true, 1 << 30), (true, 3_000)] {
        let store = Store::in_memory(store_options(1)).unwrap();
        let options = FilterOptions {
            writers: 3,
            memory_bytes: 24 << 20,
            keys: keys_expected,
            false_positive_rate: 1e-9,
            ..small()
        };
        let filter = store.filter("f", options).unwrap();
        const KEYS: u64 = 20_000;
        let told: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (filter, hasher, told) = (filter.clone(), store.hasher(), &told);
                scope.spawn(move || {
                    // All in one order, so that they meet; two of them a key at a time.
                    for from in (0..KEYS).step_by(50) {
                        let hashes: Vec<KeyHash> =
                            (from..from + 50).map(|key| hasher.hash_u64(key)).collect();
                        let is_new = match thread % 2 {
                            0 => hashes
                                .iter()
                                .map(|&hash| filter.insert_one_if_absent(hash).unwrap())
                                .collect(),
                            _ => filter.insert_if_absent(&hashes).unwrap(),
                        };
                        for (key, _) in (from..).zip(is_new).filter(|one| one.1) {
                            told[key as usize].fetch_add(1, Ordering::Relaxed);
                        }
                        if flushed && from % 5_000 == 0 {
                            filter.flush().unwrap();
                        }
                    }
                });
            }
        });
        let wrong = told.iter().filter(|told| told.load(Ordering::Relaxed) != 1).count();
        assert_eq!(wrong, 0, "of {KEYS} keys were told to none or to several");
        assert_eq!(filter.report().occurrences, KEYS);
    }
}

#[test]
fn of_several_threads_that_remove_a_key_as_many_are_told_as_it_was_in() {
    let store = Store::in_memory(store_options(1)).unwrap();
    let options = FilterOptions {
        writers: 2,
        memory_bytes: 20 << 20,
        keys: 1 << 30,
        false_positive_rate: 1e-9,
        ..small()
    };
    let filter = store.filter("f", options).unwrap();
    let hashes = keys(&store, 0..5_000);
    for _ in 0..2 {
        filter.insert(&hashes).unwrap();
    }
    let told = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for hashes in hashes.chunks(50) {
                    let found = filter.remove_if_present(hashes).unwrap();
                    told.fetch_add(found.iter().filter(|&&found| found).count(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(told.into_inner(), 2 * hashes.len());
    assert_eq!(filter.count_many(&hashes).unwrap(), vec![0; hashes.len()]);
}

#[test]
fn handles_go_from_thread_to_thread() {
    fn is_handle<T: Clone + Send + Sync + 'static>() {}
    is_handle::<Filter>();
    is_handle::<crate::filter::cascade::Maplet>();
}
