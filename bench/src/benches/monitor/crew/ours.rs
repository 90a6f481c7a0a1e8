//! The framework: `overbank` is what a reader says, `paper` what the aggregator's counters alone say where workers send all that it takes.

use super::super::score::Answer;
use super::super::stream::{Query, Record};
use super::super::subject::{Polling as _, Subject, Working as _};
use super::{Crew, MESSAGE_NS};
use crate::Result;
use overbank::monitor::{MonitorOptions, Polled};

/// A poll that finds nothing.
const POLL_NS: f64 = 200.0;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Voice {
    /// A reader, as the framework is by default.
    Reader,
    /// The aggregator's counters, to which workers send whatever they cost: the paper's way.
    Aggregator,
}

/// Workers, aggregator and reader.
pub(in super::super) struct Ours<S: Subject> {
    subject: S,
    voice: Voice,
    workers: Vec<S::Worker>,
    aggregator: S::Aggregator,
    reader: S::Reader,
    elements: Vec<S::Element>,
    /// When the aggregator has done what it took.
    free_ns: f64,
    polled: Polled,
}

impl<S: Subject> Ours<S> {
    pub(in super::super) fn new(subject: S, voice: Voice, workers: usize) -> Result<Self> {
        let options = match voice {
            Voice::Reader => MonitorOptions::new(workers),
            Voice::Aggregator => MonitorOptions::new(workers).worker_share(1.0),
        };
        let (workers, aggregator, reader) = subject.start(options)?;
        let (elements, free_ns, polled) = (Vec::new(), 0.0, Polled::default());
        Ok(Self { subject, voice, workers, aggregator, reader, elements, free_ns, polled })
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
        match self.voice {
            Voice::Reader => vec![("overbank", self.subject.online(&self.reader, query))],
            Voice::Aggregator => {
                let applied = self.subject.applied(&self.reader, query);
                applied.map(|answer| ("paper", answer)).into_iter().collect()
            }
        }
    }

    fn state(&self) -> Option<(u8, u64)> {
        Some((self.aggregator.tau(), self.polled.queue))
    }
}
