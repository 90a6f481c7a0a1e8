//! How a profile divides its memory budget.
//!
//! ```text
//!   budget ┬─ 1/2   count-min pages          how often any key came
//!          ├─ 1/8   heavy keys               space-saving, one a shard
//!          ├─ 1/4   chunks on their way      text, hashes and row lists, for all threads together
//!          └─ 1/8   all else                 registers, bins, decoders, the bytes of a commit
//! ```
//!
//! With a sketch on flash the pages are but a filter before it, and its buffer gets what they give up:
//!
//! ```text
//!   budget ┬─ 1/8   count-min pages          is a key heavy enough for a slot?
//!          ├─ 3/8   the sketch on flash      its buffer of updates, two groups, readers of its logs
//!          └─ 1/2   the rest, as above
//! ```
//!
//! 1. The shapes of the sketches depend on the budget alone: neither the number of threads nor the size of a chunk
//!    changes an answer.

use crate::device::BLOCK_BYTES;
use crate::frequency::FrequencyOptions;
use crate::sketch::SpaceSaving;
use crate::{Error, Result};

/// lg of the number of shards: 32 ranges of the hash. More threads than shards find no more work side by side; fewer
/// shards would make each shard's heavy keys outgrow the L2 cache at large budgets.
pub const LG_SHARDS: u32 = 5;
/// The number of shards.
pub const SHARDS: usize = 1 << LG_SHARDS;

/// The least budget: below it, a chunk for each of two threads no longer fits beside useful sketches.
pub const MEMORY_BYTES_MIN: u64 = 8 << 20;
/// The least budget with a sketch on flash: below it, readers and sorters leave its buffer too little.
pub const FLASH_MEMORY_BYTES_MIN: u64 = 16 << 20;
/// What a row costs on its way beside its text: hash 16, key span 8, group entry 20, weight 8, value 8, no more:
/// the vectors reach their size in the first chunks and keep it.
const ROW_BYTES: u64 = 60;

/// What the decoders have at any budget: zstd's usual level needs a window of 2 MiB and blocks beside it. The chunks give up what
/// the share of a small budget lacks, and the pages a third as much for the program, which is the same at any budget.
const DECODER_BYTES_MIN: u64 = 5 << 19;

/// The least share of a thread in the chunks on their way: below it, a chunk and its rows are so short that waiting at the
/// shards costs more than a thread gains.
const THREAD_BYTES_MIN: u64 = 256 << 10;

/// What a row may cost in the outbox for the sketch on flash: a hash of weight 1, or a hash and its weight, in either of two
/// lists.
const OUTBOX_BYTES: u64 = 40;
/// What an update takes in a buffer, its scratch included.
const UPDATE_BYTES: usize = 16;
/// RAM of the sketch on flash for each writer, at least: sorting takes about 1 MiB of tables, and passes take a third of it all.
const WRITER_BYTES_MIN: usize = 6 << 20;
/// Groups of 2 MiB: what a second-level cache holds and a device writes at its full rate.
const GROUP_PAGES_MAX: usize = 512;

/// Heavy keys are kept whole up to this many bytes: longer than most words, host names and query strings.
const KEY_BYTES_MAX: usize = 128;

/// The shapes of a profile's parts for one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilePlan {
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
    /// RAM of the sketch on flash, in bytes; 0 without one.
    pub flash_memory_bytes: usize,
}

impl ProfilePlan {
    /// The plan for `memory_bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] below [`MEMORY_BYTES_MIN`].
    pub fn for_memory(memory_bytes: u64) -> Result<Self> {
        at_least(memory_bytes, MEMORY_BYTES_MIN, "a profile")?;
        let heavy_bytes = (memory_bytes / 8).min(256 << 20) as usize;
        Ok(Self {
            memory_bytes,
            count_bytes: usize::try_from(memory_bytes / 2 - decoders_lack(memory_bytes) / 3)
                .unwrap_or(usize::MAX),
            heavy_capacity: heavy_capacity(heavy_bytes / SHARDS, KEY_BYTES_MAX),
            key_bytes_max: KEY_BYTES_MAX,
            // 0.4 % error at 64 KiB; 0.2 % where a quarter MiB does not matter.
            lg_registers: if memory_bytes >= 64 << 20 { 18 } else { 16 },
            flash_memory_bytes: 0,
        })
    }

    /// The plan for `memory_bytes` of a profile with a sketch on flash.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] below [`FLASH_MEMORY_BYTES_MIN`].
    pub fn with_flash(memory_bytes: u64) -> Result<Self> {
        at_least(memory_bytes, FLASH_MEMORY_BYTES_MIN, "a profile with a sketch on flash")?;
        let eighth = usize::try_from(memory_bytes / 8).unwrap_or(usize::MAX / 8);
        let plan = Self::for_memory(memory_bytes)?;
        Ok(Self { count_bytes: eighth, flash_memory_bytes: 3 * eighth, ..plan })
    }

    /// `options` with RAM, groups and writers that fit this plan and `threads`, and with fewer pending chunks where their readers
    /// would leave the buffers too little.
    ///
    /// # Errors
    /// As [`FrequencyOptions::plan`].
    pub fn fitted(&self, options: &FrequencyOptions, threads: usize) -> Result<FrequencyOptions> {
        let bytes = self.flash_memory_bytes;
        let pages = (bytes / 16 / BLOCK_BYTES).clamp(1, GROUP_PAGES_MAX);
        let writers = self.flash_writers(threads);
        let mut fitted = options.clone().memory_bytes(bytes).group_pages(1 << pages.ilog2()).writers(writers);
        let buffers_bytes =
            |fitted: &FrequencyOptions| Ok(fitted.plan()?.buffer_updates * writers * UPDATE_BYTES);
        while fitted.pending_chunks() > 0 && buffers_bytes(&fitted)? < bytes / 5 {
            let fewer = fitted.pending_chunks() * 7 / 8;
            fitted = fitted.pending(fewer);
        }
        Ok(fitted)
    }

    /// How many buffers the sketch on flash has for `threads`: one each, if they are worth their sorters' tables.
    pub(super) fn flash_writers(&self, threads: usize) -> usize {
        (self.flash_memory_bytes / WRITER_BYTES_MIN).clamp(1, threads.max(1))
    }

    /// How many of `threads` work: as many as have room for a chunk and its rows. 3 of any number at 8 MiB, 63 at 64 MiB.
    pub fn threads(&self, threads: usize) -> usize {
        let room = self.chunks_bytes() / THREAD_BYTES_MIN;
        threads.clamp(1, usize::try_from(room).unwrap_or(usize::MAX) - 1)
    }

    /// How large a chunk of input may be when `threads` work at once: each holds one chunk and its rows, and a successor is
    /// being cut. The larger the chunk, the more rows a shard sees while it is in the cache.
    pub fn chunk_bytes(&self, threads: usize) -> usize {
        (self.on_the_way(threads) / 5).clamp(64 << 10, 2 << 20) as usize
    }

    /// How many rows a chunk may have, so that short ones keep the budget too.
    pub fn chunk_rows(&self, threads: usize) -> usize {
        let row_bytes = if self.flash_memory_bytes > 0 { ROW_BYTES + OUTBOX_BYTES } else { ROW_BYTES };
        (self.on_the_way(threads) * 3 / 4 / row_bytes).max(1 << 10) as usize
    }

    /// Bytes for one chunk, its rows, and slack.
    fn on_the_way(&self, threads: usize) -> u64 {
        self.chunks_bytes() / (threads as u64 + 1)
    }

    /// Bytes for all chunks on their way.
    fn chunks_bytes(&self) -> u64 {
        self.memory_bytes / 4 - decoders_lack(self.memory_bytes)
    }

    /// The longest row: a longer one is an error that names the memory which it takes.
    pub fn row_bytes_max(&self, threads: usize) -> usize {
        (self.memory_bytes / 8 / (threads as u64 + 1)).clamp(64 << 10, 1 << 30) as usize
    }

    /// What dictionaries and buffers of a Parquet file may take: 4 MiB are enough for the columns that most writers make.
    pub fn parquet_bytes_max(&self) -> usize {
        usize::try_from(self.memory_bytes / 8).unwrap_or(usize::MAX).max(4 << 20)
    }

    /// The largest window that zstd or xz may ask for: 8 MiB is what zstd's levels up to 19 and `xz -6` use, 2 GiB the most that zstd
    /// knows. Below 64 MiB such a window is more than the decoders' share, and what it has beyond that comes on top of the budget.
    pub fn window_bytes_max(&self) -> usize {
        (self.memory_bytes / 8).clamp(8 << 20, 2 << 30) as usize
    }
}

/// What an eighth of a small budget lacks of what decoders have at any.
fn decoders_lack(memory_bytes: u64) -> u64 {
    DECODER_BYTES_MIN.saturating_sub(memory_bytes / 8)
}

fn at_least(memory_bytes: u64, least_bytes: u64, what: &str) -> Result<()> {
    if memory_bytes >= least_bytes {
        return Ok(());
    }
    Err(Error::InvalidOption {
        name: "memory",
        value: format!("{memory_bytes} bytes"),
        why: format!("{what} needs at least {} MiB", least_bytes >> 20),
    })
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
