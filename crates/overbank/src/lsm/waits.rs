//! What callers wait for: that their keys are paid for, that RAM has room, that merges are done. They work on the jobs meanwhile.

use super::picker::{Choice, idle_groups};
use super::scheduler::Tree;
use super::state::{NoSpace, State};
use super::{Limits, Table};
use crate::lock::wait;
use crate::{Error, Result};
use std::sync::Arc;

impl<T: Table> Tree<T> {
    /// Lets `keys` inserted keys pay for the work that is under way; `later`, with those that come next.
    ///
    /// # Errors
    /// As [`Tree::step`], a full disk aside: writers hear of it when they need its room.
    pub(crate) fn pace(self: &Arc<Self>, keys: usize, later: bool) -> Result<()> {
        self.note_writer();
        if !self.pace.has_work() || self.pace.owe(keys) || later {
            return Ok(());
        }
        while !self.pace.is_paid() {
            match self.step(false) {
                Ok(true) | Err(Error::Full { .. }) => {}
                // Rather than wait for a background thread that is busy elsewhere, the writer ends a lane itself: pieces are short.
                Ok(false) => match self.step(true) {
                    Ok(true) | Err(Error::Full { .. }) => {}
                    Ok(false) => self.wait_for_work(false, || self.pace.is_paid()),
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
            if !self.pace.has_work() {
                self.pace.forgive();
            }
        }
        Ok(())
    }

    /// Waits until a lane comes back or `is_enough`. Lanes that only a background thread may end do come back.
    fn wait_for_work(&self, may_end: bool, is_enough: impl Fn() -> bool) {
        let state = self.state();
        // Under the lock that whoever brings a lane back takes: one that came back since was told of already, and perhaps the last.
        let has_lane = state.lanes_to_take(&self.limits, self.may_end(may_end)) > 0;
        if !state.has_due_jobs() || has_lane || is_enough() {
            return;
        }
        drop(wait(&self.changed, state));
    }

    /// Waits, and works, until nothing more is due.
    ///
    /// # Errors
    /// `Full` from job `first_job` on, for those before may tell of the disk as it was then: what was to be merged is as it was.
    pub(crate) fn finish_merges(self: &Arc<Self>, first_job: u64) -> Result<()> {
        let mut state = self.state();
        let ended = state.end_restful();
        drop(state);
        self.retire(ended);
        let mut state = self.state();
        loop {
            if let Some(full) = state.no_space.as_ref().filter(|full| full.job >= first_job) {
                return Err(full.error());
            }
            state.retry();
            self.schedule(&mut state);
            if !state.has_due_jobs() {
                // Nothing waits for room any more.
                state.no_space = None;
                return Ok(());
            }
            drop(state);
            self.step_or_wait()?;
            state = self.state();
        }
    }

    /// Merges everything that may be merged: one run for each class that [`Table::whole_class`] gives; in several merges where one would
    /// take much flash beside.
    ///
    /// # Errors
    /// As [`Tree::finish_merges`].
    pub(crate) fn merge_all(self: &Arc<Self>) -> Result<()> {
        let mut is_redone = false;
        loop {
            let mut state = self.state();
            let first_job = state.next_job();
            if state.has_cut_off() {
                drop(state);
                self.finish_merges(first_job)?;
                continue;
            }
            let mut choices: Vec<Choice<T::Class>> =
                idle_groups(&state.shapes(), |run| Some(T::whole_class(run.class)));
            if choices.is_empty() && !std::mem::replace(&mut is_redone, true) {
                choices.extend(self.half_done(&state));
            }
            if choices.is_empty() {
                return Ok(());
            }
            for all in choices {
                let choice = state.spare(all, &self.limits);
                state.begin_merge(choice, &self.limits, Limits::PIECES_MAX);
            }
            self.wake(&mut state);
            drop(state);
            self.finish_merges(first_job)?;
        }
    }

    /// The only run, if it was written while something older was there, and that is gone.
    fn half_done(&self, state: &State<T>) -> Option<Choice<T::Class>> {
        let version = state.version();
        let [run] = &version.runs[..] else { return None };
        let is_alone = version.frozen.is_empty() && !state.is_busy(run.id);
        let is_whole = run.pieces.iter().all(|piece| self.table.is_whole(piece));
        (is_alone && !is_whole).then(|| Choice { inputs: vec![run.id], class: T::whole_class(run.class) })
    }

    /// Works for a step, or waits for one. Of a full disk the state tells.
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
    /// `Full`, and what [`Table::is_told`]: what is in RAM stays there.
    pub(crate) fn flush_until(self: &Arc<Self>, is_enough: impl Fn(&State<T>) -> bool) -> Result<()> {
        // As in `finish_merges`.
        let first_job = self.state().next_job();
        loop {
            let mut state = self.state();
            if is_enough(&state) {
                return Ok(());
            }
            let is_new = |full: &&NoSpace| full.is_flush && full.job >= first_job;
            if let Some(full) = state.no_space.as_ref().filter(is_new) {
                return Err(full.error());
            }
            if let Some((_, error)) = state.untold.take().filter(|(job, _)| *job >= first_job) {
                return Err(error);
            }
            state.begin_flush(&self.limits);
            self.wake(&mut state);
            if !state.has_due_jobs() && !state.joining.is_empty() {
                // What is to be flushed is being joined.
                drop(wait(&self.changed, state));
                continue;
            }
            drop(state);
            self.step_or_wait()?;
        }
    }

    /// Flushes all that was frozen before.
    ///
    /// # Errors
    /// As [`Tree::flush_until`].
    pub(crate) fn flush(self: &Arc<Self>) -> Result<()> {
        let memtables = self.state().memtables;
        self.flush_until(|state| state.version().frozen.iter().all(|one| one.span.oldest >= memtables))
    }

    /// Sees to it that frozen runs of `bytes` more fit into RAM, as far as there is something to flush.
    ///
    /// # Errors
    /// As [`Tree::flush_until`].
    pub(crate) fn make_room(self: &Arc<Self>, bytes: usize) -> Result<()> {
        let has_room = |state: &State<T>| {
            let version = state.version();
            version.frozen_bytes + bytes <= self.frozen_room(state) || version.frozen.is_empty()
        };
        if has_room(&self.state()) { Ok(()) } else { self.flush_until(has_room) }
    }
}
