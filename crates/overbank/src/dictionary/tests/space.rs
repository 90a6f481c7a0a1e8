//! Flash that merging takes beside the dictionary, counted on a device that has no more; and merges that go on after a restart.

use super::*;
use crate::device::sim::Plan;

const VALUE_BYTES: usize = 100;

fn open_usual(store: &Store) -> Dictionary {
    store.dictionary("d", DictionaryOptions::new().memory_bytes(16 << 20)).unwrap()
}

fn insert(dictionary: &Dictionary, numbers: std::ops::Range<u64>) {
    for from in numbers.clone().step_by(10_000) {
        let numbers = from..(from + 10_000).min(numbers.end);
        let keys: Vec<[u8; 8]> = numbers.clone().map(u64::to_be_bytes).collect();
        let values: Vec<[u8; VALUE_BYTES]> = numbers.map(|number| [number as u8; VALUE_BYTES]).collect();
        dictionary.insert_many(&keys, &values).unwrap();
    }
}

fn check(dictionary: &Dictionary, count: u64) {
    let numbers: Vec<u64> = (0..count).step_by(997).collect();
    let keys: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
    let found = dictionary.get_many(&keys).unwrap();
    assert!(found.into_iter().eq(numbers.iter().map(|&number| Some(vec![number as u8; VALUE_BYTES]))));
}

/// A dictionary of runs of several lengths.
fn of_several_runs(commits: bool) -> (Arc<SimDevice>, Store, Dictionary, u64) {
    let (device, store) = simulated(0);
    let dictionary = open_usual(&store);
    let mut count = 0;
    for more in [400_000, 50_000, 10_000, 2_000] {
        insert(&dictionary, count..count + more);
        count += more;
        dictionary.flush().unwrap();
        dictionary.settle().unwrap();
        if commits {
            store.commit(b"").unwrap();
        }
    }
    let runs = dictionary.report().runs;
    assert!((2..=6).contains(&runs.len()), "{runs:?}");
    (device, store, dictionary, count)
}

#[test]
fn merging_all_takes_a_seventh_of_the_flash_beside() {
    for commits in [false, true] {
        let (device, store, dictionary, count) = of_several_runs(commits);
        let used = device.used_bytes();
        device.set_capacity_bytes(used / 100 * 115);
        dictionary.compact().unwrap();
        let report = dictionary.report();
        assert!(report.runs.len() == 1 && report.stalled.is_none() && report.items == count, "{report:?}");
        let published = dictionary.shared().tree.published();
        assert_eq!(published > 5, commits, "{published} records");
        check(&dictionary, count);
        store.commit(b"end").unwrap();
        assert!(device.used_bytes() <= used / 50 * 51, "{} after {used}", device.used_bytes());
        dictionary.verify().unwrap();
    }
}

#[test]
fn a_merge_that_was_cut_off_goes_on_after_a_restart() {
    let (device, store, dictionary, count) = of_several_runs(true);
    let all = device.used_bytes() / 4096;
    let before = device.io_counts().blocks_read;
    // Three quarters of a merge of everything.
    dictionary.shared().tree.begin_all();
    while device.io_counts().blocks_read - before < all * 3 / 4 {
        assert!(dictionary.shared().tree.step(true).unwrap());
    }
    store.commit(b"half").unwrap();
    assert!(!dictionary.shared().tree.version().merges.is_empty(), "nothing is half published");
    check(&dictionary, count);
    for is_crash in [false, true] {
        let image = Arc::new(if is_crash { device.crash(Plan::Nothing, 1) } else { device.fork() });
        let store = Store::open_on(image.clone(), store_options(0)).unwrap();
        let dictionary = open_usual(&store);
        check(&dictionary, count);
        let before = image.io_counts().blocks_read;
        dictionary.settle().unwrap();
        let read = image.io_counts().blocks_read - before;
        assert!(read < all * 2 / 5, "{read} of {all} blocks are read again");
        let report = dictionary.report();
        assert!(report.runs.len() == 1 && report.items == count, "{report:?}");
        check(&dictionary, count);
        dictionary.verify().unwrap();
        store.commit(b"one").unwrap();
    }
}

#[test]
fn merging_all_ends_deletions_of_which_all_that_was_older_is_gone() {
    let (_, store) = simulated(0);
    let options = DictionaryOptions::new().memory_bytes(64 << 20).ranks(true);
    let dictionary = small(&store, options, u128::MAX).unwrap();
    let (keys, values) = pairs(0..300, 1, true);
    dictionary.insert_many(&keys, &values).unwrap();
    dictionary.flush().unwrap();
    dictionary.remove_many(&keys).unwrap();
    // A merge that leaves nothing is due, and has not begun when newer items go to flash.
    dictionary.flush().unwrap();
    let (more_keys, more_values) = pairs(1_000..1_010, 1, true);
    dictionary.insert_many(&more_keys, &more_values).unwrap();
    dictionary.remove(&keys[0]).unwrap();
    dictionary.flush().unwrap();
    dictionary.settle().unwrap();
    let report = dictionary.report();
    assert_eq!((report.runs.len(), report.deletions), (1, 1), "another case than was meant: {report:?}");
    dictionary.compact().unwrap();
    let report = dictionary.report();
    assert_eq!((report.runs.len(), report.items, report.deletions), (1, 10, 0), "{report:?}");
    assert!(more_keys.iter().all(|key| dictionary.rank(key).unwrap().is_some()));
    // What is whole is left as it is.
    let written = dictionary.shared().tree.edits();
    dictionary.compact().unwrap();
    assert_eq!(dictionary.shared().tree.edits(), written);
}
