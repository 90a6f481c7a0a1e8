//! What threads sort and merge in, shared by them: as many as there is memory for work on leaves at once.
//!
//! Whoever wants one has the lock of the leaf that it is for, so nobody who has one waits for a leaf.

use super::group::KeyState;
use super::page::PageBuilder;
use super::state::Shape;
use crate::batch::Sorter;
use crate::lock::{lock, try_lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What a thread needs to work on leaves, made once.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) words: Vec<u64>,
    pub(super) tail: Vec<u8>,
    /// Misses in order: the bits of the hash that a record has, the number of the chunk, and where in it the record begins.
    pub(super) index: Vec<u64>,
    pub(super) sorted: Vec<u64>,
    pub(super) sorter: Sorter<u64>,
    pub(super) builder: PageBuilder,
    /// A key by symbols: one that is looked for or written, and one that was read.
    pub(super) coded: Vec<u8>,
    pub(super) read: Vec<u8>,
    pub(super) old: KeyState,
    pub(super) merged: KeyState,
}

impl Scratch {
    pub(super) fn new(shape: Shape) -> Scratch {
        Scratch {
            words: vec![0; 2 * shape.state_words + shape.row_words.max(shape.state_words)],
            tail: Vec::new(),
            index: Vec::new(),
            sorted: Vec::new(),
            sorter: Sorter::new(),
            builder: PageBuilder::new(shape),
            coded: Vec::new(),
            read: Vec::new(),
            old: KeyState::default(),
            merged: KeyState::default(),
        }
    }

    /// Room for the words of records.
    pub(super) fn words(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Bytes that it keeps.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.index.capacity() + self.sorted.capacity()) * 8
            + self.sorter.held_bytes()
            + self.builder.memory_bytes()
            + self.coded.capacity()
            + self.read.capacity()
    }
}

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
