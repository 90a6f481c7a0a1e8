//! Count sketch against exact counts, and its error against the bounds it reports.

use super::*;
use crate::{Error, HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::collections::HashMap;

fn hasher(seed: u128) -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(seed))
}

fn hash(key: u64) -> KeyHash {
    hasher(1).hash_u64(key)
}

/// The number of successes that as many trials of at most this probability exceed with probability below 1e-10
/// (Bernstein).
fn binomial_limit(trials: f64, probability: f64) -> f64 {
    let (mean, log) = (trials * probability, 1e10f64.ln());
    mean + (2.0 * mean * log).sqrt() + 2.0 / 3.0 * log
}

/// A bound at confidence 1 - delta fails in at most a share delta of the seeds, for a heavy, a light and an absent key, for odd and
/// even numbers of rows. Each case trips by chance with less than 1e-10.
#[test]
fn error_bounds_hold_with_their_confidence() {
    let seeds = 1500u32;
    let skewed: Vec<(u64, i64)> = (0..400).map(|key| (key, 1 + 4000 / (key as i64 + 1))).collect();
    for (columns, depth) in [(64, 1), (64, 3), (128, 4), (32, 5)] {
        for (key, truth, delta) in [(0, 4001, 0.05), (399, 11, 0.1), (1000, 0, 0.3)] {
            let mut failures = 0.0;
            for seed in 0..seeds {
                let hasher = hasher(seed.into());
                let mut sketch = CountSketch::new(columns, depth, hasher).unwrap();
                skewed.iter().for_each(|&(key, weight)| sketch.update(hasher.hash_u64(key), weight));
                let bounds = sketch.bounds(hasher.hash_u64(key), 1.0 - delta);
                failures += f64::from(!(bounds.lower..=bounds.upper).contains(&truth));
            }
            let limit = binomial_limit(seeds.into(), delta);
            assert!(failures <= limit, "{failures} of {seeds} beyond at {columns} x {depth}, key {key}");
        }
    }
}

/// Chebyshev is loose; the variance of a row is not: it is that of the other keys' squared weights over the columns. 4000 seeds of
/// one row: the estimate of a variance of sums of bounded fourth moments is within 20 % but for 1e-9.
#[test]
fn a_row_has_no_bias_and_the_variance_of_theory() {
    let (seeds, columns) = (4000u32, 16);
    let (mut sum, mut squares) = (0.0, 0.0);
    for seed in 0..seeds {
        let hasher = hasher(seed.into());
        let mut sketch = CountSketch::new(columns, 1, hasher).unwrap();
        (0..200u64).for_each(|key| sketch.update(hasher.hash_u64(key), 3));
        let error = (sketch.estimate(hasher.hash_u64(7)) - 3) as f64;
        sum += error;
        squares += error * error;
    }
    let variance = 199.0 * 9.0 / f64::from(columns);
    let mean = sum / f64::from(seeds);
    assert!(mean.abs() < 6.5 * (variance / f64::from(seeds)).sqrt(), "bias {mean}");
    let ratio = squares / f64::from(seeds) / variance;
    assert!((0.8..1.2).contains(&ratio), "variance is {ratio} of theory");
}

/// Two keys agree in the signs of all of five rows with 1 in 32: signs that all rows share, as the lowest bit of a product with an odd
/// constant would be, agree in half of all pairs.
#[test]
fn the_signs_of_rows_are_independent() {
    let pairs = 32_000u64;
    let same =
        |pair: u64| (0..5).all(|row| signed(hash(2 * pair), row, 1) == signed(hash(2 * pair + 1), row, 1));
    let agree = (0..pairs).filter(|&pair| same(pair)).count() as f64;
    // 1000 on average, standard deviation 31: seven of them.
    assert!((780.0..1220.0).contains(&agree), "{agree}");
}

#[test]
fn the_second_moment_is_near_the_truth() {
    let mut sketch = CountSketch::new(2048, 5, hasher(1)).unwrap();
    let truth: f64 = (1..=1000u64).map(|key| (key * key) as f64).sum();
    (1..=1000).for_each(|key| sketch.update(hash(key), key as i64));
    // Seven standard errors of a row; the median of five is better.
    let limit = 7.0 * (2f64 / 2048.0).sqrt();
    assert!((sketch.second_moment() / truth - 1.0).abs() < limit, "{}", sketch.second_moment() / truth);
}

#[test]
fn sizes_follow_epsilon_and_delta() {
    let sketch = CountSketch::with_error(0.05, 0.01, hasher(1)).unwrap();
    assert_eq!((sketch.columns(), sketch.depth()), (3200, 7));
    for (epsilon, delta) in [(0.0, 0.1), (1.0, 0.1), (f64::NAN, 0.1), (0.1, 0.0), (0.1, 1.0), (0.1, f64::NAN)]
    {
        let refused = CountSketch::with_error(epsilon, delta, hasher(1));
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{epsilon} {delta}");
    }
    for (columns, depth) in [(0, 1), (1, 0), (1, 17)] {
        assert!(matches!(CountSketch::new(columns, depth, hasher(1)), Err(Error::InvalidOption { .. })));
    }
    for depth in 1..=DEPTH_MAX {
        let row = median::row_failure(depth, 0.01);
        assert!((median::median_failure(depth, row) - 0.01).abs() < 1e-6, "{depth} {row}");
    }
}

#[test]
fn at_the_end_of_the_type_cells_stop_and_bounds_are_unknown() {
    let (mut sketch, key) = (CountSketch::new(4, 3, hasher(1)).unwrap(), hash(1));
    sketch.update(key, i64::MAX);
    assert_eq!((sketch.estimate(key), sketch.saturated()), (i64::MAX, false));
    sketch.update(key, 1);
    assert_eq!((sketch.estimate(key), sketch.saturated()), (i64::MAX, true));
    let unknown = SignedBounds { lower: i64::MIN, estimate: i64::MAX, upper: i64::MAX };
    assert_eq!((sketch.bounds(key, 0.9), sketch.error_bound(0.9)), (unknown, u64::MAX));
    assert_eq!(CountSketch::from_bytes(&sketch.to_bytes()).unwrap(), sketch);

    let mut low = CountSketch::new(4, 3, hasher(1)).unwrap();
    low.update(key, i64::MIN);
    low.update(key, i64::MIN);
    assert!(low.saturated() && low.estimate(key) <= -i64::MAX, "{}", low.estimate(key));
    low.merge(&sketch).unwrap();
    assert_eq!(low.total_weight(), u64::MAX);
    let mut batch = CountSketch::new(4, 3, hasher(1)).unwrap();
    batch.update_batch(&[key, key], Some(&[i64::MAX, 1]));
    assert_eq!(batch, sketch);
}

#[test]
fn other_seeds_and_shapes_do_not_merge() {
    let mut sketch = CountSketch::new(4, 2, hasher(1)).unwrap();
    for (columns, depth, seed) in [(5, 2, 1), (4, 3, 1), (4, 2, 2)] {
        let other = CountSketch::new(columns, depth, hasher(seed)).unwrap();
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
        assert!(matches!(sketch.subtract(&other), Err(Error::Incompatible { .. })));
    }
}

proptest! {
    /// Cells are those of the obvious sums; the road there does not matter.
    #[test]
    fn cells_are_signed_sums_by_any_road(
        updates in prop::collection::vec((0u64..60, -1000i64..1000), 0..200),
        cut in 0usize..200, columns in 1u32..20, depth in 1u32..=16,
    ) {
        let empty = CountSketch::new(columns, depth, hasher(1)).unwrap();
        let mut one_by_one = empty.clone();
        let mut exact = HashMap::new();
        for &(key, weight) in &updates {
            one_by_one.update(hash(key), weight);
            *exact.entry(key).or_insert(0i64) += weight;
        }
        let mut cells = vec![0i64; (columns * depth) as usize];
        for (&key, &count) in &exact {
            for row in 0..depth {
                let column = keyhash::column(hash(key).fold(), row, columns.into()) as u32;
                let sign = if hash(key).low() >> row & 1 == 1 { -1 } else { 1 };
                cells[(row * columns + column) as usize] += sign * count;
            }
        }
        prop_assert_eq!(&one_by_one.cells, &cells);
        for (&key, &count) in &exact {
            let bounds = one_by_one.bounds(hash(key), 1.0);
            prop_assert!((bounds.lower..=bounds.upper).contains(&count), "{:?} {}", bounds, count);
        }

        let (hashes, weights): (Vec<_>, Vec<_>) = updates.iter().map(|&(key, weight)| (hash(key), weight)).unzip();
        let cut = cut.min(hashes.len());
        let (mut front, mut back) = (empty.clone(), empty.clone());
        front.update_batch(&hashes[..cut], Some(&weights[..cut]));
        back.update_batch(&hashes[cut..], Some(&weights[cut..]));
        back.merge(&front).unwrap();
        prop_assert_eq!(&back, &one_by_one);
        back.subtract(&front).unwrap();
        back.subtract(&one_by_one).unwrap();
        front.cells.iter_mut().for_each(|cell| *cell = -*cell);
        prop_assert_eq!(back.cells, front.cells);
    }

    #[test]
    fn bytes_come_back_and_forged_ones_do_not_panic(
        keys in prop::collection::vec(0u64.., 0..50), at in 0usize..64, value: u8,
    ) {
        let mut sketch = CountSketch::new(3, 2, hasher(1)).unwrap();
        sketch.update_batch(&keys.iter().map(|&key| hash(key)).collect::<Vec<_>>(), None);
        let bytes = sketch.to_bytes();
        prop_assert_eq!(&CountSketch::from_bytes(&bytes).unwrap(), &sketch);
        if let Ok(forged) = CountSketch::from_bytes(&format::forge(&bytes, at, value)) {
            let bounds = forged.bounds(hash(1), 0.99);
            prop_assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper);
        }
    }
}
