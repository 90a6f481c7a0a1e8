//! Question and insertion as one step: whoever inserts a key unless it is there holds the lock of its hash range from the question to
//! the answer, so that of several threads that ask for one key exactly one is told that it is new.
//!
//! Plain inserts and removals take none of these locks, and questions neither. They come before all others: key locks, writer slots,
//! memtables in ascending order, then the lock of what there is.

use crate::lock::lock;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard};

/// Parts of the range of hashes: so many threads seldom meet, and a batch takes them all in a microsecond.
const PARTS_BITS: u32 = 6;

/// A lock for each part of the range of hashes.
#[derive(Debug)]
pub(super) struct KeyLocks(Vec<Mutex<()>>);

impl KeyLocks {
    pub(super) fn new() -> Self {
        KeyLocks((0..1 << PARTS_BITS).map(|_| Mutex::new(())).collect())
    }

    /// Takes the lock of a key.
    pub(super) fn of_key(&self, prefix: u64) -> MutexGuard<'_, ()> {
        lock(&self.0[part(prefix)])
    }

    /// Takes the locks of all keys in a range, in ascending order.
    pub(super) fn of_range(&self, prefixes: RangeInclusive<u64>) -> Vec<MutexGuard<'_, ()>> {
        self.0[part(*prefixes.start())..=part(*prefixes.end())].iter().map(lock).collect()
    }
}

fn part(prefix: u64) -> usize {
    (prefix >> (64 - PARTS_BITS)) as usize
}
