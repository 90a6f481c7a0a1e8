//! DDSketch against the sorted values.

use super::*;
use proptest::prelude::*;

fn sketch_of(alpha: f64, values: &[f64]) -> DdSketch {
    let mut sketch = DdSketch::new(alpha).unwrap();
    values.iter().for_each(|&value| sketch.update(value, 1));
    sketch
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    let small = (-1000i32..1000).prop_map(f64::from);
    let latency = (0.0f64..30.0).prop_map(|x| x.exp() - 1.0);
    let finite = any::<f64>().prop_filter("finite", |x| x.is_finite());
    let ends = prop::sample::select(vec![
        0.0,
        -0.0,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        f64::from_bits(1),
        -f64::from_bits(1),
        f64::EPSILON,
        1.0,
    ]);
    let subnormal = (0u64..1 << 52, 0u32..52, any::<bool>()).prop_map(|(bits, shift, negative)| {
        let value = f64::from_bits(bits >> shift);
        if negative { -value } else { value }
    });
    prop::collection::vec(prop_oneof![small, latency, finite, ends, subnormal], 1..120)
}

/// To within the rounding of the comparison itself, which is less than that of one subnormal.
fn within(alpha: f64, estimate: f64, truth: f64) -> bool {
    // Scaled up, so that subnormals are compared with all digits; both halves are exact.
    let scale = if truth.abs() < 1e-200 { 2f64.powi(600) } else { 0.5 };
    let (estimate, truth) = (estimate * scale, truth * scale);
    (estimate - truth).abs() <= alpha * truth.abs()
}

proptest! {
    #[test]
    fn quantiles_are_within_alpha(values in values(), q in 0.0f64..=1.0, alpha in 0.0001f64..0.5) {
        let sketch = sketch_of(alpha, &values);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for q in [0.0, q, 0.5, 1.0] {
            let truth = sorted[(q * (sorted.len() - 1) as f64) as usize];
            let estimate = sketch.quantile(q).unwrap();
            prop_assert!(within(alpha, estimate, truth), "{estimate} for {truth}");
            prop_assert!(sketch.lower_bound(q).unwrap() <= truth && truth <= sketch.upper_bound(q).unwrap());
        }
        prop_assert_eq!((sketch.min(), sketch.max()), (sorted.first().map(|x| x + 0.0), sorted.last().map(|x| x + 0.0)));
    }

    #[test]
    fn the_same_values_make_the_same_bytes(
        values in values(), order in prop::collection::vec(any::<u32>(), 120), cuts in prop::collection::vec(0usize..120, 0..5),
    ) {
        let whole = sketch_of(0.02, &values).to_bytes();
        let mut shuffled: Vec<_> = values.iter().copied().zip(order).collect();
        shuffled.sort_by_key(|&(_, place)| place);
        let shuffled: Vec<f64> = shuffled.into_iter().map(|(value, _)| value).collect();
        prop_assert_eq!(&sketch_of(0.02, &shuffled).to_bytes(), &whole);

        // A tree of merges over pieces, alternately from the left and from the right.
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(values.len())).chain([0, values.len()]).collect();
        cuts.sort_unstable();
        let mut pieces: Vec<DdSketch> = cuts.windows(2).map(|cut| sketch_of(0.02, &shuffled[cut[0]..cut[1]])).collect();
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
        let mut repeated = sketch_of(0.01, &[other]);
        (0..times).for_each(|_| repeated.update(value, 1));
        let mut weighted = sketch_of(0.01, &[other]);
        weighted.update(value, times);
        prop_assert_eq!(repeated.to_bytes(), weighted.to_bytes());
    }

    #[test]
    fn sums_are_exact(values in prop::collection::vec((any::<i64>(), 0i32..60, 1u64..u64::MAX >> 20), 0..60)) {
        // Multiples of 2^-60 within i128's reach: an exact oracle.
        let mut sketch = DdSketch::new(0.1).unwrap();
        let mut exact = 0i128;
        for &(integer, shift, count) in &values {
            let value = (integer >> 11) as f64 / 2f64.powi(shift);
            sketch.update(value, count % 1000 + 1);
            exact += (i128::from(integer >> 11) << (60 - shift)) * i128::from(count % 1000 + 1);
        }
        // The conversion of an i128 rounds to nearest, and so does the sketch: no tolerance.
        prop_assert_eq!(sketch.sum(), exact as f64 / 2f64.powi(60));
        let mut large = DdSketch::new(0.1).unwrap();
        let mut exact = 0i128;
        for &(integer, _, count) in &values {
            large.update((integer >> 11) as f64, count);
            exact += i128::from(integer >> 11) * i128::from(count);
        }
        prop_assert_eq!(large.sum(), exact as f64);
    }

    #[test]
    fn ranks_hold_the_true_one(values in values(), at in any::<f64>()) {
        let sketch = sketch_of(0.03, &values);
        for value in values.iter().copied().chain([at, 0.0, -0.5, 1e300]) {
            let truth = values.iter().filter(|&&other| other <= value).count() as u128;
            let (low, high) = sketch.rank(value);
            prop_assert!(low <= truth && truth <= high, "{truth} is not in {low}..={high}");
        }
    }

    #[test]
    fn a_bin_holds_its_values(bits in prop_oneof![1u64 << 52..0x7fe << 52, 1u64..1 << 52, 1u64..1 << 12, 0x7feu64 << 52..0x7ff << 52], alpha in 0.0001f64..0.5) {
        let (mapping, value) = (Mapping::new(alpha), f64::from_bits(bits));
        let bin = mapping.bin(value);
        let (low, high) = mapping.edges(bin, alpha);
        prop_assert!(low <= value && value <= high);
        prop_assert!(within(alpha, mapping.middle(bin), value), "{} for {}", mapping.middle(bin), value);
        let (lowest, highest) = mapping.range();
        prop_assert!((lowest..=highest).contains(&bin));
        let beyond = value * (1.0 + 4.0 * alpha);
        // Near f64's largest number there is none beyond, and subnormals may be one step apart.
        prop_assert!(beyond.is_infinite() || beyond == value || mapping.bin(beyond) > bin, "bins are not much narrower than they may be");
    }

    #[test]
    fn forged_bytes_do_not_panic(values in values(), at in 0usize..900, value: u8) {
        let bytes = sketch_of(0.1, &values).to_bytes();
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
    let sum = |values: &[f64]| sketch_of(0.1, values).sum();
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
    let sketch = sketch_of(0.1, &[f64::NAN, f64::INFINITY, 3.0, f64::NEG_INFINITY, 0.0, -0.0]);
    assert_eq!((sketch.skipped(), sketch.count(), sketch.zeros), (3, 3, 2));
    assert_eq!((sketch.min(), sketch.max(), sketch.sum()), (Some(0.0), Some(3.0), 3.0));
}

#[test]
fn empty_has_no_quantile() {
    let empty = DdSketch::new(0.01).unwrap();
    assert_eq!((empty.quantile(0.5), empty.min(), empty.rank(0.0), empty.count()), (None, None, (0, 0), 0));
    assert_eq!(DdSketch::from_bytes(&empty.to_bytes()).unwrap().to_bytes(), empty.to_bytes());
}

#[test]
fn options_out_of_range_are_refused_and_other_shapes_do_not_merge() {
    for alpha in [0.0, 1e-5, 0.6, f64::NAN] {
        assert!(matches!(DdSketch::new(alpha), Err(Error::InvalidOption { name: "alpha", .. })));
    }
    let mut sketch = DdSketch::new(0.01).unwrap();
    assert!(matches!(sketch.merge(&DdSketch::new(0.02).unwrap()), Err(Error::Incompatible { .. })));
}

/// Every bin that there is, on both sides: the memory stays below what is promised, and the bytes come back.
#[test]
fn values_in_every_bin_stay_inside_the_memory() {
    let mut sketch = DdSketch::new(0.01).unwrap();
    let (lowest, highest) = sketch.mapping.range();
    for bin in lowest..=highest {
        let value = sketch.mapping.middle(bin);
        assert_eq!(sketch.mapping.bin(value), bin, "{value}");
        sketch.update(value, 3);
        sketch.update(-value, 1);
    }
    let bins = (highest - lowest + 1) as usize;
    assert!(bins > 70_000 && sketch.encoded_bytes() > 2 * bins * BIN_BYTES);
    let most = DdSketch::memory_bytes_max(0.01).unwrap();
    assert!(sketch.memory_bytes() <= most && most < 800 << 10, "{} of {most}", sketch.memory_bytes());
    assert_eq!(DdSketch::from_bytes(&sketch.to_bytes()).unwrap().to_bytes(), sketch.to_bytes());
}

proptest! {
    /// Counts beyond 2^32 and beyond 2^64 beside exact ones, through a merge and bytes.
    #[test]
    fn counts_of_any_size_are_exact(values in prop::collection::vec((-20i32..20, prop_oneof![0u64..9, any::<u64>(), Just(u64::MAX), Just(1 << 32)]), 1..40), cut in 0usize..40) {
        let cut = cut.min(values.len());
        let mut parts = [DdSketch::new(0.01).unwrap(), DdSketch::new(0.01).unwrap()];
        let mut exact = std::collections::BTreeMap::<i32, u128>::new();
        for (i, &(value, count)) in values.iter().enumerate() {
            parts[usize::from(i < cut)].update(f64::from(value).powi(3), count);
            *exact.entry(value).or_default() += u128::from(count);
        }
        let [mut sketch, other] = parts;
        sketch.merge(&DdSketch::from_bytes(&other.to_bytes()).unwrap()).unwrap();
        let total: u128 = exact.values().sum();
        prop_assert_eq!(sketch.count(), total);
        let mut below = 0;
        for (&value, &count) in &exact {
            below += count;
            let (low, high) = sketch.rank(f64::from(value).powi(3));
            prop_assert!(low <= below && below <= high && high - low <= count, "{} in {}..={}", below, low, high);
        }
        // As doubles, ranks near the last may be beyond it; 1 is the maximum, exactly.
        for q in [0.0, 0.1, 0.5, 0.9] {
            let Some(rank) = total.checked_sub(1).map(|most| (q * most as f64) as u128) else { break };
            let mut seen = 0;
            let truth = exact.iter().find(|&(_, &count)| { seen += count; seen > rank });
            let truth = f64::from(*truth.unwrap().0).powi(3);
            prop_assert!(within(0.01, sketch.quantile(q).unwrap(), truth));
        }
    }

    /// The mean is that of big numbers: a sum of doubles scaled to whole numbers, divided once.
    #[test]
    fn means_are_exact(values in prop::collection::vec((-1_000_000i64..1_000_000, 1u64..1000), 1..40), exponent in prop::sample::select(vec![-1074i32, -1000, -3, 0, 900, 1003])) {
        // Two factors, for 2^-1074 is no power that powi can give.
        let scaled = |value: f64| value * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
        let mut sketch = DdSketch::new(0.1).unwrap();
        let (mut sum, mut count) = (0i128, 0i128);
        for &(value, times) in &values {
            sketch.update(scaled(value as f64), times);
            sum += i128::from(value) * i128::from(times);
            count += i128::from(times);
        }
        let mean = sketch.mean().unwrap();
        prop_assert!(mean.is_finite() && sketch.min().unwrap() <= mean && mean <= sketch.max().unwrap());
        if exponent == -1074 {
            // Whole multiples of the least double: the nearest one, ties to even.
            let (whole, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
            let up = 2 * rest > count || 2 * rest == count && whole % 2 != 0;
            prop_assert_eq!(mean, scaled((whole + i128::from(up)) as f64));
        } else {
            // Both numbers are below 2^53, so the quotient is rounded once.
            prop_assert_eq!(mean, scaled(sum as f64 / count as f64));
        }
    }
}

#[test]
fn ends_that_are_known_better_stay_in_their_bins() {
    let ends = |sketch: &DdSketch| (sketch.min().unwrap(), sketch.max().unwrap());
    let of_middles = sketch_of(0.01, &[100.0, 1000.0]);
    let known = of_middles.clone().with_ends(99.5, 1001.0);
    assert_eq!(ends(&known), (99.5, 1001.0));
    assert_eq!((known.quantile(0.0), known.quantile(1.0)), (Some(99.5), Some(1001.0)));
    assert_eq!(ends(&DdSketch::from_bytes(&known.to_bytes()).unwrap()), (99.5, 1001.0));
    // In other bins they are those of other values.
    assert_eq!(ends(&of_middles.clone().with_ends(50.0, 1001.0)), (100.0, 1001.0));
    assert_eq!(ends(&of_middles.clone().with_ends(f64::NAN, f64::INFINITY)), (100.0, 1000.0));
    assert_eq!(
        ends(&sketch_of(0.01, &[100.0]).with_ends(100.1, 99.9)),
        (100.0, 100.0),
        "the wrong way round"
    );
    assert_eq!(sketch_of(0.01, &[]).with_ends(1.0, 2.0).min(), None);
}

#[test]
fn means_of_extremes_are_finite() {
    let mean = |values: &[f64]| sketch_of(0.1, values).mean().unwrap();
    assert_eq!(mean(&[f64::MAX, f64::MAX, f64::MAX]), f64::MAX);
    assert_eq!(mean(&[f64::MAX, f64::MIN]), 0.0);
    assert_eq!(mean(&[5e-324, 0.0, 0.0]), 0.0);
    assert_eq!(mean(&[5e-324, 5e-324, 0.0]), 5e-324);
    let mut many = sketch_of(0.1, &[]);
    (0..9).for_each(|_| many.update(f64::MAX, u64::MAX));
    assert_eq!((many.mean(), many.sum()), (Some(f64::MAX), f64::INFINITY));
    let mut many = sketch_of(0.1, &[]);
    many.count = u128::MAX;
    many.sum.add(-1.0, u64::MAX);
    assert_eq!(many.mean(), Some(-(u64::MAX as f64) / u128::MAX as f64));
}
