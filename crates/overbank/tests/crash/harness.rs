//! Enumerates crashes of one workload, recovers from each, and compares with the model.

use crate::mutants::{Planted, wrap};
use crate::workload::{self, History, Model, Random, World};
use overbank::Error;
use overbank::device::sim::tally::Tally;
use overbank::device::sim::{Crash, Fault, FaultKind, Plan, SimDevice};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One crash of one workload. Prints as one line that repeats it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) workload: u64,
    pub(crate) commits: u64,
    pub(crate) crash: Crash,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { workload, commits, crash } = self;
        write!(
            f,
            "OVERBANK_CRASH={workload}/{commits}/{crash} cargo test -p overbank --features internals --test crash repeat"
        )
    }
}

impl Case {
    pub(crate) fn parse(text: &str) -> Option<Case> {
        let mut parts = text.split('/');
        let (workload, commits, crash) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Case {
            workload: workload.parse().ok()?,
            commits: commits.parse().ok()?,
            crash: crash.parse().ok()?,
        })
    }
}

/// What an exploration saw.
#[derive(Default, Debug)]
pub(crate) struct Report {
    /// Crash states that were recovered from.
    pub(crate) tally: Tally,
    /// Crashes during the recovery, among the states.
    pub(crate) in_recovery: u64,
    /// Each with the line that repeats it.
    pub(crate) violations: Vec<String>,
}

/// Runs the workload once and recovers from crashes at each of its operations. Ends at the third violation.
pub(crate) fn explore(
    workload: u64,
    commits: u64,
    seeds: u64,
    planted: Option<Planted>,
    report: &mut Report,
) {
    let (device, history) = recorded(workload, commits, planted);
    for operation in 0..device.crash_points() {
        // Where nothing is pending, all plans give the same disk.
        let plans = if device.is_pending_at(operation) { &Plan::ALL[..] } else { &Plan::ALL[..1] };
        for &plan in plans {
            for seed in 0..if plan.is_random() { seeds } else { 1 } {
                let case = Case { workload, commits, crash: Crash { operation, plan, seed } };
                check(&device, &history, case, planted, report);
                if report.violations.len() >= 3 {
                    return;
                }
            }
        }
    }
}

/// The workload's device with all its crash points, and what it committed.
pub(crate) fn recorded(workload: u64, commits: u64, planted: Option<Planted>) -> (SimDevice, History) {
    let device = SimDevice::new(workload);
    device.keep_crash_points();
    let count = device.clone();
    // Crash points are fewer than changes where a mutant swallows them, so they are what is counted.
    let history =
        workload::run(wrap(planted, &device), &move || count.crash_points() as u64, workload, commits);
    assert!(history.error.is_none(), "without faults the workload succeeds: {:?}", history.error);
    (device, history)
}

/// Recovers from one crash and adds what is wrong to the report.
pub(crate) fn check(
    device: &SimDevice,
    history: &History,
    case: Case,
    planted: Option<Planted>,
    report: &mut Report,
) {
    let image = device.crash_at(case.crash).expect("the operation has a crash point");
    let allowed = history.allowed(case.crash.operation as u64);
    let result = catch_unwind(AssertUnwindSafe(|| recover(&image, &allowed, case, planted, report)));
    let wrong = match result {
        Ok(Ok(())) => return,
        Ok(Err(wrong)) => wrong,
        Err(panic) => format!("panic: {:?}", panic.downcast_ref::<String>()),
    };
    report.violations.push(format!("{wrong}\n  repeat: {case}"));
}

fn recover(
    image: &SimDevice,
    allowed: &[Option<&Model>],
    case: Case,
    planted: Option<Planted>,
    report: &mut Report,
) -> Result<(), String> {
    let Crash { operation, seed, .. } = case.crash;
    let mut rng = Random(seed ^ (operation as u64) << 20 ^ case.workload << 40);
    let follow = rng.below(4);
    if follow == 0 {
        // The power fails again while the store is being opened.
        let again = image.fork();
        let at = rng.below(6);
        again.inject(Fault { operation: at, on_reads: false, kind: FaultKind::Crash, sticky: true });
        drop(World::open(wrap(planted, &again)));
        let plan = Plan::ALL[rng.below(Plan::ALL.len() as u64) as usize];
        report.in_recovery += 1;
        report.tally.add(1);
        compare(&again.crash(plan, rng.next()), allowed, planted)
            .map_err(|wrong| format!("after a crash at operation {at} of recovery: {wrong}"))?;
    }
    report.tally.add(1);
    let Some((world, model)) = compare(image, allowed, planted)? else { return Ok(()) };
    if follow != 1 {
        return Ok(());
    }
    // What was found is there to stay, and the store works on.
    let plan = Plan::ALL[rng.below(Plan::ALL.len() as u64) as usize];
    report.tally.add(1);
    compare(&image.crash(plan, rng.next()), &[Some(&model)], planted)
        .map_err(|wrong| format!("what recovery found was gone after the next crash: {wrong}"))?;
    let mut world = world;
    for _ in 0..3 {
        world.change(&mut rng).map_err(|error| format!("a change after recovery failed: {error}"))?;
    }
    let (next, result) = world.commit(b"after recovery");
    result.map_err(|error| format!("a commit after recovery failed: {error}"))?;
    drop(world);
    let plan = Plan::ALL[rng.below(Plan::ALL.len() as u64) as usize];
    report.tally.add(1);
    compare(&image.crash(plan, rng.next()), &[Some(&next)], planted)
        .map_err(|wrong| format!("the commit after recovery: {wrong}"))?;
    Ok(())
}

/// Opens the disk and compares with the allowed states.
pub(crate) fn compare(
    image: &SimDevice,
    allowed: &[Option<&Model>],
    planted: Option<Planted>,
) -> Result<Option<(World, Model)>, String> {
    match World::open(wrap(planted, image)) {
        Ok(world) => {
            let model = world.model();
            if allowed.contains(&Some(&model)) {
                return Ok(Some((world, model)));
            }
            Err(format!("found {model:?}\n  allowed {allowed:?}"))
        }
        Err(Error::NotAStore { .. }) if allowed.contains(&None) => Ok(None),
        Err(error) => Err(format!("cannot open: {error}\n  allowed {allowed:?}")),
    }
}
