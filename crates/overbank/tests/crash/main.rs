//! The store against power cuts, failing devices and damaged bytes.
//!
//! ```text
//!   workload (seed) ──▶ simulated device ──▶ every operation × every plan × seeds ──▶ recover ──▶ equals the model of
//!                                                                │                              the last commit, or of
//!                                                                └─ crash again in recovery     the one in flight
//! ```
//!
//! A violation prints the line that repeats it. The planted faults prove that the harness can see one.

#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]

mod beside;
mod harness;
mod levels;
mod mutants;
mod refresh;
mod summaries;
mod workload;

use harness::{Case, Report, check, compare, explore, recorded};
use mutants::Planted;
use overbank::Error;
use overbank::device::Device;
use overbank::device::sim::tally::Tally;
use overbank::device::sim::{Fault, FaultKind, Plan, SimDevice};
use std::sync::Arc;
use workload::{World, run};

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let mut report = Report::default();
    let workloads = Tally::new();
    for workload in workloads.workloads(0..WORKLOADS) {
        let before = report.tally.states();
        explore(workload, COMMITS, SEEDS, None, &mut report);
        workloads.add(report.tally.states() - before);
        assert!(report.violations.is_empty(), "{}", report.violations.join("\n"));
    }
    println!("{} of them in recovery", report.in_recovery);
    let states = workloads.tell();
    assert!(states >= 100_000, "only {states} crash states");
}

const WORKLOADS: u64 = 8;
const COMMITS: u64 = 30;
const SEEDS: u64 = 6;

#[test]
fn repeat() {
    let Ok(line) = std::env::var("OVERBANK_CRASH") else { return };
    let case = Case::parse(&line).expect("OVERBANK_CRASH is workload/commits/operation:plan:seed");
    let (device, history) = recorded(case.workload, case.commits, None);
    let mut report = Report::default();
    check(&device, &history, case, None, &mut report);
    assert!(report.violations.is_empty(), "{}", report.violations.join("\n"));
}

#[test]
fn every_planted_fault_is_caught() {
    for planted in Planted::ALL {
        let mut report = Report::default();
        for workload in 0..WORKLOADS {
            if report.violations.is_empty() {
                explore(workload, COMMITS, 2, Some(planted), &mut report);
            }
        }
        assert!(
            !report.violations.is_empty(),
            "{planted:?} lived through {} crash states",
            report.tally.states()
        );
        println!("{planted:?}: caught after {} states", report.tally.states());
    }
}

#[test]
fn a_failing_device_never_mixes_commits() {
    const FEW: u64 = 8;
    let (whole, _) = recorded(1, FEW, None);
    let kinds = [FaultKind::Eio, FaultKind::Enospc, FaultKind::ShortWrite];
    let (mut stopped, mut full, mut unnoticed) = (0, 0, 0);
    for operation in 0..whole.changes() {
        for kind in kinds {
            for sticky in [false, true] {
                let device = SimDevice::new(1);
                device.inject(Fault { operation, on_reads: false, kind, sticky });
                let count = device.clone();
                let history = run(Arc::new(device.clone()), &move || count.changes(), 1, FEW);
                match (&history.error, history.full) {
                    (Some(_), _) => stopped += 1,
                    (None, 0) => unnoticed += 1,
                    (None, _) => full += 1,
                }
                device.heal();
                let allowed = history.allowed_at_end();
                let place = format!("{kind:?}, sticky {sticky}, at operation {operation}");
                for plan in [Plan::Nothing, Plan::Everything, Plan::Sectors] {
                    let seen = compare(&device.crash(plan, operation), &allowed, None);
                    seen.unwrap_or_else(|wrong| panic!("{place}, then {plan}: {wrong}"));
                }
                // Without a power cut too: the same process opens it again.
                let seen = compare(&device, &allowed, None);
                let seen = seen.unwrap_or_else(|wrong| panic!("{place}, then reopened: {wrong}"));
                if let Some((mut world, _)) = seen {
                    world.change(&mut workload::Random(operation)).expect("the healed store takes changes");
                    world.commit(b"healed").1.expect("the healed store commits");
                }
            }
        }
    }
    println!("{stopped} stopped, {full} went on after a full disk, {unnoticed} unnoticed");
    assert!(stopped > 0 && full > 0);
}

#[test]
fn a_failing_read_is_an_error_and_nothing_else() {
    let (device, history) = recorded(2, 10, None);
    let allowed = history.allowed_at_end();
    for operation in 0.. {
        let image = device.fork();
        image.inject(Fault { operation, on_reads: true, kind: FaultKind::Eio, sticky: false });
        let result = World::open(Arc::new(image.clone()));
        let struck = image.reads() > operation;
        match result {
            Ok(world) => assert!(allowed.contains(&Some(&world.model()))),
            Err(error) => assert!(struck && matches!(error, Error::Io { .. }), "{error}"),
        }
        image.heal();
        compare(&image, &allowed, None)
            .unwrap_or_else(|wrong| panic!("after EIO at read {operation}: {wrong}"));
        if !struck {
            break;
        }
    }
}

/// The byte census: one bit of every byte of every file.
#[test]
fn a_flipped_bit_is_corrupt_or_harmless_but_never_a_wrong_answer() {
    let (device, history) = recorded(3, 6, None);
    let allowed = history.allowed_at_end();
    let (mut bytes, mut corrupt) = (0, 0);
    for name in device.list().unwrap() {
        let len_bytes =
            device.fork().open(&name, overbank::device::Access::Read).unwrap().len_bytes().unwrap();
        let in_place =
            name.ends_with(".seg") && device.fork().flip_bit(&name, 0) && is_in_place(&device, &name);
        for byte in 0..len_bytes {
            let image = device.fork();
            assert!(image.flip_bit(&name, byte * 8 + byte % 8));
            bytes += 1;
            match World::open(Arc::new(image)) {
                Ok(world) => {
                    assert!(allowed.contains(&Some(&world.model())), "byte {byte} of {name}: a wrong answer");
                    // Verification is slow, and one byte of each sector stands for the others here.
                    if byte % 512 == 7 && name != "reserve" && !in_place {
                        let report = world.store.verify().unwrap();
                        assert_eq!(
                            report.damaged.first().map(|d| &d.file),
                            Some(&name),
                            "byte {byte} of {name}"
                        );
                    }
                }
                Err(Error::Corrupt { .. }) => corrupt += 1,
                Err(error) => panic!("byte {byte} of {name}: {error}"),
            }
        }
    }
    println!("{bytes} bytes flipped, {corrupt} corrupt, the rest harmless");
    assert!(corrupt > 0 && corrupt < bytes);
}

fn is_in_place(device: &SimDevice, name: &str) -> bool {
    let world = World::open(Arc::new(device.fork())).unwrap();
    let entry = world.store.record("pages");
    entry.is_some_and(|e| e.record.files.iter().any(|f| name == format!("{:06}.seg", f.id.0)))
}
