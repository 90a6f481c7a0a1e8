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

use crate::{Error, Result};

/// lg of the number of shards: 32 ranges of the hash. More threads than shards find no more work side by side; fewer
/// shards would make each shard's heavy keys outgrow the L2 cache at large budgets.
pub const LG_SHARDS: u32 = 5;
/// The number of shards.
pub const SHARDS: usize = 1 << LG_SHARDS;

/// The least budget: below it, a chunk for each of two threads no longer fits beside useful sketches.
pub const MEMORY_BYTES_MIN: u64 = 8 << 20;
/// What a row costs on its way beside its text: hash 16, key span 8, group entry 4, weight 8, value 8, rounded up for
/// vectors that grow by doubling.
const ROW_BYTES: u64 = 64;
/// The shortest row that the plan reckons with. Shorter rows make row lists larger than planned.
const ROW_TEXT_BYTES: u64 = 8;

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
        let key_bytes_max = 128;
        let heavy_bytes = (memory_bytes / 8).min(256 << 20) as usize;
        let heavy_capacity =
            heavy_bytes / SHARDS / crate::sketch::SpaceSaving::memory_bytes_for(1, key_bytes_max);
        Ok(Self {
            memory_bytes,
            count_bytes: usize::try_from(memory_bytes / 2).unwrap_or(usize::MAX),
            heavy_capacity,
            key_bytes_max,
            // 0.4 % error at 64 KiB; 0.2 % where a quarter MiB does not matter.
            lg_registers: if memory_bytes >= 64 << 20 { 18 } else { 16 },
        })
    }

    /// How large a chunk of input may be when `threads` work at once: each holds one chunk, its rows, and its successor
    /// is being cut.
    pub fn chunk_bytes(&self, threads: usize) -> usize {
        let row_share = 1 + ROW_BYTES / ROW_TEXT_BYTES;
        let per_thread = self.memory_bytes / 4 / (threads as u64 + 1);
        (per_thread / row_share).clamp(64 << 10, 2 << 20) as usize
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
