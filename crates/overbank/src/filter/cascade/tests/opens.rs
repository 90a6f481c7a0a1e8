//! Opening: what was asked for against what is stored, readers, budgets.

use super::*;
use crate::Error;

#[test]
fn what_was_not_asked_for_comes_from_the_store_and_what_was_must_match() {
    let (device, store) = simulated(0);
    let asked = FilterOptions::new().memory_bytes(16 << 20).keys(5_000).false_positive_rate(1e-3).panes(3);
    let first = store.filter("f", asked).unwrap();
    store.commit(b"").unwrap();
    let other_panes = FilterOptions::new().memory_bytes(16 << 20).panes(2);
    let other_rate = FilterOptions::new().memory_bytes(16 << 20).false_positive_rate(1e-4);
    let refused = |store: &Store, options: FilterOptions| {
        let error = store.filter("f", options).unwrap_err();
        assert!(matches!(error, Error::Incompatible { .. }), "{error}");
    };
    drop((first, store));
    for read_only in [true, false] {
        let open = if read_only { Store::open_read_only_on } else { Store::open_on };
        let store = open(device.clone(), store_options(0)).unwrap();
        refused(&store, other_panes);
        refused(&store, other_rate);
        let lazy = Policy::LazyLevelled { fan_out: 5 };
        let filter = store.filter("f", FilterOptions::new().memory_bytes(17 << 20).policy(lazy)).unwrap();
        let options = filter.options();
        assert_eq!((options.expected_keys(), options.rate(), options.window_panes()), (5_000, 1e-3, 3));
        assert_eq!((options.chosen_memory_bytes(), options.merge_policy()), (17 << 20, lazy));
    }
}

#[test]
fn a_reader_needs_less_memory_than_a_writer_and_no_writers_memory() {
    let (device, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { memory_bytes: 64 << 20, writers: 8, ..small() }).unwrap();
    let hashes = keys(&store, 0..10_000);
    filter.insert(&hashes).unwrap();
    store.commit(b"").unwrap();
    drop((filter, store));
    let store = Store::open_read_only_on(device, store_options(0).memory_bytes(6 << 20)).unwrap();
    let too_little = store.filter("f", FilterOptions::new().memory_bytes(1 << 20)).unwrap_err();
    assert!(matches!(too_little, Error::InvalidOption { name: "memory_bytes", .. }), "{too_little}");
    let filter = store.filter("f", FilterOptions::new().memory_bytes(4 << 20)).unwrap();
    assert!(filter.contains_many(&hashes).unwrap().iter().all(|&there| there));
    assert!(filter.contains(hashes[7]).unwrap());
    assert!(matches!(filter.insert(&hashes), Err(Error::ReadOnly { .. })));
    assert!(matches!(filter.insert_one_if_absent(hashes[0]), Err(Error::ReadOnly { .. })));
    assert!(matches!(filter.insert_if_absent(&hashes), Err(Error::ReadOnly { .. })));
    assert!(filter.report().memory_bytes <= 4 << 20);
    let none = store.filter("other", FilterOptions::new()).unwrap_err();
    assert!(matches!(none, Error::NotFound { .. }), "{none}");
}

#[test]
fn defaults_leave_room_for_others_in_a_usual_budget() {
    let store = Store::in_memory(StoreOptions::new()).unwrap();
    let filters: Vec<Filter> =
        (0..4).map(|number| store.filter(&number.to_string(), FilterOptions::new()).unwrap()).collect();
    assert!(store.budget().budget_bytes() >= 2 * filters.len() * filters[0].options().chosen_memory_bytes());
    assert!(store.maplet("values", MapletOptions::new().value_bits(2)).is_ok());
}

#[test]
fn a_name_is_one_filter_and_its_budget_comes_back_with_the_last_handle() {
    let (_, store) = simulated(0);
    let free = || store.budget().available_bytes();
    let before = free();
    let first = store.filter("f", small()).unwrap();
    let second = store.filter("f", FilterOptions::new()).unwrap();
    assert_eq!(before - free(), 16 << 20);
    let hashes = keys(&store, 0..100);
    first.insert(&hashes).unwrap();
    assert!(second.contains_many(&hashes).unwrap().iter().all(|&there| there));
    let other = store.filter("f", FilterOptions::new().panes(2)).unwrap_err();
    assert!(matches!(other, Error::Incompatible { .. }), "{other}");
    drop(first);
    store.commit(b"").unwrap();
    assert_eq!(before - free(), 16 << 20);
    drop(second);
    assert_eq!(free(), before);
    // What no commit has is not lost with the handles: the next commit takes it in.
    store.filter("f", small()).unwrap().insert(&keys(&store, 100..200)).unwrap();
    assert_eq!(before - free(), 16 << 20);
    store.commit(b"").unwrap();
    assert_eq!(free(), before);
    let again = store.filter("f", small()).unwrap();
    assert!(again.contains_many(&keys(&store, 0..200)).unwrap().iter().all(|&there| there));
}

#[test]
fn a_filter_that_is_closed_refuses_those_who_still_hold_it() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", small()).unwrap();
    let hashes = keys(&store, 0..10);
    filter.insert(&hashes).unwrap();
    let uncommitted = store.close("f").unwrap_err();
    assert!(matches!(uncommitted, Error::InvalidOption { .. }), "{uncommitted}");
    store.commit(b"").unwrap();
    store.close("f").unwrap();
    let refused =
        |result: crate::Result<()>| assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    refused(filter.insert(&hashes));
    refused(filter.insert_one_if_absent(hashes[0]).map(drop));
    refused(filter.insert_if_absent(&hashes).map(drop));
    refused(filter.contains(hashes[0]).map(drop));
    refused(filter.contains_many(&hashes).map(drop));
    refused(filter.flush());
    refused(filter.compact());
    refused(filter.fingerprints().map(drop));
    assert_eq!(store.budget().available_bytes(), store.budget().budget_bytes());
    let again = store.filter("f", small()).unwrap();
    assert_eq!(again.contains_many(&hashes).unwrap(), [true; 10]);
}
