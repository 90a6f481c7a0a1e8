//! What the contests of a workload have in common: its files, and who takes part.

use super::engine::Engine;
use super::input;
use super::job::Job;
use super::points::Point;
use super::workload::{Law, Workload};
use crate::{Case, Clock, Metric, Result, Run, Size};
use serde_json::Value;
use std::path::PathBuf;

/// A workload that was prepared. Its files go with it.
pub(super) struct Bed {
    pub(super) job: Job,
    scratch: PathBuf,
    is_ours: bool,
    /// Else its contests have no engines, and it has no files.
    is_wanted: bool,
}

impl Bed {
    /// Writes what engines read; in a child process the parent has. `None` where the data are missing, which the run says.
    pub(super) fn new(run: &mut Run<'_>, workload: Workload) -> Result<Option<Self>> {
        let (testdata, data) = (run.testdata(), run.data());
        if workload.law == Law::Bigrams && run.size() != Size::Smoke && Workload::text(&data).is_none() {
            run.say(&format!("{} is left out: `make data` fetches 300 MB of real text", workload.name));
            return Ok(None);
        }
        let scratch = run.scratch()?;
        let folder = input::folder(&scratch, workload);
        let (is_ours, is_wanted) = (!run.is_child(), run.wants_workload(workload.name));
        if is_ours && is_wanted {
            input::write(workload, &folder, &testdata, &data)?;
        }
        let rivals = data.join("rivals/bin");
        let job = Job { workload, folder, memory_bytes: workload.memory_bytes(), interval: 0, rivals };
        Ok(Some(Self { job, scratch, is_ours, is_wanted }))
    }

    /// Has engines count the records, each sample in a fresh process; those that cannot are left out.
    pub(super) fn contest(&self, run: &mut Run<'_>, engines: &[Engine], spot: &Spot<'_>) -> Result<()> {
        let workload = self.job.workload;
        let engines: Vec<Engine> = engines
            .iter()
            .copied()
            .filter(|engine| engine.does(workload) && (!self.is_ours || run.wants(engine.name())))
            .filter(|_| self.is_wanted)
            .collect();
        if self.is_ours {
            engines.iter().try_for_each(|engine| engine.prepare(&self.job.folder))?;
        }
        let mut contest = run
            .contest(Case::Group)
            .param("workload", workload.name)
            .param("records", workload.records)
            .param("memory_mib", self.job.memory_bytes >> 20)
            .ops(usize::try_from(workload.records)?)
            .in_fresh_processes()
            .costly();
        for (name, value) in &spot.params {
            contest = contest.param(name, value.clone());
        }
        for engine in engines {
            let body = move |clock: &mut Clock| {
                let digest = engine.sample(clock, &self.job)?;
                spot.mark(clock, self, engine.name())?;
                Ok(digest)
            };
            contest = contest.exact(engine.name(), body);
        }
        contest.finish()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_dir_all(&self.job.folder);
        }
    }
}

/// Where a contest stands in its figure.
#[derive(Clone, Default)]
pub(super) struct Spot<'s> {
    /// The figure that its points are of, and their x.
    pub(super) at: Option<(&'s str, f64)>,
    /// The line that the points are of; else the engine's.
    pub(super) line: Option<&'s str>,
    /// Parameters besides those of the workload.
    pub(super) params: Vec<(&'s str, Value)>,
}

impl<'s> Spot<'s> {
    /// A point at `x`, which is the value of a parameter of this name.
    pub(super) fn over(figure: &'s str, name: &'s str, x: u64) -> Self {
        Self { at: Some((figure, x as f64)), line: None, params: vec![(name, x.into())] }
    }

    fn mark(&self, clock: &Clock, bed: &Bed, engine: &str) -> Result<()> {
        let Some((figure, x)) = self.at else { return Ok(()) };
        let point = Point {
            x,
            records_per_s: bed.job.workload.records as f64 * 1e9 / clock.spent_ns().0.max(1) as f64,
            bytes_per_key: clock.noted(Metric::BytesPerKey).unwrap_or_default(),
        };
        point.add(&bed.scratch, figure, self.line.unwrap_or(engine))
    }
}
