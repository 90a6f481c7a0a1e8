//! What the clones of a handle have in common.

use super::flash::Spill;
use super::held::Held;
use super::inserter::Inserter;
use super::leaf::{Ground, Moment};
use super::leaves::Leaves;
use super::options::{GroupsOptions, Shares};
use super::pool::BLOCK_BYTES;
use super::state::Aggregate;
use crate::device::thread;
use crate::lock::{lock, read, try_lock, write};
use crate::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// Groups, and who inserts into them.
///
/// Locks, in the order in which they are taken: that of batches, who takes pages away, the list of inserters, inserters in the order
/// of the list, a leaf (or, by who takes its pages away, all of a section in order), a scratch, the tree of runs, what is held of
/// moments, the pool.
#[derive(Debug)]
pub(super) struct Shared<A> {
    pub(super) leaves: Leaves<A>,
    pub(super) memory_bytes: usize,
    pub(super) threads: usize,
    /// What is on flash, of groups that go there.
    pub(super) spill: Option<Spill>,
    /// As many as there were threads at once, and not more than [`Shared::threads`].
    pub(super) inserters: RwLock<Vec<Arc<Mutex<Inserter>>>>,
    /// Whoever inserts the rows of a call has it beside others, until all of them are in; whoever has it alone sees none in part.
    pub(super) batches: RwLock<()>,
    pub(super) moments: Held<Moment>,
}

impl<A: Aggregate> Shared<A> {
    pub(super) fn new(
        ground: Ground<A>,
        options: &GroupsOptions,
        shares: Shares,
        spill: Option<Spill>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            leaves: Leaves::new(ground, shares),
            memory_bytes: options.chosen_memory_bytes(),
            threads: shares.threads,
            spill,
            inserters: RwLock::default(),
            batches: RwLock::default(),
            moments: Held::default(),
        })
    }

    /// Calls `work` with an inserter that no other thread uses.
    pub(super) fn with_inserter<T>(&self, work: impl FnOnce(&mut Inserter) -> T) -> T {
        let inserters = self.all_inserters();
        if let Some(mut free) = inserters.iter().find_map(|inserter| try_lock(inserter)) {
            return work(&mut free);
        }
        if inserters.len() < self.threads {
            let mut all = write(&self.inserters);
            // Threads that begin at once all see that there is room for one more.
            if all.len() < self.threads {
                let inserter = Arc::new(Mutex::new(Inserter::new(&self.leaves)));
                all.push(Arc::clone(&inserter));
                let mut guard = lock(&inserter);
                drop(all);
                return work(&mut guard);
            }
        }
        let first = Arc::clone(&read(&self.inserters)[0]);
        work(&mut lock(&first))
    }

    /// Sees to it that there is room for more: has groups go to flash where they may.
    ///
    /// # Errors
    /// `BudgetExceeded` where the memory is used up, with what waits taken into the groups; as [`Shared::spill_for_room`].
    pub(super) fn require_room(&self) -> Result<()> {
        if !self.leaves.ground.pool.is_exhausted() && !self.spill.as_ref().is_some_and(Spill::is_behind) {
            return Ok(());
        }
        if let Some(spill) = &self.spill {
            return self.spill_for_room(spill);
        }
        self.settle();
        if self.leaves.ground.pool.is_exhausted() {
            let moments = self.moments.all();
            moments.iter().filter(|moment| moment.has_memory()).for_each(|moment| moment.lose());
            self.leaves.all.iter().for_each(|leaf| lock(leaf).forget_lost());
        }
        if self.leaves.ground.pool.is_exhausted() { Err(self.no_room()) } else { Ok(()) }
    }

    pub(super) fn no_room(&self) -> Error {
        Error::BudgetExceeded {
            what: "groups".to_owned(),
            wanted_bytes: BLOCK_BYTES,
            available_bytes: 0,
            budget_bytes: self.memory_bytes,
        }
    }

    /// Whether there are rows that are in no run.
    pub(super) fn has_news(&self) -> bool {
        self.look(|inserters| inserters.iter().any(|inserter| inserter.has_records()))
            || self.leaves.all.iter().any(|leaf| !lock(leaf).is_empty())
    }

    /// Whether groups may be elsewhere than in leaves. Once that is so, it stays so; and whoever finds pages of a leaf gone is told so.
    pub(super) fn has_runs(&self) -> bool {
        self.spill.as_ref().is_some_and(|spill| {
            let version = spill.version();
            spill.has_taken() || !version.runs.is_empty() || !version.frozen.is_empty()
        })
    }

    /// Refuses rows where nothing may be written.
    pub(super) fn writable(&self) -> Result<()> {
        self.spill.as_ref().map_or(Ok(()), |spill| spill.gate.writable())
    }

    /// Refuses groups of a store that was closed, or of another process.
    pub(super) fn usable(&self) -> Result<()> {
        self.spill.as_ref().map_or(Ok(()), |spill| spill.gate.usable())
    }

    /// Takes all records that wait into the groups.
    pub(super) fn settle(&self) {
        self.hand_over();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(leaf) = self.leaves.all.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut leaf = lock(leaf);
                leaf.settle(&self.leaves.ground, &mut self.leaves.ground.scratches.take());
            }
        };
        let helpers = read(&self.inserters).len().min(self.leaves.shares.scratches).saturating_sub(1);
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // Without it, the others do its share.
                let _ = thread::start_scoped(scope, "overbank-settle", work);
            }
            work();
        });
    }

    /// Gives the leaves what inserters hold.
    pub(super) fn hand_over(&self) {
        for inserter in self.all_inserters() {
            lock(&inserter).hand_over_all(&self.leaves);
        }
    }

    fn all_inserters(&self) -> Vec<Arc<Mutex<Inserter>>> {
        read(&self.inserters).clone()
    }

    /// Calls `look` while no row that was inserted is on its way between an inserter and a leaf.
    pub(super) fn look<T>(&self, look: impl FnOnce(&[MutexGuard<'_, Inserter>]) -> T) -> T {
        let inserters = self.all_inserters();
        let guards: Vec<_> = inserters.iter().map(|inserter| lock(inserter)).collect();
        look(&guards)
    }

    /// All bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        let inserters: usize =
            self.all_inserters().iter().map(|inserter| lock(inserter).memory_bytes()).sum();
        let leaves: usize = self.leaves.all.iter().map(|leaf| lock(leaf).memory_bytes()).sum();
        let index = self.spill.as_ref().map_or(0, Spill::index_bytes);
        let scratches = self.leaves.ground.scratches.memory_bytes();
        let Ground { pool, symbols, .. } = &*self.leaves.ground;
        pool.memory_bytes() + symbols.memory_bytes() + inserters + leaves + scratches + index
    }
}
