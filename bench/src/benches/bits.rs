//! Access to a compressed monotone sequence, and decoding of blocks: ours against plain vectors, which need
//! more room.

use crate::{Bench, Case, Clock, Metric, Params, Random, Result, Run, Workload, digest_u64s};
use overbank::bits::{BLOCK_VALUES, EliasFano, decode_deltas, encode_deltas};

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "bits",
    about: "Elias-Fano access and search, blocks of 128 decoded",
    engines: &["overbank", "sorted_vec"],
    run,
};

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([1_000, 1_000_000, 1_000_000]);
    let mut sorted = Workload::Uniform.keys(keys, 1);
    sorted.sort_unstable();
    let sequence = EliasFano::from_sorted(&sorted);
    let params = Params::from_iter([("keys".to_owned(), keys.into())]);
    let bits = sequence.memory_bytes() as f64 * 8.0 / keys as f64;
    run.figure(Case::Build, "overbank", Metric::BitsPerKey, bits, params)?;

    let mut random = Random::new(2);
    let indexes: Vec<usize> = (0..keys).map(|_| random.below(keys as u64) as usize).collect();
    let probes: Vec<u64> = (0..keys).map(|_| random.next_u64()).collect();
    let (sorted, sequence, indexes, probes) = (&sorted[..], &sequence, &indexes[..], &probes[..]);
    run.contest(Case::Get)
        .param("keys", keys)
        .ops(keys)
        .exact("overbank", |clock: &mut Clock| {
            let found: Vec<u64> = clock.time(|| indexes.iter().map(|&index| sequence.get(index)).collect());
            Ok(digest_u64s(found))
        })
        .exact("sorted_vec", |clock: &mut Clock| {
            let found: Vec<u64> = clock.time(|| indexes.iter().map(|&index| sorted[index]).collect());
            Ok(digest_u64s(found))
        })
        .finish()?;
    run.contest(Case::Rank)
        .param("keys", keys)
        .ops(keys)
        .exact("overbank", |clock: &mut Clock| {
            let found: Vec<u64> =
                clock.time(|| probes.iter().map(|&probe| sequence.rank(probe) as u64).collect());
            Ok(digest_u64s(found))
        })
        .exact("sorted_vec", |clock: &mut Clock| {
            let below = |probe: u64| sorted.partition_point(|&value| value < probe) as u64;
            let found: Vec<u64> = clock.time(|| probes.iter().map(|&probe| below(probe)).collect());
            Ok(digest_u64s(found))
        })
        .finish()?;

    let mut bytes = Vec::new();
    let mut previous = 0;
    let (blocks, _) = sorted.as_chunks::<BLOCK_VALUES>();
    for block in blocks {
        encode_deltas(previous, block, &mut bytes);
        previous = block[BLOCK_VALUES - 1];
    }
    let bytes = &bytes[..];
    run.contest(Case::Decode)
        .param("keys", keys)
        .param("codec", "deltas")
        .ops(blocks.len() * BLOCK_VALUES)
        .exact("overbank", |clock: &mut Clock| {
            let mut values = vec![[0; BLOCK_VALUES]; blocks.len()];
            clock.time(|| -> Result<()> {
                let (mut rest, mut previous) = (bytes, 0);
                for block in &mut values {
                    let taken = decode_deltas(previous, rest, block)?;
                    rest = &rest[taken..];
                    previous = block[BLOCK_VALUES - 1];
                }
                Ok(())
            })?;
            Ok(digest_u64s(values.into_iter().flatten()))
        })
        .exact("sorted_vec", |clock: &mut Clock| {
            let mut values = vec![[0; BLOCK_VALUES]; blocks.len()];
            clock.time(|| values.copy_from_slice(blocks));
            Ok(digest_u64s(values.into_iter().flatten()))
        })
        .finish()
}
