//! Runs of a filter on a device in memory, and packed ones in RAM without a device: written, read, merged and asked, at several
//! densities; against plain arrays of the fingerprints, which take 64 bits each.

use crate::{Bench, Case, Clock, Metric, Params, Random, Result, Run, Workload, digest_u64s};
use overbank::device::memory::MemoryDevice;
use overbank::filter::run::{
    Entries, Merge, MergeOptions, PackedRun, RunInfo, RunKind, RunWriter, Sign, Source, count_many,
};
use overbank::store::{Files, Store, StoreOptions};
use overbank::{HashKind, filter};
use std::sync::Arc;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "filter_runs",
    about: "packed runs of fingerprints: encode, decode, merges, lookups, bits a key",
    engines: &["overbank", "packed", "sorted_vec"],
    run,
};

/// Remainder bits: those of the paper's evaluation, dense and sparse ones.
const REMAINDER_BITS: [u32; 4] = [4, 11, 20, 36];

/// Probes of a sparse batch, and keys for each one of a dense batch.
const SPARSE_PROBES: usize = 1 << 12;
const DENSE_KEYS: usize = 8;
/// Reads that are in flight.
const DEPTH: usize = 32;
/// Packed runs that are merged at once.
const WAYS: usize = 8;

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([10_000, 1 << 22, 1 << 24]);
    for remainder_bits in REMAINDER_BITS {
        density(run, keys, remainder_bits)?;
    }
    Ok(())
}

fn density(run: &mut Run<'_>, keys: usize, remainder_bits: u32) -> Result<()> {
    let kind = RunKind {
        fingerprint_bits: keys.ilog2() + remainder_bits,
        seed_fingerprint: 1,
        hash_kind: HashKind::Xxh3,
        sign: Sign::Insertions,
    };
    let store = Store::create_on(Arc::new(MemoryDevice::new()), StoreOptions::new().reserve_bytes(0))?;
    let files = store.files();
    // Two halves for the merge, and their union, which has the density asked for.
    let halves = [fingerprints(keys / 2, kind, 1), fingerprints(keys / 2, kind, 2)];
    let mut all = halves.concat();
    all.sort_unstable();
    all.dedup();
    let info = write(files, kind, &all)?;
    let whole = filter::run::FingerprintSegment::open(files, &info.file, kind)?;
    let params = Params::from_iter([
        ("keys".to_owned(), all.len().into()),
        ("remainder_bits".to_owned(), remainder_bits.into()),
    ]);
    let bits = info.file.bytes as f64 * 8.0 / info.fingerprints as f64;
    run.figure(Case::Build, "overbank", Metric::BitsPerKey, bits, params.clone())?;
    let packed = PackedRun::new(kind, &all)?;
    let bits = packed.memory_bytes() as f64 * 8.0 / packed.fingerprints() as f64;
    run.figure(Case::Build, "packed", Metric::BitsPerKey, bits, params)?;

    let (all, whole, packed) = (&all[..], &whole, &packed);
    run.contest(Case::Encode)
        .param("keys", all.len())
        .param("remainder_bits", remainder_bits)
        .ops(all.len())
        .exact("overbank", |clock: &mut Clock| {
            let info = clock.time(|| write(files, kind, all))?;
            files.discard(info.file.id)?;
            Ok(info.fingerprints)
        })
        .exact("packed", |clock: &mut Clock| Ok(clock.time(|| PackedRun::new(kind, all))?.fingerprints()))
        .finish()?;
    run.contest(Case::Decode)
        .param("keys", all.len())
        .param("remainder_bits", remainder_bits)
        .ops(all.len())
        .exact("overbank", |clock: &mut Clock| {
            let mut entries = Entries::default();
            let sum = clock.time(|| -> overbank::Result<u64> {
                let mut cursor = whole.cursor(false)?;
                let mut sum = 0u64;
                while cursor.next_block(&mut entries)? {
                    sum = sum
                        .wrapping_add(entries.fingerprints()[entries.len() / 2])
                        .wrapping_add(entries.len() as u64);
                    entries.clear();
                }
                Ok(sum)
            })?;
            Ok(sum)
        })
        .finish()?;
    merge(run, files, kind, &halves, remainder_bits)?;
    merge_packed(run, files, kind, all, remainder_bits)?;
    for probes in [SPARSE_PROBES, all.len() / DENSE_KEYS] {
        lookups(run, files, (whole, packed), all, probes)?;
    }
    Ok(())
}

/// Merges packed runs, to one in RAM and to one on the device.
fn merge_packed(
    run: &mut Run<'_>,
    files: &Files,
    kind: RunKind,
    all: &[u64],
    remainder_bits: u32,
) -> Result<()> {
    let part = |i| all.iter().skip(i).step_by(WAYS).copied().collect::<Vec<u64>>();
    let parts = (0..WAYS).map(|i| Ok(Arc::new(PackedRun::new(kind, &part(i))?)));
    let parts: Vec<Arc<PackedRun>> = parts.collect::<Result<_>>()?;
    let sources: Vec<_> = parts.iter().cloned().map(Source::Memory).collect();
    run.contest(Case::Merge)
        .param("keys", all.len())
        .param("remainder_bits", remainder_bits)
        .param("ways", WAYS)
        .ops(all.len())
        .exact("overbank", |clock: &mut Clock| {
            let info = clock.time(|| -> overbank::Result<RunInfo> {
                Merge::new(files, kind, &sources, 0..=u64::MAX, MergeOptions::default())?.finish()
            })?;
            files.discard(info.file.id)?;
            Ok(info.fingerprints)
        })
        .exact("packed", |clock: &mut Clock| {
            Ok(clock.time(|| PackedRun::merge(kind, &parts))?.fingerprints())
        })
        .finish()?;
    Ok(())
}

fn merge(
    run: &mut Run<'_>,
    files: &Files,
    kind: RunKind,
    halves: &[Vec<u64>; 2],
    remainder_bits: u32,
) -> Result<()> {
    let mut runs = Vec::new();
    for half in halves {
        runs.push(filter::run::FingerprintSegment::open(files, &write(files, kind, half)?.file, kind)?);
    }
    let sources: Vec<_> = runs.iter().map(Source::Flash).collect();
    let total = halves.iter().map(Vec::len).sum::<usize>();
    run.contest(Case::Merge)
        .param("keys", total)
        .param("remainder_bits", remainder_bits)
        .ops(total)
        .exact("overbank", |clock: &mut Clock| {
            let info = clock.time(|| -> overbank::Result<RunInfo> {
                Merge::new(files, kind, &sources, 0..=u64::MAX, MergeOptions::default())?.finish()
            })?;
            files.discard(info.file.id)?;
            Ok(info.occurrences)
        })
        .exact("sorted_vec", |clock: &mut Clock| {
            let mut into = vec![1; total];
            clock.time(|| merge_two(&halves[0], &halves[1], &mut into));
            Ok(into.len() as u64)
        })
        .finish()?;
    for run in runs {
        files.discard(run.file_ref().id)?;
    }
    Ok(())
}

/// Merges two sorted arrays: no jump in the loop depends on what they hold.
fn merge_two(a: &[u64], b: &[u64], into: &mut [u64]) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        // At least this many steps end neither input.
        let steps = (a.len() - i).min(b.len() - j);
        for place in &mut into[i + j..][..steps] {
            let (x, y) = (a[i], b[j]);
            *place = if y < x { y } else { x };
            i += usize::from(y >= x);
            j += usize::from(y < x);
        }
    }
    let (rest_a, rest_b) = (&a[i..], &b[j..]);
    into[i + j..][..rest_a.len()].copy_from_slice(rest_a);
    into[i + j + rest_a.len()..].copy_from_slice(rest_b);
}

fn lookups(
    run: &mut Run<'_>,
    files: &Files,
    (whole, packed): (&filter::run::FingerprintSegment, &PackedRun),
    all: &[u64],
    probes: usize,
) -> Result<()> {
    let mut random = Random::new(3);
    let mut positive: Vec<u64> = (0..probes).map(|_| all[random.below(all.len() as u64) as usize]).collect();
    positive.sort_unstable();
    let mut negative = fingerprints(probes, whole.kind(), 4);
    negative.retain(|probe| all.binary_search(probe).is_err());
    for (case, probes) in [(Case::LookupPositive, &positive), (Case::LookupNegative, &negative)] {
        let bits = whole.kind().fingerprint_bits;
        let prefixes: Vec<u64> = probes.iter().map(|probe| probe << (64 - bits)).collect();
        run.contest(case)
            .param("keys", all.len())
            .param("fingerprint_bits", bits)
            .param("probes", probes.len())
            .ops(probes.len())
            .exact("overbank", |clock: &mut Clock| {
                let mut counts = vec![0; probes.len()];
                clock.time(|| count_many(files, &[whole], &prefixes, DEPTH, &mut counts))?;
                Ok(digest_u64s(counts.into_iter().map(|count| count as u64)))
            })
            .exact("packed", |clock: &mut Clock| {
                let mut counts = vec![0; probes.len()];
                clock.time(|| packed.count_many(&prefixes, &mut counts))?;
                Ok(digest_u64s(counts.into_iter().map(|count| count as u64)))
            })
            .exact("sorted_vec", |clock: &mut Clock| {
                let found: Vec<u64> = clock
                    .time(|| probes.iter().map(|probe| all.binary_search(probe).is_ok().into()).collect());
                Ok(digest_u64s(found))
            })
            .finish()?;
    }
    Ok(())
}

fn write(files: &Files, kind: RunKind, fingerprints: &[u64]) -> overbank::Result<RunInfo> {
    let mut writer = RunWriter::create(files, kind, false)?;
    writer.push(fingerprints)?;
    writer.finish()
}

/// Different fingerprints, about `keys`.
fn fingerprints(keys: usize, kind: RunKind, seed: u64) -> Vec<u64> {
    let shift = 64 - kind.fingerprint_bits;
    let mut fingerprints: Vec<u64> =
        Workload::Uniform.keys(keys, seed).into_iter().map(|key| key >> shift).collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    fingerprints
}
