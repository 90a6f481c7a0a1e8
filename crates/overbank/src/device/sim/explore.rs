//! Power cuts and faults at every operation of a structure's workload: what is found afterwards is what a commit left.
//!
//! ```text
//!   work ─▶ History: the answers at each commit, and the changes during which it was made
//!     └─▶ a crash at each change × Plan × seed ─▶ open: answers of the last commit, or of the one in flight
//!                                                   └─ now and then ─▶ work on, commit ─▶ crash ─▶ open again
//! ```

use super::crash::Rng;
use super::planted::{Instead, WithoutDataSync};
use super::tally::Tally;
use super::{Crash, Fault, FaultKind, Plan, SimDevice};
use crate::Error;
use crate::device::Device;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// A structure in a store of its own, and answers by which its states are told apart.
pub(crate) trait Subject {
    type Answers: Clone + PartialEq + Debug;

    /// Creates the store, and then does the work of number `workload`; tells `history` of commits and full disks.
    fn work(
        &self,
        device: Arc<dyn Device>,
        workload: u64,
        history: &mut History<'_, Self::Answers>,
    ) -> crate::Result<()>;

    /// Opens what there is for writing, and asks.
    fn open(&self, image: &SimDevice) -> Result<Found<Self::Answers>, String>;

    /// Works on with what there is, commits, and returns the answers of that.
    fn go_on(&self, image: &SimDevice) -> Result<Self::Answers, String>;
}

/// What is on a disk.
pub(crate) enum Found<A> {
    NoStore,
    /// A store without the structure.
    Empty,
    Answers(A),
}

/// A commit: during the changes `from..to` of the device. `None` before the structure was there.
#[derive(Clone, Debug)]
struct Commit<A> {
    from: u64,
    to: u64,
    answers: Option<A>,
}

/// What a workload did.
pub(crate) struct History<'a, A> {
    changes: &'a dyn Fn() -> u64,
    commits: Vec<Commit<A>>,
    in_flight: Option<A>,
    error: Option<Error>,
    full: u64,
}

impl<'a, A: Clone + PartialEq + Debug> History<'a, A> {
    fn new(changes: &'a dyn Fn() -> u64) -> Self {
        History { changes, commits: Vec::new(), in_flight: None, error: None, full: 0 }
    }

    /// Notes that the store was created.
    pub(crate) fn created(&mut self) {
        self.commits.push(Commit { from: 0, to: (self.changes)(), answers: None });
    }

    /// Commits by `commit` what gives these answers; whether the disk had room.
    pub(crate) fn commit(
        &mut self,
        answers: A,
        commit: impl FnOnce() -> crate::Result<()>,
    ) -> crate::Result<bool> {
        let from = (self.changes)();
        self.in_flight = Some(answers.clone());
        let committed = self.survive(commit())?;
        self.in_flight = None;
        if committed {
            self.commits.push(Commit { from, to: (self.changes)(), answers: Some(answers) });
        }
        Ok(committed)
    }

    /// Goes on after a full disk; whether it was none.
    pub(crate) fn survive(&mut self, result: crate::Result<()>) -> crate::Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(Error::Full { .. }) => {
                self.full += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn allowed(&self, operation: u64) -> Vec<Option<&A>> {
        let last = self.commits.iter().rev().find(|commit| commit.to <= operation);
        let in_flight = self.commits.iter().find(|commit| commit.from <= operation && operation < commit.to);
        last.into_iter().chain(in_flight).map(|commit| commit.answers.as_ref()).collect()
    }

    fn allowed_at_end(&self) -> Vec<Option<&A>> {
        let last = self.commits.last().map(|commit| commit.answers.as_ref());
        last.into_iter().chain(self.in_flight.as_ref().map(Some)).collect()
    }
}

/// Recovers from crashes at every operation of the workloads, random ones with `seeds` seeds, and of further workloads where a long run
/// asks for them; returns how many disks it saw.
pub(crate) fn crash_everywhere(subject: &impl Subject, workloads: Range<u64>, seeds: u64) -> u64 {
    let tally = Tally::new();
    for workload in tally.workloads(workloads) {
        let device = SimDevice::new(workload);
        device.keep_crash_points();
        let changes = || device.changes();
        let mut history = History::new(&changes);
        let worked = subject.work(Arc::new(device.clone()), workload, &mut history);
        worked.unwrap_or_else(|error| panic!("workload {workload}: {error}"));
        let explored = explore(subject, &device, &history, seeds, &tally);
        explored.unwrap_or_else(|wrong| panic!("workload {workload}, {wrong}"));
    }
    tally.tell()
}

/// Whether the exploration of any of the workloads sees that data files are not synced.
pub(crate) fn sees_a_missing_sync(subject: &impl Subject, mut workloads: impl Iterator<Item = u64>) -> bool {
    workloads.any(|workload| {
        let device = SimDevice::new(workload);
        device.keep_crash_points();
        // Crash points are fewer than changes here, so they are what is counted.
        let changes = || device.crash_points() as u64;
        let mut history = History::new(&changes);
        let mutant = Arc::new(WithoutDataSync(device.clone(), Instead::new(|| {})));
        let worked = subject.work(mutant, workload, &mut history);
        worked.unwrap_or_else(|error| panic!("workload {workload}: {error}"));
        explore(subject, &device, &history, 2, &Tally::default()).is_err()
    })
}

/// Lets every operation of the workloads fail in every way: a commit stands, whatever comes after it. Some workloads must have been
/// stopped, and some must have gone on after a full disk.
pub(crate) fn fail_everywhere(subject: &impl Subject, workloads: impl Iterator<Item = u64>) {
    let (mut stopped, mut full) = (0, 0);
    for workload in workloads {
        let whole = SimDevice::new(workload);
        let worked = subject.work(Arc::new(whole.clone()), workload, &mut History::new(&|| 0));
        worked.unwrap_or_else(|error| panic!("workload {workload}: {error}"));
        for operation in 0..whole.changes() {
            for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::ShortWrite] {
                for sticky in [false, true] {
                    let device = SimDevice::new(workload);
                    device.inject(Fault { operation, on_reads: false, kind, sticky });
                    let changes = || device.changes();
                    let mut history = History::new(&changes);
                    history.error = subject.work(Arc::new(device.clone()), workload, &mut history).err();
                    stopped += u64::from(history.error.is_some());
                    full += history.full;
                    device.heal();
                    let place = format!("{kind:?}, sticky {sticky}, at operation {operation} of {workload}");
                    for plan in [Plan::Nothing, Plan::Everything, Plan::Sectors] {
                        let image = device.crash(plan, operation);
                        let seen = compare(subject, &image, &history.allowed_at_end());
                        seen.unwrap_or_else(|wrong| {
                            panic!("{place}, then {plan}: {wrong}\n  after {:?}", history.error)
                        });
                    }
                }
            }
        }
    }
    println!("{stopped} stopped, {full} full disks survived");
    assert!(stopped > 0 && full > 0);
}

/// Recovers from crashes at every operation; ends at the first violation.
fn explore<S: Subject>(
    subject: &S,
    device: &SimDevice,
    history: &History<'_, S::Answers>,
    seeds: u64,
    tally: &Tally,
) -> Result<(), String> {
    for operation in 0..device.crash_points() {
        let plans = if device.is_pending_at(operation) { &Plan::ALL[..] } else { &Plan::ALL[..1] };
        for &plan in plans {
            for seed in 0..if plan.is_random() { seeds } else { 1 } {
                let crash = Crash { operation, plan, seed };
                let Some(image) = device.crash_at(crash) else { continue };
                tally.add(1);
                recover(subject, &image, &history.allowed(operation as u64), crash, tally)
                    .map_err(|wrong| format!("{crash}: {wrong}"))?;
            }
        }
    }
    Ok(())
}

fn recover<S: Subject>(
    subject: &S,
    image: &SimDevice,
    allowed: &[Option<&S::Answers>],
    crash: Crash,
    tally: &Tally,
) -> Result<(), String> {
    let mut rng = Rng::new(crash.seed ^ (crash.operation as u64) << 8);
    if !compare(subject, image, allowed)? || rng.below(4) > 0 {
        return Ok(());
    }
    // What was recovered works on, and its next commit is as durable as the ones before.
    let expected = subject.go_on(image)?;
    tally.add(1);
    let plan = Plan::ALL[rng.below(Plan::ALL.len() as u64) as usize];
    compare(subject, &image.crash(plan, rng.next()), &[Some(&expected)])
        .map(drop)
        .map_err(|wrong| format!("after the commit after recovery: {wrong}"))
}

/// Opens the disk, which must hold one of the allowed states; whether the structure is there.
fn compare<S: Subject>(
    subject: &S,
    image: &SimDevice,
    allowed: &[Option<&S::Answers>],
) -> Result<bool, String> {
    match subject.open(image)? {
        Found::NoStore if allowed.is_empty() || allowed == [None] => Ok(false),
        Found::NoStore => Err("the store is gone".to_owned()),
        // Before the first commit there is a store without the structure, if there is one.
        Found::Empty if allowed.is_empty() || allowed.contains(&None) => Ok(false),
        Found::Empty => Err("the structure is gone".to_owned()),
        Found::Answers(answers) if allowed.contains(&Some(&answers)) => Ok(true),
        Found::Answers(answers) => Err(format!("found {answers:?}\n  allowed {allowed:?}")),
    }
}
