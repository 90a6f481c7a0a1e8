//! A snapshot is the groups of one moment, whatever comes in while it is asked.

use super::inserts::{Insert, inserts, key};
use super::law::MASKS;
use super::spill::{simulated, spilled};
use super::*;
use crate::aggregate::snapshot::{GroupsSnapshot, GroupsSnapshotScan};
use crate::device::sim::SimDevice;
use crate::store::Store;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Clone, Debug)]
enum Step {
    Insert(Insert),
    Snapshot,
    /// Goes on with the scan of one of the snapshots, which is not asked for anything else if `is_last`.
    Read {
        which: usize,
        groups: usize,
        is_last: bool,
    },
    Get {
        which: usize,
        key: u32,
        kind: u8,
    },
    Count {
        which: usize,
    },
    Top {
        which: usize,
    },
    Drop {
        which: usize,
    },
    Finalize,
    /// Of the groups as they are.
    Scan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => inserts(1500, 3).prop_map(Step::Insert),
        3 => Just(Step::Snapshot),
        5 => (0usize..4, prop_oneof![1usize..40, 40usize..3000], prop::bool::weighted(0.3))
            .prop_map(|(which, groups, is_last)| Step::Read { which, groups, is_last }),
        2 => (0usize..4, 0u32..4000, 0u8..4).prop_map(|(which, key, kind)| Step::Get { which, key, kind }),
        1 => (0usize..4).prop_map(|which| Step::Count { which }),
        1 => (0usize..4).prop_map(|which| Step::Top { which }),
        1 => (0usize..4).prop_map(|which| Step::Drop { which }),
        1 => Just(Step::Finalize),
        1 => Just(Step::Scan),
    ];
    prop::collection::vec(step, 1..20)
}

/// A snapshot, what it should be, and how far it was read.
struct Opened<A: Aggregate> {
    snapshot: Option<GroupsSnapshot<A>>,
    scan: Option<GroupsSnapshotScan<A>>,
    expected: Vec<KeyState>,
    read: usize,
}

impl<A: Aggregate> Opened<A> {
    fn new(groups: &Groups<A>, model: &Model) -> Self {
        let hasher = groups.shared().leaves.ground.hasher;
        let mut expected: Vec<KeyState> =
            model.rows.keys().filter_map(|key| model.group(groups.aggregate(), key)).collect();
        expected.sort_by_cached_key(|group| (hasher.hash(&group.key), group.key.clone()));
        Opened { snapshot: Some(groups.snapshot().unwrap()), scan: None, expected, read: 0 }
    }

    fn read(&mut self, groups: usize, is_last: bool) {
        let scan = match (&mut self.scan, &mut self.snapshot) {
            (Some(scan), _) => scan,
            (scan, snapshot) if is_last => scan.insert(snapshot.take().unwrap().into_scan()),
            (scan, snapshot) => scan.insert(snapshot.as_ref().unwrap().scan()),
        };
        for _ in 0..groups {
            assert_eq!(scan.next_group().unwrap(), self.expected.get(self.read));
            self.read = (self.read + 1).min(self.expected.len());
        }
    }
}

fn obeys<A: Aggregate>(groups: &Groups<A>, steps: &[Step], row: impl Fn(u32) -> ModelRow) {
    let (mut model, mut number) = (Model::default(), 0);
    let mut opened: Vec<Opened<A>> = Vec::new();
    for step in steps {
        match *step {
            Step::Insert(insert) => {
                insert.insert(&mut model, &mut number, &row, |keys, rows| {
                    groups.insert_rows(keys, rows).unwrap()
                });
            }
            Step::Snapshot if opened.len() < 4 => opened.push(Opened::new(groups, &model)),
            Step::Drop { which } if which < opened.len() => drop(opened.swap_remove(which)),
            Step::Finalize => groups.finalize().unwrap(),
            Step::Scan => model.check(groups),
            Step::Read { which, groups, is_last } => {
                if let Some(one) = opened.get_mut(which) {
                    one.read(groups, is_last);
                }
            }
            Step::Get { which, key: number, kind } => {
                if let Some(Opened { snapshot: Some(snapshot), expected, .. }) = opened.get(which) {
                    let key = key(number, kind);
                    let expected = expected.iter().find(|group| group.key == key);
                    assert_eq!(snapshot.get(&key).unwrap().as_ref(), expected);
                }
            }
            Step::Count { which } => {
                if let Some(Opened { snapshot: Some(snapshot), expected, .. }) = opened.get(which) {
                    assert_eq!(snapshot.count().unwrap(), expected.len() as u64);
                }
            }
            Step::Top { which } => {
                if let Some(Opened { snapshot: Some(snapshot), expected, .. }) = opened.get(which) {
                    let top = snapshot.top(3, |state| state.words[0]).unwrap();
                    let greatest = expected.iter().map(|group| group.words[0]).max();
                    assert_eq!(top.first().map(|group| group.words[0]), greatest);
                }
            }
            Step::Snapshot | Step::Drop { .. } => {}
        }
    }
    for mut one in opened {
        one.read(one.expected.len() - one.read + 1, false);
    }
    model.check(groups);
    gives_all_back(groups);
}

/// Nothing but pages is left in memory, once nothing waits and no snapshot is there.
fn gives_all_back<A: Aggregate>(groups: &Groups<A>) {
    groups.finalize().unwrap();
    let leaves = &groups.shared().leaves;
    let page_bytes: usize = leaves.all.iter().map(|leaf| lock(leaf).page_bytes()).sum();
    assert_eq!(leaves.ground.pool.used_bytes(), page_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn counts_of_a_moment_are_those_of_a_map(
        steps in steps(), lg_leaves in 0u32..5, mask in prop::sample::select(&MASKS[..]),
    ) {
        obeys(&small(Count, lg_leaves, mask), &steps, |_| (Vec::new(), Vec::new()));
    }

    #[test]
    fn states_with_tails_of_a_moment_are_those_of_a_map(
        steps in steps(), lg_leaves in 0u32..3, mask in prop::sample::select(&MASKS[..4]),
    ) {
        let row = |number: u32| (vec![1 << (number % 64)], format!("{}", number % 30).into_bytes());
        obeys(&small(Collect, lg_leaves, mask), &steps, row);
    }

    #[test]
    fn counts_of_a_moment_on_flash_are_those_of_a_map(
        steps in steps(), lg_leaves in 0u32..5, mask in prop::sample::select(&MASKS[..3]), threads in 0usize..2,
    ) {
        let (_, store) = simulated(threads);
        obeys(&spilled(&store, Count, lg_leaves, mask), &steps, |_| (Vec::new(), Vec::new()));
    }
}

/// What a leaf is at two moments is kept for both, once where it is the same.
#[test]
fn two_moments_are_told_apart_and_share_what_is_alike() {
    let groups = small(Count, 2, u128::MAX);
    let keys: Vec<String> = (0..6000).map(|i| format!("key {i}")).collect();
    let used = || groups.shared().leaves.ground.pool.used_bytes();
    let counts = |snapshot: &GroupsSnapshot<Count>| {
        let (mut scan, mut found) = (snapshot.scan(), BTreeMap::new());
        while let Some(group) = scan.next_group().unwrap() {
            *found.entry(group.words[0]).or_insert(0) += 1;
        }
        found
    };
    groups.insert_many(&keys, &[]).unwrap();
    groups.finalize().unwrap();
    let page_bytes = used();
    // More than have their lists for nothing.
    let many: Vec<_> = (0..20).map(|_| groups.snapshot().unwrap()).collect();
    assert!(used() > page_bytes);
    assert!(many.iter().all(|one| one.count().unwrap() == 6000));
    drop(many);
    let (first, second) = (groups.snapshot().unwrap(), groups.snapshot().unwrap());
    groups.insert_many(&keys[..3000], &[]).unwrap();
    let third = groups.snapshot().unwrap();
    groups.insert_many(&keys, &[]).unwrap();
    groups.finalize().unwrap();
    assert!(used() < 4 * page_bytes, "{} of {page_bytes}: as it is, and twice as it was", used());
    assert_eq!(counts(&first), BTreeMap::from([(1, 6000)]));
    assert_eq!(counts(&second), BTreeMap::from([(1, 6000)]));
    drop(first);
    assert_eq!(counts(&third), BTreeMap::from([(1, 3000), (2, 3000)]));
    assert_eq!(counts(&groups.snapshot().unwrap()), BTreeMap::from([(2, 3000), (3, 3000)]));
    drop(third);
    let mut half_read = second.into_scan();
    half_read.next_group().unwrap();
    drop(half_read);
    gives_all_back(&groups);
}

/// What was read is given back as the scan goes on, and what was not as soon as it is dropped.
#[test]
fn a_scan_gives_back_what_it_has_read() {
    let groups = small(Count, 4, u128::MAX);
    let keys: Vec<String> = (0..20_000).map(|i| format!("key {i}")).collect();
    groups.insert_many(&keys, &[]).unwrap();
    let mut scan = groups.snapshot().unwrap().into_scan();
    groups.insert_many(&keys, &[]).unwrap();
    groups.finalize().unwrap();
    let used = || groups.shared().leaves.ground.pool.used_bytes();
    let (mut before, mut falls) = (used(), 0);
    while let Some(group) = scan.next_group().unwrap() {
        assert_eq!(group.words, [1]);
        falls += u32::from(used() < before);
        before = used();
    }
    assert!(falls > 8, "a leaf at a time: {falls}");
    drop(scan);
    let mut unread = groups.snapshot().unwrap().into_scan();
    unread.next_group().unwrap();
    groups.insert_many(&keys, &[]).unwrap();
    drop(unread);
    gives_all_back(&groups);
}

/// Whoever inserts is never told of a snapshot; who asks this is, once there is no room for it.
#[test]
fn where_memory_is_full_the_snapshot_ends_and_no_row_is_refused() {
    let options = || GroupsOptions::new().memory_bytes(2 << 20).threads(1);
    let batch = |from: u64| (from..from + 1000).map(|i| format!("key number {i}")).collect::<Vec<_>>();
    let fill = |groups: &Groups<Count>| {
        let mut keys = 0;
        while groups.insert_many(&batch(keys), &[]).is_ok() {
            keys += 1000;
        }
        keys
    };
    let alone = fill(&Groups::new(Count, options()).unwrap());
    let groups = Groups::new(Count, options()).unwrap();
    groups.insert_many(&batch(0), &[]).unwrap();
    let snapshot = groups.snapshot().unwrap();
    let mut scan = snapshot.scan();
    assert!(scan.next_group().unwrap().is_some());
    groups.insert_many(&batch(0), &[]).unwrap();
    assert!(snapshot.get(b"key number 7").unwrap().is_some_and(|group| group.words == [1]));
    let beside = fill(&groups);
    assert!(beside * 100 > alone * 97, "{beside} keys beside a snapshot, {alone} alone");
    let error = snapshot.get(b"key number 7").unwrap_err();
    assert!(matches!(error, crate::Error::BudgetExceeded { .. }) && error.to_string().contains("snapshot"));
    let mut left = 0;
    let error = loop {
        match scan.next_group() {
            Ok(group) => assert!(group.is_some_and(|group| group.words == [1])),
            Err(error) => break error,
        }
        left += 1;
    };
    assert!(left < 1000 && matches!(error, crate::Error::BudgetExceeded { .. }), "{error}");
    assert!(groups.memory_bytes() <= 2 << 20, "{} bytes", groups.memory_bytes());
    // There is room for what it needs as long as nothing changes, even so.
    let mut scan = groups.snapshot().unwrap().into_scan();
    let mut found = 0;
    while scan.next_group().unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, groups.count().unwrap());
}

/// Where snapshots alone take what is left of the memory, rows have it.
#[test]
fn any_number_of_snapshots_refuses_no_row() {
    let groups = Groups::new(Count, GroupsOptions::new().memory_bytes(2 << 20).threads(1)).unwrap();
    let batch = |from: u64| (from..from + 1000).map(|i| format!("key number {i}")).collect::<Vec<_>>();
    let pool = &groups.shared().leaves.ground.pool;
    let mut keys = 0;
    while pool.used_bytes() < pool.budget_bytes() / 4 * 3 {
        groups.insert_many(&batch(keys), &[]).unwrap();
        keys += 1000;
    }
    let mut snapshots = Vec::new();
    let refused = loop {
        match groups.snapshot() {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, crate::Error::BudgetExceeded { .. }), "{refused}");
    for _ in 0..10 {
        groups.insert_many(&batch(keys), &[]).unwrap();
        keys += 1000;
    }
    assert!(snapshots.len() > 16 && snapshots.iter().any(|one| one.count().is_err()));
    drop(snapshots);
    assert_eq!(groups.count().unwrap(), keys);
    gives_all_back(&groups);
}

/// Where the disk is full, rows have what snapshots keep there.
#[test]
fn where_the_disk_is_full_the_snapshot_ends() {
    let (device, store) = simulated(0);
    let groups = spilled(&store, Count, 3, u128::MAX);
    let batch = |from: u64| (from..from + 500).map(|i| format!("key number {i}")).collect::<Vec<_>>();
    (0..10).for_each(|number| groups.insert_many(&batch(number * 500), &[]).unwrap());
    let snapshot = groups.snapshot().unwrap();
    assert_eq!(snapshot.count().unwrap(), 5000);
    device.set_capacity_bytes(1 << 20);
    let mut taken = 5000;
    let full = loop {
        match groups.insert_many(&batch(taken), &[]) {
            Ok(()) => taken += 500,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, crate::Error::Full { .. }), "{full}");
    let ended = snapshot.get(b"key number 7").unwrap_err();
    assert!(matches!(ended, crate::Error::BudgetExceeded { .. }), "{ended}");
    assert!(all(&groups).iter().all(|group| group.words == [1]));
}

/// Writers insert batches longer than what they take in at a time; each is in a snapshot whole, and with all that came before it in its
/// thread. A transfer takes from one thread's key what it gives to another's.
fn batches_are_whole(groups: &Groups<Count>, rounds: u64) {
    const ROWS: usize = 3000;
    let (is_over, snapshots) = (AtomicBool::new(false), AtomicU64::new(0));
    let expected = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let groups = groups.clone();
                scope.spawn(move || {
                    for round in 0..rounds {
                        let keys: Vec<String> = (0..ROWS).map(|i| format!("{writer} {}", i % 500)).collect();
                        groups.insert_many(&keys, &[]).unwrap();
                        groups.insert_many(&[format!("done {writer} {round}")], &[]).unwrap();
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut before = 0;
            while !is_over.load(Ordering::Acquire) {
                let (mut scan, mut rows, mut done, mut all) =
                    (groups.snapshot().unwrap().into_scan(), [0; 3], [0; 3], 0);
                while let Some(group) = scan.next_group().unwrap() {
                    let text = String::from_utf8(group.key.clone()).unwrap();
                    let mut words = text.split(' ');
                    let first = words.next().unwrap();
                    all += group.words[0];
                    if first == "done" {
                        done[words.next().unwrap().parse::<usize>().unwrap()] += 1;
                    } else {
                        rows[first.parse::<usize>().unwrap()] += group.words[0];
                    }
                }
                for (rows, done) in rows.iter().zip(done) {
                    assert_eq!(rows % ROWS as u64, 0, "a batch is whole");
                    let batches = rows / ROWS as u64;
                    assert!(batches == done || batches == done + 1, "{batches} batches, {done} of them told");
                }
                assert!(all >= before, "moments are in order");
                before = all;
                snapshots.fetch_add(1, Ordering::Relaxed);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Release);
        reader.join().unwrap();
        3 * rounds * (ROWS as u64 + 1)
    });
    assert!(snapshots.load(Ordering::Relaxed) > 0);
    assert_eq!(all(groups).iter().map(|group| group.words[0]).sum::<u64>(), expected);
}

#[test]
fn batches_are_whole_in_snapshots_beside_threads() {
    let groups = small(Count, 3, u128::MAX);
    batches_are_whole(&groups, 60);
    gives_all_back(&groups);
}

#[test]
fn batches_are_whole_in_snapshots_on_flash() {
    for threads in [0, 2] {
        let (_device, store): (Arc<SimDevice>, Store) = simulated(threads);
        batches_are_whole(&spilled(&store, Count, 3, u128::MAX), 25);
    }
}
