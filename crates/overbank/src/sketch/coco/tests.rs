//! CocoSketch against exact counts, and its error against the variance of theory.

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

fn add(sketch: &mut CocoSketch, key: u64, weight: u64) {
    sketch.update(hash(key), &key.to_le_bytes(), weight);
}

fn part_of(key: &[u8]) -> u8 {
    key[0] % 4
}

fn binomial_limit(trials: f64, probability: f64) -> f64 {
    let (mean, log) = (trials * probability, 1e10f64.ln());
    mean + (2.0 * mean * log).sqrt() + 2.0 / 3.0 * log
}

/// 120 keys of 1 to 8 times 15, in 300 updates whose weights differ, in an order without pattern.
fn stream() -> Vec<(u64, u64)> {
    let mut updates: Vec<(u64, u64)> =
        (0..120).flat_map(|key| [(key, 5 * (1 + key % 8)), (key, 10 * (1 + key % 8))]).collect();
    updates.sort_by_key(|&(key, weight)| hash(key * 1000 + weight));
    updates
}

/// The mean and the variance of the estimates of keys and of a part, over seeds. 3000 runs: the mean is within 6.5 standard errors but
/// for 1e-10. The variance of one row is that of theory, here within 25 %: a replacement with any other probability than
/// weight / (count + weight) fails one or the other. Halves that are merged are no worse.
#[test]
fn estimates_are_unbiased_with_the_variance_of_theory() {
    let (runs, columns, stream) = (3000u32, 20, stream());
    let total: u64 = stream.iter().map(|&(_, weight)| weight).sum();
    for (depth, is_merged) in [(1, false), (2, false), (3, false), (1, true), (2, true)] {
        let mut sums = [(0.0, 0.0); 3];
        let truths =
            [15.0, 15.0 * 8.0, stream.iter().filter(|(key, _)| key % 4 == 1).map(|&(_, w)| w as f64).sum()];
        for run in 0..runs {
            let hasher = hasher(run.into());
            let empty = |random| CocoSketch::new(columns, depth, 8, hasher).unwrap().with_random(random);
            let (mut sketch, mut other) = (empty(2 * u64::from(run)), empty(2 * u64::from(run) + 1));
            for (i, (key, weight)) in stream.iter().enumerate() {
                let to = if is_merged && i % 2 == 1 { &mut other } else { &mut sketch };
                to.update(hasher.hash(&key.to_le_bytes()), &key.to_le_bytes(), *weight);
            }
            sketch.merge(&other).unwrap();
            assert_eq!(sketch.total_weight(), total);
            let part = sketch.by_part(part_of).get(&1).copied().unwrap_or(0);
            let key = |key: u64| sketch.estimate(hasher.hash(&key.to_le_bytes()));
            for ((sum, squares), (estimate, truth)) in
                sums.iter_mut().zip([key(0), key(7), part].into_iter().zip(truths))
            {
                let error = estimate as f64 - truth;
                *sum += error;
                *squares += error * error;
            }
        }
        for ((sum, squares), truth) in sums.into_iter().zip(truths) {
            let runs = f64::from(runs);
            let variance = truth * total as f64 / f64::from(columns);
            let what = format!("{truth} of {total} in {depth} rows, merged: {is_merged}");
            assert!(
                (sum / runs).abs() < 6.5 * (squares / runs / runs).sqrt(),
                "bias {} of {what}",
                sum / runs
            );
            let ratio = squares / runs / variance;
            assert!(ratio < 1.25, "the variance is {ratio} times that of theory: {what}");
            // One row: f * (total - f) / columns, exactly.
            let exact = (total as f64 - truth) / total as f64;
            assert!(
                depth > 1 || ratio > 0.75 * exact,
                "the variance is {ratio} times that of theory: {what}"
            );
        }
    }
}

#[test]
fn bounds_hold_with_their_confidence() {
    let (runs, stream) = (1500u32, stream());
    for (key, truth, delta) in [(0, 15, 0.2), (7, 120, 0.05), (1000, 0, 0.1)] {
        let mut failures = 0.0;
        for run in 0..runs {
            let hasher = hasher(run.into());
            let mut sketch = CocoSketch::new(20, 2, 8, hasher).unwrap().with_random(run.into());
            for (key, weight) in &stream {
                sketch.update(hasher.hash(&key.to_le_bytes()), &key.to_le_bytes(), *weight);
            }
            let bounds = sketch.bounds(hasher.hash(&u64::to_le_bytes(key)), 1.0 - delta);
            let own: u64 = sketch.own_slots(hasher.hash(&u64::to_le_bytes(key))).map(|slot| slot.count).sum();
            assert!(own >= truth && bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper);
            failures += f64::from(!(bounds.lower..=bounds.upper).contains(&truth));
        }
        assert!(failures <= binomial_limit(runs.into(), delta), "{failures} of {runs} beyond for {key}");
    }
}

/// A key that two sketches have in different rows is in two slots of the merged one: an answer that took the last one for the key's
/// would lose a half.
#[test]
fn slots_of_one_key_are_summed() {
    let empty = CocoSketch::new(64, 2, 8, hasher(1)).unwrap();
    let row = |row| place_in_row(64, row, hash(1));
    // A key that shares the first row's slot with key 1, but not the second's.
    let other = (2..)
        .find(|&key| place_in_row(64, 0, hash(key)) == row(0) && place_in_row(64, 1, hash(key)) != row(1))
        .unwrap();
    let (mut first, mut second) = (empty.clone(), empty.clone());
    add(&mut first, 1, 30);
    assert_eq!(first.slots[row(0)].count, 30);
    add(&mut second, other, 1);
    add(&mut second, 1, 12);
    assert_eq!(second.slots[row(1)].count, 12);
    first.merge(&second).unwrap();
    // The slot of the first row is the other key's with 1 in 31; not with these random numbers.
    assert_eq!(first.slots[row(0)], Slot { hash: hash(1), count: 31 });
    assert_eq!(first.estimate(hash(1)), 43);
    assert_eq!(first.by_part(|key| key.to_vec()), BTreeMap::from([(1u64.to_le_bytes().to_vec(), 43)]));
    let top = first.top(9, 0.9);
    assert_eq!((top.len(), top[0].count.estimate, top[0].hash), (1, 43, hash(1)));
    // Another update goes to one of them.
    add(&mut first, 1, 2);
    assert_eq!((first.estimate(hash(1)), first.total_weight()), (45, 45));
}

#[test]
fn at_the_end_of_the_type_counts_stop_and_bounds_are_unknown() {
    let mut sketch = CocoSketch::new(1, 2, 8, hasher(1)).unwrap();
    add(&mut sketch, 1, u64::MAX - 1);
    assert!(!sketch.saturated());
    assert_eq!(sketch.bounds(hash(1), 0.9).upper, u64::MAX - 1);
    add(&mut sketch, 2, u64::MAX);
    add(&mut sketch, 3, u64::MAX);
    assert!(sketch.saturated() && sketch.slots.iter().all(|slot| slot.count >= u64::MAX - 1));
    assert_eq!((sketch.bounds(hash(2), 0.9).lower, sketch.bounds(hash(2), 0.9).upper), (0, u64::MAX));
    assert_eq!(sketch.part_bounds(7, 0.9), CountBounds { lower: 0, estimate: 7, upper: u64::MAX });
    assert_eq!(CocoSketch::from_bytes(&sketch.to_bytes()).unwrap(), sketch);
}

#[test]
fn options_out_of_range_are_refused_and_other_shapes_do_not_merge() {
    for (columns, depth, bytes) in [(0, 1, 0), (1, 0, 0), (1, 17, 0), (1, 1, 1 << 15)] {
        assert!(matches!(
            CocoSketch::new(columns, depth, bytes, hasher(1)),
            Err(Error::InvalidOption { .. })
        ));
    }
    let mut sketch = CocoSketch::new(4, 2, 8, hasher(1)).unwrap();
    for (columns, depth, bytes, seed) in [(5, 2, 8, 1), (4, 3, 8, 1), (4, 2, 9, 1), (4, 2, 8, 2)] {
        let other = CocoSketch::new(columns, depth, bytes, hasher(seed)).unwrap();
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
    }
}

proptest! {
    #[test]
    fn the_sums_are_exact_and_enough_slots_count_exactly(
        updates in prop::collection::vec((0u64..60, 0u64..1000), 0..200),
        cut in 0usize..200, columns in 1u32..20, depth in 1u32..=16,
    ) {
        let cut = cut.min(updates.len());
        let (mut sketch, mut wide) = (CocoSketch::new(columns, depth, 8, hasher(1)).unwrap(), CocoSketch::new(1 << 12, 4, 8, hasher(1)).unwrap());
        let (mut again, mut other) = (sketch.clone(), sketch.clone());
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for (i, &(key, weight)) in updates.iter().enumerate() {
            *exact.entry(key).or_default() += weight;
            add(&mut sketch, key, weight);
            add(&mut again, key, weight);
            add(&mut wide, key, weight);
            if i < cut { add(&mut other, key, weight) }
        }
        prop_assert_eq!(&sketch, &again);
        other.merge(&sketch).unwrap();
        let total: u64 = exact.values().sum();
        let other_total: u64 = updates[..cut].iter().map(|&(_, weight)| weight).sum();
        prop_assert_eq!(sketch.slots.iter().map(|slot| slot.count).sum::<u64>(), total);
        prop_assert_eq!(other.slots.iter().map(|slot| slot.count).sum::<u64>(), total + other_total);
        for (&key, &truth) in &exact {
            prop_assert!(sketch.own_slots(hash(key)).map(|slot| slot.count).sum::<u64>() >= truth);
            // Sixty keys in four rows of 4096: each has a slot of its own.
            prop_assert_eq!(wide.estimate(hash(key)), truth);
        }
        let mut parts = BTreeMap::new();
        for (&key, &truth) in exact.iter().filter(|(_, truth)| **truth > 0) {
            *parts.entry(part_of(&key.to_le_bytes())).or_insert(0) += truth;
        }
        prop_assert_eq!(wide.by_part(part_of), parts);
    }

    #[test]
    fn bytes_come_back_and_forged_ones_do_not_panic(
        keys in prop::collection::vec(0u64.., 0..50), at: prop::sample::Index, value: u8,
    ) {
        let mut sketch = CocoSketch::new(3, 2, 5, hasher(1)).unwrap();
        keys.iter().for_each(|&key| add(&mut sketch, key, key >> 8));
        let bytes = sketch.to_bytes();
        prop_assert_eq!(&CocoSketch::from_bytes(&bytes).unwrap(), &sketch);
        if let Ok(mut forged) = CocoSketch::from_bytes(&format::forge(&bytes, at.index(bytes.len() - 40), value)) {
            prop_assert_eq!(forged.top(9, 0.9).len(), forged.by_part(|key| key.to_vec()).len());
            add(&mut forged, 1, 1);
        }
    }
}
