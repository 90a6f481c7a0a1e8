//! What a commit names, and which files it keeps alive.
//!
//! A commit names all runs of a version. Merges go on beside it: what they replace stays until a commit that does not name it.

use super::Table;
use super::run::Run;
use super::state::State;
use crate::store::{FileId, FileRef};
use std::collections::BTreeSet;

/// The files that a commit needs.
#[derive(Debug)]
pub(crate) struct Durable {
    /// A commit is under way, or failed.
    is_prepared: bool,
    /// What the last commit names, and what that one does.
    committed: BTreeSet<FileId>,
    prepared: BTreeSet<FileId>,
    /// Files that were replaced while a commit under way may have named them.
    replaced: Vec<FileId>,
}

impl Durable {
    pub(super) fn of<T: Table>(runs: &[Run<T>]) -> Self {
        let committed: BTreeSet<FileId> = files_of(runs).map(|file| file.id).collect();
        Durable { is_prepared: false, prepared: committed.clone(), committed, replaced: Vec::new() }
    }

    /// Takes files that no run has any more. Returns those that are to be removed now: the store removes the others once no commit
    /// names them.
    pub(super) fn give_up(&mut self, files: Vec<FileId>) -> Vec<FileId> {
        let mut dead = Vec::new();
        for id in files {
            match (self.committed.contains(&id), self.prepared.contains(&id)) {
                (true, _) => {}
                (false, true) => self.replaced.push(id),
                (false, false) => dead.push(id),
            }
        }
        dead
    }
}

impl<T: Table> State<T> {
    /// Names all runs for a commit: their files in order.
    pub(crate) fn prepare(&mut self) -> Vec<FileRef> {
        let files: Vec<FileRef> = files_of(&self.version().runs).collect();
        self.durable.prepared = files.iter().map(|file| file.id).collect();
        self.durable.is_prepared = true;
        // Other writers may have begun memtables since theirs were frozen.
        self.is_changed = self.has_entries_in_memory();
        files
    }

    /// What [`State::prepare`] named is durable.
    pub(crate) fn committed(&mut self) {
        self.durable.committed = self.durable.prepared.clone();
        self.durable.is_prepared = false;
        // They are the store's to remove now, with the next commit.
        self.durable.replaced.clear();
    }

    /// Whether there is anything that no durable commit has.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.is_changed || self.durable.is_prepared
    }

    /// Gives the files up that only a commit which failed would have named, and that were replaced since.
    pub(crate) fn forget_prepared(&mut self) -> Vec<FileId> {
        if std::mem::take(&mut self.durable.is_prepared) {
            self.durable.prepared = self.durable.committed.clone();
            self.is_changed = true;
        }
        std::mem::take(&mut self.durable.replaced)
    }
}

fn files_of<T: Table>(runs: &[Run<T>]) -> impl Iterator<Item = FileRef> {
    runs.iter().flat_map(|run| &run.pieces).map(|piece| T::file_ref(piece))
}
