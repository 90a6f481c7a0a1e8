//! Theorems 1 and 3 of the paper: how far off what the aggregator was sent is, without what the workers hold.

use super::law::failures_at_most;
use super::*;

const WORKERS: usize = 4;
const TRIALS: u32 = 150;
/// What the stream begins with, so that τ is half of it from then on.
const FIRST: u64 = 20;

/// Zipf-like flows, their packets in turn over the workers.
fn packets() -> impl Iterator<Item = u64> {
    (0..100u64).flat_map(|flow| (0..1 + 200 / (flow + 1)).map(move |_| flow))
}

/// Has all of one stream counted under one τ of 10, and what is sent applied.
fn play<S: Monitored>(shape: S, element: impl Fn(u64, u64) -> S::Element) -> Reader<S> {
    let policy = Allocation::AccuracyTarget { epsilon: 0.5, spread: 1 };
    let options = MonitorOptions::new(WORKERS).lg_ring(10).policy(policy);
    let Monitor { mut workers, mut aggregator, reader } = options.start(shape).expect("valid");
    let clock = Clock::default();
    workers[0].insert(element(0, FIRST));
    for _ in 0..2 {
        clock.pass_ns(100_000);
        aggregator.poll(clock.now());
    }
    for (i, flow) in packets().enumerate() {
        workers[i % WORKERS].insert(element(flow, 1));
    }
    workers.iter_mut().for_each(Worker::publish);
    while aggregator.poll(|| 0).applied > 0 {}
    assert_eq!((aggregator.tau(), aggregator.tau_max()), (10, 10));
    assert!(reader.worker_stats().iter().all(|worker| worker.kept == 0));
    reader
}

/// With the constants of [`bounds::count_min_error`]: an estimate is too high by at most that error, but with probability `1 - confidence`,
/// and too low by at most `k' (τ - 1)`. More failures than the limit have a probability below 1e-9.
#[test]
fn theorem_1_bounds_what_the_aggregator_was_sent() {
    const COLUMNS: u32 = 32;
    let (confidence, unsent) = (0.9, bounds::unsent(10, WORKERS as u32));
    let (mut failures, mut lacks) = (0, false);
    for seed in 0..u128::from(TRIALS) {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(seed));
        let shape = Sizes::new(COLUMNS).expect("valid");
        let reader = play(shape, |flow, weight| Packet { hash: hasher.hash_u64(flow), key: flow, weight });
        let key = Flow { fold: hasher.hash_u64(40).fold(), key: 40 };
        let truth = packets().filter(|&flow| flow == 40).count() as u64;
        let applied = reader.applied_estimate(key).expect("shown");
        assert!(applied + unsent >= truth, "{applied} of {truth}");
        lacks |= applied < reader.size(hasher.hash_u64(40), 0.9).estimate;
        let total = reader.total_weight(0).expect("live");
        assert_eq!(total, FIRST + packets().count() as u64);
        failures +=
            u32::from(applied > truth + bounds::count_min_error(total, COLUMNS, ROWS as u32, confidence));
    }
    let limit = failures_at_most(TRIALS, 1.0 - confidence);
    assert!(failures <= limit, "{failures} of {TRIALS}, not {limit}");
    assert!(lacks, "the workers held something back");
}

/// With the constants of [`bounds::count_sketch_error`]: an estimate is off by at most `sqrt(8 / columns) L2`, but with probability
/// `0.4375^(depth / 2)`, and by `k' (τ - 1)` more. More failures than the limit have a probability below 1e-9.
#[test]
fn theorem_3_bounds_what_the_aggregator_was_sent() {
    const COLUMNS: u32 = 256;
    const ROWS: usize = 7;
    let (failure, unsent) = (0.4375f64.powf(ROWS as f64 / 2.0), bounds::unsent(10, WORKERS as u32));
    // Every third flow's weights are negative.
    let weight_of =
        |flow: u64, weight: u64| if flow.is_multiple_of(3) { -(weight as i64) } else { weight as i64 };
    let mut sizes = [0i64; 100];
    sizes[0] = weight_of(0, FIRST);
    packets().for_each(|flow| sizes[flow as usize] += weight_of(flow, 1));
    let second_norm = sizes.iter().map(|&size| (size as f64).powi(2)).sum::<f64>().sqrt();
    let error = bounds::count_sketch_error(second_norm, COLUMNS, ROWS as u32, 1.0 - 1.001 * failure)
        .expect("enough rows");
    assert!(
        error + (unsent as f64) < 0.5 * sizes[0].unsigned_abs() as f64,
        "a flow that is lost or counted twice fails"
    );
    let (mut failures, mut differs) = (0, false);
    for seed in 0..u128::from(TRIALS) {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(seed));
        let shape = SignedSizes::<u64, ROWS>::new(COLUMNS, hasher).expect("valid");
        let packet = |flow: u64, weight: u64| SignedPacket {
            hash: hasher.hash_u64(flow),
            key: flow,
            weight: weight_of(flow, weight),
        };
        let reader = play(shape, packet);
        let now = reader.signed_size(hasher.hash_u64(0));
        let applied = reader.applied_estimate(Hashed { hash: hasher.hash_u64(0), key: 0 }).expect("shown");
        assert!(applied.abs_diff(now.unsigned_abs()) <= unsent, "{applied} of {now}");
        differs |= applied != now.unsigned_abs();
        failures += u32::from(applied.abs_diff(sizes[0].unsigned_abs()) as f64 > error + unsent as f64);
    }
    let limit = failures_at_most(TRIALS, failure);
    assert!(failures <= limit, "{failures} of {TRIALS}, not {limit}");
    assert!(differs, "the workers held something back");
}
