//! Random operations beside the model.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Batch),
    InsertIfAbsent(Batch),
    /// The same, key by key.
    InsertOneByOne(Batch),
    Remove(Batch),
    RemoveIfPresent(Batch),
    Flush,
    Settle,
    Compact,
    Commit,
    Reopen,
    Ask(Batch),
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    seed: u64,
    count: usize,
    range: u64,
}

fn batch() -> impl Strategy<Value = Batch> {
    let range = prop_oneof![Just(3u64), Just(200), Just(4000)];
    (any::<u64>(), prop_oneof![4 => 0usize..300, 1 => Just(3000)], range)
        .prop_map(|(seed, count, range)| Batch { seed, count, range })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => batch().prop_map(Step::Insert),
        3 => batch().prop_map(Step::InsertIfAbsent),
        3 => batch().prop_map(Step::InsertOneByOne),
        2 => batch().prop_map(Step::Remove),
        2 => batch().prop_map(Step::RemoveIfPresent),
        4 => Just(Step::Flush),
        1 => Just(Step::Settle),
        1 => Just(Step::Compact),
        1 => Just(Step::Commit),
        1 => Just(Step::Reopen),
        2 => batch().prop_map(Step::Ask),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (2u32..5, any::<bool>()).prop_map(|(fan_out, is_lazy)| {
        if is_lazy { Policy::LazyLevelled { fan_out } } else { Policy::Tiered { fan_out } }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_a_multiset_of_fingerprints(
        steps in prop::collection::vec(step(), 1..30),
        policy in policy(),
        threads in prop_oneof![3 => Just(0usize), 1 => Just(1)],
    ) {
        run(&steps, FilterOptions { policy, ..small() }, threads);
    }
}

fn run(steps: &[Step], options: FilterOptions, threads: usize) {
    let (device, mut store) = simulated(threads);
    let mut filter = store.filter("f", options).unwrap();
    store.commit(b"").unwrap();
    let mut model = Model::new(&options);
    let mut committed = model.clone();
    for step in steps {
        match *step {
            Step::Insert(batch) => {
                let hashes = hashes(&store, batch);
                filter.insert(&hashes).unwrap();
                hashes.iter().for_each(|&hash| model.insert(hash));
            }
            Step::InsertIfAbsent(batch) => {
                let hashes = hashes(&store, batch);
                let expected: Vec<bool> = hashes.iter().map(|&hash| model.insert_if_absent(hash)).collect();
                assert_eq!(filter.insert_if_absent(&hashes).unwrap(), expected);
            }
            Step::InsertOneByOne(batch) => {
                for hash in hashes(&store, batch) {
                    let is_new = filter.insert_one_if_absent(hash).unwrap();
                    assert_eq!(is_new, model.insert_if_absent(hash));
                }
            }
            Step::Remove(batch) => {
                let there: Vec<KeyHash> =
                    hashes(&store, batch).into_iter().filter(|&hash| model.remove_if_present(hash)).collect();
                filter.remove(&there).unwrap();
            }
            Step::RemoveIfPresent(batch) => {
                let hashes = hashes(&store, batch);
                let expected: Vec<bool> = hashes.iter().map(|&hash| model.remove_if_present(hash)).collect();
                assert_eq!(filter.remove_if_present(&hashes).unwrap(), expected);
            }
            Step::Flush => filter.flush().unwrap(),
            Step::Settle => filter.settle().unwrap(),
            Step::Compact => filter.compact().unwrap(),
            Step::Commit => {
                store.commit(b"").unwrap();
                committed = model.clone();
            }
            Step::Reopen => {
                drop((filter, store));
                store = Store::open_on(device.clone(), store_options(threads)).unwrap();
                filter = store.filter("f", options).unwrap();
                model = committed.clone();
            }
            Step::Ask(batch) => ask(&filter, &model, &hashes(&store, batch)),
        }
    }
    ask(&filter, &model, &keys(&store, 0..4000));
    filter.compact().unwrap();
    ask(&filter, &model, &keys(&store, 0..4000));
    let report = filter.report();
    assert_eq!(report.fingerprints, model.counts.len() as u64);
    assert_eq!(report.occurrences, model.counts.values().sum::<u64>());
    assert_eq!((report.tombstones, report.in_memory), (0, 0));
    store.commit(b"end").unwrap();
    assert!(store.verify().unwrap().damaged.is_empty());
}

fn hashes(store: &Store, batch: Batch) -> Vec<KeyHash> {
    random_keys(store, batch.seed, batch.count, batch.range)
}

fn ask(filter: &Filter, model: &Model, hashes: &[KeyHash]) {
    let counts: Vec<u64> = hashes.iter().map(|&hash| model.count(hash)).collect();
    assert_eq!(filter.count_many(hashes).unwrap(), counts);
    for (&hash, &count) in hashes.iter().zip(&counts).step_by(7) {
        assert_eq!((filter.count(hash).unwrap(), filter.contains(hash).unwrap()), (count, count > 0));
    }
    let there: Vec<bool> = counts.iter().map(|&count| count > 0).collect();
    assert_eq!(filter.contains_many(hashes).unwrap(), there);
}
