//! What a filter will cost, before it is made.

use super::fronts::standing_bytes;
use super::options::{FilterOptions, Policy};
use super::saved::shares;
use crate::Result;
use crate::error::invalid;
use crate::filter::run::{FrontShape, allot};

/// Bits of a fingerprint that a run takes beside `lg(2^p / n)`: the code, headers, seals and fences; see `filter/run`.
const OVERHEAD_BITS: f64 = 2.1;
/// Nanoseconds of a byte that a merge writes: unpacking, merging and packing a key of two bytes, and the device's share.
const WRITTEN_BYTE_NS: f64 = 5.0;
/// Nanoseconds of a random read among many: a flash device does 100,000 a second.
const READ_NS: f64 = 10_000.0;
/// Bytes of a fence, and of the block that it is of.
const FENCE_BYTES: f64 = 4.5;
const BLOCK_BYTES: f64 = 4096.0;

/// What merging comes to while writers rest; see `restful` in `lsm/picker`.
const RUNS_AT_REST: u32 = 2;

/// RAM, flash and I/O of a filter, from [`FilterOptions::plan`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FilterPlan {
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// Levels on flash.
    pub levels: u32,
    /// The most runs on flash under full load, merges that are under way aside.
    pub runs: u32,
    /// The most runs once writers have rested for as long as the merges take, where fingerprints of one length came in one pane: a miss
    /// reads a block of each. Background threads merge what is an eighth of the longer runs, whatever the policy, and after five
    /// seconds all but the longest, until the next insert.
    pub runs_at_rest: u32,
    /// Blocks that a lookup of a key that is not there reads, on average between two merges of the last level, once the runs have
    /// fronts: those who never look keys up have none, and all of the memory for buffers.
    pub reads_a_lookup: f64,
    /// Bits a key in RAM in front of the runs, on average over all keys; the shortest runs have the most.
    pub front_bits_a_key: f64,
    /// Bytes written to flash a key, merges included.
    pub writes_a_key: f64,
    /// Bytes on flash when all keys are in.
    pub flash_bytes: u64,
    /// The most bytes on flash while all is merged to one run: the merge gives its inputs back in pieces, which takes at most 0.15 of
    /// the filter beside it and what two flushes make. Where some of what is merged was committed and some not, space comes back with
    /// the next commit only, and it may be twice as much as the filter.
    pub flash_peak_bytes: u64,
    /// Keys that wait in RAM between two flushes.
    pub memory_keys: u64,
}

impl FilterOptions {
    /// What these options will cost for `keys` different keys, each inserted once, beside `threads` background threads.
    ///
    /// ```
    /// use overbank::filter::cascade::{FilterOptions, Policy};
    /// let tiered = FilterOptions::default().plan(1 << 30, 1)?;
    /// let policy = Policy::LazyLevelled { fan_out: 8 };
    /// let lazy = FilterOptions::default().policy(policy).plan(1 << 30, 1)?;
    /// assert!(tiered.writes_a_key < lazy.writes_a_key && tiered.reads_a_lookup > lazy.reads_a_lookup);
    /// # Ok::<(), overbank::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn plan(&self, keys: u64, threads: usize) -> Result<FilterPlan> {
        self.check()?;
        let memory_keys = shares(self, threads).flush_entries;
        let generation = (0..64).find(|&generation| keys <= self.capacity(generation)).unwrap_or(63);
        let bits = self.bits(generation) + self.value_bits;
        let run_bytes = |keys: f64| keys * (f64::from(bits) - keys.max(1.0).log2() + OVERHEAD_BITS) / 8.0;
        let fan_out = f64::from(self.policy.fan_out());
        let flushes = (keys as f64 / memory_keys as f64).max(1.0);
        let levels = (flushes.ln() / fan_out.ln() + 1e-9).floor() as u32 + 1;
        // Each key is written once a level, in runs of that level's length.
        let level_keys = |level: u32| memory_keys as f64 * fan_out.powi(level as i32);
        let once: f64 = (0..levels).map(|level| run_bytes(level_keys(level)) / level_keys(level)).sum();
        let last_keys = level_keys(levels - 1).min(keys as f64);
        let last_byte = run_bytes(last_keys) / last_keys;
        // Runs of each level, on average and at most.
        let (level_runs, runs, writes): (Vec<f64>, f64, f64) = match self.policy {
            Policy::Tiered { .. } => {
                let each = (fan_out - 1.0) / 2.0;
                (vec![each; levels as usize], (fan_out - 1.0) * f64::from(levels), once)
            }
            Policy::LazyLevelled { .. } => {
                let mut each = vec![(fan_out - 1.0) / 2.0; levels as usize];
                each[levels as usize - 1] = 1.0;
                let others = (fan_out - 1.0) * f64::from(levels - 1);
                (each, 1.0 + others, once + (fan_out / 2.0 - 1.0).max(0.0) * last_byte)
            }
        };
        // No more than there were flushes.
        let scale = (flushes / level_runs.iter().sum::<f64>()).min(1.0);
        let level_runs: Vec<f64> = level_runs.iter().map(|runs| runs * scale).collect();
        let flash_bytes = run_bytes(keys as f64) as u64;
        let fences = flash_bytes as f64 / BLOCK_BYTES * FENCE_BYTES;
        let front_bytes = standing_bytes(shares(self, threads).frozen_bytes).saturating_sub(fences as usize);
        let lengths = (0..levels).map(|level| level_keys(level).min(keys as f64));
        let (passed, front_bits) =
            with_fronts(&level_runs, &lengths.collect::<Vec<f64>>(), front_bytes as u64);
        Ok(FilterPlan {
            fingerprint_bits: self.bits(generation),
            levels,
            runs: runs as u32,
            runs_at_rest: (runs as u32).min(RUNS_AT_REST),
            reads_a_lookup: passed,
            front_bits_a_key: front_bits,
            writes_a_key: writes,
            flash_bytes,
            flash_peak_bytes: (flash_bytes + flash_bytes / 20 * 3 + 2 * run_bytes(memory_keys as f64) as u64)
                .min(2 * flash_bytes),
            memory_keys,
        })
    }

    /// These options with the policy that costs the least time for `keys` keys, where `lookups_a_key` keys that are not there are
    /// looked up for each key inserted, in batches that keep a flash device busy: tiered with a wide fan-out for inserts alone,
    /// lazy-levelled or a fan-out of few for many lookups.
    ///
    /// ```
    /// use overbank::filter::cascade::FilterOptions;
    /// let options = FilterOptions::default();
    /// let written = options.for_lookups(1 << 33, 0.0, 1)?;
    /// let asked = options.for_lookups(1 << 33, 1.0, 1)?;
    /// assert!(written.plan(1 << 33, 1)?.writes_a_key < asked.plan(1 << 33, 1)?.writes_a_key);
    /// assert!(asked.plan(1 << 33, 1)?.reads_a_lookup < written.plan(1 << 33, 1)?.reads_a_lookup);
    /// # Ok::<(), overbank::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidOption`, also for a number of lookups that is no number from 0 on.
    pub fn for_lookups(self, keys: u64, lookups_a_key: f64, threads: usize) -> Result<Self> {
        if !(lookups_a_key >= 0.0 && lookups_a_key.is_finite()) {
            return invalid("lookups_a_key", lookups_a_key, "give a number from 0 on");
        }
        let mut best: Option<(f64, Self)> = None;
        for fan_out in [16, 12, 8, 6, 4, 3, 2] {
            for policy in [Policy::Tiered { fan_out }, Policy::LazyLevelled { fan_out }] {
                let options = FilterOptions { policy, ..self };
                let plan = options.plan(keys, threads)?;
                let cost =
                    plan.writes_a_key * WRITTEN_BYTE_NS + lookups_a_key * plan.reads_a_lookup * READ_NS;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, options));
                }
            }
        }
        Ok(best.map_or(self, |(_, options)| options))
    }
}

/// How many of a level's runs a key that is not there passes, added up over the levels, and how many bits a key that takes of
/// `front_bytes`; `runs[i]` runs of `keys[i]` keys are on level `i`.
fn with_fronts(runs: &[f64], keys: &[f64], front_bytes: u64) -> (f64, f64) {
    // Whole runs, which together are as long as those there are on average.
    let whole: Vec<usize> = runs.iter().map(|runs| (runs - 1e-9).ceil() as usize).collect();
    let all: Vec<u64> = (whole.iter().zip(keys).zip(runs))
        .flat_map(|((&whole, keys), runs)| {
            std::iter::repeat_n((keys * runs / whole.max(1) as f64) as u64, whole)
        })
        .collect();
    let bits = allot(&all, front_bytes);
    let rate = |bits_a_key: u32| match bits_a_key {
        0 => 1.0,
        _ => FrontShape { bits_a_key, value_bits: 0 }.false_positive_rate(),
    };
    let (mut passed, mut first) = (0.0, 0);
    for (&whole, runs) in whole.iter().zip(runs) {
        let of_level = &bits[first..first + whole];
        passed += of_level.iter().map(|&bits| rate(bits)).sum::<f64>() * runs / whole.max(1) as f64;
        first += whole;
    }
    let taken: f64 = all.iter().zip(&bits).map(|(&keys, &bits)| keys as f64 * f64::from(bits)).sum();
    (passed, taken / all.iter().sum::<u64>().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_front_of_the_runs_saves_reads() {
        let of = |memory_bytes: usize| {
            FilterOptions { memory_bytes, ..FilterOptions::default() }.plan(1 << 26, 1).unwrap()
        };
        let (less, more) = (of(24 << 20), of(512 << 20));
        assert!(less.front_bits_a_key < 3.0 && more.front_bits_a_key > 9.0, "{less:?} {more:?}");
        assert!(more.reads_a_lookup < 0.1 && less.reads_a_lookup > 1.0, "{less:?} {more:?}");
        // Five bits before three runs.
        let (passed, bits) = with_fronts(&[3.0], &[1e6], 3_000_000 * 5 / 8);
        assert!((passed - 0.2787).abs() < 0.001 && (bits - 5.0).abs() < 0.01, "{passed} {bits}");
        assert_eq!(with_fronts(&[2.5, 1.0], &[1e6, 1e7], 0), (3.5, 0.0));
    }
}
