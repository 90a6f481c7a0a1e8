//! One key at a time, as a crawler or a server asks: no allocation, no sort.
//!
//! ```text
//!   key lock ─▶ memtables, all locked: hash index ─▶ packed runs: a block each ─▶ flash, if there are runs: a block each, unlocked
//!                   └───────── not there: pushed under the same locks ◀─┘                           └─▶ not there: inserted as a batch of one
//! ```
//!
//! The memtables are locked all at once, in ascending order, so that each entry is seen in one place: in a memtable, or in what was
//! packed of it.

use super::query::{View, has_late_removals};
use super::shared::{Shared, Slot};
use super::table::FilterState;
use crate::Result;
use crate::filter::run::{FingerprintSegment, count_many};
use crate::lock::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// So many single keys pay together for the work that they make.
const PAID_TOGETHER: usize = 1 << 8;

/// What RAM has of a key.
struct Found {
    /// Its counts in memtables and packed runs.
    sum: i64,
    /// The runs on flash, if they have to be asked.
    on_flash: Option<View>,
    /// Whether packed runs came that may be joined.
    has_news: bool,
}

impl Shared {
    /// The sum of a key's counts over the whole filter. If only its `presence` is of interest, what is in RAM is not looked for on
    /// flash.
    pub(super) fn sum(&self, prefix: u64, presence: bool) -> Result<i64> {
        self.usable()?;
        let found = self.in_memtables(&self.slots, 0, prefix, presence)?;
        self.join_after(&found)?;
        self.with_flash(prefix, found)
    }

    /// Inserts a key that is not there; whether it was not.
    pub(super) fn insert_one_if_absent(self: &Arc<Self>, prefix: u64) -> Result<bool> {
        self.writable()?;
        let _held = self.key_locks.of_key(prefix);
        let Some((first, others)) = self.slots.split_first() else { return Ok(false) };
        let mut slot = lock(first);
        let found = self.in_slot(&mut slot, others, 0, prefix, true)?;
        if found.sum > 0 && found.on_flash.is_none() {
            drop(slot);
            self.join_after(&found)?;
            return Ok(false);
        }
        // What begins a memtable, an era or a look at flash is done as for many keys.
        let is_simple = found.on_flash.is_none()
            && !found.has_news
            && !slot.memtable.is_empty()
            && slot.class.revision == self.revision();
        if is_simple {
            self.push_one(slot, prefix)?;
            return Ok(true);
        }
        drop(slot);
        self.join_after(&found)?;
        if self.with_flash(prefix, found)? > 0 {
            return Ok(false);
        }
        self.add(std::iter::once((prefix, 0)), false)?;
        Ok(true)
    }

    /// Puts a key into the first memtable, which is locked, of the present era, and has room.
    fn push_one(self: &Arc<Self>, mut slot: MutexGuard<'_, Slot>, prefix: u64) -> Result<()> {
        let _change = self.change();
        let place = self.place(slot.class);
        slot.memtable.push(std::iter::once((prefix, 0)), place, false);
        let (keys, is_full) = (slot.memtable.len(), slot.memtable.is_full());
        if is_full {
            self.freeze(0, &mut slot)?;
            self.renew_class(&mut slot);
        }
        drop(slot);
        // Merges that are not due hear of each key.
        let is_due = is_full || keys.is_multiple_of(PAID_TOGETHER);
        self.tree.pace(if is_due { PAID_TOGETHER } else { 0 }, is_full || !is_due)
    }

    /// Locks the memtables `slots`, asks them and then what there is besides.
    fn in_memtables(&self, slots: &[Mutex<Slot>], sum: i64, prefix: u64, presence: bool) -> Result<Found> {
        match slots.split_first() {
            Some((first, others)) => self.in_slot(&mut lock(first), others, sum, prefix, presence),
            None => self.in_frozen(&self.state(), sum, prefix, presence),
        }
    }

    fn in_slot(
        &self,
        slot: &mut Slot,
        others: &[Mutex<Slot>],
        sum: i64,
        prefix: u64,
        presence: bool,
    ) -> Result<Found> {
        let count =
            if slot.memtable.is_empty() { 0 } else { slot.memtable.count(prefix, self.place(slot.class)) };
        self.in_memtables(others, sum + count, prefix, presence)
    }

    /// Joins packed runs if some came since that was last tried. No lock but a key's is held.
    fn join_after(&self, found: &Found) -> Result<()> {
        if found.has_news {
            self.join_frozen()?;
        }
        Ok(())
    }

    /// The sum of what RAM has of a key and what flash has.
    fn with_flash(&self, prefix: u64, found: Found) -> Result<i64> {
        let Some(View { runs, version, .. }) = found.on_flash else { return Ok(found.sum) };
        self.tend_fronts(&version);
        let runs: Vec<&FingerprintSegment> = runs.iter().map(|run| &**run).collect();
        let mut sum = [found.sum];
        count_many(&self.files, &runs, &[prefix], runs.len(), &mut sum)?;
        Ok(sum[0])
    }

    /// Asks the runs in RAM; the locks of the tree and of all memtables are held.
    fn in_frozen(&self, state: &FilterState, mut sum: i64, prefix: u64, presence: bool) -> Result<Found> {
        let version = state.version();
        for packed in &version.frozen {
            sum = sum.saturating_add(packed.entries.count(prefix)?);
        }
        let is_sure = presence && sum > 0 && (version.runs.is_empty() || !has_late_removals(state));
        let is_open = !version.runs.is_empty() && !is_sure;
        let has_news = state.memtables != self.joined_memtables.load(Ordering::Relaxed);
        Ok(Found { sum, on_flash: is_open.then(|| View::of(state)), has_news })
    }

    /// Joins runs in RAM until there are few of each length, and notes which have been looked through.
    fn join_frozen(&self) -> Result<()> {
        let memtables = self.state().memtables;
        self.tree.join_frozen()?;
        self.joined_memtables.store(memtables, Ordering::Relaxed);
        Ok(())
    }
}
