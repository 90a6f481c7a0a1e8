//! The memory of groups: blocks of one length, made when they are first needed and then kept.
//!
//! Records that wait and pages that are full of groups are in blocks of the same pool, so memory goes to and fro between them, and nothing
//! is left to an allocator to hold: blocks are given back to it when the pool is dropped. What does not fit a block, a key or a state of
//! some KiB, has memory of its own, which counts alike.
//!
//! Invariant: whoever finds more in use than the budget says takes nothing for new rows. Rows that are on their way then, and merges, of
//! which there are as many at once as scratches, take what [`Shares`](super::options::Shares) keeps for them beside the budget.

use crate::lock::lock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 4096;

/// A block, or a longer piece of memory for what does not fit one.
pub(super) type Block = Box<[u8]>;

/// Who may have how much.
#[derive(Debug)]
pub(super) struct Pool {
    free: Mutex<Vec<Block>>,
    /// What is in use, in bytes.
    used_bytes: AtomicUsize,
    budget_bytes: usize,
    /// What other things take of the budget for now.
    beside_bytes: AtomicUsize,
    /// What questions have of what is in use.
    loan_bytes: AtomicUsize,
}

impl Pool {
    pub(super) fn new(budget_bytes: usize) -> Pool {
        let (used_bytes, beside_bytes, loan_bytes) = Default::default();
        Pool { free: Mutex::default(), used_bytes, budget_bytes, beside_bytes, loan_bytes }
    }

    /// What may be in use.
    pub(super) fn budget_bytes(&self) -> usize {
        self.budget_bytes.saturating_sub(self.beside_bytes.load(Ordering::Relaxed))
    }

    /// Lends so much of the budget to what is not in blocks.
    pub(super) fn set_beside(&self, bytes: usize) {
        self.beside_bytes.store(bytes, Ordering::Relaxed);
    }

    /// A block.
    pub(super) fn take(&self) -> Block {
        self.used_bytes.fetch_add(BLOCK_BYTES, Ordering::Relaxed);
        let block = lock(&self.free).pop();
        block.unwrap_or_else(|| vec![0; BLOCK_BYTES].into())
    }

    /// A piece of memory for what takes `bytes`: a block, if it fits one.
    pub(super) fn take_for(&self, bytes: usize) -> Block {
        if bytes <= BLOCK_BYTES {
            return self.take();
        }
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        vec![0; bytes].into()
    }

    /// Counts memory that is in no block as in use, if there is room for so much.
    pub(super) fn lend(&self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let budget_bytes = self.budget_bytes();
        let lent = |used: usize| used.checked_add(bytes).filter(|&used| used <= budget_bytes);
        let is_lent = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lent).is_ok();
        if is_lent {
            self.trim();
        }
        is_lent
    }

    /// Lets go of blocks for which there is no room: what was given back and is not in use takes memory, too.
    fn trim(&self) {
        let mut free = lock(&self.free);
        let most = self.budget_bytes().saturating_sub(self.used_bytes()) / BLOCK_BYTES;
        free.truncate(most);
    }

    /// Ends what was lent, or a part of it.
    pub(super) fn end_loan(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives back what was taken.
    pub(super) fn give(&self, block: Block) {
        self.used_bytes.fetch_sub(block.len(), Ordering::Relaxed);
        if block.len() == BLOCK_BYTES {
            lock(&self.free).push(block);
        }
    }

    /// Bytes in use.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Whether more is in use than there should be.
    pub(super) fn is_exhausted(&self) -> bool {
        self.used_bytes() >= self.budget_bytes()
    }

    /// Whether half of it is not in use.
    pub(super) fn is_half_free(&self) -> bool {
        self.used_bytes() < self.budget_bytes() / 2
    }

    /// Whether an eighth of it is not in use.
    pub(super) fn is_roomy(&self) -> bool {
        self.used_bytes() < self.budget_bytes() / 8 * 7
    }

    /// Bytes that the pool holds, in use or free.
    pub(super) fn memory_bytes(&self) -> usize {
        let free = lock(&self.free);
        self.used_bytes() + free.len() * BLOCK_BYTES + free.capacity() * size_of::<Block>()
    }
}

/// Memory in no block that a question needs: it counts as in use, whether or not there is room, until it is dropped.
#[derive(Debug)]
pub(super) struct Loan {
    pool: Arc<Pool>,
    bytes: usize,
}

impl Loan {
    /// Of nothing yet.
    pub(super) fn new(pool: &Arc<Pool>) -> Loan {
        Loan { pool: Arc::clone(pool), bytes: 0 }
    }

    /// Has it be so many bytes, or a part of them, one in `share`, where others have loans already and there is no room, or all loans would
    /// take more than half of the memory, which rows need, too; how many it is.
    pub(super) fn set(&mut self, bytes: usize, share: usize) -> usize {
        self.end();
        let pool = &self.pool;
        let (lent, most) = (pool.loan_bytes.load(Ordering::Relaxed), pool.budget_bytes());
        let has_room =
            pool.used_bytes().saturating_add(bytes) <= most && lent.saturating_add(bytes) <= most / 2;
        self.bytes = if has_room || lent == 0 { bytes } else { bytes / share };
        pool.used_bytes.fetch_add(self.bytes, Ordering::Relaxed);
        pool.loan_bytes.fetch_add(self.bytes, Ordering::Relaxed);
        pool.trim();
        self.bytes
    }

    /// Gives it back.
    fn end(&mut self) {
        self.pool.end_loan(self.bytes);
        self.pool.loan_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.end();
    }
}
