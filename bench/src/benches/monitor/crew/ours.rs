//! The framework: `overbank` is what a reader says, `paper` what the aggregator's counters alone say.

use super::super::score::Answer;
use super::super::stream::{Query, Record};
use super::super::subject::{Polling as _, Subject, Working as _};
use super::{Crew, MESSAGE_NS};
use crate::Result;
use overbank::monitor::{MonitorOptions, Polled};

/// A poll that finds nothing.
const POLL_NS: f64 = 200.0;

/// Workers, aggregator and reader.
pub(in super::super) struct Ours<S: Subject> {
    subject: S,
    workers: Vec<S::Worker>,
    aggregator: S::Aggregator,
    reader: S::Reader,
    elements: Vec<S::Element>,
    /// When the aggregator has done what it took.
    free_ns: f64,
    polled: Polled,
}

impl<S: Subject> Ours<S> {
    /// As the framework is by default.
    pub(in super::super) fn new(subject: S, workers: usize) -> Result<Self> {
        let (workers, aggregator, reader) = subject.start(MonitorOptions::new(workers))?;
        let (elements, free_ns, polled) = (Vec::new(), 0.0, Polled::default());
        Ok(Self { subject, workers, aggregator, reader, elements, free_ns, polled })
    }
}

impl<S: Subject> Crew for Ours<S> {
    fn insert(&mut self, worker: usize, records: &[Record]) {
        self.elements.clear();
        self.elements.extend(records.iter().map(|record| self.subject.element(record)));
        self.workers[worker].insert_batch(&self.elements);
    }

    fn advance(&mut self, now_ns: f64) {
        if self.free_ns <= now_ns {
            self.polled = self.aggregator.poll(|| now_ns as u64);
            self.free_ns = now_ns + POLL_NS + self.polled.applied as f64 * MESSAGE_NS;
        }
    }

    fn answers(&mut self, query: &Query) -> Vec<(&'static str, Answer)> {
        let online = ("overbank", self.subject.online(&self.reader, query));
        let applied = self.subject.applied(&self.reader, query).map(|answer| ("paper", answer));
        [online].into_iter().chain(applied).collect()
    }

    fn state(&self) -> Option<(u8, u64)> {
        Some((self.aggregator.tau(), self.polled.queue))
    }
}
