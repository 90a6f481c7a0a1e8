//! Who works on the jobs: background threads and, where these are behind, the writers.
//!
//! ```text
//!   writer ─▶ memtable ─▶ version     each key inserted while there is work owes the work of a few keys: it is taken from what
//!     ▲                      │        the background has done, or done at once, a step of some milliseconds at a time
//!     └── a step ◀───────────┼─▶ background threads: step, step, …
//! ```
//!
//! So a long merge never holds up an insert for longer than a step, and is done before the next one of its kind is due: the paper's
//! deamortization. Without background threads the writers do all of it, in a fixed order.

use super::Table;
use super::job::Stage;
use super::lanes::Taken;
use super::limits::Limits;
use super::pace::Pace;
use super::picker::Policy;
#[cfg(test)]
use super::picker::idle_groups;
use super::state::State;
use super::version::Version;
use crate::lock::lock;
use crate::store::{FileId, Files, Publisher, Spawner};
use crate::{Error, Result};
#[cfg(test)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

/// Blocks that a step reads, of 1,000 to 2,500 fingerprints each: some milliseconds of a core.
const STEP_BLOCKS: u64 = 48;

/// So often it is seen that writers rest before the merges are patient: every 200 ms, so for 5 s.
const PATIENCE: u32 = 25;

/// Runs that are merged in the background, as all threads see them.
#[derive(Debug)]
pub(crate) struct Tree<T: Table> {
    pub(crate) table: T,
    pub(crate) limits: Limits,
    files: Files,
    policy: Policy,
    spawner: Spawner,
    /// Commits merges between two commits; none in a store that is open read-only.
    pub(super) publisher: OnceLock<Publisher>,
    state: Mutex<State<T>>,
    /// As in the state.
    edits: Arc<AtomicU64>,
    /// A lane came back, or a job began or ended.
    pub(super) changed: Condvar,
    pub(super) pace: Pace,
    #[cfg(test)]
    pub(super) test: Test,
}

/// What tests ask for and count.
#[cfg(test)]
#[derive(Default, Debug)]
pub(super) struct Test {
    /// However little space a record between two commits gives back, it is written.
    pub(super) publishes_always: AtomicBool,
    pub(super) published: AtomicU64,
}

impl<T: Table> Tree<T> {
    pub(crate) fn new(
        table: T,
        (files, spawner): (Files, Spawner),
        policy: Policy,
        limits: Limits,
        state: State<T>,
    ) -> Arc<Self> {
        let edits = Arc::clone(&state.edits);
        let (state, changed, pace) = (Mutex::new(state), Condvar::new(), Pace::default());
        let publisher = OnceLock::new();
        Arc::new(Tree {
            table,
            limits,
            files,
            policy,
            spawner,
            publisher,
            state,
            edits,
            changed,
            pace,
            #[cfg(test)]
            test: Test::default(),
        })
    }

    /// Lets merges give space back between two commits, and go on while writers rest. For a tree that may write.
    pub(crate) fn serve(self: &Arc<Self>, publisher: Publisher) {
        // Whoever opens a summary does so once.
        let _ = self.publisher.set(publisher);
        let tree = Arc::downgrade(self);
        self.spawner.when_idle(move || tree.upgrade().map(|tree| tree.rest()));
    }

    /// What the store's threads call when they have had nothing to do for a while: if no writer came since the last call, merges go on to
    /// what reads least (see [`restful`](super::picker::restful)), step by step as all work, until a writer inserts. Also what a restart
    /// cut off goes on. Returns whether it is to be called again, though nobody had work for the threads.
    pub(crate) fn rest(self: &Arc<Self>) -> bool {
        let has_written = self.pace.take_written();
        let mut state = self.state();
        if has_written {
            (state.rests, state.looks) = (false, 0);
            return true;
        }
        state.rests = true;
        state.looks = state.looks.saturating_add(1);
        if state.looks == 1 {
            // The disk may have room again.
            state.retry();
        }
        self.schedule(&mut state);
        let is_patient = state.looks > PATIENCE;
        state.begin_restful(is_patient, &self.limits);
        self.wake(&mut state);
        let closed = std::mem::take(&mut state.closed);
        let goes_on = !state.jobs.is_empty() || (!is_patient && !state.waits_for_space());
        drop(state);
        drop(closed);
        goes_on
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    /// The runs that there are now.
    pub(crate) fn version(&self) -> Arc<Version<T>> {
        Arc::clone(self.state().version())
    }

    /// How many versions there were before the present one; without a lock. What was put into a version before the caller saw it done is
    /// in the version of this number.
    #[inline]
    pub(crate) fn edits(&self) -> u64 {
        self.edits.load(Ordering::Acquire)
    }

    /// Has the table forget frozen runs that are gone. The tree's lock is not held.
    pub(crate) fn frozen_gone(&self) {
        self.table.frozen_gone(self.edits());
    }

    /// Background threads of the store.
    pub(crate) fn threads(&self) -> usize {
        self.spawner.threads()
    }

    /// Has a background thread do something that nobody waits for.
    pub(crate) fn spawn(&self, job: impl FnOnce() -> Result<()> + Send + 'static) {
        self.spawner.spawn(job);
    }

    /// RAM that frozen runs may take: what stands in RAM for those on flash needs its own.
    pub(crate) fn frozen_room(&self, state: &State<T>) -> usize {
        let fences: usize = state.version().runs.iter().map(|run| run.size().memory_bytes).sum();
        let taken = fences + self.table.extra_bytes();
        self.limits.frozen_bytes.saturating_sub(taken).max(self.limits.frozen_bytes / 8)
    }

    /// Begins what is due, and sees to it that somebody works on it.
    pub(crate) fn schedule(self: &Arc<Self>, state: &mut State<T>) {
        // Room is left for what comes while a flush is under way.
        let is_full = state.no_space.as_ref().is_some_and(|full| full.is_flush);
        let (share, of) = self.table.flush_share(!state.version().runs.is_empty());
        let begins_at = self.frozen_room(state) / of * share;
        if state.version().frozen_bytes > begins_at && !is_full {
            state.begin_flush(&self.limits);
        }
        state.begin_merges(self.policy, &self.limits);
        self.wake(state);
    }

    /// Spawns background work while there are lanes to take.
    pub(super) fn wake(self: &Arc<Self>, state: &mut State<T>) {
        let level = state.version().runs.iter().map(|run| run.level).max().unwrap_or(-1);
        self.pace.set_work(state.has_due_jobs(), level, self.policy);
        self.changed.notify_all();
        while state.drivers < self.threads() && state.drivers < state.lanes_to_take(&self.limits, true) {
            state.drivers += 1;
            let tree = Arc::clone(self);
            self.spawner.spawn(move || tree.drive());
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
    ///
    /// # Errors
    /// `Full`, `Corrupt`, `Io`: the lane's job was given up. What [`Table::is_told`] is [`Tree::flush_until`]'s to say.
    pub(crate) fn step(self: &Arc<Self>, may_end: bool) -> Result<bool> {
        let (may_end, is_behind) = (self.may_end(may_end), self.threads() > 0);
        let Some(mut taken) = self.state().take_lane(&self.limits, may_end, is_behind) else {
            return Ok(false);
        };
        let closed = std::mem::take(&mut self.state().closed);
        drop(closed);
        let (job, lane, is_flush) = (taken.job, taken.lane, taken.is_flush);
        let held = Held { tree: self, job };
        let stage = std::mem::replace(&mut taken.stage, Stage::Taken);
        let worked = self.work(stage, taken);
        std::mem::forget(held);
        let mut state = self.state();
        match worked {
            Ok((stage, entries)) => {
                self.pace.credit(entries);
                let before = self.edits();
                let (dead, orphaned) = match state.put_lane(job, lane, stage) {
                    Ok(true) => (self.publish(&mut state, job), None),
                    Ok(false) => (Vec::new(), None),
                    Err(stage) => (Vec::new(), Some(stage)),
                };
                self.wake(&mut state);
                let has_published = self.edits() > before;
                drop(state);
                if is_flush && has_published {
                    self.frozen_gone();
                }
                if !dead.is_empty() {
                    self.retire(dead);
                    self.publish_merges()?;
                }
                if let Some(stage) = orphaned {
                    // A piece that is whole has a file, any other stage removes its own.
                    let file = stage.into_piece().map(|piece| T::file_ref(&piece).id);
                    self.state().orphaned_lanes -= 1;
                    self.retire(file.into_iter().collect());
                }
                Ok(true)
            }
            Err(error) => {
                let dead = state.fail(job, is_flush, &error);
                let told = if is_flush && T::is_told(&error) {
                    state.untold = Some((job, error));
                    Ok(true)
                } else {
                    Err(error)
                };
                self.wake(&mut state);
                drop(state);
                // At once: their space may be what is missing. What cannot be removed, the store removes when it is next opened.
                dead.into_iter().for_each(|file| drop(self.files.discard(file)));
                told
            }
        }
    }

    /// Whether a lane may be ended by whom `may_end` says: by anybody where there is no background.
    pub(super) fn may_end(&self, may_end: bool) -> bool {
        may_end || self.threads() == 0
    }

    /// Gives files up that no version has any more, in the background: to remove them takes as long as they are.
    pub(crate) fn retire(&self, dead: Vec<FileId>) {
        let files = self.files.clone();
        let retire = move || dead.into_iter().for_each(|file| files.retire(file));
        if self.threads() == 0 {
            return retire();
        }
        self.spawner.spawn(move || {
            retire();
            Ok(())
        });
    }

    /// Takes a frozen run back whose flush found the disk full: see [`State::take_frozen`].
    pub(crate) fn take_frozen(
        self: &Arc<Self>,
        is_it: impl Fn(&T::Frozen, T::Class) -> bool,
    ) -> Option<Arc<T::Frozen>> {
        let mut state = self.state();
        let (frozen, dead) = state.take_frozen(is_it)?;
        self.wake(&mut state);
        drop(state);
        // As in `step`: what cannot be removed, the store removes when it is next opened.
        dead.into_iter().for_each(|file| drop(self.files.discard(file)));
        Some(frozen)
    }

    /// Publishes what merges have done. Returns the files that nobody needs any more.
    pub(super) fn publish_news(self: &Arc<Self>, state: &mut State<T>) -> Vec<FileId> {
        let jobs = state.merges_with_news();
        jobs.into_iter().flat_map(|job| state.publish(job, self.limits.flush_entries, self.policy)).collect()
    }

    fn publish(self: &Arc<Self>, state: &mut State<T>, job: u64) -> Vec<FileId> {
        let dead = state.publish(job, self.limits.flush_entries, self.policy);
        self.schedule(state);
        dead
    }

    /// A step of a lane, without the lock: what becomes of it, and the entries that were merged.
    fn work(&self, stage: Stage<T>, taken: Taken<T>) -> Result<(Stage<T>, u64)> {
        let mut merge = match stage {
            Stage::Waiting => Box::new(self.table.begin(&self.files, &taken.inputs, &taken.spec)?),
            Stage::Open(merge) => merge,
            Stage::Merged(merge) => {
                let segment = self.table.finish(&self.files, *merge, taken.spec.class)?;
                return Ok((Stage::Done(segment.map(Arc::new)), 0));
            }
            done => return Ok((done, 0)),
        };
        let stepped = self.table.step(&mut merge, STEP_BLOCKS)?;
        Ok((if stepped.has_more { Stage::Open(merge) } else { Stage::Merged(merge) }, stepped.entries))
    }

    /// Notes that a writer is at work: no further step of a merge that is not due begins.
    pub(crate) fn note_writer(&self) {
        if self.pace.note_written() {
            let mut state = self.state();
            (state.rests, state.looks) = (false, 0);
        }
    }

    /// Tells those who wait that a join ended.
    pub(super) fn tell_all(&self) {
        self.changed.notify_all();
    }
}

#[cfg(test)]
impl<T: Table> Tree<T> {
    /// Writes a record between two commits for any space that it gives back.
    pub(crate) fn publish_always(&self) {
        self.test.publishes_always.store(true, Ordering::Relaxed);
    }

    /// Whether it merges while writers rest.
    pub(crate) fn is_served(&self) -> bool {
        self.publisher.get().is_some()
    }

    /// Begins to merge everything.
    pub(crate) fn begin_all(self: &Arc<Self>) {
        let mut state = self.state();
        for choice in idle_groups(&state.shapes(), |run| Some(T::whole_class(run.class))) {
            state.begin_merge(choice, &self.limits, Limits::PIECES_MAX);
        }
        self.wake(&mut state);
    }

    /// Records that were written between two commits.
    pub(crate) fn published(&self) -> u64 {
        self.test.published.load(Ordering::Relaxed)
    }

    /// Whether a merge or flush has read something.
    pub(crate) fn has_begun_job(&self) -> bool {
        self.state().jobs.iter().any(|job| job.has_begun())
    }

    /// Entries of the longest merge that is due or under way.
    pub(crate) fn longest_job(&self) -> u64 {
        self.state().jobs.iter().map(|job| job.entries).max().unwrap_or(0)
    }
}

/// A background thread at work, until it is over however it ends.
struct Driver<T: Table>(Arc<Tree<T>>);

impl<T: Table> Drop for Driver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.drivers -= 1;
        self.0.wake(&mut state);
    }
}

/// A lane that a thread has. Dropped, by a panic, it gives the job up: nobody is to wait for a lane that does not come back.
struct Held<'a, T: Table> {
    tree: &'a Arc<Tree<T>>,
    job: u64,
}

impl<T: Table> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let mut state = self.tree.state();
        state.give_up(self.job);
        state.orphaned_lanes -= 1;
        self.tree.wake(&mut state);
    }
}
