//! A leaf as it was at moments: where that changes, a copy of its pages is kept for each moment that is still asked for.
//!
//! ```text
//!   leaf at the moment       pages │ misses │ pending                 all of this is the moment's: a number of chunks says where it ends
//!   rows that came later     pages │ misses │ pending ┊ pending
//!   before those are taken   pages ───────▶ a copy of the moment's, unless it was let go; pages go on
//! ```
//!
//! Invariants:
//! 1. A leaf is the moment's as long as it is pinned; from then on its copy is. Both change under the lock of the leaf.
//! 2. Copies have what is left of the memory, and no row is refused for them: where there is no room for one, or for a row beside them, the
//!    moment is lost, and whoever asks it is told.

use super::{Ground, Leaf, Scratch, Sheet};
use crate::aggregate::group::KeyState;
use crate::aggregate::pool::Pool;
use crate::aggregate::state::Aggregate;
use crate::lock::lock;
use crate::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// What a leaf and a moment need for each other, in bytes: a pin, and a place for a copy.
const LEAF_BYTES: usize = 48;
/// Moments at a time for which that is part of what is kept for lists of pages and leaves: they are there where the memory is full, too.
const MOMENTS_KEPT: usize = 16;

/// What leaves were at a moment, of those that have changed since.
#[derive(Debug)]
pub(in crate::aggregate) struct Moment {
    /// Of each leaf; none where the moment was lost.
    copies: Mutex<Option<Vec<Option<Arc<PageCopy>>>>>,
    pool: Arc<Pool>,
    /// What the pool lends it for that; nothing once it was lost.
    own_bytes: AtomicUsize,
}

impl Moment {
    /// Of leaves that are still to be pinned, beside so many others.
    ///
    /// # Errors
    /// `BudgetExceeded` where there is no room for what it needs for each of them.
    pub(in crate::aggregate) fn new(leaves: usize, others: usize, pool: &Arc<Pool>) -> Result<Arc<Moment>> {
        let own_bytes = if others < MOMENTS_KEPT { 0 } else { leaves * LEAF_BYTES };
        if !pool.lend(own_bytes) {
            return Err(no_room(pool, own_bytes));
        }
        let copies = Mutex::new(Some(vec![None; leaves]));
        Ok(Arc::new(Moment { copies, pool: Arc::clone(pool), own_bytes: AtomicUsize::new(own_bytes) }))
    }

    /// Keeps the copy of a leaf, if it was not lost.
    pub(in crate::aggregate) fn keep(&self, leaf: usize, copy: &Arc<PageCopy>) {
        if let Some(copies) = &mut *lock(&self.copies) {
            copies[leaf] = Some(Arc::clone(copy));
        }
    }

    /// The copy of a leaf, if there is one.
    ///
    /// # Errors
    /// `BudgetExceeded` where the moment was lost.
    pub(in crate::aggregate) fn copy(&self, leaf: usize) -> Result<Option<Arc<PageCopy>>> {
        match &*lock(&self.copies) {
            Some(copies) => Ok(copies[leaf].clone()),
            None => Err(no_room(&self.pool, 0)),
        }
    }

    /// Lets the copy of a leaf go, which nobody asks for any more.
    pub(in crate::aggregate) fn let_go(&self, leaf: usize) {
        if let Some(copies) = &mut *lock(&self.copies) {
            copies[leaf] = None;
        }
    }

    /// Gives all copies up, and what it has for each leaf: there is no room for them.
    pub(in crate::aggregate) fn lose(&self) {
        drop(lock(&self.copies).take());
        self.end_loan();
    }

    fn end_loan(&self) {
        self.pool.end_loan(self.own_bytes.swap(0, Ordering::Relaxed));
    }

    /// Whether it was lost.
    pub(in crate::aggregate) fn is_lost(&self) -> bool {
        lock(&self.copies).is_none()
    }

    /// Whether it has memory of the pool to give up.
    pub(in crate::aggregate) fn has_memory(&self) -> bool {
        self.own_bytes.load(Ordering::Relaxed) > 0
            || lock(&self.copies).as_ref().is_some_and(|copies| copies.iter().any(Option::is_some))
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.end_loan();
    }
}

/// A moment to which the leaf is still what it was: its pages, its misses, and the first of the chunks that are pending.
#[derive(Debug)]
pub(super) struct Pin {
    moment: Weak<Moment>,
    /// The number of the leaf.
    leaf: usize,
    chunks: usize,
}

impl Pin {
    fn is_of(&self, moment: &Arc<Moment>) -> bool {
        std::ptr::eq(self.moment.as_ptr(), Arc::as_ptr(moment))
    }

    fn needed(&self) -> Option<Arc<Moment>> {
        self.moment.upgrade().filter(|moment| !moment.is_lost())
    }
}

/// The pages of a leaf at a moment. Dropped, it gives their memory back.
#[derive(Debug)]
pub(in crate::aggregate) struct PageCopy {
    /// Nothing waits for it.
    leaf: Leaf,
    pool: Arc<Pool>,
    lists_bytes: usize,
}

impl PageCopy {
    pub(in crate::aggregate) fn leaf(&self) -> &Leaf {
        &self.leaf
    }
}

impl Drop for PageCopy {
    fn drop(&mut self) {
        self.leaf.drop_pages(&self.pool);
        self.pool.end_loan(self.lists_bytes);
    }
}

impl Leaf {
    /// Pins the leaf, which is number `number`, to a moment: what waits for it is part of that, and what will is not.
    pub(in crate::aggregate) fn pin(&mut self, moment: &Arc<Moment>, number: usize) {
        self.pins.retain(|pin| pin.needed().is_some());
        self.pins.reserve_exact(1);
        self.pins.push(Pin { moment: Arc::downgrade(moment), leaf: number, chunks: self.pending.len() });
    }

    /// Whether it is what it was at a moment, and is to stay so.
    pub(in crate::aggregate) fn is_pinned(&self, moment: &Arc<Moment>) -> bool {
        self.pins.iter().any(|pin| pin.is_of(moment))
    }

    /// Nobody asks any more what it was at a moment.
    pub(in crate::aggregate) fn unpin(&mut self, moment: &Arc<Moment>) {
        self.pins.retain(|pin| !pin.is_of(moment));
    }

    /// Gives back what it has for moments that were lost.
    pub(in crate::aggregate) fn forget_lost(&mut self) {
        self.pins.retain(|pin| pin.needed().is_some());
        self.pins.shrink_to_fit();
    }

    /// Takes what waited at a moment that it is pinned to into the pages, and nothing that came later: the pages are the moment's then.
    pub(in crate::aggregate) fn settle_moment<A: Aggregate>(
        &mut self,
        moment: &Arc<Moment>,
        ground: &Ground<A>,
        scratch: &mut Scratch,
    ) {
        while let Some(own) = self.pins.iter().find(|pin| pin.is_of(moment)) {
            let chunks = own.chunks;
            if self.pins[0].chunks == chunks {
                self.settle_first(chunks, ground, scratch);
                return;
            }
            self.keep_first(ground, scratch);
        }
    }

    /// What is known of a key at a moment that it is pinned to; `false` if nothing is.
    pub(in crate::aggregate) fn get_pinned<A: Aggregate>(
        &self,
        moment: &Arc<Moment>,
        ground: &Ground<A>,
        (hash, key): (u32, &[u8]),
        scratch: &mut Scratch,
        group: &mut KeyState,
    ) -> bool {
        let chunks = self.pins.iter().find(|pin| pin.is_of(moment)).map_or(0, |pin| pin.chunks);
        self.get_before(chunks, ground, hash, key, scratch, group)
    }

    /// Keeps the leaf for the moments that do not have all that is pending, which is taken into it now.
    pub(super) fn keep_for_moments<A: Aggregate>(&mut self, ground: &Ground<A>, scratch: &mut Scratch) {
        while self.pins.first().is_some_and(|first| first.chunks < self.pending.len()) {
            self.keep_first(ground, scratch);
        }
        self.pins.iter_mut().for_each(|pin| pin.chunks = 0);
    }

    /// Keeps the leaf for the moments before which the fewest rows came.
    fn keep_first<A: Aggregate>(&mut self, ground: &Ground<A>, scratch: &mut Scratch) {
        let Some(chunks) = self.pins.first().map(|pin| pin.chunks) else { return };
        let alike = self.pins.partition_point(|pin| pin.chunks == chunks);
        let kept: Vec<_> =
            self.pins.drain(..alike).filter_map(|pin| Some((pin.needed()?, pin.leaf))).collect();
        if kept.is_empty() {
            return;
        }
        self.settle_first(chunks, ground, scratch);
        let copy = self.copied(ground).map(Arc::new);
        for (moment, leaf) in kept {
            match &copy {
                Some(copy) => moment.keep(leaf, copy),
                None => moment.lose(),
            }
        }
    }

    /// Takes the misses and the first chunks of what is pending into the pages.
    fn settle_first<A: Aggregate>(&mut self, chunks: usize, ground: &Ground<A>, scratch: &mut Scratch) {
        let (later, mut pins) = (self.pending.split_off(chunks), std::mem::take(&mut self.pins));
        self.settle(ground, scratch);
        pins.iter_mut().for_each(|pin| pin.chunks -= chunks);
        (self.pending, self.pins) = (later, pins);
    }

    /// A copy of the pages, if there is room for it.
    fn copied<A: Aggregate>(&self, ground: &Ground<A>) -> Option<PageCopy> {
        let pool = &ground.pool;
        let lists_bytes =
            size_of::<PageCopy>() + self.pages.len() * size_of::<Sheet>() + self.firsts.len() * 4;
        if !pool.lend(lists_bytes + self.page_bytes()) {
            return None;
        }
        let copy = |sheet: &Sheet| {
            // The room was lent for all of them at once, so that threads do not take it from each other.
            pool.end_loan(sheet.block.len());
            let mut block = pool.take_for(sheet.block.len());
            block.copy_from_slice(&sheet.block);
            Sheet { block, head: sheet.head }
        };
        let leaf = Leaf {
            lg_buckets: self.lg_buckets,
            alphabet: self.alphabet.clone(),
            symbols: self.symbols.clone(),
            pages: self.pages.iter().map(copy).collect(),
            firsts: self.firsts.clone(),
            groups: self.groups,
            ..Leaf::new()
        };
        Some(PageCopy { leaf, pool: Arc::clone(pool), lists_bytes })
    }
}

/// There was no room for what a snapshot needs.
pub(in crate::aggregate) fn no_room(pool: &Pool, wanted_bytes: usize) -> Error {
    let budget_bytes = pool.budget_bytes();
    Error::BudgetExceeded {
        what: "a snapshot of groups, which keeps what rows change after it in what they leave of memory and disk,"
            .to_owned(),
        wanted_bytes,
        available_bytes: budget_bytes.saturating_sub(pool.used_bytes()),
        budget_bytes,
    }
}
