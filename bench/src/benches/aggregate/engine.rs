//! The engines, behind one trait, and a sample of one: fill, finalize, walk.

use super::answer::{AllGroups, Answer};
use super::input::{self, BATCH, Input};
use super::job::{Counter, Job};
use super::map::{Alone, Arena, Fixed, Flat, Shared, Sparse};
use super::paper::{self, Compression, Knobs};
use super::workload::Workload;
use super::{cost, ours, process};
use crate::{Clock, Holdings, Metric, Result};
use std::path::Path;

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    Overbank {
        threads: usize,
    },
    /// In a quarter of the memory, the rest on flash.
    OverbankFlash,
    Paper(Knobs),
    SparseFixed,
    SparsePointer,
    Arena,
    Flat,
    Shared,
    SharedPointer,
    Sort,
    Rival(process::Rival),
}

impl Engine {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overbank { threads: 1 } => "overbank",
            Self::Overbank { .. } => "overbank_2",
            Self::OverbankFlash => "overbank_flash",
            Self::Paper(Knobs { compression: Compression::None, .. }) => "paper_raw",
            Self::Paper(_) => "paper",
            Self::SparseFixed => "sparse",
            Self::SparsePointer => "sparse_pointer",
            Self::Arena => "arena",
            Self::Flat => "arena_fixed",
            Self::Shared => "dashmap_2",
            Self::SharedPointer => "dashmap_pointer_2",
            Self::Sort => "sort",
            Self::Rival(rival) => rival.name(),
        }
    }

    /// The paper's tree, as it has it; and without compression.
    pub(super) fn papers(workload: Workload) -> [Self; 2] {
        [Compression::Columns, Compression::None]
            .map(|compression| Self::Paper(Knobs::of(workload, compression)))
    }

    /// All others that count in the sample's own process.
    pub(super) const IN_PROCESS: [Self; 9] = [
        Self::Overbank { threads: 1 },
        Self::Overbank { threads: 2 },
        Self::OverbankFlash,
        Self::SparseFixed,
        Self::SparsePointer,
        Self::Flat,
        Self::Arena,
        Self::Shared,
        Self::SharedPointer,
    ];

    const fn threads(self) -> usize {
        match self {
            Self::Overbank { threads } => threads,
            Self::Shared | Self::SharedPointer => 2,
            _ => 1,
        }
    }

    /// Whether it takes part at all: fixed keys are for workloads whose longest key is known and short, genome tools for k-mers.
    pub(super) fn does(self, workload: Workload) -> bool {
        match self {
            Self::SparseFixed | Self::Flat | Self::Shared => workload.law.longest() <= FIXED_MAX,
            Self::Rival(rival) => rival.does(workload),
            _ => true,
        }
    }

    /// Writes the file that it reads where that is one of its own.
    pub(super) fn prepare(self, folder: &Path) -> Result<()> {
        match self {
            Self::Sort if !folder.join("lines").exists() => input::write_lines(folder),
            Self::Rival(rival) => rival.prepare(folder),
            _ => Ok(()),
        }
    }

    fn counter(self, job: &Job) -> Result<Box<dyn Counter>> {
        let longest = job.workload.law.longest();
        Ok(match self {
            Self::Overbank { threads } => Box::new(ours::OfGroups::new(job.memory_bytes, threads)?),
            Self::OverbankFlash => {
                Box::new(ours::OfGroups::spilling((job.memory_bytes / 4).max(FLASH_BYTES_MIN), &job.folder)?)
            }
            Self::Paper(knobs) => Box::new(paper::OfTree::new(knobs)?),
            Self::SparseFixed if longest <= 15 => Box::new(Alone::<Sparse<Fixed<15>>>::default()),
            Self::SparseFixed if longest <= 31 => Box::new(Alone::<Sparse<Fixed<31>>>::default()),
            Self::SparseFixed => Box::new(Alone::<Sparse<Fixed<FIXED_MAX>>>::default()),
            Self::SparsePointer => Box::new(Alone::<Sparse<Box<[u8]>>>::default()),
            Self::Arena => Box::new(Alone::<Arena>::default()),
            Self::Flat if longest <= 15 => Box::new(Alone::<Flat<Fixed<15>>>::default()),
            Self::Flat if longest <= 31 => Box::new(Alone::<Flat<Fixed<31>>>::default()),
            Self::Flat => Box::new(Alone::<Flat<Fixed<FIXED_MAX>>>::default()),
            Self::Shared if longest <= 15 => Box::new(Shared::<Fixed<15>>::default()),
            Self::Shared if longest <= 31 => Box::new(Shared::<Fixed<31>>::default()),
            Self::Shared => Box::new(Shared::<Fixed<FIXED_MAX>>::default()),
            Self::SharedPointer => Box::new(Shared::<Box<[u8]>>::default()),
            Self::Sort | Self::Rival(_) => return Err(format!("{} is a process", self.name()).into()),
        })
    }

    /// Takes a sample; returns the digest of the answer.
    pub(super) fn sample(self, clock: &mut Clock, job: &Job) -> Result<u64> {
        let answer = match self {
            Self::Sort => process::sort(clock, job)?,
            Self::Rival(rival) => rival.sample(clock, job)?,
            _ => count(clock, job, self.name(), self.threads(), &|| self.counter(job))?,
        };
        cost::note(clock, answer);
        Ok(answer.digest())
    }
}

/// The least memory of groups that go to flash.
const FLASH_BYTES_MIN: usize = 2 << 20;
/// The longest key that is kept in place.
const FIXED_MAX: usize = 63;

/// Fills what `make` makes, finalizes it, walks through it. The peak is that beyond the parsed input.
pub(super) fn count(
    clock: &mut Clock,
    job: &Job,
    engine: &str,
    threads: usize,
    make: &dyn Fn() -> Result<Box<dyn Counter>>,
) -> Result<Answer> {
    let input = Input::load(&job.folder)?;
    let holdings = Holdings::now();
    let (counter, answer) = clock.time(|| -> Result<_> {
        let counter = make()?;
        fill(&*counter, &input, threads, job.interval)?;
        counter.finalize()?;
        let mut answer = Answer::default();
        counter.each(&mut |_, count| answer.add(count))?;
        Ok((counter, answer))
    })?;
    let bytes = holdings.grown_bytes();
    note_breakdown(clock, &counter.breakdown(), answer.records);
    clock.note(Metric::PeakRssBytes, bytes as f64);
    clock.note(Metric::BytesPerKey, bytes as f64 / answer.groups.max(1) as f64);
    if answer.records != input.records() as u64 {
        return Err(format!("{engine} counted {} of {} records", answer.records, input.records()).into());
    }
    clock.did(answer.records);
    let mut all = AllGroups::default();
    counter.each(&mut |key, count| all.add(key, count))?;
    all.agree(&job.folder, engine)?;
    Ok(answer)
}

/// What the parts of the work took for a record, and what is left of all CPU time: rows on their way into buffers, and what goes
/// through the groups at the end.
fn note_breakdown(clock: &mut Clock, parts: &[(Metric, u64)], records: u64) {
    if parts.is_empty() {
        return;
    }
    let rest = clock.spent_ns().1.saturating_sub(parts.iter().map(|part| part.1).sum());
    for &(metric, ns) in parts.iter().chain(&[(Metric::RestNs, rest)]) {
        clock.note(metric, ns as f64 / records.max(1) as f64);
    }
}

fn fill(counter: &dyn Counter, input: &Input, threads: usize, interval: u64) -> Result<()> {
    let mut parts = input.parts(threads);
    if parts.len() == 1 {
        return fill_part(counter, &mut parts[0], interval);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            parts.iter_mut().map(|part| scope.spawn(|| fill_part(counter, part, interval))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread panicked")?)
    })
}

fn fill_part(counter: &dyn Counter, part: &mut super::input::Part<'_>, interval: u64) -> Result<()> {
    let (mut batch, mut since) = (Vec::with_capacity(BATCH), 0);
    while part.next_batch(&mut batch, BATCH) {
        counter.insert(&batch)?;
        since += batch.len() as u64;
        if interval > 0 && since >= interval {
            counter.finalize()?;
            since = 0;
        }
    }
    Ok(())
}
