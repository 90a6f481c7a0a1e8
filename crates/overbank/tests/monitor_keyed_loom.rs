//! The shared memory of `monitor::keyed` under a model checker, as `monitor_loom` has that of counters: a worker that changes slots and
//! sends them, an aggregator that applies, and a query that reads all the while.
#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]
#![allow(dead_code, unreachable_pub, reason = "files of the library, of which the scenes need a part")]

#[path = "../src/monitor/keyed/blocks.rs"]
mod blocks;
#[path = "../src/monitor/key.rs"]
mod key;
#[path = "../src/monitor/message.rs"]
mod message;
#[path = "../src/monitor/keyed/passes.rs"]
mod passes;
#[path = "../src/monitor/keyed/post.rs"]
mod post;
#[path = "../src/monitor/ring.rs"]
mod ring;
#[path = "../src/monitor/keyed/table.rs"]
mod table;

mod sync {
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

/// What `blocks` asks of the processor.
mod bits {
    pub(crate) mod prefetch {
        pub(crate) fn prefetch<T>(_: &[T], _: usize) {}
    }
}

/// What `table` wants of the counters' tally.
mod tally {
    pub(super) const WORKERS_MAX: usize = 2;
}

use blocks::{Blocks, Moment};
use loom::model::Builder;
use loom::sync::Arc;
use passes::Passes;
use post::{Claim, Post};
use ring::Receiver;
use sync::{AtomicU64, Ordering};
use table::Table;

/// Of all interleavings, those with at most so many preemptions: of two threads two, as errors seldom need more (Musuvathi, Qadeer, PLDI
/// 2007); of three one, which leaves some thousand.
fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

/// A flow of two words that belong together.
fn flow(number: u64) -> u128 {
    u128::from(number) << 64 | u128::from(number)
}

#[test]
fn a_slot_that_changes_hands_is_read_as_one_flow() {
    check(2, || {
        let blocks = Arc::new(Blocks::new(1, 1, 2));
        let theirs = Arc::clone(&blocks);
        let worker = loom::thread::spawn(move || {
            theirs.change(0, 0, 3, Some(flow(1)), Moment::NONE, || ());
            theirs.set_count(0, 5);
            theirs.change(0, 0, 7, Some(flow(2)), Moment::NONE, || ());
        });
        let mut held: Vec<(u64, u128)> = Vec::new();
        blocks.read(0, &[0], &mut held, || ());
        let states = [vec![], vec![(3, flow(1))], vec![(5, flow(1))], vec![(7, flow(2))]];
        assert!(states.contains(&held), "{held:?}");
        worker.join().unwrap();
        held.clear();
        blocks.read(0, &[0], &mut held, || ());
        assert_eq!(held, [(7, flow(2))]);
    });
}

/// One block of one slot at each worker, and two at the aggregator: what comes is put into the second.
struct Scene {
    posts: Vec<Post>,
    table: Table,
    /// How much the first worker has inserted.
    ended: AtomicU64,
}

impl Scene {
    fn new(lg_slots: u32, workers: usize) -> Arc<Self> {
        let posts = (0..workers).map(|_| Post::new::<u128>(1, 1, lg_slots)).collect();
        Arc::new(Self { posts, table: Table::new::<u128>(1, 1, workers), ended: AtomicU64::new(0) })
    }

    /// Adds to the one slot, which goes to each flow in turn.
    fn work(&self, worker: usize, additions: &[(u64, u64)], tau: u8) {
        let post = &self.posts[worker];
        let (mut seat, mut inserted) = (post.seat(), 0);
        for &(number, weight) in additions {
            let (count, identity) = post.blocks.head(0);
            let taker = (count == 0 || identity != [number; 2]).then_some(flow(number));
            post.put(&mut seat, (0, 0), count + weight, taker, tau);
            post.publish::<u128>(&mut seat);
            inserted += weight;
            if worker == 0 {
                self.ended.store(inserted, Ordering::Release);
            }
        }
    }

    fn aggregate(&self, receivers: &mut [Receiver]) {
        for ((worker, post), receiver) in self.posts.iter().enumerate().zip(receivers) {
            post.ring.take(receiver, 4, |number, word, claim: Claim<u128>| {
                let block = message::cell(word);
                let count = self.table.blocks.count(0) + claim.count;
                self.table.apply(worker, number, (block, 0), count, Some(claim.flow), || ());
            });
        }
    }

    /// What all slots and messages count; every flow is whole.
    fn read(&self) -> u64 {
        let mut held: Vec<(u64, u128)> = Vec::new();
        self.table.read(&self.posts, 0, &[0], &mut held, || ());
        assert!(held.iter().all(|held| [flow(1), flow(2)].contains(&held.1)), "{held:?}");
        held.iter().map(|held| held.0).sum()
    }
}

/// Runs the worker's additions beside a query, then the aggregator beside one, then all three; every read must be a sum of the first
/// additions that is not below those that had ended when it began, and the last be exact.
fn one_worker(additions: &'static [(u64, u64)], tau: u8, lg_slots: u32) {
    let total: u64 = additions.iter().map(|addition| addition.1).sum();
    let sum_of = |count: usize| additions[..count].iter().map(|addition| addition.1).sum::<u64>();
    let sums: Vec<u64> = (0..=additions.len()).map(sum_of).collect();
    let look = move |scene: &Scene| {
        let ended = scene.ended.load(Ordering::Acquire);
        let seen = scene.read();
        assert!(seen >= ended && sums.contains(&seen), "{seen} after {ended} of {additions:?}");
    };
    let seen_by_the_worker = look.clone();
    check(2, move || {
        let scene = Scene::new(lg_slots, 1);
        let theirs = Arc::clone(&scene);
        let worker = loom::thread::spawn(move || theirs.work(0, additions, tau));
        seen_by_the_worker(&scene);
        worker.join().unwrap();
        assert_eq!(scene.read(), total, "when the worker has ended");
    });
    check(2, move || {
        let scene = Scene::new(lg_slots, 1);
        scene.work(0, additions, tau);
        let theirs = Arc::clone(&scene);
        let aggregator = loom::thread::spawn(move || theirs.aggregate(&mut [Receiver::default()]));
        assert_eq!(scene.read(), total, "while it is applied");
        aggregator.join().unwrap();
        assert_eq!(scene.read(), total, "when all is applied");
    });
    check(1, move || {
        let scene = Scene::new(lg_slots, 1);
        let theirs = Arc::clone(&scene);
        let worker = loom::thread::spawn(move || theirs.work(0, additions, tau));
        let theirs = Arc::clone(&scene);
        let aggregator = loom::thread::spawn(move || {
            let mut receivers = [Receiver::default()];
            theirs.aggregate(&mut receivers);
            receivers
        });
        look(&scene);
        worker.join().unwrap();
        assert_eq!(scene.read(), total, "when the worker has ended");
        let mut receivers = aggregator.join().unwrap();
        scene.aggregate(&mut receivers);
        assert_eq!(scene.read(), total, "when all is applied");
    });
}

#[test]
fn a_read_finds_every_addition_once() {
    // The slot holds 1 when 2 more make it due: no running sum is 4 or 2, so what is counted twice, or not at all, shows.
    one_worker(&[(1, 1), (1, 2)], 3, 2);
}

#[test]
fn a_slot_that_another_flow_took_is_sent_whole() {
    one_worker(&[(1, 1), (2, 4)], 5, 2);
}

#[test]
fn a_full_ring_loses_nothing() {
    // The ring holds one message.
    one_worker(&[(1, 5), (2, 7)], 1, 1);
}

#[test]
fn two_workers_share_a_slot_of_the_aggregator() {
    check(1, || {
        let scene = Scene::new(1, 2);
        let theirs = Arc::clone(&scene);
        let workers = loom::thread::spawn(move || {
            theirs.work(1, &[(1, 4)], 3);
            theirs.work(0, &[(2, 3)], 3);
        });
        let theirs = Arc::clone(&scene);
        let aggregator = loom::thread::spawn(move || {
            theirs.aggregate(&mut [Receiver::default(), Receiver::default()]);
        });
        let ended = scene.ended.load(Ordering::Acquire);
        let seen = scene.read();
        assert!(if ended == 3 { seen == 7 } else { [0, 4, 7].contains(&seen) }, "{seen} after {ended}");
        workers.join().unwrap();
        aggregator.join().unwrap();
        assert_eq!(scene.read(), 7);
    });
}

/// A worker and an aggregator of one slot each, which goes to whoever comes; what the aggregator's held then passes to its flow's counter.
struct Passing {
    post: Post,
    table: Table,
    passes: Passes,
    counters: [AtomicU64; 2],
    /// How much of flow 1 the worker has inserted.
    ended: AtomicU64,
}

impl Passing {
    /// The aggregator counts 4 of flow 1.
    fn new() -> Arc<Self> {
        let table = Table::new::<u128>(1, 1, 1);
        table.blocks.change(0, 0, 4, Some(flow(1)), Moment::NONE, || table.blocks.keep(0, 0, false));
        Arc::new(Self {
            post: Post::new::<u128>(1, 1, 2),
            table,
            passes: Passes::new(1),
            counters: [0, 0].map(AtomicU64::new),
            ended: AtomicU64::new(4),
        })
    }

    fn work(&self, additions: &[(u64, u64)], tau: u8) {
        let mut seat = self.post.seat();
        for &(number, count) in additions {
            let is_room = self.post.give(&mut seat, (0, 0), Claim { count, flow: flow(number) }, false, tau);
            assert!(is_room, "the ring holds three messages");
            self.post.publish::<u128>(&mut seat);
            if number == 1 {
                self.ended.store(self.ended.load(Ordering::Relaxed) + count, Ordering::Release);
            }
        }
    }

    fn aggregate(&self, receiver: &mut Receiver) {
        self.post.ring.take(receiver, 4, |number, _, claim: Claim<u128>| {
            let (left, cell) = (self.table.blocks.count(0), self.table.blocks.flow::<u128>(0) as usize - 1);
            let sum = self.counters[cell].load(Ordering::Relaxed) + left;
            self.passes.announce(cell, sum);
            self.table.apply(0, number, (0, 0), claim.count, Some(claim.flow), || {
                self.passes.begin(0);
                self.counters[cell].store(sum, Ordering::Relaxed);
            });
        });
    }

    /// What flow 1 weighs.
    fn read(&self) -> u64 {
        let mut held: Vec<(u64, u128)> = Vec::new();
        loop {
            let passed = self.passes.count(0);
            let posts = std::slice::from_ref(&self.post);
            let raised = self.table.read(posts, 0, &[0], &mut held, || self.passes.last());
            let heavy: u64 = held.iter().filter(|held| held.1 == flow(1)).map(|held| held.0).sum();
            let light = self.counters[0].load(Ordering::Relaxed);
            let light = raised.filter(|raised| raised.0 == 0).map_or(light, |raised| light.max(raised.1));
            if self.passes.is_still(0, passed) {
                return heavy + light;
            }
            sync::spin_loop();
        }
    }
}

/// Flow 1 passes, and what the worker then has of it is added. The query is the thread that is spawned: the checker then finds sooner
/// what the aggregator has begun and not done.
fn passing(additions: &'static [(u64, u64)], tau: u8, total: u64) {
    check(2, move || {
        let scene = Passing::new();
        scene.work(additions, tau);
        let theirs = Arc::clone(&scene);
        let query = loom::thread::spawn(move || assert_eq!(theirs.read(), total, "while it passes"));
        scene.aggregate(&mut Receiver::default());
        query.join().unwrap();
        assert_eq!(scene.read(), total, "when all has passed");
    });
}

#[test]
fn weight_that_passes_to_a_counter_is_found_once() {
    passing(&[(2, 40)], 1, 4);
}

#[test]
fn a_flow_that_is_voted_out_is_sent_in_one_step() {
    // Flow 2 stays below the threshold, and is sent when flow 1 has its slot.
    passing(&[(2, 16), (1, 1)], 20, 5);
}

#[test]
fn a_flow_that_took_a_slot_is_flagged_and_keeps_it() {
    check(3, || {
        let blocks = Arc::new(Blocks::new(1, 1, 2));
        blocks.change(0, 0, 1, Some(flow(1)), Moment::NONE, || blocks.keep(0, 0, false));
        let theirs = Arc::clone(&blocks);
        let worker = loom::thread::spawn(move || {
            theirs.flag(0, 0);
            theirs.change(0, 0, 1, Some(flow(2)), Moment::NONE, || theirs.keep(0, 0, true));
        });
        // In the slot or in none, it is in doubt always.
        assert!(blocks.is_in_doubt(0, [2; 2]));
        worker.join().unwrap();
        blocks.change::<u128>(0, 0, 0, None, Moment::NONE, || ());
        assert!(blocks.is_in_doubt(0, [2; 2]));
        let mut held: Vec<(u64, u128)> = Vec::new();
        blocks.read(0, &[0], &mut held, || ());
        assert_eq!(held, [(0, flow(2))]);
    });
}
