//! Indexes in RAM: how many bits a key they take, how long a look-up and their making take.
//!
//! `ect` and `eph` are the plain ones; `overbank` is ours with its skip pointers, `overbank_paper` the same without.

use super::expected;
use super::plain::{BitString, Blocks, Codes, G, HMAX, Index};
use crate::{Case, Clock, Metric, Params, Random, Result, Run, digest_u64s};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::dictionary::{HashRank, HashRankOptions};

/// The most keys whose counts ours can Huffman code.
const OUR_HMAX: u64 = 128;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    trie_sizes(run)?;
    let hashes = hashes(run.pick([5_000, 300_000, 8_000_000]));
    builds(run, &hashes)?;
    ranks(run, &hashes, G, HMAX, true)?;
    let gs: &[u64] = run.pick([&[64], &[64, 1024], &[16, 32, 64, 128, 512, 1024]]);
    for &g in gs {
        ranks(run, &hashes, g, HMAX, false)?;
    }
    let hmaxes: &[u64] = run.pick([&[8], &[1, 16], &[1, 2, 4, 8, 16, 32, 128]]);
    for &hmax in hmaxes {
        ranks(run, &hashes, G, hmax, false)?;
    }
    Ok(())
}

/// Figures 3 and 6: expected bits a key of one trie, and what random ones take.
fn trie_sizes(run: &mut Run<'_>) -> Result<()> {
    let (keys_max, codes) = (run.pick([64, 512, 1024]), Codes::new(HMAX));
    let dense = expected::bits(keys_max, 1, expected::of_codes(&codes));
    let entropy = expected::bits(keys_max, 1, expected::of_entropy);
    for keys in (3..).map(|lg| 1 << lg).take_while(|keys| *keys <= keys_max) {
        let values = [
            ("expected", dense[keys as usize]),
            ("entropy", entropy[keys as usize]),
            ("ect", random_trie(&codes, keys, 1, run.pick([10, 100, 1000]))),
        ];
        trie_figures(run, keys, 1, values)?;
    }
    for block_items in run.pick([&[4][..], &[2, 8, 64], &[1, 2, 4, 8, 16, 32, 64, 128]]) {
        let keys = run.pick([64, 256, 256]);
        let values = [
            ("expected", expected::bits(keys, *block_items, expected::of_codes(&codes))[keys as usize]),
            ("entropy", expected::bits(keys, *block_items, expected::of_entropy)[keys as usize]),
            ("ect", random_trie(&codes, keys, *block_items, run.pick([10, 100, 1000]))),
        ];
        trie_figures(run, keys, *block_items, values)?;
    }
    Ok(())
}

fn trie_figures(
    run: &mut Run<'_>,
    keys: u64,
    block_items: u64,
    bits: [(&'static str, f64); 3],
) -> Result<()> {
    for (engine, bits) in bits {
        let params = Params::from_iter([
            ("keys".to_owned(), keys.into()),
            ("block_items".to_owned(), block_items.into()),
            ("hmax".to_owned(), HMAX.into()),
        ]);
        run.figure(Case::Encode, engine, Metric::BitsPerKey, bits / keys as f64, params)?;
    }
    Ok(())
}

/// Bits of a trie of random keys, the average of some.
fn random_trie(codes: &Codes, keys: u64, block_items: u64, tries: u64) -> f64 {
    let mut random = Random::new(keys);
    let mut bits = BitString::default();
    for _ in 0..tries {
        let mut paths: Vec<u64> = (0..keys).map(|_| random.next_u64()).collect();
        paths.sort_unstable();
        let first = random.below(block_items);
        codes.encode(&mut bits, &paths, Blocks { first, items: block_items });
    }
    bits.len() as f64 / tries as f64
}

fn hashes(count: usize) -> Vec<KeyHash> {
    let mut random = Random::new(9);
    let mut hashes: Vec<KeyHash> =
        (0..count).map(|_| KeyHash::new(random.next_u64(), random.next_u64())).collect();
    hashes.sort_unstable();
    hashes
}

fn highs(hashes: &[KeyHash]) -> Vec<u64> {
    hashes.iter().map(|hash| hash.high()).collect()
}

fn ours(hashes: &[KeyHash], options: HashRankOptions) -> Result<HashRank> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut builder = HashRank::builder(hashes.len() as u64, hasher, options)?;
    hashes.iter().try_for_each(|hash| builder.push(*hash))?;
    Ok(builder.finish())
}

/// Indexes of sorted hashes.
fn builds(run: &mut Run<'_>, hashes: &[KeyHash]) -> Result<()> {
    let highs = highs(hashes);
    run.contest(Case::Build)
        .param("hashes", hashes.len())
        .ops(hashes.len())
        .approximate("overbank", |clock: &mut Clock| {
            let index = clock.time(|| ours(hashes, HashRankOptions::new()))?;
            note(clock, index.memory_bytes() as u64 * 8, hashes.len());
            Ok(index.len())
        })
        .approximate("ect", |clock: &mut Clock| {
            let index = clock.time(|| Index::tries(&highs, G, HMAX))?;
            note(clock, index.size_bits(), hashes.len());
            Ok(1)
        })
        .approximate("eph", |clock: &mut Clock| {
            let index = clock.time(|| Index::functions(&highs))?;
            note(clock, index.size_bits(), hashes.len());
            Ok(1)
        })
        .finish()
}

/// Look-ups of random hashes with these knobs, and with external perfect hashing, which has none.
fn ranks(run: &mut Run<'_>, hashes: &[KeyHash], g: u64, hmax: u64, has_eph: bool) -> Result<()> {
    let highs = highs(hashes);
    let asked: usize = run.pick([500, 20_000, 200_000]);
    let mut random = Random::new(3);
    let places: Vec<usize> = (0..asked).map(|_| random.below(hashes.len() as u64) as usize).collect();
    let wanted = digest_u64s(places.iter().map(|place| *place as u64));
    let options = HashRankOptions::new().bucket_keys(g as u32).huffman_keys_max(hmax.min(OUR_HMAX) as u32);
    let our_indexes = [("overbank", options), ("overbank_paper", options.skip_keys_min(None))];
    let our_indexes = our_indexes.map(|(name, options)| (name, ours(hashes, options)));
    let tries = Index::tries(&highs, g, hmax)?;
    let functions = has_eph.then(|| Index::functions(&highs)).transpose()?;
    let (highs, places) = (&highs, &places);
    let mut contest =
        run.contest(Case::Rank).param("hashes", hashes.len()).param("g", g).param("hmax", hmax).ops(asked);
    for (name, index) in our_indexes {
        let index = index?;
        contest = contest.exact(name, move |clock| {
            let ranks: Vec<u64> =
                clock.time(|| places.iter().map(|place| index.rank(hashes[*place])).collect());
            note(clock, index.memory_bytes() as u64 * 8, hashes.len());
            Ok(digest_u64s(ranks))
        });
    }
    contest = contest.exact("ect", |clock| {
        let ranks: Vec<Option<u64>> =
            clock.time(|| places.iter().map(|place| tries.rank(highs[*place])).collect());
        note(clock, tries.size_bits(), hashes.len());
        let digest = digest_u64s(ranks.into_iter().flatten());
        if digest == wanted { Ok(digest) } else { Err("a plain trie tells a wrong rank".into()) }
    });
    if let Some(functions) = &functions {
        contest = contest.approximate("eph", |clock| {
            let ranks: Vec<Option<u64>> =
                clock.time(|| places.iter().map(|place| functions.rank(highs[*place])).collect());
            note(clock, functions.size_bits(), hashes.len());
            Ok(digest_u64s(ranks.into_iter().flatten()))
        });
    }
    contest.finish()
}

fn note(clock: &mut Clock, bits: u64, hashes: usize) {
    clock.note(Metric::BitsPerKey, bits as f64 / hashes as f64);
}
