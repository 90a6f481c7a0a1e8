//! How much memory groups take, and how it is divided.

use super::pool::BLOCK_BYTES;
use crate::error::invalid;
use crate::lsm::Limits;
use crate::{KeyHasher, Result};

/// The least memory: four leaves, and what a thread needs.
const MEMORY_BYTES_MIN: usize = 2 << 20;
/// Memory for each leaf: with what waits for it, it then stays in a core's second cache.
const LEAF_BYTES: usize = 512 << 10;
const LG_LEAVES_MAX: u32 = 12;
/// A share of the memory for records that wait.
const WAITING_SHARE: usize = 8;
/// As long as an eighth of the memory is free, a larger share waits: more records of a leaf at once find what they need in a core's caches.
/// Of 50 M rows of 5 M groups in 80 MB, a row takes 91 ns so, and 116 with the smaller share.
const ROOMY_WAITING_SHARE: usize = 3;
/// A share of the memory for lists of pages and leaves.
const LISTS_SHARE: usize = 32;
/// A share of the memory, for all threads together, for states of keys that come again soon.
const FRONT_SHARE: usize = 64;
/// What 4096 of the longest take, which is as many as a core's second cache has room for beside a leaf.
const FRONT_BYTES_MAX: usize = 4096 * 96;
/// Records that wait for a merge where memory is left, in blocks: some 8,000, which are sorted in a core's cache.
const MISSING_BLOCKS: usize = 32;
/// What a thread that merges holds: the copy that a sort makes, a page's groups; and for each block of records, of 8 bytes or more, an
/// index of 8 bytes a record, twice.
const SCRATCH_BYTES: usize = 128 << 10;
const SCRATCH_BYTES_A_BLOCK: usize = BLOCK_BYTES / 8 * 16;
/// The most that a thread takes in before it looks for room again, in blocks.
const PIECE_BLOCKS: usize = 16;
const THREADS_MAX: usize = 1024;
/// Sections of hashes that go to flash by themselves: an eighth of the memory is written at a time, and an eighth of the rows comes again
/// to what was written.
const LG_SECTIONS: u32 = 3;
/// A share of the memory for what is read and written of flash.
const FLASH_SHARE: usize = 16;
/// Records that wait on flash, in memories: so many at most, then they become runs.
const BACKLOG_FACTOR: usize = 16;
/// A share of the memory for the list of their pieces, which [`LISTS_SHARE`] has room for.
const PIECES_SHARE: usize = 128;
/// A share of the memory for the groups of a leaf that are made of them.
const GATHER_SHARE: usize = 32;
/// The most lanes of a merge, and how much memory there is for each.
const LANES_MAX: usize = 4;
const LANE_BYTES: usize = 1 << 20;
/// The most that is read or written at a time.
const PIECE_BLOCKS_MAX: usize = 64;

/// Options of [`Groups`](super::Groups).
#[derive(Clone, Debug)]
pub struct GroupsOptions {
    memory_bytes: usize,
    threads: usize,
    hasher: Option<KeyHasher>,
}

/// How the memory is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    /// A leaf is a range of hashes with the same first bits.
    pub(super) lg_leaves: u32,
    /// And a section one of fewer bits: its leaves go to flash together.
    pub(super) lg_sections: u32,
    /// Of each thread, for states of keys that come again soon.
    pub(super) front_bytes: usize,
    /// Blocks of all kinds together, when no more rows are taken in: merges that are under way may still take what is kept for them.
    pub(super) pool_bytes: usize,
    /// A leaf looks at the records that wait for it when they fill so many blocks.
    pub(super) pending_blocks: usize,
    /// The same, while there is room.
    pub(super) pending_blocks_roomy: usize,
    /// It takes those whose groups are not there into its pages when they fill so many.
    pub(super) missing_blocks: usize,
    /// The same, while there is room.
    pub(super) missing_blocks_roomy: usize,
    /// The most that it waits for, where memory is left.
    pub(super) missing_blocks_max: usize,
    /// Threads that insert at once.
    pub(super) threads: usize,
    /// Leaves that are worked on at once.
    pub(super) scratches: usize,
    /// A thread sees to it that there is room for so many bytes of rows before it takes them in.
    pub(super) piece_bytes: usize,
    /// Whether groups go to flash where there is no room.
    pub(super) spills: bool,
}

/// How the memory is divided that is for runs on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FlashShares {
    pub(super) lg_sections: u32,
    pub(super) limits: Limits,
    /// Of what a lane of a merge reads at a time, of all inputs together.
    pub(super) lane_bytes: usize,
    /// Of what a scan does.
    pub(super) scan_bytes: usize,
    /// The most that is read of an input at a time, in blocks.
    pub(super) piece_blocks_max: usize,
    /// What is written at a time.
    pub(super) writer_blocks: usize,
    /// Records of a section that wait on flash, before they become a run; and memory of the list of their pieces.
    pub(super) backlog_bytes: usize,
    pub(super) pieces_bytes: usize,
    /// Memory for groups that are made of them.
    pub(super) gather_bytes: usize,
}

impl Default for GroupsOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl GroupsOptions {
    /// 64 MiB, and hashes of a random seed.
    pub fn new() -> Self {
        GroupsOptions { memory_bytes: 64 << 20, threads: 16, hasher: None }
    }

    /// The memory for everything: records that wait, groups, what threads work in.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// How many threads insert at once without waiting for each other. Each has a block of memory a leaf, all together at most a fourth of
    /// the memory: of more threads, some wait.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How keys are hashed, so that groups that were built apart are in the same order.
    pub fn hasher(mut self, hasher: KeyHasher) -> Self {
        self.hasher = Some(hasher);
        self
    }

    /// The memory that was chosen, in bytes.
    pub fn chosen_memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The threads that were chosen.
    pub fn chosen_threads(&self) -> usize {
        self.threads
    }

    pub(super) fn chosen_hasher(&self) -> Option<KeyHasher> {
        self.hasher
    }

    pub(super) fn shares(&self) -> Result<Shares> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            let why = format!("groups take at least {MEMORY_BYTES_MIN} bytes");
            return invalid("memory_bytes", self.memory_bytes, why);
        }
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return invalid("threads", self.threads, format!("choose 1 to {THREADS_MAX}"));
        }
        let memory = self.memory_bytes;
        let lg_leaves = (memory / LEAF_BYTES).max(1).ilog2().clamp(LG_SECTIONS, LG_LEAVES_MAX);
        let waiting_blocks = (memory / WAITING_SHARE / BLOCK_BYTES) >> lg_leaves;
        let pending_blocks = (waiting_blocks / 3).max(1);
        let missing_blocks = (waiting_blocks - pending_blocks).max(1);
        let missing_blocks_max =
            (memory / 64 / BLOCK_BYTES).clamp(missing_blocks, MISSING_BLOCKS.max(missing_blocks));
        let pending_blocks_roomy =
            ((memory / ROOMY_WAITING_SHARE / 2 / BLOCK_BYTES) >> lg_leaves).max(pending_blocks);
        let missing_blocks_roomy = pending_blocks_roomy.clamp(missing_blocks, missing_blocks_max);
        // A block of each leaf is open in each.
        let threads = self.threads.min(memory / 4 / (BLOCK_BYTES << lg_leaves)).max(1);
        // What comes out of a merge, before the records that went in are gone.
        let merge_bytes = 2 * (missing_blocks_max + pending_blocks_roomy) * BLOCK_BYTES;
        let scratch_bytes = SCRATCH_BYTES + missing_blocks_max * SCRATCH_BYTES_A_BLOCK;
        let scratches = (memory / 8 / (merge_bytes + scratch_bytes)).clamp(1, threads);
        let piece_bytes = (memory / 16 / threads / BLOCK_BYTES).clamp(1, PIECE_BLOCKS) * BLOCK_BYTES;
        let lists_bytes = memory / LISTS_SHARE;
        let front_bytes = (memory / FRONT_SHARE / threads).min(FRONT_BYTES_MAX);
        // Twice, for all states that wait there may become records at once.
        let a_thread = piece_bytes + 2 * front_bytes;
        let beside = scratches * (merge_bytes + scratch_bytes) + threads * a_thread + lists_bytes;
        Ok(Shares {
            lg_leaves,
            lg_sections: LG_SECTIONS,
            front_bytes,
            pool_bytes: memory - beside,
            pending_blocks,
            pending_blocks_roomy,
            missing_blocks,
            missing_blocks_roomy,
            missing_blocks_max,
            threads,
            scratches,
            piece_bytes,
            spills: false,
        })
    }

    /// As [`GroupsOptions::shares`], of groups that go to flash.
    pub(super) fn spilling_shares(&self) -> Result<Shares> {
        let shares = self.shares()?;
        let beside = self.memory_bytes / FLASH_SHARE + self.memory_bytes / GATHER_SHARE;
        Ok(Shares { pool_bytes: shares.pool_bytes - beside, spills: true, ..shares })
    }

    /// The memory of groups that go to flash, in a store with so many threads of its own.
    pub(super) fn flash_shares(&self, threads: usize) -> FlashShares {
        let bytes = self.memory_bytes / FLASH_SHARE;
        let lanes = (threads + 1).min(LANES_MAX).min(bytes / LANE_BYTES).max(1);
        let limits = Limits {
            frozen_bytes: self.memory_bytes,
            // Levels only order the work: what a group takes is not known before.
            flush_entries: (self.memory_bytes / 64) as u64,
            lanes,
            merges: 1,
            inputs_max: 8,
            lane_entries_min: Limits::LANE_ENTRIES_MIN,
            piece_bytes_min: Limits::PIECE_BYTES_MIN,
        };
        FlashShares {
            lg_sections: LG_SECTIONS,
            limits,
            lane_bytes: bytes / 2 / lanes,
            scan_bytes: bytes / 4,
            piece_blocks_max: PIECE_BLOCKS_MAX,
            // A flush and a merge may be open at once.
            writer_blocks: (bytes / 8 / lanes / BLOCK_BYTES).clamp(1, PIECE_BLOCKS_MAX),
            backlog_bytes: self.memory_bytes.saturating_mul(BACKLOG_FACTOR) >> LG_SECTIONS,
            pieces_bytes: (self.memory_bytes / PIECES_SHARE) >> LG_SECTIONS,
            gather_bytes: self.memory_bytes / GATHER_SHARE,
        }
    }
}
