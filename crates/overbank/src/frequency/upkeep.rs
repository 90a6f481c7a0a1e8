//! What keeps a sketch going, one thing at a time: buffers become logs, and logs pages.
//!
//! ```text
//!   a full buffer, a commit, apply ─▶ upkeep's lock ─▶ all turns: buffers ─▶ logs ─▶ turns given back ─▶ one log, or a pass
//! ```
//!
//! 1. Upkeep's lock is held for as long as that takes, device I/O included. Writers whose buffers have room, or may be logged, and all
//!    estimates go on meanwhile; a writer with a full buffer waits for it, for the device cannot take more.
//! 2. The turns are held while the buffers are logged, so that nothing overtakes what was added before it; not during a pass.

use super::log::Log;
use super::sketch::Sketch;
use crate::Result;
use crate::lock::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The logs of one moment, in which no other was being written.
struct Chosen {
    logs: Arc<Vec<Arc<Log>>>,
    /// Above all of them, and below every later one; 0 if they may wait.
    sequence: u64,
}

impl Sketch {
    /// Moves everything that waits to the pages.
    pub(super) fn apply(&self) -> Result<()> {
        self.writable()?;
        let _upkeep = lock(&self.upkeep);
        self.apply_held()
    }

    /// Moves everything to the pages and gives the buffers' memory back, until the next update.
    pub(super) fn apply_and_release(&self) -> Result<()> {
        self.writable()?;
        let _upkeep = lock(&self.upkeep);
        self.apply_held()?;
        self.hold_still().release();
        Ok(())
    }

    /// As [`apply`](Self::apply), with upkeep's lock held.
    fn apply_held(&self) -> Result<()> {
        let chosen = {
            let still = self.hold_still();
            still.drain()?;
            self.choose(true)
        };
        self.pass(&chosen)
    }

    /// Empties the buffer of a slot that was full, with all others, unless that has been done meanwhile (whoever waits here waits for a
    /// pass of another writer, which emptied it) or it has become possible that it is logged by itself.
    pub(super) fn make_room(&self, slot: usize, emptied: u64) -> Result<()> {
        let _upkeep = lock(&self.upkeep);
        if self.has_room(slot, emptied) { Ok(()) } else { self.flush_or_apply() }
    }

    /// Empties the buffers: all that they held is in the pages, or in no more logs than may wait. Upkeep's lock is held.
    pub(super) fn flush_or_apply(&self) -> Result<()> {
        // What a pass that failed left goes first: the logs would grow in number from try to try.
        if self.pending_chunks() > self.pending {
            let left = {
                let _still = self.hold_still();
                self.choose(false)
            };
            self.thin(&left)?;
        }
        let chosen = {
            let still = self.hold_still();
            still.drain()?;
            self.choose(false)
        };
        self.thin(&chosen)
    }

    /// The logs that there are, with a sequence for what will take their place if there are more than may wait, or `is_all` are to go.
    /// All turns are held, so no log is being written.
    fn choose(&self, is_all: bool) -> Chosen {
        let logs = Arc::clone(&lock(&self.table).logs);
        let goes = !logs.is_empty() && (is_all || logs.len() > self.pending);
        let sequence = if goes { self.next_sequence() } else { 0 };
        Chosen { logs, sequence }
    }

    /// Sees to it that no more logs wait than may.
    fn thin(&self, chosen: &Chosen) -> Result<()> {
        if chosen.sequence == 0 || self.merge_logs(chosen)? {
            return Ok(());
        }
        self.pass(chosen)
    }

    /// Applies logs to the pages, after which they are gone.
    fn pass(&self, chosen: &Chosen) -> Result<()> {
        if chosen.sequence == 0 {
            return Ok(());
        }
        self.pass_over_groups(&chosen.logs, chosen.sequence)?;
        lock(&self.table).remove_logs(chosen.sequence);
        self.retire_logs(&chosen.logs);
        Ok(())
    }

    /// Makes one log of all, if that is cheaper than a pass over a single group.
    fn merge_logs(&self, chosen: &Chosen) -> Result<bool> {
        let (shape, applied) = {
            let table = lock(&self.table);
            let blocks = chosen.logs.iter().map(|log| log.blocks()).sum::<u64>();
            if self.pending == 0 || 8 * blocks > u64::from(table.shape.group_pages) {
                return Ok(false);
            }
            (table.shape, table.places.iter().map(|place| place.sequence).collect::<Vec<u64>>())
        };
        let merged = self.new_log(shape, chosen.sequence, |writer| {
            super::cursor::merge(writer, shape, &chosen.logs, |group| applied[group])
        })?;
        {
            let mut table = lock(&self.table);
            table.remove_logs(chosen.sequence - 1);
            if let Some(merged) = merged {
                table.add_log(merged);
                self.log_count.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.retire_logs(&chosen.logs);
        Ok(true)
    }

    /// Gives up logs that the table does not name any more. A reader that has one keeps it open.
    pub(super) fn retire_logs(&self, logs: &[Arc<Log>]) {
        self.log_count.fetch_sub(logs.len(), Ordering::Relaxed);
        for log in logs {
            self.files.retire(log.file_ref().id);
        }
    }

    /// Empties the buffers, as a full one does.
    #[cfg(test)]
    pub(super) fn flush(&self) -> Result<()> {
        let _upkeep = lock(&self.upkeep);
        self.flush_or_apply()
    }
}
