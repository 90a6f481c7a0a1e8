//! What is done to a filter as a whole: panes that begin, RAM that is flushed, merges that are finished.

use super::board::Era;
use super::levels::idle_family;
use super::shared::Shared;
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
        self.freeze_all()?;
        let mut board = self.board();
        let Era { number, pane, .. } = board.era;
        board.era = Era { number: number + 1, pane: pane + 1, ..board.era };
        board.is_changed = true;
        self.note_era(&board);
        let oldest = (pane + 2).saturating_sub(panes);
        let dead = board.drop_before(oldest);
        self.schedule(&mut board);
        drop(board);
        self.discard(dead)
    }

    /// As [`Filter::flush`](super::Filter::flush).
    pub(super) fn flush(self: &Arc<Self>) -> Result<()> {
        self.writable()?;
        self.freeze_all()?;
        let logs = self.board().logs;
        self.flush_until(|board| board.packed.iter().all(|packed| packed.age.oldest >= logs))
    }

    /// As [`Filter::settle`](super::Filter::settle).
    pub(super) fn finish_merges(self: &Arc<Self>) -> Result<()> {
        self.writable()?;
        let first_task = self.board().next_id;
        self.settle(first_task)
    }

    /// As [`Filter::compact`](super::Filter::compact).
    pub(super) fn compact(self: &Arc<Self>) -> Result<()> {
        self.flush()?;
        self.finish_merges()?;
        loop {
            let mut board = self.board();
            let first_task = board.next_id;
            let mut has_begun = false;
            while let Some(inputs) = idle_family(&board.runs, |_| true) {
                board.begin_merge(self.kind, inputs, self.shares.lanes);
                has_begun = true;
            }
            self.wake(&mut board);
            drop(board);
            if !has_begun {
                return Ok(());
            }
            self.settle(first_task)?;
        }
    }
}
