//! Look-ups: each engine's dictionary by itself, for all together need more disk than there may be; beside it the device, whose blocks
//! of the same file are read at the same depth.

use super::asking::Asking;
use super::engine::Engine;
use super::{Shape, device, shapes};
use crate::{Case, Clock, Result, Run, Size, forget_file};
use std::path::{Path, PathBuf};

/// Threads with a look-up each, and keys of a call.
const WAYS: [(u64, u64); 3] = [(1, 1), (16, 1), (1, 4096)];

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let engines = Engine::all(run);
    for shape in shapes(run) {
        for engine in &engines {
            engine.say_settings(run, shape)?;
            contests(run, engine, shape)?;
        }
    }
    Ok(())
}

fn contests(run: &mut Run<'_>, engine: &Engine, shape: Shape) -> Result<()> {
    let folder = run.scratch()?.join(format!("{}-{}", engine.name(), shape.items.name()));
    let loaded_file = folder.with_extension("loaded");
    let is_wanted = run.wants(engine.name());
    if is_wanted && !run.is_child() {
        std::fs::create_dir_all(&folder)?;
        let done = engine.insert(&mut Clock::default(), shape, &folder, 0..shape.count)?;
        std::fs::write(&loaded_file, done.to_string())?;
    }
    // How far a rival came within its time, the parent process knows.
    let loaded = std::fs::read_to_string(&loaded_file).ok().and_then(|text| text.parse().ok());
    let shape = Shape { count: loaded.unwrap_or(shape.count), ..shape };
    for (seed, (threads, batch)) in (1..).zip(WAYS) {
        let calls: u64 = run.pick([128, 4_096, 100_000]);
        let lookups = if threads * batch == 1 { calls / 2 } else { calls.next_multiple_of(threads * batch) };
        let asking = Asking { lookups, threads, batch, seed };
        let case = if batch == 1 { Case::Get } else { Case::GetBatched };
        let mut contest = run
            .contest(case)
            .param("workload", shape.items.name())
            .param("items", shape.count)
            .param("memory_mib", shape.memory_bytes >> 20)
            .param("threads", threads)
            .param("batch", batch)
            .ops(usize::try_from(lookups)?)
            .memory_limit(shape.ram_bytes)
            .costly();
        if is_wanted && (batch == 1 || engine.takes_batches()) {
            let folder = &folder;
            contest = contest
                .share_of("device")
                .approximate("device", move |clock| device::read(clock, &largest_file(folder)?, asking))
                .approximate(engine.name(), move |clock| {
                    forget_files(folder)?;
                    let done = engine.get(clock, shape, folder, asking)?;
                    clock.did(done);
                    Ok(done)
                });
        }
        contest.finish()?;
    }
    if is_wanted && !run.is_child() && run.size() != Size::Smoke {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// All files of a folder and of those below it, with their lengths.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push((metadata.len(), entry.path()));
        }
    }
    Ok(found)
}

fn largest_file(folder: &Path) -> Result<PathBuf> {
    Ok(files(folder)?.into_iter().max().ok_or("a dictionary without a file")?.1)
}

/// Puts a dictionary out of the page cache.
fn forget_files(folder: &Path) -> Result<()> {
    files(folder)?.iter().try_for_each(|(_, file)| forget_file(file))
}
