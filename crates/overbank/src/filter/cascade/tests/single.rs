//! One key at a time, and keys that are not hashed: the answers are those of batches.

use super::*;
use crate::Error;

/// Fingerprints that no two of the keys share.
fn long() -> FilterOptions {
    FilterOptions { keys: 1 << 30, false_positive_rate: 1e-9, ..small() }
}

#[test]
fn a_stream_that_is_asked_key_by_key_fills_memtables_runs_in_ram_and_flash() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { writers: 2, memory_bytes: 20 << 20, ..long() }).unwrap();
    let mut random = Random(7);
    let (mut new, mut seen) = (0u64, std::collections::HashSet::new());
    for _ in 0..1_500_000 {
        let key = random.below(1 << 21);
        let hash = store.hasher().hash_u64(key);
        let is_new = filter.insert_one_if_absent(hash).unwrap();
        assert_eq!(is_new, seen.insert(key), "key {key}");
        new += u64::from(is_new);
    }
    let report = filter.report();
    assert!(report.memory_bytes <= 20 << 20 && !report.runs.is_empty() && report.in_memory > 0, "{report:?}");
    assert_eq!(report.occurrences, new);
    for key in 0..3_000 {
        assert_eq!(filter.contains(store.hasher().hash_u64(key)).unwrap(), seen.contains(&key));
    }
}

#[test]
fn packed_runs_are_joined_for_single_questions_too() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", FilterOptions { memory_bytes: 64 << 20, ..long() }).unwrap();
    let keys_max = 1 << 20;
    for key in 0..keys_max {
        assert!(filter.insert_one_if_absent(store.hasher().hash_u64(key)).unwrap());
    }
    let version = filter.shared().tree.version();
    assert!(version.frozen.len() <= 5 && version.runs.is_empty(), "{} runs in RAM", version.frozen.len());
}

#[test]
fn removals_are_seen_wherever_the_insertions_are() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let [hash] = keys(&store, [7])[..] else { panic!("one key") };
    // In a memtable, in a packed run, on flash, each taken out of the next memtable.
    for place in 0..3 {
        assert!(filter.insert_one_if_absent(hash).unwrap() && !filter.insert_one_if_absent(hash).unwrap());
        match place {
            0 => {}
            1 => filter.shared().freeze_all().unwrap(),
            _ => filter.flush().unwrap(),
        }
        assert!(filter.contains(hash).unwrap());
        filter.remove(&[hash]).unwrap();
        assert_eq!((filter.contains(hash).unwrap(), filter.count(hash).unwrap()), (false, 0));
    }
}

#[test]
fn keys_are_hashed_as_the_store_hashes_them() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let words = ["one", "two", "three", "two"];
    let hashes = words.map(|word| store.hasher().hash(word.as_bytes()));
    assert_eq!(filter.insert_keys_if_absent(&words).unwrap(), [true, true, true, false]);
    assert_eq!(filter.contains_many(&hashes).unwrap(), [true; 4]);
    filter.insert_keys(&[b"two".to_vec()]).unwrap();
    assert_eq!(filter.count_many(&hashes).unwrap(), [1, 2, 1, 2]);
    filter.remove_keys(&["one"]).unwrap();
    assert_eq!(filter.contains_keys(&words).unwrap(), [false, true, true, true]);
    assert_eq!(
        filter.remove_keys_if_present(&["one", "two", "two", "two"]).unwrap(),
        [false, true, true, false]
    );
    let maplet = store.maplet("m", small_maplet(3)).unwrap();
    maplet.insert_keys(&words, &[1, 2, 3, 4]).unwrap();
    assert_eq!(maplet.values_of_keys(&words[..2]).unwrap(), [vec![(1, 1)], vec![(2, 1), (4, 1)]]);
}

#[test]
fn answers_have_the_length_of_the_questions() {
    let (_, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let hashes = keys(&store, 0..3);
    let mut answers = [true; 3];
    filter.insert_if_absent_into(&hashes[..2], &mut answers[..2]).unwrap();
    filter.insert_if_absent_into(&hashes, &mut answers).unwrap();
    assert_eq!(answers, [false, false, true]);
    filter.remove_if_present_into(&hashes[..1], &mut answers[..1]).unwrap();
    filter.contains_many_into(&hashes, &mut answers).unwrap();
    assert_eq!(answers, [false, true, true]);
    let refused = |result: crate::Result<()>| {
        assert!(matches!(result, Err(Error::InvalidOption { name: "answers", .. })), "{result:?}");
    };
    refused(filter.insert_if_absent_into(&hashes, &mut answers[..2]));
    refused(filter.remove_if_present_into(&hashes[..2], &mut answers));
    refused(filter.contains_many_into(&hashes, &mut []));
    refused(filter.count_many_into(&[], &mut [0]));
}
