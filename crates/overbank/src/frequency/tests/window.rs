//! Windows against a model of one map a pane.

use super::*;
use crate::frequency::FrequencyWindow;

const PANES: usize = 3;

fn window(store: &Store, cell_bits: u32) -> FrequencyWindow {
    let options = small().cell_bits(cell_bits).memory_bytes(2_700_000);
    store.frequency_window("w", PANES, options).unwrap()
}

#[test]
fn a_window_counts_its_panes_and_survives_reopening() {
    [8, 32].into_iter().for_each(slide);
}

fn slide(cell_bits: u32) {
    let device = Arc::new(SimDevice::new(1));
    let mut store = Store::create_on(device.clone(), store_options()).unwrap();
    let mut panes = window(&store, cell_bits);
    let mut random = Random(4);
    let mut models = vec![vec![0u64; 40]; PANES];
    let mut committed = models.clone();
    for turn in 0..60u8 {
        match random.below(6) {
            0 => {
                panes.advance().unwrap();
                models.rotate_left(1);
                models[PANES - 1].fill(0);
            }
            1 => {
                store.commit(&[turn]).unwrap();
                committed = models.clone();
            }
            2 if turn > 5 => {
                store.commit(&[turn]).unwrap();
                committed = models.clone();
                panes.update(&keys(&store, 0..5), None).unwrap();
                panes.advance().unwrap();
                drop((panes, store));
                store = Store::open_on(device.clone(), store_options()).unwrap();
                panes = window(&store, cell_bits);
                models = committed.clone();
            }
            _ => {
                let numbers: Vec<u64> = (0..20).map(|_| random.below(40)).collect();
                panes.update(&keys(&store, numbers.iter().copied()), None).unwrap();
                numbers.iter().for_each(|&number| models[PANES - 1][number as usize] += 1);
            }
        }
        // Forty keys in eleven pages, or four of small cells, do not meet, so the estimates are exact.
        let expected: Vec<u64> = (0..40).map(|key| models.iter().map(|pane| pane[key]).sum()).collect();
        let hashes = keys(&store, 0..40);
        assert_eq!(panes.estimate(&hashes).unwrap(), expected, "turn {turn}");
        let bounds = panes.bounds(&hashes, 0.9).unwrap();
        assert!(bounds.iter().zip(&expected).all(|(b, &count)| b.lower <= count && count <= b.upper));
    }
    assert_eq!((panes.panes(), committed.len()), (PANES, PANES));
}

#[test]
fn another_number_of_panes_is_incompatible() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let panes = window(&store, 32);
    for _ in 0..4 {
        panes.update(&keys(&store, 0..5), None).unwrap();
        panes.advance().unwrap();
    }
    store.commit(b"4").unwrap();
    drop((panes, store));
    let open = |store: &Store, panes| {
        store.frequency_window("w", panes, small().cell_bits(32).memory_bytes(2_700_000))
    };
    for panes in [1, 2, 4, 1024] {
        let readers = Store::open_read_only_on(device.clone(), store_options()).unwrap();
        let writers = Store::open_on(device.clone(), store_options()).unwrap();
        for store in [readers, writers] {
            let error = open(&store, panes).unwrap_err();
            let named = format!("the number of panes is 3 in one and {panes} in the other");
            assert!(
                matches!(error, Error::Incompatible { .. }) && error.to_string().contains(&named),
                "{error}"
            );
        }
    }
    let store = Store::open_on(device, store_options()).unwrap();
    let panes = open(&store, PANES).unwrap();
    assert_eq!(panes.estimate(&keys(&store, 0..5)).unwrap(), [2; 5]);
}

#[test]
fn a_window_that_could_not_be_made_leaves_none_of_its_panes() {
    let store = Store::create_on(Arc::new(SimDevice::new(1)), store_options()).unwrap();
    // Somebody else's summary has the name of the third pane.
    let taken = store.frequency("w/2", small()).unwrap();
    let options = small().cell_bits(32).memory_bytes(2_700_000);
    let error = store.frequency_window("w", PANES, options).unwrap_err();
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");
    taken.update(&keys(&store, 0..5), None).unwrap();
    store.commit(b"1").unwrap();
    let names: Vec<String> = store.summaries().into_iter().map(|summary| summary.name).collect();
    assert_eq!(names, ["w/2"]);
}

#[test]
fn a_window_of_many_panes_takes_the_memory_of_one() {
    let store = Store::in_memory(store_options().memory_bytes(4 << 20)).unwrap();
    let options = small().memory_bytes(3 << 20);
    let day = store.frequency_window("day", 24, options.clone()).unwrap();
    let hashes = keys(&store, 0..3000);
    for hour in 1..30 {
        day.update(&hashes, None).unwrap();
        let estimates = day.estimate(&hashes[..50]).unwrap();
        assert!(estimates.iter().all(|&count| count >= hour.min(24)));
        day.advance().unwrap();
        let occupied = day
            .panes
            .iter()
            .filter(|pane| !crate::lock::read(&pane.sketch.slots[0].waiting).buffer.is_released())
            .count();
        assert_eq!(occupied, 0);
    }
    let another = store.frequency_window("another", 2, options);
    assert!(matches!(another, Err(Error::BudgetExceeded { .. })));
}

#[test]
fn a_decay_halves_every_pane() {
    let store = Store::in_memory(store_options()).unwrap();
    let panes = window(&store, 32);
    let hashes = keys(&store, 0..20);
    for pane in 1..=PANES as u64 {
        panes.update(&hashes, Some(&[10 * pane; 20])).unwrap();
        panes.advance().unwrap();
    }
    // The first pane has gone: 20 and 30 are left.
    assert_eq!((panes.estimate(&hashes).unwrap(), panes.total_weight()), (vec![50; 20], 1000));
    panes.decay().unwrap();
    assert_eq!((panes.estimate(&hashes).unwrap(), panes.total_weight()), (vec![25; 20], 500));
    panes.update(&hashes, None).unwrap();
    assert_eq!(panes.estimate(&hashes).unwrap(), [26; 20]);
}

#[test]
fn heavy_keys_of_a_window_are_those_of_its_panes_alone() {
    use crate::sketch::SpaceSaving;
    let store = Store::in_memory(store_options()).unwrap();
    let options = small().shape(204 * 64, 5).memory_bytes(4 << 20);
    let window = store.frequency_window("w", PANES, options).unwrap();
    let mut candidates = SpaceSaving::new(400, 8, store.hasher()).unwrap();
    let mut random = Random(21);
    let mut models: Vec<std::collections::BTreeMap<KeyHash, u64>> = vec![Default::default(); PANES];
    for round in 0..12u64 {
        // From round to round other keys are the heavy ones.
        let numbers: Vec<u64> = (0..700).map(|_| round / 3 * 1000 + u64::MAX / (random.next() | 1)).collect();
        let hashes = keys(&store, numbers.iter().copied());
        window.update(&hashes, None).unwrap();
        for (&hash, number) in hashes.iter().zip(&numbers) {
            candidates.update(hash, &number.to_le_bytes(), 1);
            *models[PANES - 1].entry(hash).or_default() += 1;
        }
        let mut counts = std::collections::BTreeMap::<KeyHash, u64>::new();
        models.iter().flatten().for_each(|(&hash, &count)| *counts.entry(hash).or_default() += count);
        let total: u64 = counts.values().sum();
        assert_eq!(window.total_weight(), total);
        let k_max = 400 * total / candidates.total_weight();
        for k in [2, 10, k_max] {
            let heavy = window.heavy(&candidates, k, 0.99).unwrap();
            for (hash, &count) in &counts {
                let is_found = heavy.iter().any(|key| key.hash == *hash);
                assert!(
                    count * k <= total || is_found,
                    "round {round}: a key of {count} in {total} is missing"
                );
            }
            for key in heavy {
                let count = counts.get(&key.hash).copied().unwrap_or(0);
                assert!(key.count.lower <= count && count <= key.count.upper, "{key:?} has {count}");
            }
        }
        let refused = window.heavy(&candidates, k_max + 1, 0.99);
        assert!(matches!(refused, Err(Error::InvalidOption { name: "k", .. })), "{refused:?}");
        if round % 2 == 1 {
            window.advance().unwrap();
            models.rotate_left(1);
            models[PANES - 1].clear();
        }
    }
    let fewer = SpaceSaving::new(400, 8, store.hasher()).unwrap();
    assert!(matches!(window.heavy(&fewer, 2, 0.99), Err(Error::InvalidOption { .. })));
    let other = SpaceSaving::new(10, 8, crate::KeyHasher::new(store.hash_kind(), Seed(8))).unwrap();
    assert!(matches!(window.heavy(&other, 2, 0.99), Err(Error::Incompatible { .. })));
}

#[test]
fn a_window_opened_twice_is_one_window() {
    let store = Store::in_memory(store_options()).unwrap();
    let (one, other) = (window(&store, 32), window(&store, 32));
    let hashes = keys(&store, 0..5);
    one.update(&hashes, None).unwrap();
    other.advance().unwrap();
    one.update(&hashes, None).unwrap();
    assert_eq!(other.estimate(&hashes).unwrap(), [2; 5]);
    (0..PANES - 1).for_each(|_| one.advance().unwrap());
    assert_eq!(other.estimate(&hashes).unwrap(), [1; 5], "the first update has gone, the second has not");
}

#[test]
fn a_window_is_closed_by_its_name_and_no_pane_alone() {
    let store = Store::create_on(Arc::new(SimDevice::new(1)), store_options()).unwrap();
    let free = store.budget().available_bytes();
    let panes = window(&store, 32);
    let beside = store.frequency("w2", small().memory_bytes(2_700_000)).unwrap();
    panes.update(&keys(&store, 0..5), None).unwrap();
    let refused = |name: &str, why: &str| {
        let error = store.close(name).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }) && error.to_string().contains(why), "{error}");
    };
    refused("w", "not committed");
    refused("w/1", "a part of \"w\"");
    store.commit(b"").unwrap();
    refused("w/0", "a part of \"w\"");
    assert_eq!(panes.total_weight(), 5);
    store.close("w").unwrap();
    assert!(panes.update(&keys(&store, 0..5), None).is_err() && panes.estimate(&keys(&store, 0..5)).is_err());
    assert!(matches!(store.close("w"), Err(Error::NotFound { .. })));
    assert!(beside.estimate(&keys(&store, 0..5)).is_ok(), "another whose name begins alike");
    drop(beside);
    store.commit(b"1").unwrap();
    assert_eq!(store.budget().available_bytes(), free);
    assert_eq!(window(&store, 32).total_weight(), 5);
}

#[test]
fn a_window_is_removed_by_its_name_open_or_not() {
    for is_open in [true, false] {
        let store = Store::create_on(Arc::new(SimDevice::new(1)), store_options()).unwrap();
        let beside = store.frequency("w2", small().memory_bytes(2_700_000)).unwrap();
        let panes = window(&store, 32);
        panes.update(&keys(&store, 0..5), None).unwrap();
        store.commit(b"").unwrap();
        let panes = is_open.then_some(panes);
        store.remove("w").unwrap();
        assert!(matches!(store.remove("w"), Err(Error::NotFound { .. })));
        store.commit(b"1").unwrap();
        let names: Vec<String> = store.summaries().into_iter().map(|summary| summary.name).collect();
        assert_eq!(names, ["w2"]);
        drop((panes, beside));
        assert_eq!(window(&store, 32).total_weight(), 0);
    }
}
