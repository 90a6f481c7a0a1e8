//! Buffers that are made once and used again, by whoever needs one next.
//!
//! An allocator keeps what is freed for the thread that freed it: merges whose buffers are made on one thread and freed on another would
//! hold several times what they use.

use super::AlignedBuf;
use crate::lock::lock;
use std::sync::Mutex;

/// Buffers of one length that nobody uses now. It holds as many as were in use at once.
#[derive(Default)]
pub(crate) struct BufferPool(Mutex<Vec<AlignedBuf>>);

impl BufferPool {
    /// A buffer of `bytes`, a whole number of blocks, with whatever is in it. Those of another length are let go.
    pub(crate) fn take(&self, bytes: usize) -> AlignedBuf {
        let mut unused = lock(&self.0);
        if unused.last().is_some_and(|buffer| buffer.len() != bytes) {
            unused.clear();
        }
        let buffer = unused.pop();
        drop(unused);
        buffer.unwrap_or_else(|| AlignedBuf::zeroed(bytes))
    }

    /// Whether it has one of `bytes`.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        lock(&self.0).last().is_some_and(|buffer| buffer.len() == bytes)
    }

    /// Takes a buffer back.
    pub(crate) fn give(&self, buffer: AlignedBuf) {
        let mut unused = lock(&self.0);
        if unused.last().is_none_or(|other| other.len() == buffer.len()) {
            unused.push(buffer);
        }
    }

    /// Lets all go that nobody uses.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = Vec::new();
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BufferPool({} unused)", lock(&self.0).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BLOCK_BYTES;

    #[test]
    fn buffers_of_one_length_come_again() {
        let pool = BufferPool::default();
        let mut first = pool.take(2 * BLOCK_BYTES);
        first.fill(7);
        let place = first.as_ptr();
        pool.give(first);
        let again = pool.take(2 * BLOCK_BYTES);
        assert_eq!((again.as_ptr(), again[0]), (place, 7));
        let second = pool.take(2 * BLOCK_BYTES);
        pool.give(again);
        pool.give(second);
        assert_eq!(pool.take(BLOCK_BYTES).len(), BLOCK_BYTES);
        assert_eq!(format!("{pool:?}"), "BufferPool(0 unused)");
        pool.give(AlignedBuf::zeroed(BLOCK_BYTES));
        pool.give(AlignedBuf::zeroed(3 * BLOCK_BYTES));
        assert_eq!(format!("{pool:?}"), "BufferPool(1 unused)");
        assert!(pool.has(BLOCK_BYTES) && !pool.has(3 * BLOCK_BYTES));
        pool.clear();
        assert!(!pool.has(BLOCK_BYTES));
        assert_eq!(format!("{pool:?}"), "BufferPool(0 unused)");
    }
}
