//! UnivMon against exact counts, and its sums against their standard errors.

use super::*;
use crate::{Error, HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::collections::HashMap;

fn hasher(seed: u128) -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(seed))
}

fn hash(key: u64) -> KeyHash {
    hasher(1).hash(&key.to_le_bytes())
}

fn empty(levels: u32, columns: u32, top: usize) -> UnivMon {
    UnivMon::new(levels, columns, 3, top, 8, hasher(1)).unwrap()
}

fn add(sketch: &mut UnivMon, key: u64, weight: u64) {
    sketch.update(hash(key), &key.to_le_bytes(), weight);
}

fn entropy_of(counts: impl Iterator<Item = u64> + Clone) -> f64 {
    let total = counts.clone().sum::<u64>() as f64;
    counts.map(|count| -(count as f64 / total) * (count as f64 / total).log2()).sum()
}

/// 40 seeds of a stream of 3000 keys, Zipf-like, through five levels of 32 heavy keys: no estimate is off by more than 6.5 of its own standard
/// errors and some of the sketch's, and the mean is within 6.5 standard errors of the mean. That fails by chance with less than
/// 1e-9. A sum that forgot a level, or to take the heavy keys of the next one off, is off by half and more.
#[test]
fn sums_are_unbiased_within_their_standard_errors() {
    let runs = 40u32;
    let count_of = |key: u64| 1 + 3000 / (key + 1);
    let counts = (0..3000).map(count_of);
    let truths = [
        3000.0,
        counts.clone().map(|count| (count as f64).powi(2)).sum::<f64>().sqrt(),
        entropy_of(counts.clone()),
    ];
    let mut errors = [const { Vec::new() }; 3];
    for run in 0..runs {
        let hasher = hasher(run.into());
        let mut sketch = UnivMon::new(8, 512, 5, 64, 8, hasher).unwrap();
        for round in 0..3001 {
            for key in (0..3000).take_while(|&key| count_of(key) > round) {
                sketch.update(hasher.hash(&key.to_le_bytes()), &key.to_le_bytes(), 1);
            }
        }
        assert_eq!(sketch.total_weight(), counts.clone().sum::<u64>());
        let sums = [sketch.cardinality(), sketch.l2(), sketch.entropy()];
        for ((sum, truth), errors) in sums.into_iter().zip(truths).zip(&mut errors) {
            let error = sum.estimate - truth;
            // What the count sketches' errors add: some percent.
            assert!(error.abs() < 6.5 * sum.standard_error + 0.05 * truth, "{sum:?} of {truth}, run {run}");
            assert!(
                sum.standard_error > 0.0 && sum.standard_error < 0.4 * truth,
                "{sum:?} of {truth}, run {run}"
            );
            errors.push(error);
        }
    }
    for (errors, truth) in errors.iter().zip(truths) {
        let mean = errors.iter().sum::<f64>() / f64::from(runs);
        let sigma = (errors.iter().map(|error| error * error).sum::<f64>() / f64::from(runs)).sqrt();
        assert!(mean.abs() < 6.5 * sigma / f64::from(runs).sqrt() + 0.03 * truth, "bias {mean} of {truth}");
    }
}

/// The paper's sketch of level j counts every key that passes j hash functions: the strata from j on add up to it, cell by cell. A level
/// that took other columns than its neighbours would not.
#[test]
fn strata_add_up_to_the_levels_of_the_paper() {
    let mut sketch = empty(5, 16, 4);
    let mut levels = vec![CountSketch::new(16, 3, hasher(1)).unwrap(); 5];
    for key in 0..500u64 {
        add(&mut sketch, key, key);
        for (level, counts) in levels.iter_mut().enumerate() {
            if deepest_level(hash(key)) >= level {
                counts.update(hash(key), key as i64);
            }
        }
    }
    let mut suffix = CountSketch::new(16, 3, hasher(1)).unwrap();
    for (stratum, level) in sketch.strata.iter().zip(&levels).rev() {
        suffix.merge(&stratum.counts).unwrap();
        assert_eq!(&suffix, level);
        assert!(stratum.heavy.len() == 4 || stratum.counts.total_weight() == 0);
    }
}

/// Each level passes half of the keys to the next, and says nothing of the bits that sign a key and find its home in the index, nor of its
/// columns: of 2^16 keys those of a level have each such bit in half of them, within eight standard errors (672 checks, each failing by
/// chance with less than 3e-14, by Hoeffding's inequality). Levels chosen by the bits of the homes have them all alike.
#[test]
fn levels_are_independent_of_homes_signs_and_columns() {
    let hashes: Vec<KeyHash> = (0..1 << 16).map(hash).collect();
    for level in 0..7 {
        let keys: Vec<KeyHash> =
            hashes.iter().copied().filter(|&hash| deepest_level(hash) == level).collect();
        let expected = f64::from(1 << (15 - level));
        assert!((keys.len() as f64 - expected).abs() < 8.0 * expected.sqrt(), "{} of {expected}", keys.len());
        let half = |what: &str, of: &dyn Fn(KeyHash) -> u64, bits: std::ops::Range<u32>| {
            for bit in bits {
                let set = keys.iter().filter(|&&hash| of(hash) >> bit & 1 == 1).count() as f64;
                let keys = keys.len() as f64;
                let limit = 4.0 * keys.sqrt();
                assert!(
                    (set - keys / 2.0).abs() < limit,
                    "{what}, bit {bit}: {set} of {keys}, level {level}"
                );
            }
        };
        half("sign", &KeyHash::low, 0..16);
        half("home", &KeyHash::low, 48..64);
        half("fold", &KeyHash::fold, 0..64);
    }
}

/// A heap that admits no key while it is not full would keep the first key only, and miss nearly all of these.
#[test]
fn heavy_keys_are_found() {
    let mut sketch = empty(4, 512, 16);
    for round in 0..200u64 {
        (0..10).for_each(|key| add(&mut sketch, key, 5 + key));
        (0..20).for_each(|i| add(&mut sketch, 1000 + 20 * round + i, 1));
    }
    let top = sketch.top(10, 0.99);
    let keys: Vec<u64> = top.iter().map(|heavy| u64::from_le_bytes(heavy.key.try_into().unwrap())).collect();
    assert_eq!(keys, (0..10).rev().collect::<Vec<_>>());
    for (heavy, key) in top.iter().zip(keys) {
        let truth = 200 * (5 + key);
        assert!(heavy.count.lower <= truth && truth <= heavy.count.upper, "{:?} of {truth}", heavy.count);
        assert!(heavy.count.estimate.abs_diff(truth) < 100, "{:?} of {truth}", heavy.count);
    }
}

/// Of 250 keys in four strata that do not keep all of theirs: an error asked for with each key would be a pass over all cells for each.
#[test]
fn listing_the_top_asks_for_the_error_of_a_stratum_once() {
    let mut sketch = empty(4, 32, 100);
    (0..4000).for_each(|key| add(&mut sketch, key, 1 + 4000 / (key + 1)));
    assert!(!sketch.strata.iter().any(Stratum::keeps_all));
    let mut asked = 0;
    let top = sketch.top_within(250, |stratum| {
        asked += 1;
        stratum.error(0.9)
    });
    assert_eq!((asked, top.len()), (4, 250));
    assert_eq!(top, sketch.top(250, 0.9));
    for heavy in top {
        assert_eq!(heavy.count, sketch.bounds(heavy.hash, 0.9));
    }
    // A stratum of none of these keys is not asked about.
    let mut strata = 0;
    let _ = sketch.top_within(1, |stratum| {
        strata += 1;
        stratum.error(0.9)
    });
    assert_eq!(strata, 1);
}

/// In one cell every key seems to weigh what the one that came does, or its opposite.
#[test]
fn a_key_that_a_full_stratum_never_saw_may_weigh_nothing() {
    let mut sketch = UnivMon::new(1, 1, 1, 1, 8, hasher(1)).unwrap();
    add(&mut sketch, 1, 10);
    assert_eq!(sketch.bounds(hash(1), 0.9), CountBounds { lower: 10, estimate: 10, upper: 10 });
    let seeming: Vec<CountBounds> = (2..34).map(|key| sketch.bounds(hash(key), 0.9)).collect();
    assert!(seeming.iter().any(|bounds| bounds.estimate == 10));
    assert!(seeming.iter().all(|bounds| bounds.lower == 0), "{seeming:?}");
}

#[test]
fn changes_are_found_greatest_first() {
    let (mut before, mut after) = (empty(4, 512, 16), empty(4, 512, 16));
    for key in 0..300 {
        add(&mut before, key, 1 + 1000 / (key + 1));
        add(&mut after, key, 1 + 1000 / (key + 1));
    }
    add(&mut after, 7, 5000);
    add(&mut before, 299, 3000);
    let changes = after.changes(&before, 1000).unwrap();
    assert_eq!(changes.iter().map(|change| change.hash).collect::<Vec<_>>(), [hash(7), hash(299)]);
    assert!(changes[0].after > changes[0].before && changes[1].after < changes[1].before);
    assert_eq!(changes[1].key, 299u64.to_le_bytes());
}

#[test]
fn at_the_end_of_the_type_counts_stop_and_bounds_are_unknown() {
    let mut sketch = empty(1, 4, 2);
    add(&mut sketch, 1, i64::MAX as u64);
    assert!(!sketch.saturated());
    assert_eq!(sketch.bounds(hash(1), 0.9).upper, i64::MAX as u64);
    add(&mut sketch, 2, u64::MAX);
    (3..9).for_each(|key| add(&mut sketch, key, u64::MAX));
    assert!(
        sketch.saturated() && sketch.total_weight() == u64::MAX && sketch.bounds(hash(1), 0.9).saturated()
    );
    let mut twin = UnivMon::from_bytes(&sketch.to_bytes()).unwrap();
    twin.merge(&sketch).unwrap();
    assert!(twin.saturated() && twin.l2().estimate > 0.0 && twin.entropy().estimate >= 0.0);
}

#[test]
fn options_out_of_range_are_refused_and_other_shapes_do_not_merge() {
    for (levels, columns, depth, top, bytes) in [
        (0, 1, 1, 1, 1),
        (33, 1, 1, 1, 1),
        (1, 0, 1, 1, 1),
        (1, 1, 17, 1, 1),
        (1, 1, 1, 0, 1),
        (1, 1, 1, 1, 1 << 15),
    ] {
        let refused = UnivMon::new(levels, columns, depth, top, bytes, hasher(1));
        assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    }
    let mut sketch = UnivMon::new(2, 4, 3, 4, 8, hasher(1)).unwrap();
    for (levels, columns, depth, top, bytes, seed) in [
        (3, 4, 3, 4, 8, 1),
        (2, 5, 3, 4, 8, 1),
        (2, 4, 2, 4, 8, 1),
        (2, 4, 3, 5, 8, 1),
        (2, 4, 3, 4, 9, 1),
        (2, 4, 3, 4, 8, 2),
    ] {
        let other = UnivMon::new(levels, columns, depth, top, bytes, hasher(seed)).unwrap();
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
        assert!(matches!(sketch.changes(&other, 1), Err(Error::Incompatible { .. })));
    }
}

proptest! {
    /// While every stratum keeps its keys, every answer is exact, merged or not; the cells always are those of one stream.
    #[test]
    fn few_keys_are_exact(
        updates in prop::collection::vec((0u64..60, 0u64..50), 0..200), cut in 0usize..200, levels in 1u32..6, columns in 1u32..20,
    ) {
        let of = |updates: &[(u64, u64)], top: usize| {
            let mut sketch = empty(levels, columns, top);
            updates.iter().for_each(|&(key, weight)| add(&mut sketch, key, weight));
            sketch
        };
        let cut = cut.min(updates.len());
        let mut exact: HashMap<u64, u64> = HashMap::new();
        updates.iter().filter(|update| update.1 > 0).for_each(|&(key, weight)| *exact.entry(key).or_default() += weight);
        let mut merged = of(&updates[cut..], 60);
        merged.merge(&of(&updates[..cut], 60)).unwrap();
        for sketch in [of(&updates, 60), merged] {
            prop_assert_eq!(sketch.cardinality(), KeySum { estimate: exact.len() as f64, standard_error: 0.0 });
            let squares: f64 = exact.values().map(|&count| (count as f64).powi(2)).sum();
            prop_assert!((sketch.l2().estimate - squares.sqrt()).abs() < 1e-6);
            if !exact.is_empty() {
                prop_assert!((sketch.entropy().estimate - entropy_of(exact.values().copied())).abs() < 1e-9);
            }
            for key in 0..60 {
                let truth = exact.get(&key).copied().unwrap_or(0);
                prop_assert_eq!(sketch.bounds(hash(key), 0.9), CountBounds { lower: truth, estimate: truth, upper: truth });
            }
            prop_assert_eq!(UnivMon::from_bytes(&sketch.to_bytes()).unwrap().to_bytes(), sketch.to_bytes());
        }
        let (whole, mut merged) = (of(&updates, 3), of(&updates[cut..], 3));
        merged.merge(&of(&updates[..cut], 3)).unwrap();
        for (whole, merged) in whole.strata.iter().zip(&merged.strata) {
            prop_assert_eq!(&whole.counts, &merged.counts);
            prop_assert_eq!(whole.heavy.len(), merged.heavy.len());
        }
    }

    #[test]
    fn forged_bytes_do_not_panic(
        keys in prop::collection::vec(0u64.., 0..50), at: prop::sample::Index, value: u8,
    ) {
        let mut sketch = UnivMon::new(2, 3, 1, 2, 5, hasher(1)).unwrap();
        keys.iter().for_each(|&key| add(&mut sketch, key, key >> 8));
        let bytes = sketch.to_bytes();
        if let Ok(mut forged) = UnivMon::from_bytes(&format::forge(&bytes, at.index(bytes.len() - 40), value)) {
            prop_assert!(forged.top(9, 0.9).len() <= 4);
            let _ = (forged.entropy(), forged.cardinality(), forged.l2());
            add(&mut forged, 1, 1);
            forged.merge(&sketch).unwrap();
        }
    }
}
