//! The shared memory of `monitor` under a model checker: every order of a worker's, an aggregator's and a query's loads and stores that
//! the memory model allows, up to a number of preemptions.
//!
//! The files are those of the library, by their paths, over the checker's atomics: so the checks run with all other tests, and the
//! library is not built a second time under a flag.
#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]
#![allow(dead_code, unreachable_pub, reason = "files of the library, of which the scenes need a part")]

#[path = "../src/monitor/key.rs"]
mod key;
#[path = "../src/monitor/lane.rs"]
mod lane;
#[path = "../src/monitor/message.rs"]
mod message;
#[path = "../src/monitor/monitored.rs"]
mod monitored;
#[path = "../src/monitor/owed.rs"]
mod owed;
#[path = "../src/monitor/recent.rs"]
mod recent;
#[path = "../src/monitor/ring.rs"]
mod ring;
#[path = "../src/monitor/rule.rs"]
mod rule;
#[path = "../src/monitor/shared.rs"]
mod shared;
#[path = "../src/monitor/tally.rs"]
mod tally;
#[path = "../src/monitor/worker.rs"]
mod worker;

/// What `shared` wants of the board, which these scenes have no keys for.
mod heavy {
    #[derive(Debug)]
    pub(super) struct Board;

    impl Board {
        pub(super) fn new(_: usize, _: usize) -> Self {
            Self
        }

        pub(super) fn keys<K>(&self) -> Vec<K> {
            Vec::new()
        }
    }
}

mod sync {
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

    /// As the standard library's, where one thread alone initialises; the checker must see the order of the two.
    #[derive(Debug)]
    pub(super) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_there: AtomicU64,
    }

    impl<T> OnceLock<T> {
        pub(super) fn new() -> Self {
            Self { value: std::sync::OnceLock::new(), is_there: AtomicU64::new(0) }
        }

        pub(super) fn get(&self) -> Option<&T> {
            (self.is_there.load(Ordering::Acquire) == 1).then(|| self.value.get()).flatten()
        }

        pub(super) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            let value = self.value.get_or_init(init);
            self.is_there.store(1, Ordering::Release);
            value
        }
    }
}

use lane::{Lane, Limit};
use loom::model::Builder;
use loom::sync::Arc;
use monitored::Monitored;
use ring::{Receiver, Ring, Sender};
use rule::{Max, Rule, Signed, Sum};
use shared::Shared;
use sync::{AtomicU64, Ordering};
use tally::Tally;
use worker::Worker;

/// Of all interleavings, those with at most so many preemptions; errors of two threads seldom need more (Musuvathi, Qadeer, PLDI 2007).
const PREEMPTIONS: usize = 2;

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(test);
}

#[test]
fn a_ring_gives_every_message_once_and_in_order() {
    check(|| {
        let ring = Arc::new(Ring::new(2, 1));
        let theirs = Arc::clone(&ring);
        let worker = loom::thread::spawn(move || {
            let mut sender = Sender::default();
            let mut sent = 0;
            for value in 0..4 {
                if theirs.has_room(&mut sender) {
                    theirs.stage(&mut sender, value, 7, Some(100 + value as u64));
                    theirs.complete(&mut sender);
                    theirs.publish(&mut sender);
                    sent = value + 1;
                }
            }
            sent
        });
        let mut receiver = Receiver::default();
        let mut taken: Vec<(u64, u64, u64)> = Vec::new();
        for _ in 0..2 {
            ring.take(&mut receiver, 2, |number, word, key: u64| taken.push((number, word, key)));
        }
        worker.join().unwrap();
        ring.take(&mut receiver, 4, |number, word, key: u64| taken.push((number, word, key)));
        let values: Vec<u64> = taken.iter().map(|message| message.2 - 100).collect();
        assert!(values.is_sorted() && values.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
        assert!(values.starts_with(&[0, 1, 2]), "the ring holds three: {values:?}");
        for (at, &(number, word, key)) in taken.iter().enumerate() {
            assert_eq!(number, at as u64);
            assert_eq!((message::cell(word) as u64 + 100, message::value(word)), (key, 7));
            assert!(message::is_keyed(word));
        }
    });
}

/// A worker changes counters, an aggregator applies, a query reads all the while.
struct Scene {
    cells: usize,
    lanes: Vec<Lane>,
    tally: Tally,
    /// How many additions of the first worker have ended.
    ended: AtomicU64,
}

impl Scene {
    fn new(cells: usize, lg_slots: u32, workers: usize) -> Arc<Self> {
        let lanes = (0..workers).map(|_| Lane::new(cells, lg_slots, 0)).collect();
        Arc::new(Self { cells, lanes, tally: Tally::new(cells, workers), ended: AtomicU64::new(0) })
    }

    fn work<R: Rule>(&self, worker: usize, changes: &[(usize, u64)], tau: u8) {
        let lane = &self.lanes[worker];
        let mut writer = lane.writer::<R, ()>();
        let limit = Limit::new(tau);
        for (&(cell, amount), ended) in changes.iter().zip(1..) {
            lane.half(0, self.cells).change::<R, ()>(
                &mut writer,
                cell,
                amount,
                limit,
                &mut limit.clone(),
                (),
            );
            lane.publish::<R, ()>(&mut writer);
            if worker == 0 {
                self.ended.store(ended, Ordering::Release);
            }
        }
    }

    fn aggregate<R: Rule>(&self, receivers: &mut [Receiver]) {
        for ((worker, lane), receiver) in self.lanes.iter().enumerate().zip(receivers) {
            lane.ring.take(receiver, 4, |number, word, (): ()| {
                self.tally.apply::<R>(worker, number, word);
            });
        }
    }

    fn read<R: Rule>(&self, cell: u32) -> u64 {
        let mut sums = [0];
        self.tally.read::<R>(&self.lanes, &[cell], &mut sums);
        sums[0]
    }
}

/// Runs the worker's changes beside an aggregator and a query of cell 0; every read must lie between what had ended when it began and
/// all there is, and the last be exact.
fn one_worker<R: Rule>(changes: &'static [(usize, u64)], tau: u8, lg_slots: u32, polls: usize) {
    let after = |count: usize| {
        let mine = changes[..count].iter().filter(|change| change.0 == 0);
        mine.fold(0, |sum, change| R::join(sum, change.1))
    };
    let is_plausible =
        move |seen: u64, ended: usize| (ended..=changes.len()).any(|count| after(count) == seen);
    check(move || {
        let scene = Scene::new(2, lg_slots, 1);
        let theirs = Arc::clone(&scene);
        let worker = loom::thread::spawn(move || theirs.work::<R>(0, changes, tau));
        let theirs = Arc::clone(&scene);
        let aggregator = loom::thread::spawn(move || {
            let mut receivers = [Receiver::default()];
            (0..polls).for_each(|_| theirs.aggregate::<R>(&mut receivers));
            receivers
        });
        let ended = scene.ended.load(Ordering::Acquire) as usize;
        let seen = scene.read::<R>(0);
        assert!(is_plausible(seen, ended), "{seen} after {ended} of {changes:?}");
        worker.join().unwrap();
        assert_eq!(scene.read::<R>(0), after(changes.len()), "when the worker has ended");
        let mut receivers = aggregator.join().unwrap();
        scene.aggregate::<R>(&mut receivers);
        assert_eq!(scene.read::<R>(0), after(changes.len()), "when all is applied");
    });
}

#[test]
fn a_read_finds_every_addition_once() {
    // The message says 3, the byte 1 before it: no running sum is 4, so what is counted twice shows.
    one_worker::<Sum>(&[(0, 1), (0, 2)], 3, 2, 1);
}

#[test]
fn a_read_is_not_misled_by_other_counters() {
    one_worker::<Sum>(&[(1, 2), (0, 1)], 2, 2, 1);
}

#[test]
fn a_full_ring_loses_nothing() {
    one_worker::<Sum>(&[(0, 200), (0, 200), (0, 200)], 1, 1, 1);
}

#[test]
fn a_sum_that_goes_in_parts_is_read_whole() {
    // The ring holds one message: the rest waits, and is sent if the aggregator takes the first part in time.
    one_worker::<Sum>(&[(0, (1 << 39) + 300)], 1, 1, 1);
}

#[test]
fn signed_counters_are_read_whole() {
    const MINUS: u64 = -2i64 as u64;
    one_worker::<Signed>(&[(0, 1), (0, MINUS), (0, MINUS)], 2, 2, 1);
}

#[test]
fn ranks_are_read_at_once() {
    one_worker::<Max>(&[(0, 2), (0, 5), (0, 3)], 1, 1, 1);
}

#[test]
fn two_workers_share_a_counter() {
    check(|| {
        let scene = Scene::new(1, 1, 2);
        let theirs = Arc::clone(&scene);
        let workers = loom::thread::spawn(move || {
            theirs.work::<Sum>(1, &[(0, 4)], 3);
            theirs.work::<Sum>(0, &[(0, 3)], 3);
        });
        let theirs = Arc::clone(&scene);
        let aggregator = loom::thread::spawn(move || {
            theirs.aggregate::<Sum>(&mut [Receiver::default(), Receiver::default()]);
        });
        let ended = scene.ended.load(Ordering::Acquire);
        let seen = scene.read::<Sum>(0);
        assert!(if ended == 1 { seen == 7 } else { [0, 4, 7].contains(&seen) }, "{seen} after {ended}");
        workers.join().unwrap();
        aggregator.join().unwrap();
        assert_eq!(scene.read::<Sum>(0), 7);
    });
}

/// One counter, which counts all there is.
struct Total;

impl Monitored for Total {
    type Element = u64;
    type Key = ();
    type Rule = Sum;
    const SHOWS_KEYS: bool = false;

    fn cells(&self) -> usize {
        1
    }

    fn weight(&self, weight: u64) -> u64 {
        weight
    }

    fn visit(&self, weight: u64, mut change: impl FnMut(usize, u64)) {
        change(0, weight);
    }

    fn key(&self, _: u64) {}
}

#[test]
fn what_a_counter_holds_is_in_the_total_weight() {
    check(|| {
        let shared = std::sync::Arc::new(Shared::new(Total, 1, 1, 0, 1));
        shared.set_control(0, 9);
        let mut worker = Worker::new(std::sync::Arc::clone(&shared), 0);
        let reading = loom::thread::spawn(move || {
            let mut sums = [0];
            assert!(shared.read(0, &[0], &mut sums));
            let weight = shared.total_weight(0).unwrap();
            assert!(sums[0] <= weight, "{} of {weight}", sums[0]);
        });
        worker.insert(2);
        reading.join().unwrap();
    });
}
