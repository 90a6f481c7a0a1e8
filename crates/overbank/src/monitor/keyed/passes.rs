//! Weight that passes from the aggregator's slots to its counters: a query finds it in the one or in the other.
//!
//! ```text
//!   counts  │ 3 │ 0 │ 17 │ …        a block: how often weight of one of its flows has passed
//!   last    counter 812, sum 4711   what the counter holds when the pass under way is done
//! ```
//!
//! 1. The aggregator alone writes. A pass is part of a change of its flow's block: from the odd version on the slots and messages of the
//!    block are without the weight, and the counter holds `last`, whatever it says yet. Counters only grow, so of a pass that is done
//!    `last` says nothing new.
//! 2. The block's count is raised before the counter. So who reads a flow's slots, then its counter, and finds the count that was there
//!    before both, read the counter before any later pass.
//! 3. A read repeats only if weight of its block passed meanwhile.

use super::ring::Padded;
use super::sync::{AtomicU64, Ordering, fence};

#[derive(Debug)]
pub(super) struct Passes {
    counts: Box<[AtomicU64]>,
    last: Padded<[AtomicU64; 2]>,
}

impl Passes {
    /// For so many blocks.
    pub(super) fn new(blocks: usize) -> Self {
        let counts = (0..blocks).map(|_| AtomicU64::new(0)).collect();
        Self { counts, last: Padded([u64::MAX, 0].map(AtomicU64::new)) }
    }

    /// Says what a counter will hold, before the change that the pass is part of.
    pub(super) fn announce(&self, cell: usize, sum: u64) {
        // Whoever reads these words for those of an older pass will find the change that this was part of done.
        fence(Ordering::Release);
        self.last.0[0].store(cell as u64, Ordering::Relaxed);
        self.last.0[1].store(sum, Ordering::Relaxed);
    }

    /// Forgets what was announced, when counters are cleared: no change is under way.
    pub(super) fn forget(&self) {
        self.announce(usize::MAX, 0);
    }

    /// In the change: what follows raises the counter.
    pub(super) fn begin(&self, block: usize) {
        let count = &self.counts[block];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Whoever finds the counter raised will find the count raised.
        fence(Ordering::Release);
    }

    /// How often weight of a block has passed.
    pub(super) fn count(&self, block: usize) -> u64 {
        self.counts[block].load(Ordering::Acquire)
    }

    /// Whether the count of a block is still this.
    pub(super) fn is_still(&self, block: usize, count: u64) -> bool {
        fence(Ordering::Acquire);
        self.counts[block].load(Ordering::Relaxed) == count
    }

    /// What was announced last: a counter and its sum. To be read while a change of the reader's block is under way.
    pub(super) fn last(&self) -> (u64, u64) {
        (self.last.0[0].load(Ordering::Relaxed), self.last.0[1].load(Ordering::Relaxed))
    }
}
