//! Writers, readers, scanners, commits and compactions side by side.

use super::*;
use crate::dictionary::Snapshot;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys of a thread.
const OWN: u64 = 400;

/// The `at`-th key of a thread.
fn own_key(thread: u64, at: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&at.to_le_bytes());
    key[8..].copy_from_slice(&thread.to_le_bytes());
    key
}

/// A thread that writes, removes and asks its own keys, and knows them.
fn work(dictionary: &Dictionary, thread: u64, rounds: u64) -> Model {
    let (mut random, mut model) = (Random(thread), Model::new());
    for round in 0..rounds {
        let keys: Vec<[u8; 16]> = (0..60).map(|_| own_key(thread, random.below(OWN))).collect();
        match random.below(6) {
            0 => {
                dictionary.remove_many(&keys).unwrap();
                keys.iter().for_each(|key| drop(model.remove(&key[..])));
            }
            1 => {
                let expected: Vec<Option<Vec<u8>>> =
                    keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
                assert_eq!(dictionary.get_many(&keys).unwrap(), expected);
                assert_eq!(dictionary.get(&keys[0]).unwrap(), expected[0]);
            }
            2 if round % 5 == 0 => {
                let snapshot = dictionary.snapshot().unwrap();
                let expected: Vec<Option<Vec<u8>>> =
                    keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
                dictionary.insert_many(&keys, &vec![b"later"; keys.len()]).unwrap();
                assert_eq!(snapshot.get_many(&keys).unwrap(), expected);
                assert_eq!(of_thread(&snapshot, thread), model);
                model.extend(keys.iter().map(|key| (key.to_vec(), b"later".to_vec())));
            }
            3 if round % 16 == 0 => dictionary.flush().unwrap(),
            _ => {
                let values: Vec<Vec<u8>> = keys
                    .iter()
                    .map(|_| random.next().to_le_bytes().repeat(random.below(20) as usize))
                    .collect();
                dictionary.insert_many(&keys, &values).unwrap();
                model.extend(keys.iter().map(|key| key.to_vec()).zip(values));
            }
        }
    }
    model
}

/// What a snapshot has of a thread's keys.
fn of_thread(snapshot: &Snapshot, thread: u64) -> Model {
    let all = snapshot.scan(0..=u64::MAX).unwrap().map(crate::Result::unwrap);
    all.filter(|(key, _)| key[8..] == thread.to_le_bytes()).collect()
}

#[test]
fn threads_side_by_side_each_find_what_they_wrote() {
    for threads in [1, 2, 8, 16] {
        for workers in [0, 2] {
            let (device, store) = simulated(workers);
            let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
            let is_over = &AtomicBool::new(false);
            let rounds = 480 / threads;
            let models = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..threads)
                    .map(|thread| {
                        let dictionary = dictionary.clone();
                        scope.spawn(move || work(&dictionary, thread, rounds))
                    })
                    .collect();
                let (store, beside) = (&store, &dictionary);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        store.commit(b"").unwrap();
                        beside.settle().unwrap();
                    }
                });
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        beside.compact().unwrap();
                        // In hash order, each key once.
                        let (mut scan, mut last) = (beside.scan().unwrap(), None);
                        while let Some(record) = scan.next_record().unwrap() {
                            let this = (record.hash, record.key.to_vec());
                            assert!(last.is_none_or(|last| last < this));
                            last = Some(this);
                        }
                    }
                });
                // Whatever ends the writers, the others are not to go on for ever.
                let models: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
                is_over.store(true, Ordering::Relaxed);
                models
            });
            let expected: Model = models.into_iter().flat_map(Result::unwrap).collect();
            assert!(scanned(&dictionary) == expected, "{threads} threads, {workers} workers");
            store.commit(b"end").unwrap();
            dictionary.verify().unwrap();
            drop((dictionary, store));
            let store = Store::open_on(device, store_options(workers)).unwrap();
            let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
            assert!(scanned(&dictionary) == expected, "{threads} threads, {workers} workers, reopened");
            assert!(store.verify().unwrap().is_whole());
        }
    }
}

/// A thread writes all its keys again and again, one after the other; any snapshot has the newest round up to a key, and the one before
/// of the rest.
#[test]
fn a_snapshot_is_of_one_moment_and_stays() {
    const KEYS: u64 = 120;
    const ROUNDS: u64 = 40;
    for workers in [0, 1] {
        let (_, store) = simulated(workers);
        let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|thread| {
                    let dictionary = dictionary.clone();
                    scope.spawn(move || {
                        for round in 1..=ROUNDS {
                            for at in 0..KEYS {
                                dictionary.insert(&own_key(thread, at), &round.to_le_bytes()).unwrap();
                            }
                        }
                    })
                })
                .collect();
            let reader = dictionary.clone();
            let reading = scope.spawn(move || {
                let mut seen = 0;
                loop {
                    let is_last = is_over.load(Ordering::Relaxed);
                    let snapshot = reader.snapshot().unwrap();
                    let before: Vec<Vec<u64>> = (0..3).map(|thread| rounds_of(&snapshot, thread)).collect();
                    for rounds in &before {
                        let newest = rounds[0];
                        let is_prefix = rounds.is_sorted_by(|a, b| a >= b)
                            && rounds.iter().all(|&round| round + 1 >= newest);
                        assert!(is_prefix, "{rounds:?}");
                    }
                    let all: Model =
                        snapshot.scan(0..=u64::MAX).unwrap().map(crate::Result::unwrap).collect();
                    for (thread, rounds) in (0..3).zip(&before) {
                        let of_scan = |at: usize| {
                            all.get(&own_key(thread, at as u64)[..]).map_or(0, |value| round(value))
                        };
                        assert!(rounds.iter().enumerate().all(|(at, &round)| of_scan(at) == round));
                    }
                    let after: Vec<Vec<u64>> = (0..3).map(|thread| rounds_of(&snapshot, thread)).collect();
                    assert_eq!(after, before);
                    seen += 1;
                    if is_last {
                        return seen;
                    }
                }
            });
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(reading.join().unwrap() > 1);
            written.into_iter().for_each(Result::unwrap);
        });
        let rounds = rounds_of(&dictionary.snapshot().unwrap(), 1);
        assert_eq!(rounds, [ROUNDS; KEYS as usize]);

        fn round(value: &[u8]) -> u64 {
            u64::from_le_bytes(value.try_into().unwrap())
        }

        fn rounds_of(snapshot: &Snapshot, thread: u64) -> Vec<u64> {
            let keys: Vec<[u8; 16]> = (0..KEYS).map(|at| own_key(thread, at)).collect();
            let found = snapshot.get_many(&keys).unwrap();
            found.iter().map(|value| value.as_ref().map_or(0, |value| round(value))).collect()
        }
    }
}

#[test]
fn handles_go_from_thread_to_thread() {
    fn is_handle<T: Clone + Send + Sync + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    fn is_movable<T: Send + 'static>() {}
    is_handle::<Dictionary>();
    is_shared::<Snapshot>();
    is_movable::<crate::dictionary::Records>();
    is_shared::<crate::dictionary::Load>();
}
