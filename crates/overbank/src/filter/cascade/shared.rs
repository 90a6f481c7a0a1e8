//! The filter as all its threads see it: who works on merges, and how fast writers may go meanwhile.
//!
//! ```text
//!   writer ─▶ log ─▶ board          each key inserted while there is work owes the work of a few keys: it is taken from what
//!     ▲                │            the background has done, or done at once, a step of some milliseconds at a time
//!     └── a step ◀─────┼─▶ background jobs: step, step, …
//! ```
//!
//! So a long merge never holds up an insert for longer than a step, and is done before the next one of its kind is due, whatever the
//! speed of the device: the paper's deamortization. Without background threads the writers do all of it, in a fixed order.

use super::board::{Board, Era, Stall};
use super::key_locks::KeyLocks;
use super::memtable::Memtable;
use super::options::{FilterOptions, Policy};
use super::task::Lane;
use super::writers::WriterSlots;
use crate::filter::run::{FingerprintSegment, Merge, MergeOptions, PackedRun, RunKind, Source};
use crate::lock::{lock, wait};
use crate::store::{FileId, Files, Spawner};
use crate::{Error, KeyHasher, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Blocks that a step unpacks, of 1,000 to 2,500 keys each: some milliseconds of a core.
const STEP_BLOCKS: u64 = 48;
/// The share of the packed runs' room at which a flush begins: by the time it is done, what has come since fills the rest.
pub(super) const FLUSH: (usize, usize) = (9, 16);
/// Work done ahead of the writers, in keys: so much may come in a burst.
const CREDIT_KEYS_MAX: i64 = 1 << 22;

/// A writer's log, and what its entries belong to.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) log: Memtable,
    pub(super) era: Era,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: FilterOptions,
    pub(super) files: Files,
    /// The kind of all runs, but for the length of fingerprints.
    pub(super) kind: RunKind,
    /// Where the store is, if it is open read-only.
    pub(super) read_only: Option<PathBuf>,
    /// How keys are hashed.
    pub(super) hasher: KeyHasher,
    /// The memtables; none where the store is open read-only.
    pub(super) slots: Vec<Mutex<Slot>>,
    pub(super) writers: WriterSlots,
    pub(super) key_locks: KeyLocks,
    /// How many memtables had been frozen when packed runs were last looked through for some to join.
    pub(super) joined_logs: AtomicU64,
    pub(super) shares: Shares,
    spawner: Spawner,
    board: Mutex<Board>,
    changed: Condvar,
    has_work: AtomicBool,
    /// Keys of work done, less those owed.
    balance: AtomicI64,
    era_number: AtomicU64,
}

/// How the memory is divided, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    /// Packed runs and fences.
    pub(super) packed_bytes: usize,
    /// Keys of a run that a flush makes.
    pub(super) flush_keys: u64,
    /// Lanes of a merge.
    pub(super) lanes: usize,
    /// Open merges at a time, beside a flush.
    pub(super) merges: usize,
}

impl Shared {
    pub(super) fn new(
        options: FilterOptions,
        (files, hasher, kind, spawner): (Files, KeyHasher, RunKind, Spawner),
        read_only: Option<PathBuf>,
        shares: Shares,
        board: Board,
    ) -> Arc<Self> {
        let era = board.era;
        let slot = |_| Mutex::new(Slot { log: Memtable::new(&options), era });
        let slots = if read_only.is_some() { 0 } else { options.writers };
        Arc::new(Shared {
            hasher,
            slots: (0..slots).map(slot).collect(),
            writers: WriterSlots::new(slots),
            key_locks: KeyLocks::new(),
            joined_logs: AtomicU64::new(u64::MAX),
            options,
            files,
            kind,
            read_only,
            shares,
            spawner,
            era_number: AtomicU64::new(era.number),
            board: Mutex::new(board),
            changed: Condvar::new(),
            has_work: AtomicBool::new(false),
            balance: AtomicI64::new(0),
        })
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    /// Bits of the entries of an era.
    pub(super) fn entry_bits(&self, era: Era) -> u32 {
        self.options.bits(era.generation) + self.options.value_bits
    }

    /// Background threads of the store.
    pub(super) fn threads(&self) -> usize {
        self.spawner.threads()
    }

    /// What new entries belong to.
    pub(super) fn era_number(&self) -> u64 {
        self.era_number.load(Ordering::Acquire)
    }

    /// Says that the era changed.
    pub(super) fn note_era(&self, board: &Board) {
        self.era_number.store(board.era.number, Ordering::Release);
    }

    /// RAM that packed runs may take: the fences of what is on flash need theirs.
    pub(super) fn packed_room(&self, board: &Board) -> usize {
        let fences: usize = board.runs.iter().map(|run| run.memory_bytes()).sum();
        self.shares.packed_bytes.saturating_sub(fences).max(self.shares.packed_bytes / 8)
    }

    /// Begins what is due, and sees to it that somebody works on it.
    pub(super) fn schedule(self: &Arc<Self>, board: &mut Board) {
        // Room is left for what comes while a flush is under way.
        let is_full = board.stall.as_ref().is_some_and(|stall| stall.is_flush);
        if board.packed_bytes > self.packed_room(board) / FLUSH.1 * FLUSH.0 && !is_full {
            board.begin_flush(self.kind, self.shares.lanes);
        }
        board.begin_merges(self.kind, self.options.policy, self.shares.flush_keys, self.shares.lanes);
        self.wake(board);
    }

    /// Spawns background jobs while there are lanes to take.
    pub(super) fn wake(self: &Arc<Self>, board: &mut Board) {
        self.has_work.store(!board.tasks.is_empty(), Ordering::Release);
        self.changed.notify_all();
        while board.drivers < self.spawner.threads()
            && board.drivers < board.lanes_to_take(self.shares.merges, true)
        {
            board.drivers += 1;
            let shared = Arc::clone(self);
            self.spawner.spawn(move || shared.drive());
        }
    }

    /// Goes on with one step, and then gives others of the store their turn.
    fn drive(self: Arc<Self>) -> Result<()> {
        let driver = Driver(self);
        let did = driver.0.step(true);
        drop(driver);
        match did {
            // The disk may have room again later, and the writers hear of it.
            Ok(_) | Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Works on a lane for a step; false if there is none to take. Ending a lane syncs a file, which `may_end` allows.
    pub(super) fn step(self: &Arc<Self>, may_end: bool) -> Result<bool> {
        let mut board = self.board();
        let Some((id, at, lane)) = board.take_lane(self.shares.merges, self.may_end(may_end)) else {
            return Ok(false);
        };
        let Some(sources) = sources(&board, id) else { return Ok(false) };
        drop(board);
        let taken = Taken { shared: self, task: id };
        let worked = self.work(lane, &sources);
        std::mem::forget(taken);
        let mut board = self.board();
        match worked {
            Ok((lane, keys)) => {
                self.credit(keys);
                let (dead, left) = match board.put_lane(id, at, lane) {
                    Ok(true) => (self.publish(&mut board, id), None),
                    Ok(false) => (Vec::new(), None),
                    Err(lane) => (lane.file().into_iter().collect(), Some(lane)),
                };
                self.wake(&mut board);
                drop(board);
                if left.is_some() {
                    drop(left);
                    self.board().strays -= 1;
                }
                self.discard(dead)?;
                Ok(true)
            }
            Err(error) => {
                let dead = board.fail(id, sources.is_flush, &error);
                self.wake(&mut board);
                drop(board);
                // At once: their space may be what is missing. What cannot be removed, the store removes when it is next opened.
                dead.into_iter().for_each(|file| drop(self.files.discard(file)));
                Err(error)
            }
        }
    }

    /// Whether a lane may be ended by whom `may_end` says: by anybody where there is no background.
    fn may_end(&self, may_end: bool) -> bool {
        may_end || self.spawner.threads() == 0
    }

    /// Removes files that nothing names, in the background: that takes as long as they are.
    pub(super) fn discard(&self, dead: Vec<FileId>) -> Result<()> {
        let files = self.files.clone();
        let discard = move || dead.into_iter().try_for_each(|file| files.discard(file));
        if self.spawner.threads() == 0 {
            return discard();
        }
        self.spawner.spawn(discard);
        Ok(())
    }

    fn publish(self: &Arc<Self>, board: &mut Board, task: u64) -> Vec<FileId> {
        let dead = board.publish(task, self.shares.flush_keys, self.options.policy);
        self.schedule(board);
        dead
    }

    /// A step of a lane, without the lock: what becomes of it, and the keys that were merged.
    fn work(&self, lane: Lane, sources: &Sources) -> Result<(Lane, u64)> {
        let mut merge = match lane {
            Lane::Waiting(range) => {
                let is_behind = self.spawner.threads() > 0;
                let options = MergeOptions { is_oldest: sources.is_oldest, is_ahead: false, is_behind };
                let inputs: Vec<Source<'_>> = (sources.runs.iter().map(|run| Source::Flash(run)))
                    .chain(sources.packed.iter().cloned().map(Source::Memory))
                    .collect();
                Box::new(Merge::new(&self.files, sources.kind, &inputs, range, options)?)
            }
            Lane::Going(merge) => merge,
            Lane::Ended(merge) => {
                let info = merge.finish()?;
                if info.fingerprints == 0 {
                    self.files.discard(info.file.id)?;
                    return Ok((Lane::Done(None), 0));
                }
                let run = FingerprintSegment::open(&self.files, &info.file, sources.kind);
                let run = run.inspect_err(|_| drop(self.files.discard(info.file.id)))?;
                return Ok((Lane::Done(Some(Arc::new(run))), 0));
            }
            done => return Ok((done, 0)),
        };
        let before = merge.progress().fingerprints;
        let has_more = merge.step(STEP_BLOCKS)?;
        let keys = merge.progress().fingerprints - before;
        Ok((if has_more { Lane::Going(merge) } else { Lane::Ended(merge) }, keys))
    }

    fn credit(&self, keys: u64) {
        let before = self.balance.fetch_add(keys as i64, Ordering::Relaxed);
        if before + keys as i64 > CREDIT_KEYS_MAX {
            self.balance.store(CREDIT_KEYS_MAX, Ordering::Relaxed);
        }
    }

    /// Lets `keys` inserted keys pay for the work that is under way; `later`, with those that come next.
    pub(super) fn pace(self: &Arc<Self>, keys: usize, later: bool) -> Result<()> {
        if !self.has_work.load(Ordering::Acquire) {
            return Ok(());
        }
        let owed = (keys as f64 * self.work_a_key()).ceil() as i64;
        if self.balance.fetch_sub(owed, Ordering::Relaxed) >= owed || later {
            return Ok(());
        }
        while self.balance.load(Ordering::Relaxed) < 0 {
            match self.step(false) {
                Ok(true) => {}
                Ok(false) => self.wait_for_work(false, || self.balance.load(Ordering::Relaxed) >= 0),
                // The writers hear of a full disk when they need its room.
                Err(Error::Full { .. }) => {}
                Err(error) => return Err(error),
            }
            if !self.has_work.load(Ordering::Acquire) {
                self.balance.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// How many keys' work each key makes, and a little more to be done in time: a flush, and a merge a level.
    fn work_a_key(&self) -> f64 {
        let levels = self.board().runs.iter().map(|run| run.level + 1).max().unwrap_or(0);
        let last = match self.options.policy {
            Policy::Tiered { .. } => 0.0,
            Policy::LazyLevelled { fan_out } => f64::from(fan_out) / 2.0,
        };
        1.25 + f64::from(levels.max(0)) + last
    }

    /// Waits until a lane comes back or `is_enough`. Lanes that only a background job may end do come back.
    fn wait_for_work(&self, may_end: bool, is_enough: impl Fn() -> bool) {
        let board = self.board();
        // Under the lock that whoever brings a lane back takes: one that came back since was told of already, and perhaps the last.
        let has_lane = board.lanes_to_take(self.shares.merges, self.may_end(may_end)) > 0;
        if board.tasks.is_empty() || has_lane || is_enough() {
            return;
        }
        drop(wait(&self.changed, board));
    }

    /// Waits, and works, until nothing more is due.
    ///
    /// # Errors
    /// `Full` from `first_task` on, for those before may tell of the disk as it was then: what was to be merged is as it was.
    pub(super) fn settle(self: &Arc<Self>, first_task: u64) -> Result<()> {
        let mut board = self.board();
        loop {
            if let Some(stall) = board.stall.as_ref().filter(|stall| stall.task >= first_task) {
                return Err(stall.error());
            }
            board.retry();
            self.schedule(&mut board);
            if board.tasks.is_empty() {
                // Nothing waits for room any more.
                board.stall = None;
                return Ok(());
            }
            drop(board);
            self.step_or_wait()?;
            board = self.board();
        }
    }

    /// Works for a step, or waits for one. Of a full disk the board tells.
    fn step_or_wait(self: &Arc<Self>) -> Result<()> {
        match self.step(true) {
            Ok(true) | Err(Error::Full { .. }) => {}
            Ok(false) => self.wait_for_work(true, || false),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Flushes until it `is_enough`.
    ///
    /// # Errors
    /// `Full`: what is in RAM stays there.
    pub(super) fn flush_until(self: &Arc<Self>, is_enough: impl Fn(&Board) -> bool) -> Result<()> {
        // As in `settle`.
        let first_task = self.board().next_id;
        loop {
            let mut board = self.board();
            if is_enough(&board) {
                return Ok(());
            }
            let is_new = |stall: &&Stall| stall.is_flush && stall.task >= first_task;
            if let Some(stall) = board.stall.as_ref().filter(is_new) {
                return Err(stall.error());
            }
            board.begin_flush(self.kind, self.shares.lanes);
            self.wake(&mut board);
            drop(board);
            self.step_or_wait()?;
        }
    }

    pub(super) fn writable(&self) -> Result<()> {
        self.files.check_process()?;
        match &self.read_only {
            Some(path) => Err(Error::ReadOnly { path: path.clone() }),
            None => Ok(()),
        }
    }
}

/// A background job, until it is over however it ends.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        let mut board = self.0.board();
        board.drivers -= 1;
        self.0.wake(&mut board);
    }
}

/// A lane that a thread has. Dropped, by a panic, it gives the task up: nobody is to wait for a lane that does not come back.
struct Taken<'a> {
    shared: &'a Arc<Shared>,
    task: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut board = self.shared.board();
        board.give_up(self.task);
        board.strays -= 1;
        self.shared.wake(&mut board);
    }
}

/// What a lane merges.
struct Sources {
    is_flush: bool,
    runs: Vec<Arc<FingerprintSegment>>,
    packed: Vec<Arc<PackedRun>>,
    kind: RunKind,
    is_oldest: bool,
}

fn sources(board: &Board, task: u64) -> Option<Sources> {
    let task = board.tasks.iter().find(|one| one.id == task)?;
    let runs = board.runs.iter().filter(|run| task.runs.contains(&run.id));
    let packed = board.packed.iter().filter(|packed| task.packed.contains(&packed.id));
    Some(Sources {
        is_flush: task.is_flush,
        runs: runs.flat_map(|run| run.pieces.iter().cloned()).collect(),
        packed: packed.map(|packed| Arc::clone(&packed.run)).collect(),
        kind: task.kind,
        is_oldest: task.is_oldest,
    })
}
