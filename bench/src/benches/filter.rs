//! Filters in RAM at equal false-positive rates, one core: ours against the `qfilter` crate (rank-and-select quotient filter)
//! and the `fastbloom` crate (Bloom filter), and against the two of the paper's evaluation: the quotient filter of three
//! bits a slot (`paper`) and the Bloom filter of 11 hash functions (`bloom_11`). All get hashes that were made before the
//! clock runs.
//!
//! `load` is keys a slot of the quotient filters. Whatever it is, filters are made for the keys of a load of 0.9.

use crate::three_bit::ThreeBitFilter;
use crate::{
    Bench, Case, Clock, Metric, Params, Result, Run, Workload, bloom_bytes, bloom_contains, bloom_insert,
};
use fastbloom::BloomFilter;
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::filter::QuotientFilter;
use std::hint::black_box;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "filter",
    about: "membership in RAM: inserts, look-ups, removals, merges, bits a key",
    engines: &[
        "overbank",
        "overbank_batch",
        "overbank_single",
        "qfilter",
        "qfilter_sorted",
        "fastbloom",
        "paper",
        "bloom_11",
    ],
    run,
};

/// Keys of a batch of inserts or look-ups.
const BATCH: usize = 1 << 16;

/// The rate of the paper's evaluation.
const PAPER_RATE: f64 = 4e-4;

/// The load that filters are made for.
const LOAD_MAX: f64 = 0.9;

fn run(run: &mut Run<'_>) -> Result<()> {
    // In cache and beyond it.
    let sizes = [run.pick([12, 16, 18]), run.pick([13, 22, 24])];
    for lg_slots in sizes {
        for rate in [0.01, PAPER_RATE] {
            let input = Input::new(lg_slots, LOAD_MAX, rate);
            inserts(run, &input)?;
            lookups(run, &input)?;
            changes(run, &input)?;
        }
    }
    for load in [0.25, 0.5, 0.75] {
        let input = Input::new(sizes[1], load, PAPER_RATE);
        inserts(run, &input)?;
        lookups(run, &input)?;
    }
    Ok(())
}

/// Present and absent keys, and the rate that every filter is made for.
struct Input {
    rate: f64,
    load: f64,
    capacity: usize,
    hasher: KeyHasher,
    present: Vec<KeyHash>,
    absent: Vec<KeyHash>,
}

impl Input {
    fn new(lg_slots: u32, load: f64, rate: f64) -> Self {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
        let slots = (1usize << lg_slots) as f64;
        let (count, capacity) = ((slots * load) as usize, (slots * LOAD_MAX) as usize);
        let hash =
            |seed| Workload::Uniform.keys(count, seed).into_iter().map(|key| hasher.hash_u64(key)).collect();
        Self { rate, load, capacity, hasher, present: hash(1), absent: hash(2) }
    }

    fn keys(&self) -> usize {
        self.present.len()
    }

    fn params(&self) -> Params {
        let params = [("keys", self.keys().into()), ("load", self.load.into()), ("rate", self.rate.into())];
        params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn ours(&self) -> Result<QuotientFilter> {
        Ok(QuotientFilter::with_capacity(self.capacity as u64, self.rate, self.hasher)?)
    }

    fn qfilter(&self) -> Result<qfilter::Filter> {
        qfilter::Filter::new(self.capacity as u64, self.rate).map_err(|error| format!("{error:?}").into())
    }

    fn bloom(&self) -> BloomFilter<Given> {
        BloomFilter::with_false_pos(self.rate).hasher(Given).expected_items(self.capacity)
    }

    /// As many slots as ours, remainders as long.
    fn three_bit(&self) -> Result<ThreeBitFilter> {
        let ours = self.ours()?;
        Ok(ThreeBitFilter::new(ours.lg_quotients(), ours.remainder_bits()))
    }

    fn bloom_11(&self) -> Result<Vec<u8>> {
        Ok(vec![0; bloom_bytes(self.capacity as u64, self.rate, 8)?])
    }

    /// Bits of a hash that are no part of a fingerprint of ours.
    fn spare_bits(&self) -> Result<u32> {
        let ours = self.ours()?;
        Ok(64 - ours.lg_quotients() - ours.remainder_bits())
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

fn fastbloom_insert(filter: &mut BloomFilter<Given>, hash: KeyHash) {
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
    let spare_bits = input.spare_bits()?;
    let contest = run
        .contest(Case::Insert)
        .param("keys", input.keys())
        .param("load", input.load)
        .param("rate", input.rate);
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
            clock.time(|| input.present.iter().for_each(|&hash| fastbloom_insert(&mut filter, hash)));
            clock.note(Metric::BitsPerKey, filter.num_bits() as f64 / input.keys() as f64);
            Ok(0)
        })
        .exact("paper", |clock: &mut Clock| {
            let mut filter = input.three_bit()?;
            clock.time(|| input.present.iter().for_each(|hash| filter.insert(hash.high() >> spare_bits)));
            clock.note(Metric::BitsPerKey, filter.memory_bytes() as f64 * 8.0 / input.keys() as f64);
            Ok(filter.iter().fold(0, |sum, fingerprint| sum ^ fingerprint.rotate_left(7)))
        })
        .approximate("bloom_11", |clock: &mut Clock| {
            let mut filter = input.bloom_11()?;
            clock.time(|| input.present.iter().for_each(|&hash| bloom_insert(&mut filter, hash)));
            clock.note(Metric::BitsPerKey, filter.len() as f64 * 8.0 / input.keys() as f64);
            Ok(0)
        })
        .finish()
}

fn lookups(run: &mut Run<'_>, input: &Input) -> Result<()> {
    let mut ours = input.ours()?;
    ours.insert_many(&input.present)?;
    let theirs = qfilter_of(input)?;
    let mut bloom = input.bloom();
    input.present.iter().for_each(|&hash| fastbloom_insert(&mut bloom, hash));
    let mut bloom_11 = input.bloom_11()?;
    input.present.iter().for_each(|&hash| bloom_insert(&mut bloom_11, hash));
    let (mut three_bit, our_spare_bits) = (input.three_bit()?, input.spare_bits()?);
    input.present.iter().for_each(|hash| three_bit.insert(hash.high() >> our_spare_bits));
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
        let contest = run
            .contest(case)
            .param("keys", input.keys())
            .param("load", input.load)
            .param("rate", input.rate)
            .ops(keys.len());
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
            .exact("paper", |clock: &mut Clock| {
                let fingerprint = |hash: &KeyHash| black_box(hash.high()) >> our_spare_bits;
                let hits =
                    clock.time(|| keys.iter().filter(|hash| three_bit.contains(fingerprint(hash))).count());
                note(clock, hits)
            })
            .approximate("bloom_11", |clock: &mut Clock| {
                let hits = clock
                    .time(|| keys.iter().filter(|&&hash| bloom_contains(&bloom_11, black_box(hash))).count());
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
    let contest = run
        .contest(Case::Remove)
        .param("keys", all)
        .param("load", input.load)
        .param("rate", input.rate)
        .ops(tenth.len());
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
    let contest = run
        .contest(Case::Merge)
        .param("keys", all)
        .param("load", input.load)
        .param("rate", input.rate)
        .ops(all);
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
    let contest = run
        .contest(Case::Resize)
        .param("keys", all)
        .param("load", input.load)
        .param("rate", input.rate)
        .ops(all);
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
