//! Sketches of slots on the framework: nothing lost or counted twice in any interleaving, and right on average.

use super::key::Hashed;
use super::*;
use crate::sketch::CocoSketch;
use crate::{HashKind, KeyHash, KeyHasher, Seed};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

fn hasher(seed: u128) -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(seed))
}

fn hash(flow: u64) -> KeyHash {
    hasher(7).hash_u64(flow)
}

fn packet(flow: u64, weight: u64) -> Packet<u64> {
    Packet { hash: hash(flow), key: flow, weight }
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
    Publish(usize),
    /// Sends a worker's slots, as far as there is room.
    Flush(usize),
    Poll,
    Epoch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let weight = prop_oneof![6 => Just(1u64), 2 => 0u64..60, 2 => 200u64..1500, 1 => 1u64 << 36..1 << 41];
    let flow = prop_oneof![3 => 0u64..3, 1 => 0u64..200];
    let step = prop_oneof![
        40 => (0usize..16, flow, weight).prop_map(|(worker, flow, weight)| Step::Insert(worker, flow, weight)),
        4 => (0usize..16).prop_map(Step::Publish),
        1 => (0usize..16).prop_map(Step::Flush),
        4 => Just(Step::Poll),
        1 => Just(Step::Epoch),
    ];
    prop::collection::vec(step, 0..500)
}

mod elastic;

mod parts {
    use super::*;

    type Parts = FlowParts<u64, 2>;

    fn start(options: MonitorOptions, columns: u32) -> PartsMonitor<u64, 2> {
        options.start_parts(Parts::new(columns, hasher(7)).expect("valid")).expect("valid")
    }

    fn weights(reader: &PartsReader<u64, 2>, first: u64, last: u64) -> Option<BTreeMap<u64, u64>> {
        reader.by_part(first, last, |flow| flow)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Coco conserves weight: what all flows of an answer weigh is what was inserted, to the last packet, whoever inserted it, with the
        /// ring full or not, and with what the workers left of epochs that are over. A flow that was never inserted weighs nothing. Fails
        /// where a full ring overwrites a slot's count, where a message that is under way is counted twice or not at all, and where an
        /// epoch is archived without what its workers hold.
        #[test]
        fn all_flows_weigh_what_was_inserted(
            steps in steps(), count in 1usize..=16, lg_ring in 1u32..5, columns in 1u32..130, by_flow: bool,
        ) {
            let options = MonitorOptions::new(count).lg_ring(lg_ring).epochs_kept(3);
            let PartsMonitor { mut workers, mut aggregator, reader } = start(options, columns);
            let clock = Clock::default();
            let mut inserted: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new()];
            let total = |weights: &BTreeMap<u64, u64>| weights.values().sum::<u64>();
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(worker, flow, weight) => {
                        let worker = if by_flow { flow as usize } else { worker } % count;
                        workers[worker].insert(packet(flow, weight));
                        *inserted.last_mut().expect("one").entry(flow).or_default() += weight;
                    }
                    Step::Publish(worker) => workers[worker % count].publish(),
                    Step::Flush(worker) => {
                        workers[worker % count].flush(0);
                    }
                    Step::Poll => {
                        clock.pass_ns(60_000);
                        aggregator.poll(clock.now());
                    }
                    Step::Epoch => {
                        if aggregator.begin_epoch().is_some() {
                            inserted.push(BTreeMap::new());
                        }
                    }
                }
                let epoch = inserted.len() as u64 - 1;
                prop_assert_eq!(reader.epoch(), epoch);
                if at % 8 == 0 {
                    for back in 0..=epoch.min(1) {
                        let seen = weights(&reader, epoch - back, epoch - back).expect("live or kept");
                        prop_assert_eq!(total(&seen), total(&inserted[(epoch - back) as usize]));
                    }
                }
            }
            workers.iter_mut().for_each(PartsWorker::publish);
            for _ in 0..20 {
                clock.pass_ns(60_000);
                aggregator.poll(clock.now());
                workers.iter_mut().for_each(PartsWorker::publish);
            }
            let epoch = inserted.len() as u64 - 1;
            for first in epoch.saturating_sub(3)..=epoch {
                let expected: u64 = inserted[first as usize..].iter().map(total).sum();
                let seen = weights(&reader, first, epoch).expect("kept");
                prop_assert_eq!(total(&seen), expected);
                prop_assert_eq!(reader.total_weight(first), Some(total(&inserted[first as usize])));
                for (&flow, &weight) in &seen {
                    prop_assert!(inserted[first as usize..].iter().any(|inserted| inserted.contains_key(&flow)));
                    prop_assert_eq!(reader.size_in(first, epoch, hash(flow), 0.9).expect("kept").estimate, weight);
                }
                let sketch = reader.flow_sketch(first, epoch, first).expect("a shape").expect("kept");
                prop_assert_eq!(sketch.total_weight(), expected);
                prop_assert_eq!(&CocoSketch::from_bytes(&sketch.to_bytes()).expect("whole"), &sketch);
                prop_assert_eq!(reader.top(first, epoch, 1000).expect("kept").len(), seen.len());
            }
            prop_assert_eq!(weights(&reader, 0, epoch + 1), None);
            if epoch > 4 {
                prop_assert_eq!(weights(&reader, 0, 0), None);
            }
        }

        /// With slots for all flows each answer is the truth, by flow and by any part.
        #[test]
        fn enough_slots_count_exactly(
            inserts in prop::collection::vec((0usize..16, 0u64..40, 0u64..400), 0..300), count in 1usize..=16,
        ) {
            let PartsMonitor { mut workers, mut aggregator, reader } = start(MonitorOptions::new(count), 1 << 12);
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            for (at, &(worker, flow, weight)) in inserts.iter().enumerate() {
                workers[worker % count].insert(packet(flow, weight));
                if weight > 0 {
                    *exact.entry(flow).or_default() += weight;
                }
                if at % 7 == 0 {
                    aggregator.poll(|| 0);
                }
            }
            // Forty flows in two rows of 4096: no two share both slots.
            prop_assert_eq!(weights(&reader, 0, 0), Some(exact.clone()));
            let mut parts = BTreeMap::new();
            exact.iter().for_each(|(flow, weight)| *parts.entry(flow % 4).or_insert(0) += weight);
            prop_assert_eq!(reader.by_part(0, 0, |flow| flow % 4), Some(parts));
            let sketch = reader.flow_sketch(0, 0, 1).expect("a shape").expect("live");
            for (&flow, &weight) in &exact {
                prop_assert_eq!(sketch.estimate(hash(flow)), weight);
            }
        }
    }

    /// What the estimates of a flow, of another and of a part err on average, and the mean of the squares, over `runs` seeds.
    fn errors(runs: u32, columns: u32, workers_of: impl Fn(usize, u64) -> usize, count: usize, epochs: bool) {
        // 120 flows of 1 to 8 times 15, in 240 packets in an order without pattern.
        let mut stream: Vec<(u64, u64)> =
            (0..120).flat_map(|flow| [(flow, 5 * (1 + flow % 8)), (flow, 10 * (1 + flow % 8))]).collect();
        stream.sort_by_key(|&(flow, weight)| hash(flow * 1000 + weight));
        let total: u64 = stream.iter().map(|&(_, weight)| weight).sum();
        let part: u64 = stream.iter().filter(|packet| packet.0 % 4 == 1).map(|packet| packet.1).sum();
        let truths = [15.0, 120.0, part as f64];
        let (mut of_reader, mut of_sketch) = ([(0.0, 0.0); 3], [(0.0, 0.0); 3]);
        for run in 0..runs {
            let hasher = hasher(run.into());
            let shape = FlowParts::<u64, 2>::new(columns, hasher).expect("valid").with_random(run.into());
            // τ rises to 60, so that most packets wait for others of their slot, and some do not.
            let options = MonitorOptions::new(count)
                .policy(Allocation::AccuracyTarget { epsilon: 0.01, spread: 1 })
                .window_ns(1);
            let PartsMonitor { mut workers, mut aggregator, reader } =
                options.start_parts(shape).expect("valid");
            let clock = Clock::default();
            for (at, &(flow, weight)) in stream.iter().enumerate() {
                let to = workers_of(at, flow) % count;
                workers[to].insert(Packet { hash: hasher.hash_u64(flow), key: flow, weight });
                if at % 5 == 0 {
                    workers.iter_mut().for_each(PartsWorker::publish);
                    clock.pass_ns(1);
                    aggregator.poll(clock.now());
                }
            }
            let mut last = 0;
            if epochs {
                last = aggregator.begin_epoch().expect("none is being settled");
                for _ in 0..10 {
                    workers.iter_mut().for_each(PartsWorker::publish);
                    aggregator.poll(|| 0);
                }
            }
            let size = |flow| reader.size_in(0, last, hasher.hash_u64(flow), 0.9).expect("kept").estimate;
            let by_part = reader.by_part(0, last, |flow| flow % 4).expect("kept");
            let sketch = reader.flow_sketch(0, last, run.into()).expect("a shape").expect("kept");
            let of_part = sketch.by_part(|key| key[0] % 4);
            let seen = [
                (&mut of_reader, [size(0), size(7), by_part.get(&1).copied().unwrap_or(0)]),
                (
                    &mut of_sketch,
                    [
                        sketch.estimate(hasher.hash_u64(0)),
                        sketch.estimate(hasher.hash_u64(7)),
                        of_part.get(&1).copied().unwrap_or(0),
                    ],
                ),
            ];
            for (sums, estimates) in seen {
                for ((sum, squares), (estimate, truth)) in
                    sums.iter_mut().zip(estimates.into_iter().zip(truths))
                {
                    let error = estimate as f64 - truth;
                    *sum += error;
                    *squares += error * error;
                }
            }
        }
        let runs = f64::from(runs);
        for (sums, share, who) in [(of_reader, 2.0, "the reader"), (of_sketch, 3.0, "the sketch")] {
            for ((sum, squares), truth) in sums.into_iter().zip(truths) {
                let what = format!("{truth} of {total}, {count} workers, epochs: {epochs}, by {who}");
                let bias = sum / runs;
                assert!(bias.abs() < 6.5 * (squares / runs / runs).sqrt(), "bias {bias} of {what}");
                let ratio = squares / runs / (truth * total as f64 / f64::from(columns));
                assert!(ratio < share, "the variance is {ratio} times that of theory: {what}");
                assert!(squares > 0.0, "nothing was replaced: {what}");
            }
        }
    }

    /// Coco replaces with probability w / (c + w), at the workers, at the aggregator, in the archive and in the sketch that is given: a
    /// flow's estimate is right on average. 1500 runs: the mean is within 6.5 standard errors but for 1e-10. Fails where the newer flow
    /// always takes the slot, where the older always keeps it, and where a flow that left a slot with a message is forgotten.
    #[test]
    fn estimates_are_unbiased() {
        errors(1500, 20, |at, _| at, 1, false);
        errors(1500, 6, |at, _| at, 4, false);
        errors(1500, 6, |_, flow| flow as usize, 4, true);
    }

    /// A flow that is in slots of several workers, and at the aggregator, and on its way, is summed: an answer that took one of them for
    /// the flow's, as the last that was met, would be a quarter of it.
    #[test]
    fn slots_of_one_flow_are_summed() {
        let options = MonitorOptions::new(3)
            .policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 })
            .window_ns(1);
        let PartsMonitor { mut workers, mut aggregator, reader } = start(options, 64);
        let clock = Clock::default();
        workers[0].insert_batch(&[packet(1, 300)]);
        for _ in 0..3 {
            clock.pass_ns(1);
            aggregator.poll(clock.now());
        }
        assert_eq!((aggregator.tau(), reader.applied_size(hash(1))), (255, 300));
        // On its way: sent, and not applied.
        workers[0].insert_batch(&[packet(1, 1000)]);
        // Below τ.
        workers[0].insert(packet(1, 20));
        workers[1].insert(packet(1, 7));
        workers[2].insert(packet(1, 100));
        assert_eq!((reader.size(hash(1), 0.9).estimate, reader.applied_size(hash(1))), (1427, 300));
        assert_eq!(reader.top(0, 0, 9), Some(vec![(Hashed { hash: hash(1), key: 1 }, 1427)]));
        assert_eq!(reader.by_part(0, 0, |flow| flow), Some(BTreeMap::from([(1, 1427)])));
        let sketch = reader.flow_sketch(0, 0, 0).expect("a shape").expect("live");
        assert_eq!((sketch.estimate(hash(1)), sketch.total_weight()), (1427, 1427));
    }

    /// Nobody takes anything: the slots keep it all, and once there is room all goes.
    #[test]
    fn a_full_ring_keeps_slots_and_says_so() {
        let PartsMonitor { mut workers, mut aggregator, reader } =
            start(MonitorOptions::new(1).lg_ring(2), 64);
        (0..100_000).for_each(|_| workers[0].insert(packet(5, 1)));
        (0..100).for_each(|_| workers[0].insert(packet(6, 1 << 40)));
        workers[0].publish();
        assert_eq!(reader.size(hash(5), 0.9).estimate, 100_000);
        assert_eq!(reader.size(hash(6), 0.9).estimate, 100 << 40);
        assert!(reader.worker_stats()[0].kept > 100_000 - 3);
        assert!(reader.applied_size(hash(5)) <= 3);
        for _ in 0..4 {
            aggregator.poll(|| 0);
            // Nothing is added to any slot: publishing alone sends what is owed.
            workers[0].publish();
        }
        aggregator.poll(|| 0);
        assert_eq!((reader.applied_size(hash(5)), reader.applied_size(hash(6))), (100_000, 100 << 40));
    }

    #[test]
    fn a_flush_sends_all_there_is_and_begins_anew_with_an_epoch() {
        let options = MonitorOptions::new(1)
            .lg_ring(1)
            .policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 })
            .window_ns(1);
        let PartsMonitor { mut workers, mut aggregator, reader } = start(options, 256);
        let clock = Clock::default();
        let worker = &mut workers[0];
        let mut poll = || {
            clock.pass_ns(1);
            aggregator.poll(clock.now());
        };
        worker.insert_batch(&[packet(1000, 255)]);
        (0..3).for_each(|_| poll());
        (0..100).for_each(|flow| worker.insert(packet(flow, 1 + flow % 7)));
        let mut from = 0;
        for _ in 0..50 {
            from = worker.flush(from).expect("far more slots than places in the ring");
            poll();
        }
        assert_eq!(aggregator.begin_epoch(), Some(1));
        (0..100).for_each(|flow| worker.insert(packet(flow, 1 + flow % 7)));
        let mut next = Some(from);
        while let Some(from) = next {
            aggregator.poll(|| 0);
            next = worker.flush(from);
        }
        (0..9).for_each(|_| {
            aggregator.poll(|| 0);
        });
        let applied: u64 = (0..100).map(|flow| reader.applied_size(hash(flow))).sum();
        assert_eq!(applied, (0..100).map(|flow| 1 + flow % 7).sum::<u64>());
        assert_eq!(worker.flush(usize::MAX), None);
    }

    #[test]
    fn what_workers_that_are_gone_held_stays_counted() {
        let PartsMonitor { mut workers, mut aggregator, reader } =
            start(MonitorOptions::new(2).lg_ring(1), 64);
        (0..50).for_each(|flow| workers[flow as usize % 2].insert(packet(flow, 3)));
        workers.clear();
        let total = |epoch| weights(&reader, epoch, epoch).map(|weights| weights.values().sum::<u64>());
        assert_eq!(total(0), Some(150));
        for epoch in 1..3 {
            assert_eq!(aggregator.begin_epoch(), Some(epoch));
            (0..9).for_each(|_| {
                aggregator.poll(|| 0);
            });
            assert_eq!((total(epoch - 1), total(epoch)), (Some(if epoch == 1 { 150 } else { 0 }), Some(0)));
        }
    }

    #[test]
    fn weights_stop_at_the_end_of_a_word_and_bounds_are_unknown() {
        let PartsMonitor { mut workers, mut aggregator, reader } =
            start(MonitorOptions::new(2).lg_ring(1), 1);
        workers[0].insert(packet(1, u64::MAX - 1));
        assert_eq!(reader.size(hash(1), 0.9).estimate, u64::MAX - 1);
        workers[1].insert(packet(1, 7));
        for _ in 0..3 {
            let size = reader.size(hash(1), 0.9);
            assert_eq!((size.lower, size.estimate, size.upper), (0, u64::MAX, u64::MAX));
            workers.iter_mut().for_each(PartsWorker::publish);
            aggregator.poll(|| 0);
        }
        workers[0].insert(packet(2, u64::MAX));
        assert_eq!(reader.flow_sketch(0, 0, 0).expect("a shape").expect("live").total_weight(), u64::MAX);
    }

    #[test]
    fn keys_of_several_words_come_back_as_their_bytes() {
        let hasher = hasher(3);
        let shape = FlowParts::<[u8; 13], 3>::new(100, hasher).expect("valid");
        let PartsMonitor { mut workers, mut aggregator, reader } =
            MonitorOptions::new(2).start_parts(shape).expect("valid");
        let key = |i: u8| [i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, i];
        for i in 0..20 {
            let key = key(i);
            workers[usize::from(i % 2)].insert_batch(&[Packet { hash: hasher.hash(&key), key, weight: 10 }]);
            if i % 3 == 0 {
                aggregator.poll(|| 0);
            }
        }
        let sketch = reader.flow_sketch(0, 0, 0).expect("a shape").expect("live");
        assert_eq!(sketch.by_part(|key| key.len()), BTreeMap::from([(13, 200)]));
        let by_last = reader.by_part(0, 0, |key| key[12] % 2).expect("live");
        assert_eq!(by_last.values().sum::<u64>(), 200);
        assert!(reader.top(0, 0, 99).expect("live").iter().all(|(flow, _)| flow.key == key(flow.key[0])));
    }

    #[test]
    fn shapes_and_epochs_that_cannot_be_are_refused() {
        assert!(Parts::new(0, hasher(1)).is_err() && Parts::new(u32::MAX, hasher(1)).is_err());
        assert!(
            FlowParts::<u64, 0>::new(1, hasher(1)).is_err()
                && FlowParts::<u64, 17>::new(1, hasher(1)).is_err()
        );
        let shape = Parts::new(16, hasher(1)).expect("valid");
        assert!(MonitorOptions::new(0).start_parts(shape).is_err());
        assert!(
            MonitorOptions::new(1).policy(Allocation::CpuLimit { share: 0.0 }).start_parts(shape).is_err()
        );
        let reader = MonitorOptions::new(1).start_parts(shape).expect("valid").reader;
        for (first, last) in [(u64::MAX, u64::MAX), (0, u64::MAX), (1, 0), (1, 1)] {
            assert!(reader.size_in(first, last, hash(1), 0.9).is_none(), "{first}..={last}");
            assert!(weights(&reader, first, last).is_none() && reader.top(first, last, 1).is_none());
            assert!(reader.flow_sketch(first, last, 0).expect("a shape").is_none());
        }
    }

    /// Beside threads that insert and apply, a flow's estimate and the sum of all lie between what had been inserted before and after.
    /// Flows are few enough to have slots of their own, so that both are exact.
    #[test]
    fn threads_and_queries_side_by_side() {
        const EACH: u64 = 30_000;
        let PartsMonitor { workers, mut aggregator, reader } = start(MonitorOptions::new(3).lg_ring(6), 64);
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
            while inserting.iter().any(|thread| !thread.is_finished()) {
                let before = inserted();
                let flow = 2 * reader.size(hash(0), 0.9).estimate;
                let all: u64 = weights(&reader, 0, 0).expect("live").values().sum();
                let after = inserted();
                assert!(before <= flow + 6 && flow <= after + 6, "{before} <= {flow} <= {after}");
                assert!(before <= all && all <= after + 3, "{before} <= {all} <= {after}");
            }
            is_over.store(1, Ordering::Release);
        });
        assert_eq!(reader.size(hash(0), 0.9).estimate + reader.size(hash(1), 0.9).estimate, 3 * EACH);
    }
}
