//! Readers that move on beside a writer: while it commits and publishes, and at any moment where a power cut stopped it.
//!
//! Commit `n` holds the keys 1 to `n` and the position `n`, whatever was published before and after it: so what a reader sees says which
//! commit it is of.

use crate::beside::{self, BETWEEN, COMMITS, options};
use crate::levels::{Content, Levels};
use overbank::device::sim::tally::Tally;
use overbank::device::sim::{Crash, Plan, SimDevice};
use overbank::store::{Handle, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn number(store: &Store) -> u64 {
    u64::from_le_bytes(store.position().try_into().unwrap())
}

/// That the levels are of the commit that the store is at.
fn whole(store: &Store, place: &str) -> (Handle<Levels>, Content) {
    let levels = Levels::open(store).unwrap_or_else(|error| panic!("{place}: {error}"));
    let content = levels.content();
    assert!(content.0.iter().copied().eq(1..=number(store)), "{place}: {content:?} at {}", number(store));
    (levels, content)
}

#[test]
fn a_reader_moves_from_commit_to_commit_while_a_writer_commits_publishes_and_removes() {
    for seed in 0..3 {
        let device = SimDevice::new(seed);
        let (seen, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let moves = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut moves = 0;
                let reader = loop {
                    // There is none until its first commit.
                    match Store::open_read_only_on(Arc::new(device.clone()), options()) {
                        Ok(reader) if reader.position().len() == 8 => break reader,
                        _ => assert!(!is_over.load(Ordering::Acquire)),
                    }
                };
                let mut held = Vec::new();
                loop {
                    let was_over = is_over.load(Ordering::Acquire);
                    let before = (reader.commit_info(), number(&reader));
                    let has_moved = reader.refresh().unwrap();
                    let after = (reader.commit_info(), number(&reader));
                    assert_eq!(has_moved, before != after);
                    assert!(before.1 <= after.1 && before.0.commit <= after.0.commit, "{before:?} {after:?}");
                    moves += u64::from(has_moved);
                    held.push(whole(&reader, "beside a writer"));
                    if held.len() > 5 {
                        held.remove(0);
                    }
                    assert!(held.iter().all(|(levels, content)| levels.content() == *content));
                    seen.store(after.1, Ordering::Release);
                    if was_over {
                        break;
                    }
                }
                assert!(!reader.refresh().unwrap());
                let last = Store::open_read_only_on(Arc::new(device.clone()), options()).unwrap();
                assert_eq!(reader.commit_info(), last.commit_info());
                assert!(reader.verify().unwrap().is_whole());
                moves
            });
            beside::run_beside(&device, seed, |number| {
                !reader.is_finished() && seen.load(Ordering::Acquire) <= number
            });
            is_over.store(true, Ordering::Release);
            reader.join().unwrap()
        });
        // One in each round of commits; in the first it may have been there from the start.
        assert!(moves >= COMMITS / BETWEEN - 1, "{moves}");
    }
}

/// A reader opens what a power cut left; a writer recovers it and goes on; the reader stays where it was until it is moved.
#[test]
fn a_crash_anywhere_leaves_what_a_reader_opens_and_moves_on_from() {
    let tally = Tally::new();
    for workload in tally.workloads(0..2) {
        let device = SimDevice::new(workload);
        device.keep_crash_points();
        let (done, _) = beside::run(&device, workload);
        for operation in (0..device.crash_points()).filter(|&at| at as u64 >= done[0]) {
            let plans = if device.is_pending_at(operation) { &Plan::ALL[..] } else { &Plan::ALL[..1] };
            for &plan in plans {
                let crash = Crash { operation, plan, seed: workload };
                let place = format!("workload {workload}, {crash}");
                let image = device.crash_at(crash).expect("the operation has a crash point");
                let open = || Store::open_read_only_on(Arc::new(image.clone()), options());
                let reader = open().unwrap_or_else(|error| panic!("{place}: {error}"));
                let (levels, content) = whole(&reader, &place);
                let held = number(&reader);

                let writer = Store::open_on(Arc::new(image.clone()), options()).unwrap();
                assert_eq!(number(&writer), held, "{place}: the writer recovers what the reader saw");
                assert!(!reader.refresh().unwrap() && number(&reader) == held, "{place}");
                let written = Levels::open(&writer).unwrap();
                written.insert(held + 1);
                writer.commit(&(held + 1).to_le_bytes()).unwrap();
                written.publish().unwrap();
                assert_eq!((number(&reader), levels.content()), (held, content.clone()), "{place}");
                assert!(reader.refresh().unwrap(), "{place}");
                assert_eq!(number(&reader), held + 1, "{place}");
                whole(&reader, &place);
                assert_eq!(levels.content(), content, "{place}: a handle is of its commit");
                tally.add(1);
            }
        }
    }
    let states = tally.tell();
    assert!(states >= 500, "{states} states");
}
