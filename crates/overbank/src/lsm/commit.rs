//! What a commit names, and how space comes back without one.
//!
//! ```text
//!   last record   a ─── b ─── c          runs that were durable when a merge of them began
//!   now           ab, merged ─ c ─ d     d is not durable
//!   published     ab, merged ─ c         the same answers as the last record's, fewer files
//! ```
//!
//! A commit names all runs of a version. Merges go on beside it. What they read of durable runs keeps its space until a record is durable
//! that does not name it: that of the next commit, or one that is *published* between two commits. A published record has the answers of
//! the last one: merges of durable runs are in it as far as they have come, and nothing else.
//!
//! 1. A run has *origins* if all it holds is durable: runs of the last record that hold just that, and perhaps some that this record does
//!    not have. A merge under way and its inputs stand for the origins of its inputs.

use super::Table;
use super::format::{StoredRun, StoredTree};
use super::scheduler::Tree;
use super::state::State;
use super::version::Merging;
use crate::store::{FileId, Record};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Space that is worth a record between two commits: this share of the flash that the tree takes, and no less than so many bytes.
const PUBLISH_SHARE: u64 = 64;
const PUBLISH_BYTES_MIN: u64 = 1 << 20;

impl<T: Table> State<T> {
    /// Notes what the last record names, which is the present version.
    pub(crate) fn note_committed(&mut self, tree: StoredTree<T::Class>, writes: T::Writes) {
        (self.durable.tree, self.durable.writes) = (tree, Some(writes));
        let version = Arc::clone(self.version());
        self.durable.begin_origins(&version);
    }

    /// What a record says that has the answers of the last one and the merges since, and the files that it does not name any more.
    pub(super) fn to_publish(&self) -> Option<(StoredTree<T::Class>, BTreeSet<FileId>)> {
        self.durable.writes.as_ref()?;
        let (version, last) = (self.version(), &self.durable.tree);
        let (mut covered, mut shown, mut merges) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for merging in &version.merges {
            let Some(origins) = self.durable.origins_of(&merging.inputs) else { continue };
            covered.extend(origins);
            covered.insert(merging.output);
            shown.extend(merging.inputs.iter().copied());
            shown.insert(merging.output);
            merges.push(merging.clone());
        }
        for run in version.runs.iter().filter(|run| !version.is_merging(run.id)) {
            if let Some(origins) = self.durable.origins.get(&run.id) {
                covered.extend(origins);
                shown.insert(run.id);
            }
        }
        let kept = last.runs.iter().filter(|run| !covered.contains(&run.id)).cloned();
        let now = version.runs.iter().filter(|run| shown.contains(&run.id)).map(StoredRun::of);
        let mut runs: Vec<StoredRun<T::Class>> = kept.chain(now).collect();
        runs.sort_by_key(|run| run.span.newest);
        let is_kept = |one: &&Merging| !one.inputs.iter().any(|id| covered.contains(id));
        merges.extend(last.merges.iter().filter(is_kept).cloned());
        let next = StoredTree { memtables: last.memtables, runs, merges };
        let freed = last.file_ids().difference(&next.file_ids()).copied().collect();
        Some((next, freed))
    }

    /// Bytes that a record between two commits would free.
    fn publishable_bytes(&self) -> u64 {
        let Some((_, freed)) = self.to_publish() else { return 0 };
        let files = self.durable.tree.runs.iter().flat_map(|run| &run.files);
        files.filter(|file| freed.contains(&file.id)).map(|file| file.bytes).sum()
    }
}

impl<T: Table> Tree<T> {
    /// The record of all runs, and of merges as far as they have come, for a commit. What is in RAM is in none: it was flushed before.
    pub(crate) fn prepare(self: &Arc<Self>) -> Record {
        let mut state = self.state();
        let dead = self.publish_news(&mut state);
        let tree = StoredTree::of(state.version(), state.memtables);
        let record = self.table.record(&state.writes, &tree);
        let writes = state.writes.clone();
        state.durable.prepared = Some((tree, writes));
        state.durable.round += 1;
        // Other writers may have begun memtables since theirs were frozen.
        state.is_changed = state.has_entries_in_memory();
        drop(state);
        self.frozen_gone();
        self.retire(dead);
        record
    }

    /// What [`Tree::prepare`] named is durable.
    pub(crate) fn committed(&self) {
        let mut state = self.state();
        if let Some((tree, writes)) = state.durable.prepared.take() {
            // Runs that were replaced since are not in it: their successors get origins with the next commit.
            state.note_committed(tree, writes);
        }
    }

    /// Whether there is something that the last record does not say. A commit that failed named it in vain.
    pub(crate) fn is_changed(&self) -> bool {
        let state = self.state();
        state.is_changed || state.durable.prepared.is_some()
    }

    /// Gives back the space of what merges have read of durable runs, if it is worth a record of its own and no commit is under way. A
    /// disk that is too full for that is none the worse.
    ///
    /// # Errors
    /// What poisoned the store.
    pub(super) fn publish_merges(&self) -> Result<()> {
        let Some(publisher) = self.publisher.get().filter(|_| self.is_worth_publishing()) else {
            return Ok(());
        };
        let mut before = None;
        let published = publisher.publish(|| {
            let mut state = self.state();
            let (next, _) = state.to_publish()?;
            let record = self.table.record(state.durable.writes.as_ref()?, &next);
            before = Some((std::mem::replace(&mut state.durable.tree, next), state.durable.round));
            Some(record)
        });
        if let (Some((tree, round)), false) = (before, matches!(published, Ok(true))) {
            let mut state = self.state();
            if state.durable.round == round {
                state.durable.tree = tree;
            }
        }
        #[cfg(test)]
        self.test
            .published
            .fetch_add(matches!(published, Ok(true)).into(), std::sync::atomic::Ordering::Relaxed);
        match published {
            Ok(_) | Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether a record between two commits would free a share of the space.
    fn is_worth_publishing(&self) -> bool {
        let state = self.state();
        let bytes = state.publishable_bytes();
        #[cfg(test)]
        if self.test.publishes_always.load(std::sync::atomic::Ordering::Relaxed) {
            return bytes > 0;
        }
        bytes >= (state.version().flash_bytes() / PUBLISH_SHARE).max(PUBLISH_BYTES_MIN)
    }
}
