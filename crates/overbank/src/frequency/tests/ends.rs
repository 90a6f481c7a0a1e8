//! Weights at the ends of the types, beside exact sums: every cell width, wherever updates wait, through commits and merges.

use super::*;

fn weight() -> impl Strategy<Value = u64> {
    let ends = prop::sample::select(vec![
        0,
        1,
        u64::from(u32::MAX) - 1,
        u64::from(u32::MAX),
        1 << 32,
        (1 << 32) + 1,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX,
    ]);
    prop_oneof![2 => ends, 2 => 0u64..1 << 34, 1 => 0u64..300, 1 => any::<u64>()]
}

fn check(sketch: &Frequency, hashes: &[KeyHash], exact: &[u128]) -> std::result::Result<(), TestCaseError> {
    let total = exact.iter().sum::<u128>();
    prop_assert_eq!(u128::from(sketch.total_weight()), total.min(u64::MAX.into()));
    let (estimates, bounds) = (sketch.estimate(hashes).unwrap(), sketch.bounds(hashes, 0.95).unwrap());
    for ((&truth, bounds), estimate) in exact.iter().zip(bounds).zip(estimates) {
        prop_assert!(bounds.saturated() || truth <= u128::from(bounds.upper), "{} {:?}", truth, bounds);
        prop_assert!(!bounds.saturated() || total >= u128::from(u64::MAX));
        prop_assert!(estimate == bounds.estimate && bounds.lower <= estimate && estimate <= bounds.upper);
        // What is alone has no error.
        prop_assert!(truth < total || u128::from(bounds.lower) <= truth, "{} {:?}", truth, bounds);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn bounds_hold_for_every_weight(
        batches in prop::collection::vec((prop::collection::vec((0usize..40, weight()), 1..30), 0u8..5), 1..8),
        bits in cell_bits(), is_conservative: bool, few: bool,
    ) {
        let device = Arc::new(SimDevice::new(1));
        let mut store = Store::create_on(device.clone(), store_options()).unwrap();
        let options = small().bytes(4 << 12, 2).cell_bits(bits).conservative(is_conservative);
        let mut sketch = store.frequency("f", options.clone()).unwrap();
        let hashes = keys(&store, 0..40);
        let mut exact = vec![0u128; 40];
        for (turn, (batch, then)) in batches.iter().enumerate() {
            let batch: Vec<(usize, u64)> = batch.iter().map(|&(key, weight)| (if few { 0 } else { key }, weight)).collect();
            let (these, weights): (Vec<_>, Vec<_>) = batch.iter().map(|&(key, weight)| (hashes[key], weight)).unzip();
            sketch.update(&these, Some(&weights)).unwrap();
            batch.iter().for_each(|&(key, weight)| exact[key] += u128::from(weight));
            match then {
                0 => sketch.sketch.flush().unwrap(),
                1 => sketch.apply().unwrap(),
                2 => {
                    store.commit(b"").unwrap();
                    drop((sketch, store));
                    store = Store::open_on(device.clone(), store_options()).unwrap();
                    sketch = store.frequency("f", FrequencyOptions::new()).unwrap();
                }
                3 if !is_conservative => {
                    let other = store.frequency(&format!("other {turn}"), options.clone()).unwrap();
                    other.update(&these, Some(&weights)).unwrap();
                    sketch.merge(&other).unwrap();
                    batch.iter().for_each(|&(key, weight)| exact[key] += u128::from(weight));
                }
                // A tenth of what the first key has is taken off again.
                4 if !is_conservative => {
                    let tenth = (exact[0] / 10).min(i64::MAX as u128) as u64;
                    sketch.remove(&hashes[..1], Some(&[tenth])).unwrap();
                    exact[0] -= u128::from(tenth);
                }
                _ => {}
            }
            check(&sketch, &hashes, &exact)?;
        }
    }
}

#[test]
fn a_full_cell_is_said_to_be_full_wherever_it_is_seen() {
    let store = Store::in_memory(store_options()).unwrap();
    for (bits, weight) in [(32u32, 1 << 32), (64, u64::MAX), (8, u64::MAX)] {
        let sketch = store.frequency(&format!("f{bits}"), small().cell_bits(bits)).unwrap();
        let [key, other] = keys(&store, [1, 2])[..] else { unreachable!() };
        sketch.update(&[key, other], Some(&[weight, 1])).unwrap();
        assert!(!sketch.saturated());
        // In the buffer, where no pass has seen it.
        let bounds = sketch.bounds(&[key], 0.95).unwrap()[0];
        let total = weight.saturating_add(1);
        assert_eq!((bounds.lower, bounds.upper, sketch.saturated()), (0, total, true));
        assert_eq!(sketch.estimate(&[key]).unwrap(), [total]);
        // Halved, a full cell is still full, and the total weight bounds what it says.
        sketch.decay().unwrap();
        assert!(sketch.estimate(&[key]).unwrap()[0] >= weight / 2);
    }
}
