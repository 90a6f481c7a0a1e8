//! Inserts: from an empty filter to everything on flash and synced, each sample in a process and a memory cgroup of its own.

use super::curve::{self, Curve};
use super::engine::Engine;
use super::filter::{BATCH_KEYS, Filter, check};
use super::keys::Keys;
use super::{RATE, Shape};
use crate::{BlockCount, Case, Clock, Metric, Result, Run, folder_bytes};
use keyhash::KeyHash;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The paper's first: ratios are to it.
const ENGINES: [Engine; 5] = [
    Engine::Paper { has_tombstones: false },
    Engine::Overbank { writers: 1 },
    Engine::Overbank { writers: 2 },
    Engine::Elevator,
    Engine::MmapBloom,
];

/// Keys that a sample is checked with.
const WITNESSES: u64 = 500;

pub(super) fn contest(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    let scratch = run.scratch()?;
    let ram_mib = shape.ram_bytes >> 20;
    let curve_of = |engine: &str| scratch.join(format!("curve-{ram_mib}-{engine}"));
    let mut contest = run
        .contest(Case::Insert)
        .param("workload", "uniform")
        .param("keys", shape.keys)
        .param("memory_mib", shape.memory_bytes as f64 / f64::from(1 << 20))
        .param("rate", RATE)
        .ops(usize::try_from(shape.keys)?)
        .memory_limit(shape.ram_bytes)
        .costly();
    for engine in ENGINES.into_iter().filter(|engine| engine.is_here()) {
        let (scratch, curve) = (scratch.clone(), curve_of(engine.name()));
        contest =
            contest.approximate(engine.name(), move |clock| sample(clock, engine, shape, &scratch, &curve));
    }
    contest.finish()?;
    if run.is_child() {
        return Ok(());
    }
    let title = format!("{} million keys of 64 bits, {ram_mib} MiB of RAM", shape.keys as f64 / 1e6);
    let to: PathBuf = run.output()?.join(format!("cascade-inserts-{ram_mib}mib.svg"));
    curve::draw(&title, &ENGINES.map(Engine::name), curve_of, &to)?;
    run.say(&format!("keys over time, and stalls: {}", to.display()));
    Ok(())
}

/// One sample, of a rival as far as it comes in its time.
fn sample(clock: &mut Clock, engine: Engine, shape: Shape, scratch: &Path, to: &Path) -> Result<u64> {
    let folder = tempfile::tempdir_in(scratch)?;
    let mut filter = engine.create(folder.path(), shape)?;
    let (keys, blocks) = (Keys::new(shape.keys), BlockCount::start());
    let until = engine.patience(shape).map(|patience| Instant::now() + patience);
    let curve = Mutex::new(Curve::start(shape.keys.div_ceil(BATCH_KEYS as u64)));
    clock.time(|| {
        match engine.writers() {
            1 => insert(&mut *filter, keys, &curve, until)?,
            writers => insert_together(&mut *filter, writers, keys, &curve)?,
        }
        filter.finish()
    })?;
    let curve = curve.into_inner().unwrap_or_else(PoisonError::into_inner);
    let done = curve.keys();
    clock.did(done);
    blocks.note(clock, done);
    curve.finish(clock, to)?;
    let flash_bytes = folder_bytes(folder.path())?;
    clock.note(Metric::FlashBytes, flash_bytes as f64);
    if done == shape.keys {
        clock.note(Metric::BitsPerKey, flash_bytes as f64 * 8.0 / done as f64);
    }
    check(engine.name(), &mut *filter, &keys.first(done.min(WITNESSES) as usize))?;
    Ok(done)
}

fn insert(filter: &mut dyn Filter, keys: Keys, curve: &Mutex<Curve>, until: Option<Instant>) -> Result<()> {
    let part_keys = filter.part_keys();
    for chunk in 0..keys.chunks() {
        let goes_on = keys.for_batches(chunk, BATCH_KEYS, |hashes| {
            add(hashes, part_keys, &mut |part| filter.insert(part), curve, until)
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Threads take the chunks from each other until none is left.
fn insert_together(filter: &mut dyn Filter, writers: usize, keys: Keys, curve: &Mutex<Curve>) -> Result<()> {
    let (adders, next) = (filter.adders(writers)?, &AtomicU64::new(0));
    let work = |mut adder: super::filter::Adder<'_>| -> Result<()> {
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk >= keys.chunks() {
                return Ok(());
            }
            keys.for_batches(chunk, BATCH_KEYS, |hashes| add(hashes, BATCH_KEYS, &mut *adder, curve, None))?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = adders.into_iter().map(|adder| scope.spawn(move || work(adder))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a writer panicked")?)
    })
}

/// Adds one batch, part by part, and records it; tells whether there is time for more.
fn add(
    hashes: &[KeyHash],
    part_keys: usize,
    insert: &mut dyn FnMut(&[KeyHash]) -> Result<()>,
    curve: &Mutex<Curve>,
    until: Option<Instant>,
) -> Result<bool> {
    let (begun, mut done, mut is_late) = (Instant::now(), 0, false);
    for part in hashes.chunks(part_keys) {
        insert(part)?;
        done += part.len() as u64;
        is_late = until.is_some_and(|until| Instant::now() >= until);
        if is_late {
            break;
        }
    }
    curve.lock().unwrap_or_else(PoisonError::into_inner).batch(done, begun.elapsed());
    Ok(!is_late)
}
