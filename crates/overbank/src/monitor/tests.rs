//! The framework against one sketch that sees everything, in any interleaving.

use super::*;
use crate::sketch::{CountMin, DdSketch, HyperLogLog};
use crate::{HashKind, KeyHash, KeyHasher, Seed};
use law::failures_at_most;
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

mod flow_sums;
mod known_flows;
mod law;
mod log_log;
mod rings;
mod signed_sizes;
mod spreaders;
mod theorems;

const ROWS: usize = 3;
type Sizes = FlowSizes<u64, ROWS>;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}

fn hash(flow: u64) -> KeyHash {
    hasher().hash_u64(flow)
}

fn packet(flow: u64, weight: u64) -> Packet<u64> {
    Packet { hash: hash(flow), key: flow, weight }
}

fn flow(flow: u64) -> Flow<u64> {
    Flow { fold: hash(flow).fold(), key: flow }
}

fn ideal(columns: u32) -> CountMin<u64> {
    CountMin::with_shape(1, columns, ROWS as u32, hasher()).expect("a shape")
}

/// Time that passes only when told.
#[derive(Default)]
struct Clock(Cell<u64>);

impl Clock {
    fn pass_ns(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }

    fn now(&self) -> impl Fn() -> u64 + '_ {
        || self.0.get()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Of a worker, a flow and a weight.
    Insert(usize, u64, u64),
    /// Of a worker, the first of so many flows, one packet each.
    Batch(usize, u64, u64),
    Publish(usize),
    Poll,
    Epoch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let weight = prop_oneof![6 => Just(1u64), 2 => 2u64..60, 2 => 200u64..1500, 1 => 1u64 << 36..1 << 41];
    let flow = prop_oneof![3 => 0u64..3, 1 => 0u64..200];
    let step = prop_oneof![
        40 => (0usize..16, flow, weight).prop_map(|(worker, flow, weight)| Step::Insert(worker, flow, weight)),
        4 => (0usize..16, 0u64..200, 1u64..80).prop_map(|(worker, first, flows)| Step::Batch(worker, first, flows)),
        4 => (0usize..16).prop_map(Step::Publish),
        4 => Just(Step::Poll),
        1 => Just(Step::Epoch),
    ];
    prop::collection::vec(step, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The law of this room: every answer is the ideal sketch's, whoever inserted, however little the aggregator did.
    #[test]
    fn answers_are_those_of_one_sketch(
        steps in steps(),
        count in 1usize..=16,
        lg_ring in prop_oneof![3 => 1u32..5, 1 => Just(7)],
        by_flow: bool,
    ) {
        let columns = 16;
        let options = MonitorOptions::new(count).lg_ring(lg_ring).epochs_kept(3);
        let Monitor { mut workers, mut aggregator, reader } = options.start(Sizes::new(columns).expect("valid")).expect("valid");
        let clock = Clock::default();
        let mut ideals = vec![ideal(columns)];
        for step in steps {
            match step {
                Step::Insert(worker, flow, weight) => {
                    let worker = if by_flow { flow as usize } else { worker } % count;
                    workers[worker].insert(packet(flow, weight));
                    ideals.last_mut().expect("one").update(hash(flow), weight);
                    prop_assert_eq!(reader.size(hash(flow), 0.9).estimate, ideals.last().expect("one").estimate(hash(flow)));
                }
                Step::Batch(worker, first, flows) => {
                    let packets: Vec<_> = (first..first + flows).map(|flow| packet(flow, 1)).collect();
                    workers[worker % count].insert_batch(&packets);
                    packets.iter().for_each(|packet| ideals.last_mut().expect("one").update(packet.hash, 1));
                    let hash = packets[0].hash;
                    prop_assert_eq!(reader.size(hash, 0.9).estimate, ideals.last().expect("one").estimate(hash));
                }
                Step::Publish(worker) => workers[worker % count].publish(),
                Step::Poll => {
                    clock.pass_ns(60_000);
                    aggregator.poll(clock.now());
                }
                Step::Epoch => {
                    let is_settled = !aggregator.is_settling();
                    prop_assert_eq!(aggregator.begin_epoch().is_some(), is_settled);
                    if is_settled {
                        ideals.push(ideal(columns));
                    }
                }
            }
            let epoch = ideals.len() as u64 - 1;
            prop_assert_eq!(reader.epoch(), epoch);
            for back in 0..=epoch.min(1) {
                let expected = &ideals[(epoch - back) as usize];
                prop_assert_eq!(reader.estimate(epoch - back, epoch - back, flow(1)), Some(expected.estimate(hash(1))));
            }
        }
        workers.iter_mut().for_each(Worker::publish);
        for _ in 0..10 {
            clock.pass_ns(60_000);
            aggregator.poll(clock.now());
            workers.iter_mut().for_each(Worker::publish);
        }
        // Past epochs and their windows, as far as they are kept.
        let epoch = ideals.len() as u64 - 1;
        for first in epoch.saturating_sub(3)..=epoch {
            let mut together = ideals[first as usize].clone();
            ideals[first as usize + 1..].iter().for_each(|next| together.merge(next).expect("of one shape"));
            for key in [0, 1, 2, 50] {
                prop_assert_eq!(reader.estimate(first, epoch, flow(key)), Some(together.estimate(hash(key))));
            }
            let sizes = reader.sizes(first, epoch, hasher()).expect("kept");
            prop_assert_eq!(sizes.to_bytes(), together.to_bytes());
            let expected = u64::try_from(ideals[first as usize].total_weight()).expect("small");
            prop_assert_eq!(reader.total_weight(first), Some(expected));
        }
        prop_assert_eq!(reader.estimate(0, epoch + 1, flow(0)), None);
        if epoch > 4 {
            prop_assert_eq!(reader.estimate(0, 0, flow(0)), None);
        }
    }
}

/// Inserts `packets` packets of flows `rank` with weight falling as 1 / rank, in turn over the workers or by flow, and polls after every
/// `every`; returns what each flow weighs.
fn play(
    workers: &mut [Worker<Sizes>],
    aggregator: &mut Aggregator<Sizes>,
    packets: u64,
    every: u64,
    by_flow: bool,
) -> Vec<u64> {
    let clock = Clock::default();
    let mut sizes = vec![0; 2000];
    let mut state = 1u64;
    for i in 0..packets {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let uniform = (state >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (2000f64.powf(uniform) - 1.0) as usize;
        sizes[rank] += 1;
        let worker = if by_flow { rank } else { i as usize } % workers.len();
        workers[worker].insert(packet(rank as u64, 1));
        if i % every == 0 {
            clock.pass_ns(100_000);
            aggregator.poll(clock.now());
        }
    }
    workers.iter_mut().for_each(Worker::publish);
    while aggregator.poll(|| 0).applied > 0 {}
    sizes
}

#[test]
fn what_the_aggregator_lacks_is_bounded_and_so_are_messages() {
    for (count, by_flow) in [(1, false), (4, true), (16, false), (16, true)] {
        let options = MonitorOptions::new(count)
            .lg_ring(15)
            .policy(Allocation::AccuracyTarget { epsilon: 0.01, spread: 16 });
        let Monitor { mut workers, mut aggregator, reader } =
            options.start(Sizes::new(1 << 12).expect("valid")).expect("valid");
        let sizes = play(&mut workers, &mut aggregator, 200_000, 500, by_flow);
        assert_eq!(reader.worker_stats().iter().map(|worker| worker.kept).sum::<u64>(), 0);
        let tau = aggregator.tau_max();
        assert!(tau > 100, "0.01 * 200_000 / 16 = 125: {tau}");
        // Other flows in the same counter are at other workers too, so a counter's k' is the number of workers.
        let unsent = bounds::unsent(tau, count as u32);
        for (rank, &size) in (0..).zip(&sizes) {
            let (now, applied) =
                (reader.size(hash(rank), 0.99), reader.applied_estimate(flow(rank)).expect("shown"));
            assert!(applied <= now.estimate && now.estimate - applied <= unsent, "{applied} of {now:?}");
            assert!(now.upper >= size, "{now:?} of {size}");
        }
        // Theorem 2, by the lowest τ of the run, 1; and far fewer, as most of the run has a higher one.
        assert!(aggregator.messages() <= bounds::messages(200_000, ROWS as u32, 1));
        assert!(aggregator.messages() < 200_000, "{}", aggregator.messages());
    }
}

#[test]
fn messages_are_at_most_those_of_theorem_2() {
    // One τ for the whole run: nothing is polled before it ends, and the ring takes all.
    let options =
        MonitorOptions::new(4).lg_ring(20).policy(Allocation::AccuracyTarget { epsilon: 0.5, spread: 1 });
    let Monitor { mut workers, mut aggregator, reader } =
        options.start(Sizes::new(1 << 10).expect("valid")).expect("valid");
    let clock = Clock::default();
    workers[0].insert(packet(0, 40));
    for _ in 0..2 {
        clock.pass_ns(100_000);
        aggregator.poll(clock.now());
    }
    let (tau, before) = (aggregator.tau(), aggregator.messages());
    assert_eq!(tau, 20, "0.5 of the weight 40");
    (0..60_000u64).for_each(|i| workers[i as usize % 4].insert(packet(i * i % 700, 1 + i % 3)));
    let weight = reader.total_weight(0).expect("live") - 40;
    workers.iter_mut().for_each(Worker::publish);
    while aggregator.poll(|| 0).applied > 0 {}
    let sent = aggregator.messages() - before;
    assert!(sent <= bounds::messages(weight, ROWS as u32, tau), "{sent} messages of {weight}");
    assert!(sent > 1000);
}

#[test]
fn round_robin_finds_the_heavy_flows() {
    for count in [1, 2, 16] {
        let Monitor { mut workers, mut aggregator, reader } = MonitorOptions::new(count)
            .heavy_keys(64)
            .start(Sizes::new(1 << 12).expect("valid"))
            .expect("valid");
        let sizes = play(&mut workers, &mut aggregator, 300_000, 200, false);
        let top = reader.top(0, 20).expect("live");
        let shown: Vec<u64> = top.iter().map(|(flow, _)| flow.key).collect();
        let mut ranks: Vec<u64> = (0..2000).collect();
        ranks.sort_by_key(|&rank| std::cmp::Reverse(sizes[rank as usize]));
        for rank in &ranks[..18] {
            assert!(
                shown.contains(rank),
                "{count} workers: flow {rank} of {} is missing",
                sizes[*rank as usize]
            );
        }
        for (flow, estimate) in top {
            assert_eq!(estimate, reader.size(hash(flow.key), 0.9).estimate);
        }
    }
}

#[test]
fn threads_and_queries_side_by_side() {
    const EACH: u64 = 60_000;
    let Monitor { workers, mut aggregator, reader } = MonitorOptions::new(3)
        .lg_ring(6)
        .epochs_kept(2)
        .start(Sizes::new(32).expect("valid"))
        .expect("valid");
    let ended: Vec<AtomicU64> = workers.iter().map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let inserting: Vec<_> = workers
            .into_iter()
            .zip(&ended)
            .map(|(mut worker, ended)| {
                scope.spawn(move || {
                    for i in 0..EACH {
                        worker.insert(packet(i % 2, 1));
                        ended.store(i + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        let is_over = &is_over;
        scope.spawn(move || {
            while is_over.load(Ordering::Acquire) == 0 {
                aggregator.poll(|| 0);
            }
            aggregator.poll(|| 0);
        });
        let inserted = || ended.iter().map(|ended| ended.load(Ordering::Acquire)).sum::<u64>();
        let mut last = 0;
        // In a row of one counter all is one flow: the largest possible contention for it.
        while inserting.iter().any(|thread| !thread.is_finished()) {
            let before = inserted();
            let mut sum = [0; 2];
            for (flow, sum) in (0..).zip(&mut sum) {
                *sum = reader.size(hash(flow), 0.9).estimate;
            }
            let after = inserted();
            let sum = sum[0] + sum[1];
            assert!(before <= sum + 3 && sum <= after + 3 && last <= sum, "{before} <= {sum} <= {after}");
            last = sum;
        }
        is_over.store(1, Ordering::Release);
    });
    assert_eq!(reader.size(hash(0), 0.9).estimate + reader.size(hash(1), 0.9).estimate, 3 * EACH);
}

#[test]
fn estimates_err_no_more_often_than_their_bound_says() {
    // A bound of confidence 0.9 may fail for a tenth of the seeds. Of 200 seeds, more than 60 failures have a probability below 1e-9
    // (binomial tail of 200 trials of 0.1).
    let mut failures = 0;
    for seed in 0..200 {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(seed));
        let Monitor { mut workers, reader, .. } =
            MonitorOptions::new(2).start(Sizes::new(32).expect("valid")).expect("valid");
        for i in 0..500u64 {
            workers[i as usize % 2].insert(Packet { hash: hasher.hash_u64(i), key: i, weight: 1 + i % 5 });
        }
        let size = reader.size(hasher.hash_u64(0), 0.9);
        failures += usize::from(size.lower > 1);
        assert!(size.upper >= 1);
    }
    assert!(failures <= 60, "{failures} of 200");
}

#[test]
fn weights_of_several_epochs_stop_at_the_end_of_a_word() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).start(Sizes::new(16).expect("valid")).expect("valid");
    workers[0].insert(packet(3, u64::MAX));
    assert_eq!(aggregator.begin_epoch(), Some(1));
    workers[0].insert(packet(3, 1));
    let size = reader.size_in(0, 1, hash(3), 0.99).expect("both are live");
    assert_eq!((size.estimate, size.upper), (u64::MAX, u64::MAX));
}

#[test]
fn epochs_that_cannot_be_have_no_answers() {
    let Monitor { mut workers, reader, .. } =
        MonitorOptions::new(1).epochs_kept(3).start(Sizes::new(16).expect("valid")).expect("valid");
    workers[0].insert(packet(3, 1));
    for (first, last) in [(u64::MAX, u64::MAX), (0, u64::MAX), (1, 0), (u64::MAX, 0), (1, 1)] {
        let size = reader.size_in(first, last, hash(3), 0.99);
        assert_eq!(size.map(|size| size.estimate), None, "{first}..={last}");
        assert_eq!(reader.estimate(first, last, flow(3)), None, "{first}..={last}");
    }
    for epoch in [1, u64::MAX - 1, u64::MAX] {
        assert_eq!((reader.total_weight(epoch), reader.top(epoch, 1)), (None, None), "{epoch}");
    }
    let shape = DistinctFlows::new(4, hasher()).expect("valid");
    let distinct = MonitorOptions::new(1).start(shape).expect("valid").reader;
    assert_eq!((distinct.distinct(1, 0), distinct.distinct(u64::MAX, u64::MAX)), (None, None));
    let quantiles = MonitorOptions::new(1).start(Quantiles::new(0.05).expect("valid")).expect("valid").reader;
    assert!(quantiles.values(1, 0).is_none() && quantiles.values(u64::MAX, u64::MAX).is_none());
}

#[test]
fn options_that_cannot_be_are_refused() {
    let sizes = || Sizes::new(16).expect("valid");
    assert!(MonitorOptions::new(0).start(sizes()).is_err());
    assert!(MonitorOptions::new(129).start(sizes()).is_err());
    assert!(MonitorOptions::new(1).lg_ring(0).start(sizes()).is_err());
    assert!(MonitorOptions::new(1).heavy_keys(0).start(sizes()).is_err());
    assert!(MonitorOptions::new(1).epochs_kept(0).start(sizes()).is_err());
    assert!(MonitorOptions::new(1).policy(Allocation::CpuLimit { share: 0.0 }).start(sizes()).is_err());
    assert!(Sizes::new(0).is_err() && Sizes::new(u32::MAX).is_err());
    for (options, name) in [
        (MonitorOptions::new(1).target_queue(0), "target_queue"),
        (MonitorOptions::new(1).window_ns(0), "window_ns"),
    ] {
        let error = options.start(sizes()).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("choose 1"), "{error}");
    }
}

#[test]
fn the_least_target_lets_the_threshold_fall_again() {
    let Monitor { mut workers, mut aggregator, .. } = MonitorOptions::new(1)
        .target_queue(1)
        .window_ns(1)
        .start(Sizes::new(1 << 12).expect("valid"))
        .expect("valid");
    let clock = Clock::default();
    let mut poll = || {
        clock.pass_ns(1);
        aggregator.poll(clock.now());
        aggregator.tau()
    };
    poll();
    let mut highest = 0;
    for turn in 0..20 {
        (0..400).for_each(|i| workers[0].insert(packet(400 * turn + i, 1)));
        highest = highest.max(poll());
    }
    assert!(highest > 1, "more waits than is taken in one poll");
    (0..100).for_each(|_| {
        poll();
    });
    assert_eq!(poll(), 1);
}

/// A sketch of two counters, the first of which is all that is used. Whoever asks for its shape next lets `meanwhile` happen first.
#[derive(Default)]
struct Interrupted {
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Monitored for Interrupted {
    type Element = u64;
    type Key = u64;
    type Rule = Sum;
    const SHOWS_KEYS: bool = true;

    fn cells(&self) -> usize {
        let meanwhile = self.meanwhile.lock().expect("nobody panicked").take();
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
        2
    }

    fn weight(&self, weight: u64) -> u64 {
        weight
    }

    fn visit(&self, weight: u64, mut change: impl FnMut(usize, u64)) {
        change(0, weight);
    }

    fn key(&self, _: u64) -> u64 {
        0
    }

    fn weigh(&self, hash: u64, mut read: impl ReadCounters) -> Option<Weighed> {
        let mut sums = [0];
        read(&[0], &mut sums);
        Some(Weighed { weight: sums[0], hash })
    }
}

/// What `read` finds if, once it has looked which epoch it is, that epoch ends and its counters are cleared; with `epochs` of 2, they are
/// those of the next but one by then. The first epoch's weight is 5, the last one's 7.
fn read_across_epochs<T>(epochs: u64, read: impl FnOnce(&Reader<Interrupted>) -> T) -> T {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).start(Interrupted::default()).expect("valid");
    let mut insert = move |epochs: u64, weight: u64| {
        for _ in 0..epochs {
            aggregator.begin_epoch().expect("the one before is settled");
            workers[0].publish();
            (0..4).for_each(|_| {
                aggregator.poll(|| 0);
            });
        }
        workers[0].insert_batch(&[weight]);
        aggregator.poll(|| 0);
    };
    insert(0, 5);
    let last: Box<dyn FnOnce() + Send> = Box::new(move || insert(epochs, 7));
    *reader.sketch().meanwhile.lock().expect("nobody panicked") = Some(last);
    read(&reader)
}

#[test]
fn applied_counters_are_those_of_one_epoch() {
    for epochs in [1, 2] {
        assert_eq!(read_across_epochs(epochs, |reader| reader.applied_estimate(0)), Some(7));
        assert_eq!(read_across_epochs(epochs, Reader::read_applied), [7, 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn distinct_flows_are_those_of_one_sketch(
        steps in prop::collection::vec((0usize..16, 0u64..5000, 0u8..10), 1..2000),
        count in 1usize..=16,
        lg_ring in 1u32..5,
    ) {
        let shape = DistinctFlows::new(6, hasher()).expect("valid");
        let options = MonitorOptions::new(count).lg_ring(lg_ring);
        let Monitor { mut workers, mut aggregator, reader } = options.start(shape).expect("valid");
        let clock = Clock::default();
        let mut ideals = vec![HyperLogLog::new(6, hasher()).expect("valid")];
        for (worker, flow, event) in steps {
            workers[worker % count].insert(hash(flow));
            ideals.last_mut().expect("one").update(hash(flow));
            match event {
                0 => {
                    clock.pass_ns(100_000);
                    aggregator.poll(clock.now());
                }
                1 => workers[worker % count].publish(),
                2 if flow < 50 && aggregator.begin_epoch().is_some() => {
                    ideals.push(HyperLogLog::new(6, hasher()).expect("valid"));
                }
                3 => {
                    let epoch = reader.epoch();
                    prop_assert_eq!(reader.distinct(epoch, epoch), ideals.last().cloned());
                }
                _ => {}
            }
        }
        let epoch = reader.epoch();
        prop_assert_eq!(reader.distinct(epoch, epoch), ideals.last().cloned());
        // With room again, what a full ring kept back is sent by publishing alone: the aggregator then lacks only ranks of τ and less.
        let tau = aggregator.tau_max();
        for _ in 0..200 {
            workers.iter_mut().for_each(Worker::publish);
            aggregator.poll(|| 0);
        }
        let (ideal, applied) = (ideals.last().expect("one"), reader.applied_distinct().expect("registers"));
        let registers = |sketch: &HyperLogLog| sketch.to_bytes()[sketch.to_bytes().len() - 64..].to_vec();
        let ideal_raw = 0.709 * 64.0 * 64.0 / registers(ideal).iter().map(|&rank| 0.5f64.powi(rank.into())).sum::<f64>();
        for (&ideal, applied) in registers(ideal).iter().zip(registers(&applied)) {
            prop_assert!(applied == ideal || ideal <= tau, "rank {} is {} at the aggregator", ideal, applied);
        }
        // Theorem 4.
        if ideal_raw > bounds::applied_is_exact_above(64, tau) {
            prop_assert_eq!(&applied, ideal);
        }
    }

    #[test]
    fn quantiles_are_those_of_one_sketch(
        steps in prop::collection::vec((0usize..16, -1e6f64..1e6, 0u64..2000, 0u8..10), 1..300),
        count in 1usize..=16,
    ) {
        let options = MonitorOptions::new(count).lg_ring(3);
        let Monitor { mut workers, mut aggregator, reader } = options.start(Quantiles::new(0.05).expect("valid")).expect("valid");
        let clock = Clock::default();
        let mut ideal = DdSketch::new(0.05).expect("valid");
        for (worker, value, count_of, event) in steps {
            let value = match event {
                0 => 0.0,
                1 => value.abs().ln(),
                2 => f64::INFINITY,
                _ => value,
            };
            ideal.update(value, count_of);
            workers[worker % count].insert_batch(&[Reading { value, count: count_of }]);
            if event > 6 {
                clock.pass_ns(100_000);
                aggregator.poll(clock.now());
            }
        }
        let seen = reader.values(0, 0).expect("live");
        prop_assert_eq!((seen.count(), seen.skipped()), (ideal.count(), ideal.skipped()));
        for q in [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0] {
            let (seen, expected) = (seen.quantile(q), ideal.quantile(q));
            // Both are within alpha of the same value; inside, they are the same bin's middle.
            let is_close = |(seen, expected): (f64, f64)| (seen - expected).abs() <= 0.11 * expected.abs();
            prop_assert!(seen == expected || seen.zip(expected).is_some_and(is_close), "{:?} {:?}", seen, expected);
        }
    }
}

/// Ends the epoch.
fn settle<S: Monitored>(workers: &mut [Worker<S>], aggregator: &mut Aggregator<S>) {
    workers.iter_mut().for_each(Worker::publish);
    while aggregator.poll(|| 0).applied > 0 {}
    aggregator.begin_epoch().expect("none is being settled");
    workers.iter_mut().for_each(Worker::publish);
    while aggregator.is_settling() {
        aggregator.poll(|| 0);
    }
}

/// The oracle: all sizes. While every packet is sent, who lacks a name weighs no more than the least of those that have one.
#[test]
fn who_lacks_a_name_is_small() {
    for (heavy_keys, is_full) in [(8, false), (64, false), (8, true)] {
        let options = MonitorOptions::new(2).heavy_keys(heavy_keys).lg_ring(3).epochs_kept(2);
        let Monitor { mut workers, mut aggregator, reader } =
            options.start(FlowSizes::<u64, 3>::new(64).expect("valid")).expect("valid");
        // A first epoch, whose full rings are none of the second's.
        (0..100).for_each(|flow| workers[0].insert(packet(flow, 1)));
        settle(&mut workers, &mut aggregator);
        assert_eq!(reader.named_above(0, (1, 1), 0.95), None, "its rings were full nearly always");
        for round in 1..=30u64 {
            for flow in round..=30 {
                let worker = &mut workers[(round % 2) as usize];
                worker.insert(packet(flow, 1));
                worker.publish();
                while !is_full && aggregator.poll(|| 0).applied > 0 {}
            }
        }
        assert_eq!(reader.named_above(1, (1, 1), 0.95), None, "it goes on");
        settle(&mut workers, &mut aggregator);
        let named: Vec<u64> = reader.top(1, 100).expect("kept").into_iter().map(|flow| flow.0.key).collect();
        let above = reader.named_above(1, (1, 1), 0.95);
        match (heavy_keys, is_full) {
            (64, _) => assert_eq!((above, named.len()), (Some(0), 30), "there is room for all"),
            (_, false) => assert!((1..30).contains(&above.expect("no ring was full")), "{above:?}"),
            (_, true) => assert_eq!(above, None),
        }
        for flow in 1..=30 {
            assert!(named.contains(&flow) || above.is_none_or(|above| flow <= above), "{flow}: {above:?}");
        }
        assert_eq!(reader.named_above(9, (1, 1), 0.95), None);
    }
}

/// The worst order there is: a heavy flow sends the counter that the other shares with it, each time before that would.
#[test]
fn a_flow_that_hides_behind_another_is_bounded() {
    let (trials, size) = (200, 300);
    let (mut hidden, mut failures) = (0, 0);
    for seed in 0..u128::from(trials) {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(seed));
        let packet = |flow: u64, weight| Packet { hash: hasher.hash_u64(flow), key: flow, weight };
        let options = MonitorOptions::new(1).policy(Allocation::AccuracyTarget { epsilon: 0.01, spread: 1 });
        let Monitor { mut workers, mut aggregator, reader } =
            options.start(FlowSizes::<u64, 1>::new(4).expect("valid")).expect("valid");
        workers[0].insert_batch(&[packet(99, 2000)]);
        for window in 0..2 {
            aggregator.poll(|| window * 100_000);
        }
        assert_eq!(reader.tau(), 20);
        for _ in 0..size {
            workers[0].insert_batch(&[packet(2, 20), packet(1, 1)]);
            aggregator.poll(|| 100_000);
        }
        settle(&mut workers, &mut aggregator);
        let is_named = reader.top(0, 100).expect("kept").iter().any(|flow| flow.0.key == 1);
        hidden += u32::from(!is_named);
        let above = reader.named_above(0, (1, 2000), 0.95);
        failures += u32::from(!is_named && above.is_some_and(|above| size > above));
    }
    assert!(hidden > failures_at_most(trials, 0.05), "{hidden} of {trials}: the order is harmless");
    assert!(failures <= failures_at_most(trials, 0.05), "{failures} of {trials}");
}

#[test]
fn values_beyond_a_range_are_counted_apart() {
    let shape = Quantiles::within(0.01, 1.0, 1e6).expect("valid");
    let Monitor { mut workers, reader, .. } = MonitorOptions::new(2).start(shape).expect("valid");
    let mut ideal = DdSketch::new(0.01).expect("valid");
    for value in [0.0, 1.0, 1.5, 64.0, 1500.0, 1e6] {
        ideal.update(value, 3);
        workers[0].insert_batch(&[Reading { value, count: 1 }, Reading { value, count: 2 }]);
    }
    for value in [-1.0, 0.5, 2e6, f64::MAX, f64::MIN_POSITIVE, f64::NAN, f64::NEG_INFINITY] {
        workers[1].insert(Reading { value, count: 1 });
    }
    let seen = reader.values(0, 0).expect("live");
    assert_eq!((seen.count(), seen.skipped()), (18, 7));
    let seen = seen.with_ends(0.0, 1e6);
    for rank in 0..=17 {
        let q = f64::from(rank) / 17.0;
        assert_eq!(seen.quantile(q), ideal.quantile(q), "{q}");
    }
    for (least, greatest) in [(0.0, 1.0), (2.0, 1.0), (1.0, f64::INFINITY), (f64::NAN, 1.0)] {
        assert!(Quantiles::within(0.01, least, greatest).is_err(), "{least} to {greatest}");
    }
    assert!(Quantiles::new(1e-4).is_err() && Quantiles::new(2e-4).is_ok(), "as many bins as messages name");
    assert!(Quantiles::within(1e-4, f64::from_bits(1), f64::MAX).is_ok(), "half as many");
}

#[test]
fn the_last_rank_is_sent_though_the_ring_was_full() {
    let shape = DistinctFlows::new(4, hasher()).expect("valid");
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).lg_ring(1).start(shape).expect("valid");
    (0..10_000).for_each(|flow| workers[0].insert(hash(flow)));
    workers[0].publish();
    assert!(reader.worker_stats()[0].kept > 10);
    for _ in 0..20 {
        aggregator.poll(|| 0);
        workers[0].publish();
    }
    aggregator.poll(|| 0);
    // No register will change again, so nothing but publishing could have sent it.
    assert_eq!(reader.applied_distinct(), reader.distinct(0, 0));
}
