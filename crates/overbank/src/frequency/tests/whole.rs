//! Merge, fold and decay against the model, and what they leave behind when they fail.

use super::*;
use crate::device::sim::{Fault, FaultKind};

/// A sketch with something in its pages, its logs and its buffer.
fn spread(store: &Store, name: &str, bits: u32, seed: u64, both: &mut Model) -> Arc<Mutex<Frequency>> {
    let sketch = store.frequency(name, small().cell_bits(bits).bytes(10 << 12, 5)).unwrap();
    let (mut random, mut model) = (Random(seed), Model::default());
    for turn in 0..4 {
        let hashes = keys(store, (0..600).map(|_| random.below(900)));
        held(&sketch).update(&hashes, None).unwrap();
        hashes.iter().for_each(|&hash| model.add(hash, 1));
        // Some of these outgrow small cells; a part of them is taken off again.
        let weights: Vec<u64> = hashes.iter().map(|_| random.next() >> (63 - random.below(20))).collect();
        held(&sketch).update(&hashes[..50], Some(&weights[..50])).unwrap();
        hashes.iter().zip(&weights).take(50).for_each(|(&hash, &weight)| model.add(hash, weight));
        let taken: Vec<u64> = hashes[..30].iter().map(|&hash| model.remove(hash, 100_000)).collect();
        held(&sketch).remove(&hashes[..30], Some(&taken)).unwrap();
        match turn {
            0 => held(&sketch).apply().unwrap(),
            1 | 2 => held(&sketch).flush().unwrap(),
            _ => {}
        }
    }
    assert_eq!(held(&sketch).pending_chunks(), 2);
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
    held(&ours).merge(&mut held(&theirs)).unwrap();
    compare(&store, &ours, &model, &all(&store));
    assert_eq!(held(&ours).total_weight(), model.counts.values().sum::<u64>());
    store.commit(b"merged").unwrap();
    assert!(store.verify().unwrap().is_whole());
    drop((ours, theirs, store));
    let store = Store::open_on(device, store_options()).unwrap();
    compare(&store, &Frequency::open(&store, "a").unwrap(), &model, &all(&store));
}

#[test]
fn a_merge_of_unequal_shapes_is_refused() {
    let store = Store::in_memory(store_options()).unwrap();
    let a = store.frequency("a", small()).unwrap();
    let b = store.frequency("b", small().group_pages(8)).unwrap();
    assert!(matches!(held(&a).merge(&mut held(&b)), Err(Error::Incompatible { .. })));
    let elsewhere = Store::in_memory(store_options().seed(Seed(8))).unwrap();
    let c = elsewhere.frequency("a", small()).unwrap();
    assert!(matches!(held(&a).merge(&mut held(&c)), Err(Error::Incompatible { .. })));
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
    held(&sketch).fold().unwrap();
    assert_eq!(held(&sketch).layout().pages(), 5);
    compare(&store, &sketch, &model, &all(&store));
    assert!(matches!(held(&sketch).fold(), Err(Error::InvalidOption { .. })), "five pages have no half");
    held(&sketch).update(&all(&store), None).unwrap();
    all(&store).iter().for_each(|&hash| model.add(hash, 1));
    store.commit(b"folded").unwrap();
    assert!(store.verify().unwrap().is_whole());
    drop((sketch, store));
    let store = Store::open_on(device, store_options()).unwrap();
    compare(&store, &Frequency::open(&store, "a").unwrap(), &model, &all(&store));
}

#[test]
fn a_decay_halves_every_estimate() {
    for bits in [4, 8, 32] {
        let store = Store::in_memory(store_options()).unwrap();
        let mut model = Model::default();
        let sketch = spread(&store, "a", bits, 1, &mut model);
        let before = held(&sketch).estimate(&all(&store)).unwrap();
        held(&sketch).decay().unwrap();
        let after = held(&sketch).estimate(&all(&store)).unwrap();
        assert!(before.iter().zip(after).all(|(&before, after)| after == before / 2));
        assert_eq!(held(&sketch).total_weight(), model.counts.values().sum::<u64>() / 2);
        held(&sketch).update(&all(&store), Some(&[300; 1000])).unwrap();
        let bounds = held(&sketch).bounds(&all(&store), 0.5).unwrap();
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
        let result = held(&sketch).fold();
        assert!(matches!(result, Ok(()) | Err(Error::Full { .. })), "{result:?}");
        device.heal();
        assert_eq!(held(&sketch).layout().pages(), if result.is_ok() { 5 } else { 10 });
        compare(&store, &sketch, &model, &all(&store));
        store.commit(b"after").unwrap();
        drop((sketch, store));
        let store = Store::open_on(device, store_options()).unwrap();
        compare(&store, &Frequency::open(&store, "a").unwrap(), &model, &all(&store));
    }
}
