//! Engines side by side: the same work, alternating rounds, one digest among the exact ones.
//!
//! ```text
//!   warm-up   A B C          not counted; its digests are
//!   round 1   A B C
//!   round 2   C B A          the order turns round every time
//!   round 3   A B C          value = median over rounds, with min and max beside it
//! ```

#[cfg(test)]
mod tests;

use crate::child::{ProcessTree, peak_rss_bytes};
use crate::clock::Sample;
use crate::{Case, Clock, Figure, MemoryGroup, Metric, Params, Result, Run, Size, Workload};
use serde_json::{Value, json};
use std::process::Command;

/// Takes one sample: prepares, does the work inside [`Clock::time`], and returns the digest of its answer.
type Body<'w> = Box<dyn FnMut(&mut Clock) -> Result<u64> + 'w>;

/// Takes a sample of the contender of that number; `None` if it is out.
type SampleBy<'c, 'r, 'w> = fn(&mut Contest<'c, 'r, 'w>, usize) -> Result<Option<Sample>>;

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
    fresh: bool,
    reference: Option<&'static str>,
}

struct Contender<'w> {
    engine: &'static str,
    exact: bool,
    body: Body<'w>,
    samples: Vec<Sample>,
    /// Its process died, of a memory limit perhaps: it has no figures, and the run fails at its end.
    is_out: bool,
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
            fresh: false,
            reference: None,
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

    /// Takes every sample in a fresh process without a limit: none finds memory that another left, or leaves its own.
    pub fn in_fresh_processes(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// For samples that last a minute: no warm-up, and at most three rounds.
    pub fn costly(mut self) -> Self {
        self.costly = true;
        self
    }

    /// Also reports `device_share`: what part of the rate of `reference`, the device's own, each engine reached in the
    /// same round.
    pub fn share_of(mut self, reference: &'static str) -> Self {
        self.reference = Some(reference);
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
        if self.run.wants(engine) {
            self.contenders.push(Contender { engine, exact, body, samples: Vec::new(), is_out: false });
        }
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
        if self.memory_limit_bytes.is_some() || self.fresh {
            self.compete(rounds, false, Self::sample_in_child)?;
        } else {
            let warm_up = self.run.size != Size::Smoke && !self.costly;
            self.compete(rounds, warm_up, Self::sample_here)?;
        }
        self.report(rounds)?;
        if self.memory && self.memory_limit_bytes.is_none() && !self.fresh {
            for at in 0..self.contenders.len() {
                self.contenders[at].samples.clear();
                self.take(at, Self::sample_in_child)?;
            }
            self.check_digests()?;
            self.report_notes(1, |metric| metric == Metric::PeakRssBytes)?;
        }
        Ok(())
    }

    fn compete(&mut self, rounds: usize, warm_up: bool, sample: SampleBy<'c, 'r, 'w>) -> Result<()> {
        for round in 0..rounds + usize::from(warm_up) {
            let mut order: Vec<usize> = (0..self.contenders.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                self.take(at, sample)?;
            }
            self.check_digests()?;
            if warm_up && round == 0 {
                self.contenders.iter_mut().for_each(|contender| contender.samples.clear());
            }
        }
        Ok(())
    }

    fn take(&mut self, at: usize, sample: SampleBy<'c, 'r, 'w>) -> Result<()> {
        if self.contenders[at].is_out {
            return Ok(());
        }
        match sample(self, at)? {
            Some(sample) => self.contenders[at].samples.push(sample),
            None => {
                self.contenders[at].is_out = true;
                self.contenders[at].samples.clear();
            }
        }
        Ok(())
    }

    fn sample_here(&mut self, at: usize) -> Result<Option<Sample>> {
        let mut clock = Clock::default();
        let digest = (self.contenders[at].body)(&mut clock)?;
        Ok(Some(clock.finish(digest)))
    }

    /// Runs this executable again for one sample; `None` if it fails, which the run says now and at its end.
    fn sample_in_child(&mut self, at: usize) -> Result<Option<Sample>> {
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
        let task = self.run.child_task(self.number, engine);
        command.args([self.run.bench.name, "--child", &task, "--size", self.run.size.name()]);
        let tree = ProcessTree::measure(&mut command)?;
        if !tree.status.success() {
            let (case, limit) = (self.case.name(), self.params.get("memory_limit_bytes"));
            let limit = limit.map_or_else(|| "none".to_owned(), Value::to_string);
            self.run.fail(format!(
                "{case}: {engine} is out, its process ended with {} (memory limit: {limit})",
                tree.status
            ));
            return Ok(None);
        }
        let mut sample = Sample::from_json(&tree.stdout).ok_or("the child process returned no sample")?;
        if let Some(peak) = group.and_then(|group| group.peak_bytes()) {
            sample.notes.push((Metric::CgroupPeakBytes, peak as f64));
        }
        Ok(Some(sample))
    }

    /// In a child: takes the sample, prints it, ends the process.
    fn serve(&mut self, engine: &str) -> Result<()> {
        let at = self.contenders.iter().position(|contender| contender.engine == engine);
        let Some(at) = at else { return Ok(()) };
        let Some(mut sample) = self.sample_here(at)? else { return Ok(()) };
        // A program that the sample ran has told its own.
        if sample.notes.iter().all(|note| note.0 != Metric::PeakRssBytes) {
            sample.notes.push((Metric::PeakRssBytes, peak_rss_bytes() as f64));
        }
        println!("{}", sample.to_json());
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
        for at in 0..self.contenders.len() {
            let samples = &self.contenders[at].samples;
            let rates = self.rates(at);
            let ops = |sample: &Sample| sample.ops.unwrap_or(self.ops).max(1) as f64;
            let cpu: Vec<f64> = samples.iter().map(|sample| sample.cpu_ns as f64 / ops(sample)).collect();
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
        self.report_shares(rounds)?;
        self.report_notes(rounds, |_| true)
    }

    /// Operations a second of each sample of one contender.
    fn rates(&self, at: usize) -> Vec<f64> {
        let rate = |sample: &Sample| {
            let ops = sample.ops.unwrap_or(self.ops);
            ops as f64 * 1e9 / sample.wall_ns.max(1) as f64
        };
        self.contenders[at].samples.iter().map(rate).collect()
    }

    fn report_shares(&mut self, rounds: usize) -> Result<()> {
        let is_reference = |contender: &Contender<'_>| Some(contender.engine) == self.reference;
        let Some(reference) = self.contenders.iter().position(is_reference) else { return Ok(()) };
        for at in (0..self.contenders.len()).filter(|&at| at != reference) {
            let pairs = self.rates(at).into_iter().zip(self.rates(reference));
            let shares: Vec<f64> = pairs.map(|(rate, reference)| rate / reference).collect();
            if !shares.is_empty() {
                self.figure(self.contenders[at].engine, Metric::DeviceShare, shares, rounds)?;
            }
        }
        Ok(())
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
        let samples = self.contenders.iter().filter(|contender| contender.engine == engine);
        let done = samples.flat_map(|contender| &contender.samples).filter_map(|sample| sample.ops).min();
        if let Some(done) = done.filter(|&done| done < self.ops) {
            params.insert("time_boxed".into(), json!(true));
            params.insert("ops_done".into(), json!(done));
        }
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
