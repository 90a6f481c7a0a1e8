//! Values beside fingerprints, beside a map from fingerprint to values; filters made one; all fingerprints.

use super::*;
use crate::Error;
use proptest::prelude::*;

type Maplet = BTreeMap<u64, BTreeMap<u16, u64>>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn values_are_those_of_a_map_from_fingerprint_to_values(
        steps in prop::collection::vec((any::<u64>(), 0usize..400, 0u8..6), 1..14),
        value_bits in 1u32..9,
    ) {
        let (device, mut store) = simulated(0);
        let options = CascadeOptions { value_bits, ..small() };
        let mut filter = store.cascade("f", options).unwrap();
        let mut model = Maplet::new();
        let bits = options.fingerprint_bits().unwrap();
        for &(seed, count, action) in &steps {
            let hashes = random_keys(&store, seed, count, 500);
            let values: Vec<u16> = hashes.iter().map(|hash| (hash.low() % 3) as u16 & ((1 << value_bits) - 1)).collect();
            let pairs = || hashes.iter().zip(&values).map(|(hash, &value)| (hash.high() >> (64 - bits), value));
            match action {
                0..=2 => {
                    held(&filter).insert_values(&hashes, &values).unwrap();
                    pairs().for_each(|(key, value)| *model.entry(key).or_default().entry(value).or_default() += 1);
                }
                3 => {
                    let there: Vec<bool> = pairs().map(|(key, value)| take(&mut model, key, value)).collect();
                    let kept = |i: &usize| there[*i];
                    let hashes: Vec<KeyHash> = (0..hashes.len()).filter(kept).map(|i| hashes[i]).collect();
                    let values: Vec<u16> = (0..values.len()).filter(kept).map(|i| values[i]).collect();
                    held(&filter).remove_values(&hashes, &values).unwrap();
                }
                4 => held(&filter).flush().unwrap(),
                _ => {
                    store.commit(b"").unwrap();
                    drop((filter, store));
                    store = Store::open_on(device.clone(), store_options(0)).unwrap();
                    filter = store.cascade("f", options).unwrap();
                }
            }
            let asked = keys(&store, 0..500);
            let expected: Vec<Vec<(u16, u64)>> = asked.iter().map(|hash| {
                model.get(&(hash.high() >> (64 - bits))).into_iter().flatten().map(|(&v, &n)| (v, n)).collect()
            }).collect();
            prop_assert_eq!(&held(&filter).values_many(&asked).unwrap(), &expected);
            let counts: Vec<u64> = expected.iter().map(|values| values.iter().map(|value| value.1).sum()).collect();
            prop_assert_eq!(held(&filter).count_many(&asked).unwrap(), counts);
        }
    }
}

fn take(model: &mut Maplet, key: u64, value: u16) -> bool {
    let Some(values) = model.get_mut(&key) else { return false };
    let Some(count) = values.get_mut(&value) else { return false };
    *count -= 1;
    values.retain(|_, count| *count > 0);
    true
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let (_, store) = simulated(0);
    let filter = store.cascade("f", CascadeOptions { value_bits: 3, ..small() }).unwrap();
    let hashes = keys(&store, 0..2);
    let refused = |result: crate::Result<()>, name: &str| {
        assert!(matches!(result, Err(Error::InvalidOption { name: found, .. }) if found == name));
    };
    refused(held(&filter).insert_values(&hashes, &[1, 8]), "a value");
    refused(held(&filter).insert_values(&hashes, &[1]), "values");
    let plain = store.cascade("g", small()).unwrap();
    refused(held(&plain).values_many(&hashes).map(drop), "value_bits");
}

/// All entries of a filter, of one length of fingerprints.
fn entries(filter: &Arc<Mutex<CascadeFilter>>) -> BTreeMap<u64, u64> {
    let mut fingerprints = held(filter).fingerprints().unwrap();
    let mut all = Vec::new();
    while let Some((_, window)) = fingerprints.next_window().unwrap() {
        all.extend(window.iter().map(|(fingerprint, count)| (fingerprint, count as u64)));
    }
    assert!(all.is_sorted_by(|a, b| a.0 < b.0));
    all.into_iter().collect()
}

#[test]
fn two_filters_are_made_one() {
    let [(_, store), (_, other_store)] = [simulated(0), simulated(0)];
    let options = CascadeOptions { false_positive_rate: 1e-3, ..small() };
    let filter = store.cascade("f", options).unwrap();
    let other = other_store.cascade("other", options).unwrap();
    let mut model = Model::new(&options);
    for (number, filter) in [&filter, &other, &filter, &other].into_iter().enumerate() {
        let hashes = random_keys(&store, number as u64, 3000, 8000);
        held(filter).insert(&hashes).unwrap();
        hashes.iter().for_each(|&hash| model.insert(hash));
        let removed = &hashes[..500];
        held(filter).remove(removed).unwrap();
        removed.iter().for_each(|&hash| assert!(model.remove_if_present(hash)));
        if number < 2 {
            held(filter).flush().unwrap();
        }
    }
    held(&filter).merge_from(&held(&other)).unwrap();
    assert_eq!(entries(&filter), model.counts);
    held(&filter).compact().unwrap();
    assert_eq!(entries(&filter), model.counts);
    store.commit(b"").unwrap();

    let of_other_seed = Store::in_memory(StoreOptions::new().seed(Seed(8)).threads(0)).unwrap();
    let stranger = of_other_seed.cascade("f", options).unwrap();
    let refused = held(&filter).merge_from(&held(&stranger)).unwrap_err();
    assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
    let short = other_store
        .cascade("short", CascadeOptions { keys: 4000, false_positive_rate: 0.3, ..small() })
        .unwrap();
    held(&short).insert(&keys(&store, 0..3000)).unwrap();
    let refused = held(&filter).merge_from(&held(&short)).unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { name: "false_positive_rate", .. }), "{refused}");
}
