//! One bench and one run of it.

use crate::{Case, Contest, Figure, Metric, Params, Report, Result};
use serde_json::Value;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A registered bench.
#[derive(Debug)]
pub struct Bench {
    /// Its name on the command line and in the JSON lines.
    pub name: &'static str,
    /// One sentence for `list`.
    pub about: &'static str,
    /// Every engine it may report: `overbank`, `paper`, else the rivals' names.
    pub engines: &'static [&'static str],
    /// Does the work.
    pub run: fn(&mut Run<'_>) -> Result<()>,
}

/// How big the inputs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// For tests: below 2 s a bench, one round, figures worthless.
    Smoke,
    /// Below 60 s a bench.
    Quick,
    /// The published figures.
    Full,
}

impl Size {
    /// The name in the JSON lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// Which sample a child process takes: contest `contest` of the bench, engine `engine`, then it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChildTask {
    /// The contest's number in the order in which the bench starts them.
    pub contest: usize,
    /// The engine's name.
    pub engine: String,
    /// Where the parent left what it prepared; see [`Run::scratch`].
    pub scratch: Option<PathBuf>,
}

impl ChildTask {
    /// Reads `3:overbank` and `3:overbank:/the/scratch/folder`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (contest, engine) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        Some(Self { contest, engine, scratch: parts.next().map(PathBuf::from) })
    }
}

/// One run of one bench: what its `run` function works with.
#[derive(Debug)]
pub struct Run<'r> {
    pub(crate) bench: &'static Bench,
    pub(crate) size: Size,
    pub(crate) report: &'r mut Report,
    pub(crate) child: Option<ChildTask>,
    pub(crate) contests: usize,
    scratch: Option<TempDir>,
    output: Option<PathBuf>,
    rounds: Option<NonZeroUsize>,
    /// Engines that compete; all if none is named.
    engines: Vec<String>,
    /// Workloads that are run; all if none is named.
    workloads: Vec<String>,
    failures: Vec<String>,
    started: Instant,
}

impl<'r> Run<'r> {
    /// Prepares a run; `child` is set in a child process only.
    pub fn new(bench: &'static Bench, size: Size, report: &'r mut Report, child: Option<ChildTask>) -> Self {
        Self {
            bench,
            size,
            report,
            child,
            contests: 0,
            scratch: None,
            output: None,
            rounds: None,
            engines: Vec::new(),
            workloads: Vec::new(),
            failures: Vec::new(),
            started: Instant::now(),
        }
    }

    /// Says where pictures go.
    #[must_use]
    pub fn with_output(mut self, folder: Option<&Path>) -> Self {
        self.output = folder.map(Path::to_owned);
        self
    }

    /// Sets how many samples of each engine are taken.
    #[must_use]
    pub fn with_rounds(mut self, rounds: Option<NonZeroUsize>) -> Self {
        self.rounds = rounds;
        self
    }

    /// Names the engines that compete, references among them; the others are left out. With none, all do.
    #[must_use]
    pub fn with_engines(mut self, engines: &[String]) -> Self {
        self.engines = engines.to_vec();
        self
    }

    /// Whether an engine competes. A child process, which takes the samples of one, is asked for it by name alone.
    pub fn wants(&self, engine: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|wanted| wanted == engine)
    }

    /// Names the workloads that are run, in benches that have several by name; the others are left out. With none, all are.
    #[must_use]
    pub fn with_workloads(mut self, workloads: &[String]) -> Self {
        self.workloads = workloads.to_vec();
        self
    }

    /// Whether a workload is run. A child process is asked for one sample, whatever the workload.
    pub fn wants_workload(&self, workload: &str) -> bool {
        self.is_child() || self.workloads.is_empty() || self.workloads.iter().any(|wanted| wanted == workload)
    }

    /// Runs the bench.
    ///
    /// # Errors
    /// Whatever the bench fails with, a mismatch between exact engines among it; at the end, which engines' processes
    /// died.
    pub fn execute(mut self) -> Result<Duration> {
        if self.child.is_none() {
            self.report.heading(self.bench, self.size);
        }
        (self.bench.run)(&mut self)?;
        if let Some(task) = &self.child {
            return Err(format!("{} has no contest {}:{}", self.bench.name, task.contest, task.engine).into());
        }
        if !self.failures.is_empty() {
            return Err(self.failures.join("; ").into());
        }
        Ok(self.started.elapsed())
    }

    /// The size of this run.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Picks by size: `[smoke, quick, full]`.
    pub fn pick<T: Copy>(&self, by_size: [T; 3]) -> T {
        by_size[self.size as usize]
    }

    /// Starts a contest: engines do `case` side by side.
    pub fn contest<'w>(&mut self, case: Case) -> Contest<'_, 'r, 'w> {
        let number = self.contests;
        self.contests += 1;
        Contest::new(self, case, number)
    }

    /// Reports a figure that no contest measures: a size, an error, a count.
    ///
    /// # Errors
    /// When the engine is not declared by the bench, the value is not finite, or the report cannot be written.
    pub fn figure(
        &mut self,
        case: Case,
        engine: &'static str,
        metric: Metric,
        value: f64,
        params: Params,
    ) -> Result<()> {
        self.check_engine(engine)?;
        if self.child.is_some() {
            return Ok(());
        }
        let mut params = params;
        params.insert("size".into(), Value::from(self.size.name()));
        self.report.figure(Figure { bench: self.bench.name, case, engine, metric, value, params })
    }

    /// Says that something was left out, and why: a rival that is not installed, a right that is missing.
    pub fn say(&mut self, sentence: &str) {
        if self.child.is_none() {
            self.report.say(sentence);
        }
    }

    /// Whether this process takes one sample of a contest and ends. What a bench prepares for its samples in
    /// [`Run::scratch`] it prepares in the parent only.
    pub fn is_child(&self) -> bool {
        self.child.is_some()
    }

    /// A folder that this process and the children that take its samples share. It goes with the run.
    ///
    /// # Errors
    /// When it cannot be created; in a child, when the parent had none at that point.
    pub fn scratch(&mut self) -> Result<PathBuf> {
        if let Some(task) = &self.child {
            return task.scratch.clone().ok_or_else(|| "the parent process has no scratch folder".into());
        }
        let folder = match self.scratch.take() {
            Some(folder) => folder,
            None => tempfile::tempdir()?,
        };
        Ok(self.scratch.insert(folder).path().to_owned())
    }

    /// Where pictures go: the folder that was asked for, else one that goes with the run.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn output(&mut self) -> Result<PathBuf> {
        let Some(folder) = &self.output else { return self.scratch() };
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        Ok(folder.clone())
    }

    /// What a child process is told so that it takes this sample.
    pub(crate) fn child_task(&self, contest: usize, engine: &str) -> String {
        let scratch = self.scratch.as_ref().map(|folder| format!(":{}", folder.path().display()));
        format!("{contest}:{engine}{}", scratch.unwrap_or_default())
    }

    /// Says what went wrong, and lets the other engines go on: [`Run::execute`] fails at the end.
    pub(crate) fn fail(&mut self, sentence: String) {
        self.say(&sentence);
        self.failures.push(sentence);
    }

    /// Where the `overbank` command is that was built beside this program; says so where it was not built.
    ///
    /// # Errors
    /// When the system does not tell where this program is.
    pub fn command(&mut self) -> Result<PathBuf> {
        let overbank = std::env::current_exe()?.with_file_name("overbank");
        if !overbank.exists() {
            self.say(&format!(
                "overbank is left out: {} is not built (cargo build -p overbank-cli)",
                overbank.display()
            ));
        }
        Ok(overbank)
    }

    /// Where the key-value stores are that `bench/rivals/setup.sh` builds; says so where it has not. Smoke runs go without, so that they
    /// are the same everywhere.
    pub fn rivals(&mut self) -> Option<PathBuf> {
        if self.size == Size::Smoke {
            return None;
        }
        let rivals = project().join("bench/rivals/target/release/overbank-rivals");
        if rivals.exists() {
            return Some(rivals);
        }
        self.say(
            "RocksDB, LMDB, redb and fjall are left out: they are not built (bash bench/rivals/setup.sh)",
        );
        None
    }

    /// Where the real samples that ship with the project are.
    pub fn testdata(&self) -> PathBuf {
        project().join("testdata")
    }

    /// Where `make data` puts what it fetches; may be absent.
    pub fn data(&self) -> PathBuf {
        project().join("data")
    }

    pub(crate) fn check_engine(&self, engine: &str) -> Result<()> {
        if self.bench.engines.contains(&engine) {
            return Ok(());
        }
        Err(format!("bench {} does not declare an engine {engine:?} in `engines`", self.bench.name).into())
    }

    /// Samples an engine, the warm-up not counted. A quick run that is late makes do with one, so that it
    /// ends in its 60 seconds.
    pub(crate) fn rounds(&self) -> usize {
        const QUICK_PATIENCE: Duration = Duration::from_secs(25);
        if let Some(rounds) = self.rounds {
            return rounds.get();
        }
        match self.size {
            Size::Smoke => 1,
            Size::Quick if self.started.elapsed() > QUICK_PATIENCE => 1,
            Size::Quick => 3,
            Size::Full => 7,
        }
    }
}

/// The project's root folder, known from the build: benches run from a checkout.
fn project() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[cfg(test)]
mod tests {
    use super::*;

    static BENCH: Bench = Bench { name: "test", about: "a test", engines: &["overbank"], run: |_| Ok(()) };

    #[test]
    fn parent_and_child_share_the_scratch_folder() {
        let mut report = Report::new(None).expect("no file");
        let mut run = Run::new(&BENCH, Size::Smoke, &mut report, None);
        assert_eq!(run.child_task(3, "overbank"), "3:overbank");
        let folder = run.scratch().expect("a temporary folder");
        assert_eq!(run.scratch().expect("the same folder"), folder);
        let task = ChildTask::parse(&run.child_task(3, "overbank")).expect("our own text");
        assert_eq!(task, ChildTask { contest: 3, engine: "overbank".into(), scratch: Some(folder.clone()) });
        let mut report = Report::new(None).expect("no file");
        let mut child = Run::new(&BENCH, Size::Smoke, &mut report, Some(task));
        assert_eq!(child.scratch().expect("told by the parent"), folder);
        drop(child);
        assert!(folder.exists(), "it is the parent's");
        drop(run);
        assert!(!folder.exists());
    }
}
