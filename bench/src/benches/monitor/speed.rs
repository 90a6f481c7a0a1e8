//! What a packet costs a worker, a message the aggregator, and a merge (section 7.3).
//!
//! The published code is that of the paper's authors, built beside the project: `bash bench/rivals/sketches/setup.sh`.

use super::draw::{Lines, draw};
use super::single::Single;
use super::stream::Stream;
use super::subject::{Polling as _, Shape, Sizes, Subject, Visit, Working as _, visit_all};
use super::team::{self, Given, Taken, Timed};
use crate::{Case, Clock, Result, Run, Size};
use overbank::monitor::MonitorOptions;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Messages that wait at most where the aggregator is timed: they stay in its cache.
const LG_RING: u32 = 14;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let shape = if run.size() == Size::Smoke { Shape::SMALL } else { Shape::PAPER };
    let packets = run.pick([2_000, 1_000_000, 8_000_000]);
    let stream = Stream::zipf(1.1, run.pick([200, 100_000, 1_000_000]), packets);
    let keys: Vec<u64> = stream.records().iter().map(|record| record.key).collect();
    let rivals = Rivals::new(run, &keys)?;
    visit_all(shape, &mut Inserts { run, keys: &keys, rivals: &rivals })?;
    over_workers(run, shape, &keys)?;
    visit_all(shape, &mut Messages { run, keys: &keys })?;
    visit_all(shape, &mut Merges { run, stream: &stream })
}

fn add(clock: &mut Clock, taken: Taken) -> Result<u64> {
    clock.add(taken.wall_ns, taken.cpu_ns);
    Ok(0)
}

/// One worker of each, with an aggregator.
struct Inserts<'v, 'r> {
    run: &'v mut Run<'r>,
    keys: &'v [u64],
    rivals: &'v Rivals,
}

impl Visit for Inserts<'_, '_> {
    fn visit<S: Subject>(&mut self, subject: S) -> Result<()> {
        let (keys, rivals, one) = (self.keys, self.rivals, team::shares(self.keys, 1));
        let contest = self.run.contest(Case::Insert).param("sketch", S::NAME).param("workload", "zipf(1.1)");
        let mut contest = contest
            .param("packets", keys.len())
            .param("workers", 1)
            .ops(keys.len())
            .approximate("overbank", |clock| {
                add(clock, team::ours(subject, &one, Given::Keys, Timed::Whole)?)
            })
            .approximate("overbank_wide", |clock| {
                add(clock, team::ours(subject, &one, Given::KeysSeldomSent, Timed::Whole)?)
            })
            .approximate("overbank_hashed", |clock| {
                add(clock, team::ours(subject, &one, Given::Hashes, Timed::Whole)?)
            })
            .approximate("sketch_merge", |clock| add(clock, team::merging(subject, &one, Timed::Whole)?))
            .approximate("ideal", |clock| add(clock, team::ideal(subject, keys)?));
        for (engine, program, step) in rivals.of(S::NAME) {
            contest = contest.approximate(engine, move |clock| rivals.sample(clock, &program, step));
        }
        contest.finish()
    }
}

/// Programs that are built beside the project, and the keys that they read.
struct Rivals {
    folder: Option<PathBuf>,
    keys: PathBuf,
}

impl Rivals {
    fn new(run: &mut Run<'_>, keys: &[u64]) -> Result<Self> {
        let file = run.scratch()?.join("monitor_keys");
        let folder = run.data().join("rivals/sketches");
        let folder = (run.size() != Size::Smoke && folder.exists()).then_some(folder);
        if folder.is_some() {
            std::fs::write(&file, keys.iter().flat_map(|key| key.to_le_bytes()).collect::<Vec<u8>>())?;
        } else if run.size() != Size::Smoke {
            run.say(
                "the published C++ and asap_sketchlib are left out: they are not built (bash bench/rivals/sketches/setup.sh)",
            );
        }
        Ok(Self { folder, keys: file })
    }

    /// Engine, program and step of those that have this sketch.
    fn of(&self, sketch: &str) -> Vec<(&'static str, PathBuf, &'static str)> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let steps = [
            ("octosketch", "octosketch", "ours"),
            ("octosketch_merge", "octosketch", "merge"),
            ("octosketch_ideal", "octosketch", "ideal"),
            ("asap_sketchlib", "asap", "end_to_end"),
            ("asap_worker", "asap", "worker"),
        ];
        let program = |(engine, place, step)| (engine, folder.join(place).join(sketch), step);
        steps.into_iter().map(program).filter(|rival| rival.1.exists()).collect()
    }

    /// Runs a program; its last line says what its worker took.
    fn sample(&self, clock: &mut Clock, program: &Path, step: &str) -> Result<u64> {
        let output = Command::new(program).arg(step).arg(&self.keys).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} {step}: {}: {why}", program.display(), output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let said: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
        let number = |name: &str| {
            said[name].as_u64().ok_or_else(|| format!("{} does not tell {name}", program.display()))
        };
        clock.add(number("wall_ns")?, number("cpu_ns")?);
        Ok(0)
    }
}

/// Figure 13 by CPU time a worker: on fewer cores than workers, that is what each would do with a core of its own.
fn over_workers(run: &mut Run<'_>, shape: Shape, keys: &[u64]) -> Result<()> {
    let subject = Sizes::with_shape(shape);
    let found: RefCell<BTreeMap<(&str, usize), Vec<f64>>> = RefCell::default();
    let counts: &[usize] = run.pick([&[2], &[2, 16], &[1, 2, 4, 8, 16]]);
    for &workers in counts {
        let shares = team::shares(keys, workers);
        let note = |clock: &mut Clock, engine, taken: Taken| {
            let rate = keys.len() as f64 * 1e3 / taken.cpu_ns.max(1) as f64 * workers as f64;
            found.borrow_mut().entry((engine, workers)).or_default().push(rate);
            add(clock, taken)
        };
        run.contest(Case::Insert)
            .param("sketch", Sizes::NAME)
            .param("workload", "zipf(1.1)")
            .param("packets", keys.len())
            .param("workers", workers)
            .ops(keys.len())
            .approximate("overbank", |clock| {
                note(clock, "overbank", team::ours(subject, &shares, Given::Keys, Timed::Whole)?)
            })
            .approximate("sketch_merge", |clock| {
                note(clock, "sketch_merge", team::merging(subject, &shares, Timed::Whole)?)
            })
            .approximate("iceberg", |clock| {
                note(clock, "iceberg", team::asking(subject, &shares, Timed::Whole)?)
            })
            .finish()?;
    }
    let mut lines = Lines::default();
    for ((engine, workers), mut rates) in found.into_inner() {
        rates.sort_by(f64::total_cmp);
        lines.add(engine, workers as f64, rates[rates.len() / 2]);
    }
    let panel = lines.linear("million inserts a CPU-second a worker, times workers");
    draw(run, "monitor_throughput", "count_min: throughput by CPU time a worker", "workers", vec![panel])
}

/// What the aggregator does in a second.
struct Messages<'v, 'r> {
    run: &'v mut Run<'r>,
    keys: &'v [u64],
}

impl Visit for Messages<'_, '_> {
    fn visit<S: Subject>(&mut self, subject: S) -> Result<()> {
        let elements = team::elements(subject, self.keys);
        let body = |clock: &mut Clock| {
            // A window that never ends: τ stays at 1, so that every change is a message.
            let options = MonitorOptions::new(1).lg_ring(LG_RING).window_ns(u64::MAX);
            let (mut workers, mut aggregator, _) = subject.start(options)?;
            for batch in elements.chunks(1 << (LG_RING - 6)) {
                workers[0].insert_batch(batch);
                clock.time(|| while aggregator.poll(|| 0).applied > 0 {});
            }
            clock.did(aggregator.messages());
            Ok(0)
        };
        let contest = self.run.contest(Case::Apply).param("sketch", S::NAME).param("workload", "zipf(1.1)");
        contest.approximate("overbank", body).finish()
    }
}

/// What adding one sketch to another takes.
struct Merges<'v, 'r> {
    run: &'v mut Run<'r>,
    stream: &'v Stream,
}

impl Visit for Merges<'_, '_> {
    fn visit<S: Subject>(&mut self, subject: S) -> Result<()> {
        let (mut total, mut other) = (subject.own()?, subject.own()?);
        let packets = self.stream.len().min(100_000);
        (0..packets).for_each(|at| other.insert(&self.stream.record(at)));
        let merges = self.run.pick([1, 20, 200]);
        let body = |clock: &mut Clock| {
            clock.time(|| (0..merges).for_each(|_| total.join(&other)));
            Ok(0)
        };
        let contest = self.run.contest(Case::Merge).param("sketch", S::NAME);
        contest.ops(merges).approximate("sketch_merge", body).finish()
    }
}
