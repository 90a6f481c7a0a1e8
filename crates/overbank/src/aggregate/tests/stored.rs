//! Groups in stores: full disks, reopening, what is refused; made one, and frozen into dictionaries.

use super::spill::{setup, simulated, store_options};
use super::*;
use crate::Error;
use crate::aggregate::saved::{open, spilling};
use crate::dictionary::DictionaryOptions;
use crate::store::Store;

fn keys(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("key number {number}")).collect()
}

fn opened(store: &Store, name: &str) -> Groups<Count> {
    let (options, setup) = setup(store, 3, 40, u128::MAX);
    open(store, name, Count, &options, setup).unwrap()
}

fn counts<A: Aggregate>(groups: &Groups<A>) -> BTreeMap<Vec<u8>, u64> {
    all(groups).into_iter().map(|group| (group.key, group.words[0])).collect()
}

#[test]
fn a_full_disk_refuses_rows_only_while_it_is_full() {
    for threads in [0, 2] {
        let (device, store) = simulated(threads);
        let groups = opened(&store, "g");
        device.set_capacity_bytes(1 << 20);
        let mut taken = 0;
        let full = loop {
            match groups.insert_many(&keys(taken..taken + 500), &[]) {
                Ok(()) => taken += 500,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full}");
        assert!(taken > 20_000, "{taken} rows");
        assert!(matches!(groups.insert_many(&keys(0..1), &[]), Err(Error::Full { .. })));
        assert!(matches!(store.commit(b""), Err(Error::Full { .. })));
        assert!(counts(&groups).into_iter().all(|group| group.1 == 1));
        assert_eq!(groups.count().unwrap(), taken);
        assert_eq!(groups.get(b"key number 5").unwrap().unwrap().words, [1]);
        device.set_capacity_bytes(u64::MAX);
        groups.insert_many(&keys(0..taken), &[]).unwrap();
        store.commit(b"").unwrap();
        drop((groups, store));
        let store = Store::open_on(device, store_options(threads)).unwrap();
        let groups = opened(&store, "g");
        groups.verify().unwrap();
        let counts = counts(&groups);
        assert!(counts.len() as u64 == taken && counts.values().all(|&count| count == 2));
    }
}

/// With other options, read-only too.
#[test]
fn groups_come_back_and_others_are_refused() {
    let (device, store) = simulated(1);
    let groups = opened(&store, "g");
    groups.insert_many(&keys(0..20_000), &[]).unwrap();
    store.commit(b"there").unwrap();
    groups.insert_many(&keys(0..100), &[]).unwrap();
    assert_eq!(groups.get(b"key number 7").unwrap().unwrap().words, [2]);
    let again = opened(&store, "g");
    assert_eq!(again.get(b"key number 7").unwrap().unwrap().words, [2]);
    let (options, setup) = setup(&store, 3, 40, u128::MAX);
    assert!(matches!(open(&store, "g", Collect, &options, setup), Err(Error::Incompatible { .. })));
    assert!(matches!(store.dictionary("g", DictionaryOptions::new()), Err(Error::WrongKind { .. })));
    // What was inserted since the commit is lost with the store.
    drop((groups, again, store));
    let store = Store::open_read_only_on(device.clone(), store_options(0)).unwrap();
    let options = GroupsOptions::new().memory_bytes(4 << 20);
    let groups = store.groups("g", Count, options.clone()).unwrap();
    assert!(matches!(groups.insert_many(&["a"], &[]), Err(Error::ReadOnly { .. })));
    assert_eq!(groups.count().unwrap(), 20_000);
    assert!(matches!(store.groups("h", Count, options.clone()), Err(Error::NotFound { .. })));
    drop((groups, store));
    let store = Store::open_on(device, store_options(0)).unwrap();
    assert!(matches!(store.groups("g", Collect, options.clone()), Err(Error::Incompatible { .. })));
    let groups = store.groups("g", Count, options).unwrap();
    assert_eq!(groups.get(b"key number 7").unwrap().unwrap().words, [1]);
    store.close("g").unwrap();
    assert!(matches!(groups.insert_many(&["a"], &[]), Err(Error::Closed { .. })));
    assert!(matches!(groups.get(b"a"), Err(Error::Closed { .. })));
}

#[test]
fn groups_of_two_stores_are_made_one() {
    let ((_, store), (_, other)) = (simulated(0), simulated(0));
    let (here, there) = (opened(&store, "g"), opened(&other, "g"));
    here.insert_many(&keys(0..9_000), &[]).unwrap();
    there.insert_many(&keys(6_000..15_000), &[]).unwrap();
    there.insert_many(&keys(6_000..6_500), &[]).unwrap();
    here.merge_from(&there).unwrap();
    let expected = |number: u64| match number {
        6_000..6_500 => 3,
        6_500..9_000 => 2,
        _ => 1,
    };
    let all: BTreeMap<_, _> =
        (0..15_000).map(|i| (format!("key number {i}").into_bytes(), expected(i))).collect();
    assert_eq!(counts(&here), all);
    // Into groups in memory alone, which hash alike.
    let alone = Groups::new(Count, GroupsOptions::new().hasher(here.hasher())).unwrap();
    alone.insert_many(&keys(0..1), &[]).unwrap();
    alone.merge_from(&here).unwrap();
    assert_eq!(alone.get(b"key number 0").unwrap().unwrap().words, [2]);
    assert_eq!(alone.get(b"key number 6001").unwrap().unwrap().words, [3]);
    assert_eq!(alone.count().unwrap(), 15_000);
    let otherwise = Groups::new(Count, GroupsOptions::new()).unwrap();
    assert!(matches!(otherwise.merge_from(&here), Err(Error::Incompatible { .. })));
    assert!(here.merge_from(&here.clone()).is_err());
}

/// Where the index has no room none of the other groups is in: whoever tries again counts nothing twice.
#[test]
fn groups_whose_index_has_no_room_are_not_added() {
    let ((_, store), (_, other)) = (simulated(0), simulated(0));
    let there = opened(&other, "g");
    there.insert_many(&keys(0..60_000), &[]).unwrap();
    let (options, setup) = setup(&store, 3, 40, u128::MAX);
    let here = open(&store, "g", Count, &options.memory_bytes(1 << 10), setup).unwrap();
    here.insert_many(&keys(0..10), &[]).unwrap();
    for _ in 0..2 {
        let refused = here.merge_from(&there).unwrap_err();
        assert!(matches!(refused, Error::BudgetExceeded { .. }), "{refused}");
    }
    let own: BTreeMap<_, _> = keys(0..10).into_iter().map(|key| (key.into_bytes(), 1)).collect();
    assert_eq!(counts(&here), own);
}

#[test]
fn groups_become_a_dictionary() {
    let (_, store) = simulated(0);
    let (options, setup) = setup(&store, 3, 40, u128::MAX);
    let groups = spilling(&store, Count, &options, setup).unwrap();
    groups.insert_many(&keys(0..20_000), &[]).unwrap();
    groups.insert_many(&keys(0..7), &[]).unwrap();
    let dictionary = store.dictionary("d", DictionaryOptions::new()).unwrap();
    dictionary.insert(b"before", b"stays").unwrap();
    dictionary.insert(b"key number 3", b"goes").unwrap();
    let frozen =
        groups.freeze(&dictionary, |group, value| value.extend(group.words[0].to_string().bytes())).unwrap();
    assert_eq!(frozen, 20_000);
    dictionary.verify().unwrap();
    let value =
        |key: &str| dictionary.get(key.as_bytes()).unwrap().map(|value| String::from_utf8(value).unwrap());
    assert_eq!(value("key number 3").as_deref(), Some("2"));
    assert_eq!(value("key number 19999").as_deref(), Some("1"));
    assert_eq!(value("before").as_deref(), Some("stays"));
    assert_eq!(value("key number 20000"), None);
}
