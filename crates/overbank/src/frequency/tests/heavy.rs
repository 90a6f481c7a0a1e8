//! Heavy hitters: all of them, and no light ones.

use super::*;
use crate::sketch::SpaceSaving;

#[test]
fn every_key_above_the_threshold_is_found_and_no_light_one() {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", small().shape(204 * 64, 5)).unwrap();
    let mut candidates = SpaceSaving::new(200, 8, store.hasher()).unwrap();
    let (mut model, mut random) = (Model::default(), Random(11));
    for _ in 0..20 {
        // Key i has 1 / (i (i + 1)) of the stream.
        let numbers: Vec<u64> = (0..1500).map(|_| u64::MAX / (random.next() | 1)).collect();
        let hashes = keys(&store, numbers.iter().copied());
        sketch.update(&hashes, None).unwrap();
        for (&hash, number) in hashes.iter().zip(&numbers) {
            candidates.update(hash, &number.to_le_bytes(), 1);
            model.add(hash, 1);
        }
    }
    let total = sketch.total_weight();
    let epsilon_n = (std::f64::consts::E * total as f64 / sketch.layout().width() as f64) as u64;
    for k in [5, 20, 100, 200] {
        let heavy = sketch.heavy(&candidates, k, 0.99).unwrap();
        let found: Vec<KeyHash> = heavy.iter().map(|key| key.hash).collect();
        for (hash, &count) in &model.counts {
            assert!(count * k <= total || found.contains(hash), "a key of {count} in {total} is missing");
        }
        assert!(heavy.is_sorted_by(|a, b| a.count.estimate >= b.count.estimate) && !heavy.is_empty());
        for key in heavy {
            let count = model.counts[&key.hash];
            assert!(key.count.lower <= count && count <= key.count.upper, "{key:?} has {count}");
            // The sketch is so wide that space-saving's error, total / 200, is gone.
            assert!(count + epsilon_n >= total / k, "{key:?} has {count} of {total}");
        }
    }
}

#[test]
fn after_a_decay_of_both_the_heavy_keys_are_those_of_the_halved_counts() {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", small().shape(204 * 64, 5)).unwrap();
    let mut candidates = SpaceSaving::new(100, 8, store.hasher()).unwrap();
    let mut counts = std::collections::BTreeMap::<KeyHash, u64>::new();
    let mut random = Random(12);
    for round in 0..30 {
        // From round to round other keys are the heavy ones.
        let numbers: Vec<u64> = (0..700).map(|_| round / 6 * 100 + u64::MAX / (random.next() | 1)).collect();
        let hashes = keys(&store, numbers.iter().copied());
        sketch.update(&hashes, None).unwrap();
        for (&hash, number) in hashes.iter().zip(&numbers) {
            candidates.update(hash, &number.to_le_bytes(), 1);
            *counts.entry(hash).or_default() += 1;
        }
        if round % 3 == 2 {
            sketch.decay().unwrap();
            let error = sketch.heavy(&candidates, 20, 0.99).unwrap_err();
            assert!(error.to_string().contains("decay both or neither"), "{error}");
            candidates.decay();
            counts.values_mut().for_each(|count| *count /= 2);
        }
        let total = sketch.total_weight();
        assert_eq!(candidates.total_weight(), total);
        let absent = candidates.absent_upper_bound();
        for (&hash, &count) in &counts {
            let bounds = candidates.present(hash);
            assert!(
                bounds.map_or(count <= absent, |b| b.lower <= count && count <= b.upper),
                "round {round}"
            );
        }
        let again = SpaceSaving::from_bytes(&candidates.to_bytes()).unwrap();
        assert_eq!(again.top(100), candidates.top(100));
        for k in [5, 20, 100] {
            let heavy = sketch.heavy(&candidates, k, 0.99).unwrap();
            for (hash, &count) in &counts {
                let is_found = heavy.iter().any(|key| key.hash == *hash);
                assert!(
                    count * k <= total || is_found,
                    "round {round}: a key of {count} in {total} is missing"
                );
            }
            // Rounding takes up to 0.01^(-1/5) = 2.5 from what the sketch knows of other keys, once a decay.
            assert!(heavy.iter().all(|key| {
                let count = counts[&key.hash];
                key.count.lower <= count + 5 && count <= key.count.upper
            }));
        }
    }
}

#[test]
fn candidates_of_another_stream_or_too_few_are_refused() {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", small()).unwrap();
    let mut candidates = SpaceSaving::new(10, 8, store.hasher()).unwrap();
    assert!(matches!(sketch.heavy(&candidates, 11, 0.9), Err(Error::InvalidOption { .. })));
    assert!(matches!(sketch.heavy(&candidates, 0, 0.9), Err(Error::InvalidOption { .. })));
    candidates.update(keys(&store, [1])[0], b"1", 1);
    let error = sketch.heavy(&candidates, 5, 0.9).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { name: "the candidates' total weight", .. }), "{error}");
    let other = crate::KeyHasher::new(store.hash_kind(), Seed(8));
    let candidates = SpaceSaving::new(10, 8, other).unwrap();
    assert!(matches!(sketch.heavy(&candidates, 5, 0.9), Err(Error::Incompatible { .. })));
}

#[test]
fn candidates_of_more_weight_than_64_bits_are_asked_after_a_decay_too() {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", small().cell_bits(8)).unwrap();
    let mut candidates = SpaceSaving::new(10, 8, store.hasher()).unwrap();
    let hashes = keys(&store, 0..3);
    sketch.update(&hashes, Some(&[u64::MAX - 9; 3])).unwrap();
    hashes.iter().for_each(|&hash| candidates.update(hash, b"key", u64::MAX - 9));
    for decays in 0..3 {
        let heavy = sketch.heavy(&candidates, 10, 0.99).unwrap();
        let truth = (u64::MAX - 9) >> decays;
        assert_eq!(heavy.len(), 3, "after {decays} decays");
        assert!(heavy.iter().all(|key| key.count.lower <= truth && truth <= key.count.upper), "{heavy:?}");
        sketch.decay().unwrap();
        candidates.decay();
    }
}
