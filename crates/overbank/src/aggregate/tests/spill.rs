//! Groups that go to flash are those of a map, too.

use super::law::{MASKS, obeys, steps};
use super::*;
use crate::aggregate::options::FlashShares;
use crate::aggregate::saved::{Setup, spilling};
use crate::device::Device;
use crate::device::sim::SimDevice;
use crate::lsm::Limits;
use crate::store::{Store, StoreOptions};
use proptest::prelude::*;

pub(super) fn store_options(threads: usize) -> StoreOptions {
    StoreOptions::new().threads(threads).seed(Seed(7)).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

pub(super) fn simulated(threads: usize) -> (Arc<SimDevice>, Store) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options(threads)).unwrap();
    (device, store)
}

/// Pieces of a few blocks, runs that are merged early.
pub(super) fn setup(store: &Store, lg_leaves: u32, pool_blocks: usize, mask: u128) -> (GroupsOptions, Setup) {
    let options = GroupsOptions::new().threads(3);
    let shares = small_shares(&options, lg_leaves);
    let shares = Shares { pool_bytes: pool_blocks * 4096, spills: true, ..shares };
    let limits = Limits {
        frozen_bytes: 1 << 20,
        flush_entries: 200,
        lanes: 2,
        merges: 2,
        inputs_max: 6,
        lane_entries_min: 200,
        piece_bytes_min: 16 << 10,
    };
    let flash = FlashShares {
        lg_sections: shares.lg_sections,
        limits,
        lane_bytes: 64 << 10,
        // Beside the loan of a scan there is room for groups, as in the shares of real sizes.
        scan_bytes: 32 << 10,
        piece_blocks_max: 2,
        writer_blocks: 2,
        backlog_bytes: 64 << 10,
        pieces_bytes: 1 << 10,
        gather_bytes: 32 << 10,
    };
    let hasher = GroupHasher { mask, ..GroupHasher::new(store.hasher(), lg_leaves) };
    (options, Setup { hasher, shares, flash })
}

/// As [`small`], with so little memory that most is on flash: some blocks for each leaf, and what four scans take at a time, of which the
/// first borrows 32 KiB and the others 8.
pub(super) fn spilled<A: Aggregate>(store: &Store, aggregate: A, lg_leaves: u32, mask: u128) -> Groups<A> {
    let (options, setup) = setup(store, lg_leaves, (3 << lg_leaves) + 18, mask);
    spilling(store, aggregate, &options, setup).unwrap()
}

fn runs<A: Aggregate>(groups: &Groups<A>) -> usize {
    groups.shared().spill.as_ref().map_or(0, |spill| spill.version().runs.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn counts_on_flash_are_those_of_a_map(
        steps in steps(), lg_leaves in 0u32..5, mask in prop::sample::select(&MASKS[..3]), threads in 0usize..2,
    ) {
        let (_, store) = simulated(threads);
        obeys(&spilled(&store, Count, lg_leaves, mask), &steps, |_| (Vec::new(), Vec::new()));
    }

    #[test]
    fn states_with_tails_on_flash_are_those_of_a_map(
        steps in steps(), lg_leaves in 0u32..3, mask in prop::sample::select(&MASKS[..3]),
    ) {
        let (_, store) = simulated(0);
        let row = |number: u32| (vec![1 << (number % 64)], format!("{}", number % 30).into_bytes());
        obeys(&spilled(&store, Collect, lg_leaves, mask), &steps, row);
    }
}

#[test]
fn keys_of_one_hash_are_told_apart_on_flash() {
    let (_, store) = simulated(0);
    let groups = spilled(&store, Count, 2, 0);
    let keys: Vec<String> = (0..4000).map(|i| format!("key {i} ").repeat(6)).collect();
    for _ in 0..3 {
        groups.insert_many(&keys, &[]).unwrap();
    }
    assert!(runs(&groups) > 1, "{} runs", runs(&groups));
    let found = all(&groups);
    assert!(found.len() == 4000 && found.iter().all(|group| group.words == [3]));
    assert_eq!(groups.get(keys[77].as_bytes()).unwrap().unwrap().words, [3]);
    assert_eq!(groups.get(b"key 4000").unwrap(), None);
}

/// Many times the memory, in several threads beside questions, with threads of the store and without.
#[test]
fn many_times_the_memory_goes_to_flash() {
    for (store_threads, writers) in [(0, 1), (0, 3), (2, 3)] {
        let (device, store) = simulated(store_threads);
        let groups = spilled(&store, Count, 3, u128::MAX);
        let keys: Vec<String> = (0..60_000).map(|i| format!("key number {}", i % 50_000)).collect();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (groups, keys) = (groups.clone(), &keys);
                scope.spawn(move || {
                    for part in keys.chunks(1000).skip(writer).step_by(writers) {
                        groups.insert_many(part, &[]).unwrap();
                        assert!(groups.get(part[7].as_bytes()).unwrap().unwrap().words[0] >= 1);
                    }
                });
            }
            let mut before = 0;
            for _ in 0..3 {
                let found = all(&groups);
                let order = |group: &KeyState| {
                    (groups.shared().leaves.ground.hasher.hash(&group.key), group.key.clone())
                };
                assert!(found.is_sorted_by(|a, b| order(a) < order(b)));
                assert!(found.len() >= before);
                before = found.len();
            }
        });
        assert!(runs(&groups) > 4, "{} runs", runs(&groups));
        let found = all(&groups);
        assert_eq!((found.len(), found.iter().map(|group| group.words[0]).sum::<u64>()), (50_000, 60_000));
        assert_eq!(groups.count().unwrap(), 50_000);
        assert_eq!(groups.top(10_001, |state| state.words[0]).unwrap()[10_000].words, [1]);
        let before = device.used_bytes();
        drop(groups);
        assert!(device.used_bytes() < before / 4, "its files are gone with it");
    }
}

/// Rows of leaves whose pages went to flash wait there: they are found, they become groups, in parts where memory is little, and damage to
/// them is told.
#[test]
fn records_wait_on_flash() {
    let keys: Vec<String> = (0..40_000).map(|i| format!("key number {}", i % 20_000)).collect();
    for gather_bytes in [16 << 10, 1 << 20] {
        let (device, store) = simulated(0);
        let (options, mut setup) = setup(&store, 3, 36, u128::MAX);
        setup.flash =
            FlashShares { backlog_bytes: 1 << 20, pieces_bytes: 1 << 20, gather_bytes, ..setup.flash };
        let groups = spilling(&store, Count, &options, setup).unwrap();
        groups.insert_many(&keys, &[]).unwrap();
        let spill = groups.shared().spill.as_ref().unwrap();
        let waiting = spill.backlog_bytes();
        assert!(waiting > 300_000, "{waiting} bytes wait");
        for key in keys.iter().step_by(5000) {
            assert_eq!(groups.get(key.as_bytes()).unwrap().unwrap().words, [2]);
        }
        assert_eq!(groups.get(b"key number 20000").unwrap(), None);
        let is_whole =
            |found: &[KeyState]| found.len() == 20_000 && found.iter().all(|group| group.words == [2]);
        assert!(is_whole(&all(&groups)));
        assert_eq!(spill.backlog_bytes(), waiting, "a scan leaves it");
        // What was asked often becomes runs.
        (0..3).for_each(|_| assert!(is_whole(&all(&groups))));
        assert_eq!(spill.backlog_bytes(), 0);
        groups.insert_many(&keys, &[]).unwrap();
        assert!(spill.backlog_bytes() > 0);
        for name in device.list().unwrap() {
            (0..2000).for_each(|bit| assert!(device.flip_bit(&name, bit)));
        }
        let mut scan = groups.scan().unwrap();
        let damage = loop {
            match scan.next_group() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("damage is not seen"),
                Err(error) => break error,
            }
        };
        assert!(matches!(damage, crate::Error::Corrupt { .. }), "{damage}");
        // Sums without what cannot be read would be short.
        (0..20).for_each(|_| assert!(scan.next_group().is_err()));
        let before = device.used_bytes();
        drop((scan, groups));
        assert!(device.used_bytes() < before / 4, "its files are gone with it");
    }
}

/// A scan that comes to damage in the middle of a run lends what is before, each group once, and nothing behind.
#[test]
fn a_scan_does_not_go_on_behind_damage() {
    let (device, store) = simulated(0);
    let groups = spilled(&store, Count, 3, u128::MAX);
    let keys: Vec<String> = (0..30_000).map(|i| format!("key number {i}")).collect();
    groups.insert_many(&keys, &[]).unwrap();
    let snapshot = groups.snapshot().unwrap();
    for name in device.list().unwrap() {
        device.flip_bit(&name, 8 * 20_000);
    }
    let order = |group: &KeyState| (groups.shared().leaves.ground.hasher.hash(&group.key), group.key.clone());
    let read = |next: &mut dyn FnMut() -> crate::Result<Option<KeyState>>| {
        let mut found = Vec::new();
        let damage = loop {
            match next() {
                Ok(group) => found.push(group.expect("damage is seen")),
                Err(error) => break error,
            }
        };
        assert!(matches!(damage, crate::Error::Corrupt { .. }), "{damage}");
        (0..20).for_each(|_| assert!(next().is_err()));
        assert!(found.is_sorted_by(|a, b| order(a) < order(b)));
        assert!(!found.is_empty() && found.iter().all(|group| group.words == [1]));
    };
    let (mut now, mut then) = (groups.scan().unwrap(), snapshot.scan());
    read(&mut || Ok(now.next_group()?.cloned()));
    read(&mut || Ok(then.next_group()?.cloned()));
}

/// Questions and snapshots that find no room for runs of records which wait on flash leave them there: rows are not refused for that.
#[test]
fn what_waits_on_a_full_disk_is_left_there() {
    let (device, store) = simulated(0);
    let (options, mut setup) = setup(&store, 3, 36, u128::MAX);
    setup.flash = FlashShares { backlog_bytes: 1 << 20, pieces_bytes: 1 << 20, ..setup.flash };
    let groups = spilling(&store, Count, &options, setup).unwrap();
    let keys: Vec<String> = (0..40_000).map(|i| format!("key number {}", i % 20_000)).collect();
    groups.insert_many(&keys, &[]).unwrap();
    let spill = groups.shared().spill.as_ref().unwrap();
    spill.tree.finish_merges(0).unwrap();
    let waiting = spill.backlog_bytes();
    assert!(waiting > 300_000, "{waiting} bytes wait");
    let is_whole = || {
        let found = all(&groups);
        found.len() == 20_000 && found.iter().all(|group| group.words == [2])
    };
    device.set_capacity_bytes(device.used_bytes() + (8 << 10));
    for _ in 0..4 {
        assert!(is_whole());
        assert_eq!((spill.backlog_bytes(), spill.version().frozen.len()), (waiting, 0));
    }
    assert!(matches!(groups.snapshot(), Err(crate::Error::Full { .. })));
    assert_eq!(spill.backlog_bytes(), waiting);
    assert!(is_whole());
    device.set_capacity_bytes(u64::MAX);
    groups.insert_many(&keys[..7], &[]).unwrap();
    assert_eq!(groups.snapshot().unwrap().count().unwrap(), 20_000);
    assert_eq!(spill.backlog_bytes(), 0);
}

/// However many records wait for leaves that are away, no more of them are put in order at a time than there is memory for.
#[test]
fn what_waits_for_leaves_that_are_away_is_put_in_order_in_parts() {
    let (_, store) = simulated(0);
    let (options, setup) = setup(&store, 2, 20_000, u128::MAX);
    let groups = spilling(&store, Count, &options, setup).unwrap();
    let leaves = &groups.shared().leaves;
    leaves.all.iter().for_each(|leaf| lock(leaf).send_away());
    let keys: Vec<String> = (0..200_000).map(|i| format!("key number {i}")).collect();
    groups.insert_many(&keys, &[]).unwrap();
    groups.shared().hand_over();
    assert!(leaves.all.iter().all(|leaf| lock(leaf).pending() > 200));
    assert_eq!(groups.count().unwrap(), 200_000);
    let bytes = leaves.ground.scratches.memory_bytes();
    assert!(bytes < 512 << 10, "{bytes} bytes to put records in order");
}
