//! Commits of one thread beside publishes and merges of another, and power cuts at any moment of both.
//!
//! The schedule is the system's, so there is no model of each operation; what must hold does so in every schedule. Commit `n` holds the
//! keys 1 to `n` and the position `n`, whatever was published before and after it.

use crate::levels::Levels;
use overbank::device::Device;
use overbank::device::sim::tally::Tally;
use overbank::device::sim::{Crash, Plan, SimDevice};
use overbank::store::{Store, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// At least so many.
pub(crate) const COMMITS: u64 = 40;
/// In so many there is a publish.
pub(crate) const BETWEEN: u64 = 10;

pub(crate) fn options() -> StoreOptions {
    StoreOptions::new().threads(0).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

/// Runs both threads; returns the changes at which each commit had returned, and how many publishes there were.
pub(crate) fn run(device: &SimDevice, seed: u64) -> (Vec<u64>, u64) {
    run_beside(device, seed, |_| false)
}

/// As [`run`], beside someone who reads: the commits go on while `is_behind(n)`, that is, while the reader has seen none later than `n`.
pub(crate) fn run_beside(device: &SimDevice, seed: u64, is_behind: impl Fn(u64) -> bool) -> (Vec<u64>, u64) {
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let levels = Levels::open(&store).unwrap();
    levels.pad(seed % 3, seed);
    let mut done = Vec::new();
    store.commit(&0u64.to_le_bytes()).unwrap();
    done.push(device.changes());
    let (is_over, published) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                published.fetch_add(u64::from(levels.publish().unwrap()), Ordering::AcqRel);
                std::thread::yield_now();
            }
        });
        let mut number = 0;
        for _ in 0..COMMITS / BETWEEN {
            let (before, first) = (published.load(Ordering::Acquire), number);
            let is_waiting = || {
                is_behind(first) || (!publisher.is_finished() && published.load(Ordering::Acquire) == before)
            };
            let mut commits = 0;
            // Further ones while no publish came: each brings a run to merge, for what was merged before may have been committed
            // before it was published.
            while commits < BETWEEN || is_waiting() {
                (number, commits) = (number + 1, commits + 1);
                levels.insert(number);
                if commits > BETWEEN || number % 3 == seed % 3 {
                    levels.flush().unwrap();
                }
                store.commit(&number.to_le_bytes()).unwrap();
                done.push(device.changes());
                if commits > BETWEEN {
                    (0..100).for_each(|_| std::thread::yield_now());
                }
            }
        }
        is_over.store(true, Ordering::Release);
        publisher.join().unwrap();
    });
    (done, published.into_inner())
}

fn check(image: SimDevice, last: u64, place: &str) {
    let store = Store::open_on(Arc::new(image.clone()), options()).unwrap_or_else(|e| panic!("{place}: {e}"));
    let number = u64::from_le_bytes(store.position().try_into().unwrap());
    assert!(number == last || number == last + 1, "{place}: commit {number} is there, {last} was the last");
    let levels = Levels::open(&store).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(levels.content().0.into_iter().eq(1..=number), "{place}: {:?} of {number}", levels.content());
    let named = store.summaries()[0].files;
    let there = image.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count();
    assert_eq!(there, named, "{place}: files that nobody needs");
}

#[test]
fn a_crash_anywhere_beside_publishes_leaves_a_commit() {
    let tally = Tally::new();
    let mut published = 0;
    for workload in tally.workloads(0..3) {
        let device = SimDevice::new(workload);
        device.keep_crash_points();
        let (done, publishes) = run(&device, workload);
        published += publishes;
        for operation in (0..device.crash_points()).filter(|&at| at as u64 >= done[0]) {
            let last = done.partition_point(|&at| at <= operation as u64) as u64 - 1;
            let plans = if device.is_pending_at(operation) { &Plan::ALL[..] } else { &Plan::ALL[..1] };
            for &plan in plans {
                let crash = Crash { operation, plan, seed: workload };
                let image = device.crash_at(crash).expect("the operation has a crash point");
                check(image, last, &format!("workload {workload}, {crash}"));
                tally.add(1);
            }
        }
    }
    let states = tally.tell();
    println!("{published} publishes");
    assert!(states >= 1_000 && published >= 3 * COMMITS / BETWEEN, "{states} states, {published} publishes");
}
