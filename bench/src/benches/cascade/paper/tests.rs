//! The cascade against a map of counts, and what it reads.

use super::super::hasher;
use super::*;
use crate::Random;
use std::collections::HashMap;

/// A quotient filter of 2^9 slots in RAM.
const MEMORY_BYTES: usize = 24 << 10;

fn hash(key: u64) -> KeyHash {
    hasher().hash_u64(key)
}

/// Against a set, over all the shapes that levels take while it fills, and reopened.
#[test]
fn keys_are_found_and_others_at_the_rate() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let layout = Layout::new(MEMORY_BYTES, 20_000, false).expect("it fits");
    assert!(layout.levels() >= 4, "{layout:?}");
    let mut filter = Paper::open(folder.path(), layout).expect("opened");
    let hashes: Vec<KeyHash> = (0..20_000).map(hash).collect();
    for (i, batch) in hashes.chunks(512).enumerate() {
        filter.insert(batch).expect("inserted");
        let some: Vec<KeyHash> = hashes[..i * 512 + batch.len()].iter().copied().step_by(509).collect();
        assert!(filter.contains(&some).expect("read").iter().all(|&found| found), "after batch {i}");
    }
    filter.finish().expect("synced");
    let mut again = Paper::open(folder.path(), layout).expect("opened again");
    assert!(again.contains(&hashes[18_000..]).expect("read").iter().all(|&found| found));
    let unknown: Vec<KeyHash> = (1 << 32..(1 << 32) + 10_000).map(hash).collect();
    let hits = again.contains(&unknown).expect("read").iter().filter(|&&found| found).count();
    // At most 0.05 % of 10,000; 30 and more of 5 come once in 10^13 tests.
    assert!(hits < 30, "{hits}");
}

/// Ten operations on few keys, so that tombstones meet their entries in RAM, in a merge, or only in a look-up.
#[test]
fn removals_take_back_one_insert_each() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let layout = Layout::new(MEMORY_BYTES, 40_000, true).expect("it fits");
    let mut filter = Paper::open(folder.path(), layout).expect("opened");
    let (mut random, mut counts) = (Random::new(9), HashMap::<u64, u32>::new());
    for step in 0..30_000 {
        let key = random.below(600);
        let count = counts.entry(key).or_default();
        if *count > 0 && random.below(2) == 0 {
            *count -= 1;
            filter.remove(&[hash(key)]).expect("removed");
        } else {
            *count += 1;
            filter.insert(&[hash(key)]).expect("inserted");
        }
        if step % 5_000 == 4_999 {
            for (&key, &count) in &counts {
                // With 600 keys of 2^24 fingerprints, no two are alike.
                assert_eq!(filter.contains(&[hash(key)]).expect("read"), [count > 0], "key {key}");
            }
        }
    }
}

#[test]
fn a_cascade_that_is_built_has_full_levels_and_finds_its_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let layout = Layout::new(MEMORY_BYTES, 5_000, false).expect("it fits");
    let keys = Keys::new(layout.entries_max());
    Paper::build(folder.path(), layout, keys).expect("built");
    let mut filter = Paper::open(folder.path(), layout).expect("opened");
    assert!(filter.levels.iter().all(Option::is_some));
    let hashes = keys.first(layout.entries_max() as usize);
    assert!(filter.contains(&hashes).expect("read").iter().all(|&found| found));
    assert!(Paper::build(folder.path(), layout, Keys::new(1_000)).is_err());
}

#[test]
fn what_it_cannot_do_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let layout = Layout::new(MEMORY_BYTES, 100, false).expect("it fits");
    let mut filter = Paper::open(folder.path(), layout).expect("opened");
    assert!(filter.remove(&[hash(1)]).is_err());
    let hashes: Vec<KeyHash> = (0..layout.entries_max() * 3).map(hash).collect();
    let error = filter.insert(&hashes).expect_err("more than all levels hold");
    assert!(error.to_string().contains("full"), "{error}");
    std::fs::write(file_of(folder.path(), 1), [0; 100]).expect("written");
    assert!(Paper::open(folder.path(), layout).is_err());
}
