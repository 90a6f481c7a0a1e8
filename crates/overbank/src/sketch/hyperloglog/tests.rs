//! HyperLogLog against the exact set, and its error against the theory.

use super::*;
use crate::{HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::collections::HashSet;

fn hasher(seed: u128) -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(seed))
}

fn sketch_of(lg_m: u32, keys: impl IntoIterator<Item = u64>) -> HyperLogLog {
    let hasher = hasher(1);
    let mut sketch = HyperLogLog::new(lg_m, hasher).unwrap();
    keys.into_iter().for_each(|key| sketch.update(hasher.hash(&key.to_le_bytes())));
    sketch
}

/// SplitMix64: the randomness of the simulation.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// Runs a sketch through the distinct counts of `checkpoints` with random hashes, exactly in distribution, in
/// time proportional to the changes of registers: the number of keys up to the next change is geometric,
/// and a change picks a register by `2^-rank`.
fn simulate(lg_m: u32, random: &mut Random, checkpoints: &[f64], mut see: impl FnMut(usize, &HyperLogLog)) {
    let mut sketch = HyperLogLog::new(lg_m, hasher(1)).unwrap();
    let m = sketch.registers.len() as f64;
    let (mut keys, mut next) = (0.0, 0);
    let mut chance = 1.0f64;
    while next < checkpoints.len() {
        keys += (random.unit().ln() / (-chance).ln_1p()).floor().max(0.0) + 1.0;
        while next < checkpoints.len() && keys > checkpoints[next] {
            see(next, &sketch);
            next += 1;
        }
        // A random hash that changes a register: rejection, first with the least rank that can.
        let least = *sketch.registers.iter().take(64).min().unwrap();
        let least = if least == 0 { 0 } else { *sketch.registers.iter().min().unwrap() };
        let (index, rank) = loop {
            let bits = random.bits();
            let index = (bits >> (64 - lg_m)) as usize;
            let rank = least + 1 + (bits | 1 << 45).trailing_zeros() as u8;
            if rank > sketch.registers[index] {
                break (index, rank);
            }
        };
        chance += (2f64.powi(-i32::from(rank)) - 2f64.powi(-i32::from(sketch.registers[index]))) / m;
        sketch.registers[index] = rank;
    }
}

/// Over 1..10^8 distinct keys: no bias, the standard error of theory, and hardly an error beyond three sigma.
///
/// Limits at 200 runs and 25 checkpoints for a failure probability below 1e-9 in all, by the normal approximation:
/// mean within 7 sigma / sqrt(runs); variance, a chi-square of 200 degrees, below 1.9; the number beyond 3 sigma
/// (probability up to 0.4 % with the skew of the estimate) below 16 by Chernoff; none beyond 8 sigma.
#[test]
fn error_is_that_of_theory_from_one_to_a_hundred_million() {
    let checkpoints: Vec<f64> = (0..=24).map(|i| 10f64.powf(f64::from(i) / 3.0).round()).collect();
    let runs = 200;
    let lg_m = 8;
    let mut errors = vec![Vec::new(); checkpoints.len()];
    let sigma = HyperLogLog::new(lg_m, hasher(1)).unwrap().relative_standard_error();
    let mut uncovered = 0;
    for run in 0..runs {
        simulate(lg_m, &mut Random(run), &checkpoints, |at, sketch| {
            errors[at].push(sketch.estimate() / checkpoints[at] - 1.0);
            let covered = (sketch.lower_bound(3.5)..=sketch.upper_bound(3.5)).contains(&checkpoints[at]);
            uncovered += u64::from(!covered);
        });
    }
    for (errors, n) in errors.iter().zip(&checkpoints) {
        let mean = errors.iter().sum::<f64>() / runs as f64;
        let variance = errors.iter().map(|e| e * e).sum::<f64>() / runs as f64;
        let beyond = errors.iter().filter(|e| e.abs() > 3.0 * sigma).count();
        assert!(mean.abs() < 7.0 * sigma / (runs as f64).sqrt(), "bias {mean} at {n}");
        assert!(variance < 1.9 * sigma * sigma, "standard error {} at {n}, not {sigma}", variance.sqrt());
        assert!(beyond < 16, "{beyond} of {runs} beyond 3 sigma at {n}");
        assert!(errors.iter().all(|e| e.abs() < 8.0 * sigma), "an error beyond 8 sigma at {n}");
        // Large cardinalities must not be better than theory either: that would be another formula's test.
        assert!(*n < 1e4 || variance > 0.4 * sigma * sigma, "standard error {} at {n}", variance.sqrt());
    }
    // 5,000 intervals of 3.5 sigma; 0.05 % to 0.2 % miss, runs being correlated: 60 is 1.2 %.
    assert!(uncovered < 60, "{uncovered} intervals miss");
}

#[test]
fn every_size_is_right_through_the_hash() {
    for lg_m in LG_M_MIN..=LG_M_MAX {
        for n in [1u64, 100, 30_000] {
            let sketch = sketch_of(lg_m, 0..n);
            let error = sketch.estimate() / n as f64 - 1.0;
            let limit = 7.0 * sketch.relative_standard_error();
            assert!(error.abs() < limit, "lg_m {lg_m}, n {n}: error {error}, limit {limit}");
        }
    }
}

#[test]
#[ignore = "a minute: one real run of 10^8 hashes"]
fn a_hundred_million_real_hashes() {
    let sketch = sketch_of(14, 0..100_000_000);
    let error = sketch.estimate() / 1e8 - 1.0;
    assert!(error.abs() < 6.5 * sketch.relative_standard_error(), "{error}");
}

#[test]
fn empty_is_zero_and_few_are_nearly_exact() {
    let empty = HyperLogLog::new(12, hasher(1)).unwrap();
    assert_eq!((empty.estimate(), empty.lower_bound(3.0), empty.upper_bound(3.0)), (0.0, 0.0, 0.0));
    for n in 1..20 {
        let estimate = sketch_of(16, 0..n).estimate();
        assert!((estimate - n as f64).abs() < 1.5, "{estimate} for {n}");
    }
}

#[test]
fn options_out_of_range_are_refused() {
    for lg_m in [0, 3, 19, 64] {
        assert!(matches!(HyperLogLog::new(lg_m, hasher(1)), Err(Error::InvalidOption { name: "lg_m", .. })));
    }
    let mut sketch = HyperLogLog::new(4, hasher(1)).unwrap();
    for shards in [0, 3, 32] {
        assert!(matches!(sketch.split_mut(shards), Err(Error::InvalidOption { name: "shards", .. })));
    }
}

#[test]
fn other_seeds_and_sizes_do_not_merge() {
    let mut sketch = HyperLogLog::new(4, hasher(1)).unwrap();
    for other in [HyperLogLog::new(5, hasher(1)).unwrap(), HyperLogLog::new(4, hasher(2)).unwrap()] {
        assert!(matches!(sketch.merge(&other), Err(Error::Incompatible { .. })));
    }
}

proptest! {
    #[test]
    fn state_depends_on_the_set_alone(keys in prop::collection::vec(0u64..500, 0..400), cut in 0usize..400, lg_shards in 0u32..=4) {
        let whole = sketch_of(4, keys.iter().copied());
        let set: HashSet<u64> = keys.iter().copied().collect();
        prop_assert_eq!(&whole, &sketch_of(4, set));

        let cut = cut.min(keys.len());
        let mut merged = sketch_of(4, keys[cut..].iter().copied());
        merged.merge(&sketch_of(4, keys[..cut].iter().copied())).unwrap();
        prop_assert_eq!(&whole, &merged);

        let mut sharded = HyperLogLog::new(4, hasher(1)).unwrap();
        let mut shards = sharded.split_mut(1 << lg_shards).unwrap();
        for key in &keys {
            let hash = hasher(1).hash(&key.to_le_bytes());
            shards[keyhash::range_of(hash.high(), 1 << lg_shards) as usize].update(hash);
        }
        prop_assert_eq!(&whole, &sharded);
    }

    #[test]
    fn bytes_come_back_and_forged_ones_do_not_panic(keys in prop::collection::vec(0u64.., 0..100), at in 0usize..20, value: u8) {
        let sketch = sketch_of(4, keys);
        let bytes = sketch.to_bytes();
        prop_assert_eq!(&HyperLogLog::from_bytes(&bytes).unwrap(), &sketch);
        if let Ok(forged) = HyperLogLog::from_bytes(&format::forge(&bytes, at, value)) {
            prop_assert!(forged.estimate() >= 0.0);
        }
    }
}
