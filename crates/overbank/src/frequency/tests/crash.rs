//! Power cuts at every operation of a workload, and devices that fail: the reopened sketch is that of the last commit, or of
//! the one in flight; a sketch that goes on after a full disk is that of all updates it took.

use super::planted::WithoutDataSync;
use super::*;
use crate::device::Device;
use crate::device::sim::{Crash, Fault, FaultKind, Plan};

const KEYS: u64 = 60;

/// A sketch's answers, by which states are told apart.
type Answers = Vec<u64>;

/// A commit: during the changes `from..to` of the device. `None` before the sketch was there.
#[derive(Clone, Debug)]
struct Commit {
    from: u64,
    to: u64,
    answers: Option<Answers>,
}

#[derive(Default)]
struct History {
    commits: Vec<Commit>,
    in_flight: Option<Answers>,
    error: Option<Error>,
    full: usize,
}

impl History {
    fn allowed(&self, operation: u64) -> Vec<Option<&Answers>> {
        let last = self.commits.iter().rev().find(|commit| commit.to <= operation);
        let in_flight = self.commits.iter().find(|commit| commit.from <= operation && operation < commit.to);
        last.into_iter().chain(in_flight).map(|commit| commit.answers.as_ref()).collect()
    }

    fn allowed_at_end(&self) -> Vec<Option<&Answers>> {
        let last = self.commits.last().map(|commit| commit.answers.as_ref());
        last.into_iter().chain(self.in_flight.as_ref().map(Some)).collect()
    }

    /// Goes on after a full disk.
    fn survive(&mut self, result: crate::Result<()>) -> crate::Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(Error::Full { .. }) => {
                self.full += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Odd seeds have one large group, so that small logs are merged.
fn options(seed: u64) -> FrequencyOptions {
    let (pages, group_pages) = if seed.is_multiple_of(2) { (7, 2) } else { (40, 64) };
    let options = FrequencyOptions::new().shape(204 * pages, 5).group_pages(group_pages);
    options.memory_bytes(4 << 20).pending(2)
}

fn probes(store: &Store) -> Vec<KeyHash> {
    keys(store, 0..KEYS)
}

fn record(device: &SimDevice, seen_by_store: Arc<dyn Device>, seed: u64, commits: u64) -> History {
    let mut history = History::default();
    let changes = device.clone();
    if let Err(error) = workload(seen_by_store, &|| changes.changes(), seed, commits, &mut history) {
        history.error = Some(error);
    }
    history
}

fn workload(
    device: Arc<dyn Device>,
    changes: &dyn Fn() -> u64,
    seed: u64,
    commits: u64,
    history: &mut History,
) -> crate::Result<()> {
    let store = Store::create_on(device, store_options())?;
    history.commits.push(Commit { from: 0, to: changes(), answers: None });
    let sketch = Frequency::create(&store, "f", options(seed))?;
    let (mut model, mut random) = (Model::default(), Random(seed));
    let answers = |model: &Model| model.estimates(&held(&sketch), &store.hasher(), &probes(&store));
    for number in 0..commits {
        for _ in 0..random.below(5) {
            let mut sketch = held(&sketch);
            let hashes = keys(&store, (0..1 + random.below(40)).map(|_| random.below(KEYS)));
            let result = match random.below(6) {
                0..=2 => {
                    let taken = history.survive(sketch.update(&hashes, None))?;
                    hashes.iter().filter(|_| taken).for_each(|&hash| model.add(hash, 1));
                    continue;
                }
                3 => sketch.flush(),
                4 => sketch.apply(),
                _ => {
                    let weights: Vec<u64> = hashes.iter().map(|_| random.below(1000)).collect();
                    let taken = history.survive(sketch.update(&hashes, Some(&weights)))?;
                    let pairs = hashes.iter().zip(&weights).filter(|_| taken);
                    pairs.for_each(|(&hash, &weight)| model.add(hash, weight));
                    continue;
                }
            };
            history.survive(result)?;
        }
        // Whatever failed before, the sketch counts what it took.
        let expected = answers(&model);
        assert_eq!(held(&sketch).estimate(&probes(&store))?, expected);
        let from = changes();
        history.in_flight = Some(expected.clone());
        let result = store.commit(&number.to_le_bytes()).map(drop);
        if history.survive(result)? {
            history.commits.push(Commit { from, to: changes(), answers: Some(expected) });
        }
        history.in_flight = None;
    }
    Ok(())
}

/// Opens the disk; it must hold one of the allowed states.
fn compare(image: &SimDevice, allowed: &[Option<&Answers>]) -> Result<Option<Store>, String> {
    let store = match Store::open_on(Arc::new(image.clone()), store_options()) {
        Err(Error::NotAStore { .. }) if allowed.is_empty() || allowed == [None] => return Ok(None),
        store => store.map_err(|error| format!("cannot open the store: {error}"))?,
    };
    if store.record("f").is_none() {
        // Before the first commit there is a store without a sketch, if there is one.
        return if allowed.is_empty() || allowed.contains(&None) {
            Ok(None)
        } else {
            Err("the sketch is gone".to_owned())
        };
    }
    let sketch = Frequency::open(&store, "f").map_err(|error| format!("cannot open the sketch: {error}"))?;
    let answers = held(&sketch).estimate(&probes(&store));
    let answers = answers.map_err(|error| format!("cannot ask it: {error}"))?;
    if !allowed.contains(&Some(&answers)) {
        return Err(format!("found {answers:?}\n  allowed {allowed:?}"));
    }
    Ok(Some(store))
}

/// Recovers from crashes at every operation; ends at the first violation.
fn explore(device: &SimDevice, history: &History, seeds: u64) -> (u64, Result<(), String>) {
    let mut states = 0;
    for operation in 0..device.crash_points() {
        let plans = if device.is_pending_at(operation) { &Plan::ALL[..] } else { &Plan::ALL[..1] };
        for &plan in plans {
            for seed in 0..if plan.is_random() { seeds } else { 1 } {
                let crash = Crash { operation, plan, seed };
                let allowed = history.allowed(operation as u64);
                let Some(image) = device.crash_at(crash) else { continue };
                states += 1;
                if let Err(wrong) = recover(&image, &allowed, crash, &mut states) {
                    return (states, Err(format!("{crash}: {wrong}")));
                }
            }
        }
    }
    (states, Ok(()))
}

fn recover(
    image: &SimDevice,
    allowed: &[Option<&Answers>],
    crash: Crash,
    states: &mut u64,
) -> Result<(), String> {
    let mut random = Random(crash.seed ^ (crash.operation as u64) << 8);
    let Some(store) = compare(image, allowed)? else { return Ok(()) };
    if random.below(4) > 0 {
        return Ok(());
    }
    // The recovered sketch works on, and its next commit is as durable as the ones before.
    drop(store);
    let store = Store::open_on(Arc::new(image.clone()), store_options()).map_err(|e| e.to_string())?;
    let sketch = Frequency::open(&store, "f").map_err(|e| e.to_string())?;
    let mut expected = Vec::new();
    for turn in 0..3 {
        let hashes = probes(&store);
        let work = |sketch: &mut Frequency| {
            sketch.update(&hashes, None)?;
            if turn == 1 { sketch.apply() } else { sketch.flush() }?;
            sketch.estimate(&hashes)
        };
        expected = work(&mut held(&sketch)).map_err(|error| format!("after recovery: {error}"))?;
    }
    store.commit(b"after").map_err(|error| format!("a commit after recovery: {error}"))?;
    drop((sketch, store));
    *states += 1;
    let plan = Plan::ALL[random.below(Plan::ALL.len() as u64) as usize];
    compare(&image.crash(plan, random.next()), &[Some(&expected)])
        .map(drop)
        .map_err(|wrong| format!("after the commit after recovery: {wrong}"))
}

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let mut states = 0;
    for seed in 0..6 {
        let device = SimDevice::new(seed);
        device.keep_crash_points();
        let history = record(&device, Arc::new(device.clone()), seed, 12);
        assert!(history.error.is_none(), "{:?}", history.error);
        let (more, result) = explore(&device, &history, 4);
        result.unwrap_or_else(|wrong| panic!("workload {seed}, {wrong}"));
        states += more;
    }
    println!("{states} crash states");
    assert!(states >= 10_000, "only {states} crash states");
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    let caught = (0..6).any(|seed| {
        let device = SimDevice::new(seed);
        device.keep_crash_points();
        // Crash points are fewer than changes here, so they are what is counted.
        let count = device.clone();
        let mut history = History::default();
        let mutant = Arc::new(WithoutDataSync(device.clone()));
        workload(mutant, &|| count.crash_points() as u64, seed, 12, &mut history).unwrap();
        explore(&device, &history, 2).1.is_err()
    });
    assert!(caught);
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    const COMMITS: u64 = 5;
    let (mut stopped, mut full) = (0, 0);
    // Several groups, so that a pass may stop between them, and one.
    for workload in [4, 3] {
        let whole = SimDevice::new(workload);
        record(&whole, Arc::new(whole.clone()), workload, COMMITS);
        for operation in 0..whole.changes() {
            for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::ShortWrite] {
                for sticky in [false, true] {
                    let device = SimDevice::new(workload);
                    device.inject(Fault { operation, on_reads: false, kind, sticky });
                    let history = record(&device, Arc::new(device.clone()), workload, COMMITS);
                    stopped += u64::from(history.error.is_some());
                    full += history.full;
                    device.heal();
                    let place = format!("{kind:?}, sticky {sticky}, at operation {operation} of {workload}");
                    for plan in [Plan::Nothing, Plan::Everything, Plan::Sectors] {
                        let seen = compare(&device.crash(plan, operation), &history.allowed_at_end());
                        seen.unwrap_or_else(|wrong| panic!("{place}, then {plan}: {wrong}"));
                    }
                }
            }
        }
    }
    println!("{stopped} stopped, {full} full disks survived");
    assert!(stopped > 0 && full > 0);
}

#[test]
fn a_pass_that_stops_between_two_groups_counts_nothing_twice() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch = store.frequency("f", options(0)).unwrap();
    let mut model = Model::default();
    let mut update = || {
        held(&sketch).update(&probes(&store), None).unwrap();
        probes(&store).iter().for_each(|&hash| model.add(hash, 1));
        model.clone()
    };
    update();
    held(&sketch).flush().unwrap();
    update();
    // The log's creation and write, the page file's creation, then the first group's write; the second group's finds the
    // disk full.
    let operation = device.changes() + 4;
    device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: false });
    assert!(matches!(held(&sketch).apply(), Err(Error::Full { .. })));
    assert_eq!(held(&sketch).pages.extents(), 1);
    let mut expected = Model::default();
    for turn in 0..3 {
        expected = match turn {
            0 => update(),
            1 => {
                held(&sketch).flush().unwrap();
                update()
            }
            _ => {
                held(&sketch).apply().unwrap();
                expected
            }
        };
        super::compare(&store, &sketch, &expected, &probes(&store));
    }
}
