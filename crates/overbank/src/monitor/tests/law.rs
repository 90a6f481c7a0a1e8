//! The law of this room for any sketch: whatever workers, aggregator and epochs do in whatever order, answers are those of one sketch.

use super::*;

/// As many are kept of what [`obey`] starts: more than there are.
pub(super) const HEAVY_KEYS: usize = 256;

/// What happens next.
#[derive(Clone, Debug)]
pub(super) enum Move<E> {
    /// A worker gets an element.
    Insert(usize, E),
    Publish(usize),
    Poll,
    Epoch,
    Ask,
}

pub(super) fn moves<E: std::fmt::Debug + Clone>(
    element: impl Strategy<Value = E>,
    most: usize,
) -> impl Strategy<Value = Vec<Move<E>>> {
    let one = prop_oneof![
        40 => (0usize..16, element).prop_map(|(worker, element)| Move::Insert(worker, element)),
        4 => (0usize..16).prop_map(Move::Publish),
        4 => Just(Move::Poll),
        1 => Just(Move::Epoch),
        2 => Just(Move::Ask),
    ];
    prop::collection::vec(one, 0..most)
}

/// One sketch that sees everything.
pub(super) trait Ideal<S: Monitored>: Clone {
    fn update(&mut self, element: S::Element);
    fn merge(&mut self, next: &Self);
    /// Fails unless the reader says of these epochs what this sketch does.
    fn compare(&self, reader: &Reader<S>, first: u64, last: u64);
}

pub(super) fn obey<S: Monitored, I: Ideal<S>>(
    shape: S,
    workers: usize,
    lg_ring: u32,
    moves: Vec<Move<S::Element>>,
    empty: &I,
) {
    let options = MonitorOptions::new(workers).lg_ring(lg_ring).epochs_kept(3).heavy_keys(HEAVY_KEYS);
    let Monitor { mut workers, mut aggregator, reader } = options.start(shape).expect("valid");
    let (clock, count) = (Clock::default(), workers.len());
    let mut ideals = vec![empty.clone()];
    for next in moves {
        let epoch = ideals.len() - 1;
        match next {
            Move::Insert(worker, element) => {
                workers[worker % count].insert(element);
                ideals[epoch].update(element);
            }
            Move::Publish(worker) => workers[worker % count].publish(),
            Move::Poll => {
                clock.pass_ns(60_000);
                aggregator.poll(clock.now());
            }
            Move::Epoch => {
                if aggregator.begin_epoch().is_some() {
                    ideals.push(empty.clone());
                }
            }
            Move::Ask => {
                for (epoch, ideal) in (0..).zip(&ideals).skip(epoch.saturating_sub(1)) {
                    ideal.compare(&reader, epoch, epoch);
                }
            }
        }
    }
    workers.iter_mut().for_each(Worker::publish);
    for _ in 0..10 {
        clock.pass_ns(60_000);
        aggregator.poll(clock.now());
        workers.iter_mut().for_each(Worker::publish);
    }
    // Past epochs and their windows, as far as they are kept.
    let last = ideals.len() - 1;
    for first in last.saturating_sub(3)..=last {
        let mut together = ideals[first].clone();
        ideals[first + 1..].iter().for_each(|next| together.merge(next));
        together.compare(&reader, first as u64, last as u64);
    }
}

/// The most failures of so many independent trials that fail with probability `failure` each, but with probability 1e-9.
pub(super) fn failures_at_most(trials: u32, failure: f64) -> u32 {
    let mut term = (1.0 - failure).powi(trials as i32);
    let mut terms = Vec::new();
    for failed in 0..=trials {
        terms.push(term);
        term *= f64::from(trials - failed) / f64::from(failed + 1) * failure / (1.0 - failure);
    }
    let mut tail = 0.0;
    for failed in (0..=trials).rev() {
        tail += terms[failed as usize];
        if tail > 1e-9 {
            return failed;
        }
    }
    0
}

#[test]
fn limits_are_those_of_the_binomial_distribution() {
    // About six standard deviations above the mean.
    assert!((45..60).contains(&failures_at_most(200, 0.1)));
    assert!((138..148).contains(&failures_at_most(200, 0.5)));
    assert_eq!(failures_at_most(2, 0.5), 2);
    assert_eq!(failures_at_most(1, 1e-10), 0);
}
