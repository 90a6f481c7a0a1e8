//! Values that operands make longer than any item may be: nothing of them is lost, and they stop growing.

use super::*;
use crate::Error;
use proptest::prelude::*;

/// Items of 256 KiB at most.
fn options() -> DictionaryOptions {
    DictionaryOptions::new().memory_bytes(16 << 20).merge_operator(MergeOperator::Append)
}

#[derive(Clone, Debug)]
enum Step {
    Merge(u8, usize),
    Put(u8, usize),
    Remove(u8),
    Flush,
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0u8..4, 1usize..120_000).prop_map(|(key, bytes)| Step::Merge(key, bytes)),
        1 => (0u8..4, 0usize..1_000).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        1 => (0u8..4).prop_map(Step::Remove),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn check(dictionary: &Dictionary, model: &Model) {
    let keys: Vec<[u8; 1]> = (0..4).map(|key| [key]).collect();
    let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
    assert!(dictionary.get_many(&keys).unwrap() == expected);
    assert!(scanned(dictionary) == *model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn operands_are_kept_whole_or_refused(steps in prop::collection::vec(step(), 1..60), mask in prop_oneof![Just(u128::MAX), Just(0)]) {
        let (device, mut store) = simulated(0);
        let mut dictionary = small(&store, options(), mask).unwrap();
        let most = dictionary.options().item_bytes_max();
        let mut model = Model::new();
        for (number, step) in steps.into_iter().enumerate() {
            let value = |bytes: usize| vec![number as u8; bytes];
            match step {
                Step::Merge(key, bytes) => {
                    let longest = dictionary.report().longest_item_bytes;
                    match dictionary.merge(&[key], &value(bytes)) {
                        Ok(()) => {
                            prop_assert!(longest <= most);
                            apply(&mut model, options().chosen_operator(), &[key], &value(bytes));
                        }
                        Err(Error::BudgetExceeded { wanted_bytes, budget_bytes, .. }) => {
                            prop_assert_eq!((wanted_bytes, budget_bytes), (longest * 64, 16 << 20));
                            prop_assert!(longest > most);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Put(key, bytes) => {
                    dictionary.insert(&[key], &value(bytes)).unwrap();
                    model.insert(vec![key], value(bytes));
                }
                Step::Remove(key) => {
                    dictionary.remove(&[key]).unwrap();
                    model.remove(&[key][..]);
                }
                Step::Flush => dictionary.flush().unwrap(),
                Step::Compact => dictionary.compact().unwrap(),
                Step::Reopen => {
                    store.commit(b"").unwrap();
                    drop((dictionary, store));
                    store = Store::open_on(device.clone(), store_options(0)).unwrap();
                    dictionary = small(&store, options(), mask).unwrap();
                }
            }
            check(&dictionary, &model);
        }
        // What is short again, or gone, lets operands in.
        for (key, value) in model.iter().filter(|(key, value)| key.len() + value.len() > most) {
            if value.len().is_multiple_of(2) {
                dictionary.remove(key).unwrap();
            } else {
                dictionary.insert(key, b"short").unwrap();
            }
        }
        dictionary.compact().unwrap();
        dictionary.merge(b"new", b"operand").unwrap();
        dictionary.verify().unwrap();
    }
}

#[test]
fn more_memory_lets_a_longer_value_grow() {
    let (device, store) = simulated(0);
    let dictionary = store.dictionary("d", options()).unwrap();
    let operand = vec![1; 100_000];
    let mut bytes = 0;
    let error = loop {
        match dictionary.merge(b"key", &operand) {
            Ok(()) => bytes += operand.len(),
            Err(error) => break error,
        }
        dictionary.flush().unwrap();
        dictionary.compact().unwrap();
    };
    assert_eq!(bytes, 300_000);
    let message = error.to_string();
    assert!(message.contains("300003 bytes") && message.contains(&(300_003 * 64).to_string()), "{message}");
    // All else goes on.
    dictionary.insert(b"other", &operand).unwrap();
    store.commit(b"").unwrap();
    drop((dictionary, store));
    let store = Store::open_on(device, store_options(0)).unwrap();
    let dictionary = store.dictionary("d", options().memory_bytes(300_003 * 64)).unwrap();
    dictionary.merge(b"key", b"more").unwrap();
    assert_eq!(dictionary.get(b"key").unwrap().unwrap().len(), bytes + 4);
    assert_eq!(dictionary.report().longest_item_bytes, bytes + 3);
}

#[test]
fn past_what_any_memory_lets_in_the_remedy_is_another() {
    let (_, store) = simulated(0);
    let dictionary = store.dictionary("d", options().memory_bytes(64 << 20)).unwrap();
    let operand = vec![1; 1 << 19];
    // A memtable's worth, in which nothing is seen of it before it is frozen.
    while dictionary.merge(b"key", &operand).is_ok() {}
    let message = dictionary.merge(b"key", b"x").unwrap_err().to_string();
    assert!(message.contains("remove or replace"), "{message}");
    let before = dictionary.get(b"key").unwrap().unwrap().len();
    assert!(before > 8 << 20 && before.is_multiple_of(1 << 19), "{before}");
    dictionary.compact().unwrap();
    assert_eq!(dictionary.get(b"key").unwrap().unwrap().len(), before);
    dictionary.remove(b"key").unwrap();
    dictionary.compact().unwrap();
    dictionary.merge(b"key", b"x").unwrap();
}
