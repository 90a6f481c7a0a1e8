//! Writers and readers side by side.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn writers_and_readers_side_by_side_lose_nothing() {
    let store = Store::in_memory(store_options(2)).unwrap();
    let options = CascadeOptions {
        writers: 3,
        memory_bytes: 24 << 20,
        keys: 1 << 30,
        false_positive_rate: 1e-6,
        ..small()
    };
    let filter = store.cascade("f", options).unwrap();
    const EACH: u64 = 3_000_000;
    let hasher = store.hasher();
    let reader = held(&filter).reader();
    let mut writers: Vec<_> = (0..2).map(|_| held(&filter).writer().unwrap()).collect();
    assert!(held(&filter).writer().is_err());
    let done = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (number, writer) in writers.iter_mut().enumerate() {
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
                held(&filter).insert(&hashes).unwrap();
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
    held(&filter).compact().unwrap();
    let report = held(&filter).report();
    assert_eq!(report.tombstones, 0, "{report:?}");
    store.commit(b"").unwrap();
    assert!(store.verify().unwrap().damaged.is_empty());
}

#[test]
fn without_threads_a_large_batch_is_asked_by_one() {
    let answers = |granted: Option<usize>| {
        let store = Store::in_memory(store_options(2)).unwrap();
        let filter = store.cascade("f", CascadeOptions { memory_bytes: 64 << 20, ..small() }).unwrap();
        let known = random_keys(&store, 1, 30_000, 1 << 40);
        held(&filter).insert(&known).unwrap();
        let asked: Vec<KeyHash> =
            known.iter().copied().chain(random_keys(&store, 2, 30_000, 1 << 40)).collect();
        let ask = || held(&filter).insert_if_absent(&asked).unwrap();
        granted.map_or_else(ask, |granted| crate::device::thread::refusal::after(granted, ask))
    };
    assert_eq!(answers(Some(0)), answers(None));
}
