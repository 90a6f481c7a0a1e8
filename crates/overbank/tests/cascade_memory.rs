//! The cascade filter's memory is a promise: what it allocates never exceeds `memory_bytes`, at any number of writers, however
//! long the stream. A counting allocator looks on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

mod counting;

use overbank::filter::cascade::{Arrivals, Filter, FilterOptions, Policy};
use overbank::store::{Store, StoreOptions};
use overbank::{KeyHash, Seed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Keys of a call.
const BATCH: u64 = 4096;
/// The store's own: its manifest, its queue of jobs, names of files.
const STORE_BYTES: usize = 1 << 20;

/// A filter with the least memory for its writers, or more, in a fresh store on disk.
struct Trial {
    _turn: MutexGuard<'static, ()>,
    _place: tempfile::TempDir,
    store: Store,
    filter: Filter,
    memory_bytes: usize,
    before: usize,
}

impl Trial {
    fn new(writers: usize, threads: usize, memory_bytes: usize, keys: u64) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tempfile::tempdir().unwrap();
        let store_options = StoreOptions::new().memory_bytes(256 << 20).threads(threads).seed(Seed(5));
        let store = Store::create(place.path(), store_options).unwrap();
        let before = counting::restart();
        let options = FilterOptions::new()
            .memory_bytes(memory_bytes)
            .keys(keys)
            .false_positive_rate(1e-6)
            .policy(Policy::Tiered { fan_out: 4 })
            .writers(writers);
        let filter = store.filter("f", options).unwrap();
        Self { _turn: turn, _place: place, store, filter, memory_bytes, before }
    }

    /// The most that was held beside what there was before, `extra_bytes` of it not the filter's.
    fn check(&self, what: &str, extra_bytes: usize) {
        let peak = counting::peak_bytes() - self.before;
        let allowed = self.memory_bytes + STORE_BYTES + extra_bytes;
        println!("{what}: {:.2} of {:.2} MiB", mib(peak), mib(allowed));
        assert!(peak <= allowed, "{what}: {:.2} MiB live, {:.2} are allowed", mib(peak), mib(allowed));
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The least memory of a filter for so many writers.
fn least(writers: usize) -> usize {
    (16 << 20..)
        .step_by(1 << 18)
        .find(|&memory_bytes| {
            FilterOptions::new().memory_bytes(memory_bytes).writers(writers).fingerprint_bits().is_ok()
        })
        .unwrap()
}

fn filled(hashes: &mut Vec<KeyHash>, from: u64, hasher: overbank::KeyHasher) {
    hashes.clear();
    hashes.extend((from..from + BATCH).map(|key| hasher.hash_u64(key)));
}

/// Inserts `keys` by all writers at once.
fn insert(trial: &Trial, writers: usize, from: u64, keys: u64) {
    let hasher = trial.store.hasher();
    let batches = keys / BATCH / writers as u64;
    std::thread::scope(|scope| {
        for number in 1..writers as u64 {
            let writer = trial.filter.clone();
            scope.spawn(move || {
                let mut hashes = Vec::with_capacity(BATCH as usize);
                for batch in 0..batches {
                    filled(&mut hashes, from + (number * batches + batch) * BATCH, hasher);
                    writer.insert(&hashes).unwrap();
                }
            });
        }
        let mut hashes = Vec::with_capacity(BATCH as usize);
        for batch in 0..batches {
            filled(&mut hashes, from + batch * BATCH, hasher);
            trial.filter.insert(&hashes).unwrap();
        }
    });
}

/// A writer's batch of hashes belongs to the test.
fn batches_bytes(writers: usize) -> usize {
    writers * (BATCH as usize * size_of::<KeyHash>() + (16 << 10))
}

#[test]
fn writers_of_a_growing_stream_hold_the_budget() {
    for writers in [1, 2, 8, 16] {
        for keys in [500_000u64, 5_000_000] {
            let trial = Trial::new(writers, 2, least(writers), 1 << 30);
            insert(&trial, writers, 0, keys);
            trial.check(&format!("{writers} writers of {keys} keys"), batches_bytes(writers));
            trial.store.commit(b"").unwrap();
            trial.check(&format!("a commit after {writers} writers of {keys} keys"), batches_bytes(writers));
        }
    }
}

#[test]
fn more_memory_is_held_as_well_as_the_least() {
    for (writers, threads, memory_bytes) in
        [(1, 0, 20 << 20), (2, 2, 20 << 20), (2, 8, 48 << 20), (4, 4, 104 << 20)]
    {
        let trial = Trial::new(writers, threads, memory_bytes, 1 << 30);
        insert(&trial, writers, 0, 6_000_000);
        trial.store.commit(b"").unwrap();
        trial.check(&format!("{writers} writers, {threads} threads"), batches_bytes(writers));
    }
}

#[test]
fn streams_that_are_asked_for_hold_the_budget() {
    for threads in [0, 2, 8] {
        // A tenth of what comes is expected, so that generations begin.
        let trial = Trial::new(1, threads, least(1), 300_000);
        let arrivals_bytes = 8 << 20;
        let mut arrivals = Arrivals::new(arrivals_bytes).unwrap();
        let hasher = trial.store.hasher();
        let mut hashes = Vec::with_capacity(BATCH as usize);
        for batch in 0..3_000_000 / BATCH {
            filled(&mut hashes, batch * BATCH * 2 / 3, hasher);
            let mut rest = &hashes[..];
            while !rest.is_empty() {
                rest = &rest[arrivals.push(rest)..];
                if arrivals.is_full() {
                    arrivals.insert_if_absent(&trial.filter).unwrap();
                }
            }
        }
        arrivals.insert_if_absent(&trial.filter).unwrap();
        trial.store.commit(b"").unwrap();
        trial.check(&format!("insert_if_absent, {threads} threads"), arrivals_bytes + batches_bytes(1));
        // Counted by a sample, in the room of lookups and merges.
        trial.filter.distinct().unwrap();
        trial.check(&format!("distinct, {threads} threads"), arrivals_bytes + batches_bytes(1));
    }
}

/// All that waits in one hash range: with room for that a round would hold eight times what a key has been given.
#[test]
fn a_stream_of_one_key_holds_the_budget_and_is_new_once() {
    for threads in [0, 2] {
        let trial = Trial::new(1, threads, least(1), 300_000);
        let arrivals_bytes = 24 << 20;
        let mut arrivals = Arrivals::new(arrivals_bytes).unwrap();
        let hasher = trial.store.hasher();
        let heavy = [hasher.hash_u64(u64::MAX); BATCH as usize];
        let (mut between, mut new) = (0, 0);
        for turn in 0..3 {
            // A different key ends each batch of the same one.
            while !arrivals.is_full() {
                let _ = arrivals.push(&heavy);
                between += arrivals.push(&[hasher.hash_u64(between)]) as u64;
            }
            let answers = arrivals.insert_if_absent(&trial.filter).unwrap();
            assert_eq!(answers[0], turn == 0, "the first of all is new, the first of later turns is not");
            new += answers.iter().filter(|new| **new).count() as u64;
        }
        // The keys between are new, the heavy one is once; a wrong answer is one in a million.
        assert_eq!(new, between + 1);
        trial.check(&format!("one key, {threads} threads"), arrivals_bytes + batches_bytes(1));
    }
}

#[test]
fn keys_that_are_asked_one_by_one_hold_the_budget() {
    for threads in [0, 2] {
        let trial = Trial::new(2, threads, least(2), 300_000);
        let hasher = trial.store.hasher();
        for key in 0..1_200_000u64 {
            trial.filter.insert_one_if_absent(hasher.hash_u64(key * 2 / 3)).unwrap();
        }
        trial.check(&format!("one by one, {threads} threads"), 0);
    }
}

#[test]
fn frequent_commits_and_a_compaction_hold_the_budget() {
    for threads in [0, 2] {
        let trial = Trial::new(1, threads, least(1), 1 << 30);
        for commit in 0..160 {
            // Runs of every length up to a full flush, so that one merge has many of them.
            insert(&trial, 1, commit << 20, if commit % 9 == 0 { 160_000 } else { BATCH * (1 + commit % 5) });
            trial.store.commit(b"").unwrap();
        }
        trial.check(&format!("frequent commits, {threads} threads"), batches_bytes(1));
        trial.filter.compact().unwrap();
        trial.check(&format!("compact, {threads} threads"), batches_bytes(1));
    }
}
