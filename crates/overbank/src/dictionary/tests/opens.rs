//! Opening: what was asked for against what is stored, readers, budgets, what else has the name.

use super::*;
use crate::dictionary::{Compression, Duplicates, Numbers};
use crate::filter::cascade::FilterOptions;
use crate::{Error, HashKind};

fn options() -> DictionaryOptions {
    DictionaryOptions::new().memory_bytes(16 << 20)
}

fn filled(store: &Store, options: DictionaryOptions) -> Dictionary {
    let dictionary = store.dictionary("d", options).unwrap();
    let (keys, values) = pairs(0..500, 1, false);
    dictionary.insert_many(&keys, &values).unwrap();
    dictionary
}

#[test]
fn what_was_not_asked_for_comes_from_the_store_and_what_was_must_match() {
    let (device, store) = simulated(0);
    let operator = MergeOperator::Sum(Numbers::Text);
    let asked = options().merge_operator(operator).page_bytes(16 << 10);
    let first = store.dictionary("d", asked).unwrap();
    first.merge(b"count", b"12").unwrap();
    store.commit(b"").unwrap();
    let refused = |store: &Store, options: DictionaryOptions| {
        let error = store.dictionary("d", options).unwrap_err();
        assert!(matches!(error, Error::Incompatible { what: "the merge operator", .. }), "{error}");
    };
    // Of the one that is open, and of the stored one.
    refused(&store, options().merge_operator(MergeOperator::Append));
    drop((first, store));
    for read_only in [true, false] {
        let open = if read_only { Store::open_read_only_on } else { Store::open_on };
        let store = open(device.clone(), store_options(0)).unwrap();
        refused(&store, options().merge_operator(MergeOperator::Sum(Numbers::Binary)));
        let stored = Dictionary::stored_options(&store, "d").unwrap();
        assert_eq!((stored.chosen_operator(), stored.chosen_page_bytes()), (Some(operator), 16 << 10));
        let dictionary = store.dictionary("d", options().memory_bytes(17 << 20)).unwrap();
        let options = dictionary.options();
        assert_eq!((options.chosen_operator(), options.chosen_page_bytes()), (Some(operator), 16 << 10));
        assert_eq!(options.chosen_memory_bytes(), 17 << 20);
        assert_eq!(dictionary.get(b"count").unwrap().as_deref(), Some(&b"12"[..]));
        if !read_only {
            // Other pages are those of what is written from now on.
            drop(dictionary);
            store.commit(b"").unwrap();
            let other = options.page_bytes(4096).compression(Compression::None);
            let dictionary = store.dictionary("d", other).unwrap();
            assert_eq!(dictionary.options().chosen_page_bytes(), 4096);
            dictionary.merge(b"count", b"-2").unwrap();
            dictionary.compact().unwrap();
            assert_eq!(dictionary.get(b"count").unwrap().as_deref(), Some(&b"10"[..]));
        }
    }
}

#[test]
fn a_reader_needs_less_memory_than_a_writer_and_writes_nothing() {
    let (device, store) = simulated(0);
    let dictionary = filled(&store, options());
    store.commit(b"").unwrap();
    drop((dictionary, store));
    let store = Store::open_read_only_on(device.clone(), store_options(0).memory_bytes(6 << 20)).unwrap();
    let too_little = store.dictionary("d", DictionaryOptions::new().memory_bytes(1 << 20)).unwrap_err();
    assert!(matches!(too_little, Error::InvalidOption { name: "memory_bytes", .. }), "{too_little}");
    let dictionary = store.dictionary("d", DictionaryOptions::new().memory_bytes(4 << 20)).unwrap();
    assert!(all_there(&dictionary, 0..500, 1, false));
    let files = crate::device::Device::list(&*device).unwrap();
    let refused = |result: crate::Result<()>| {
        assert!(matches!(result, Err(Error::ReadOnly { .. })), "{result:?}");
    };
    refused(dictionary.insert(b"a", b"b"));
    refused(dictionary.insert_many_if_absent(&[b"a"], &[b"b"]));
    refused(dictionary.remove(b"a"));
    refused(dictionary.flush());
    refused(dictionary.settle());
    refused(dictionary.compact());
    refused(dictionary.load(Duplicates::Last).map(drop));
    let snapshot = dictionary.snapshot().unwrap();
    refused(dictionary.copy_from(&snapshot, 0..=u64::MAX).map(drop));
    assert_eq!(scanned(&dictionary).len(), 500);
    assert_eq!(snapshot.scan(0..=u64::MAX).unwrap().count(), 500);
    dictionary.verify().unwrap();
    assert_eq!(dictionary.report().items, 500);
    assert_eq!(crate::device::Device::list(&*device).unwrap(), files);
    let none = store.dictionary("other", DictionaryOptions::new()).unwrap_err();
    assert!(matches!(none, Error::NotFound { .. }), "{none}");
}

#[test]
fn too_little_memory_and_unknown_pages_are_refused_by_name() {
    let (_, store) = simulated(0);
    let error = store.dictionary("d", DictionaryOptions::new().memory_bytes(15 << 20)).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { name: "memory_bytes", .. }), "{error}");
    for bytes in [0, 1, 4095, 8192, 32 << 10, u32::MAX] {
        let error = store.dictionary("d", options().page_bytes(bytes)).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { name: "page_bytes", .. }), "{error}");
    }
    let error = store.dictionary("d", options().memory_bytes(1 << 40)).unwrap_err();
    assert!(matches!(error, Error::BudgetExceeded { .. }), "{error}");
    assert!(store.record("d").is_none());
}

#[test]
fn another_kind_of_structure_of_the_name_is_refused_both_ways() {
    let (device, store) = simulated(0);
    let filter = FilterOptions::new().memory_bytes(16 << 20).keys(1_000);
    store.filter("f", filter).unwrap();
    filled(&store, options());
    store.commit(b"").unwrap();
    drop(store);
    let store = Store::open_on(device, store_options(0)).unwrap();
    for _ in 0..2 {
        let error = store.dictionary("f", options()).unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. }), "{error}");
        let error = store.filter("d", filter).unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. }), "{error}");
        let error = Dictionary::stored_options(&store, "f").unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. }), "{error}");
        // Once more while they are open.
        drop((store.dictionary("d", options()).unwrap(), store.filter("f", filter).unwrap()));
    }
    let missing = Dictionary::stored_options(&store, "none").unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
}

#[test]
fn copies_from_another_seed_function_or_operator_are_refused() {
    let (_, store) = simulated(0);
    let dictionary = filled(&store, options());
    let others = [store_options(0).seed(Seed(8)), store_options(0).hash_kind(HashKind::SipHash13)];
    for other in others {
        let other = Store::in_memory(other).unwrap();
        let from = filled(&other, options()).snapshot().unwrap();
        let error = dictionary.copy_from(&from, 0..=u64::MAX).unwrap_err();
        assert!(matches!(error, Error::Incompatible { .. }), "{error}");
    }
    let other = Store::in_memory(store_options(0)).unwrap();
    let from = filled(&other, options().merge_operator(MergeOperator::Append)).snapshot().unwrap();
    let error = dictionary.copy_from(&from, 0..=u64::MAX).unwrap_err();
    assert!(matches!(error, Error::Incompatible { what: "the merge operator", .. }), "{error}");
    let same = Store::in_memory(store_options(0)).unwrap();
    let from = filled(&same, options()).snapshot().unwrap();
    assert_eq!(dictionary.copy_from(&from, 0..=u64::MAX).unwrap(), 500);
}

#[test]
fn a_name_is_one_dictionary_and_its_budget_comes_back_with_the_last_handle() {
    let (_, store) = simulated(0);
    let free = || store.budget().available_bytes();
    let before = free();
    let first = store.dictionary("d", options()).unwrap();
    let second = store.dictionary("d", DictionaryOptions::new()).unwrap();
    assert_eq!(before - free(), 16 << 20);
    first.insert(b"a", b"1").unwrap();
    assert_eq!(second.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    drop(first);
    store.commit(b"").unwrap();
    assert_eq!(before - free(), 16 << 20);
    drop(second);
    assert_eq!(free(), before);
    // What no commit has is not lost with the handles: the next commit takes it in.
    store.dictionary("d", options()).unwrap().insert(b"b", b"2").unwrap();
    assert_eq!(before - free(), 16 << 20);
    store.commit(b"").unwrap();
    assert_eq!(free(), before);
    let again = store.dictionary("d", options()).unwrap();
    assert_eq!(again.contains_many(&[b"a", b"b", b"c"]).unwrap(), [true, true, false]);
}

#[test]
fn a_dictionary_that_is_closed_refuses_those_who_still_hold_it() {
    let (_, store) = simulated(0);
    let dictionary = filled(&store, options());
    let uncommitted = store.close("d").unwrap_err();
    assert!(matches!(uncommitted, Error::InvalidOption { .. }), "{uncommitted}");
    store.commit(b"").unwrap();
    let snapshot = dictionary.snapshot().unwrap();
    let mut load = dictionary.load(Duplicates::Last).unwrap();
    store.close("d").unwrap();
    let refused =
        |result: crate::Result<()>| assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    refused(dictionary.insert(b"a", b"b"));
    refused(dictionary.insert_many_if_absent(&[b"a"], &[b"b"]));
    refused(dictionary.remove(b"a"));
    refused(dictionary.get(b"a").map(drop));
    refused(dictionary.contains_many(&[b"a"]).map(drop));
    refused(dictionary.snapshot().map(drop));
    refused(dictionary.scan().map(drop));
    refused(dictionary.flush());
    refused(dictionary.settle());
    refused(dictionary.compact());
    refused(dictionary.verify());
    refused(dictionary.load(Duplicates::Last).map(drop));
    refused(load.insert_many(&[b"a"], &[b"b"]));
    refused(load.finish().map(drop));
    refused(snapshot.get(b"a").map(drop));
    refused(snapshot.scan(0..=u64::MAX).map(drop));
    assert_eq!(store.budget().available_bytes(), store.budget().budget_bytes());
    let again = store.dictionary("d", options()).unwrap();
    assert!(all_there(&again, 0..500, 1, false));
}

#[test]
fn defaults_leave_room_for_others_in_a_usual_budget() {
    let store = Store::in_memory(StoreOptions::new()).unwrap();
    let all: Vec<Dictionary> = (0..3)
        .map(|number| store.dictionary(&number.to_string(), DictionaryOptions::new()).unwrap())
        .collect();
    assert_eq!(all[0].options().chosen_memory_bytes(), 64 << 20);
    assert!(store.filter("f", FilterOptions::new()).is_ok());
}
