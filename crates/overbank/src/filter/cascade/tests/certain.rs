//! "New" is certain: a key that was asked for by `insert_if_absent` is never new again, however the filter grows.

use super::*;
use crate::filter::cascade::Arrivals;
use proptest::prelude::*;
use std::collections::HashSet;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        seed: u64,
        count: usize,
        range: u64,
    },
    /// The same key by key.
    AskSingly {
        seed: u64,
        count: usize,
        range: u64,
    },
    /// The same through [`Arrivals`].
    Arrive {
        seed: u64,
        count: usize,
        range: u64,
    },
    /// Keys that other writers insert beside, so that generations begin in the midst of a batch.
    Beside {
        seed: u64,
        count: usize,
        range: u64,
    },
    /// Another filter of so many keys, which has asked for its own, is added.
    Merge {
        seed: u64,
        count: usize,
        expected: u64,
        rate: f64,
    },
    Flush,
    Compact,
    Commit,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let asked = || (any::<u64>(), prop_oneof![4 => 0usize..400, 1 => Just(6000)], 1u64..20_000);
    prop_oneof![
        6 => asked().prop_map(|(seed, count, range)| Step::Ask { seed, count, range }),
        2 => asked().prop_map(|(seed, count, range)| Step::AskSingly { seed, count, range }),
        2 => asked().prop_map(|(seed, count, range)| Step::Arrive { seed, count, range }),
        2 => asked().prop_map(|(seed, count, range)| Step::Beside { seed, count, range }),
        1 => (any::<u64>(), 0usize..200, 1u64..2000, prop_oneof![Just(0.01), Just(1e-6)])
            .prop_map(|(seed, count, expected, rate)| Step::Merge { seed, count, expected, rate }),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Commit),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn a_key_that_was_asked_for_is_never_new_again(
        steps in prop::collection::vec(step(), 1..25),
        expected in prop_oneof![Just(1u64), 2u64..300],
        threads in prop_oneof![3 => Just(0usize), 1 => Just(1)],
    ) {
        let (device, mut store) = simulated(threads);
        // A high rate, so that many keys are taken for others, and a filter that outgrows its guess at once.
        let options =
            FilterOptions { keys: expected, false_positive_rate: 0.5, memory_bytes: 20 << 20, writers: 2, ..small() };
        let mut filter = store.filter("f", options).unwrap();
        store.commit(b"").unwrap();
        let mut asked: HashSet<KeyHash> = HashSet::new();
        let mut committed = asked.clone();
        for step in &steps {
            match *step {
                Step::Ask { seed, count, range } => {
                    let hashes = random_keys(&store, seed, count, range);
                    let mask = filter.insert_if_absent(&hashes).unwrap();
                    check(&mut asked, &hashes, &mask);
                }
                Step::AskSingly { seed, count, range } => {
                    for hash in random_keys(&store, seed, count, range) {
                        let is_new = filter.insert_one_if_absent(hash).unwrap();
                        check(&mut asked, &[hash], &[is_new]);
                    }
                }
                Step::Arrive { seed, count, range } => {
                    let hashes = random_keys(&store, seed, count, range);
                    let mut arrivals = Arrivals::new(8 << 20).unwrap();
                    assert_eq!(arrivals.push(&hashes), hashes.len());
                    let mask = arrivals.insert_if_absent(&filter).unwrap();
                    check(&mut asked, &hashes, mask);
                }
                Step::Beside { seed, count, range } => {
                    let hashes = random_keys(&store, seed, count, range);
                    let writer = filter.clone();
                    let (front, back) = hashes.split_at(count / 2);
                    let mask = std::thread::scope(|scope| {
                        let other = scope.spawn(|| writer.insert(front).is_ok());
                        let mask = filter.insert_if_absent(back).unwrap();
                        if other.join().unwrap() {
                            // What is inserted beside may be new or not, but is there from now on.
                            asked.extend(front);
                        }
                        mask
                    });
                    let sure: Vec<KeyHash> = back.iter().zip(&mask).filter(|one| !front.contains(one.0) || !*one.1).map(|one| *one.0).collect();
                    let mask: Vec<bool> = back.iter().zip(&mask).filter(|one| !front.contains(one.0) || !*one.1).map(|one| *one.1).collect();
                    check(&mut asked, &sure, &mask);
                    asked.extend(back);
                }
                Step::Merge { seed, count, expected, rate } => {
                    let other_store = Store::in_memory(store_options(0)).unwrap();
                    let other = FilterOptions { keys: expected, false_positive_rate: rate, ..small() };
                    let other = other_store.filter("other", other).unwrap();
                    let hashes = random_keys(&store, seed, count, 5000);
                    other.insert_if_absent(&hashes).unwrap();
                    let merged = filter.merge_from(&other);
                    if merged.is_ok() {
                        asked.extend(&hashes);
                    }
                }
                Step::Flush => filter.flush().unwrap(),
                Step::Compact => filter.compact().unwrap(),
                Step::Commit => {
                    store.commit(b"").unwrap();
                    committed = asked.clone();
                }
                Step::Reopen => {
                    drop((filter, store));
                    store = Store::open_on(device.clone(), store_options(threads)).unwrap();
                    filter = store.filter("f", options).unwrap();
                    asked = committed.clone();
                }
            }
        }
        let all: Vec<KeyHash> = asked.iter().copied().collect();
        prop_assert!(filter.contains_many(&all).unwrap().iter().all(|&there| there));
        prop_assert!(filter.insert_if_absent(&all).unwrap().iter().all(|&is_new| !is_new));
    }
}

/// Adds the keys of a batch, none of which may be new if it was asked for before.
fn check(asked: &mut HashSet<KeyHash>, hashes: &[KeyHash], mask: &[bool]) {
    for (i, (hash, &is_new)) in hashes.iter().zip(mask).enumerate() {
        assert!(
            !is_new || !asked.contains(hash),
            "key {i} of the batch was asked for before, and is new again"
        );
        asked.insert(*hash);
    }
}

#[test]
fn a_batch_longer_than_a_generation_keeps_the_rate() {
    for asked in [3_000u64, 300_000] {
        let (_, store) = simulated(0);
        let options = FilterOptions { keys: 100, false_positive_rate: 0.01, ..small() };
        let filter = store.filter("f", options).unwrap();
        let mask = filter.insert_if_absent(&keys(&store, 0..asked)).unwrap();
        let wrong = mask.iter().filter(|&&is_new| !is_new).count() as u64;
        assert!(
            wrong <= super::growth::most_false(asked, 0.01),
            "{wrong} of {asked} new keys were taken for seen"
        );
    }
}

#[test]
fn longer_fingerprints_that_were_merged_in_are_found_and_removed_alone() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { keys: 1000, ..small() }).unwrap();
    let long =
        store.filter("long", FilterOptions { keys: 1 << 17, false_positive_rate: 1e-6, ..small() }).unwrap();
    let hashes = keys(&store, 0..20_000);
    long.insert(&hashes).unwrap();
    filter.merge_from(&long).unwrap();
    assert!(filter.insert_if_absent(&hashes).unwrap().iter().all(|&is_new| !is_new));
    // The first half goes; the second, some of which begins with the same bits, stays.
    let (gone, left) = hashes.split_at(10_000);
    filter.remove(gone).unwrap();
    assert!(filter.contains_many(left).unwrap().iter().all(|&there| there));
    let wrong = filter.contains_many(gone).unwrap().iter().filter(|&&there| there).count();
    assert_eq!(wrong, 0);
}
