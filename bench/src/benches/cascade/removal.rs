//! What removals cost inserts: a tenth of the operations takes back older keys, or none does.
//!
//! After chunk `c` of the stream, a ninth of the keys of chunk `c / 2` is removed: another ninth by each of the two chunks
//! that come to it, so no key twice. These keys are deep in the levels by then.

use super::engine::Engine;
use super::filter::{BATCH_KEYS, Filter, check};
use super::keys::Keys;
use super::{RATE, Shape};
use crate::{Case, Clock, Metric, Result, Run, folder_bytes};
use std::path::Path;
use std::time::Instant;

const WITH: Engine = Engine::Paper { has_tombstones: true };
const WITHOUT: Engine = Engine::Paper { has_tombstones: false };
const OURS: Engine = Engine::Overbank { writers: 1 };

pub(super) fn contests(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    contest(run, shape, false, &[WITHOUT, WITH, OURS])?;
    contest(run, shape, true, &[WITH, OURS])
}

fn contest(run: &mut Run<'_>, shape: Shape, removes: bool, engines: &[Engine]) -> Result<()> {
    let scratch = run.scratch()?;
    let mut contest = run
        .contest(Case::Insert)
        .param("workload", "uniform")
        .param("keys", shape.keys)
        .param("removals", if removes { 0.1 } else { 0.0 })
        .param("rate", RATE)
        .ops(usize::try_from(shape.keys)?)
        .memory_limit(shape.ram_bytes)
        .costly();
    for &engine in engines.iter().filter(|engine| engine.is_here()) {
        let scratch = scratch.clone();
        contest =
            contest.approximate(engine.name(), move |clock| sample(clock, engine, shape, removes, &scratch));
    }
    contest.finish()
}

fn sample(clock: &mut Clock, engine: Engine, shape: Shape, removes: bool, scratch: &Path) -> Result<u64> {
    let folder = tempfile::tempdir_in(scratch)?;
    // Tombstones are entries too, until they meet what they take back.
    let room = Shape { keys: shape.keys / 9 * 10, ..shape };
    let mut filter = engine.create(folder.path(), room)?;
    let (keys, mut ops) = (Keys::new(shape.keys), 0);
    let until = engine.patience(shape).map(|patience| Instant::now() + patience);
    clock.time(|| {
        for chunk in 0..keys.chunks() {
            ops += insert(&mut *filter, keys, chunk)?;
            if removes {
                ops += remove(&mut *filter, keys, chunk)?;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
        }
        filter.finish()
    })?;
    clock.did(ops);
    clock.note(Metric::FlashBytes, folder_bytes(folder.path())? as f64);
    // The first two ninths of an early chunk may be gone.
    let kept = keys.first(keys.keys_of(0)).split_off(2 * removed_keys(keys, 0));
    check(engine.name(), &mut *filter, &kept[..kept.len().min(500)])?;
    Ok(ops)
}

fn insert(filter: &mut dyn Filter, keys: Keys, chunk: u64) -> Result<u64> {
    let mut ops = 0;
    keys.for_batches(chunk, BATCH_KEYS, |hashes| -> Result<bool> {
        filter.insert(hashes)?;
        ops += hashes.len() as u64;
        Ok(true)
    })?;
    Ok(ops)
}

/// Keys that a visit of a chunk removes.
fn removed_keys(keys: Keys, chunk: u64) -> usize {
    keys.keys_of(chunk) / 9
}

/// Removes what is due after `chunk`.
fn remove(filter: &mut dyn Filter, keys: Keys, chunk: u64) -> Result<u64> {
    let (ninth, removed) = ((chunk % 2) as usize, removed_keys(keys, chunk / 2));
    let due = ninth * removed..(ninth + 1) * removed;
    let hashes = keys.part(chunk / 2, due);
    filter.remove(&hashes)?;
    Ok(hashes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::keys::CHUNK_KEYS;
    use super::*;
    use keyhash::KeyHash;
    use std::collections::HashSet;

    /// A set that refuses to remove what is not in.
    #[derive(Default)]
    struct Exact(HashSet<KeyHash>);

    impl Filter for Exact {
        fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
            self.0.extend(hashes);
            Ok(())
        }

        fn remove(&mut self, hashes: &[KeyHash]) -> Result<()> {
            let is_in = hashes.iter().all(|hash| self.0.remove(hash));
            if is_in { Ok(()) } else { Err("it was not in".into()) }
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }

        fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
            Ok(hashes.iter().map(|hash| self.0.contains(hash)).collect())
        }
    }

    #[test]
    fn a_tenth_of_the_operations_removes_keys_that_are_in() {
        let (keys, mut exact) = (Keys::new(5 * CHUNK_KEYS), Exact::default());
        let (mut inserts, mut removals) = (0, 0);
        for chunk in 0..5 {
            inserts += insert(&mut exact, keys, chunk).expect("inserted");
            removals += remove(&mut exact, keys, chunk).expect("each was in, once");
        }
        assert_eq!(removals, 5 * removed_keys(keys, 0) as u64);
        assert!((removals as f64 / (inserts + removals) as f64 - 0.1).abs() < 1e-4);
        let kept = keys.first(CHUNK_KEYS as usize).split_off(2 * removed_keys(keys, 0));
        check("exact", &mut exact, &kept).expect("these stay");
    }
}
