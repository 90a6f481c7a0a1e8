//! What a filter will cost, before it is made.

use super::options::{CascadeOptions, Policy};
use super::saved::shares;
use crate::Result;

/// Bits of a fingerprint that a run takes beside `lg(2^p / n)`: the code, headers, seals and fences; see `filter/run`.
const OVERHEAD_BITS: f64 = 2.1;

/// RAM, flash and I/O of a filter, from [`CascadeOptions::plan`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// Levels on flash.
    pub levels: u32,
    /// The most runs on flash, merges that are under way aside.
    pub runs: u32,
    /// Blocks that a lookup of a key that is not there reads, at most and on average between two merges of the last level.
    pub reads_a_lookup: f64,
    /// Bytes written to flash a key, merges included.
    pub writes_a_key: f64,
    /// Bytes on flash when all keys are in.
    pub flash_bytes: u64,
    /// Bytes on flash while the largest merge is under way and nothing was committed yet.
    pub flash_peak_bytes: u64,
    /// Keys that wait in RAM between two flushes.
    pub memory_keys: u64,
}

impl CascadeOptions {
    /// What these options will cost for `keys` different keys, each inserted once, beside `threads` background threads.
    ///
    /// ```
    /// use overbank::filter::cascade::{CascadeOptions, Policy};
    /// let tiered = CascadeOptions::default().plan(1 << 30, 1)?;
    /// let policy = Policy::LazyLevelled { fan_out: 8 };
    /// let lazy = CascadeOptions { policy, ..CascadeOptions::default() }.plan(1 << 30, 1)?;
    /// assert!(tiered.writes_a_key < lazy.writes_a_key && tiered.reads_a_lookup > lazy.reads_a_lookup);
    /// # Ok::<(), overbank::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn plan(&self, keys: u64, threads: usize) -> Result<Plan> {
        self.check()?;
        let memory_keys = shares(self, threads).flush_keys;
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
        let (runs, reads, writes) = match self.policy {
            Policy::Tiered { .. } => {
                let runs = (fan_out - 1.0) * f64::from(levels);
                (runs, (fan_out - 1.0) / 2.0 * f64::from(levels), once)
            }
            Policy::LazyLevelled { .. } => {
                let others = (fan_out - 1.0) * f64::from(levels - 1);
                (1.0 + others, 1.0 + others / 2.0, once + (fan_out / 2.0 - 1.0).max(0.0) * last_byte)
            }
        };
        let flash_bytes = run_bytes(keys as f64) as u64;
        Ok(Plan {
            fingerprint_bits: self.bits(generation),
            levels,
            runs: runs as u32,
            reads_a_lookup: reads.min(flushes),
            writes_a_key: writes,
            flash_bytes,
            flash_peak_bytes: 2 * flash_bytes,
            memory_keys,
        })
    }
}
