//! Engines side by side: the same work, alternating rounds, one digest among the exact ones.
//!
//! ```text
//!   warm-up   A B C          not counted; its digests are
//!   round 1   A B C
//!   round 2   C B A          the order turns round every time
//!   round 3   A B C          value = median over rounds, with min and max beside it
//! ```

use crate::child::{ProcessTree, peak_rss_bytes};
use crate::clock::Sample;
use crate::{Case, Clock, Figure, MemoryGroup, Metric, Params, Result, Run, Size, Workload};
use serde_json::{Value, json};
use std::process::Command;

/// Takes one sample: prepares, does the work inside [`Clock::time`], and returns the digest of its answer.
type Body<'w> = Box<dyn FnMut(&mut Clock) -> Result<u64> + 'w>;

/// A contest being set up. Ends with [`Contest::finish`].
#[must_use = "a contest runs when it is finished"]
pub struct Contest<'c, 'r, 'w> {
    run: &'c mut Run<'r>,
    case: Case,
    number: usize,
    params: Params,
    ops: u64,
    contenders: Vec<Contender<'w>>,
    memory: bool,
    memory_limit_bytes: Option<u64>,
    costly: bool,
}

struct Contender<'w> {
    engine: &'static str,
    exact: bool,
    body: Body<'w>,
    samples: Vec<Sample>,
}

impl<'c, 'r, 'w> Contest<'c, 'r, 'w> {
    pub(crate) fn new(run: &'c mut Run<'r>, case: Case, number: usize) -> Self {
        Self {
            run,
            case,
            number,
            params: Params::new(),
            ops: 1,
            contenders: Vec::new(),
            memory: false,
            memory_limit_bytes: None,
            costly: false,
        }
    }

    /// Names the workload in the parameters.
    pub fn workload(self, workload: Workload) -> Self {
        self.param("workload", workload.name())
    }

    /// Adds a parameter to every figure of this contest.
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    /// How many operations one sample does; `ops_per_s` and `cpu_ns_per_op` divide by it.
    pub fn ops(mut self, ops: usize) -> Self {
        self.ops = ops as u64;
        self
    }

    /// Also measures `peak_rss_bytes`: one more sample an engine, each in a fresh process, which counts the
    /// program and its input with the work.
    pub fn with_memory(mut self) -> Self {
        self.memory = true;
        self
    }

    /// Takes every sample in a fresh process inside a memory cgroup of `bytes`, page cache counted. Where
    /// that is impossible the run says so, and the parameters of its figures too.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit_bytes = Some(bytes);
        self
    }

    /// For samples that last a minute: no warm-up, and at most three rounds.
    pub fn costly(mut self) -> Self {
        self.costly = true;
        self
    }

    /// Enters an engine whose answer is exact: its digest must equal the other exact engines'.
    pub fn exact(self, engine: &'static str, body: impl FnMut(&mut Clock) -> Result<u64> + 'w) -> Self {
        self.enter(engine, true, Box::new(body))
    }

    /// Enters an engine whose answer is approximate: its digest is not compared.
    pub fn approximate(self, engine: &'static str, body: impl FnMut(&mut Clock) -> Result<u64> + 'w) -> Self {
        self.enter(engine, false, Box::new(body))
    }

    fn enter(mut self, engine: &'static str, exact: bool, body: Body<'w>) -> Self {
        self.contenders.push(Contender { engine, exact, body, samples: Vec::new() });
        self
    }

    /// Runs the rounds and reports the figures.
    ///
    /// # Errors
    /// What an engine fails with; a mismatch between exact engines, or of one with itself; a name that the
    /// bench does not declare.
    pub fn finish(mut self) -> Result<()> {
        for contender in &self.contenders {
            self.run.check_engine(contender.engine)?;
        }
        if let Some(task) = self.run.child.clone() {
            if task.contest == self.number {
                self.serve(&task.engine)?;
            }
            return Ok(());
        }
        let rounds = self.run.rounds().min(if self.costly { 3 } else { usize::MAX });
        if self.memory_limit_bytes.is_some() {
            self.compete(rounds, false, Self::sample_in_child)?;
        } else {
            let warm_up = self.run.size != Size::Smoke && !self.costly;
            self.compete(rounds, warm_up, Self::sample_here)?;
        }
        self.report(rounds)?;
        if self.memory && self.memory_limit_bytes.is_none() {
            for at in 0..self.contenders.len() {
                let sample = self.sample_in_child(at)?;
                self.contenders[at].samples = vec![sample];
            }
            self.check_digests()?;
            self.report_notes(1, |metric| metric == Metric::PeakRssBytes)?;
        }
        Ok(())
    }

    fn compete(
        &mut self,
        rounds: usize,
        warm_up: bool,
        take: fn(&mut Self, usize) -> Result<Sample>,
    ) -> Result<()> {
        for round in 0..rounds + usize::from(warm_up) {
            let mut order: Vec<usize> = (0..self.contenders.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let sample = take(self, at)?;
                self.contenders[at].samples.push(sample);
            }
            self.check_digests()?;
            if warm_up && round == 0 {
                self.contenders.iter_mut().for_each(|contender| contender.samples.clear());
            }
        }
        Ok(())
    }

    fn sample_here(&mut self, at: usize) -> Result<Sample> {
        let mut clock = Clock::default();
        let digest = (self.contenders[at].body)(&mut clock)?;
        Ok(clock.finish(digest))
    }

    /// Runs this executable again for one sample.
    fn sample_in_child(&mut self, at: usize) -> Result<Sample> {
        let program = std::env::current_exe()?;
        let engine = self.contenders[at].engine;
        let group = match self.memory_limit_bytes {
            None => None,
            Some(bytes) => {
                let (text, group) = match MemoryGroup::create(bytes) {
                    Ok(group) => (json!(bytes), Some(group)),
                    Err(why) => {
                        self.run.say(&format!("no memory limit: {why}"));
                        (json!(format!("none: {why}")), None)
                    }
                };
                self.params.insert("memory_limit_bytes".into(), text);
                group
            }
        };
        let mut command =
            group.as_ref().map_or_else(|| Command::new(&program), |group| group.command(&program));
        let task = format!("{}:{engine}", self.number);
        command.args([self.run.bench.name, "--child", &task, "--size", self.run.size.name()]);
        let tree = ProcessTree::measure(command)?;
        if !tree.status.success() {
            return Err(format!("{engine} failed in its own process: {}", tree.status).into());
        }
        let sample = sample_from_json(&tree.stdout).ok_or("the child process returned no sample")?;
        if let Some(peak) = group.and_then(|group| group.peak_bytes()) {
            self.params.insert("cgroup_peak_bytes".into(), json!(peak));
        }
        Ok(sample)
    }

    /// In a child: takes the sample, prints it, ends the process.
    fn serve(&mut self, engine: &str) -> Result<()> {
        let at = self.contenders.iter().position(|contender| contender.engine == engine);
        let Some(at) = at else { return Ok(()) };
        let mut sample = self.sample_here(at)?;
        sample.notes.push((Metric::PeakRssBytes, peak_rss_bytes() as f64));
        println!("{}", sample_to_json(&sample));
        std::process::exit(0)
    }

    fn check_digests(&self) -> Result<()> {
        let mut exact =
            self.contenders.iter().filter(|contender| contender.exact).flat_map(|contender| {
                contender.samples.iter().map(|sample| (contender.engine, sample.digest))
            });
        let Some((first, digest)) = exact.next() else { return Ok(()) };
        match exact.find(|other| other.1 != digest) {
            None => Ok(()),
            Some((other, found)) => Err(format!(
                "{} {}: {first} and {other} disagree (digest {digest:016x} and {found:016x})",
                self.run.bench.name,
                self.case.name()
            )
            .into()),
        }
    }

    fn report(&mut self, rounds: usize) -> Result<()> {
        let ops = self.ops as f64;
        for at in 0..self.contenders.len() {
            let samples = &self.contenders[at].samples;
            let rates: Vec<f64> = samples.iter().map(|s| ops * 1e9 / s.wall_ns.max(1) as f64).collect();
            let cpu: Vec<f64> = samples.iter().map(|s| s.cpu_ns as f64 / ops).collect();
            let timed = samples.iter().any(|sample| sample.wall_ns > 0);
            let cpu_timed = samples.iter().any(|sample| sample.cpu_ns > 0);
            let engine = self.contenders[at].engine;
            if timed {
                self.figure(engine, Metric::OpsPerS, rates, rounds)?;
            }
            if cpu_timed {
                self.figure(engine, Metric::CpuNsPerOp, cpu, rounds)?;
            }
        }
        self.report_notes(rounds, |_| true)
    }

    fn report_notes(&mut self, rounds: usize, wanted: fn(Metric) -> bool) -> Result<()> {
        for at in 0..self.contenders.len() {
            let engine = self.contenders[at].engine;
            for &metric in Metric::ALL.iter().filter(|&&metric| wanted(metric)) {
                let notes = self.contenders[at].samples.iter().flat_map(|sample| &sample.notes);
                let values: Vec<f64> = notes.filter(|note| note.0 == metric).map(|note| note.1).collect();
                if !values.is_empty() {
                    self.figure(engine, metric, values, rounds)?;
                }
            }
        }
        Ok(())
    }

    fn figure(
        &mut self,
        engine: &'static str,
        metric: Metric,
        values: Vec<f64>,
        rounds: usize,
    ) -> Result<()> {
        let (min, median, max) = spread(values);
        let mut params = self.params.clone();
        params.insert("size".into(), json!(self.run.size.name()));
        params.insert("rounds".into(), json!(rounds));
        params.insert("min".into(), json!(min));
        params.insert("max".into(), json!(max));
        let (bench, case) = (self.run.bench.name, self.case);
        self.run.report.figure(Figure { bench, case, engine, metric, value: median, params })
    }
}

/// Minimum, median (mean of the middle two), maximum of at least one value.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let (last, middle) = (values.len() - 1, values.len() / 2);
    let median =
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
    (values[0], median, values[last])
}

fn sample_to_json(sample: &Sample) -> Value {
    let notes: Vec<_> = sample.notes.iter().map(|note| json!([note.0.name(), note.1])).collect();
    json!({ "digest": sample.digest, "wall_ns": sample.wall_ns, "cpu_ns": sample.cpu_ns, "notes": notes })
}

/// Reads the last line of a child's output.
fn sample_from_json(stdout: &[u8]) -> Option<Sample> {
    let text = std::str::from_utf8(stdout).ok()?;
    let value: Value = serde_json::from_str(text.lines().last()?).ok()?;
    let notes = value["notes"]
        .as_array()?
        .iter()
        .map(|note| Some((Metric::from_name(note[0].as_str()?)?, note[1].as_f64()?)));
    Some(Sample {
        digest: value["digest"].as_u64()?,
        wall_ns: value["wall_ns"].as_u64()?,
        cpu_ns: value["cpu_ns"].as_u64()?,
        notes: notes.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bench, Report};
    use std::cell::RefCell;

    static BENCH: Bench =
        Bench { name: "test", about: "a test", engines: &["overbank", "rival"], run: |_| Ok(()) };

    fn with_run<T>(size: Size, body: impl FnOnce(&mut Run<'_>) -> T) -> T {
        let mut report = Report::new(None).expect("no file");
        body(&mut Run::new(&BENCH, size, &mut report, None))
    }

    #[test]
    fn rounds_turn_the_order_round_after_a_warm_up() {
        let order = RefCell::new(String::new());
        let enter = |name: char| {
            let order = &order;
            move |_: &mut Clock| {
                order.borrow_mut().push(name);
                Ok(0)
            }
        };
        with_run(Size::Quick, |run| {
            run.contest(Case::Sort).exact("overbank", enter('A')).exact("rival", enter('B')).finish()
        })
        .expect("the digests agree");
        assert_eq!(*order.borrow(), "ABBAABBA");
    }

    #[test]
    fn exact_engines_that_disagree_are_an_error_and_approximate_ones_are_not() {
        let contest = |exact: bool| {
            with_run(Size::Smoke, |run| {
                let contest = run.contest(Case::Sort).exact("overbank", |_| Ok(1));
                let contest = if exact {
                    contest.exact("rival", |_| Ok(2))
                } else {
                    contest.approximate("rival", |_| Ok(2))
                };
                contest.finish()
            })
        };
        let error = contest(true).expect_err("1 is not 2").to_string();
        assert!(error.contains("overbank and rival disagree"), "{error}");
        contest(false).expect("approximate answers may differ");
    }

    #[test]
    fn an_engine_that_disagrees_with_itself_is_an_error() {
        let mut answers = 0;
        let result = with_run(Size::Quick, |run| {
            run.contest(Case::Sort)
                .exact("overbank", |_| {
                    answers += 1;
                    Ok(answers)
                })
                .finish()
        });
        assert!(result.is_err());
    }

    #[test]
    fn an_undeclared_engine_does_not_run() {
        let result =
            with_run(Size::Smoke, |run| run.contest(Case::Sort).exact("overbnak", |_| Ok(0)).finish());
        assert!(result.expect_err("a misspelt name").to_string().contains("overbnak"));
    }

    #[test]
    fn the_median_is_between_minimum_and_maximum() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
        assert_eq!(spread(vec![5.0]), (5.0, 5.0, 5.0));
    }

    #[test]
    fn a_sample_survives_the_way_out_of_a_child() {
        let notes = vec![(Metric::PeakRssBytes, 4096.0), (Metric::P99Ns, 12.0)];
        let sample = Sample { digest: u64::MAX, wall_ns: 5, cpu_ns: 6, notes };
        let printed = format!("noise\n{}\n", sample_to_json(&sample));
        assert_eq!(sample_from_json(printed.as_bytes()), Some(sample));
        assert_eq!(sample_from_json(b"no json\n"), None);
    }
}
