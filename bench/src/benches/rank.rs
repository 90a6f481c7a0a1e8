//! Ranks of hashes by entropy-coded tries over both knobs and the pointers (figures 10 and 11 of the paper), and the sparse index: how many
//! bits an item, how fast. Beside them the hashes themselves, sorted, which take 128 bits each.

use crate::digest::mix;
use crate::{Bench, Case, Clock, Metric, Params, Random, Result, Run, digest_u64s};
use overbank::dictionary::{HashRank, HashRankOptions};
use overbank::trie::{SparseOptions, SparseTries};
use overbank::{HashKind, KeyHash, KeyHasher, Seed};
use serde_json::Value;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "rank",
    about: "ranks of hashes in 2.5 bits each, and blocks in fewer, over bucket sizes and codes",
    engines: &["overbank", "sorted_vec"],
    run,
};

/// Bucket size, most keys of a Huffman code, fewest keys of a skip pointer; the default first, the paper's own second.
const SHAPES: &[(u32, u32, Option<u32>)] = &[
    (244, 128, Some(128)),
    (256, 64, None),
    (244, 128, Some(64)),
    (244, 128, Some(32)),
    (32, 64, None),
    (64, 64, None),
    (128, 64, None),
    (512, 64, None),
    (512, 128, Some(128)),
    (256, 1, None),
    (256, 8, None),
    (256, 16, None),
    (256, 32, None),
    (256, 128, None),
];

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([2_000, 1_000_000, 16_000_000]);
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
    let mut hashes: Vec<KeyHash> = (0..keys as u64).map(|key| hasher.hash_u64(mix(key))).collect();
    hashes.sort_unstable();
    let mut random = Random::new(2);
    let asked: Vec<KeyHash> = (0..run.pick([1_000, 500_000, 2_000_000]))
        .map(|_| hashes[random.below(keys as u64) as usize])
        .collect();
    for &(bucket_keys, huffman_keys_max, skip_keys_min) in SHAPES {
        let options = HashRankOptions::new()
            .bucket_keys(bucket_keys)
            .huffman_keys_max(huffman_keys_max)
            .skip_keys_min(skip_keys_min);
        let knobs = [
            ("bucket_keys", Value::from(bucket_keys)),
            ("huffman_keys_max", Value::from(huffman_keys_max)),
            ("skip_keys_min", Value::from(skip_keys_min)),
        ];
        measure(run, &hashes, &asked, hasher, options, &knobs)?;
    }
    for block_items in [256, 40, 4] {
        measure_sparse(run, &hashes, &asked, block_items)?;
    }
    Ok(())
}

fn measure(
    run: &mut Run<'_>,
    hashes: &[KeyHash],
    asked: &[KeyHash],
    hasher: KeyHasher,
    options: HashRankOptions,
    knobs: &[(&str, Value)],
) -> Result<()> {
    let build = || -> Result<HashRank> {
        let mut builder = HashRank::builder(hashes.len() as u64, hasher, options)?;
        for hash in hashes {
            builder.push(*hash)?;
        }
        Ok(builder.finish())
    };
    let ranks = build()?;
    let bits = |bits: u64| bits as f64 / hashes.len() as f64;
    let all = ranks.memory_bytes() as u64 * 8;
    for (part, found) in [("all", all), ("tries", ranks.trie_bits()), ("directory", all - ranks.trie_bits())]
    {
        let mut params: Params =
            knobs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        params.insert("keys".into(), hashes.len().into());
        params.insert("part".into(), part.into());
        run.figure(Case::Build, "overbank", Metric::BitsPerKey, bits(found), params)?;
    }
    let with_knobs = |mut contest: crate::Contest<'_, '_, '_>| -> Result<()> {
        for (name, value) in knobs {
            contest = contest.param(name, value.clone());
        }
        contest.param("keys", hashes.len()).finish()
    };
    let contest = run.contest(Case::Build).ops(hashes.len());
    with_knobs(contest.exact("overbank", |clock: &mut Clock| {
        let built = clock.time(build)?;
        Ok(built.len())
    }))?;
    let contest = run.contest(Case::Rank).param("batched", false).ops(asked.len());
    with_knobs(
        contest
            .exact("overbank", |clock: &mut Clock| {
                let found: Vec<u64> = clock.time(|| asked.iter().map(|hash| ranks.rank(*hash)).collect());
                Ok(digest_u64s(found))
            })
            .exact("sorted_vec", |clock: &mut Clock| {
                let below = |hash: &KeyHash| hashes.partition_point(|other| other < hash) as u64;
                let found: Vec<u64> = clock.time(|| asked.iter().map(below).collect());
                Ok(digest_u64s(found))
            }),
    )?;
    let contest = run.contest(Case::Rank).param("batched", true).ops(asked.len());
    with_knobs(contest.exact("overbank", |clock: &mut Clock| {
        let found = clock.time(|| ranks.rank_many(asked));
        Ok(digest_u64s(found))
    }))
}

fn measure_sparse(run: &mut Run<'_>, hashes: &[KeyHash], asked: &[KeyHash], block_items: u32) -> Result<()> {
    let build = || -> Result<SparseTries> {
        let options = SparseOptions::for_blocks_of(block_items);
        let mut builder = SparseTries::builder(0..=u64::MAX, hashes.len() as u64, block_items, options)?;
        for hash in hashes {
            builder.push(*hash)?;
        }
        Ok(builder.finish())
    };
    let tries = build()?;
    let params = Params::from_iter([
        ("keys".to_owned(), hashes.len().into()),
        ("block_items".to_owned(), block_items.into()),
    ]);
    let bits = tries.memory_bytes() as f64 * 8.0 / hashes.len() as f64;
    run.figure(Case::Build, "overbank", Metric::BitsPerKey, bits, params)?;
    run.contest(Case::Build)
        .param("keys", hashes.len())
        .param("block_items", block_items)
        .ops(hashes.len())
        .exact("overbank", |clock: &mut Clock| Ok(clock.time(build)?.len()))
        .finish()?;
    run.contest(Case::Rank)
        .param("keys", hashes.len())
        .param("block_items", block_items)
        .ops(asked.len())
        .exact("overbank", |clock: &mut Clock| {
            let found: Vec<u64> = clock.time(|| asked.iter().map(|hash| tries.find(*hash).start).collect());
            Ok(digest_u64s(found))
        })
        .exact("sorted_vec", |clock: &mut Clock| {
            let block =
                |hash: &KeyHash| hashes.partition_point(|other| other < hash) as u64 / u64::from(block_items);
            let found: Vec<u64> = clock.time(|| asked.iter().map(block).collect());
            Ok(digest_u64s(found))
        })
        .finish()
}
