//! The law: for any order of arrival, split into batches, buffer, pending chunks, commits and reopenings, the estimates are
//! those of the in-RAM sketch, or of small cells with the same counts. (After removals from small cells they lie between those
//! of two orders: without what was removed, and with all additions first.)

mod accuracy;
mod beside;
mod conservative;
mod crash;
mod crowded;
mod damage;
mod ends;
mod heavy;
mod io_cost;
mod parked;
mod whole;
mod window;
mod writers;

use super::model::Model;
use super::{Frequency, FrequencyOptions};
use crate::device::sim::SimDevice;
use crate::store::{Store, StoreOptions};
use crate::{Error, KeyHash, Seed};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Options of a sketch small enough that a test sees many groups, and a buffer of some thousand updates.
fn small() -> FrequencyOptions {
    FrequencyOptions::new().shape(204 * 11, 5).group_pages(4).memory_bytes(2_700_000).pending(2)
}

fn store_options() -> StoreOptions {
    StoreOptions::new().threads(0).seed(Seed(7)).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

fn keys(store: &Store, numbers: impl IntoIterator<Item = u64>) -> Vec<KeyHash> {
    let hasher = store.hasher();
    numbers.into_iter().map(|number| hasher.hash_u64(number)).collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}

#[derive(Clone, Debug)]
enum Step {
    Units { seed: u64, count: usize, keys: u64 },
    Weighted { seed: u64, count: usize, keys: u64 },
    Remove { seed: u64, count: usize, keys: u64 },
    Flush,
    Apply,
    Commit,
    Reopen,
    Estimate { seed: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop_oneof![Just(3u64), Just(100), Just(100_000)];
    let batch = (any::<u64>(), 0usize..700, keys);
    prop_oneof![
        4 => batch.clone().prop_map(|(seed, count, keys)| Step::Units { seed, count, keys }),
        2 => batch.clone().prop_map(|(seed, count, keys)| Step::Weighted { seed, count, keys }),
        1 => batch.prop_map(|(seed, count, keys)| Step::Remove { seed, count, keys }),
        3 => Just(Step::Flush),
        1 => Just(Step::Apply),
        1 => Just(Step::Commit),
        1 => Just(Step::Reopen),
        2 => any::<u64>().prop_map(|seed| Step::Estimate { seed }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn estimates_are_those_of_the_sketch_in_ram(
        steps in prop::collection::vec(step(), 1..24),
        pending in 0usize..4,
        cell_bits in cell_bits(),
        wide_records: bool,
        depth in 1u32..7,
        lg_group_pages in prop_oneof![0u32..4, Just(7)],
        wide: bool,
    ) {
        let options = FrequencyOptions::new()
            .shape(if wide { 20_000 } else { 700 }, depth)
            .group_pages(1 << lg_group_pages)
            .cell_bits(cell_bits)
            .record_bytes(if wide_records { 8 } else { 4 })
            .memory_bytes(4 << 20)
            .pending(pending);
        run(&steps, options);
    }
}

/// Small cells twice as often: they have more to go wrong.
fn cell_bits() -> impl Strategy<Value = u32> {
    prop_oneof![2 => Just(4u32), 2 => Just(8), 1 => Just(32), 1 => Just(64)]
}

fn run(steps: &[Step], options: FrequencyOptions) {
    // Sums that no cell of 32 bits has to hold, and that fill small ones of every width.
    let lg_weights = if options.to_shape().unwrap().cell_bits == 32 { 20 } else { 40 };
    let device = Arc::new(SimDevice::new(1));
    let mut store = Store::create_on(device.clone(), store_options()).unwrap();
    let mut sketch = store.frequency("f", options.clone()).unwrap();
    let (mut model, mut committed) = (Model::default(), Model::default());
    store.commit(b"").unwrap();
    for step in steps {
        match *step {
            Step::Units { seed, count, keys: range } => {
                let mut random = Random(seed);
                let hashes = keys(&store, (0..count).map(|_| random.below(range)));
                sketch.update(&hashes, None).unwrap();
                hashes.iter().for_each(|&hash| model.add(hash, 1));
            }
            Step::Weighted { seed, count, keys: range } => {
                let mut random = Random(seed);
                let hashes = keys(&store, (0..count).map(|_| random.below(range)));
                let weights: Vec<u64> =
                    hashes.iter().map(|_| random.next() >> (63 - random.below(lg_weights))).collect();
                sketch.update(&hashes, Some(&weights)).unwrap();
                hashes.iter().zip(&weights).for_each(|(&hash, &weight)| model.add(hash, weight));
            }
            Step::Remove { seed, count, keys: range } => {
                let mut random = Random(seed);
                let hashes = keys(&store, (0..count).map(|_| random.below(range)));
                let weights: Vec<u64> = hashes
                    .iter()
                    .map(|&hash| model.remove(hash, random.next() >> (63 - random.below(lg_weights))))
                    .collect();
                sketch.remove(&hashes, Some(&weights)).unwrap();
            }
            Step::Flush => sketch.sketch.flush().unwrap(),
            Step::Apply => sketch.apply().unwrap(),
            Step::Commit => {
                store.commit(b"x").unwrap();
                committed = model.clone();
            }
            Step::Reopen => {
                drop((sketch, store));
                store = Store::open_on(device.clone(), store_options()).unwrap();
                sketch = store.frequency("f", options.clone()).unwrap();
                model = committed.clone();
            }
            Step::Estimate { seed } => {
                let mut random = Random(seed);
                let some: Vec<KeyHash> = keys(&store, (0..20).map(|_| random.below(200)));
                compare(&store, &sketch, &model, &some);
            }
        }
    }
    let all: Vec<KeyHash> = model.counts.keys().copied().chain(keys(&store, 1_000_000..1_000_100)).collect();
    compare(&store, &sketch, &model, &all);
    let total: u64 = model.counts.values().sum();
    assert_eq!(sketch.total_weight(), total);
    store.commit(b"end").unwrap();
    assert!(store.verify().unwrap().is_whole());
    compare(&store, &sketch, &model, &all);
    drop(sketch);
    drop(store);
    let store = Store::open_read_only_on(device, store_options()).unwrap();
    let sketch = store.frequency("f", FrequencyOptions::new()).unwrap();
    compare(&store, &sketch, &model, &all);
    assert!(matches!(sketch.update(&all, None), Err(Error::ReadOnly { .. })));
}

fn compare(store: &Store, sketch: &Frequency, model: &Model, hashes: &[KeyHash]) {
    let estimates = sketch.estimate(hashes).unwrap();
    let least = model.least_estimates(sketch, &store.hasher(), hashes);
    let most = model.estimates(sketch, &store.hasher(), hashes);
    for ((estimate, least), most) in estimates.iter().zip(&least).zip(&most) {
        assert!((least..=most).contains(&estimate), "{estimate}, not {least} to {most}");
    }
    for ((bounds, hash), estimate) in sketch.bounds(hashes, 0.9).unwrap().iter().zip(hashes).zip(estimates) {
        let count = model.counts.get(hash).copied().unwrap_or(0);
        assert!(bounds.estimate == estimate && bounds.lower <= estimate && count <= bounds.upper);
    }
}

#[test]
fn the_four_ways_to_size_agree_with_the_paper() {
    let classic = FrequencyOptions::new().error(1e-6, 0.01).layout().unwrap();
    assert_eq!(classic.depth(), 5);
    assert!(classic.width() >= 2_718_282 && classic.width() < 2_718_282 + 204);
    // Table 1, 128 MB: 3,355,444 columns of 5 rows take 8 bytes a cell, for 9,875,188 elements and an overestimate of 8.
    let table = FrequencyOptions::new().shape(3_355_444, 5).cell_bits(64).layout().unwrap();
    assert_eq!(table.columns(), 102);
    assert!((table.elements_for(8.0) / 9_875_188.0 - 1.0).abs() < 1e-3);
    let sized = FrequencyOptions::new().elements(9_875_188.0, 8.0, 0.01).cell_bits(64).layout().unwrap();
    assert_eq!(sized, table);
    let bytes = FrequencyOptions::new().bytes(1 << 30, 5).layout().unwrap();
    assert_eq!((bytes.pages(), bytes.columns()), (1 << 18, 204));
    // A block of 4080 bytes: 90 words of 9 bytes a row, or 81 of 10.
    for (bits, columns) in [(4, 1296), (8, 720), (32, 204), (64, 102)] {
        let options = FrequencyOptions::new().cell_bits(bits);
        let bytes = options.clone().bytes(1 << 30, 5).layout().unwrap();
        assert_eq!((bytes.pages(), bytes.columns()), (1 << 18, columns));
        let error = options.clone().error(1e-6, 0.01).plan().unwrap();
        assert_eq!(error.layout.pages(), 2_718_282u64.div_ceil(columns.into()));
        assert_eq!(error.flash_bytes, error.layout.pages().next_multiple_of(512) * 4096);
        for depth in 1..=16 {
            let layout = options.clone().shape(5000, depth).layout().unwrap();
            assert!(layout.width() >= 5000 && layout.page_cells() * bits as usize <= 4080 * 8);
        }
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let store = Store::in_memory(store_options()).unwrap();
    for options in [
        small().cell_bits(0),
        small().cell_bits(16),
        small().record_bytes(2),
        small().group_pages(3),
        small().shape(0, 5),
        small().shape(100, 0),
        small().shape(100, 17),
        small().bytes(100, 5),
        small().elements(1e9, 0.5, 0.01),
        small().memory_bytes(1000),
        small().pending(5000),
    ] {
        let refused = store.frequency("f", options.clone());
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{options:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_option_and_no_argument_panics(
        (size, depth, float) in (any_size(), prop::sample::select(vec![0u32, 1, 5, 16, 17, u32::MAX]), any_float()),
        (bits, bytes, pages) in (any_size(), any_size(), any_size()), sizing in 0u8..5,
        (pending, memory, writers) in (any_size(), any_size(), any_size()), lengths in (0usize..4, 0usize..4),
    ) {
        let options = FrequencyOptions::new();
        let options = match sizing {
            0 => options.error(float, float),
            1 => options.shape(size, depth),
            2 => options.bytes(size, depth),
            3 => options.elements(float, float, 0.01),
            _ => options.bytes(64 << 12, 5),
        };
        let options = if sizing == 4 { options } else { options.cell_bits(bits as u32).record_bytes(bytes as u32) };
        let options = options.group_pages(pages as u32).pending(pending as usize).writers(writers as usize);
        let options = options.memory_bytes(memory as usize);
        let _ = (options.plan(), options.layout());
        let store = Store::in_memory(store_options().memory_bytes(16 << 20)).unwrap();
        if let Ok(sketch) = store.frequency("f", options) {
            let hashes = keys(&store, 0..4);
            let weights = [size, bits, bytes, u64::MAX];
            let is_fit = lengths.0 == lengths.1;
            let added = sketch.update(&hashes[..lengths.0], Some(&weights[..lengths.1]));
            let is_refused = matches!(added, Err(Error::InvalidOption { .. }));
            prop_assert_eq!(is_refused, !is_fit);
            let removed = sketch.remove(&hashes[..lengths.0], Some(&weights[..lengths.1]));
            let is_refused = matches!(removed, Err(Error::InvalidOption { .. }));
            prop_assert!(is_fit || is_refused);
            let bounds = sketch.bounds(&hashes, float);
            prop_assert!(bounds.is_ok() == (0.0..=1.0).contains(&float));
            let _ = sketch.theorem_1_error(float);
        }
    }
}

fn any_size() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![
        0,
        1,
        2,
        4,
        8,
        32,
        512,
        4096,
        65_536,
        3 << 20,
        1 << 31,
        1 << 32,
        1 << 63,
        u64::MAX,
    ])
}

fn any_float() -> impl Strategy<Value = f64> {
    let ends = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 0.5, 1.0, 1e9, f64::MAX];
    prop::sample::select(ends)
}

#[test]
fn weights_above_the_signed_range_saturate_and_say_so() {
    let store = Store::in_memory(store_options()).unwrap();
    let hashes = keys(&store, [1, 2]);
    for bits in [4, 8, 64] {
        let sketch = store.frequency(&bits.to_string(), small().cell_bits(bits)).unwrap();
        sketch.update(&hashes, Some(&[u64::MAX - 1, u64::MAX])).unwrap();
        for _ in 0..2 {
            assert_eq!(sketch.estimate(&hashes).unwrap(), [u64::MAX - 1, u64::MAX]);
            let bounds = sketch.bounds(&hashes, 0.5).unwrap();
            assert_eq!((bounds[0].upper, bounds[1].lower), (u64::MAX - 1, 0));
            sketch.apply().unwrap();
        }
        assert!(sketch.saturated());
        sketch.remove(&hashes[1..], None).unwrap();
        sketch.decay().unwrap();
        // The second cell is still full, but the halved total weight is a bound again.
        assert_eq!(sketch.estimate(&hashes).unwrap(), [u64::MAX / 2, u64::MAX - 1]);
    }
    let narrow = store.frequency("n", small()).unwrap();
    narrow.update(&hashes, Some(&[u32::MAX.into(), 5])).unwrap();
    let bounds = narrow.bounds(&hashes, 0.5).unwrap();
    assert_eq!((bounds[0].upper, bounds[1].upper), (u64::from(u32::MAX) + 5, 5));
}

#[test]
fn a_full_buffer_flushes_by_itself_and_long_batches_are_cut() {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", small()).unwrap();
    let mut model = Model::default();
    let updates = sketch.buffer_updates() as u64;
    let mut random = Random(5);
    let hashes = keys(&store, (0..5 * updates + 17).map(|_| random.below(1_000_000)));
    sketch.update(&hashes, None).unwrap();
    assert!(sketch.pending_chunks() <= 2 && sketch.sketch.sequence.load(Ordering::Relaxed) >= 4);
    hashes.iter().for_each(|&hash| model.add(hash, 1));
    compare(&store, &sketch, &model, &hashes[..3000]);
}

#[test]
fn handles_of_one_name_are_one_sketch_and_give_its_memory_back() {
    fn shared_by_threads<T: Clone + Send + Sync>() {}
    shared_by_threads::<Frequency>();
    shared_by_threads::<super::FrequencyWindow>();
    let store = Store::in_memory(store_options().memory_bytes(8 << 20)).unwrap();
    let options = || small().memory_bytes(3 << 20);
    let (one, other) = (store.frequency("f", options()).unwrap(), store.frequency("f", options()).unwrap());
    let hashes = keys(&store, 0..5);
    one.update(&hashes, None).unwrap();
    assert_eq!(other.estimate(&hashes).unwrap(), [1; 5]);
    assert_eq!(store.budget().available_bytes(), 5 << 20);
    let refused = store.frequency("f", options().cell_bits(8));
    assert!(matches!(refused, Err(Error::Incompatible { .. })));
    assert!(matches!(store.close("f"), Err(Error::InvalidOption { .. })), "it holds what is not committed");
    store.commit(b"1").unwrap();
    store.close("f").unwrap();
    assert_eq!(store.budget().available_bytes(), 8 << 20);
    for refused in [one.update(&hashes, None), one.apply(), one.estimate(&hashes).map(drop)] {
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    }
    let again = store.frequency("f", FrequencyOptions::new().memory_bytes(3 << 20)).unwrap();
    assert_eq!(again.estimate(&hashes).unwrap(), [1; 5]);
    drop((one, other));
    assert_eq!(store.budget().available_bytes(), 5 << 20);
    drop(again);
    assert_eq!(store.budget().available_bytes(), 8 << 20, "the last handle");
}
