//! All runs of a moment. A version never changes: an [`Edit`] makes the next one, and whoever holds this one goes on with it.

use super::Table;
use super::run::{FrozenRun, Run, Span};

/// The runs that a reader sees.
#[derive(Debug)]
pub(crate) struct Version<T: Table> {
    /// In RAM, the oldest first.
    pub(crate) frozen: Vec<FrozenRun<T>>,
    /// RAM that they take.
    pub(crate) frozen_bytes: usize,
    /// On flash, the oldest first.
    pub(crate) runs: Vec<Run<T>>,
}

/// A change of a version.
#[derive(Debug)]
pub(crate) struct Edit<T: Table> {
    /// Runs that go, in RAM and on flash.
    pub(crate) removed: Vec<u64>,
    /// Runs that come.
    pub(crate) frozen: Option<FrozenRun<T>>,
    pub(crate) run: Option<Run<T>>,
}

impl<T: Table> Default for Edit<T> {
    fn default() -> Self {
        Edit { removed: Vec::new(), frozen: None, run: None }
    }
}

impl<T: Table> Version<T> {
    pub(crate) fn new(runs: Vec<Run<T>>) -> Self {
        Version { frozen: Vec::new(), frozen_bytes: 0, runs }
    }

    /// The version after an edit.
    pub(crate) fn edited(&self, edit: Edit<T>) -> Self {
        let stays = |id: &u64| !edit.removed.contains(id);
        let frozen = self.frozen.iter().filter(|one| stays(&one.id)).cloned().chain(edit.frozen);
        let runs = self.runs.iter().filter(|run| stays(&run.id)).cloned().chain(edit.run);
        let (mut frozen, mut runs): (Vec<_>, Vec<_>) = (frozen.collect(), runs.collect());
        frozen.sort_by_key(|one| one.span.newest);
        runs.sort_by_key(|run| run.span.newest);
        let frozen_bytes = frozen.iter().map(|one| one.size().memory_bytes).sum();
        Version { frozen, frozen_bytes, runs }
    }

    /// The ages of all runs but those of `ids`.
    pub(crate) fn other_spans(&self, ids: &[u64]) -> impl Iterator<Item = Span> {
        let frozen = self.frozen.iter().map(|one| (one.id, one.span));
        let all = frozen.chain(self.runs.iter().map(|run| (run.id, run.span)));
        all.filter(|(id, _)| !ids.contains(id)).map(|(_, span)| span)
    }

    /// The age of the runs of `ids` together.
    pub(crate) fn span_of(&self, ids: &[u64]) -> Option<Span> {
        let frozen = self.frozen.iter().filter(|one| ids.contains(&one.id)).map(|one| one.span);
        Span::joined(frozen.chain(self.runs.iter().filter(|run| ids.contains(&run.id)).map(|run| run.span)))
    }
}
