//! One key at a time, as a crawler or a server asks, all of it in RAM: new keys and known ones inserted unless they are there, known and
//! unknown ones looked up. Beside it the same in batches, and a set of the standard library under a lock, which keeps whole hashes.

use super::RATE;
use super::filter::BATCH_KEYS;
use super::keys::Keys;
use crate::{Case, Clock, Result, Run};
use keyhash::KeyHash;
use overbank::Seed;
use overbank::filter::cascade::{Filter, FilterOptions};
use overbank::store::{Store, StoreOptions};
use std::collections::HashSet;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

/// Room for all keys in packed runs.
const MEMORY_BYTES: usize = 64 << 20;

pub(super) fn contests(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([20_000, 500_000, 2_000_000]);
    let all = Keys::new(2 * keys as u64);
    let hashes: Vec<KeyHash> =
        (0..all.chunks()).flat_map(|chunk| all.part(chunk, 0..all.keys_of(chunk))).collect();
    let (known, unknown) = hashes.split_at(keys);
    inserts(run, known)?;
    let (_store, filter) = made()?;
    filter.insert(known)?;
    let set = Mutex::new(known.iter().copied().collect::<HashSet<KeyHash>>());
    for (case, asked) in [(Case::LookupPositive, known), (Case::LookupNegative, unknown)] {
        run.contest(case)
            .param("workload", "one_by_one")
            .param("keys", keys)
            .param("rate", RATE)
            .ops(keys)
            .approximate("overbank_single", |clock: &mut Clock| {
                clock.time(|| count(asked, |hash| Ok(filter.contains(black_box(hash))?)))
            })
            .approximate("overbank", |clock: &mut Clock| {
                clock.time(|| {
                    count_batches(asked, |hashes, into| Ok(filter.contains_many_into(hashes, into)?))
                })
            })
            .approximate("hash_set", |clock: &mut Clock| {
                clock.time(|| count(asked, |hash| Ok(locked(&set).contains(black_box(&hash)))))
            })
            .finish()?;
    }
    Ok(())
}

/// Each key unless it is there, twice over: new all, then known all.
fn inserts(run: &mut Run<'_>, hashes: &[KeyHash]) -> Result<()> {
    for passes in [1, 2] {
        run.contest(Case::Dedup)
            .param("workload", "one_by_one")
            .param("keys", hashes.len())
            .param("known", passes == 2)
            .param("rate", RATE)
            .ops(hashes.len())
            .approximate("overbank_single", |clock: &mut Clock| {
                let (_store, filter) = made()?;
                let mut insert = || count(hashes, |hash| Ok(filter.insert_one_if_absent(hash)?));
                timed_last(clock, passes, &mut insert)
            })
            .approximate("overbank", |clock: &mut Clock| {
                let (_store, filter) = made()?;
                let mut insert =
                    || count_batches(hashes, |hashes, into| Ok(filter.insert_if_absent_into(hashes, into)?));
                timed_last(clock, passes, &mut insert)
            })
            .approximate("hash_set", |clock: &mut Clock| {
                let set = Mutex::new(HashSet::new());
                let mut insert = || count(hashes, |hash| Ok(locked(&set).insert(hash)));
                timed_last(clock, passes, &mut insert)
            })
            .finish()?;
    }
    Ok(())
}

/// An empty filter, and the store that it is in.
fn made() -> Result<(Store, Filter)> {
    let store = Store::in_memory(StoreOptions::new().memory_bytes(MEMORY_BYTES).seed(Seed(7)))?;
    let options = FilterOptions::new().memory_bytes(MEMORY_BYTES).keys(1 << 30).false_positive_rate(RATE);
    let filter = store.filter("f", options)?;
    Ok((store, filter))
}

fn locked(set: &Mutex<HashSet<KeyHash>>) -> std::sync::MutexGuard<'_, HashSet<KeyHash>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes over the keys, the last of them timed.
fn timed_last(clock: &mut Clock, passes: usize, pass: &mut dyn FnMut() -> Result<u64>) -> Result<u64> {
    for _ in 1..passes {
        pass()?;
    }
    clock.time(pass)
}

/// How many keys are answered with yes.
fn count(hashes: &[KeyHash], mut ask: impl FnMut(KeyHash) -> Result<bool>) -> Result<u64> {
    let mut yes = 0;
    for &hash in hashes {
        yes += u64::from(ask(hash)?);
    }
    Ok(yes)
}

fn count_batches(
    hashes: &[KeyHash],
    mut ask: impl FnMut(&[KeyHash], &mut [bool]) -> Result<()>,
) -> Result<u64> {
    let (mut answers, mut yes) = (vec![false; BATCH_KEYS], 0);
    for hashes in hashes.chunks(BATCH_KEYS) {
        let answers = &mut answers[..hashes.len()];
        ask(hashes, answers)?;
        yes += answers.iter().filter(|&&yes| yes).count() as u64;
    }
    Ok(yes)
}
