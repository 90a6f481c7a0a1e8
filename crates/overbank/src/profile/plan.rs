//! How a profile divides its memory budget.
//!
//! ```text
//!   budget ┬─ 1/2   count-min pages          how often any key came
//!          ├─ 1/8   heavy keys               space-saving, one a shard
//!          ├─ 1/4   chunks on their way      text, hashes and row lists, for all threads together
//!          └─ 1/8   all else                 registers, bins, decoders, the bytes of a commit
//! ```
//!
//! 1. The shapes of the sketches depend on the budget alone: neither the number of threads nor the size of a chunk
//!    changes an answer.

use crate::sketch::SpaceSaving;
use crate::{Error, Result};

/// lg of the number of shards: 32 ranges of the hash. More threads than shards find no more work side by side; fewer
/// shards would make each shard's heavy keys outgrow the L2 cache at large budgets.
pub const LG_SHARDS: u32 = 5;
/// The number of shards.
pub const SHARDS: usize = 1 << LG_SHARDS;

/// The least budget: below it, a chunk for each of two threads no longer fits beside useful sketches.
pub const MEMORY_BYTES_MIN: u64 = 8 << 20;
/// What a row costs on its way beside its text: hash 16, key span 8, group entry 20, weight 8, value 8, no more:
/// the vectors reach their size in the first chunks and keep it.
const ROW_BYTES: u64 = 60;

/// Heavy keys are kept whole up to this many bytes: longer than most words, host names and query strings.
const KEY_BYTES_MAX: usize = 128;

/// The shapes of a profile's parts for one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The budget, in bytes.
    pub memory_bytes: u64,
    /// Bytes of count-min cells.
    pub count_bytes: usize,
    /// Heavy keys kept in each shard.
    pub heavy_capacity: usize,
    /// The longest key kept whole among the heavy ones, in bytes.
    pub key_bytes_max: usize,
    /// lg of the number of HyperLogLog registers.
    pub lg_registers: u32,
}

impl Plan {
    /// The plan for `memory_bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] below [`MEMORY_BYTES_MIN`].
    pub fn for_memory(memory_bytes: u64) -> Result<Self> {
        if memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::InvalidOption {
                name: "memory",
                value: format!("{memory_bytes} bytes"),
                why: format!("a profile needs at least {} MiB", MEMORY_BYTES_MIN >> 20),
            });
        }
        let heavy_bytes = (memory_bytes / 8).min(256 << 20) as usize;
        Ok(Self {
            memory_bytes,
            count_bytes: usize::try_from(memory_bytes / 2).unwrap_or(usize::MAX),
            heavy_capacity: heavy_capacity(heavy_bytes / SHARDS, KEY_BYTES_MAX),
            key_bytes_max: KEY_BYTES_MAX,
            // 0.4 % error at 64 KiB; 0.2 % where a quarter MiB does not matter.
            lg_registers: if memory_bytes >= 64 << 20 { 18 } else { 16 },
        })
    }

    /// How large a chunk of input may be when `threads` work at once: each holds one chunk and its rows, and a successor is
    /// being cut. The larger the chunk, the more rows a shard sees while it is in the cache.
    pub fn chunk_bytes(&self, threads: usize) -> usize {
        (self.on_the_way(threads) / 5).clamp(64 << 10, 2 << 20) as usize
    }

    /// How many rows a chunk may have, so that short ones keep the budget too.
    pub fn chunk_rows(&self, threads: usize) -> usize {
        (self.on_the_way(threads) * 3 / 4 / ROW_BYTES).max(1 << 10) as usize
    }

    /// Bytes for one chunk, its rows, and slack.
    fn on_the_way(&self, threads: usize) -> u64 {
        self.memory_bytes / 4 / (threads as u64 + 1)
    }

    /// The longest row: a longer one is skipped and counted.
    pub fn row_bytes_max(&self, threads: usize) -> usize {
        (self.memory_bytes / 8 / (threads as u64 + 1)).clamp(64 << 10, 64 << 20) as usize
    }

    /// The largest window that a zstd frame may ask for: 8 MiB is what levels up to 19 use.
    pub fn window_bytes_max(&self) -> usize {
        (self.memory_bytes / 8).clamp(8 << 20, 128 << 20) as usize
    }
}

/// The most slots of a space-saving sketch that fit into `bytes`.
fn heavy_capacity(bytes: usize, key_bytes_max: usize) -> usize {
    let fits = |capacity: usize| SpaceSaving::memory_bytes_for(capacity, key_bytes_max) <= bytes;
    let (mut least, mut beyond) = (1, bytes / key_bytes_max + 2);
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        if fits(middle) { least = middle } else { beyond = middle }
    }
    least
}
