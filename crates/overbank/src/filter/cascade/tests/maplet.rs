//! Values beside fingerprints, beside a map from fingerprint to values.

use super::*;
use crate::Error;
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
        let options = small_maplet(value_bits);
        let mut maplet = store.maplet("f", options).unwrap();
        let mut model = Model::new();
        let bits = options.fingerprint_bits().unwrap();
        for &(seed, count, action) in &steps {
            let hashes = random_keys(&store, seed, count, 500);
            let values: Vec<u16> = hashes.iter().map(|hash| ((hash.low() ^ seed) % 3) as u16 & ((1 << value_bits) - 1)).collect();
            let pairs = || hashes.iter().zip(&values).map(|(hash, &value)| (hash.high() >> (64 - bits), value));
            match action {
                0..=2 => {
                    maplet.insert(&hashes, &values).unwrap();
                    pairs().for_each(|(key, value)| *model.entry(key).or_default().entry(value).or_default() += 1);
                }
                3 => {
                    let there: Vec<bool> = pairs().map(|(key, value)| take(&mut model, key, value)).collect();
                    let kept = |i: &usize| there[*i];
                    let hashes: Vec<KeyHash> = (0..hashes.len()).filter(kept).map(|i| hashes[i]).collect();
                    let values: Vec<u16> = (0..values.len()).filter(kept).map(|i| values[i]).collect();
                    maplet.remove(&hashes, &values).unwrap();
                }
                4 | 5 => {
                    let expected: Vec<bool> = pairs().map(|(key, value)| take(&mut model, key, value)).collect();
                    prop_assert_eq!(maplet.remove_if_present(&hashes, &values).unwrap(), expected);
                }
                6 => maplet.flush().unwrap(),
                7 => maplet.compact().unwrap(),
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
            prop_assert_eq!(&maplet.values_many(&asked).unwrap(), &expected);
            let there: Vec<bool> = expected.iter().map(|values| !values.is_empty()).collect();
            prop_assert_eq!(maplet.contains_many(&asked).unwrap(), there);
            let all: Vec<(u64, u16, u64)> = model.iter().flat_map(|(&key, values)| values.iter().map(move |(&v, &n)| (key, v, n))).collect();
            let mut found: Vec<(u64, u16, u64)> =
                maplet.fingerprints().unwrap().map(|one| one.map(|one| (one.prefix >> (64 - bits), one.value, one.count)).unwrap()).collect();
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
    let maplet = store.maplet("f", small_maplet(3)).unwrap();
    let hashes = keys(&store, 0..2);
    let refused = |result: crate::Result<()>, name: &str| {
        assert!(matches!(result, Err(Error::InvalidOption { name: found, .. }) if found == name));
    };
    refused(maplet.insert(&hashes, &[1, 8]), "a value");
    refused(maplet.insert(&hashes, &[1]), "values");
    refused(maplet.remove_if_present(&hashes, &[1]).map(drop), "values");
}

#[test]
fn a_maplet_is_no_filter_and_a_filter_no_maplet() {
    let (_, store) = simulated(0);
    let refused = store.maplet("f", MapletOptions { filter: small() }).unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { name: "value_bits", .. }), "{refused}");
    let is_kind = |refused: Error| assert!(matches!(refused, Error::WrongKind { .. }), "{refused}");
    let mut kept =
        Some((store.maplet("maplet", small_maplet(3)).unwrap(), store.filter("filter", small()).unwrap()));
    store.commit(b"").unwrap();
    // While they are open, and stored alone.
    for is_open in [true, false] {
        kept = kept.filter(|_| is_open);
        is_kind(store.filter("maplet", small()).unwrap_err());
        is_kind(Filter::stored_options(&store, "maplet").unwrap_err());
        is_kind(store.maplet("filter", small_maplet(3)).unwrap_err());
        let other_bits = store.maplet("maplet", small_maplet(4)).unwrap_err();
        assert!(matches!(other_bits, Error::Incompatible { .. }), "{other_bits}");
        // Without its bits, it is the one that is there.
        assert!(store.maplet("maplet", MapletOptions::new()).is_ok());
    }
}

#[test]
fn writers_and_readers_of_a_maplet_stand_beside_it() {
    let (_, store) = simulated(0);
    let maplet = store.maplet("f", small_maplet(3).writers(2).memory_bytes(20 << 20)).unwrap();
    let [writer, reader] = [maplet.clone(), maplet.clone()];
    let hashes = keys(&store, 0..2);
    writer.insert(&hashes, &[1, 2]).unwrap();
    maplet.insert(&hashes[..1], &[5]).unwrap();
    writer.remove(&hashes[1..], &[2]).unwrap();
    assert_eq!(reader.values_many(&hashes).unwrap(), [vec![(1, 1), (5, 1)], vec![]]);
}
