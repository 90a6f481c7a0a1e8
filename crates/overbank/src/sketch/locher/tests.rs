//! Locher's sketch against exact sets, and its error against the theory.

use super::*;
use crate::{Error, HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::collections::HashSet;

fn hasher(seed: u128) -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(seed))
}

fn empty(columns: u32, depth: u32, top: usize) -> Locher {
    Locher::new(columns, depth, top, 8, hasher(1)).unwrap()
}

fn add(sketch: &mut Locher, seed: u128, source: u64, item: u64) {
    let hasher = hasher(seed);
    sketch.update(hasher.hash_u64(source), &source.to_le_bytes(), hasher.hash_u64(!item));
}

fn estimate(sketch: &Locher, seed: u128, source: u64) -> f64 {
    sketch.estimate(hasher(seed).hash_u64(source))
}

/// One cell from no item to far beyond its registers' range of exact ranks: 2000 seeds, so that the mean's standard error is 0.6 %, and the
/// bias of the correction, which is not exact, at most 2 %.
#[test]
fn a_cell_has_no_bias_and_the_error_that_is_said() {
    let runs = 2000u32;
    for n in [1u64, 4, 10, 20, 32, 64, 200, 2_000] {
        let (mut sum, mut squares) = (0.0, 0.0);
        for run in 0..runs {
            let mut cell = [0];
            for item in 0..n {
                let pair = hasher(run.into()).hash_u64(item);
                raise::<1>(&mut cell, &mut [1 << 60], 1, pair, pair);
            }
            let error = estimate_of(cell[0]) / n as f64 - 1.0;
            sum += error;
            squares += error * error;
        }
        let (mean, sigma) = (sum / f64::from(runs), (squares / f64::from(runs)).sqrt());
        assert!(mean.abs() < 7.0 * sigma / f64::from(runs).sqrt() + 0.02, "bias {mean} at {n}");
        assert!(sigma < 1.15 * CELL_ERROR, "standard error {sigma} at {n}");
        assert!(n < 64 || sigma > 0.8 * CELL_ERROR, "standard error {sigma} at {n}");
    }
    assert_eq!((estimate_of(0), estimate_of(u64::MAX)), (0.0, CELL_MAX));
}

/// A sum that began with 0 while each empty cell said 11 would be below zero by 11 a cell, and take as much off nobody's estimate: the
/// estimates of absent sources would be far above what is in their cells.
#[test]
fn the_sum_of_a_row_is_that_of_all_its_cells() {
    let mut sketch = empty(64, 3, 4);
    assert_eq!((sketch.pairs(), sketch.estimate(hasher(1).hash_u64(1))), (0.0, 0.0));
    for source in 0..40 {
        (0..=source).for_each(|item| add(&mut sketch, 1, source, item));
        let expected: Vec<u64> = sums_of(&sketch.cells, 64);
        assert_eq!(sketch.sums, expected);
    }
    // 820 pairs; the error of a row of 64 cells is about 5 %, and a row that began with the wrong empty sum is off by 690.
    assert!((sketch.pairs() / 820.0 - 1.0).abs() < 0.3, "{}", sketch.pairs());
    let sum: f64 = sketch.cells[..64].iter().map(|&cell| estimate_of(cell)).sum();
    assert!((sketch.sums[0] as f64 / SCALE - sum).abs() < 0.01);
    // What absent sources seem to have is noise around zero once others' share is taken off.
    let absent: f64 = (1000..1400)
        .map(|source| {
            let mut rows: Vec<f64> =
                sketch.rows(hasher(1).hash_u64(source)).map(|(cell, noise)| cell - noise).collect();
            rows.truncate(1);
            rows[0]
        })
        .sum::<f64>()
        / 400.0;
    assert!(absent.abs() < 8.0, "{absent}");
}

/// 200 seeds; 60 sources of 1 to 20 items, and one of 1000: what it is taken for on average, and how often its interval misses it. Limits
/// for less than 1e-9: seven standard errors of the mean; Bernstein's inequality for 5 % of 200.
#[test]
fn a_spreader_is_found_and_its_items_are_about_right() {
    let runs = 200u32;
    let (mut sum, mut missed, mut found) = (0.0, 0.0, 0.0);
    for run in 0..u128::from(runs) {
        let mut sketch = Locher::new(1024, 3, 8, 8, hasher(run)).unwrap();
        for item in 0..1000 {
            add(&mut sketch, run, 999, item);
            if item < 600 {
                add(&mut sketch, run, item % 60, item / (3 + item % 7));
            }
        }
        let top = sketch.top(3);
        found += f64::from(top[0].key == 999u64.to_le_bytes());
        assert!(top[0].items >= top[1].items && top[1].items >= top[2].items);
        let bounds = sketch.bounds(hasher(run).hash_u64(999), 0.95);
        assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper);
        missed += f64::from(!(bounds.lower..=bounds.upper).contains(&1000.0));
        sum += estimate(&sketch, run, 999) / 1000.0 - 1.0;
    }
    let mean = sum / f64::from(runs);
    // The median of three skewed estimates is a little below their mean.
    assert!(mean.abs() < 7.0 * 0.2 / f64::from(runs).sqrt() + 0.03, "bias {mean}");
    // Another source shares its cell in two of three rows with 60 * 3 / 1024^2: six times in 200 with 2e-12.
    assert!(found > f64::from(runs) - 6.0, "first in {found} of {runs}");
    assert!(missed < 45.0, "{missed} of {runs} intervals miss");
}

/// Rows that had the same register and rank for an item would all err alike; three independent ones err by two thirds of that.
#[test]
fn rows_err_independently() {
    let runs = 600u32;
    let mut squares = [0.0; 2];
    for run in 0..u128::from(runs) {
        for (depth, squares) in [1, 5].into_iter().zip(&mut squares) {
            let mut sketch = Locher::new(16, depth, 1, 8, hasher(run)).unwrap();
            (0..500).for_each(|item| add(&mut sketch, run, 7, item));
            *squares += (estimate(&sketch, run, 7) / 500.0 - 1.0).powi(2);
        }
    }
    // The median of five has 0.29 of the variance of one for normal estimates.
    let ratio = squares[1] / squares[0];
    assert!(ratio < 0.45, "{ratio}");
}

#[test]
fn at_the_end_of_the_registers_there_is_no_upper_bound() {
    let mut sketch = empty(2, 3, 2);
    let source = hasher(1).hash_u64(1);
    sketch.offer(source, b"1");
    sketch.cells.fill(u64::MAX);
    sketch.sums = sums_of(&sketch.cells, 2);
    let bounds = sketch.bounds(source, 0.9);
    assert!(bounds.upper.is_infinite() && bounds.lower >= 0.0, "{bounds:?}");
    let mut same = Locher::from_bytes(&sketch.to_bytes()).unwrap();
    assert_eq!(same, sketch);
    add(&mut same, 1, 1, 1);
    assert_eq!(same, sketch);
}

/// A row of the most columns, all of them full, as merges and forged bytes can make it: one more would be beyond the sum's type.
#[test]
fn the_sum_of_a_row_holds_as_many_full_cells_as_columns_may_be() {
    let full = u128::from(scaled(u64::MAX));
    assert!(u128::from(COLUMNS_MAX) * full <= u128::from(u64::MAX));
    assert!((u128::from(COLUMNS_MAX) + 1) * full > u128::from(u64::MAX));
    assert!((0..1000).all(|i| scaled(hasher(1).hash_u64(i).low()) <= scaled(u64::MAX)));
    assert!(cells_of(COLUMNS_MAX, 1).is_some() && cells_of(COLUMNS_MAX + 1, 1).is_none());
}

#[test]
fn options_out_of_range_are_refused_and_other_shapes_do_not_merge() {
    for (columns, depth, top, bytes) in [
        (1, 1, 1, 1),
        (1 << 28, 1, 1, 1),
        (2, 0, 1, 1),
        (2, 17, 1, 1),
        (2, 1, 0, 1),
        (2, 1, 1 << 25, 1),
        (2, 1, 1, 1 << 15),
    ] {
        let refused = Locher::new(columns, depth, top, bytes, hasher(1));
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{columns} {depth} {top} {bytes}");
    }
    let mut sketch = empty(4, 2, 3);
    for (columns, depth, top, bytes, seed) in
        [(5, 2, 3, 8, 1), (4, 3, 3, 8, 1), (4, 2, 4, 8, 1), (4, 2, 3, 9, 1), (4, 2, 3, 8, 2)]
    {
        let other = Locher::new(columns, depth, top, bytes, hasher(seed)).unwrap();
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
    }
}

proptest! {
    /// The cells are those of the set of pairs, by any road; with room for all sources, all are kept.
    #[test]
    fn cells_depend_on_the_set_of_pairs_alone(
        pairs in prop::collection::vec((0u64..12, 0u64..60), 0..300), cut in 0usize..300, depth in 1u32..=16,
    ) {
        let of = |pairs: &[(u64, u64)]| {
            let mut sketch = empty(8, depth, 16);
            pairs.iter().for_each(|&(source, item)| add(&mut sketch, 1, source, item));
            sketch
        };
        let whole = of(&pairs);
        let set: Vec<(u64, u64)> = pairs.iter().copied().collect::<HashSet<_>>().into_iter().collect();
        prop_assert_eq!(&of(&set).cells, &whole.cells);
        let cut = cut.min(pairs.len());
        let mut merged = of(&pairs[cut..]);
        merged.merge(&of(&pairs[..cut])).unwrap();
        prop_assert_eq!(&merged.cells, &whole.cells);
        prop_assert_eq!(&merged.sums, &whole.sums);
        // A source whose pairs all met registers that were as high already never was offered: rare, and only with few rows.
        let sources: HashSet<u64> = pairs.iter().map(|&(source, _)| source).collect();
        prop_assert!(whole.top(16).len() <= sources.len());
        for spreader in merged.top(16) {
            prop_assert!(sources.contains(&u64::from_le_bytes(spreader.key.try_into().unwrap())));
            prop_assert!((spreader.items - merged.estimate(spreader.hash)).abs() < 0.001);
        }
    }

    #[test]
    fn bytes_come_back_and_forged_ones_do_not_panic(
        pairs in prop::collection::vec((0u64..5, 0u64..), 0..50), at: prop::sample::Index, value: u8,
    ) {
        let mut sketch = Locher::new(3, 2, 3, 5, hasher(1)).unwrap();
        pairs.iter().for_each(|&(source, item)| add(&mut sketch, 1, source, item));
        let bytes = sketch.to_bytes();
        prop_assert_eq!(&Locher::from_bytes(&bytes).unwrap(), &sketch);
        if let Ok(mut forged) = Locher::from_bytes(&format::forge(&bytes, at.index(bytes.len() - 40), value)) {
            prop_assert!(forged.top(9).len() <= 3);
            add(&mut forged, 1, 1, 1);
        }
    }
}
