//! The ends of lengths and of hashes.

use super::*;
use crate::Error;
use proptest::prelude::*;

/// Items of 2 MiB at most.
fn options() -> DictionaryOptions {
    DictionaryOptions::new().memory_bytes(128 << 20)
}

fn check(dictionary: &Dictionary, model: &Model) {
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    assert!(dictionary.get_many(&keys).unwrap().into_iter().eq(model.values().cloned().map(Some)));
    for (key, value) in model {
        assert!(dictionary.get(key).unwrap().as_ref() == Some(value), "a key of {} bytes", key.len());
    }
    assert!(scanned(dictionary) == *model);
}

#[test]
fn keys_and_values_of_any_length_are_exact() {
    let (device, store) = simulated(0);
    let dictionary = store.dictionary("d", options()).unwrap();
    let most = dictionary.options().item_bytes_max();
    assert_eq!(most, 2 << 20);
    let mut model = Model::new();
    let long = |bytes: usize, byte: u8| vec![byte; bytes];
    let items = [
        (vec![], long(3, 1)),
        (vec![0], vec![]),
        (vec![0, 0], vec![0]),
        (long(65_535, 1), long(5, 2)),
        (long(65_536, 1), vec![]),
        (long(1 << 20, 2), long(7, 3)),
        ([long((1 << 20) - 1, 2), vec![3]].concat(), long(8, 4)),
        (b"most".to_vec(), long(most - 4, 5)),
        (long(most, 6), vec![]),
    ];
    for (key, value) in items {
        dictionary.insert(&key, &value).unwrap();
        model.insert(key, value);
    }
    check(&dictionary, &model);
    for step in 0..3 {
        match step {
            0 => dictionary.flush().unwrap(),
            1 => dictionary.compact().unwrap(),
            _ => drop(store.commit(b"").unwrap()),
        }
        check(&dictionary, &model);
    }
    dictionary.verify().unwrap();
    // Keys that were not written, one byte off.
    assert_eq!(dictionary.get(&long(65_534, 1)).unwrap(), None);
    assert_eq!(dictionary.get(&long((1 << 20) + 1, 2)).unwrap(), None);
    assert_eq!(dictionary.get(&long(3 << 20, 2)).unwrap(), None);

    for (key, value) in [(vec![9], long(most, 1)), (long(most + 1, 1), vec![]), (vec![], long(most + 1, 1))] {
        let refused = dictionary.insert_many(&[b"other".to_vec(), key], &[b"value".to_vec(), value]);
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&most.to_string()) && text.contains(&(most + 1).to_string()), "{text}");
        assert!(text.len() < 1_000, "{} bytes of text", text.len());
    }
    assert!(dictionary.remove(&long(most + 1, 1)).is_err());
    // Nothing of a call that is refused is taken.
    assert_eq!(dictionary.get(b"other").unwrap(), None);
    let removed: Vec<Vec<u8>> = model.keys().cloned().collect();
    dictionary.remove_many(&removed).unwrap();
    dictionary.compact().unwrap();
    assert_eq!(scanned(&dictionary).len(), 0);
    assert_eq!(dictionary.report().items, 0);
    store.commit(b"").unwrap();
    drop((dictionary, store));
    let store = Store::open_on(device, store_options(0)).unwrap();
    let dictionary = store.dictionary("d", options()).unwrap();
    assert!(dictionary.get(b"").unwrap().is_none() && dictionary.scan().unwrap().next().is_none());
    dictionary.verify().unwrap();
}

#[test]
fn keys_that_differ_in_their_last_byte_are_different() {
    for length in [1, 2, 31, 32, 33, 255, 256, 4_079, 65_535] {
        let (_, store) = simulated(0);
        let dictionary = store.dictionary("d", options()).unwrap();
        let keys: Vec<Vec<u8>> =
            (0..=40u8).map(|last| [vec![b'k'; length - 1], vec![last]].concat()).collect();
        let model: Model = keys.iter().map(|key| (key.clone(), key[length - 1..].to_vec())).collect();
        let values: Vec<&Vec<u8>> = model.values().collect();
        dictionary.insert_many(&keys, &values).unwrap();
        check(&dictionary, &model);
        dictionary.compact().unwrap();
        check(&dictionary, &model);
        for absent in
            [vec![b'k'; length], vec![b'k'; length - 1], [vec![b'k'; length - 1], vec![41]].concat()]
        {
            assert_eq!(dictionary.get(&absent).unwrap(), None);
        }
    }
}

#[test]
fn a_dictionary_of_one_key_or_of_none_answers() {
    let (device, store) = simulated(0);
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    for step in 0..4 {
        match step {
            0 => dictionary.flush().unwrap(),
            1 => dictionary.compact().unwrap(),
            2 => drop(store.commit(b"").unwrap()),
            _ => assert_eq!(
                dictionary.load(crate::dictionary::Duplicates::Refuse).unwrap().finish().unwrap().items,
                0
            ),
        }
        assert_eq!(dictionary.get(b"").unwrap(), None);
        assert_eq!(dictionary.get_many(&[b"a", b"b"]).unwrap(), [None, None]);
        assert!(dictionary.scan().unwrap().next().is_none());
        dictionary.verify().unwrap();
    }
    dictionary.insert_many::<&[u8], &[u8]>(&[], &[]).unwrap();
    assert!(dictionary.insert_many(&[b"a"], &[b"1", b"2"]).is_err());
    dictionary.insert(b"", b"").unwrap();
    dictionary.compact().unwrap();
    store.commit(b"").unwrap();
    drop((dictionary, store));
    let store = Store::open_on(device, store_options(0)).unwrap();
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    assert_eq!(dictionary.get(b"").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(scanned(&dictionary).len(), 1);
}

/// Masks of hashes: all are 0; only the last bits; ends of the first 64; few; all.
fn masks() -> impl Strategy<Value = u128> {
    prop_oneof![
        Just(0u128),
        Just(1 << 127 | 1),
        Just(3 << 126),
        Just(u128::from(u64::MAX)),
        Just(u128::from(u64::MAX) << 64),
        Just(0xff << 120 | 0xf),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Different keys whose hashes are equal, in all bits or in some.
    #[test]
    fn keys_whose_hashes_meet_are_kept_apart(
        mask in masks(),
        is_even: bool,
        batches in prop::collection::vec((0u64..200, 1u64..150, 0u8..6), 1..10),
    ) {
        let (device, store) = simulated(0);
        let dictionary = small(&store, DictionaryOptions::new(), mask).unwrap();
        let mut model = Model::new();
        for (written, (from, count, then)) in (1..).zip(batches) {
            let (keys, values) = pairs(from..from + count, written, is_even);
            if then == 5 {
                dictionary.remove_many(&keys).unwrap();
                keys.iter().for_each(|key| drop(model.remove(key)));
            } else {
                dictionary.insert_many(&keys, &values).unwrap();
                model.extend(keys.into_iter().zip(values));
            }
            match then {
                0 | 5 => dictionary.flush().unwrap(),
                1 => dictionary.settle().unwrap(),
                2 => dictionary.compact().unwrap(),
                _ => {}
            }
        }
        check(&dictionary, &model);
        let (absent, _) = pairs(1_000..1_050, 0, is_even);
        prop_assert_eq!(dictionary.contains_many(&absent).unwrap(), [false; 50]);
        store.commit(b"").unwrap();
        drop((dictionary, store));
        let store = Store::open_on(device, store_options(0)).unwrap();
        let dictionary = small(&store, DictionaryOptions::new(), mask).unwrap();
        check(&dictionary, &model);
        dictionary.compact().unwrap();
        check(&dictionary, &model);
        dictionary.verify().unwrap();
        // Parts of all hashes are the whole.
        let snapshot = dictionary.snapshot().unwrap();
        let parts = [0..=0, 1..=u64::MAX / 2, u64::MAX / 2 + 1..=u64::MAX - 1, u64::MAX..=u64::MAX];
        let all: Vec<(Vec<u8>, Vec<u8>)> =
            parts.into_iter().flat_map(|part| snapshot.scan(part).unwrap().map(crate::Result::unwrap)).collect();
        prop_assert_eq!(all.len(), model.len());
        prop_assert!(all.into_iter().collect::<Model>() == model);
    }
}
