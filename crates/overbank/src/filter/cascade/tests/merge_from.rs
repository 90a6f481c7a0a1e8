//! Filters made one, and all fingerprints, beside a multiset.

use super::*;
use crate::Error;
use proptest::prelude::*;

/// All entries of a filter, of one length of fingerprints.
fn entries(filter: &Filter, bits: u32) -> BTreeMap<u64, u64> {
    let all: Vec<(u64, u64)> = (filter.fingerprints().unwrap())
        .map(Result::unwrap)
        .inspect(|one| assert_eq!(one.bits, bits))
        .map(|one| (one.prefix >> (64 - bits), one.count))
        .collect();
    assert!(all.is_sorted_by(|a, b| a.0 < b.0));
    all.into_iter().collect()
}

#[test]
fn two_filters_are_made_one() {
    let [(_, store), (_, other_store)] = [simulated(0), simulated(0)];
    let options = FilterOptions { false_positive_rate: 1e-3, ..small() };
    let filter = store.filter("f", options).unwrap();
    let other = other_store.filter("other", options).unwrap();
    let mut model = Model::new(&options);
    for (number, filter) in [&filter, &other, &filter, &other].into_iter().enumerate() {
        let hashes = random_keys(&store, number as u64, 3000, 8000);
        filter.insert(&hashes).unwrap();
        hashes.iter().for_each(|&hash| model.insert(hash));
        let removed = &hashes[..500];
        filter.remove(removed).unwrap();
        removed.iter().for_each(|&hash| assert!(model.remove_if_present(hash)));
        if number < 2 {
            filter.flush().unwrap();
        }
    }
    filter.merge_from(&other).unwrap();
    assert_eq!(entries(&filter, model.bits), model.counts);
    filter.compact().unwrap();
    assert_eq!(entries(&filter, model.bits), model.counts);
    store.commit(b"").unwrap();

    let of_other_seed = Store::in_memory(StoreOptions::new().seed(Seed(8)).threads(0)).unwrap();
    let stranger = of_other_seed.filter("f", options).unwrap();
    let refused = filter.merge_from(&stranger).unwrap_err();
    assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
    let short = other_store
        .filter("short", FilterOptions { keys: 4000, false_positive_rate: 0.3, ..small() })
        .unwrap();
    short.insert(&keys(&store, 0..3000)).unwrap();
    let refused = filter.merge_from(&short).unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { name: "false_positive_rate", .. }), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn the_fingerprints_of_a_filter_that_grew_are_those_of_its_keys(
        steps in prop::collection::vec((any::<u64>(), 0usize..400, 0u8..9), 1..20),
        expected in 1u64..200,
    ) {
        let (_, store) = simulated(0);
        // So low a rate that no two of the keys below meet in a fingerprint: the model is of keys.
        let options = FilterOptions { keys: expected, false_positive_rate: 1e-9, ..small() };
        let filter = store.filter("f", options).unwrap();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for &(seed, count, action) in &steps {
            let hashes = random_keys(&store, seed, count, 1000);
            match action {
                0..=2 => {
                    filter.insert(&hashes).unwrap();
                    hashes.iter().for_each(|hash| *model.entry(hash.high()).or_default() += 1);
                }
                3 => {
                    filter.insert_if_absent(&hashes).unwrap();
                    hashes.iter().for_each(|hash| { model.entry(hash.high()).or_insert(1); });
                }
                4 | 5 => {
                    filter.remove_if_present(&hashes).unwrap();
                    for hash in &hashes {
                        if let Some(count) = model.get_mut(&hash.high()) {
                            *count -= 1;
                            model.retain(|_, count| *count > 0);
                        }
                    }
                }
                6 => filter.flush().unwrap(),
                7 => filter.compact().unwrap(),
                _ => {
                    let other = FilterOptions { keys: 1 + seed % 3000, ..options };
                    let other_store = Store::in_memory(store_options(0)).unwrap();
                    let other = other_store.filter("other", other).unwrap();
                    other.insert(&hashes).unwrap();
                    if filter.merge_from(&other).is_ok() {
                        hashes.iter().for_each(|hash| *model.entry(hash.high()).or_default() += 1);
                    }
                }
            }
            let mut left = model.clone();
            let mut before = None;
            let mut all = 0u64;
            for one in filter.fingerprints().unwrap() {
                let one = one.unwrap();
                prop_assert!(one.count > 0);
                prop_assert_eq!((one.prefix & (u64::MAX >> one.bits), one.value), (0, 0));
                let last = one.prefix | u64::MAX >> one.bits;
                let mut of_it = left.range_mut(one.prefix..=last);
                let (_, count) = of_it.next().expect("a fingerprint has a key that is in");
                *count = count.checked_sub(one.count).expect("a key is in as often as its fingerprints");
                prop_assert!(of_it.next().is_none(), "two keys meet");
                // In order of the last hash, and of equal ones the longer first.
                let place = (last, 64 - one.bits);
                prop_assert!(before.is_none_or(|before: (u64, u32)| before < place));
                before = Some(place);
                all += 1;
            }
            prop_assert!(left.values().all(|&count| count == 0));
            let distinct = filter.distinct().unwrap();
            prop_assert!((distinct.lower..=distinct.upper).contains(&(model.len() as u64)), "{distinct:?}");
            prop_assert_eq!((distinct.estimate, distinct.upper), (model.len() as u64, all));
        }
    }
}

#[test]
fn a_sample_bounds_the_distinct_keys_of_a_stream_of_repeats() {
    let (_, store) = simulated(0);
    let options = FilterOptions { keys: 1 << 20, false_positive_rate: 1e-9, ..small() };
    let filter = store.filter("f", options).unwrap();
    for distinct in [100_000u64, 200_000] {
        for _ in 0..3 {
            filter.insert(&keys(&store, 0..distinct)).unwrap();
            filter.flush().unwrap();
        }
        let exact = filter.distinct().unwrap();
        assert_eq!((exact.estimate, exact.lower, exact.upper), (distinct, distinct, distinct));
        for sample in [1, 100, 10_000, 100_000] {
            let found = filter.distinct_by(sample).unwrap();
            assert!(found.lower <= distinct && distinct <= found.upper, "{found:?} of {distinct}");
            assert!((found.lower..=found.upper).contains(&found.estimate), "{found:?}");
            // The sample has at least a tenth of so many keys; six standard deviations on either side, and as much for its own chance.
            let per_key = 10.0 / sample as f64;
            let width = 2.0 * 12.3 * (per_key + 9.4 * per_key * per_key).sqrt();
            assert!((found.upper - found.lower) as f64 <= width * distinct as f64, "{found:?} of {distinct}");
        }
    }
}
