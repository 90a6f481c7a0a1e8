//! Real keys in their order, twice over: which of them had been seen before?
//!
//! Host names are all different, so the second time all have been; a genome's k-mers repeat a little in the first. Both samples
//! are small: with the least share of the RAM that ours accepts, every filter keeps nearly all in it.

use super::engine::Engine;
use super::filter::{BATCH_KEYS, Filter};
use super::{LEAST_MEMORY_BYTES, RATE, Shape, hasher};
use crate::{Case, Clock, Metric, Result, Run};
use keyhash::KeyHash;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Letters of a k-mer, two bits each.
const KMER_LETTERS: u32 = 31;

/// How often the sample comes.
const PASSES: usize = 2;

/// The hashes of all keys, 16 bytes each, and the exact set have to fit beside the filter.
const RAM_BYTES: u64 = 384 << 20;

/// Keys between two looks at the time.
const PART_KEYS: usize = 64;

pub(super) fn contests(run: &mut Run<'_>) -> Result<()> {
    let most = run.pick([1_000, 300_000, usize::MAX]);
    let patience = run.pick([100, 2_000, 60_000].map(Duration::from_millis));
    let testdata = run.testdata();
    for (name, hashes) in [("hosts", hosts(&testdata, most)?), ("kmers", kmers(&testdata, most)?)] {
        let keys = hashes.len() as u64;
        contest(
            run,
            name,
            &hashes,
            Shape { keys, memory_bytes: LEAST_MEMORY_BYTES, ram_bytes: RAM_BYTES, patience },
        )?;
    }
    Ok(())
}

fn contest(run: &mut Run<'_>, name: &str, hashes: &[KeyHash], shape: Shape) -> Result<()> {
    let scratch = run.scratch()?;
    let mut contest = run
        .contest(Case::Dedup)
        .param("workload", name)
        .param("keys", hashes.len())
        .param("passes", PASSES)
        .param("memory_kib", shape.memory_bytes >> 10)
        .param("rate", RATE)
        .ops(hashes.len() * PASSES)
        .memory_limit(shape.ram_bytes)
        .costly()
        .approximate("hash_set", |clock| sample_set(clock, hashes));
    let engines =
        [Engine::Paper { has_tombstones: false }, Engine::Overbank { writers: 1 }, Engine::MmapBloom];
    for engine in engines.into_iter().filter(|engine| engine.is_here()) {
        let scratch = scratch.clone();
        contest = contest.approximate(engine.name(), move |clock| {
            let folder = tempfile::tempdir_in(&scratch)?;
            let mut filter = engine.create(folder.path(), shape)?;
            let until = engine.patience(shape).map(|patience| Instant::now() + patience);
            sample(clock, &mut *filter, hashes, until)
        });
    }
    contest.finish()
}

/// What is right.
fn sample_set(clock: &mut Clock, hashes: &[KeyHash]) -> Result<u64> {
    let mut set = HashSet::new();
    let new = clock.time(|| (0..PASSES).flat_map(|_| hashes).filter(|hash| set.insert(**hash)).count());
    note(clock, new, hashes.len() * PASSES);
    Ok(new as u64)
}

fn sample(
    clock: &mut Clock,
    filter: &mut dyn Filter,
    hashes: &[KeyHash],
    until: Option<Instant>,
) -> Result<u64> {
    let part_keys = if until.is_some() { PART_KEYS } else { BATCH_KEYS };
    let (mut new, mut done) = (0, 0);
    clock.time(|| {
        for part in (0..PASSES).flat_map(|_| hashes.chunks(part_keys)) {
            new += filter.insert_if_absent(part)?.iter().filter(|&&is_new| is_new).count();
            done += part.len();
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
        }
        filter.finish()
    })?;
    clock.did(done as u64);
    if done == hashes.len() * PASSES {
        note(clock, new, done);
    }
    Ok(new as u64)
}

fn note(clock: &mut Clock, new: usize, done: usize) {
    clock.note(Metric::SeenShare, 1.0 - new as f64 / done.max(1) as f64);
}

/// The first host names of the list, in its order.
fn hosts(testdata: &Path, most: usize) -> Result<Vec<KeyHash>> {
    let file = File::open(testdata.join("hsts_hosts.txt.zst"))?;
    let lines = BufReader::new(zstd::Decoder::new(file)?).lines();
    lines.take(most).map(|line| Ok(hasher().hash(line?.as_bytes()))).collect()
}

/// The first k-mers of one strand, in its order.
fn kmers(testdata: &Path, most: usize) -> Result<Vec<KeyHash>> {
    let file = File::open(testdata.join("ecoli_MG1655-K12.fasta.gz"))?;
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut text)?;
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b">"));
    let (mut hashes, mut kmer, mut letters) = (Vec::new(), 0u64, 0);
    for letter in lines.flatten() {
        if hashes.len() == most {
            break;
        }
        let Some(code) = b"ACGT".iter().position(|base| base == letter) else {
            // Not known which base: no k-mer goes over it.
            letters = 0;
            continue;
        };
        kmer = (kmer << 2 | code as u64) & ((1 << (2 * KMER_LETTERS)) - 1);
        letters += 1;
        if letters >= KMER_LETTERS {
            hashes.push(hasher().hash_u64(kmer));
        }
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_as_long_as_they_are() {
        let testdata = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata"));
        assert_eq!(hosts(testdata, usize::MAX).expect("unpacked").len(), 161_019);
        assert_eq!(kmers(testdata, 100).expect("unpacked").len(), 100);
        let kmers = kmers(testdata, usize::MAX).expect("unpacked");
        assert_eq!(kmers.len(), 4_639_675 - (KMER_LETTERS as usize - 1));
    }
}
