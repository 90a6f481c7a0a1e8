//! LogLog on the framework, whose registers are those of HyperLogLog.

use super::law::{Ideal, moves, obey};
use super::*;
use crate::sketch::LogLog;

fn shape(lg_m: u32) -> LogLogFlows {
    LogLogFlows::new(lg_m, hasher()).expect("valid")
}

fn ideal(lg_m: u32) -> LogLog {
    LogLog::new(lg_m, hasher()).expect("valid")
}

impl Ideal<LogLogFlows> for LogLog {
    fn update(&mut self, element: KeyHash) {
        self.update(element);
    }

    fn merge(&mut self, next: &Self) {
        self.merge(next).expect("of one shape");
    }

    fn compare(&self, reader: &Reader<LogLogFlows>, first: u64, last: u64) {
        let seen = reader.distinct(first, last).expect("kept");
        assert_eq!(seen.to_bytes(), self.to_bytes());
        assert_eq!(seen.truncated_estimate(), self.truncated_estimate());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn log_log_flows_are_those_of_one_sketch(
        moves in moves((0u64..5000).prop_map(hash), 800),
        workers in 1usize..=16,
        lg_ring in 1u32..5,
    ) {
        obey(shape(5), workers, lg_ring, moves, &ideal(5));
    }
}

/// The trap of an estimate without a correction for few flows, and that of flows dealt out in turn: each worker sees each flow, and an
/// empty LogLog of 1024 registers would be one of 400 flows by the formula for many.
#[test]
fn few_flows_are_few() {
    let Monitor { mut workers, reader, .. } = MonitorOptions::new(16).start(shape(10)).expect("valid");
    assert_eq!(reader.distinct(0, 0).expect("live").estimate(), 0.0);
    (0..160).for_each(|i| workers[i as usize % 16].insert(hash(i / 16)));
    let distinct = reader.distinct(0, 0).expect("live");
    assert!((9.0..11.0).contains(&distinct.estimate()), "{}", distinct.estimate());
    assert!((9.0..11.0).contains(&distinct.truncated_estimate()));
}

/// The trap of a hash of 32 bits, in which no rank is above 33: here the highest there are go through bytes and messages.
#[test]
fn the_highest_ranks_are_sent() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).start(shape(4)).expect("valid");
    let mut all = ideal(4);
    for (register, low) in [(0, 0), (1, 1), (2, 1 << 20), (3, 1 << 31), (4, u64::MAX)] {
        let hash = KeyHash::new(register << 60, low);
        workers[0].insert(hash);
        all.update(hash);
    }
    workers[0].publish();
    aggregator.poll(|| 0);
    assert_eq!(reader.distinct(0, 0), Some(all.clone()));
    assert_eq!(all.to_bytes()[all.to_bytes().len() - 16..][..5], [65, 64, 44, 33, 1]);
    // The last is not above τ, which is 1.
    let applied = reader.applied_distinct().expect("registers").to_bytes();
    assert_eq!(applied[applied.len() - 16..][..5], [65, 64, 44, 33, 0]);
}

/// Theorem 4: once no register is τ or less, what the aggregator was sent is all there is.
#[test]
fn theorem_4_holds_for_log_log() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(4).lg_ring(6).start(shape(4)).expect("valid");
    let clock = Clock::default();
    let (mut is_exact, mut was_less) = (false, false);
    for i in 0..4000u64 {
        workers[i as usize % 4].insert(hash(i));
        if i % 50 == 0 {
            workers.iter_mut().for_each(Worker::publish);
            (0..5).for_each(|_| {
                aggregator.poll(clock.now());
            });
            let (now, applied) =
                (reader.distinct(0, 0).expect("live"), reader.applied_distinct().expect("registers"));
            let ranks = now.to_bytes()[now.to_bytes().len() - 16..].to_vec();
            let raw = 0.673 * 16.0 * 16.0 / ranks.iter().map(|&rank| 0.5f64.powi(rank.into())).sum::<f64>();
            if raw > bounds::applied_is_exact_above(16, aggregator.tau_max()) {
                assert_eq!(applied, now);
                is_exact = true;
            }
            was_less |= applied != now;
        }
    }
    assert!(is_exact && was_less);
}
