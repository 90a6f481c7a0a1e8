//! Random operations beside the model.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Batch),
    InsertIfAbsent(Batch),
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
        run(&steps, CascadeOptions { policy, ..small() }, threads);
    }
}

fn run(steps: &[Step], options: CascadeOptions, threads: usize) {
    let (device, mut store) = simulated(threads);
    let mut filter = store.cascade("f", options).unwrap();
    store.commit(b"").unwrap();
    let mut model = Model::new(&options);
    let mut committed = model.clone();
    for step in steps {
        match *step {
            Step::Insert(batch) => {
                let hashes = hashes(&store, batch);
                held(&filter).insert(&hashes).unwrap();
                hashes.iter().for_each(|&hash| model.insert(hash));
            }
            Step::InsertIfAbsent(batch) => {
                let hashes = hashes(&store, batch);
                let expected: Vec<bool> = hashes.iter().map(|&hash| model.insert_if_absent(hash)).collect();
                assert_eq!(held(&filter).insert_if_absent(&hashes).unwrap(), expected);
            }
            Step::Remove(batch) => {
                let there: Vec<KeyHash> =
                    hashes(&store, batch).into_iter().filter(|&hash| model.remove_if_present(hash)).collect();
                held(&filter).remove(&there).unwrap();
            }
            Step::RemoveIfPresent(batch) => {
                let hashes = hashes(&store, batch);
                let expected: Vec<bool> = hashes.iter().map(|&hash| model.remove_if_present(hash)).collect();
                assert_eq!(held(&filter).remove_if_present(&hashes).unwrap(), expected);
            }
            Step::Flush => held(&filter).flush().unwrap(),
            Step::Settle => held(&filter).settle().unwrap(),
            Step::Compact => held(&filter).compact().unwrap(),
            Step::Commit => {
                store.commit(b"").unwrap();
                committed = model.clone();
            }
            Step::Reopen => {
                drop((filter, store));
                store = Store::open_on(device.clone(), store_options(threads)).unwrap();
                filter = store.cascade("f", options).unwrap();
                model = committed.clone();
            }
            Step::Ask(batch) => ask(&filter, &model, &hashes(&store, batch)),
        }
    }
    ask(&filter, &model, &keys(&store, 0..4000));
    held(&filter).compact().unwrap();
    ask(&filter, &model, &keys(&store, 0..4000));
    let report = held(&filter).report();
    assert_eq!(report.fingerprints, model.counts.len() as u64);
    assert_eq!(report.occurrences, model.counts.values().sum::<u64>());
    assert_eq!((report.tombstones, report.in_memory), (0, 0));
    store.commit(b"end").unwrap();
    assert!(store.verify().unwrap().damaged.is_empty());
}

fn hashes(store: &Store, batch: Batch) -> Vec<KeyHash> {
    random_keys(store, batch.seed, batch.count, batch.range)
}

fn ask(filter: &Arc<Mutex<CascadeFilter>>, model: &Model, hashes: &[KeyHash]) {
    let counts: Vec<u64> = hashes.iter().map(|&hash| model.count(hash)).collect();
    assert_eq!(held(filter).count_many(hashes).unwrap(), counts);
    let there: Vec<bool> = counts.iter().map(|&count| count > 0).collect();
    assert_eq!(held(filter).contains_many(hashes).unwrap(), there);
}
