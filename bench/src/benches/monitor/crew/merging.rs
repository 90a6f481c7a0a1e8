//! Sketch-merge, a fair one: each worker has two sketches, fills one, and hands it over as soon as it has the other back.
//!
//! ```text
//!   worker 0   fills A ──┐        ┌── B, empty again
//!   worker 1   fills C ──┼─ first come, first merged ─▶ aggregator's sketch ─▶ answers
//!   worker 2   fills E ──┘
//! ```
//!
//! So the aggregator merges all the time, at the highest frequency that it can (appendix D.1), and no packet is lost or counted twice.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Query, Record};
use super::super::subject::Subject;
use super::Crew;
use crate::Result;
use std::collections::VecDeque;

/// A worker's sketches.
struct Pair<T> {
    filling: T,
    spare: Option<T>,
}

/// A sketch on its way.
struct Handed<T> {
    worker: usize,
    sketch: T,
    at_ns: f64,
}

/// Workers and aggregator.
pub(in super::super) struct Merging<S: Subject> {
    workers: Vec<Pair<S::Own>>,
    handed: VecDeque<Handed<S::Own>>,
    total: S::Own,
    now_ns: f64,
    free_ns: f64,
    merges: u64,
}

impl<S: Subject> Merging<S> {
    pub(in super::super) fn new(subject: S, workers: usize) -> Result<Self> {
        let pair = |_| Ok(Pair { filling: subject.own()?, spare: Some(subject.own()?) });
        let workers = (0..workers).map(pair).collect::<Result<_>>()?;
        let (handed, total) = (VecDeque::new(), subject.own()?);
        Ok(Self { workers, handed, total, now_ns: 0.0, free_ns: 0.0, merges: 0 })
    }

    /// How many sketches were merged.
    #[cfg(test)]
    pub(super) fn merges(&self) -> u64 {
        self.merges
    }
}

impl<S: Subject> Crew for Merging<S> {
    fn insert(&mut self, worker: usize, records: &[Record]) {
        let pair = &mut self.workers[worker];
        records.iter().for_each(|record| pair.filling.insert(record));
        if let Some(spare) = pair.spare.take() {
            let sketch = std::mem::replace(&mut pair.filling, spare);
            self.handed.push_back(Handed { worker, sketch, at_ns: self.now_ns });
        }
    }

    fn advance(&mut self, now_ns: f64) {
        while let Some(next) = self.handed.front() {
            let end_ns = self.free_ns.max(next.at_ns) + S::MERGE_NS;
            if end_ns > now_ns {
                break;
            }
            if let Some(Handed { worker, mut sketch, .. }) = self.handed.pop_front() {
                self.total.join(&sketch);
                sketch.clear();
                self.workers[worker].spare = Some(sketch);
                self.free_ns = end_ns;
                self.merges += 1;
            }
        }
        self.now_ns = now_ns;
    }

    fn answers(&mut self, query: &Query) -> Vec<(&'static str, Answer)> {
        vec![("sketch_merge", self.total.answer(query))]
    }
}
