//! The in-memory sketches, one core: updates, estimates and merges a second. Keys are hashed before the clock runs.

use crate::{Bench, Case, Clock, Random, Result, Run, Workload, digest_bytes, digest_u64s};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::{CountMin, DdSketch, HyperLogLog, SpaceSaving};

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "sketch",
    about: "count-min, HyperLogLog, space-saving, DDSketch: updates, estimates, merges",
    engines: &["overbank"],
    run,
};

/// Cells that stay in an L2 cache.
const COUNT_BYTES: usize = 1 << 20;
const COUNT_DEPTH: u32 = 4;
const HEAVY_CAPACITY: usize = 4096;
const KEY_BYTES: usize = 32;
const LG_REGISTERS: u32 = 14;
const QUANTILE_ERROR: f64 = 0.01;

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([2_000, 1_000_000, 8_000_000]);
    for workload in [Workload::Uniform, Workload::Zipf(1.1)] {
        let input = Input::new(workload, keys);
        count_min(run, &input)?;
        hyperloglog(run, &input)?;
        space_saving(run, &input)?;
    }
    ddsketch(run, keys)
}

/// A stream of keys with their hashes.
struct Input {
    workload: Workload,
    hasher: KeyHasher,
    hashes: Vec<KeyHash>,
    keys: Vec<[u8; KEY_BYTES]>,
}

impl Input {
    fn new(workload: Workload, count: usize) -> Self {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
        let widen = |key: u64| {
            let mut wide = [b'.'; KEY_BYTES];
            wide[..8].copy_from_slice(&key.to_le_bytes());
            wide
        };
        let keys: Vec<_> = workload.keys(count, 1).into_iter().map(widen).collect();
        let hashes = keys.iter().map(|key| hasher.hash(key)).collect();
        Self { workload, hasher, hashes, keys }
    }

    fn halves(&self) -> [std::ops::Range<usize>; 2] {
        let (half, all) = (self.keys.len() / 2, self.keys.len());
        [0..half, half..all]
    }
}

/// One case of one sketch: `body` does `ops` operations under the clock.
fn contest<'w>(
    run: &mut Run<'_>,
    (sketch, case, ops): (&str, Case, usize),
    input: &Input,
    body: impl FnMut(&mut Clock) -> Result<u64> + 'w,
) -> Result<()> {
    let keys = input.keys.len();
    let contest = run.contest(case).workload(input.workload).param("sketch", sketch);
    contest.param("keys", keys).ops(ops).exact("overbank", body).finish()
}

fn count_min(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let (name, keys) = ("count_min", input.keys.len());
    let empty = CountMin::<u32>::with_bytes(COUNT_BYTES, COUNT_DEPTH, 1, input.hasher)?;
    let filled = |range: std::ops::Range<usize>| {
        let mut sketch = empty.clone();
        sketch.update_batch(&input.hashes[range], None);
        sketch
    };
    contest(run, (name, Case::Update, keys), input, |clock| {
        let mut sketch = empty.clone();
        clock.time(|| sketch.update_batch(&input.hashes, None));
        Ok(digest_bytes(&sketch.to_bytes()))
    })?;
    let whole = filled(0..keys);
    contest(run, (name, Case::Estimate, keys), input, |clock| {
        Ok(clock.time(|| digest_u64s(input.hashes.iter().map(|&hash| whole.estimate(hash)))))
    })?;
    let [first, second] = input.halves().map(filled);
    contest(run, (name, Case::Merge, 1), input, |clock| {
        let mut merged = first.clone();
        clock.time(|| merged.merge(&second))?;
        Ok(digest_bytes(&merged.to_bytes()))
    })
}

fn hyperloglog(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let (name, keys) = ("hyperloglog", input.keys.len());
    let empty = HyperLogLog::new(LG_REGISTERS, input.hasher)?;
    let filled = |range: std::ops::Range<usize>| {
        let mut sketch = empty.clone();
        sketch.update_batch(&input.hashes[range]);
        sketch
    };
    contest(run, (name, Case::Update, keys), input, |clock| {
        let mut sketch = empty.clone();
        clock.time(|| sketch.update_batch(&input.hashes));
        Ok(digest_bytes(&sketch.to_bytes()))
    })?;
    let whole = filled(0..keys);
    contest(run, (name, Case::Estimate, 1), input, |clock| Ok(clock.time(|| whole.estimate().to_bits())))?;
    let [first, second] = input.halves().map(filled);
    contest(run, (name, Case::Merge, 1), input, |clock| {
        let mut merged = first.clone();
        clock.time(|| merged.merge(&second))?;
        Ok(digest_bytes(&merged.to_bytes()))
    })
}

fn space_saving(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let (name, keys) = ("space_saving", input.keys.len());
    let empty = SpaceSaving::new(HEAVY_CAPACITY, KEY_BYTES, input.hasher)?;
    let rows = |range: std::ops::Range<usize>| input.hashes[range.clone()].iter().zip(&input.keys[range]);
    let filled = |range| {
        let mut sketch = empty.clone();
        rows(range).for_each(|(&hash, key)| sketch.update(hash, key, 1));
        sketch
    };
    contest(run, (name, Case::Update, keys), input, |clock| {
        // Not a clone, which would have no room to grow without allocating.
        let mut sketch = SpaceSaving::new(HEAVY_CAPACITY, KEY_BYTES, input.hasher)?;
        clock.time(|| rows(0..keys).for_each(|(&hash, key)| sketch.update(hash, key, 1)));
        Ok(digest_bytes(&sketch.to_bytes()))
    })?;
    let whole = filled(0..keys);
    // Absent keys have the bound that `absent_upper_bound` gives once for all of them.
    let present: Vec<KeyHash> = whole.top(HEAVY_CAPACITY).iter().map(|heavy| heavy.hash).collect();
    contest(run, (name, Case::Estimate, present.len()), input, |clock| {
        Ok(clock.time(|| digest_u64s(present.iter().map(|&hash| whole.estimate(hash).estimate))))
    })?;
    let [first, second] = input.halves().map(filled);
    contest(run, (name, Case::Merge, 1), input, |clock| {
        let mut merged = first.clone();
        clock.time(|| merged.merge(&second))?;
        Ok(digest_bytes(&merged.to_bytes()))
    })
}

/// Values over six decades, as latencies are.
fn ddsketch(run: &mut Run<'_>, count: usize) -> Result<()> {
    const RANKS: usize = 1000;
    let mut random = Random::new(3);
    let values: Vec<f64> = (0..count).map(|_| 10f64.powf(6.0 * random.unit())).collect();
    let empty = DdSketch::new(QUANTILE_ERROR)?;
    let filled = |values: &[f64]| {
        let mut sketch = empty.clone();
        values.iter().for_each(|&value| sketch.update(value, 1));
        sketch
    };
    let (first, second) = values.split_at(count / 2);
    let (whole, first, second) = (filled(&values), filled(first), filled(second));
    let contest = |run: &mut Run<'_>, case, ops, body: &mut dyn FnMut(&mut Clock) -> Result<u64>| {
        let contest = run.contest(case).param("sketch", "ddsketch").param("values", count);
        contest.ops(ops).exact("overbank", body).finish()
    };
    contest(run, Case::Update, count, &mut |clock| {
        let mut sketch = empty.clone();
        clock.time(|| values.iter().for_each(|&value| sketch.update(value, 1)));
        Ok(digest_bytes(&sketch.to_bytes()))
    })?;
    contest(run, Case::Estimate, RANKS, &mut |clock| {
        let ranks = (0..RANKS).map(|rank| rank as f64 / RANKS as f64);
        let found = |rank| whole.quantile(rank).map_or(0, f64::to_bits);
        Ok(clock.time(|| digest_u64s(ranks.map(found))))
    })?;
    contest(run, Case::Merge, 1, &mut |clock| {
        let mut merged = first.clone();
        clock.time(|| merged.merge(&second))?;
        Ok(digest_bytes(&merged.to_bytes()))
    })
}
