//! How τ follows what comes, and how long a batch takes (section 7.4).

use super::crew::{self, BATCH, Spread, Steps};
use super::draw::{Lines, draw};
use super::stream::Stream;
use super::subject::{Polling as _, Shape, Sizes, Subject, Working as _};
use super::team::{self, Given, Taken, Timed};
use crate::{Case, Clock, Metric, Params, Result, Run, Size};
use overbank::monitor::MonitorOptions;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often τ is looked at: as often as it is set.
const WINDOW_NS: f64 = 100_000.0;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let subject = Sizes::with_shape(if run.size() == Size::Smoke { Shape::SMALL } else { Shape::PAPER });
    let packets = run.pick([2_000, 1_000_000, 4_000_000]);
    let stream = Stream::zipf(1.1, run.pick([200, 100_000, 1_000_000]), packets);
    counted(run, subject, &stream)?;
    measured(run, subject, &stream)?;
    latencies(run, subject, &stream)
}

/// The state of a monitor in each window.
#[derive(Default)]
struct Windows {
    /// Million packets a second that come, τ, messages that wait.
    windows: Vec<(f64, f64, f64)>,
    window_ns: f64,
}

impl Windows {
    fn report(self, run: &mut Run<'_>, name: &str, title: &str, params: &Params) -> Result<()> {
        let mut lines = [(); 3].map(|()| Lines::default());
        for (number, &(rate, tau, queue)) in self.windows.iter().enumerate() {
            let ms = number as f64 * self.window_ns / 1e6;
            for (lines, value) in lines.iter_mut().zip([rate, tau, queue]) {
                lines.add("overbank", ms, value);
            }
        }
        for (metric, value) in [
            (Metric::Tau, (|window| window.1) as fn(&(f64, f64, f64)) -> f64),
            (Metric::Queue, |window| window.2),
        ] {
            let values = self.windows.iter().map(value);
            let mean = values.clone().sum::<f64>() / self.windows.len().max(1) as f64;
            let mut params = params.clone();
            params.insert("min".into(), values.clone().fold(f64::MAX, f64::min).into());
            params.insert("max".into(), values.fold(0.0, f64::max).into());
            run.figure(Case::Apply, "overbank", metric, mean, params)?;
        }
        let [rate, tau, queue] = lines;
        let panels = vec![
            rate.linear("million packets a second"),
            tau.linear("threshold"),
            queue.linear("messages that wait"),
        ];
        draw(run, name, title, "milliseconds", panels)
    }
}

fn params(workers: usize, time: &str) -> Params {
    Params::from_iter([
        ("sketch".to_owned(), Sizes::NAME.into()),
        ("workers".to_owned(), workers.into()),
        ("time".to_owned(), time.into()),
    ])
}

/// Figure 18: ten workers take turns, by a clock that is counted, and what comes changes.
fn counted<S: Subject>(run: &mut Run<'_>, subject: S, stream: &Stream) -> Result<()> {
    const WORKERS: usize = 10;
    /// Million packets a second, one after the other.
    const RATES: [f64; 6] = [100.0, 400.0, 875.0, 50.0, 600.0, 200.0];
    let windows_each = run.pick([0.5, 20.0, 100.0]);
    let mut crews = vec![crew::of("overbank", subject, WORKERS)?];
    let (mut steps, mut at, mut windows) =
        (Steps::new(WORKERS), 0, Windows { window_ns: WINDOW_NS, ..Windows::default() });
    for (phase, rate) in (1..).zip(RATES) {
        while steps.now_ns < f64::from(phase) * windows_each * WINDOW_NS {
            let packets = steps.packets();
            let records = (at..at + packets).map(|at| stream.record(at % stream.len()));
            let mut number = at;
            let worker_of = |record: &_| {
                number += 1;
                Spread::RoundRobin.worker(record, number, WORKERS)
            };
            steps.step(records, packets as f64 * 1000.0 / rate, worker_of, &mut crews);
            at += packets;
            if steps.now_ns >= windows.windows.len() as f64 * WINDOW_NS {
                let (tau, queue) = crews[0].state().unwrap_or_default();
                windows.windows.push((rate, tau.into(), queue as f64));
            }
        }
    }
    let title = "count_min, 10 workers in turn, a clock that is counted";
    windows.report(run, "monitor_threshold_counted", title, &params(WORKERS, "counted"))
}

/// The same of one worker and the aggregator on threads.
fn measured<S: Subject>(run: &mut Run<'_>, subject: S, stream: &Stream) -> Result<()> {
    /// Million packets a second, and as many as it can.
    const RATES: [f64; 6] = [2.0, 20.0, f64::INFINITY, 5.0, 40.0, 10.0];
    let phase = Duration::from_millis(run.pick([1, 30, 500]));
    let keys: Vec<u64> = (0..stream.len()).map(|at| stream.record(at).key).collect();
    let elements = team::elements(subject, &keys);
    let (mut workers, mut aggregator, _) = subject.start(MonitorOptions::new(1))?;
    let (is_over, begun) = (AtomicBool::new(false), Instant::now());
    // The worker's packets at the end of each phase, and when that was.
    let mut ends = Vec::new();
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut batches, mut inserted) = (elements.chunks(BATCH).cycle(), 0u64);
            for (number, rate) in (1..).zip(RATES) {
                let (from, before) = (Instant::now(), inserted);
                while begun.elapsed() < phase * number {
                    let due_ns = (inserted - before) as f64 * 1000.0 / rate;
                    if from.elapsed().as_nanos() as f64 >= due_ns {
                        let batch = batches.next().unwrap_or_default();
                        workers[0].insert_batch(batch);
                        inserted += batch.len() as u64;
                    }
                }
                ends.push((begun.elapsed().as_nanos() as f64, (inserted - before) as f64));
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let polled = aggregator.poll(|| begun.elapsed().as_nanos() as u64);
            let now_ns = begun.elapsed().as_nanos() as f64;
            if now_ns >= seen.len() as f64 * WINDOW_NS {
                seen.push((now_ns, f64::from(aggregator.tau()), polled.queue as f64));
            }
        }
    });
    let mut windows = Windows { window_ns: WINDOW_NS, ..Windows::default() };
    for (now_ns, tau, queue) in seen {
        let at = ends.iter().position(|end| end.0 >= now_ns).unwrap_or(ends.len() - 1);
        let from_ns = if at == 0 { 0.0 } else { ends[at - 1].0 };
        windows.windows.push((ends[at].1 * 1e3 / (ends[at].0 - from_ns), tau, queue));
    }
    let title = "count_min, one worker and the aggregator on threads of their own";
    windows.report(run, "monitor_threshold_measured", title, &params(1, "measured"))
}

/// Figure 17.
fn latencies(run: &mut Run<'_>, subject: Sizes, stream: &Stream) -> Result<()> {
    let keys: Vec<u64> = (0..stream.len()).map(|at| stream.record(at).key).collect();
    let one = team::shares(&keys, 1);
    let last: RefCell<Vec<(&str, Vec<u64>)>> = RefCell::default();
    let note = |clock: &mut Clock, engine: &'static str, taken: Taken| {
        clock.add(taken.wall_ns, taken.cpu_ns);
        let mut last = last.borrow_mut();
        last.retain(|known| known.0 != engine);
        last.push((engine, taken.batches_ns.clone()));
        clock.latencies(taken.batches_ns);
        Ok(0)
    };
    run.contest(Case::Insert)
        .param("sketch", Sizes::NAME)
        .param("batch", BATCH)
        .param("workers", 1)
        .ops(keys.len() / BATCH)
        .approximate("overbank", |clock| {
            note(clock, "overbank", team::ours(subject, &one, Given::Keys, Timed::Batches)?)
        })
        .approximate("sketch_merge", |clock| {
            note(clock, "sketch_merge", team::merging(subject, &one, Timed::Batches)?)
        })
        .approximate("iceberg", |clock| note(clock, "iceberg", team::asking(subject, &one, Timed::Batches)?))
        .finish()?;
    let (mut shares, mut over_time) = (Lines::default(), Lines::default());
    for (engine, batches_ns) in last.into_inner() {
        for (number, &ns) in batches_ns.iter().enumerate().take(20_000) {
            over_time.add(engine, number as f64 / 1000.0, ns as f64 / 1000.0);
        }
        let mut sorted = batches_ns;
        sorted.sort_unstable();
        // The last half a percent would be all of the axis.
        for share in 0..=199 {
            let at = (sorted.len() - 1) * share / 200;
            shares.add(engine, sorted[at] as f64 / 1000.0, share as f64 / 200.0);
        }
    }
    let share = vec![shares.linear("share of batches")];
    draw(run, "monitor_latency", "count_min: batches of 32 packets", "microseconds", share)?;
    let jitter = vec![over_time.log("microseconds", 0.01)];
    draw(run, "monitor_jitter", "count_min: batches of 32 packets", "thousand batches", jitter)
}
