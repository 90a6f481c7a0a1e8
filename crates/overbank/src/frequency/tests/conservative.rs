//! Conservative updates: between the truth and the plain sketch, whatever the order.

use super::*;
use crate::device::BLOCK_BYTES;
use crate::frequency::page;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn estimates_lie_between_the_truth_and_the_plain_sketch(
        steps in prop::collection::vec(step(), 1..24),
        pending in 0usize..4,
        depth in 1u32..7,
        cell_bits in cell_bits(),
    ) {
        let store = Store::in_memory(store_options()).unwrap();
        let options = small().shape(300, depth).cell_bits(cell_bits).pending(pending).conservative(true);
        let sketch = store.frequency("f", options).unwrap();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Units { seed, count, keys: range } => {
                    let mut random = Random(seed);
                    let hashes = keys(&store, (0..count).map(|_| random.below(range)));
                    sketch.update(&hashes, None).unwrap();
                    hashes.iter().for_each(|&hash| model.add(hash, 1));
                }
                Step::Weighted { seed, count, keys: range } => {
                    let mut random = Random(seed);
                    let hashes = keys(&store, (0..count).map(|_| random.below(range)));
                    let weights: Vec<u64> = hashes.iter().map(|_| random.next() >> (63 - random.below(20))).collect();
                    sketch.update(&hashes, Some(&weights)).unwrap();
                    hashes.iter().zip(&weights).for_each(|(&hash, &weight)| model.add(hash, weight));
                }
                Step::Flush => sketch.sketch.flush().unwrap(),
                Step::Apply => sketch.apply().unwrap(),
                Step::Commit => {
                    store.commit(b"x").unwrap();
                }
                Step::Remove { .. } | Step::Reopen | Step::Estimate { .. } => {}
            }
        }
        let all: Vec<KeyHash> = model.counts.keys().copied().chain(keys(&store, 500_000..500_050)).collect();
        let plain = model.estimates(&sketch, &store.hasher(), &all);
        let bounds = sketch.bounds(&all, 0.5).unwrap();
        for ((hash, bounds), plain) in all.iter().zip(bounds).zip(plain) {
            let count = model.counts.get(hash).copied().unwrap_or(0);
            prop_assert!(count <= bounds.estimate && bounds.estimate <= plain);
            prop_assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper);
        }
        // What lower bounds rest on: no page weighs more than it says.
        let pages: Vec<u64> = (0..sketch.sketch.shape().layout.pages()).collect();
        let mut weights = vec![0; pages.len()];
        for (hash, count) in &model.counts {
            weights[sketch.sketch.shape().layout.page_of(*hash)] += count;
        }
        let mut blocks = vec![0; pages.len() * BLOCK_BYTES];
        sketch.sketch.view().compose(&pages, &mut blocks).unwrap();
        for (block, weight) in blocks.chunks_exact(BLOCK_BYTES).zip(weights) {
            prop_assert!(page::weight(block, sketch.sketch.shape()) >= weight);
        }
    }
}

#[test]
fn the_mean_error_is_a_third_of_the_plain_one_or_less() {
    let store = Store::in_memory(store_options()).unwrap();
    // About as many keys a column in each: 300 in 204 columns, 1000 in 720.
    for (bits, keys_a_page) in [(32, 300), (8, 1000)] {
        let hashes = keys(&store, 0..64 * keys_a_page);
        let excess = |conservative: bool| {
            let options = small().cell_bits(bits).bytes(64 << 12, 5).conservative(conservative);
            let sketch = store.frequency(&format!("{bits}, {conservative}"), options).unwrap();
            hashes.chunks(500).for_each(|part| sketch.update(part, None).unwrap());
            let estimates = sketch.estimate(&hashes).unwrap();
            estimates.iter().map(|&estimate| estimate - 1).sum::<u64>()
        };
        let (plain, conservative) = (excess(false), excess(true));
        let mean = |excess: u64| excess as f64 / hashes.len() as f64;
        println!("{bits} bits: mean error {:.3} plain, {:.3} conservative", mean(plain), mean(conservative));
        assert!(plain >= 3 * conservative && conservative > 0, "{plain} against {conservative}");
    }
}

#[test]
fn what_needs_plain_cells_is_refused() {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("c", small().conservative(true)).unwrap();
    let hashes = keys(&store, 0..3);
    assert!(matches!(sketch.remove(&hashes, None), Err(Error::InvalidOption { .. })));
    let other = store.frequency("d", small().conservative(true)).unwrap();
    assert!(matches!(sketch.merge(&other), Err(Error::InvalidOption { .. })));
    store.commit(b"x").unwrap();
    // The mode is a part of the shape that is stored.
    drop((sketch, other));
    let refused = store.frequency("c", small().conservative(false));
    assert!(matches!(refused, Err(Error::Incompatible { .. })));
    // What is not set comes from the store.
    let stored = store.frequency("c", FrequencyOptions::new()).unwrap();
    assert!(matches!(stored.remove(&hashes, None), Err(Error::InvalidOption { .. })));
}
