//! Merge, fold and decay against the model, and what they leave behind when they fail.

use super::*;
use crate::device::sim::{Fault, FaultKind};

/// A sketch with something in its pages, its logs and its buffer.
fn spread(store: &Store, name: &str, bits: u32, seed: u64, both: &mut Model) -> Frequency {
    let sketch = store.frequency(name, small().cell_bits(bits).bytes(10 << 12, 5)).unwrap();
    let (mut random, mut model) = (Random(seed), Model::default());
    for turn in 0..4 {
        let hashes = keys(store, (0..600).map(|_| random.below(900)));
        sketch.update(&hashes, None).unwrap();
        hashes.iter().for_each(|&hash| model.add(hash, 1));
        // Some of these outgrow small cells; a part of them is taken off again.
        let weights: Vec<u64> = hashes.iter().map(|_| random.next() >> (63 - random.below(20))).collect();
        sketch.update(&hashes[..50], Some(&weights[..50])).unwrap();
        hashes.iter().zip(&weights).take(50).for_each(|(&hash, &weight)| model.add(hash, weight));
        let taken: Vec<u64> = hashes[..30].iter().map(|&hash| model.remove(hash, 100_000)).collect();
        sketch.remove(&hashes[..30], Some(&taken)).unwrap();
        match turn {
            0 => sketch.apply().unwrap(),
            1 | 2 => sketch.sketch.flush().unwrap(),
            _ => {}
        }
    }
    assert_eq!(sketch.pending_chunks(), 2);
    both.join(&model);
    sketch
}

fn all(store: &Store) -> Vec<KeyHash> {
    keys(store, 0..1000)
}

#[test]
fn a_merge_is_one_sketch_of_both_streams() {
    [4, 8, 32].into_iter().for_each(merge);
}

fn merge(bits: u32) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let mut model = Model::default();
    let ours = spread(&store, "a", bits, 1, &mut model);
    let theirs = spread(&store, "b", bits, 2, &mut model);
    ours.merge(&theirs).unwrap();
    compare(&store, &ours, &model, &all(&store));
    assert_eq!(ours.total_weight(), model.counts.values().sum::<u64>());
    store.commit(b"merged").unwrap();
    assert!(store.verify().unwrap().is_whole());
    drop((ours, theirs, store));
    let store = Store::open_on(device, store_options()).unwrap();
    compare(&store, &store.frequency("a", FrequencyOptions::new()).unwrap(), &model, &all(&store));
}

#[test]
fn a_merge_of_what_counted_nothing_writes_no_pages() {
    let store = Store::in_memory(store_options()).unwrap();
    let [a, b] = ["a", "b"].map(|name| store.frequency(name, small()).unwrap());
    store.commit(b"").unwrap();
    let files = || store.device().list().unwrap().len();
    let before = files();
    a.merge(&b).unwrap();
    assert_eq!(files(), before);
    let hashes = keys(&store, 0..9);
    a.update(&hashes, None).unwrap();
    a.merge(&b).unwrap();
    b.merge(&a).unwrap();
    assert_eq!((a.estimate(&hashes).unwrap(), b.estimate(&hashes).unwrap()), (vec![1; 9], vec![1; 9]));
    b.remove(&hashes, None).unwrap();
    a.merge(&b).unwrap();
    assert_eq!((a.estimate(&hashes).unwrap(), a.total_weight(), b.total_weight()), (vec![1; 9], 9, 0));
}

#[test]
fn a_merge_of_unequal_shapes_is_refused() {
    let store = Store::in_memory(store_options()).unwrap();
    let a = store.frequency("a", small()).unwrap();
    let b = store.frequency("b", small().group_pages(8)).unwrap();
    assert!(matches!(a.merge(&b), Err(Error::Incompatible { .. })));
    let elsewhere = Store::in_memory(store_options().seed(Seed(8))).unwrap();
    let c = elsewhere.frequency("a", small()).unwrap();
    assert!(matches!(a.merge(&c), Err(Error::Incompatible { .. })));
}

#[test]
fn a_fold_is_the_sketch_of_half_the_pages() {
    [4, 8, 32].into_iter().for_each(fold);
}

fn fold(bits: u32) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let mut model = Model::default();
    let sketch = spread(&store, "a", bits, 1, &mut model);
    store.commit(b"before").unwrap();
    sketch.fold().unwrap();
    assert_eq!(sketch.layout().pages(), 5);
    compare(&store, &sketch, &model, &all(&store));
    assert!(matches!(sketch.fold(), Err(Error::InvalidOption { .. })), "five pages have no half");
    sketch.update(&all(&store), None).unwrap();
    all(&store).iter().for_each(|&hash| model.add(hash, 1));
    store.commit(b"folded").unwrap();
    assert!(store.verify().unwrap().is_whole());
    drop((sketch, store));
    let store = Store::open_on(device, store_options()).unwrap();
    compare(&store, &store.frequency("a", FrequencyOptions::new()).unwrap(), &model, &all(&store));
}

#[test]
fn a_decay_halves_every_estimate() {
    for bits in [4, 8, 32] {
        let store = Store::in_memory(store_options()).unwrap();
        let mut model = Model::default();
        let sketch = spread(&store, "a", bits, 1, &mut model);
        let before = sketch.estimate(&all(&store)).unwrap();
        sketch.decay().unwrap();
        let after = sketch.estimate(&all(&store)).unwrap();
        assert!(before.iter().zip(after).all(|(&before, after)| after == before / 2));
        assert_eq!(sketch.total_weight(), model.counts.values().sum::<u64>() / 2);
        sketch.update(&all(&store), Some(&[300; 1000])).unwrap();
        let bounds = sketch.bounds(&all(&store), 0.5).unwrap();
        for (hash, bounds) in all(&store).iter().zip(bounds) {
            let count = model.counts.get(hash).copied().unwrap_or(0) / 2 + 300;
            assert!(count <= bounds.estimate && bounds.lower <= bounds.estimate);
        }
    }
}

#[test]
fn what_fails_half_way_changes_nothing() {
    for operation in 0..12 {
        let device = Arc::new(SimDevice::new(1));
        let store = Store::create_on(device.clone(), store_options()).unwrap();
        let mut model = Model::default();
        let sketch = spread(&store, "a", [4, 8, 32][operation as usize % 3], 1, &mut model);
        store.commit(b"before").unwrap();
        let operation = device.changes() + operation;
        device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: false });
        let result = sketch.fold();
        assert!(matches!(result, Ok(()) | Err(Error::Full { .. })), "{result:?}");
        device.heal();
        assert_eq!(sketch.layout().pages(), if result.is_ok() { 5 } else { 10 });
        compare(&store, &sketch, &model, &all(&store));
        store.commit(b"after").unwrap();
        drop((sketch, store));
        let store = Store::open_on(device, store_options()).unwrap();
        compare(&store, &store.frequency("a", FrequencyOptions::new()).unwrap(), &model, &all(&store));
    }
}
