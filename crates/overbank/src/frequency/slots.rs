//! A slot: one buffer of updates, whose turn one thread at a time has, and which anybody may look at.
//! `intake.rs` says who may change what.

use super::memory::Buffer;
use super::shape::Shape;
use crate::KeyHash;
use crate::lock::{read, try_write};
use std::sync::{Mutex, RwLock};

/// How often an estimate tries to sort a buffer that others look at, before it goes through what is not in order.
const SORT_TRIES: usize = 64;

/// One buffer of updates, which one thread at a time adds to.
#[derive(Debug)]
pub(super) struct WriterSlot {
    pub(super) turn: Mutex<()>,
    pub(super) waiting: RwLock<Waiting>,
}

/// The updates of a slot that are not logged yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) shape: Shape,
    pub(super) buffer: Buffer,
    /// The sum of their weights.
    pub(super) weight: i128,
    /// How often the buffer was emptied, as the table says it.
    pub(super) emptied: u64,
    /// Whether something was taken off.
    pub(super) has_removals: bool,
}

/// What one call adds.
#[derive(Clone, Copy)]
pub(super) enum Batch<'a> {
    /// Each hash once.
    Units(&'a [KeyHash]),
    /// Each hash with its weight.
    Weighted(&'a [(KeyHash, i64)]),
}

impl Batch<'_> {
    pub(super) fn len(self) -> usize {
        match self {
            Batch::Units(hashes) => hashes.len(),
            Batch::Weighted(records) => records.len(),
        }
    }

    pub(super) fn split_at(self, at: usize) -> (Self, Self) {
        match self {
            Batch::Units(hashes) => {
                let (head, tail) = hashes.split_at(at);
                (Batch::Units(head), Batch::Units(tail))
            }
            Batch::Weighted(records) => {
                let (head, tail) = records.split_at(at);
                (Batch::Weighted(head), Batch::Weighted(tail))
            }
        }
    }
}

impl WriterSlot {
    pub(super) fn new(shape: Shape, buffer: Buffer) -> Self {
        let waiting = Waiting { shape, buffer, weight: 0, emptied: 0, has_removals: false };
        WriterSlot { turn: Mutex::new(()), waiting: RwLock::new(waiting) }
    }

    /// Sorts the tail of what waits, if it is long; before many rounds, if `is_all`, nearly any is. Where others look at it, this tries
    /// again for a while; an estimate can do with what is not in order.
    pub(super) fn sort_tail(&self, is_all: bool) {
        for _ in 0..SORT_TRIES {
            if !read(&self.waiting).buffer.has_long_tail(is_all) {
                return;
            }
            // Never waited for: the holder of the turn may come to read across device I/O, and a waiting writer would stop all readers.
            if let Some(mut waiting) = try_write(&self.waiting) {
                waiting.buffer.sort_tail();
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl Waiting {
    /// Takes updates that the buffer has room for.
    pub(super) fn push(&mut self, part: Batch<'_>) {
        // Under the lock: a fold changes what entry a hash has.
        let entries = self.shape.entry_layout();
        match part {
            Batch::Units(hashes) => {
                self.buffer.push_units(hashes.iter().map(move |&hash| entries.entry(hash)));
                self.weight += hashes.len() as i128;
            }
            Batch::Weighted(records) => {
                for &(hash, weight) in records {
                    self.buffer.push(entries.entry(hash), weight);
                    self.weight += i128::from(weight);
                    self.has_removals |= weight < 0;
                }
            }
        }
    }

    /// Forgets what waits: it is in another place now, or nowhere.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.emptied += 1;
        self.weight = 0;
        self.has_removals = false;
    }
}
