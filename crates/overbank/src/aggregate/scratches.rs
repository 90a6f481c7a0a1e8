//! What threads sort and merge in, shared by them: as many as there is memory for work on leaves at once.
//!
//! Whoever wants one has the lock of the leaf that it is for, so nobody who has one waits for a leaf.

use super::leaf::Scratch;
use super::state::Shape;
use crate::lock::{lock, try_lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// So many, which have no memory before they are used, and then keep it. The first are used first.
#[derive(Debug)]
pub(super) struct Scratches {
    all: Vec<Mutex<Scratch>>,
    /// Which one the next thread waits for, where all are in use.
    next: AtomicUsize,
}

impl Scratches {
    pub(super) fn new(shape: Shape, count: usize) -> Scratches {
        let all = (0..count.max(1)).map(|_| Mutex::new(Scratch::new(shape))).collect();
        Scratches { all, next: AtomicUsize::new(0) }
    }

    /// Takes one, or waits for one.
    pub(super) fn take(&self) -> MutexGuard<'_, Scratch> {
        self.all.iter().find_map(try_lock).unwrap_or_else(|| {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            lock(&self.all[next % self.all.len()])
        })
    }

    /// Bytes that they keep.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.iter().map(|scratch| lock(scratch).memory_bytes()).sum()
    }
}
