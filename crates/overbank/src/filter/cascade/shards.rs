//! The range of hashes in shards: who inserts which keys unless they are there, and what came one key at a time.
//!
//! ```text
//!   first bits of a hash ─▶ shard │ held? │ cells: entries that came one by one │ the runs in RAM, as they were last looked at │
//!                                 └ one lock: a key that RAM knows all about costs this one and no other
//! ```
//!
//! Whoever inserts keys unless they are there does that in one step: in RAM under the lock of the key's shard; where flash has to be
//! read, or for many keys, the shard is *held* instead, from the question to the answer. So of several threads that ask for one key
//! exactly one is told that it is new. Plain inserts and removals heed neither, and questions take the lock for a moment.
//!
//! The cells of all shards together are a memtable: they open together for entries of one class, and are frozen together, under all
//! locks. Shards come before all other locks, each in ascending order; holders first, then locks.

use super::cells::Cells;
use crate::lock::{lock, wait};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Bits that number the shards: so many threads seldom meet, and a batch takes all in some microseconds.
const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

/// Shards of the range of hashes. `W` is what entries belong to, `V` the runs in RAM as a reader sees them.
#[derive(Debug)]
pub(super) struct Shards<W, V> {
    shards: Box<[Shard<W, V>]>,
    /// The cells are open, or were a moment ago.
    is_open: AtomicBool,
}

/// A shard, alone in its cache lines: threads that are in several of them do not meet.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard<W, V> {
    state: Mutex<ShardState<W, V>>,
    /// Nobody holds it any more.
    released: Condvar,
}

/// What the lock of a shard guards.
#[derive(Debug)]
pub(super) struct ShardState<W, V> {
    /// Somebody holds it.
    is_held: bool,
    /// How many wait until nobody does.
    waiting: usize,
    /// What the entries in the cells are; `None` where these are closed.
    pub(super) open: Option<Open<W>>,
    pub(super) cells: Cells,
    /// The runs in RAM as they were last looked at.
    pub(super) view: Option<V>,
}

/// What the entries of open cells are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open<W> {
    pub(super) class: W,
    /// The bits of a hash that are its fingerprint.
    pub(super) mask: u64,
    /// A shard takes so many.
    pub(super) limit: usize,
    /// No more go into this shard.
    pub(super) is_full: bool,
}

/// A shard that nobody else may hold until this is dropped.
#[derive(Debug)]
pub(super) struct HeldShard<'a, W, V>(&'a Shard<W, V>);

impl<W, V> Shards<W, V> {
    /// How many there are.
    pub(super) const COUNT: usize = SHARDS;

    pub(super) fn new() -> Self {
        let state = || ShardState {
            is_held: false,
            waiting: 0,
            open: None,
            cells: Cells::new(SHARD_BITS),
            view: None,
        };
        let shard = |_| Shard { state: Mutex::new(state()), released: Condvar::new() };
        Shards { shards: (0..SHARDS).map(shard).collect(), is_open: AtomicBool::new(false) }
    }

    /// The shard of a key.
    #[inline]
    pub(super) fn of_key(&self, prefix: u64) -> &Shard<W, V> {
        &self.shards[number(prefix)]
    }

    /// Holds the shards of all keys in a range, in ascending order.
    pub(super) fn hold_range(&self, prefixes: RangeInclusive<u64>) -> Vec<HeldShard<'_, W, V>> {
        let shards = &self.shards[number(*prefixes.start())..=number(*prefixes.end())];
        shards.iter().map(|shard| shard.hold(shard.lock_released())).collect()
    }

    /// The locks of all.
    pub(super) fn lock_all(&self) -> Vec<MutexGuard<'_, ShardState<W, V>>> {
        self.shards.iter().map(Shard::lock).collect()
    }

    /// Whether there may be entries in the cells.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Notes whether the cells are open, under the locks of all.
    pub(super) fn note_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Release);
    }

    /// Entries in the cells, one shard after the other.
    pub(super) fn entries(&self) -> usize {
        if self.is_open() { self.shards.iter().map(|shard| shard.lock().cells.len()).sum() } else { 0 }
    }

    /// Locks the shards of ascending prefixes, if there may be entries in them, and adds how often each is in to `counts`. Nothing is
    /// frozen before the locks are given back.
    pub(super) fn count_many(
        &self,
        prefixes: &[u64],
        counts: &mut [i64],
    ) -> Vec<MutexGuard<'_, ShardState<W, V>>> {
        let (mut locked, mut from) = (Vec::new(), 0);
        while self.is_open() && from < prefixes.len() {
            let own = number(prefixes[from]);
            let end = from + prefixes[from..].partition_point(|&prefix| number(prefix) == own);
            let state = self.shards[own].lock();
            for (count, &prefix) in counts[from..end].iter_mut().zip(&prefixes[from..end]) {
                *count += state.count(prefix);
            }
            locked.push(state);
            from = end;
        }
        locked
    }

    /// Forgets views that are not `current`: what they keep in RAM is not needed any more.
    pub(super) fn forget_views(&self, is_current: impl Fn(&V) -> bool) {
        for shard in &self.shards {
            shard.lock().view.take_if(|view| !is_current(view));
        }
    }
}

impl<W, V> Shard<W, V> {
    pub(super) fn lock(&self) -> MutexGuard<'_, ShardState<W, V>> {
        lock(&self.state)
    }

    /// The lock, once nobody holds the shard.
    #[inline]
    pub(super) fn lock_released(&self) -> MutexGuard<'_, ShardState<W, V>> {
        let state = lock(&self.state);
        if state.is_held { self.wait(state) } else { state }
    }

    #[cold]
    fn wait<'a>(&self, mut state: MutexGuard<'a, ShardState<W, V>>) -> MutexGuard<'a, ShardState<W, V>> {
        state.waiting += 1;
        while state.is_held {
            state = wait(&self.released, state);
        }
        state.waiting -= 1;
        state
    }

    /// Holds the shard, which nobody does, whose lock this is.
    pub(super) fn hold<'a>(&'a self, mut state: MutexGuard<'a, ShardState<W, V>>) -> HeldShard<'a, W, V> {
        state.is_held = true;
        HeldShard(self)
    }
}

impl<W, V> Drop for HeldShard<'_, W, V> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_held = false;
        if state.waiting > 0 {
            // Those who find it held again wait again.
            self.0.released.notify_all();
        }
    }
}

impl<W, V> ShardState<W, V> {
    /// How often the cells have a key.
    #[inline]
    pub(super) fn count(&self, prefix: u64) -> i64 {
        self.open.as_ref().map_or(0, |open| self.cells.count(prefix & open.mask))
    }

    /// Tells the cache that a key will soon be looked for in the cells.
    #[inline]
    pub(super) fn prefetch(&self, prefix: u64) {
        if let Some(open) = &self.open {
            self.cells.prefetch(prefix & open.mask);
        }
    }

    /// Adds an occurrence of a key to the cells; how many these have then, or `None` if they take it not: they are closed, full, or
    /// open for another class.
    #[inline]
    pub(super) fn insert(&mut self, prefix: u64, is_current: impl FnOnce(&W) -> bool) -> Option<usize> {
        let open = self.open.as_mut().filter(|open| !open.is_full && is_current(&open.class))?;
        let has_taken = self.cells.insert(prefix & open.mask);
        open.is_full = !has_taken || self.cells.len() >= open.limit;
        has_taken.then(|| self.cells.len())
    }
}

#[inline(always)]
fn number(prefix: u64) -> usize {
    (prefix >> (64 - SHARD_BITS)) as usize
}
