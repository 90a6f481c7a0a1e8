//! What the last record names, and which runs hold nothing else.

use super::Table;
use super::format::StoredTree;
use super::version::Version;
use std::collections::{BTreeMap, BTreeSet};

/// What the last record names.
#[derive(Debug)]
pub(crate) struct Durable<T: Table> {
    pub(super) tree: StoredTree<T::Class>,
    /// What the table noted of new entries then; `None` before the first commit.
    pub(super) writes: Option<T::Writes>,
    /// What a commit under way, or one that failed, would name.
    pub(super) prepared: Option<(StoredTree<T::Class>, T::Writes)>,
    /// Counts the commits that began.
    pub(super) round: u64,
    /// Of the runs that have some.
    pub(super) origins: BTreeMap<u64, BTreeSet<u64>>,
}

impl<T: Table> Durable<T> {
    /// Of a tree that no record names.
    pub(super) fn nothing() -> Self {
        let tree = StoredTree { memtables: 0, runs: Vec::new(), merges: Vec::new() };
        Durable { tree, writes: None, prepared: None, round: 0, origins: BTreeMap::new() }
    }

    /// The runs of the last record are their own origins. What a merge makes that is half done in it has those of its inputs too, once it
    /// is over; until then it needs none.
    pub(super) fn begin_origins(&mut self, version: &Version<T>) {
        self.origins.clear();
        for run in version.runs.iter().filter(|run| self.tree.runs.iter().any(|stored| stored.id == run.id)) {
            let mut origins = BTreeSet::from([run.id]);
            if let Some(merging) = self.tree.merges.iter().find(|merging| merging.output == run.id) {
                origins.extend(&merging.inputs);
            }
            self.origins.insert(run.id, origins);
        }
    }

    /// Notes that a merge is over.
    pub(super) fn note_merged(&mut self, inputs: &[u64], output: u64) {
        let origins = self.origins_of(inputs);
        inputs.iter().chain([&output]).for_each(|run| drop(self.origins.remove(run)));
        if let Some(mut origins) = origins {
            origins.insert(output);
            self.origins.insert(output, origins);
        }
    }

    /// Those of several runs together, if all have some.
    pub(super) fn origins_of(&self, runs: &[u64]) -> Option<BTreeSet<u64>> {
        let mut all = BTreeSet::new();
        for run in runs {
            all.extend(self.origins.get(run)?);
        }
        Some(all)
    }
}
