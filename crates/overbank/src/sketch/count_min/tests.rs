//! Count-min against exact counts, and its error against the bounds it reports.

use super::*;
use crate::{HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::collections::HashMap;

fn hasher(seed: u128) -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(seed))
}

fn hash(key: u64) -> KeyHash {
    hasher(1).hash(&key.to_le_bytes())
}

/// The number of successes that as many trials of at most this probability exceed with probability below
/// 1e-10 (Bernstein).
fn binomial_limit(trials: f64, probability: f64) -> f64 {
    let (mean, log) = (trials * probability, 1e10f64.ln());
    mean + (2.0 * mean * log).sqrt() + 2.0 / 3.0 * log
}

/// How many of `seeds` sketches err on `key` by more than `limit` says.
fn failures(
    seeds: u128,
    layout: Layout,
    stream: &[(u64, u64)],
    key: u64,
    limit: impl Fn(&CountMin<u32>, KeyHash) -> u64,
) -> f64 {
    let truth: u64 = stream.iter().filter(|&&(other, _)| other == key).map(|&(_, weight)| weight).sum();
    let mut failures = 0.0;
    for seed in 0..seeds {
        let hasher = hasher(seed);
        let mut sketch = CountMin::<u32>::new(layout, hasher);
        stream.iter().for_each(|&(key, weight)| sketch.update(hasher.hash(&key.to_le_bytes()), weight));
        let hash = hasher.hash(&key.to_le_bytes());
        assert!(sketch.estimate(hash) >= truth);
        failures += f64::from(sketch.estimate(hash) - truth > limit(&sketch, hash));
    }
    failures
}

/// A bound at confidence 1 - delta fails in at most a share delta of the seeds: uniform and skewed, classic and
/// paged, for a light, a heavy and an absent key. Each of the cases trips by chance with less than 1e-10.
#[test]
fn error_bounds_hold_with_their_confidence() {
    let seeds = 1500;
    let uniform: Vec<_> = (0..600).map(|key| (key, 1)).collect();
    let skewed: Vec<_> = (0..600).map(|key| (key, 1 + 6000 / (key + 1) / (key + 1))).collect();
    for layout in [Layout::with_shape(1, 32, 3).unwrap(), Layout::with_shape(8, 4, 3).unwrap()] {
        for stream in [&uniform, &skewed] {
            for (key, delta) in [(0, 0.05), (599, 0.05), (600, 0.3), (600, 0.02)] {
                let page = failures(seeds, layout, stream, key, |sketch, hash| {
                    sketch.estimate(hash) - sketch.bounds(hash, 1.0 - delta).lower
                });
                let whole = failures(seeds, layout, stream, key, |sketch, _| sketch.error_bound(1.0 - delta));
                let limit = binomial_limit(seeds as f64, delta);
                assert!(
                    page <= limit && whole <= limit,
                    "{page} and {whole} of {seeds} beyond, limit {limit}"
                );
            }
        }
    }
}

/// Theorem 1 with its finite-n term, on distinct keys: fails at most with `e^-depth + k^-C`. The shape puts the
/// bound just below 1, so that an error of 1 is a failure: there Markov's inequality, on which the theorem
/// rests, is nearly tight, and the sketch fails about half as often as it may. The two controls are sketches with one
/// fault, judged by the bound of the whole one: half of the columns (or pages) out of use, and rows that are all alike.
#[test]
fn theorem_1_holds_on_distinct_keys() {
    let (seeds, n, c) = (6000, 1600, 3.0);
    let stream: Vec<_> = (0..n).map(|key| (key, 1)).collect();
    let layout = |columns, depth| Layout::with_shape(4, columns, depth).unwrap();
    let bound = layout(1270, 2).theorem_1_error(n as f64, c);
    assert!((0.95..1.0).contains(&bound), "{bound}");
    let limit = binomial_limit(seeds as f64, (-2f64).exp() + 4f64.powf(-c));
    let failed = |layout| failures(seeds, layout, &stream, 3, |_, _| bound as u64);
    let (whole, half, alike) = (failed(layout(1270, 2)), failed(layout(635, 2)), failed(layout(1270, 1)));
    assert!(whole <= limit, "{whole} of {seeds} beyond {bound}, limit {limit}");
    assert!(half > limit && alike > limit, "the faults went unseen: {half} and {alike}, limit {limit}");
}

/// Two keys that share a page meet in each row with 1/columns, independently: in all three with columns^-3.
#[test]
fn rows_fail_independently() {
    let (trials, columns) = (400_000u64, 8.0);
    let layout = Layout::with_shape(1, 8, 3).unwrap();
    let mut meetings = 0.0;
    let mut sketch = CountMin::<u32>::new(layout, hasher(1));
    for pair in 0..trials {
        sketch.cells.fill(0);
        sketch.update(hash(2 * pair), 1);
        meetings += f64::from(sketch.estimate(hash(2 * pair + 1)) > 0);
    }
    let mean = trials as f64 / (columns * columns * columns);
    let (high, low) = (binomial_limit(trials as f64, 1.0 / 512.0), mean - (2.0 * mean * 1e10f64.ln()).sqrt());
    assert!((low..=high).contains(&meetings), "{meetings} meet in all rows, not about {mean}");
}

#[test]
fn sizes_follow_the_paper() {
    let classic = Layout::with_error(0.001, 0.01).unwrap();
    assert_eq!((classic.pages(), classic.columns(), classic.depth()), (1, 2719, 5));
    let block = Layout::with_bytes(1 << 20, 5, 4, 16).unwrap();
    assert_eq!(
        (block.columns(), block.pages() % 16, block.page_cells() * 4),
        (204, 0, layout::BLOCK_BODY_BYTES)
    );
    let localised = classic.localised(4, 16).unwrap();
    assert_eq!((localised.pages(), localised.columns()), (16, 204));
    // Table 1: 128 MB of 8-byte cells, 5 rows, an overestimate of 8.
    let table_1 = Layout::with_shape(1, 3_355_444, 5).unwrap();
    assert!((table_1.elements_for(8.0) - 9_875_188.0).abs() < 4.0);
}

#[test]
fn options_out_of_range_are_refused() {
    for (pages, columns, depth) in
        [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 17), (u64::MAX, 2, 2), (1 << 40, u32::MAX, 16)]
    {
        assert!(matches!(Layout::with_shape(pages, columns, depth), Err(Error::InvalidOption { .. })));
    }
    for (epsilon, delta) in
        [(0.0, 0.1), (1.0, 0.1), (f64::NAN, 0.1), (0.1, 0.0), (0.1, 1.0), (0.1, 1e-9), (0.1, f64::NAN)]
    {
        assert!(
            matches!(Layout::with_error(epsilon, delta), Err(Error::InvalidOption { .. })),
            "{epsilon} {delta}"
        );
    }
    assert!(matches!(Layout::with_bytes(4079, 5, 4, 1), Err(Error::InvalidOption { name: "bytes", .. })));
    let mut sketch = CountMin::<u32>::with_shape(6, 4, 2, hasher(1)).unwrap();
    assert!(sketch.split_mut(4).is_err() && sketch.split_mut(0).is_err());
}

#[test]
fn pages_go_wide_where_a_cell_would_be_full() {
    let most = u64::from(u32::MAX);
    let mut sketch = CountMin::<u32>::with_shape(2, 5, 2, hasher(1)).unwrap();
    sketch.update(hash(1), most - 1);
    assert!(!sketch.overflow.widened);
    let before = sketch.clone();
    sketch.split_mut(1).unwrap().as_mut_slice()[0].update(hash(1), 5);
    assert_eq!((sketch.estimate(hash(1)), sketch.upper_bound(hash(1))), (most + 4, most + 4));
    assert!(sketch.overflow.widened && !sketch.saturated());
    assert_eq!(sketch.wide.iter().filter(|&&wide| wide).count(), 1);
    assert_eq!(CountMin::<u32>::from_bytes(&sketch.to_bytes()).unwrap(), sketch);
    let mut merged = before.clone();
    merged.merge(&before).unwrap();
    assert_eq!(merged.estimate(hash(1)), 2 * (most - 1));
}

#[test]
fn full_cells_give_no_bound_and_say_so() {
    // One column has no neighbour to count on with.
    let mut one = CountMin::<u32>::with_shape(1, 1, 2, hasher(1)).unwrap();
    one.update(hash(1), u64::from(u32::MAX) - 1);
    assert!(!one.saturated());
    one.update(hash(2), 1);
    let none = CountBounds { lower: 0, estimate: u64::MAX, upper: u64::MAX };
    assert_eq!((one.bounds(hash(1), 0.95), one.saturated()), (none, true));
    assert_eq!((one.estimate(hash(3)), one.error_bound(0.5)), (u64::MAX, u64::MAX));
    assert_eq!(CountMin::<u32>::from_bytes(&one.to_bytes()).unwrap(), one);

    let mut narrow = CountMin::<u32>::with_shape(1, 4, 2, hasher(1)).unwrap();
    let mut wide = CountMin::<u64>::with_shape(1, 4, 2, hasher(1)).unwrap();
    narrow.update_batch(&[hash(1), hash(1)], Some(&[u64::MAX, 7]));
    wide.update_batch(&[hash(1), hash(1)], Some(&[u64::MAX, 7]));
    assert!(narrow.saturated() && wide.saturated());
    assert_eq!((narrow.bounds(hash(1), 0.95), wide.bounds(hash(1), 0.95)), (none, none));
    assert_eq!(CountMin::<u32>::from_bytes(&narrow.to_bytes()).unwrap(), narrow);
}

/// Weights at the ends of the types.
fn weights() -> impl Strategy<Value = u64> {
    let ends = prop::sample::select(vec![
        0,
        1,
        u64::from(u32::MAX) - 1,
        u64::from(u32::MAX),
        1 << 32,
        (1 << 32) + 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ]);
    prop_oneof![ends, 0u64..1000, any::<u64>(), 0u64..1 << 33]
}

fn check_bounds<C: Cell>(
    updates: &[(u64, u64)],
    (pages, columns, depth): (u64, u32, u32),
    cut: usize,
) -> std::result::Result<(), TestCaseError> {
    let empty = CountMin::<C>::with_shape(pages * 4, columns, depth, hasher(1)).unwrap();
    let mut exact = HashMap::<u64, u128>::new();
    let mut sketch = empty.clone();
    for &(key, weight) in updates {
        *exact.entry(key).or_default() += u128::from(weight);
        sketch.update(hash(key), weight);
    }
    for (&key, &truth) in &exact {
        let bounds = sketch.bounds(hash(key), 0.95);
        prop_assert!(bounds.saturated() || truth <= u128::from(bounds.upper), "{} {:?}", truth, bounds);
        prop_assert!(bounds.lower <= bounds.estimate && bounds.estimate == bounds.upper);
        prop_assert_eq!(sketch.estimate(hash(key)), bounds.estimate);
        // Alone in the sketch, a key has no error; its lower bound may not use more than its own weight.
        prop_assert!(exact.len() > 1 || u128::from(bounds.lower) <= truth);
        prop_assert!(!bounds.saturated() || sketch.saturated());
    }
    let total = exact.values().sum::<u128>();
    prop_assert!(sketch.total_weight() == total || sketch.saturated() && sketch.total_weight() <= total);

    // By any road: reversed, in batches, by shards, merged, and through bytes.
    let (hashes, weights): (Vec<_>, Vec<_>) =
        updates.iter().rev().map(|&(key, weight)| (hash(key), weight)).unzip();
    let cut = cut.min(hashes.len());
    let [mut batches, mut other] = [empty.clone(), empty.clone()];
    batches.update_batch(&hashes[cut..], Some(&weights[cut..]));
    let mut shards = other.split_mut(4).unwrap();
    for (&hash, &weight) in hashes.iter().zip(&weights).take(cut) {
        shards.as_mut_slice()[keyhash::range_of(hash.high(), 4) as usize].update(hash, weight);
    }
    drop(shards);
    let other = CountMin::from_bytes(&other.to_bytes()).unwrap();
    batches.merge(&other).unwrap();
    prop_assert!(batches == sketch);
    Ok(())
}

proptest! {
    #[test]
    fn bounds_hold_for_every_weight(
        updates in prop::collection::vec((0u64..30, weights()), 0..60),
        shape in (1u64..3, 1u32..9, 1u32..=4), cut in 0usize..60,
    ) {
        check_bounds::<u32>(&updates, shape, cut)?;
        check_bounds::<u64>(&updates, shape, cut)?;
    }
}

/// A lower bound of a wide page fails as seldom as that of a narrow one, at the end of an odd row too.
#[test]
fn lower_bounds_of_wide_pages_hold_with_their_confidence() {
    let seeds = 1500;
    let stream: Vec<_> = (0..200).map(|key| (key, 1 << 30)).collect();
    for layout in [Layout::with_shape(1, 16, 3).unwrap(), Layout::with_shape(1, 15, 3).unwrap()] {
        for delta in [0.3, 0.05] {
            let page = failures(seeds, layout, &stream, 3, |sketch, hash| {
                assert!(sketch.overflow.widened);
                sketch.estimate(hash) - sketch.bounds(hash, 1.0 - delta).lower
            });
            let whole = failures(seeds, layout, &stream, 3, |sketch, _| sketch.error_bound(1.0 - delta));
            assert!(page.max(whole) <= binomial_limit(seeds as f64, delta), "{page} and {whole} of {seeds}");
        }
    }
}

#[test]
fn other_seeds_and_shapes_do_not_merge() {
    let mut sketch = CountMin::<u32>::with_shape(2, 4, 2, hasher(1)).unwrap();
    for (pages, columns, depth, seed) in [(1, 4, 2, 1), (2, 5, 2, 1), (2, 4, 3, 1), (2, 4, 2, 2)] {
        let other = CountMin::<u32>::with_shape(pages, columns, depth, hasher(seed)).unwrap();
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
    }
    let wide = CountMin::<u64>::with_shape(2, 4, 2, hasher(1)).unwrap();
    assert!(matches!(CountMin::<u32>::from_bytes(&wide.to_bytes()), Err(Error::Incompatible { .. })));
}

proptest! {
    #[test]
    fn never_below_the_truth_and_the_same_by_any_road(
        updates in prop::collection::vec((0u64..60, 0u64..1000), 0..200),
        cut in 0usize..200, pages in 1u64..5, columns in 1u32..20, depth in 1u32..=16,
    ) {
        let empty = CountMin::<u32>::with_shape(pages * 4, columns, depth, hasher(1)).unwrap();
        let (hashes, weights): (Vec<_>, Vec<_>) = updates.iter().map(|&(key, weight)| (hash(key), weight)).unzip();
        let mut exact = HashMap::new();
        let mut one_by_one = empty.clone();
        for &(key, weight) in &updates {
            *exact.entry(key).or_insert(0) += weight;
            one_by_one.update(hash(key), weight);
        }
        for (&key, &truth) in &exact {
            prop_assert!(one_by_one.estimate(hash(key)) >= truth);
            let bounds = one_by_one.bounds(hash(key), 0.99);
            prop_assert!(bounds.lower <= bounds.estimate && bounds.upper == bounds.estimate);
        }
        prop_assert_eq!(one_by_one.total_weight(), u128::from(exact.values().sum::<u64>()));

        let cut = cut.min(hashes.len());
        let mut batches = empty.clone();
        batches.update_batch(&hashes[cut..], Some(&weights[cut..]));
        let mut other = empty.clone();
        other.update_batch(&hashes[..cut], Some(&weights[..cut]));
        batches.merge(&other).unwrap();
        prop_assert_eq!(&batches, &one_by_one);

        let mut sharded = empty.clone();
        let mut shards = sharded.split_mut(4).unwrap();
        for (&hash, &weight) in hashes.iter().zip(&weights) {
            let shard = &mut shards.as_mut_slice()[keyhash::range_of(hash.high(), 4) as usize];
            shard.update_batch(&[hash], Some(&[weight]));
        }
        drop(shards);
        prop_assert_eq!(&sharded, &one_by_one);
    }

    #[test]
    fn bytes_come_back_and_forged_ones_do_not_panic(keys in prop::collection::vec(0u64.., 0..50), at in 0usize..60, value: u8) {
        let mut sketch = CountMin::<u64>::with_shape(2, 3, 2, hasher(1)).unwrap();
        sketch.update_batch(&keys.iter().map(|&key| hash(key)).collect::<Vec<_>>(), None);
        let bytes = sketch.to_bytes();
        prop_assert_eq!(&CountMin::<u64>::from_bytes(&bytes).unwrap(), &sketch);
        prop_assert_eq!(sketch.encoded_bytes(), bytes.len());
        if let Ok(forged) = CountMin::<u64>::from_bytes(&format::forge(&bytes, at, value)) {
            prop_assert!(forged.estimate(hash(1)) <= forged.upper_bound(hash(1)));
        }
    }

    /// More than a piece of cells; the stream is cut anywhere.
    #[test]
    fn a_stream_has_the_same_bytes_and_no_damage_is_read(pages in 1u64..900, keys in prop::collection::vec(0u64.., 0..50), cut: prop::sample::Index, bit in 0u32..8) {
        let mut sketch = CountMin::<u32>::with_shape(pages, 5, 3, hasher(1)).unwrap();
        keys.iter().for_each(|&key| sketch.update(hash(key), key));
        let mut bytes = Vec::new();
        sketch.write_to(&mut |piece| { bytes.extend_from_slice(piece); Ok(()) }).unwrap();
        prop_assert_eq!(bytes.len(), sketch.encoded_bytes());
        let read = CountMin::<u32>::read_from(bytes.len(), &mut stream::source_of(&bytes)).unwrap();
        prop_assert_eq!(&read, &sketch);
        prop_assert_eq!(&CountMin::<u32>::from_bytes(&bytes).unwrap(), &sketch);

        let at = cut.index(bytes.len());
        let short = CountMin::<u32>::read_from(at, &mut stream::source_of(&bytes[..at]));
        prop_assert!(short.is_err());
        prop_assert!(CountMin::<u32>::read_from(bytes.len(), &mut stream::source_of(&bytes[..at])).is_err());
        bytes[at] ^= 1 << bit;
        prop_assert!(CountMin::<u32>::read_from(bytes.len(), &mut stream::source_of(&bytes)).is_err());
    }
}

proptest! {
    /// Counts of every column make the sketch that counted them, wide where that is.
    #[test]
    fn counts_make_the_sketch_that_counted_them(
        updates in prop::collection::vec((0u64..30, weights()), 0..60), columns in 2u32..9, depth in 1u32..=4,
    ) {
        let mut sketch = CountMin::<u32>::with_shape(1, columns, depth, hasher(1)).unwrap();
        let mut exact = CountMin::<u64>::with_shape(1, columns, depth, hasher(1)).unwrap();
        for &(key, weight) in &updates {
            sketch.update(hash(key), weight);
            exact.update(hash(key), weight);
        }
        let counts: Vec<u64> = (0..depth).flat_map(|row| exact.row_counts(row)).collect();
        prop_assert_eq!(CountMin::from_counts(columns, depth, hasher(1).into(), &counts).unwrap(), sketch);
    }
}

#[test]
fn the_average_error_is_that_of_keys_that_never_came() {
    for (updates, depth) in [(2_000u64, 1), (20_000, 2), (100_000, 5), (400_000, 4)] {
        let layout = Layout::with_shape(100, 100, depth).unwrap();
        let mut sketch = CountMin::<u32>::new(layout, hasher(1));
        (0..updates).for_each(|key| sketch.update(hash(key), 1));
        let never = updates..updates + 50_000;
        let measured = never.map(|key| sketch.estimate(hash(key)) as f64).sum::<f64>() / 50_000.0;
        let expected = layout.average_error(updates as f64);
        // A few cells hold few updates: their spread, and that of the pages, is below 5 % of these averages.
        assert!((measured / expected - 1.0).abs() < 0.05, "{updates} {depth}: {measured} for {expected}");
    }
    let layout = Layout::with_shape(100, 100, 5).unwrap();
    assert_eq!(layout.average_error(1e12), 1e8);
    let (below, above) = (layout.average_error(0.999e10), layout.average_error(1.001e10));
    assert!(below > 0.99e6 && below < above && above < 1.01e6, "{below} {above}");
}
