//! The profile with a sketch on flash: tighter than without, never wrong, and the same for any threads and cuts.

use super::*;
use crate::Error;
use crate::device::sim::SimDevice;
use crate::frequency::FrequencyOptions;
use crate::store::Store;

fn options() -> FrequencyOptions {
    FrequencyOptions::new().bytes(4 << 20, 5).pending(2)
}

fn store_on(device: Arc<dyn crate::device::Device>) -> Store {
    Store::create_on(device, StoreOptions::new().seed(Seed(7)).memory_bytes(FLASH_MEMORY_BYTES_MIN as usize))
        .unwrap()
}

/// An empty profile with flash, in a store of its own.
fn on_flash(store: &Store) -> Profile {
    let wanted = ProfileOptions::new().memory_bytes(FLASH_MEMORY_BYTES_MIN).flash(options()).threads(3);
    store.profile("profile", wanted).unwrap()
}

fn exact(rows: &[(u16, u64)]) -> HashMap<u16, u64> {
    let mut exact = HashMap::new();
    for (key, weight) in rows {
        *exact.entry(*key).or_default() += weight;
    }
    exact
}

/// Everything that the profile can be asked.
fn answers(profile: &Profile, parser: &Slices) -> (ProfileReport, Vec<Estimate>) {
    let asked: Vec<_> = (0..=u16::MAX).step_by(97).map(|key| parser.hasher.hash(&name(key))).collect();
    let report = ProfileReport { skipped: 0, ..profile.report(1000, &RANKS).unwrap() };
    (report, profile.estimates(&asked).unwrap())
}

#[test]
fn the_head_of_a_list_is_that_of_the_whole_list() {
    let parser = parser(false);
    let store = store_on(Arc::new(MemoryDevice::new()));
    let profile = on_flash(&store);
    count_in(&profile, &parser, 2, &cut(&crowded_rows(), 1000));
    let whole = profile.heavy(usize::MAX).unwrap();
    assert!(
        whole.len() > 1000
            && whole.is_sorted_by(|a, b| { (b.estimate, &a.key, a.hash) <= (a.estimate, &b.key, b.hash) })
    );
    for top in [0, 1, 2, 10, 255, 256, 257, 700, 1000, whole.len() - 1] {
        assert_eq!(profile.heavy(top).unwrap(), whole[..top], "{top}");
    }
}

#[test]
fn bounds_hold_and_are_tighter_than_those_of_ram() {
    let (parser, rows) = (parser(false), crowded_rows());
    let truth = exact(&rows);
    let store = store_on(Arc::new(MemoryDevice::new()));
    let profile = on_flash(&store);
    count_in(&profile, &parser, 2, &cut(&rows, 1000));
    let counted = profile.flash().unwrap().unwrap();
    assert!(counted.weight > 10_000 && counted.theorem_1_error > 0.0, "{counted:?}");

    let keys: Vec<u16> = truth.keys().copied().collect();
    let hashes: Vec<_> = keys.iter().map(|key| parser.hasher.hash(&name(*key))).collect();
    let listed = profile.heavy(usize::MAX).unwrap();
    let (mut below_lower, mut error, mut error_in_ram) = (0, 0, 0);
    for ((key, bounds), &hash) in keys.iter().zip(profile.estimates(&hashes).unwrap()).zip(&hashes) {
        let count = truth[key];
        assert!(count <= bounds.upper, "{key}: {count} {bounds:?}");
        assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper);
        let heavy = listed.iter().find(|heavy| heavy.hash == hash);
        assert!(heavy.is_some() || count <= profile.heavy_threshold().unwrap());
        assert!(heavy.is_none_or(|heavy| heavy.lower <= count && heavy.estimate == bounds.estimate));
        below_lower += usize::from(bounds.lower > count);
        error += bounds.estimate - count;
        error_in_ram += profile.summary.look(|sketches| sketches.counts.estimate(hash)).unwrap();
    }
    // The bound promises 1 in 20; the pages hold so little that far fewer are expected.
    assert!(below_lower * 20 <= keys.len(), "{below_lower} of {}", keys.len());
    assert!(error * 4 <= error_in_ram, "{error} on flash, {error_in_ram} in RAM");
    let measured = profile.estimate_error().unwrap();
    assert!(measured.average <= error as f64 / keys.len() as f64 + 0.1, "{measured:?}");
}

#[test]
fn the_heaviest_keys_are_those_of_the_whole_list() {
    let (parser, rows) = (parser(false), crowded_rows());
    let store = store_on(Arc::new(MemoryDevice::new()));
    // So few pages that slots begin with counts far too high, which flash then corrects: the order changes.
    let crowd = |plan| ProfilePlan { count_bytes: SHARDS * 4080, heavy_capacity: 60, ..plan };
    let mut wanted = ProfileOptions::new().memory_bytes(FLASH_MEMORY_BYTES_MIN).flash(options()).threads(3);
    wanted.crowd = Some(crowd);
    let profile = store.profile("profile", wanted).unwrap();
    count_in(&profile, &parser, 2, &cut(&rows, 1000));
    let all = profile.heavy(usize::MAX).unwrap();
    assert!(all.len() > 1500 && all.is_sorted_by_key(|key| std::cmp::Reverse(key.estimate)));
    for top in [0, 1, 49, 50, 51, 60, 80, 300, 1000] {
        assert_eq!(profile.heavy(top).unwrap(), all[..top], "{top}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn answers_depend_neither_on_threads_nor_on_cuts_nor_on_interruption(
        cuts in (300usize..9000, 300usize..9000), threads in 2usize..5, stop in 0usize..60_000, weight in 1u64..4,
    ) {
        let parser = parser(false);
        let rows: Vec<_> = crowded_rows().into_iter().map(|(key, _)| (key, 1 + u64::from(key) % weight)).collect();
        let quiet = store_on(Arc::new(MemoryDevice::new()));
        let whole = on_flash(&quiet);
        count_in(&whole, &parser, 1, &cut(&rows, cuts.0));

        let device = Arc::new(MemoryDevice::new());
        let store = store_on(device.clone());
        let shared = on_flash(&store);
        count_in(&shared, &parser, threads, &cut(&rows[..stop], cuts.1));
        store.commit(b"here").unwrap();
        // What comes behind the commit is lost, and counted again.
        count_in(&shared, &parser, threads, &cut(&rows[..stop / 2], cuts.0));
        drop((shared, store));
        let store = Store::open_on(device, StoreOptions::new().memory_bytes(FLASH_MEMORY_BYTES_MIN as usize)).unwrap();
        let resumed = store.profile("profile", ProfileOptions::new().threads(threads)).unwrap();
        count_in(&resumed, &parser, threads, &cut(&rows[stop..], cuts.1));
        prop_assert_eq!(answers(&resumed, &parser), answers(&whole, &parser));
    }
}

#[test]
fn a_profile_that_flash_refused_neither_answers_nor_commits() {
    let (parser, rows) = (parser(false), crowded_rows());
    let device = Arc::new(SimDevice::new(7));
    let store = store_on(device.clone());
    let shared = on_flash(&store);
    count_in(&shared, &parser, 2, &cut(&rows[..5_000], 500));
    store.commit(b"good").unwrap();
    let profile = shared.clone();
    device.set_capacity_bytes(device.used_bytes());
    // More keys than slots, and than the buffer could join: sooner or later it must be written.
    let mut chunks = (0..1000).map(|i| (0..4096u16).map(|key| (key * 16 + i % 16, 1)).collect());
    let refused = profile.update(3, &parser, || Ok(chunks.next())).unwrap_err();
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    let hash = parser.hasher.hash(&name(1));
    assert!(matches!(profile.estimates(&[hash]), Err(Error::Poisoned { .. })));
    assert!(matches!(profile.flash(), Err(Error::Poisoned { .. })));
    assert!(matches!(profile.update(1, &parser, || Ok(Some(vec![(1, 1)]))), Err(Error::Poisoned { .. })));
    drop(profile);
    assert!(matches!(store.commit(b"bad"), Err(Error::Poisoned { .. })));
    drop((shared, store));
    let store =
        Store::open_on(device, StoreOptions::new().memory_bytes(FLASH_MEMORY_BYTES_MIN as usize)).unwrap();
    assert_eq!((store.position(), stored_in(&store).rows().unwrap()), (b"good".to_vec(), 5_000));
}

#[test]
fn flash_is_what_a_profile_is_made_with_or_not() {
    let parser = parser(false);
    let store = store_on(Arc::new(MemoryDevice::new()));
    let profile = empty_in(&store, &parser);
    count_in(&profile, &parser, 1, &[vec![(1, 1)]]);
    assert_eq!(profile.flash().unwrap(), None);
    let refused = store.profile("profile", ProfileOptions::new().flash(options())).unwrap_err();
    assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
    // The name of a new one's sketch on flash is taken.
    let taken = store.frequency("other/counts", options()).unwrap();
    taken.update(&[parser.hasher.hash(b"a")], None).unwrap();
    let wanted = || ProfileOptions::new().memory_bytes(FLASH_MEMORY_BYTES_MIN).flash(options());
    let before = store.budget().available_bytes();
    let small = store_on(Arc::new(MemoryDevice::new()));
    drop(small.profile("other", wanted()).unwrap());
    assert!(store.profile("other", wanted()).is_err());
    assert_eq!(store.budget().available_bytes(), before);
}

#[test]
fn every_plan_with_flash_leaves_the_sketch_its_buffers() {
    for (memory_bytes, pending) in
        [(FLASH_MEMORY_BYTES_MIN, 4), (32 << 20, 16), (64 << 20, 16), (1 << 30, 16)]
    {
        let plan = ProfilePlan::with_flash(memory_bytes).unwrap();
        for (flash_bytes, threads) in [(1 << 20, 1), (8 * memory_bytes, 2), (256 * memory_bytes, 16)] {
            let size = FrequencyOptions::new().bytes(flash_bytes, 5).pending(16);
            let fitted = plan.fitted(&size, threads).unwrap();
            let cost = fitted.plan().unwrap();
            let writers = plan.flash_writers(threads);
            assert!(fitted.pending_chunks() >= pending, "{memory_bytes}: {fitted:?}");
            assert_eq!(cost.memory_bytes, plan.flash_memory_bytes);
            // At least a fifth of its RAM holds updates.
            assert!(
                cost.buffer_updates * writers * 16 * 5 >= plan.flash_memory_bytes,
                "{memory_bytes}: {cost:?}"
            );
        }
    }
    let many = FrequencyOptions::new().pending(1000);
    assert!(ProfilePlan::with_flash(64 << 20).unwrap().fitted(&many, 1).unwrap().pending_chunks() < 1000);
    let refused = ProfilePlan::with_flash(FLASH_MEMORY_BYTES_MIN - 1).unwrap_err();
    assert!(refused.to_string().contains("16 MiB"), "{refused}");
}
