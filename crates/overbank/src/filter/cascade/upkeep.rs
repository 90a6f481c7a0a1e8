//! What is done to a filter as a whole: panes that begin, RAM that is flushed, merges that are finished.

use super::shared::Shared;
use super::write_class::WriteClass;
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
