//! The thread by a clock that passes when told, and the thread itself, whose tests wait for what it does and not for time.

use super::super::{
    Allocation, FlowSizes, Monitor, MonitorOptions, Monitored, Packet, ReadCounters, Sum, Weighed,
};
use super::*;
use crate::{HashKind, KeyHasher, Seed};
use std::cell::{Cell, RefCell};

type Sizes = FlowSizes<u64, 3>;

fn packet(flow: u64) -> Packet<u64> {
    Packet { hash: KeyHasher::new(HashKind::Xxh3, Seed(7)).hash_u64(flow), key: flow, weight: 1 }
}

fn start(options: MonitorOptions) -> Monitor<Sizes> {
    options.start(Sizes::new(1 << 10).expect("valid")).expect("valid")
}

/// A thread that works whenever it looks at the time, while packets come in.
struct Told<'a> {
    now_ns: Cell<u64>,
    busy_ns: Cell<u64>,
    says_busy: bool,
    rests: Cell<u64>,
    worker: RefCell<&'a mut Worker<Sizes>>,
    /// So long a packet comes after the other.
    gap_ns: u64,
    orders: &'a Orders,
    end_ns: u64,
}

impl Told<'_> {
    fn pass_ns(&self, ns: u64) {
        let (then_ns, now_ns) = (self.now_ns.get(), self.now_ns.get() + ns);
        self.now_ns.set(now_ns);
        let packets: Vec<_> =
            (then_ns / self.gap_ns..now_ns / self.gap_ns).map(|i| packet(i % 100)).collect();
        self.worker.borrow_mut().insert_batch(&packets);
        self.orders.is_stopped.store(now_ns >= self.end_ns, Ordering::Relaxed);
    }
}

impl Clock for Told<'_> {
    fn now_ns(&self) -> u64 {
        self.busy_ns.set(self.busy_ns.get() + 1000);
        self.pass_ns(1000);
        self.now_ns.get()
    }

    fn busy_ns(&self) -> Option<u64> {
        self.says_busy.then(|| self.busy_ns.get())
    }

    fn rest(&self, ns: u64) {
        self.rests.set(self.rests.get() + 1);
        self.pass_ns(ns);
    }
}

/// Which share of `end_ns` the aggregator worked beside a worker that gets a packet every `gap_ns`, and how often it rested.
fn share_of(policy: Allocation, gap_ns: u64, end_ns: u64, says_busy: bool) -> (f64, u64) {
    let Monitor { mut workers, mut aggregator, reader } = start(MonitorOptions::new(1).policy(policy));
    let orders = Orders::default();
    let clock = Told {
        now_ns: Cell::new(0),
        busy_ns: Cell::new(0),
        says_busy,
        rests: Cell::new(0),
        worker: RefCell::new(&mut workers[0]),
        gap_ns,
        orders: &orders,
        end_ns,
    };
    run(&mut aggregator, &orders, &clock);
    let (share, rests) = (clock.busy_ns.get() as f64 / clock.now_ns.get() as f64, clock.rests.get());
    // However little it worked, all that came is counted.
    let came = clock.now_ns.get() / gap_ns;
    let counted: u64 = (0..100).map(|flow| reader.size(packet(flow).hash, 0.9).estimate).sum();
    assert_eq!(reader.total_weight(0), Some(came));
    assert!(counted >= came, "{counted} of {came}");
    (share, rests)
}

#[test]
fn a_limited_thread_works_its_share_and_no_more() {
    for share in [0.05, 0.3, 0.8] {
        for says_busy in [true, false] {
            let (worked, rests) = share_of(Allocation::CpuLimit { share }, 2000, 30_000_000, says_busy);
            // What is worked after the last rest makes a hundredth of the time at most. Where the system does not say what the thread
            // worked, a rest lasts until it has looked at the time: one of its five looks a round.
            let most = if says_busy { share } else { 1.25 * share } + 0.01;
            assert!((share * 0.8..most).contains(&worked), "{worked} of {share}");
            assert!(rests > 10);
        }
    }
    let (worked, _) = share_of(Allocation::CpuLimit { share: 1.0 }, 2000, 30_000_000, true);
    assert!(worked > 0.8, "{worked}");
}

#[test]
fn an_idle_thread_rests() {
    let (worked, rests) = share_of(Allocation::BestAccuracy, 1_000_000_000, 500_000_000, true);
    assert!(worked < 0.01, "{worked}");
    assert!(rests < 600, "of a millisecond each: {rests}");
    let (worked, _) = share_of(Allocation::BestAccuracy, 100, 1_000_000, true);
    assert!(worked > 0.9, "there is always something: {worked}");
}

#[test]
fn time_that_was_not_used_is_credited_up_to_a_limit() {
    const MS: u64 = 1_000_000;
    let mut pace = Pace::new(0.5);
    let mut over_ns = |now_ns, busy_ns| pace.over_ns(now_ns, busy_ns);
    assert_eq!(over_ns(0, 0), 0);
    assert_eq!(over_ns(4 * MS, 4 * MS), 4 * MS, "4 ms of work fill 8 ms");
    assert_eq!(over_ns(8 * MS, 4 * MS), 0);
    // A second without work, then work alone: 5 ms of it are half of the 10 ms that are credited, and the 5 ms fill as many more.
    assert_eq!(over_ns(1008 * MS, 4 * MS), 0);
    assert_eq!(over_ns(1018 * MS, 14 * MS), 0);
    assert_eq!(over_ns(1019 * MS, 15 * MS), MS);
    // At the ends nothing overflows.
    for (now_ns, busy_ns) in [(u64::MAX, u64::MAX), (u64::MAX, 0), (0, u64::MAX), (0, 0)] {
        over_ns(now_ns, busy_ns);
    }
}

#[test]
fn a_thread_applies_what_workers_send_and_gives_the_aggregator_back() {
    let Monitor { mut workers, aggregator, reader } = start(MonitorOptions::new(3).lg_ring(4));
    let poller = Poller::start(aggregator).expect("a thread");
    std::thread::scope(|scope| {
        for worker in &mut workers {
            scope.spawn(move || (0..20_000).for_each(|i| worker.insert(packet(i % 50))));
        }
    });
    let aggregator = poller.finish(workers).expect("nobody panicked");
    assert!(aggregator.messages() > 0);
    for flow in 0..60 {
        let size = reader.size(packet(flow).hash, 0.9).estimate;
        assert!(size >= if flow < 50 { 1200 } else { 0 });
        let key = super::super::Flow { fold: packet(flow).hash.fold(), key: flow };
        assert_eq!(reader.applied_estimate(key), Some(size), "all is drained");
    }
    let shown: Vec<u64> = reader.top(0, 100).expect("live").iter().map(|shown| shown.0.key).collect();
    assert!((0..50).all(|flow| shown.contains(&flow)), "{shown:?}");
}

#[test]
fn epochs_begin_on_the_thread() {
    let Monitor { mut workers, aggregator, reader } = start(MonitorOptions::new(1).epochs_kept(3));
    let poller = Poller::start(aggregator).expect("a thread");
    for epoch in 0..3 {
        workers[0].insert_batch(&[packet(epoch), packet(epoch)]);
        poller.begin_epoch();
        while reader.epoch() == epoch {
            workers[0].publish();
            std::thread::yield_now();
        }
    }
    poller.stop().expect("nobody panicked");
    for epoch in 0..3 {
        assert_eq!(reader.total_weight(epoch), Some(2));
        assert_eq!(reader.size_in(epoch, epoch, packet(epoch).hash, 0.9).map(|size| size.estimate), Some(2));
    }
}

#[test]
fn a_poller_that_is_dropped_ends() {
    let Monitor { mut workers, aggregator, reader } = start(MonitorOptions::new(1));
    // Holds on to what the thread has.
    let poller = Poller::start(aggregator).expect("a thread");
    let thread = poller.thread.as_ref().map(|thread| thread.thread().id());
    assert!(thread.is_some_and(|id| id != std::thread::current().id()));
    drop(poller);
    workers[0].insert(packet(1));
    assert_eq!(reader.size(packet(1).hash, 0.9).estimate, 1);
}

#[test]
fn workers_of_another_monitor_are_refused() {
    let (one, other) = (start(MonitorOptions::new(1)), start(MonitorOptions::new(2)));
    let poller = Poller::start(one.aggregator).expect("a thread");
    let error = poller.finish(other.workers).expect_err("another's").to_string();
    assert!(error.contains("another monitor"), "{error}");
}

#[test]
fn where_there_is_no_thread_the_aggregator_comes_back() {
    let Monitor { mut workers, aggregator, reader } = start(MonitorOptions::new(1));
    let refused = thread::refusal::after(0, || Poller::start(aggregator)).expect_err("refused");
    assert!(refused.to_string().contains("poll the aggregator"), "{refused}");
    let mut aggregator = refused.aggregator;
    workers[0].insert_batch(&[packet(3)]);
    assert_eq!(aggregator.poll(|| 0).applied, 3);
    assert_eq!(reader.top(0, 1).expect("live").len(), 1);
}

/// A sketch that cannot weigh.
#[derive(Debug)]
struct Broken;

impl Monitored for Broken {
    type Element = u64;
    type Key = u64;
    type Rule = Sum;
    const SHOWS_KEYS: bool = true;

    fn cells(&self) -> usize {
        1
    }

    fn weight(&self, weight: u64) -> u64 {
        weight
    }

    fn visit(&self, weight: u64, mut change: impl FnMut(usize, u64)) {
        change(0, weight);
    }

    fn key(&self, weight: u64) -> u64 {
        weight
    }

    fn weigh(&self, _: u64, _: impl ReadCounters) -> Option<Weighed> {
        panic!("no scales")
    }
}

#[test]
fn a_thread_that_panics_says_so_and_holds_nobody_up() {
    for is_stopped in [true, false] {
        let Monitor { mut workers, aggregator, reader } =
            MonitorOptions::new(1).lg_ring(1).start(Broken).expect("valid");
        let poller = Poller::start(aggregator).expect("a thread");
        workers[0].insert_batch(&[5]);
        while poller.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            std::thread::yield_now();
        }
        (0..100).for_each(|_| workers[0].insert_batch(&[5]));
        assert_eq!(reader.total_weight(0), Some(505));
        poller.begin_epoch();
        if is_stopped {
            let error = poller.finish(workers).expect_err("it panicked").to_string();
            assert!(error.contains("no scales"), "{error}");
        }
    }
}
