//! Online accuracy (section 7.2): over time, over workers, over skew, and where the skew changes.

use super::crew::{self, Spread};
use super::draw::{Lines, draw};
use super::score::Score;
use super::stream::{Exact, Question, Stream};
use super::subject::{Shape, Sizes, Subject, Visit, visit_all};
use crate::{Case, Metric, Params, Result, Run, Size};
use serde_json::Value;
use std::collections::BTreeMap;

/// A figure of an answer at one time.
type Shown = (Metric, fn(&Score) -> f64);

/// What is shown.
const SHOWN: [Shown; 5] = [
    (Metric::F1, Score::f1),
    (Metric::Recall, |score| score.recall),
    (Metric::Precision, |score| score.precision),
    (Metric::Are, |score| score.are),
    (Metric::Aae, |score| score.aae),
];

/// The least error that a logarithmic axis shows.
const LEAST_ERROR: f64 = 1e-5;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    run.say("workers take turns on one thread, 87.5 M packets a second each, by a clock that is counted: the same each time");
    let shape = if run.size() == Size::Smoke { Shape::SMALL } else { Shape::PAPER };
    let plan = Plan {
        shape,
        packets: run.pick([6_000, 500_000, 20_000_000]),
        flows: run.pick([600, 100_000, 1_000_000]),
        workers: run.pick([4, 16, 16]),
        queries: run.pick([4, 10, 40]),
    };
    over_time(run, plan)?;
    over_workers(run, plan)?;
    over_skew(run, plan)?;
    changing(run, plan)
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
struct Plan {
    shape: Shape,
    packets: usize,
    flows: u32,
    workers: usize,
    queries: usize,
}

/// What the engines said over a stream.
#[derive(Debug, Default)]
struct History(Vec<(u64, &'static str, Score)>);

impl History {
    fn play<S: Subject>(
        subject: S,
        stream: &Stream,
        spread: Spread,
        workers: usize,
        queries: usize,
    ) -> Result<Self> {
        let mut exact = Exact::new(stream, S::QUESTION);
        let mut crews = crew::all(subject, workers)?;
        let mut history = Vec::new();
        crew::play(stream, &mut exact, spread, (workers, queries), &mut crews, |packets, engine, score| {
            history.push((packets, engine, score));
        });
        Ok(Self(history))
    }

    fn engines(&self) -> Vec<&'static str> {
        let mut engines = Vec::new();
        for at in &self.0 {
            if !engines.contains(&at.1) {
                engines.push(at.1);
            }
        }
        engines
    }

    /// The mean over all times, with the least and the greatest.
    fn mean(&self, engine: &str, value: fn(&Score) -> f64) -> (f64, f64, f64) {
        let values = self.0.iter().filter(|at| at.1 == engine).map(|at| value(&at.2));
        let (mut sum, mut count, mut least, mut greatest) = (0.0, 0.0, f64::MAX, 0.0f64);
        for value in values {
            (sum, count) = (sum + value, count + 1.0);
            (least, greatest) = (least.min(value), greatest.max(value));
        }
        (sum / f64::max(count, 1.0), least, greatest)
    }

    /// Reports the means of all that this question has.
    fn report<S: Subject>(&self, run: &mut Run<'_>, params: &Params) -> Result<()> {
        let metrics = SHOWN.iter().filter(|shown| is_of(S::QUESTION, shown.0));
        for engine in self.engines() {
            for &(metric, value) in metrics.clone() {
                let (mean, least, greatest) = self.mean(engine, value);
                let mut params = params.clone();
                params.insert("sketch".into(), S::NAME.into());
                params.insert("min".into(), least.into());
                params.insert("max".into(), greatest.into());
                run.figure(Case::QueryOnline, engine, metric, mean, params)?;
            }
        }
        Ok(())
    }

    /// Draws it over packets.
    fn draw<S: Subject>(&self, run: &mut Run<'_>, name: &str, title: &str) -> Result<()> {
        let mut panels = Vec::new();
        for (metric, value) in SHOWN.into_iter().filter(|shown| is_of(S::QUESTION, shown.0)) {
            let mut lines = Lines::default();
            for (packets, engine, score) in &self.0 {
                lines.add(engine, *packets as f64 / 1e6, value(score));
            }
            panels.push(match metric {
                Metric::Are => lines.log("relative error", LEAST_ERROR),
                Metric::Aae => lines.log("absolute error", LEAST_ERROR),
                _ => lines.linear(metric.name()),
            });
        }
        draw(run, name, title, "million packets", panels)
    }
}

/// Whether a question has this figure: an absolute error is one of a count.
fn is_of(question: Question, metric: Metric) -> bool {
    match metric {
        Metric::Are => true,
        Metric::Aae => question != Question::Quantiles,
        _ => question.names_keys(),
    }
}

fn params(stream: &Stream, spread: Spread, workers: usize) -> Params {
    Params::from_iter([
        ("workload".to_owned(), Value::from(stream.name.as_str())),
        ("packets".to_owned(), stream.len().into()),
        ("flows".to_owned(), stream.flows().into()),
        ("spread".to_owned(), spread.name().into()),
        ("workers".to_owned(), workers.into()),
    ])
}

/// Figures 10, 20, 21: all sketches, at many times.
fn over_time(run: &mut Run<'_>, plan: Plan) -> Result<()> {
    struct OverTime<'v, 'r> {
        run: &'v mut Run<'r>,
        plan: Plan,
        stream: Stream,
    }
    impl Visit for OverTime<'_, '_> {
        fn visit<S: Subject>(&mut self, subject: S) -> Result<()> {
            let Plan { workers, queries, .. } = self.plan;
            for spread in Spread::ALL {
                let history = History::play(subject, &self.stream, spread, workers, queries)?;
                history.report::<S>(self.run, &params(&self.stream, spread, workers))?;
                let title =
                    format!("{} online: {workers} workers, {}, {}", S::NAME, spread.name(), self.stream.name);
                history.draw::<S>(
                    self.run,
                    &format!("monitor_time_{}_{}", S::NAME, spread.name()),
                    &title,
                )?;
            }
            Ok(())
        }
    }
    let stream = Stream::zipf(1.1, plan.flows, plan.packets);
    visit_all(plan.shape, &mut OverTime { run, plan, stream })
}

/// What is drawn of means over workers or skew.
#[derive(Default)]
struct Means(BTreeMap<&'static str, Lines>);

impl Means {
    fn add(&mut self, x: f64, history: &History) {
        for engine in history.engines() {
            let mut add =
                |panel, value| self.0.entry(panel).or_default().add(engine, x, history.mean(engine, value).0);
            add("F1", Score::f1);
            add("miss rate", |score| 1.0 - score.recall);
            add("relative error", |score| score.are);
        }
    }

    fn draw(mut self, run: &mut Run<'_>, name: &str, title: &str, x_label: &str) -> Result<()> {
        let mut lines = |panel| self.0.remove(panel).unwrap_or_default();
        let panels = vec![
            lines("F1").linear("F1"),
            lines("miss rate").linear("miss rate"),
            lines("relative error").log("relative error", LEAST_ERROR),
        ];
        draw(run, name, title, x_label, panels)
    }
}

/// Figure 11a.
fn over_workers(run: &mut Run<'_>, plan: Plan) -> Result<()> {
    let stream = Stream::zipf(1.1, plan.flows, plan.packets);
    for spread in Spread::ALL {
        let mut means = Means::default();
        let counts: &[usize] = run.pick([&[1, 2], &[1, 16], &[1, 2, 4, 8, 16]]);
        for &workers in counts {
            let history =
                History::play(Sizes::with_shape(plan.shape), &stream, spread, workers, plan.queries)?;
            history.report::<Sizes>(run, &params(&stream, spread, workers))?;
            means.add(workers as f64, &history);
        }
        let title = format!("count_min online: {}, {}", spread.name(), stream.name);
        means.draw(run, &format!("monitor_workers_{}", spread.name()), &title, "workers")?;
    }
    Ok(())
}

/// Figure 11b. Fewer flows, so that at a skew of 0.3 some are heavy.
fn over_skew(run: &mut Run<'_>, plan: Plan) -> Result<()> {
    let (mut means, flows) = (Spread::ALL.map(|_| Means::default()), plan.flows.min(1 << 16));
    let skews: &[f64] =
        run.pick([&[0.3, 3.0], &[0.3, 1.2, 2.1, 3.0], &[0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0]]);
    for &skew in skews {
        let stream = Stream::zipf(skew, flows, plan.packets);
        for (spread, means) in Spread::ALL.into_iter().zip(&mut means) {
            let history =
                History::play(Sizes::with_shape(plan.shape), &stream, spread, plan.workers, plan.queries)?;
            history.report::<Sizes>(run, &params(&stream, spread, plan.workers))?;
            means.add(skew, &history);
        }
    }
    for (spread, means) in Spread::ALL.into_iter().zip(means) {
        let title = format!("count_min online: {} workers, {}, {flows} flows", plan.workers, spread.name());
        means.draw(run, &format!("monitor_skew_{}", spread.name()), &title, "skew")?;
    }
    Ok(())
}

/// Figure 12.
fn changing(run: &mut Run<'_>, plan: Plan) -> Result<()> {
    let stream = Stream::changing(plan.flows.min(1 << 16), plan.packets);
    for spread in Spread::ALL {
        let history =
            History::play(Sizes::with_shape(plan.shape), &stream, spread, plan.workers, plan.queries)?;
        history.report::<Sizes>(run, &params(&stream, spread, plan.workers))?;
        let title = format!(
            "count_min online: {} workers, {}, skew 0.3, 3.0, 1.5, 0.9, 2.4 in turn",
            plan.workers,
            spread.name()
        );
        history.draw::<Sizes>(run, &format!("monitor_changing_{}", spread.name()), &title)?;
    }
    Ok(())
}
