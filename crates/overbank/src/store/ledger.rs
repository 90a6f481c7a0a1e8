//! Which data files a store has that no durable record names yet, and who may still come to need them.
//!
//! ```text
//!   create ──▶ uncommitted ──(a record that names it is durable)──▶ committed ──(the next record does not name it)──▶ removed
//!                   │  retire: removed at once, or at the end of the turn that is under way, unless its record names it
//!                   │  a blob that a turn wrote, and its durable record does not name: removed at the turn's end
//!                   └─ orphaned by a crash, or by a structure that forgot it: removed at the next open for writing
//! ```
//!
//! A *turn* is one commit or one publish. It begins before the first structure is asked for its record and ends when the record is
//! durable, or the attempt has failed.
//!
//! Invariants:
//! 1. While a turn is under way, no file that was there when it began, or came since, is removed by [`Ledger::retire`]: the record
//!    under way may name it, and nobody knows before all structures have been asked.
//! 2. A file number is never handed out twice.

use super::FileId;
use std::collections::BTreeSet;
use std::thread::{self, ThreadId};

/// The files that no durable record names, and the turn under way.
#[derive(Debug)]
pub(super) struct Ledger {
    next_file: u64,
    uncommitted: BTreeSet<FileId>,
    names_pending: bool,
    turn: Option<Turn>,
}

#[derive(Debug)]
struct Turn {
    thread: ThreadId,
    /// Blobs that its thread has written.
    blobs: Vec<FileId>,
    retired: Vec<FileId>,
}

impl Ledger {
    pub(super) fn new(next_file: u64) -> Self {
        Ledger { next_file, uncommitted: BTreeSet::new(), names_pending: false, turn: None }
    }

    pub(super) fn number(&mut self) -> FileId {
        self.next_file += 1;
        FileId(self.next_file - 1)
    }

    pub(super) fn next_file(&self) -> u64 {
        self.next_file
    }

    pub(super) fn created(&mut self, id: FileId, is_blob: bool) {
        self.uncommitted.insert(id);
        self.names_pending = true;
        let turn = self.turn.as_mut().filter(|turn| is_blob && turn.thread == thread::current().id());
        if let Some(turn) = turn {
            turn.blobs.push(id);
        }
    }

    pub(super) fn note_new_name(&mut self) {
        self.names_pending = true;
    }

    /// Whether there are names that no sync of the directory has covered; they count as covered from now on.
    pub(super) fn take_new_names(&mut self) -> bool {
        std::mem::take(&mut self.names_pending)
    }

    pub(super) fn is_uncommitted(&self, id: FileId) -> bool {
        self.uncommitted.contains(&id)
    }

    /// Forgets an uncommitted file that its caller is to remove now; false if it is none.
    pub(super) fn forget(&mut self, id: FileId) -> bool {
        self.uncommitted.remove(&id)
    }

    /// Gives a file up. Returns whether its caller is to remove it now.
    pub(super) fn retire(&mut self, id: FileId) -> bool {
        if let Some(turn) = &mut self.turn {
            turn.retired.push(id);
            return false;
        }
        // A file that the last record names goes with the record that does not name it any more.
        self.uncommitted.remove(&id)
    }

    /// Begins a turn of the calling thread.
    pub(super) fn begin_turn(&mut self) {
        self.turn = Some(Turn { thread: thread::current().id(), blobs: Vec::new(), retired: Vec::new() });
    }

    /// The record of the turn is durable, and names these files.
    pub(super) fn commit(&mut self, named: impl Iterator<Item = FileId>) {
        for id in named {
            self.uncommitted.remove(&id);
        }
    }

    /// Ends the turn, if one is under way. Returns the files that its caller is to remove now.
    pub(super) fn end_turn(&mut self) -> Vec<FileId> {
        let Some(Turn { blobs, retired, .. }) = self.turn.take() else { return Vec::new() };
        blobs.into_iter().chain(retired).filter(|id| self.uncommitted.remove(id)).collect()
    }
}
