//! Many workers and an aggregator on one thread: packets are handed out in batches, and time is counted, not measured.
//!
//! ```text
//!   a step:   every worker inserts what came for it of the next 32 packets a worker │ the aggregator does what it has time for
//!   time:     a step is 32 packets at the paper's rate a worker; a message, a merge, a look-up takes as long as is measured
//! ```
//!
//! So 16 workers can be looked at on any machine, and a run is the same each time. What differs from threads: workers keep step, and a
//! worker to which the hash sends most packets inserts them all the same.

mod alone;
mod asking;
mod merging;
mod ours;

pub(super) use alone::Alone;
pub(super) use asking::Asking;
pub(super) use merging::Merging;
use ours::{Ours, Voice};

use super::score::{Answer, Score};
use super::stream::{Exact, Query, Record, Stream};
use super::subject::{Shape, Sizes, Subject};
use crate::Result;
use keyhash::range_of;

/// Packets of a batch: those that a receive call gives (section 7.4).
pub(super) const BATCH: usize = 32;
/// 1400 million packets a second on 16 workers (section 7.3).
pub(super) const PACKET_NS: f64 = 16.0 * 1000.0 / 1400.0;
/// What the aggregator takes for a message: 45 million a second, as `monitor_speed` measures it.
pub(super) const MESSAGE_NS: f64 = 1000.0 / 45.0;

/// Workers and an aggregator of one kind.
pub(super) trait Crew {
    /// A worker takes packets.
    fn insert(&mut self, worker: usize, records: &[Record]);

    /// The aggregator works until this time.
    fn advance(&mut self, now_ns: f64);

    /// What it would answer now, each answer with the name of its engine.
    fn answers(&mut self, query: &Query) -> Vec<(&'static str, Answer)>;

    /// τ, and how many messages waited after the last poll, of one that has such.
    fn state(&self) -> Option<(u8, u64)> {
        None
    }
}

/// How packets come to workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spread {
    /// By a hash of the flow, as network cards do it: a flow has one worker.
    Hashed,
    /// In turn: a flow has all workers, which is the hardest.
    RoundRobin,
}

impl Spread {
    pub(super) const ALL: [Self; 2] = [Self::Hashed, Self::RoundRobin];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hashed => "hashed",
            Self::RoundRobin => "round_robin",
        }
    }

    /// The worker of packet number `at`.
    pub(super) fn worker(self, record: &Record, at: usize, workers: usize) -> usize {
        match self {
            Self::Hashed => range_of(record.hash.high().rotate_left(32), workers as u64) as usize,
            Self::RoundRobin => at % workers,
        }
    }
}

/// All crews for a subject.
///
/// # Errors
/// Those of the sketches.
pub(super) fn all<S: Subject>(subject: S, workers: usize) -> Result<Vec<Box<dyn Crew>>> {
    let mut crews: Vec<Box<dyn Crew>> = vec![
        Box::new(Alone::new(subject.ideal()?)),
        Box::new(Ours::new(subject, Voice::Reader, workers)?),
        Box::new(Ours::new(subject, Voice::Aggregator, workers)?),
        Box::new(Merging::new(subject, workers)?),
    ];
    if S::NAME == Sizes::NAME {
        crews.push(iceberg(subject.shape(), workers)?);
    }
    Ok(crews)
}

/// The crew of one engine.
///
/// # Errors
/// Those of the sketch, and an engine that this subject has not.
pub(super) fn of<S: Subject>(engine: &str, subject: S, workers: usize) -> Result<Box<dyn Crew>> {
    Ok(match engine {
        "ideal" => Box::new(Alone::new(subject.ideal()?)),
        "overbank" => Box::new(Ours::new(subject, Voice::Reader, workers)?),
        "paper" => Box::new(Ours::new(subject, Voice::Aggregator, workers)?),
        "sketch_merge" => Box::new(Merging::new(subject, workers)?),
        _ if S::NAME == Sizes::NAME => iceberg(subject.shape(), workers)?,
        _ => return Err(format!("{} has no {engine}", S::NAME).into()),
    })
}

/// Iceberg is defined by Count-Min alone.
fn iceberg(shape: Shape, workers: usize) -> Result<Box<dyn Crew>> {
    Ok(Box::new(Asking::new(Sizes::with_shape(shape), workers)?))
}

/// Hands packets out, step by step, and lets time go on.
#[derive(Debug)]
pub(super) struct Steps {
    /// What came for each worker.
    batches: Vec<Vec<Record>>,
    pub(super) now_ns: f64,
}

impl Steps {
    pub(super) fn new(workers: usize) -> Self {
        Self { batches: vec![Vec::new(); workers], now_ns: 0.0 }
    }

    /// So many packets make a step.
    pub(super) fn packets(&self) -> usize {
        self.batches.len() * BATCH
    }

    /// The packets of a step, of which `worker_of` tells the worker, take this time.
    pub(super) fn step(
        &mut self,
        records: impl Iterator<Item = Record>,
        step_ns: f64,
        mut worker_of: impl FnMut(&Record) -> usize,
        crews: &mut [Box<dyn Crew>],
    ) {
        self.batches.iter_mut().for_each(Vec::clear);
        records.for_each(|record| self.batches[worker_of(&record)].push(record));
        self.now_ns += step_ns;
        for crew in crews {
            let batches = self.batches.iter().enumerate().filter(|batch| !batch.1.is_empty());
            batches.for_each(|(worker, batch)| crew.insert(worker, batch));
            crew.advance(self.now_ns);
        }
    }
}

/// A whole stream through crews, and what they say at so many times, as far apart as they can be: `visit(packets, engine, score)`.
pub(super) fn play(
    stream: &Stream,
    exact: &mut Exact<'_>,
    spread: Spread,
    (workers, queries): (usize, usize),
    crews: &mut [Box<dyn Crew>],
    mut visit: impl FnMut(u64, &'static str, Score),
) {
    let mut steps = Steps::new(workers);
    let (mut at, mut asked) = (0, 0);
    while at < stream.len() {
        let end = stream.len().min(at + steps.packets());
        (at..end).for_each(|at| exact.see(&stream.record(at)));
        let mut number = at;
        let worker_of = |record: &Record| {
            number += 1;
            spread.worker(record, number - 1, workers)
        };
        let records = (at..end).map(|at| stream.record(at));
        steps.step(records, PACKET_NS * BATCH as f64, worker_of, crews);
        at = end;
        if at * queries >= (asked + 1) * stream.len() {
            asked += 1;
            let query = exact.query();
            for (engine, answer) in crews.iter_mut().flat_map(|crew| crew.answers(&query)) {
                visit(exact.packets(), engine, Score::of(&answer, &query));
            }
        }
    }
}

#[cfg(test)]
mod tests;
