//! Values beside fingerprints, beside a map from fingerprint to values.

use super::*;
use crate::Error;
use crate::filter::cascade::Maplet;
use proptest::prelude::*;

type Model = BTreeMap<u64, BTreeMap<u16, u64>>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn values_are_those_of_a_map_from_fingerprint_to_values(
        steps in prop::collection::vec((any::<u64>(), 0usize..400, 0u8..9), 1..14),
        value_bits in 1u32..9,
    ) {
        let (device, mut store) = simulated(0);
        let options = CascadeOptions { value_bits, ..small() };
        let mut maplet = store.maplet("f", options).unwrap();
        let mut model = Model::new();
        let bits = options.fingerprint_bits().unwrap();
        for &(seed, count, action) in &steps {
            let hashes = random_keys(&store, seed, count, 500);
            let values: Vec<u16> = hashes.iter().map(|hash| ((hash.low() ^ seed) % 3) as u16 & ((1 << value_bits) - 1)).collect();
            let pairs = || hashes.iter().zip(&values).map(|(hash, &value)| (hash.high() >> (64 - bits), value));
            match action {
                0..=2 => {
                    held(&maplet).insert(&hashes, &values).unwrap();
                    pairs().for_each(|(key, value)| *model.entry(key).or_default().entry(value).or_default() += 1);
                }
                3 => {
                    let there: Vec<bool> = pairs().map(|(key, value)| take(&mut model, key, value)).collect();
                    let kept = |i: &usize| there[*i];
                    let hashes: Vec<KeyHash> = (0..hashes.len()).filter(kept).map(|i| hashes[i]).collect();
                    let values: Vec<u16> = (0..values.len()).filter(kept).map(|i| values[i]).collect();
                    held(&maplet).remove(&hashes, &values).unwrap();
                }
                4 | 5 => {
                    let expected: Vec<bool> = pairs().map(|(key, value)| take(&mut model, key, value)).collect();
                    prop_assert_eq!(held(&maplet).remove_if_present(&hashes, &values).unwrap(), expected);
                }
                6 => held(&maplet).flush().unwrap(),
                7 => held(&maplet).compact().unwrap(),
                _ => {
                    store.commit(b"").unwrap();
                    drop((maplet, store));
                    store = Store::open_on(device.clone(), store_options(0)).unwrap();
                    maplet = store.maplet("f", options).unwrap();
                }
            }
            let asked = keys(&store, 0..500);
            let expected: Vec<Vec<(u16, u64)>> = asked.iter().map(|hash| {
                model.get(&(hash.high() >> (64 - bits))).into_iter().flatten().map(|(&v, &n)| (v, n)).collect()
            }).collect();
            prop_assert_eq!(&held(&maplet).values_many(&asked).unwrap(), &expected);
            let there: Vec<bool> = expected.iter().map(|values| !values.is_empty()).collect();
            prop_assert_eq!(held(&maplet).contains_many(&asked).unwrap(), there);
            let all: Vec<(u64, u16, u64)> = model.iter().flat_map(|(&key, values)| values.iter().map(move |(&v, &n)| (key, v, n))).collect();
            let mut found: Vec<(u64, u16, u64)> =
                held(&maplet).fingerprints().unwrap().map(|one| one.map(|one| (one.prefix >> (64 - bits), one.value, one.count)).unwrap()).collect();
            found.sort_unstable();
            prop_assert_eq!(found, all);
        }
    }
}

fn take(model: &mut Model, key: u64, value: u16) -> bool {
    let Some(values) = model.get_mut(&key) else { return false };
    let Some(count) = values.get_mut(&value) else { return false };
    *count -= 1;
    values.retain(|_, count| *count > 0);
    model.retain(|_, values| !values.is_empty());
    true
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let (_, store) = simulated(0);
    let maplet = store.maplet("f", CascadeOptions { value_bits: 3, ..small() }).unwrap();
    let hashes = keys(&store, 0..2);
    let refused = |result: crate::Result<()>, name: &str| {
        assert!(matches!(result, Err(Error::InvalidOption { name: found, .. }) if found == name));
    };
    refused(held(&maplet).insert(&hashes, &[1, 8]), "a value");
    refused(held(&maplet).insert(&hashes, &[1]), "values");
    refused(held(&maplet).remove_if_present(&hashes, &[1]).map(drop), "values");
}

#[test]
fn a_maplet_is_no_filter_and_a_filter_no_maplet() {
    let (_, store) = simulated(0);
    let of_values = CascadeOptions { value_bits: 3, ..small() };
    let is_option = |refused: Error| {
        assert!(matches!(refused, Error::InvalidOption { name: "value_bits", .. }), "{refused}")
    };
    is_option(store.cascade("f", of_values).unwrap_err());
    is_option(CascadeFilter::create(&store, "f", of_values).unwrap_err());
    is_option(store.maplet("f", small()).unwrap_err());
    is_option(Maplet::create(&store, "f", small()).unwrap_err());
    drop((store.maplet("maplet", of_values).unwrap(), store.cascade("filter", small()).unwrap()));
    store.commit(b"").unwrap();
    let is_kind = |refused: Error| assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
    is_kind(store.cascade("maplet", small()).unwrap_err());
    is_kind(CascadeFilter::open(&store, "maplet").unwrap_err());
    is_kind(CascadeFilter::stored_options(&store, "maplet").unwrap_err());
    is_kind(store.maplet("filter", of_values).unwrap_err());
    is_kind(Maplet::open(&store, "filter").unwrap_err());
    is_kind(Maplet::stored_options(&store, "filter").unwrap_err());
}

#[test]
fn writers_and_readers_of_a_maplet_stand_beside_it() {
    let (_, store) = simulated(0);
    let options = CascadeOptions { value_bits: 3, writers: 2, memory_bytes: 20 << 20, ..small() };
    let maplet = store.maplet("f", options).unwrap();
    let mut writer = held(&maplet).writer().unwrap();
    let reader = held(&maplet).reader();
    let hashes = keys(&store, 0..2);
    writer.insert(&hashes, &[1, 2]).unwrap();
    held(&maplet).insert(&hashes[..1], &[5]).unwrap();
    writer.remove(&hashes[1..], &[2]).unwrap();
    assert_eq!(reader.values_many(&hashes).unwrap(), [vec![(1, 1), (5, 1)], vec![]]);
}
