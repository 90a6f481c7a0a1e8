//! DDSketch against the sorted values.

use super::*;
use proptest::prelude::*;

fn sketch_of(alpha: f64, bins_max: usize, values: &[f64]) -> DdSketch {
    let mut sketch = DdSketch::new(alpha, bins_max).unwrap();
    values.iter().for_each(|&value| sketch.update(value, 1));
    sketch
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    let small = (-1000i32..1000).prop_map(f64::from);
    let latency = (0.0f64..30.0).prop_map(|x| x.exp() - 1.0);
    let any = any::<f64>().prop_filter("finite", |x| x.is_finite());
    prop::collection::vec(prop_oneof![small, latency, any], 1..120)
}

/// Twice the next above: what the rounding of the comparison itself may add.
fn within(alpha: f64, estimate: f64, truth: f64) -> bool {
    (estimate - truth).abs() <= alpha * truth.abs() || truth.abs() < VALUE_MIN && estimate.abs() < VALUE_MIN
}

proptest! {
    #[test]
    fn quantiles_are_within_alpha(values in values(), q in 0.0f64..=1.0, alpha in 0.0001f64..0.5) {
        let sketch = sketch_of(alpha, BINS_MAX, &values);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for q in [0.0, q, 0.5, 1.0] {
            let truth = sorted[(q * (sorted.len() - 1) as f64) as usize];
            let estimate = sketch.quantile(q).unwrap();
            prop_assert!(within(alpha, estimate, truth), "{estimate} for {truth}");
            prop_assert!(sketch.lower_bound(q).unwrap() <= truth && truth <= sketch.upper_bound(q).unwrap());
            prop_assert!(!sketch.collapsed_at(q));
        }
        prop_assert_eq!((sketch.min(), sketch.max()), (sorted.first().map(|x| x + 0.0), sorted.last().map(|x| x + 0.0)));
    }

    #[test]
    fn collapsed_quantiles_are_marked_and_the_others_within_alpha(values in values(), q in 0.0f64..=1.0, bins_max in 1usize..60) {
        let sketch = sketch_of(0.05, bins_max, &values);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let truth = sorted[(q * (sorted.len() - 1) as f64) as usize];
        prop_assert!(sketch.lower_bound(q).unwrap() <= truth && truth <= sketch.upper_bound(q).unwrap());
        prop_assert!(sketch.collapsed_at(q) || within(0.05, sketch.quantile(q).unwrap(), truth));
        // The highest value's bin never collapses but with all lower ones into it, of its own sign.
        prop_assert!(within(0.05, sketch.quantile(1.0).unwrap(), *sorted.last().unwrap()));
        prop_assert!(sketch.positive.iter().count() <= bins_max && sketch.negative.iter().count() <= bins_max);
    }

    #[test]
    fn the_same_values_make_the_same_bytes(
        values in values(), order in prop::collection::vec(any::<u32>(), 120), cuts in prop::collection::vec(0usize..120, 0..5), bins_max in 1usize..200,
    ) {
        let whole = sketch_of(0.02, bins_max, &values).to_bytes();
        let mut shuffled: Vec<_> = values.iter().copied().zip(order).collect();
        shuffled.sort_by_key(|&(_, place)| place);
        let shuffled: Vec<f64> = shuffled.into_iter().map(|(value, _)| value).collect();
        prop_assert_eq!(&sketch_of(0.02, bins_max, &shuffled).to_bytes(), &whole);

        // A tree of merges over pieces, alternately from the left and from the right.
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(values.len())).chain([0, values.len()]).collect();
        cuts.sort_unstable();
        let mut pieces: Vec<DdSketch> = cuts.windows(2).map(|cut| sketch_of(0.02, bins_max, &shuffled[cut[0]..cut[1]])).collect();
        while pieces.len() > 1 {
            let last = pieces.pop().unwrap();
            let at = pieces.len() / 2;
            let mut merged = last;
            merged.merge(&pieces[at]).unwrap();
            pieces[at] = merged;
        }
        prop_assert_eq!(&pieces[0].to_bytes(), &whole);
        prop_assert_eq!(DdSketch::from_bytes(&whole).unwrap().to_bytes(), whole);
    }

    #[test]
    fn a_weight_is_so_many_values(value in any::<f64>(), times in 1u64..300, other in any::<f64>()) {
        let mut repeated = sketch_of(0.01, 64, &[other]);
        (0..times).for_each(|_| repeated.update(value, 1));
        let mut weighted = sketch_of(0.01, 64, &[other]);
        weighted.update(value, times);
        prop_assert_eq!(repeated.to_bytes(), weighted.to_bytes());
    }

    #[test]
    fn sums_are_exact(values in prop::collection::vec((any::<i64>(), 0i32..60, 1u64..u64::MAX >> 20), 0..60)) {
        // Multiples of 2^-60 within i128's reach: an exact oracle.
        let mut sketch = DdSketch::new(0.1, 64).unwrap();
        let mut exact = 0i128;
        for &(integer, shift, count) in &values {
            let value = (integer >> 11) as f64 / 2f64.powi(shift);
            sketch.update(value, count % 1000 + 1);
            exact += (i128::from(integer >> 11) << (60 - shift)) * i128::from(count % 1000 + 1);
        }
        // The conversion of an i128 rounds to nearest, and so does the sketch: no tolerance.
        prop_assert_eq!(sketch.sum(), exact as f64 / 2f64.powi(60));
        let mut large = DdSketch::new(0.1, 64).unwrap();
        let mut exact = 0i128;
        for &(integer, _, count) in &values {
            large.update((integer >> 11) as f64, count);
            exact += i128::from(integer >> 11) * i128::from(count);
        }
        prop_assert_eq!(large.sum(), exact as f64);
    }

    #[test]
    fn ranks_hold_the_true_one(values in values(), at in any::<f64>(), bins_max in 1usize..300) {
        let sketch = sketch_of(0.03, bins_max, &values);
        for value in values.iter().copied().chain([at, 0.0, -0.5, 1e300]) {
            let truth = values.iter().filter(|&&other| other <= value).count() as u64;
            let (low, high) = sketch.rank(value);
            prop_assert!(low <= truth && truth <= high, "{truth} is not in {low}..={high}");
        }
    }

    #[test]
    fn a_bin_holds_its_values(bits in 1u64 << 52..0x7fe << 52, alpha in 0.0001f64..0.5) {
        let (mapping, value) = (Mapping::new(alpha), f64::from_bits(bits));
        let bin = mapping.bin(value);
        let (low, high) = mapping.edges(bin, alpha);
        prop_assert!(low <= value && value <= high);
        prop_assert!((mapping.middle(bin) - value).abs() <= alpha * value);
        let beyond = value * (1.0 + 4.0 * alpha);
        // Near f64's largest number there is none beyond.
        prop_assert!(beyond.is_infinite() || mapping.bin(beyond) > bin, "bins are not much narrower than they may be");
    }

    #[test]
    fn forged_bytes_do_not_panic(values in values(), at in 0usize..700, value: u8) {
        let bytes = sketch_of(0.1, 20, &values).to_bytes();
        let at = at.min(bytes.len() - format::HEADER_BYTES - 1);
        if let Ok(mut forged) = DdSketch::from_bytes(&format::forge(&bytes, at, value)) {
            forged.update(1.0, 1);
            forged.update(-1e300, 1);
            prop_assert!(forged.quantile(0.5).is_some());
            let _ = (forged.sum(), forged.rank(0.0));
        }
    }
}

#[test]
fn sums_that_cancel_and_extremes_are_exact() {
    let sum = |values: &[f64]| sketch_of(0.1, 64, values).sum();
    assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
    assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
    assert_eq!(sum(&[f64::MAX, -f64::MAX, -5e-324]), -5e-324);
    assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
    assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
    assert_eq!(sum(&[9_007_199_254_740_992.0, 1.0]), 9_007_199_254_740_992.0);
    assert_eq!(sum(&[9_007_199_254_740_992.0, 1.0, 5e-324]), 9_007_199_254_740_994.0);
    assert_eq!(sum(&[]), 0.0);
}

#[test]
fn nan_and_infinities_are_counted_apart() {
    let sketch = sketch_of(0.1, 64, &[f64::NAN, f64::INFINITY, 3.0, f64::NEG_INFINITY, 0.0, -0.0]);
    assert_eq!((sketch.skipped(), sketch.count(), sketch.zeros), (3, 3, 2));
    assert_eq!((sketch.min(), sketch.max(), sketch.sum()), (Some(0.0), Some(3.0), 3.0));
}

#[test]
fn empty_has_no_quantile() {
    let empty = DdSketch::new(0.01, 64).unwrap();
    assert_eq!((empty.quantile(0.5), empty.min(), empty.rank(0.0), empty.count()), (None, None, (0, 0), 0));
    assert_eq!(DdSketch::from_bytes(&empty.to_bytes()).unwrap().to_bytes(), empty.to_bytes());
}

#[test]
fn options_out_of_range_are_refused_and_other_shapes_do_not_merge() {
    for alpha in [0.0, 1e-5, 0.6, f64::NAN] {
        assert!(matches!(DdSketch::new(alpha, 64), Err(Error::InvalidOption { name: "alpha", .. })));
    }
    assert!(matches!(DdSketch::new(0.01, 0), Err(Error::InvalidOption { name: "bins_max", .. })));
    let mut sketch = DdSketch::new(0.01, 64).unwrap();
    for other in [DdSketch::new(0.02, 64).unwrap(), DdSketch::new(0.01, 65).unwrap()] {
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
    }
}
