//! What heavy flows are wanted for: a load balancer (section 7.5) and a key-value cache (appendix D.3).
//!
//! ```text
//!   balance   a flow's packets go to the worker of its hash; those of a flow that is found heavy to whoever had the fewest so far
//!   cache     a request for a key that is found heavy is a hit
//! ```
//!
//! Every 100 µs, by a clock that is counted, what the engine knows as heavy by then takes effect. Imbalance is how many more packets the
//! busiest worker had than the idlest, of all packets so far: 0 is ideal.

use super::crew::{self, BATCH, PACKET_NS, Spread, Steps};
use super::draw::{Lines, draw};
use super::stream::{HEAVY_SHARE, Query, Record, Stream};
use super::subject::{Shape, Sizes, Subject};
use crate::{Case, Metric, Params, Result, Run, Size};
use std::cell::RefCell;
use std::collections::HashSet;

/// How often what is heavy takes effect.
const PERIOD_NS: f64 = 100_000.0;
const WORKERS: usize = 16;
const ENGINES: [&str; 5] = ["ideal", "overbank", "paper", "sketch_merge", "iceberg"];
/// Requests that a cache gets: 10 million a second for each worker.
const REQUEST_NS: f64 = 100.0;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    run.say("workers take turns on one thread, by a clock that is counted: figures are the same each time");
    let shape = if run.size() == Size::Smoke { Shape::SMALL } else { Shape::PAPER };
    let (flows, packets) = (run.pick([600, 1 << 16, 1 << 16]), run.pick([10_000, 2_000_000, 20_000_000]));
    let skews: &[f64] =
        run.pick([&[1.2], &[0.6, 1.2, 2.1], &[0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0]]);
    for case in [BALANCE, CACHE] {
        over_time(run, &case, shape, &Stream::zipf(1.2, flows, packets))?;
        over_skew(run, &case, shape, skews, |skew| Stream::zipf(skew, flows, packets))?;
    }
    let requests = run.pick([2_000, 1_000_000, 1_000_000]);
    over_time(run, &CACHE, shape, &Stream::twitter(&run.testdata(), requests)?)
}

/// A use of heavy flows.
#[derive(Clone, Copy, Debug)]
struct UseCase {
    case: Case,
    metric: Metric,
    /// What a worker takes for a packet.
    packet_ns: f64,
    is_balanced: bool,
}

const BALANCE: UseCase =
    UseCase { case: Case::Balance, metric: Metric::Imbalance, packet_ns: PACKET_NS, is_balanced: true };
const CACHE: UseCase =
    UseCase { case: Case::Cache, metric: Metric::HitRatio, packet_ns: REQUEST_NS, is_balanced: false };

/// What came of it so far.
#[derive(Clone, Debug, Default)]
struct Outcome {
    heavy: HashSet<u64>,
    loads: [u64; WORKERS],
    hits: u64,
    packets: u64,
}

impl Outcome {
    /// A packet comes; its worker.
    fn take(&mut self, record: &Record, is_balanced: bool) -> usize {
        let is_heavy = self.heavy.contains(&record.key);
        let idlest = || (0..WORKERS).min_by_key(|&worker| self.loads[worker]);
        let worker = match is_balanced && is_heavy {
            true => idlest().unwrap_or(0),
            false => Spread::Hashed.worker(record, 0, WORKERS),
        };
        self.loads[worker] += 1;
        self.hits += u64::from(is_heavy);
        self.packets += 1;
        worker
    }

    /// How many more packets the busiest worker had than the idlest.
    fn imbalance(&self) -> f64 {
        let (least, most) = (self.loads.iter().min(), self.loads.iter().max());
        most.zip(least).map_or(0.0, |(&most, &least)| most as f64 / least.max(1) as f64 - 1.0)
    }

    fn value(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Imbalance => self.imbalance(),
            _ => self.hits as f64 / self.packets.max(1) as f64,
        }
    }
}

/// Plays a stream with what this engine finds; every period `look`.
fn follow<S: Subject>(
    case: &UseCase,
    subject: S,
    engine: &str,
    stream: &Stream,
    mut look: impl FnMut(&Outcome),
) -> Result<Outcome> {
    let mut crews = vec![crew::of(engine, subject, WORKERS)?];
    let (mut steps, outcome) = (Steps::new(WORKERS), RefCell::new(Outcome::default()));
    let (mut at, mut periods) = (0, 0.0);
    while at < stream.len() {
        let end = stream.len().min(at + steps.packets());
        let records = (at..end).map(|at| stream.record(at));
        let worker_of = |record: &Record| outcome.borrow_mut().take(record, case.is_balanced);
        steps.step(records, case.packet_ns * BATCH as f64, worker_of, &mut crews);
        at = end;
        if steps.now_ns >= (periods + 1.0) * PERIOD_NS || at == stream.len() {
            periods = (steps.now_ns / PERIOD_NS).floor();
            let query = Query { asked: Vec::new(), threshold: HEAVY_SHARE * at as f64 };
            let answers = crews[0].answers(&query);
            let known = answers.into_iter().find(|answer| answer.0 == engine).map(|answer| answer.1.known);
            let heavy = known.into_iter().flatten().filter(|known| known.1 > query.threshold);
            let mut outcome = outcome.borrow_mut();
            outcome.heavy = heavy.map(|known| known.0).collect();
            look(&outcome);
        }
    }
    Ok(outcome.into_inner())
}

fn report(
    run: &mut Run<'_>,
    case: &UseCase,
    engine: &'static str,
    stream: &Stream,
    outcome: &Outcome,
) -> Result<()> {
    let params = Params::from_iter([
        ("sketch".to_owned(), Sizes::NAME.into()),
        ("workload".to_owned(), stream.name.as_str().into()),
        ("packets".to_owned(), stream.len().into()),
        ("workers".to_owned(), WORKERS.into()),
    ]);
    run.figure(case.case, engine, case.metric, outcome.value(case.metric), params)
}

/// Figures 19a and 22a.
fn over_time(run: &mut Run<'_>, case: &UseCase, shape: Shape, stream: &Stream) -> Result<()> {
    let mut lines = Lines::default();
    for engine in ENGINES {
        let outcome = follow(case, Sizes::with_shape(shape), engine, stream, |outcome| {
            lines.add(engine, outcome.packets as f64 / 1e6, outcome.value(case.metric));
        })?;
        report(run, case, engine, stream, &outcome)?;
    }
    let name = format!(
        "monitor_{}_{}",
        case.case.name(),
        stream.name.replace(['(', ')'], "_").trim_end_matches('_')
    );
    let title = format!("{} with count_min: 16 workers, {}", case.case.name(), stream.name);
    draw(run, &name, &title, "million packets", vec![panel(case, lines)])
}

/// Figures 19b and 22b.
fn over_skew(
    run: &mut Run<'_>,
    case: &UseCase,
    shape: Shape,
    skews: &[f64],
    stream: impl Fn(f64) -> Stream,
) -> Result<()> {
    let mut lines = Lines::default();
    for &skew in skews {
        let stream = stream(skew);
        for engine in ENGINES {
            let outcome = follow(case, Sizes::with_shape(shape), engine, &stream, |_| ())?;
            lines.add(engine, skew, outcome.value(case.metric));
            report(run, case, engine, &stream, &outcome)?;
        }
    }
    let title = format!("{} with count_min: 16 workers, in the end", case.case.name());
    draw(run, &format!("monitor_{}_skew", case.case.name()), &title, "skew", vec![panel(case, lines)])
}

fn panel(case: &UseCase, lines: Lines) -> crate::Panel {
    match case.metric {
        Metric::Imbalance => lines.log("imbalance", 1e-5),
        _ => lines.linear("hit ratio"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_flows_go_to_the_idlest_and_are_hits() {
        let stream = Stream::zipf(1.2, 100, 4_000);
        let mut outcome = Outcome::default();
        (0..2_000).for_each(|at| {
            outcome.take(&stream.record(at), true);
        });
        assert_eq!((outcome.hits, outcome.packets), (0, 2_000));
        let before = outcome.imbalance();
        assert!(before > 1.0, "one flow is a fifth of all: {before}");
        outcome.heavy = stream.records().iter().map(|record| record.key).collect();
        (2_000..4_000).for_each(|at| {
            outcome.take(&stream.record(at), true);
        });
        assert_eq!((outcome.hits, outcome.value(Metric::HitRatio)), (2_000, 0.5));
        assert!(outcome.imbalance() < before / 2.0, "{}", outcome.imbalance());
        assert_eq!(outcome.loads.iter().sum::<u64>(), 4_000);
    }

    #[test]
    fn the_ideal_finds_what_is_heavy() {
        let (subject, stream) = (Sizes::with_shape(Shape::SMALL), Stream::zipf(1.5, 40, 200_000));
        // Slow enough that most packets come after the first look.
        let slowly = |case| UseCase { packet_ns: 1000.0, ..case };
        let found =
            |engine, case| follow(&slowly(case), subject, engine, &stream, |_| ()).expect("it takes part");
        let of = |engine| found(engine, BALANCE).value(Metric::Imbalance);
        assert!(of("ideal") < 0.2 && of("overbank") < 0.2, "{} {}", of("ideal"), of("overbank"));
        let hits = found("overbank", CACHE).value(Metric::HitRatio);
        assert!(hits > 0.8, "{hits}");
    }
}
