//! Loads: unsorted items until everything is on disk, synced, and ready to be asked; over engines, then over items and memory.

use super::asking::Asking;
use super::engine::Engine;
use super::{Shape, shapes};
use crate::{Case, Clock, Result, Run};
use std::path::Path;

/// Look-ups that a sample is checked with.
const WITNESSES: u64 = 200;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let engines = Engine::all(run);
    for shape in shapes(run) {
        engines.iter().try_for_each(|engine| engine.say_settings(run, shape))?;
        contest(run, &engines, shape)?;
    }
    // The figures over memory and over items are of the engines that the paper has.
    let ours_and_papers: Vec<Engine> =
        engines.into_iter().filter(|engine| !matches!(engine, Engine::Rival(..))).collect();
    for shape in shapes(run) {
        let memories: &[usize] = run.pick([&[], &[16], &[64, 128, 256, 512]]);
        for memory_mib in memories {
            contest(run, &ours_and_papers, Shape { memory_bytes: memory_mib << 20, ..shape })?;
        }
        let parts: &[u64] = run.pick([&[], &[4], &[8, 4, 2]]);
        for part in parts {
            contest(run, &ours_and_papers, Shape { count: shape.count / part, ..shape })?;
        }
    }
    Ok(())
}

fn contest(run: &mut Run<'_>, engines: &[Engine], shape: Shape) -> Result<()> {
    let scratch = run.scratch()?;
    let mut contest = run
        .contest(Case::Load)
        .param("workload", shape.items.name())
        .param("items", shape.count)
        .param("memory_mib", shape.memory_bytes >> 20)
        .ops(usize::try_from(shape.count)?)
        .memory_limit(shape.ram_bytes)
        .costly();
    for engine in engines {
        let scratch = scratch.clone();
        contest = contest.exact(engine.name(), move |clock| sample(clock, engine, shape, &scratch));
    }
    contest.finish()
}

/// The digest is that what was looked up afterwards was right.
fn sample(clock: &mut Clock, engine: &Engine, shape: Shape, scratch: &Path) -> Result<u64> {
    let folder = tempfile::tempdir_in(scratch)?;
    let done = engine.insert(clock, shape, folder.path(), 0..shape.count)?;
    clock.did(done);
    let asking = Asking { lookups: WITNESSES, threads: 1, batch: 1, seed: 5 };
    engine.get(&mut Clock::default(), Shape { count: done, ..shape }, folder.path(), asking)?;
    Ok(1)
}
