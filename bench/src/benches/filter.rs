//! Filters in RAM at equal false-positive rates, one core: ours against the `qfilter` crate (rank-and-select quotient filter)
//! and the `fastbloom` crate (Bloom filter). All get hashes that were made before the clock runs.

use crate::{Bench, Case, Clock, Metric, Params, Result, Run, Workload};
use fastbloom::BloomFilter;
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::filter::QuotientFilter;
use std::hint::black_box;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "filter",
    about: "membership in RAM: inserts, look-ups, removals, merges, bits a key",
    engines: &["overbank", "overbank_batch", "overbank_single", "qfilter", "qfilter_sorted", "fastbloom"],
    run,
};

/// Keys of a batch of inserts or look-ups.
const BATCH: usize = 1 << 16;

fn run(run: &mut Run<'_>) -> Result<()> {
    // In cache and beyond it, both at 90 % of the slots.
    let sizes = [run.pick([12, 16, 18]), run.pick([13, 22, 24])];
    for lg_slots in sizes {
        for rate in [0.01, 4e-4] {
            let input = Input::new(lg_slots, rate);
            inserts(run, &input)?;
            lookups(run, &input)?;
            changes(run, &input)?;
        }
    }
    Ok(())
}

/// Present and absent keys, and the rate that every filter is made for.
struct Input {
    rate: f64,
    hasher: KeyHasher,
    present: Vec<KeyHash>,
    absent: Vec<KeyHash>,
}

impl Input {
    fn new(lg_slots: u32, rate: f64) -> Self {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
        let count = (1usize << lg_slots) * 9 / 10;
        let hash =
            |seed| Workload::Uniform.keys(count, seed).into_iter().map(|key| hasher.hash_u64(key)).collect();
        Self { rate, hasher, present: hash(1), absent: hash(2) }
    }

    fn keys(&self) -> usize {
        self.present.len()
    }

    fn params(&self) -> Params {
        [("keys".to_owned(), self.keys().into()), ("rate".to_owned(), self.rate.into())].into_iter().collect()
    }

    fn ours(&self) -> Result<QuotientFilter> {
        Ok(QuotientFilter::with_capacity(self.keys() as u64, self.rate, self.hasher)?)
    }

    fn qfilter(&self) -> Result<qfilter::Filter> {
        qfilter::Filter::new(self.keys() as u64, self.rate).map_err(|error| format!("{error:?}").into())
    }

    fn bloom(&self) -> BloomFilter<Given> {
        BloomFilter::with_false_pos(self.rate).hasher(Given).expected_items(self.keys())
    }
}

/// Takes a 64-bit hash as it is, as the other filters do.
#[derive(Clone, Copy, Debug, Default)]
struct Given;

impl std::hash::BuildHasher for Given {
    type Hasher = GivenHash;

    fn build_hasher(&self) -> GivenHash {
        GivenHash(0)
    }
}

/// The hash that was given.
struct GivenHash(u64);

impl std::hash::Hasher for GivenHash {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn bloom_insert(filter: &mut BloomFilter<Given>, hash: KeyHash) {
    filter.insert(&hash.high());
}

fn qfilter_of(input: &Input) -> Result<qfilter::Filter> {
    let mut filter = input.qfilter()?;
    for hash in &input.present {
        qfilter_insert(&mut filter, *hash);
    }
    Ok(filter)
}

fn qfilter_insert(filter: &mut qfilter::Filter, hash: KeyHash) {
    // Top bits, as ours: it takes the low ones of what it is given.
    let fingerprint = hash.high() >> (64 - filter.fingerprint_size());
    filter.insert_fingerprint(true, fingerprint).expect("made for as many");
}

fn inserts(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let contest = run.contest(Case::Insert).param("keys", input.keys()).param("rate", input.rate);
    let digest =
        |filter: &QuotientFilter| filter.iter().fold(0, |sum, fingerprint| sum ^ fingerprint.rotate_left(7));
    contest
        .ops(input.keys())
        .exact("overbank_single", |clock: &mut Clock| {
            let mut filter = input.ours()?;
            clock.time(|| input.present.iter().try_for_each(|&hash| filter.insert(hash)))?;
            clock.note(Metric::BitsPerKey, filter.memory_bytes() as f64 * 8.0 / input.keys() as f64);
            Ok(digest(&filter))
        })
        .exact("overbank_batch", |clock: &mut Clock| {
            let mut filter = input.ours()?;
            clock.time(|| input.present.chunks(BATCH).try_for_each(|batch| filter.insert_many(batch)))?;
            Ok(digest(&filter))
        })
        .exact("overbank", |clock: &mut Clock| {
            let mut filter = input.ours()?;
            clock.time(|| filter.insert_many(&input.present))?;
            Ok(digest(&filter))
        })
        .approximate("qfilter", |clock: &mut Clock| {
            let mut filter = input.qfilter()?;
            clock.time(|| input.present.iter().for_each(|&hash| qfilter_insert(&mut filter, hash)));
            clock.note(Metric::BitsPerKey, filter.memory_usage() as f64 * 8.0 / input.keys() as f64);
            Ok(filter.len())
        })
        .approximate("qfilter_sorted", |clock: &mut Clock| {
            let mut builder = qfilter::Builder::new(input.qfilter()?);
            let spare_bits = 64 - builder.fingerprint_size();
            clock.time(|| {
                let mut sorted: Vec<u64> =
                    input.present.iter().map(|hash| hash.high() >> spare_bits).collect();
                sorted.sort_unstable();
                for fingerprint in sorted {
                    builder.insert_fingerprint(true, fingerprint).expect("made for as many");
                }
            });
            Ok(builder.into_filter().len())
        })
        .approximate("fastbloom", |clock: &mut Clock| {
            let mut filter = input.bloom();
            clock.time(|| input.present.iter().for_each(|&hash| bloom_insert(&mut filter, hash)));
            clock.note(Metric::BitsPerKey, filter.num_bits() as f64 / input.keys() as f64);
            Ok(0)
        })
        .finish()
}

fn lookups(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let mut ours = input.ours()?;
    ours.insert_many(&input.present)?;
    let theirs = qfilter_of(input)?;
    let mut bloom = input.bloom();
    input.present.iter().for_each(|&hash| bloom_insert(&mut bloom, hash));
    let spare_bits = 64 - theirs.fingerprint_size();
    let in_theirs = |hash: &&KeyHash| theirs.contains_fingerprint(hash.high() >> spare_bits);
    for (case, keys) in [(Case::LookupPositive, &input.present), (Case::LookupNegative, &input.absent)] {
        let rate_of = |hits: usize| hits as f64 / keys.len() as f64;
        let note = |clock: &mut Clock, hits: usize| {
            if case == Case::LookupNegative {
                clock.note(Metric::Fpr, rate_of(hits));
            }
            Ok(hits as u64)
        };
        let contest = run.contest(case).param("keys", input.keys()).param("rate", input.rate).ops(keys.len());
        contest
            .exact("overbank_single", |clock: &mut Clock| {
                let hits = clock.time(|| keys.iter().filter(|&&hash| ours.contains(black_box(hash))).count());
                note(clock, hits)
            })
            .exact("overbank", |clock: &mut Clock| {
                let hits = clock.time(|| {
                    let batches = keys.chunks(BATCH).map(|batch| ours.contains_many(batch));
                    batches.map(|found| found.iter().filter(|&&hit| hit).count()).sum()
                });
                note(clock, hits)
            })
            .approximate("qfilter", |clock: &mut Clock| {
                let hits = clock.time(|| keys.iter().filter(|hash| in_theirs(&black_box(*hash))).count());
                note(clock, hits)
            })
            .approximate("fastbloom", |clock: &mut Clock| {
                let hits =
                    clock.time(|| keys.iter().filter(|hash| bloom.contains(&black_box(hash.high()))).count());
                note(clock, hits)
            })
            .finish()?;
    }
    Ok(())
}

/// What a Bloom filter cannot do: remove, merge exactly, change size.
fn changes(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let mut ours = input.ours()?;
    ours.insert_many(&input.present)?;
    let theirs = qfilter_of(input)?;
    let spare_bits = 64 - theirs.fingerprint_size();
    let tenth = &input.present[..input.keys() / 10];
    let (half, all) = (input.keys() / 2, input.keys());
    let contest = run.contest(Case::Remove).param("keys", all).param("rate", input.rate).ops(tenth.len());
    contest
        .exact("overbank", |clock: &mut Clock| {
            let mut filter = ours.clone();
            let removed = clock.time(|| tenth.iter().filter(|&&hash| filter.remove(hash)).count());
            Ok(removed as u64)
        })
        .exact("qfilter", |clock: &mut Clock| {
            let mut filter = theirs.clone();
            let remove = |hash: &KeyHash| filter.remove_fingerprint(hash.high() >> spare_bits);
            let removed = clock.time(|| tenth.iter().map(remove).filter(|&removed| removed).count());
            Ok(removed as u64)
        })
        .finish()?;
    let halves = [&input.present[..half], &input.present[half..]];
    let mut parts = [input.ours()?, input.ours()?];
    parts.iter_mut().zip(halves).try_for_each(|(part, keys)| part.insert_many(keys))?;
    let mut their_parts = [input.qfilter()?, input.qfilter()?];
    for (part, keys) in their_parts.iter_mut().zip(halves) {
        keys.iter().for_each(|&hash| qfilter_insert(part, hash));
    }
    let contest = run.contest(Case::Merge).param("keys", all).param("rate", input.rate).ops(all);
    contest
        .exact("overbank", |clock: &mut Clock| {
            let mut merged = parts[0].clone();
            clock.time(|| merged.merge(&parts[1]))?;
            Ok(merged.len())
        })
        .exact("qfilter", |clock: &mut Clock| {
            let mut merged = their_parts[0].clone();
            clock.time(|| merged.merge(true, &their_parts[1])).map_err(|error| format!("{error:?}"))?;
            Ok(merged.len())
        })
        .finish()?;
    let contest = run.contest(Case::Resize).param("keys", all).param("rate", input.rate).ops(all);
    contest
        .exact("overbank", |clock: &mut Clock| {
            let mut filter = ours.clone();
            clock.time(|| filter.double())?;
            Ok(filter.len())
        })
        .finish()?;
    let params = input.params();
    run.figure(Case::Resize, "overbank", Metric::Fpr, ours.false_positive_rate(), params)
}
