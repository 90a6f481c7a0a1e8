//! The Elastic sketch on the framework: nothing lost, no flow too low, exact where it says so, and the single-threaded sketch's answers
//! where these do not depend on who counts.

use super::*;
use crate::sketch::{CountBounds, CountMin, Elastic};

type Flows = ElasticFlows<u64>;

fn start(options: MonitorOptions, buckets: u32, columns: u32) -> ElasticMonitor<u64> {
    options.start_elastic(Flows::new(buckets, columns, hasher(7)).expect("valid")).expect("valid")
}

fn exactly(weight: u64) -> CountBounds {
    CountBounds { lower: weight, estimate: weight, upper: weight }
}

fn sketch(reader: &ElasticReader<u64>, first: u64, last: u64) -> Elastic {
    reader.flow_sketch(first, last).expect("a shape").expect("live or kept")
}

/// What a flow weighs with certainty.
fn sure(reader: &ElasticReader<u64>, flow: u64) -> CountBounds {
    reader.size(hash(flow), 1.0)
}

/// Polls until nothing waits, with the workers publishing.
fn settle(workers: &mut [ElasticWorker<u64>], aggregator: &mut ElasticAggregator<u64>) {
    for _ in 0..30 {
        workers.iter_mut().for_each(ElasticWorker::publish);
        aggregator.poll(|| 0);
    }
}

/// Flows of one counter of two, and of the other.
fn by_cell(columns: u32, count: usize) -> [Vec<u64>; 2] {
    let cell = |flow: u64| keyhash::column(hash(flow).fold(), 0, columns.into());
    [0, 1].map(|wanted| (0..).filter(|&flow| cell(flow) == wanted).take(count).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Weight is conserved: slots, messages and the light part hold what was inserted, to the last packet, whoever inserted it, with the
    /// ring full or not, and with what the workers left of epochs that are over. No flow is above its upper bound, or below its lower one:
    /// not by the reader, nor by the sketch that it gives. Fails where a full ring loses what an eviction would send, where a flow that
    /// left a slot comes back without its flag, where an evicted flow's weight stays with the slot, and where the archive forgets what
    /// passes.
    #[test]
    fn all_weight_is_somewhere_and_bounds_hold(
        steps in steps(), count in 1usize..=16, lg_ring in 1u32..5, buckets in 1u32..6, columns in 2u32..90, by_flow: bool,
    ) {
        let options = MonitorOptions::new(count).lg_ring(lg_ring).epochs_kept(3);
        let ElasticMonitor { mut workers, mut aggregator, reader } = start(options, buckets, columns);
        let clock = Clock::default();
        let mut inserted: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new()];
        let total = |weights: &BTreeMap<u64, u64>| weights.values().sum::<u64>();
        let holds = |first: u64, last: u64, inserted: &[BTreeMap<u64, u64>]| {
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            for (&flow, &weight) in inserted.iter().flatten() {
                *exact.entry(flow).or_default() += weight;
            }
            let sketch = sketch(&reader, first, last);
            prop_assert_eq!(sketch.total_weight(), total(&exact));
            for (&flow, &truth) in &exact {
                let size = reader.size_in(first, last, hash(flow), 1.0).expect("live or kept");
                prop_assert!(size.lower <= truth && truth <= size.upper, "{:?} of {}", size, truth);
                prop_assert_eq!(size.estimate, size.upper);
                prop_assert!(sketch.estimate(hash(flow)) >= truth);
            }
            Ok(sketch)
        };
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
            if at % 16 == 0 {
                for epoch in epoch.saturating_sub(1)..=epoch {
                    holds(epoch, epoch, &inserted[epoch as usize..][..1])?;
                }
            }
        }
        settle(&mut workers, &mut aggregator);
        let epoch = inserted.len() as u64 - 1;
        for first in epoch.saturating_sub(3)..=epoch {
            let inserted = &inserted[first as usize..];
            let sketch = holds(first, epoch, inserted)?;
            prop_assert_eq!(reader.total_weight(first), Some(total(&inserted[0])));
            prop_assert_eq!(&Elastic::from_bytes(&sketch.to_bytes()).expect("whole"), &sketch);
            let top = reader.top(first, epoch, 1000).expect("kept");
            prop_assert!(top.is_sorted_by(|a, b| a.1 >= b.1));
            for (flow, weight) in top {
                prop_assert!(inserted.iter().any(|inserted| inserted.contains_key(&flow.key)));
                prop_assert_eq!(reader.size_in(first, epoch, flow.hash, 0.9).expect("kept").estimate, weight);
            }
        }
        prop_assert!(reader.flow_sketch(0, epoch + 1).expect("a shape").is_none());
        prop_assert!(epoch <= 4 || reader.top(0, 0, 1).is_none());
    }

    /// With slots for all flows each answer is the truth, whoever counted, and what the sketch says is what one of all traffic says.
    #[test]
    fn enough_slots_count_exactly(
        inserts in prop::collection::vec((0usize..16, 0u64..40, 0u64..400), 0..300), count in 1usize..=16,
    ) {
        let ElasticMonitor { mut workers, mut aggregator, reader } = start(MonitorOptions::new(count), 64, 8);
        let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
        let mut single = Elastic::new(64, 8, 1, 8, hasher(7)).expect("valid");
        for (at, &(worker, flow, weight)) in inserts.iter().enumerate() {
            workers[worker % count].insert(packet(flow, weight));
            single.update(hash(flow), &flow.to_le_bytes(), weight);
            *exact.entry(flow).or_default() += weight;
            if at % 7 == 0 {
                aggregator.poll(|| 0);
            }
        }
        for (&flow, &weight) in &exact {
            prop_assert_eq!(sure(&reader, flow), exactly(weight));
        }
        let sketch = sketch(&reader, 0, 0);
        prop_assert_eq!(sketch.top(40, 1.0), single.top(40, 1.0));
        prop_assert_eq!(sketch.distribution(), single.distribution());
        prop_assert_eq!(sketch.cardinality(), single.cardinality());
    }

    /// One worker and τ = 1, all applied: while nobody is voted out, the two sketches are one.
    #[test]
    fn one_worker_that_has_sent_all_is_the_sketch(
        heavy in prop::collection::vec(200u64..900, 14), light in prop::collection::vec((100u64..300, 1u64..8), 0..200),
        lg_ring in 1u32..5,
    ) {
        let options = MonitorOptions::new(1).lg_ring(lg_ring);
        let ElasticMonitor { mut workers, mut aggregator, reader } = start(options, 2, 64);
        let mut single = Elastic::new(2, 64, 1, 8, hasher(7)).expect("valid");
        let bucket = |flow: &u64| keyhash::range_of(hash(*flow).high(), 2);
        let of = |wanted: u64| (0..100).filter(move |flow| bucket(flow) == wanted).take(7);
        let heavy = of(0).chain(of(1)).zip(heavy);
        // Votes against stay below 8 times the least of 200.
        for (flow, weight) in heavy.chain(light) {
            workers[0].insert(packet(flow, weight));
            single.update(hash(flow), &flow.to_le_bytes(), weight);
            prop_assert_eq!(aggregator.tau(), 1);
            workers[0].publish();
            aggregator.poll(|| 0);
        }
        prop_assert_eq!(workers[0].flush(0), None);
        aggregator.poll(|| 0);
        let sketch = sketch(&reader, 0, 0);
        for flow in 0..300 {
            let size = sure(&reader, flow);
            prop_assert_eq!((size.estimate, reader.applied_size(hash(flow))), (size.upper, size.upper));
            prop_assert_eq!(sketch.bounds(hash(flow), 0.9), single.bounds(hash(flow), 0.9));
            prop_assert_eq!(size.upper, single.estimate(hash(flow)));
        }
        prop_assert_eq!(sketch.top(99, 0.9), single.top(99, 0.9));
        prop_assert_eq!((sketch.light(), sketch.distribution()), (single.light(), single.distribution()));
    }
}

/// What is sent is not forgotten: seven flows whose slots were emptied, by τ and by a flush, are voted out as late as if they had never
/// been, and the flag of the one that comes in stays up whatever is sent. Fails where a message resets votes (a flow that weighs 8 then has the
/// slot of one that weighs 10) or the flag (its 79 in the light part are then missing).
#[test]
fn messages_and_flushes_leave_votes_and_flags() {
    let ElasticMonitor { mut workers, mut aggregator, reader } = start(MonitorOptions::new(1), 1, 1 << 12);
    let worker = &mut workers[0];
    let flush = |worker: &mut ElasticWorker<u64>, aggregator: &mut ElasticAggregator<u64>| {
        assert_eq!(worker.flush(0), None);
        worker.publish();
        aggregator.poll(|| 0);
    };
    (0..7).for_each(|flow| worker.insert(packet(flow, 10 + flow)));
    flush(worker, &mut aggregator);
    assert_eq!((0..7).map(|flow| reader.applied_size(hash(flow))).sum::<u64>(), 91);
    for _ in 0..79 {
        worker.insert(packet(100, 1));
        flush(worker, &mut aggregator);
    }
    assert_eq!(sure(&reader, 100), CountBounds { lower: 0, estimate: 79, upper: 79 });
    assert!(reader.top(0, 0, 9).expect("live").iter().all(|(flow, _)| flow.key < 7));
    worker.insert(packet(100, 1));
    for _ in 0..3 {
        assert_eq!((sure(&reader, 100).estimate, sure(&reader, 100).upper), (80, 80));
        flush(worker, &mut aggregator);
    }
    assert!(sketch(&reader, 0, 0).estimate(hash(100)) >= 80);
    // The worker has given it the slot of flow 0. The aggregator, which has not, knows all of that.
    worker.insert(packet(0, 5));
    assert_eq!((sure(&reader, 0).lower, sure(&reader, 0).upper), (10, 15));
    (1..7).for_each(|flow| assert_eq!(sure(&reader, flow), exactly(10 + flow)));
    // One that comes with all its votes at once has nothing in the light part.
    worker.insert(packet(200, 500));
    assert_eq!((sure(&reader, 200).upper, sketch(&reader, 0, 0).estimate(hash(200))), (500, 500));
}

/// A slot that holds something is given away by a message. Without room for it the packet goes to the light part, and the flow stays; once
/// there is room, it goes with the next packet that may have its slot.
#[test]
fn a_full_ring_postpones_an_eviction_and_loses_nothing() {
    // The ring holds one message.
    let ElasticMonitor { mut workers, mut aggregator, reader } =
        start(MonitorOptions::new(1).lg_ring(1), 1, 1 << 12);
    let worker = &mut workers[0];
    (0..7).for_each(|flow| worker.insert(packet(flow, 10)));
    worker.publish();
    assert_eq!(reader.worker_stats()[0].kept, 6);
    // The first slot is empty, so nobody has to be sent; then the least is flow 1's, which holds 10.
    worker.insert(packet(100, 80));
    worker.insert(packet(101, 20));
    worker.insert(packet(102, 30));
    worker.publish();
    // One came in, and was to be sent; two did not, and the second was to be sent from the light part.
    assert_eq!(reader.worker_stats()[0].kept, 6 + 1 + 2 + 1);
    let bounds = |flow| (sure(&reader, flow).lower, sure(&reader, flow).upper);
    assert_eq!((bounds(100), bounds(101), bounds(102), bounds(1)), ((80, 80), (0, 20), (0, 30), (10, 10)));
    assert_eq!((bounds(0), sketch(&reader, 0, 0).total_weight()), ((10, 10), 200));
    aggregator.poll(|| 0);
    worker.insert(packet(102, 1));
    assert_eq!((bounds(102), bounds(1)), ((1, 31), (10, 10)));
    for _ in 0..20 {
        worker.publish();
        aggregator.poll(|| 0);
    }
    // The aggregator has found other flows heavier.
    assert_eq!((bounds(102), bounds(1), bounds(100)), ((0, 31), (10, 10), (80, 80)));
    assert_eq!((reader.applied_size(hash(102)), reader.applied_size(hash(1))), (31, 10));
    assert_eq!(sketch(&reader, 0, 0).total_weight(), 201);
}

/// The aggregator has seven slots for the fourteen flows of two workers: seven pass to the light part, in the epoch and when it is over.
/// Their weight is found there, and the others stay exact.
#[test]
fn what_finds_no_slot_at_the_aggregator_is_in_the_light_part() {
    let ElasticMonitor { mut workers, mut aggregator, reader } = start(MonitorOptions::new(2), 1, 1 << 12);
    (0..7).for_each(|flow| workers[0].insert(packet(flow, 100)));
    settle(&mut workers, &mut aggregator);
    (7..14).for_each(|flow| workers[1].insert(packet(flow, 20)));
    settle(&mut workers, &mut aggregator);
    let bounds = |epoch| {
        let size = |flow| reader.size_in(epoch, epoch, hash(flow), 1.0).expect("live or kept");
        (0..14).map(|flow| (size(flow).lower, size(flow).upper)).collect::<Vec<_>>()
    };
    let expected: Vec<(u64, u64)> = [vec![(100, 100); 7], vec![(0, 20); 7]].concat();
    assert_eq!(bounds(0), expected);
    assert_eq!(aggregator.begin_epoch(), Some(1));
    settle(&mut workers, &mut aggregator);
    assert_eq!(bounds(0), expected);
    assert_eq!(bounds(1), vec![(0, 0); 14]);
}

/// What workers hold when an epoch ends is put into the aggregator's buckets, and what finds no slot there into the light part.
#[test]
fn what_workers_left_finds_its_place_in_the_archive() {
    // τ is 255: nothing is sent.
    let options =
        MonitorOptions::new(2).policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 }).window_ns(1);
    let ElasticMonitor { mut workers, mut aggregator, reader } = start(options, 1, 1 << 12);
    let clock = Clock::default();
    workers[0].insert(packet(0, 1000));
    for _ in 0..3 {
        workers[0].publish();
        clock.pass_ns(1);
        aggregator.poll(clock.now());
    }
    assert_eq!(aggregator.tau(), 255);
    (0..7).for_each(|flow| workers[0].insert(packet(flow, 50 + flow)));
    (7..14).for_each(|flow| workers[1].insert(packet(flow, 20)));
    let messages = aggregator.messages();
    assert_eq!(aggregator.begin_epoch(), Some(1));
    workers.clear();
    (0..20).for_each(|_| {
        aggregator.poll(|| 0);
    });
    assert_eq!(aggregator.messages(), messages);
    let bounds = |flow| reader.size_in(0, 0, hash(flow), 1.0).map(|size| (size.lower, size.upper));
    assert_eq!(bounds(0), Some((1050, 1050)));
    (1..7).for_each(|flow| assert_eq!(bounds(flow), Some((50 + flow, 50 + flow))));
    (7..14).for_each(|flow| assert_eq!(bounds(flow), Some((0, 20))));
    assert_eq!(sketch(&reader, 0, 0).total_weight(), 1000 + 50 * 7 + 21 + 140);
}

/// An epoch knows nothing of the one that had its slots before: neither votes nor flags nor what had been put into the light part.
#[test]
fn epochs_begin_with_nothing() {
    let ElasticMonitor { mut workers, mut aggregator, reader } = start(MonitorOptions::new(1), 1, 2);
    let [here, there] = by_cell(2, 9);
    let (late, other) = (here[7], here[8]);
    for epoch in 0..5 {
        // The late one goes to the light part in one epoch, and in the others comes with all its votes at once.
        let worker = &mut workers[0];
        (0..7).for_each(|at| worker.insert(packet(there[at], if at == 0 { 10 } else { 1000 })));
        if epoch == 0 {
            (0..3).for_each(|_| worker.insert(packet(late, 1)));
            worker.insert(packet(late, 100));
            assert_eq!((sure(&reader, late).lower, sure(&reader, late).upper), (100, 103));
            // Who comes after one that is flagged need not be.
            worker.insert(packet(there[7], 1000));
            worker.insert(packet(there[8], 1));
            assert_eq!((sure(&reader, there[7]), sure(&reader, there[8]).upper), (exactly(1000), 1));
        } else {
            worker.insert(packet(late, 100));
            worker.insert(packet(other, 1));
            assert_eq!(sure(&reader, late), exactly(100), "epoch {epoch}");
            assert_eq!(sure(&reader, other).upper, 1);
        }
        assert_eq!(aggregator.begin_epoch(), Some(epoch + 1));
        settle(&mut workers, &mut aggregator);
    }
}

#[test]
fn a_flush_sends_all_there_is_and_begins_anew_with_an_epoch() {
    let options = MonitorOptions::new(1)
        .lg_ring(1)
        .policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 })
        .window_ns(1);
    let ElasticMonitor { mut workers, mut aggregator, reader } = start(options, 4, 64);
    let clock = Clock::default();
    let worker = &mut workers[0];
    let mut poll = || {
        clock.pass_ns(1);
        aggregator.poll(clock.now());
    };
    worker.insert_batch(&[packet(1000, 255)]);
    (0..3).for_each(|_| poll());
    let weight = |flow: u64| 1 + flow % 7;
    (0..100).for_each(|flow| worker.insert(packet(flow, weight(flow))));
    let mut from = 0;
    for _ in 0..5 {
        from = worker.flush(from).expect("far more slots than places in the ring");
        poll();
    }
    assert_eq!(aggregator.begin_epoch(), Some(1));
    (0..100).for_each(|flow| worker.insert(packet(flow, weight(flow))));
    let mut next = Some(from);
    while let Some(from) = next {
        aggregator.poll(|| 0);
        next = worker.flush(from);
    }
    (0..9).for_each(|_| {
        aggregator.poll(|| 0);
    });
    // The aggregator has all there is: what it says of each flow is what all together say.
    (0..100).for_each(|flow| {
        let applied = reader.applied_size(hash(flow));
        assert!(applied == sure(&reader, flow).upper && applied >= weight(flow), "{applied} of {flow}");
    });
    assert_eq!(worker.flush(usize::MAX), None);
}

#[test]
fn weights_stop_at_the_end_of_a_word_and_bounds_are_unknown() {
    let ElasticMonitor { mut workers, mut aggregator, reader } =
        start(MonitorOptions::new(2).lg_ring(1), 1, 2);
    workers[0].insert(packet(1, u64::MAX - 1));
    assert_eq!(sure(&reader, 1), exactly(u64::MAX - 1));
    workers[1].insert(packet(1, 7));
    for _ in 0..3 {
        assert_eq!(sure(&reader, 1), CountBounds { lower: u64::MAX, estimate: u64::MAX, upper: u64::MAX });
        settle(&mut workers, &mut aggregator);
    }
    (2..40).for_each(|flow| workers[flow as usize % 2].insert(packet(flow, u64::MAX >> (flow % 3))));
    settle(&mut workers, &mut aggregator);
    assert!((2..40).all(|flow| sure(&reader, flow).saturated()));
    let sketch = sketch(&reader, 0, 0);
    assert!(sketch.saturated() && sketch.estimate(hash(1)) == u64::MAX);
    assert_eq!(Elastic::from_bytes(&sketch.to_bytes()).expect("whole"), sketch);
    assert_eq!(aggregator.begin_epoch(), Some(1));
    settle(&mut workers, &mut aggregator);
    assert!(reader.size_in(0, 1, hash(1), 0.9).expect("kept").saturated());
    assert_eq!(sure(&reader, 1), exactly(0));
}

#[test]
fn keys_of_several_words_come_back_as_their_bytes() {
    let hasher = hasher(3);
    let shape = ElasticFlows::<[u8; 13]>::new(2, 16, hasher).expect("valid");
    let ElasticMonitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(2).start_elastic(shape).expect("valid");
    let key = |i: u8| [i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, i];
    for i in 0..40 {
        let key = key(i);
        workers[usize::from(i % 2)].insert_batch(&[Packet { hash: hasher.hash(&key), key, weight: 10 }]);
        if i % 3 == 0 {
            aggregator.poll(|| 0);
        }
    }
    let sketch = reader.flow_sketch(0, 0).expect("a shape").expect("live");
    assert_eq!(sketch.total_weight(), 400);
    assert!(sketch.top(99, 0.9).iter().all(|heavy| heavy.key == key(heavy.key[0])));
    let top = reader.top(0, 0, 99).expect("live");
    assert!(top.len() >= 14 && top.iter().all(|(flow, _)| flow.key == key(flow.key[0])));
}

#[test]
fn shapes_and_epochs_that_cannot_be_are_refused() {
    for (buckets, columns) in [(0, 2), (1, 0), (1, 1), ((1 << 23) + 1, 2), (1, (1 << 23) + 1)] {
        assert!(Flows::new(buckets, columns, hasher(1)).is_err(), "{buckets} {columns}");
    }
    let shape = Flows::new(1, 2, hasher(1)).expect("valid");
    assert!(MonitorOptions::new(0).start_elastic(shape).is_err());
    let reader = MonitorOptions::new(1).start_elastic(shape).expect("valid").reader;
    for (first, last) in [(u64::MAX, u64::MAX), (0, u64::MAX), (1, 0), (1, 1)] {
        assert!(reader.size_in(first, last, hash(1), 0.9).is_none(), "{first}..={last}");
        assert!(reader.top(first, last, 1).is_none());
        assert!(reader.flow_sketch(first, last).expect("a shape").is_none());
    }
}

/// Beside threads that insert and apply, a flow whose messages all pass to the light part weighs what had been inserted before, up to what
/// is afterwards: each packet is in a message or in the light part, and no query finds it in both or in neither. So does one that stays
/// in slots.
#[test]
fn threads_and_queries_side_by_side() {
    const EACH: u64 = 20_000;
    let [here, there] = by_cell(2, 8);
    let ElasticMonitor { mut workers, mut aggregator, reader } =
        start(MonitorOptions::new(3).lg_ring(6), 1, 2);
    // The aggregator's slots are taken for good by flows of the other counter.
    (0..7).for_each(|at| workers[2].insert(packet(there[at], 1 << 50)));
    settle(&mut workers, &mut aggregator);
    let (passing, staying) = (here[0], there[0]);
    let ended: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicU64::new(0);
    let mut wrong = None;
    std::thread::scope(|scope| {
        let inserting: Vec<_> = workers
            .iter_mut()
            .zip(&ended)
            .map(|(worker, ended)| {
                scope.spawn(move || {
                    for i in 0..EACH {
                        worker.insert(packet(if i % 2 == 0 { passing } else { staying }, 1));
                        ended.store(i + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        let (is_over, aggregator) = (&is_over, &mut aggregator);
        scope.spawn(move || {
            while is_over.load(Ordering::Acquire) == 0 {
                aggregator.poll(|| 0);
            }
        });
        let inserted = || ended.iter().map(|ended| ended.load(Ordering::Acquire)).sum::<u64>();
        // The others end before this thread says what it found.
        while wrong.is_none() && inserting.iter().any(|thread| !thread.is_finished()) {
            for (flow, others) in [(passing, 0), (staying, 1 << 50)] {
                let before = inserted();
                let seen = 2 * reader.size(hash(flow), 0.9).estimate.saturating_sub(others);
                let after = inserted();
                if before > seen + 4 || seen > after + 4 {
                    wrong = Some((before, seen, after));
                }
            }
        }
        is_over.store(1, Ordering::Release);
    });
    assert_eq!(wrong, None, "before, seen, after");
    settle(&mut workers, &mut aggregator);
    assert_eq!((sure(&reader, passing).lower, sure(&reader, passing).upper), (0, EACH));
    assert_eq!(sure(&reader, staying), exactly((1 << 50) + EACH));
    let light = sketch(&reader, 0, 0).light().clone();
    let mut expected = CountMin::<u32>::with_shape(1, 2, 1, hasher(7)).expect("valid");
    expected.update(hash(passing), EACH);
    assert_eq!(light, expected);
}
