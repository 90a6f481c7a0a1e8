//! Batches of new items, each a quarter of what was loaded before: merged into it, and by loading everything anew after each.

use super::asking::Asking;
use super::engine::Engine;
use super::{Shape, shapes};
use crate::{Case, Clock, Result, Run};
use std::path::Path;

/// Look-ups that a sample is checked with.
const WITNESSES: u64 = 200;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let engines = Engine::all(run);
    let papers: Vec<Engine> =
        engines.iter().filter(|engine| !matches!(engine, Engine::Rival(..))).cloned().collect();
    // Batches, and what part of the items of the bench of loads is loaded before: a merge has the old items and the new ones on disk.
    let points: &[(u64, u64)] = run.pick([&[(2, 2)], &[(2, 2)], &[(1, 1), (5, 2)]]);
    for shape in shapes(run) {
        for &(batches, part) in points {
            let shape = Shape { count: shape.count / part, ..shape };
            contest(run, &engines, shape, batches, Way::Update)?;
            if batches > 1 {
                contest(run, &papers, shape, batches, Way::Anew)?;
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Update,
    Anew,
}

fn contest(run: &mut Run<'_>, engines: &[Engine], shape: Shape, batches: u64, way: Way) -> Result<()> {
    let scratch = run.scratch()?;
    let batch = shape.count / 4;
    let mut contest = run
        .contest(if way == Way::Update { Case::Update } else { Case::Build })
        .param("workload", shape.items.name())
        .param("items_before", shape.count)
        .param("batches", batches)
        .param("batch_items", batch)
        .param("memory_mib", shape.memory_bytes >> 20)
        .ops(usize::try_from(batch * batches)?)
        .memory_limit(shape.ram_bytes)
        .costly();
    for engine in engines {
        let scratch = scratch.clone();
        contest = contest.exact(engine.name(), move |clock| match way {
            Way::Update => update(clock, engine, shape, batches, &scratch),
            Way::Anew => anew(clock, engine, shape, batches, &scratch),
        });
    }
    contest.finish()
}

fn update(clock: &mut Clock, engine: &Engine, shape: Shape, batches: u64, scratch: &Path) -> Result<u64> {
    let folder = tempfile::tempdir_in(scratch)?;
    let mut count = engine.insert(&mut Clock::default(), shape, folder.path(), 0..shape.count)?;
    let (before, batch) = (count, shape.count / 4);
    for _ in 0..batches {
        let done = engine.insert(clock, shape, folder.path(), count..count + batch)?;
        count += done;
        if done < batch {
            break;
        }
    }
    clock.did(count - before);
    check(engine, shape, count, folder.path())
}

fn anew(clock: &mut Clock, engine: &Engine, shape: Shape, batches: u64, scratch: &Path) -> Result<u64> {
    for batch in 1..=batches {
        let folder = tempfile::tempdir_in(scratch)?;
        let count = shape.count + shape.count / 4 * batch;
        let done = engine.insert(clock, shape, folder.path(), 0..count)?;
        check(engine, shape, done, folder.path())?;
    }
    Ok(1)
}

/// The digest is that what was looked up was right.
fn check(engine: &Engine, shape: Shape, count: u64, folder: &Path) -> Result<u64> {
    let asking = Asking { lookups: WITNESSES, threads: 1, batch: 1, seed: 5 };
    engine.get(&mut Clock::default(), Shape { count, ..shape }, folder, asking)?;
    Ok(1)
}
