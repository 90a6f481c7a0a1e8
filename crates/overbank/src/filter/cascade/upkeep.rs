//! What is done to a filter as a whole: panes that begin, RAM that is flushed, merges that are finished, fronts that are made.

use super::class::WriteClass;
use super::fronts::{LOOKUP_BLOCKS, STEP_BLOCKS};
use super::shared::Shared;
use super::table::FilterVersion;
use crate::Result;
use crate::error::invalid;
use std::sync::Arc;

impl Shared {
    /// As [`Filter::advance`](super::Filter::advance).
    pub(super) fn advance(self: &Arc<Self>) -> Result<()> {
        let panes = u64::from(self.options.panes);
        if panes == 0 {
            return invalid(
                "panes",
                0,
                "a filter that forgets has at least one; choose `panes` when it is made",
            );
        }
        self.writable()?;
        let _change = self.change();
        self.freeze_all()?;
        let mut state = self.state();
        let WriteClass { revision, pane, .. } = state.writes;
        state.writes = WriteClass { revision: revision + 1, pane: pane + 1, ..state.writes };
        self.note_class(&state);
        let oldest = (pane + 2).saturating_sub(panes);
        let dead = state.drop_classes(|class| class.pane < oldest);
        self.tree.schedule(&mut state);
        drop(state);
        self.tree.frozen_gone();
        self.tree.retire(dead);
        Ok(())
    }

    /// As [`Filter::flush`](super::Filter::flush).
    pub(super) fn flush(self: &Arc<Self>) -> Result<()> {
        self.writable()?;
        let _change = self.change();
        self.freeze_all()?;
        self.tree.flush()
    }

    /// As [`Filter::settle`](super::Filter::settle).
    pub(super) fn finish_merges(self: &Arc<Self>) -> Result<()> {
        self.writable()?;
        let _change = self.change();
        let first_job = self.state().next_job();
        self.tree.finish_merges(first_job)?;
        self.finish_fronts()
    }

    /// As [`Filter::compact`](super::Filter::compact).
    pub(super) fn compact(self: &Arc<Self>) -> Result<()> {
        self.flush()?;
        self.finish_merges()?;
        let _change = self.change();
        self.tree.merge_all()?;
        self.finish_fronts()
    }
}

impl Shared {
    /// Sees to it that the runs that a lookup reads get fronts. No lock is held by the caller.
    pub(super) fn tend_fronts(&self, version: &FilterVersion) {
        if version.runs.is_empty() {
            return;
        }
        // Somebody else tends to them now: nobody waits for that.
        let Some(mut state) = self.tree.table.fronts.try_state() else { return };
        let is_divided = state.divided.as_ref().is_some_and(|divided| {
            divided.len() == version.runs.len()
                && divided.iter().zip(&version.runs).all(|(id, run)| *id == run.id)
        });
        if !is_divided {
            self.tree.table.fronts.divide(&mut state, &version.runs);
        }
        if state.scan.is_none() && state.wanted.is_empty() {
            return;
        }
        if self.tree.threads() == 0 {
            self.tree.table.fronts.step(&mut state, LOOKUP_BLOCKS);
        } else if !state.is_driven {
            state.is_driven = true;
            drop(state);
            self.drive_fronts();
        }
    }

    /// Has the background go on with a step. It holds the filter weakly: one that was dropped is not scanned on.
    fn drive_fronts(&self) {
        let weak = self.this.clone();
        self.tree.spawn(move || {
            let Some(shared) = weak.upgrade() else { return Ok(()) };
            let mut state = crate::lock::lock(&shared.tree.table.fronts.state);
            let has_more = shared.tree.table.fronts.step(&mut state, STEP_BLOCKS);
            state.is_driven = has_more;
            drop(state);
            if has_more {
                shared.drive_fronts();
            }
            Ok(())
        });
    }

    /// Makes the fronts that the present runs are to have, if somebody has looked keys up.
    pub(super) fn finish_fronts(&self) -> Result<()> {
        let mut state = crate::lock::lock(&self.tree.table.fronts.state);
        if state.divided.is_none() {
            return Ok(());
        }
        let version = self.tree.version();
        self.tree.table.fronts.divide(&mut state, &version.runs);
        while self.tree.table.fronts.step(&mut state, STEP_BLOCKS) {
            self.files.check_process()?;
        }
        Ok(())
    }
}
