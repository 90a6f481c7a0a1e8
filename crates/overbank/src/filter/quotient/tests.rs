//! The filter against a map of counts, under hostile keys; its rate; its bytes under damage.

use super::model::Model;
use super::*;
use crate::sketch::format::forge;
use crate::{HashKind, KeyHasher, Seed};
use proptest::prelude::*;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(1))
}

fn hash_id() -> HashId {
    HashId::from(hasher())
}

fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    let hasher = hasher();
    (from..from + count).map(|key| hasher.hash_u64(key)).collect()
}

/// A filter laid out in one pass from what `filter` holds: there is only one way to lay it out.
fn laid_out_anew(filter: &QuotientFilter) -> QuotientFilter {
    let mut anew = QuotientFilter::of_shape(filter.shape, filter.hash_id, filter.keys_max, filter.grows);
    Sweep::new(filter.shape, &mut anew.blocks).merge(filter.iter());
    anew.len = filter.len;
    anew
}

fn check(filter: &QuotientFilter, model: &Model, probes: &[KeyHash]) {
    let held: Vec<u64> = filter.iter().collect();
    assert_eq!(held, model.fingerprints());
    assert_eq!((filter.len(), filter.is_empty()), (model.len(), model.len() == 0));
    assert_eq!(filter, &laid_out_anew(filter));
    for &probe in probes {
        assert_eq!(filter.count(probe), model.count(probe), "{probe:?}");
        assert_eq!(filter.contains(probe), model.count(probe) > 0, "{probe:?}");
    }
    let expected: Vec<bool> = probes.iter().map(|&probe| model.count(probe) > 0).collect();
    assert_eq!(filter.contains_many(probes), expected);
}

/// Keys that crowd: few quotients, the last quotients, one fingerprint, or anything.
fn key() -> impl Strategy<Value = KeyHash> {
    let high = prop_oneof![
        4 => any::<u64>(),
        2 => (0u64..3, 0u64..1 << 10).prop_map(|(quotient, rest)| quotient << 55 | rest << 20),
        2 => (0u64..4, any::<u64>()).prop_map(|(below, rest)| u64::MAX - (below << 58) - (rest >> 10)),
        1 => Just(0x8000_0000_0000_0000u64),
        1 => Just(u64::MAX),
    ];
    high.prop_map(|high| KeyHash::new(high, !high))
}

fn keys(most: usize) -> impl Strategy<Value = Vec<KeyHash>> {
    prop::collection::vec(key(), 0..most)
}

#[derive(Clone, Debug)]
enum Step {
    Insert(KeyHash),
    /// The same key again and again.
    Repeat(KeyHash, usize),
    InsertMany(Vec<KeyHash>),
    InsertIfAbsent(Vec<KeyHash>),
    /// One of those inserted, most likely.
    Remove(prop::sample::Index),
    RemoveMany(usize),
    Merge(Vec<KeyHash>, u32),
    Double,
    Halve,
    Bytes,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => key().prop_map(Step::Insert),
        1 => (key(), 1usize..100).prop_map(|(key, times)| Step::Repeat(key, times)),
        4 => keys(60).prop_map(Step::InsertMany),
        3 => keys(60).prop_map(Step::InsertIfAbsent),
        6 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (1usize..200).prop_map(Step::RemoveMany),
        2 => (keys(60), 0u32..4).prop_map(|(keys, border)| Step::Merge(keys, border)),
        1 => Just(Step::Double),
        1 => Just(Step::Halve),
        1 => Just(Step::Bytes),
    ]
}

/// Filter, oracle, and all keys that were ever inserted.
struct Pair {
    filter: QuotientFilter,
    model: Model,
    seen: Vec<KeyHash>,
}

impl Pair {
    fn new(filter: QuotientFilter) -> Self {
        let model = Model::new(filter.lg_quotients() + filter.remainder_bits());
        Self { filter, model, seen: Vec::new() }
    }

    /// Whether `more` keys fit; the filter must say the same.
    fn fits(&self, more: usize, answer: &Result<()>) -> bool {
        let fits = self.model.len() + more as u64 <= self.filter.capacity();
        assert_eq!(answer.is_ok(), fits, "{more} more: {answer:?}");
        if let Err(error) = answer {
            assert!(matches!(error, Error::CapacityExceeded { .. }), "{error}");
        }
        fits
    }

    fn insert_many(&mut self, keys: &[KeyHash], answer: &Result<()>) {
        if self.fits(keys.len(), answer) {
            keys.iter().for_each(|&key| self.model.insert(key));
            self.seen.extend(keys);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Insert(key) => {
                let answer = self.filter.insert(key);
                self.insert_many(&[key], &answer);
            }
            Step::Repeat(key, times) => {
                for _ in 0..times {
                    self.apply(Step::Insert(key));
                }
            }
            Step::InsertMany(keys) => {
                let answer = self.filter.insert_many(&keys);
                self.insert_many(&keys, &answer);
            }
            Step::InsertIfAbsent(keys) => self.insert_if_absent(&keys),
            Step::Remove(index) => {
                let Some(&key) = (!self.seen.is_empty()).then(|| index.get(&self.seen)) else { return };
                assert_eq!(self.filter.remove(key), self.model.remove(key));
            }
            Step::RemoveMany(count) => {
                for key in self.seen.split_off(self.seen.len().saturating_sub(count)) {
                    assert_eq!(self.filter.remove(key), self.model.remove(key));
                }
            }
            Step::Merge(keys, border) => self.merge(&keys, border),
            Step::Double => {
                let one_left = self.filter.remainder_bits() == 1;
                // No larger than the test's patience.
                if self.filter.lg_quotients() < 12 {
                    assert_eq!(self.filter.double().is_err(), one_left);
                }
            }
            Step::Halve => {
                let before = self.filter.clone();
                let possible = before.lg_quotients() > 6
                    && before.remainder_bits() < 57
                    && before.len() <= (1 << (before.lg_quotients() - 1)) * 95 / 100;
                assert_eq!(self.filter.halve().is_ok(), possible);
                if !possible {
                    assert_eq!(self.filter, before);
                }
            }
            Step::Bytes => {
                let bytes = self.filter.to_bytes();
                assert_eq!(QuotientFilter::from_bytes(&bytes).expect("its own bytes"), self.filter);
            }
        }
    }

    fn insert_if_absent(&mut self, keys: &[KeyHash]) {
        let mut model = self.model.clone();
        let expected: Vec<bool> = keys.iter().map(|&key| model.insert_if_absent(key)).collect();
        let answer = self.filter.insert_if_absent(keys);
        let new = expected.iter().filter(|&&new| new).count();
        if self.fits(new, &answer.as_ref().map(|_| ()).map_err(|_| full())) {
            assert_eq!(answer.expect("it fits"), expected);
            self.model = model;
            self.seen.extend(keys);
        }
    }

    fn merge(&mut self, keys: &[KeyHash], border: u32) {
        let bits = self.filter.shape.fingerprint_bits();
        let Ok(mut other) = QuotientFilter::new(7 + border, bits.wrapping_sub(7 + border), hash_id()) else {
            return;
        };
        let mut other_model = Model::new(bits);
        if other.insert_many(keys).is_err() {
            return;
        }
        keys.iter().for_each(|&key| other_model.insert(key));
        let answer = self.filter.merge(&other);
        if self.fits(keys.len(), &answer) {
            self.model.merge(&other_model);
            self.seen.extend(keys);
        }
    }
}

fn full() -> Error {
    Error::CapacityExceeded { what: "", held: 0, wanted: 0, capacity: 0, remedy: "" }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn holds_what_a_map_of_counts_holds(
        lg_quotients in 6u32..=9,
        remainder_bits in prop_oneof![1u32..=12, Just(57), 13u32..=56],
        steps in prop::collection::vec(step(), 1..40),
        strangers in keys(20),
    ) {
        let remainder_bits = remainder_bits.min(64 - lg_quotients);
        let mut pair = Pair::new(QuotientFilter::new(lg_quotients, remainder_bits, hash_id()).unwrap());
        for step in steps {
            pair.apply(step);
            let probes = [&pair.seen[pair.seen.len().saturating_sub(50)..], &strangers].concat();
            check(&pair.filter, &pair.model, &probes);
        }
    }

    #[test]
    fn a_growing_filter_holds_what_a_map_of_counts_holds(
        keys_max in 1u64..3000,
        rate in 1e-6..0.25f64,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut pair = Pair::new(QuotientFilter::growing(keys_max, rate, hash_id()).unwrap());
        for step in steps {
            // Sizes are its own affair.
            if !matches!(step, Step::Double | Step::Halve) {
                pair.apply(step);
            }
            check(&pair.filter, &pair.model, &pair.seen[pair.seen.len().saturating_sub(50)..]);
            prop_assert!(pair.filter.false_positive_rate() <= rate);
        }
    }

    /// The law: no answer depends on how the keys were cut into batches, nor the filter on their order.
    #[test]
    fn batches_and_order_do_not_matter(keys in keys(300), cuts in prop::collection::vec(1usize..80, 1..20)) {
        let mut whole = QuotientFilter::new(9, 5, hash_id()).unwrap();
        let expected = whole.insert_if_absent(&keys).unwrap();
        let mut pieces = QuotientFilter::new(9, 5, hash_id()).unwrap();
        let mut plain = pieces.clone();
        let (mut found, mut rest) = (Vec::new(), &keys[..]);
        for &cut in cuts.iter().cycle() {
            let (batch, after) = rest.split_at(cut.min(rest.len()));
            found.extend(pieces.insert_if_absent(batch).unwrap());
            plain.insert_many(batch).unwrap();
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(&pieces, &whole);
        let mut backwards = QuotientFilter::new(9, 5, hash_id()).unwrap();
        keys.iter().rev().for_each(|&key| backwards.insert(key).unwrap());
        prop_assert_eq!(backwards, plain);
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_what_would_be_written(
        keys in keys(60),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut filter = QuotientFilter::new(6, 3, hash_id()).unwrap();
        filter.insert_many(&keys).unwrap();
        let mut bytes = filter.to_bytes();
        for (at, value) in damage {
            // Payload only, the checksum mended.
            bytes = forge(&bytes, at.index(bytes.len() - 40), value);
        }
        if let Ok(found) = QuotientFilter::from_bytes(&bytes) {
            prop_assert_eq!(found.to_bytes(), bytes);
            prop_assert!(found.iter().is_sorted());
            prop_assert_eq!(found.iter().len() as u64, found.len());
            prop_assert_eq!(&found, &laid_out_anew(&found));
        }
    }
}

/// Every slot up to 95 %, all in one quotient, at the front, in the middle and at the very end: offsets above 254, spill blocks.
#[test]
fn one_quotient_takes_all_that_a_filter_may_hold() {
    for quotient in [0u64, 1000, 2047] {
        let mut filter = QuotientFilter::new(11, 8, hash_id()).unwrap();
        let mut model = Model::new(19);
        let capacity = filter.capacity();
        assert_eq!(capacity, 1945);
        let keys: Vec<_> =
            (0..capacity).map(|i| KeyHash::new(quotient << 53 | (i * 37 % 256) << 45, i)).collect();
        for &key in &keys {
            filter.insert(key).unwrap();
            model.insert(key);
        }
        check(&filter, &model, &keys);
        assert!(filter.insert(keys[0]).is_err() && filter.insert_many(&keys[..1]).is_err());
        check(&filter, &model, &[]);
        for key in &keys[100..] {
            assert!(filter.remove(*key) && model.remove(*key));
        }
        check(&filter, &model, &keys);
        for key in &keys[..100] {
            assert!(filter.remove(*key));
        }
        assert_eq!(filter, QuotientFilter::new(11, 8, hash_id()).unwrap());
    }
}

#[test]
fn one_by_one_and_in_bulk_are_the_same_up_to_the_highest_load() {
    let mut one_by_one = QuotientFilter::new(14, 9, hash_id()).unwrap();
    let keys = hashes(0, one_by_one.capacity());
    let mut bulk = one_by_one.clone();
    for (i, part) in keys.chunks(1000).enumerate() {
        part.iter().for_each(|&key| one_by_one.insert(key).unwrap());
        // Both ways of taking a batch in.
        part.chunks(if i % 2 == 0 { 1000 } else { 100 }).for_each(|batch| bulk.insert_many(batch).unwrap());
        assert!(one_by_one == bulk, "after {} keys", one_by_one.len());
    }
    assert!(keys.iter().all(|&key| bulk.contains(key)));
    assert!((bulk.fullness() - 0.95).abs() < 1e-3);
}

#[test]
fn a_full_filter_names_its_capacity_and_the_remedy() {
    let mut filter = QuotientFilter::new(6, 8, hash_id()).unwrap();
    filter.insert_many(&hashes(0, 60)).unwrap();
    let before = filter.clone();
    let error = filter.insert(hashes(60, 1)[0]).unwrap_err().to_string();
    assert!(error.contains("60 keys of at most 60, and 1 more do not fit; double it"), "{error}");
    assert!(filter.insert_many(&hashes(0, 3)).is_err() && filter.insert_if_absent(&hashes(100, 3)).is_err());
    assert!(filter.merge(&before).is_err() && filter.halve().is_err());
    assert_eq!(filter, before);
    filter.double().unwrap();
    filter.insert_many(&hashes(60, 61)).unwrap();

    let mut growing = QuotientFilter::growing(100, 0.01, hash_id()).unwrap();
    growing.insert_many(&hashes(0, 100)).unwrap();
    let error = growing.insert_many(&hashes(100, 2)).unwrap_err().to_string();
    assert!(
        error.contains("at most 100, and 2 more do not fit; more would exceed the false-positive rate"),
        "{error}"
    );
}

#[test]
fn impossible_shapes_and_rates_are_refused() {
    for (lg_quotients, remainder_bits) in
        [(5, 8), (41, 8), (6, 0), (6, 58), (40, 25), (u32::MAX, 1), (7, u32::MAX)]
    {
        let answer = QuotientFilter::new(lg_quotients, remainder_bits, hash_id());
        assert!(matches!(answer, Err(Error::InvalidOption { .. })), "{lg_quotients} {remainder_bits}");
    }
    for rate in [0.0, -1.0, 0.3, f64::NAN, f64::INFINITY, 1e-30] {
        assert!(QuotientFilter::with_capacity(100, rate, hash_id()).is_err(), "{rate}");
        assert!(QuotientFilter::growing(100, rate, hash_id()).is_err(), "{rate}");
    }
}

#[test]
fn a_capacity_and_a_rate_are_both_kept() {
    for keys in [0, 1, 60, 61, 1000, 123_456, 996_147, 1_000_000] {
        for rate in [0.25, 0.01, 4e-4, 1e-9] {
            let filter = QuotientFilter::with_capacity(keys, rate, hash_id()).unwrap();
            assert!(filter.capacity() >= keys, "{keys} {rate}");
            let full = shape::rate(filter.capacity(), filter.shape.fingerprint_bits());
            assert!(full <= rate * (1.0 + 1e-12), "{keys} keys: {full} instead of {rate}");
            // One fingerprint bit less would not do, where there is one to spare.
            let less = filter.shape.fingerprint_bits() - 1;
            assert!(shape::rate(keys.max(1), less) > rate || filter.remainder_bits() == 1, "{keys} {rate}");
        }
    }
}

#[test]
fn other_hashes_and_other_fingerprints_do_not_merge() {
    let mut filter = QuotientFilter::new(8, 8, hash_id()).unwrap();
    let other_seed = KeyHasher::new(HashKind::Xxh3, Seed(2));
    let strangers =
        [QuotientFilter::new(8, 8, other_seed).unwrap(), QuotientFilter::new(8, 9, hash_id()).unwrap()];
    for stranger in strangers {
        assert!(matches!(filter.merge(&stranger), Err(Error::Incompatible { .. })));
    }
    filter.merge(&QuotientFilter::new(9, 7, hash_id()).unwrap()).unwrap();
}

#[test]
fn memory_is_what_the_tour_says() {
    let filter = QuotientFilter::new(16, 11, hash_id()).unwrap();
    let bits = filter.memory_bytes() as f64 * 8.0 / f64::from(1 << 16);
    assert!((13.125..13.15).contains(&bits), "{bits} bits a slot");
    // Spill blocks are made exactly, not by doubling.
    let mut full = filter.clone();
    full.insert_many(&hashes(0, full.capacity())).unwrap();
    assert!(full.memory_bytes() as f64 <= filter.memory_bytes() as f64 * 1.03);
}

/// Given the number D of distinct fingerprints, the m strangers that are found are binomial(m, D / 2^p). The mean of D is
/// 2^p (1 - exp(-n / 2^p)) to within one; D is n less the keys that met an earlier fingerprint, a sum of n steps of
/// conditional variance below n / 2^p, so by Freedman's inequality D leaves its mean by 2 % of n with probability below
/// 2 exp(-t^2 / (2 (n^2 / 2^p + t / 3))) < 1e-30 for both shapes. By Bernstein's inequality the hits leave their mean
/// by t with probability at most exp(-t^2 / (2 (mean + t / 3))) a side; with t = 7 sqrt(mean) + 17 the exponent is above 24 for
/// the means here (14,790 and 928). Two shapes, two sides: 4 exp(-24) < 2e-10.
#[test]
fn the_rate_of_false_positives_is_that_of_theory() {
    let strangers = hashes(1 << 40, 2_000_000);
    for (lg_quotients, remainder_bits) in [(14, 7), (13, 11)] {
        let mut filter = QuotientFilter::new(lg_quotients, remainder_bits, hash_id()).unwrap();
        filter.insert_many(&hashes(0, filter.capacity())).unwrap();
        let hits = filter.contains_many(&strangers).iter().filter(|&&hit| hit).count() as f64;
        let mean = filter.false_positive_rate() * strangers.len() as f64;
        let slack = 7.0 * mean.sqrt() + 17.0;
        assert!(
            hits < mean * 1.02 + slack && hits > mean * 0.98 - slack,
            "{hits} false positives, {mean} expected"
        );
        assert!(filter.false_positive_rate() <= 0.5f64.powi(remainder_bits as i32), "the paper's bound");
    }
}

/// Few keys in a crowded filter: the sweep jumps, and must not land where a run of earlier blocks still reaches.
#[test]
fn a_sweep_that_jumps_does_what_inserts_do() {
    let mut swept = QuotientFilter::new(12, 9, hash_id()).unwrap();
    swept.insert_many(&hashes(0, swept.capacity() - 200)).unwrap();
    let mut inserted = swept.clone();
    for round in 0..40 {
        let few = hashes((1 << 20) | (round * 5), 5);
        let mut sorted: Vec<u64> = few.iter().map(|&hash| swept.shape.fingerprint(hash)).collect();
        sorted.sort_unstable();
        Sweep::new(swept.shape, &mut swept.blocks).merge(sorted);
        swept.len += 5;
        few.iter().for_each(|&hash| inserted.insert(hash).unwrap());
        assert!(swept == inserted, "round {round}");
    }
}

#[test]
fn a_run_out_of_order_is_refused() {
    let mut filter = QuotientFilter::new(6, 8, hash_id()).unwrap();
    filter.insert_many(&[1u64, 2].map(|remainder| KeyHash::new(remainder << 50, 0))).unwrap();
    let bytes = filter.to_bytes();
    // The first two slots: remainders follow 32 bytes of fields and two words.
    assert_eq!(bytes[40 + 48..][..2], [1, 2]);
    let equal = forge(&bytes, 48, 2);
    assert!(QuotientFilter::from_bytes(&equal).is_ok());
    assert!(QuotientFilter::from_bytes(&forge(&equal, 49, 1)).is_err());
}

#[test]
fn hostile_bytes_of_every_field_are_refused() {
    let mut filter = QuotientFilter::new(6, 3, hash_id()).unwrap();
    filter.insert_many(&hashes(0, 20)).unwrap();
    let bytes = filter.to_bytes();
    let refused =
        |at: usize, value: u8| QuotientFilter::from_bytes(&forge(&bytes, at, value)).unwrap_err().to_string();
    assert!(refused(0, 5).contains("quotient and remainder bits"));
    assert!(refused(0, 40).contains("the number of bytes that follow"));
    assert!(refused(4, 0).contains("quotient and remainder bits"));
    assert!(refused(4, 4).contains("the number of bytes that follow"));
    assert!(refused(8, 61).contains("the number of fingerprints"));
    assert!(refused(8, 19).contains("the number of fingerprints in the slots"));
    assert!(refused(24, 2).contains("whether the filter grows"));
    assert!(refused(25, 1).contains("padding"));
    for len in 0..bytes.len() {
        assert!(QuotientFilter::from_bytes(&bytes[..len]).is_err(), "cut to {len}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(QuotientFilter::from_bytes(&damaged).is_err(), "bit {bit}");
    }
}
