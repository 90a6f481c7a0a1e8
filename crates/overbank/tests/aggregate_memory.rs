//! The memory of groups is a promise: what they allocate never exceeds `memory_bytes`, whatever the number of threads, in memory alone and
//! where most of them are on flash. A counting allocator looks on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

mod counting;

use overbank::aggregate::{Count, Groups, GroupsOptions};
use overbank::store::{Store, StoreOptions};
use overbank::{Error, Seed};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The store's own: its manifest, its queue of jobs, names of files; and of the test, a batch of keys a thread.
const STORE_BYTES: usize = 1 << 20;
const BATCH: u64 = 512;
const BATCH_BYTES: usize = 48 << 10;
/// A page of groups that a scan has decoded.
const SCAN_BYTES: usize = 64 << 10;

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(number: u64) -> [u8; 12] {
    let mut key = [0; 12];
    let mut rest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in &mut key {
        *byte = b'a' + (rest % 26) as u8;
        rest /= 26;
    }
    key
}

/// Inserts keys from 0 to `keys`, on so many threads, each `times` times.
fn insert(groups: &Groups<Count>, threads: u64, keys: u64, times: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut batch = Vec::with_capacity(BATCH as usize);
                for first in (thread * BATCH..keys * times).step_by((threads * BATCH) as usize) {
                    batch.clear();
                    batch.extend((first..(first + BATCH).min(keys * times)).map(|number| key(number % keys)));
                    groups.insert_many(&batch, &[]).unwrap();
                }
            });
        }
    });
}

fn check(what: &str, before: usize, allowed_bytes: usize) {
    let peak = counting::peak_bytes() - before;
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    println!("{what}: {:.2} of {:.2} MiB", mib(peak), mib(allowed_bytes));
    assert!(
        peak <= allowed_bytes,
        "{what}: {:.2} MiB live, {:.2} are allowed",
        mib(peak),
        mib(allowed_bytes)
    );
}

#[test]
fn groups_beyond_memory_stay_within_it() {
    for (threads, mib) in [(1, 4), (8, 16), (16, 16)] {
        let _turn = turn();
        let place = tempfile::tempdir().unwrap();
        let options = StoreOptions::new().memory_bytes(256 << 20).threads(2).seed(Seed(5));
        let store = Store::create(place.path(), options).unwrap();
        let memory_bytes = mib << 20;
        let allowed = memory_bytes + STORE_BYTES + threads as usize * BATCH_BYTES;
        let before = counting::restart();
        let groups =
            Groups::spilling(Count, GroupsOptions::new().memory_bytes(memory_bytes), &store).unwrap();
        let keys = mib as u64 * 120_000;
        insert(&groups, threads, keys, 2);
        check(&format!("{threads} threads, insertion into {mib} MiB"), before, allowed);
        let (mut scan, mut found) = (groups.scan().unwrap(), 0);
        while let Some(group) = scan.next_group().unwrap() {
            assert_eq!(group.words, [2]);
            found += 1;
        }
        assert_eq!(found, keys);
        drop(scan);
        for number in (0..keys).step_by(keys as usize / 50) {
            assert_eq!(groups.get(&key(number)).unwrap().unwrap().words, [2]);
        }
        check(&format!("{threads} threads, questions in {mib} MiB"), before, allowed);
    }
}

#[test]
fn groups_in_memory_alone_stay_within_it() {
    for (threads, mib) in [(1, 2), (1, 16), (8, 16), (16, 32)] {
        let _turn = turn();
        let memory_bytes = mib << 20;
        let before = counting::restart();
        let groups = Groups::new(Count, GroupsOptions::new().memory_bytes(memory_bytes)).unwrap();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut batch = Vec::with_capacity(BATCH as usize);
                    loop {
                        let first = taken.fetch_add(BATCH, Ordering::Relaxed);
                        batch.clear();
                        batch.extend((first..first + BATCH).map(key));
                        match groups.insert_many(&batch, &[]) {
                            Ok(()) => {}
                            Err(Error::BudgetExceeded { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        let allowed = memory_bytes + threads * BATCH_BYTES;
        check(&format!("{threads} threads, all of {mib} MiB"), before, allowed);
        let groups = groups.count().unwrap();
        assert!(groups as usize > memory_bytes / 20, "{groups} groups in {mib} MiB");
        check(&format!("{threads} threads, questions in {mib} MiB"), before, allowed);
    }
}

/// Takes snapshots and reads half of each, until the groups are told to be over; how many were read whole or in half.
fn read_snapshots(groups: &Groups<Count>, is_over: &AtomicBool) -> u64 {
    let mut read = 0;
    while !is_over.load(Ordering::Acquire) {
        let (snapshot, mut seen) = (groups.snapshot().unwrap(), 0);
        let count = snapshot.count();
        let mut scan = snapshot.into_scan();
        let is_lost = loop {
            match scan.next_group() {
                Ok(Some(group)) => assert!(group.words[0] >= 1),
                Ok(None) => break false,
                Err(Error::BudgetExceeded { .. }) => break true,
                Err(error) => panic!("{error}"),
            }
            seen += 1;
            if count.as_ref().is_ok_and(|&count| seen > count / 2) {
                break false;
            }
        };
        read += u64::from(!is_lost);
    }
    read
}

#[test]
fn groups_beside_snapshots_stay_within_it() {
    for (threads, mib, spills) in [(1, 4, false), (8, 16, false), (2, 4, true)] {
        let _turn = turn();
        let memory_bytes = mib << 20;
        let place = tempfile::tempdir().unwrap();
        let options = StoreOptions::new().memory_bytes(64 << 20).threads(1).seed(Seed(5));
        let store = spills.then(|| Store::create(place.path(), options).unwrap());
        let before = counting::restart();
        let options = GroupsOptions::new().memory_bytes(memory_bytes);
        let groups = match &store {
            Some(store) => Groups::spilling(Count, options, store).unwrap(),
            None => Groups::new(Count, options).unwrap(),
        };
        let keys = mib as u64 * if spills { 120_000 } else { 40_000 };
        let is_over = AtomicBool::new(false);
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_snapshots(&groups, &is_over));
            insert(&groups, threads, keys, 3);
            is_over.store(true, Ordering::Release);
            reader.join().unwrap()
        });
        let allowed =
            memory_bytes + threads as usize * BATCH_BYTES + SCAN_BYTES + if spills { STORE_BYTES } else { 0 };
        check(&format!("{threads} threads and {read} snapshots, {mib} MiB"), before, allowed);
        assert!(read > 0);
        assert_eq!(groups.count().unwrap(), keys);
    }
}

/// Scans that wait half-way take no more than what they count as in use: pieces of runs, groups of records that waited on flash.
#[test]
fn scans_that_wait_are_part_of_the_memory() {
    for (threads, scans) in [(1, 1), (8, 8), (16, 16)] {
        let _turn = turn();
        let place = tempfile::tempdir().unwrap();
        let options = StoreOptions::new().memory_bytes(256 << 20).threads(2).seed(Seed(5));
        let store = Store::create(place.path(), options).unwrap();
        let memory_bytes = 16 << 20;
        let allowed = memory_bytes + STORE_BYTES + threads as usize * BATCH_BYTES + scans * SCAN_BYTES;
        let before = counting::restart();
        let groups =
            Groups::spilling(Count, GroupsOptions::new().memory_bytes(memory_bytes), &store).unwrap();
        let keys = 1_500_000;
        insert(&groups, threads, keys, 1);
        let mut waiting: Vec<_> = (0..scans).map(|_| groups.scan().unwrap()).collect();
        for (number, scan) in waiting.iter_mut().enumerate() {
            (0..=1000 * number).for_each(|_| assert!(scan.next_group().unwrap().is_some()));
        }
        insert(&groups, threads, keys / 4, 1);
        for scan in &mut waiting {
            (0..20_000).for_each(|_| assert!(scan.next_group().unwrap().is_some()));
        }
        check(&format!("{threads} threads beside {scans} scans"), before, allowed);
        drop(waiting);
        assert_eq!(groups.count().unwrap(), keys);
    }
}
