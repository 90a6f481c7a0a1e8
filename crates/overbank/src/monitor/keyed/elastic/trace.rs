//! To which counters of the light part somebody has added in an epoch: a bit each, for two epochs in turn.

use super::sync::{AtomicU64, Ordering};
use std::ops::Range;

/// One thread writes, any number reads.
#[derive(Debug)]
pub(super) struct Trace {
    words: Box<[AtomicU64]>,
}

impl Trace {
    /// Of so many counters.
    pub(super) fn new(cells: usize) -> Self {
        Self { words: (0..2 * cells.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    #[inline]
    pub(super) fn has(&self, epoch: u64, cell: usize) -> bool {
        self.word(epoch, cell).load(Ordering::Relaxed) >> (cell % 64) & 1 == 1
    }

    /// Notes that something is about to be added.
    #[inline]
    pub(super) fn leave(&self, epoch: u64, cell: usize) {
        let word = self.word(epoch, cell);
        let (before, bit) = (word.load(Ordering::Relaxed), 1 << (cell % 64));
        // What is not written stays in other cores' caches.
        if before & bit == 0 {
            word.store(before | bit, Ordering::Relaxed);
        }
    }

    /// Words of an epoch.
    pub(super) fn half_words(&self) -> usize {
        self.words.len() / 2
    }

    /// Clears these words of an epoch that is over.
    pub(super) fn clear(&self, epoch: u64, words: Range<usize>) {
        let first = self.first(epoch);
        self.words[first..][words].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    #[inline]
    fn word(&self, epoch: u64, cell: usize) -> &AtomicU64 {
        &self.words[self.first(epoch) + cell / 64]
    }

    #[inline]
    fn first(&self, epoch: u64) -> usize {
        (epoch % 2) as usize * self.half_words()
    }
}
