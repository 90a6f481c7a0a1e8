//! All runs of a moment. A version never changes: an [`Edit`] makes the next one, and whoever holds this one goes on with it.
//!
//! ```text
//!   a merge under way    result  ├── pieces ──┤ border
//!                        input               ·├───── pieces ─────┤     · pieces wholly below the border are gone, one that it cuts
//!                        input               ├── pieces ─────────┤       is asked from the border on
//! ```
//!
//! 1. Below a merge's border its result is visible, from it on its inputs are: each entry is seen exactly once, and answers are the same
//!    wherever the border stands.

use super::Table;
use super::run::{FrozenRun, Run, Size, Span};
use crate::store::FileId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The runs that a reader sees.
#[derive(Debug)]
pub(crate) struct Version<T: Table> {
    /// In RAM, the oldest first.
    pub(crate) frozen: Vec<FrozenRun<T>>,
    /// RAM that they take.
    pub(crate) frozen_bytes: usize,
    /// On flash, the oldest first.
    pub(crate) runs: Vec<Run<T>>,
    /// Merges that have published a part of their result.
    pub(crate) merges: Vec<Merging>,
}

/// A merge that has published a part of its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Merging {
    /// Runs by id.
    pub(crate) inputs: Vec<u64>,
    pub(crate) output: u64,
    /// The first hash that the inputs still have.
    pub(crate) border: u64,
}

/// A change of a version.
#[derive(Debug)]
pub(crate) struct Edit<T: Table> {
    /// Runs that go, in RAM and on flash.
    pub(crate) removed: Vec<u64>,
    /// Runs that come. One on flash takes the place of that with its id.
    pub(crate) frozen: Option<FrozenRun<T>>,
    pub(crate) run: Option<Run<T>>,
    /// A merge that came to this border.
    pub(crate) merging: Option<Merging>,
}

impl<T: Table> Default for Version<T> {
    fn default() -> Self {
        Version::new(Vec::new(), Vec::new())
    }
}

impl<T: Table> Default for Edit<T> {
    fn default() -> Self {
        Edit { removed: Vec::new(), frozen: None, run: None, merging: None }
    }
}

impl Merging {
    /// Whether a run is its result or goes into it.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.output == id || self.inputs.contains(&id)
    }
}

impl<T: Table> Version<T> {
    pub(crate) fn new(runs: Vec<Run<T>>, merges: Vec<Merging>) -> Self {
        Version { frozen: Vec::new(), frozen_bytes: 0, runs, merges }
    }

    /// The version after an edit.
    pub(crate) fn edited(&self, edit: Edit<T>) -> Self {
        let Edit { removed, frozen, run, merging } = edit;
        let new_run = run.as_ref().map(|run| run.id);
        let stays = |id: u64| !removed.contains(&id) && Some(id) != new_run;
        let frozen = self.frozen.iter().filter(|one| stays(one.id)).cloned().chain(frozen);
        let runs = self.runs.iter().filter(|run| stays(run.id)).cloned().chain(run);
        let (mut frozen, mut runs): (Vec<_>, Vec<_>) = (frozen.collect(), runs.collect());
        let mut merges = self.merges.clone();
        merges.retain(|one| !removed.iter().any(|&id| one.has(id)));
        if let Some(merging) = merging {
            let inputs = runs.iter_mut().filter(|run| merging.inputs.contains(&run.id));
            inputs.for_each(|run| run.cut(merging.border));
            merges.retain(|one| one.output != merging.output);
            merges.push(merging);
        }
        frozen.sort_by_key(|one| one.span.newest);
        runs.sort_by_key(|run| run.span.newest);
        let frozen_bytes = frozen.iter().map(|one| one.size().memory_bytes).sum();
        Version { frozen, frozen_bytes, runs, merges }
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

    /// Whether a merge that has published a part of its result reads or makes a run.
    pub(crate) fn is_merging(&self, id: u64) -> bool {
        self.merges.iter().any(|merging| merging.has(id))
    }

    /// Entries of each run as they are counted: where a merge has published a part of its result, those of its inputs, as if it had not
    /// begun. What it makes of them is known when it ends.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&Run<T>, Size)> {
        let is_counted = |run: &&Run<T>| !self.merges.iter().any(|merging| merging.output == run.id);
        self.runs.iter().filter(is_counted).map(|run| (run, run.size() + run.replaced))
    }

    /// The pieces of a run on flash, none if there is no such run.
    pub(super) fn pieces_of(&self, id: Option<u64>) -> Vec<Arc<T::Segment>> {
        let run = self.runs.iter().find(|run| Some(run.id) == id);
        run.map(|run| run.pieces.clone()).unwrap_or_default()
    }

    /// Bytes on flash.
    pub(crate) fn flash_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.size().bytes).sum()
    }

    /// The files of all runs.
    pub(super) fn files(&self) -> BTreeSet<FileId> {
        self.runs.iter().flat_map(|run| &run.pieces).map(|piece| T::file_ref(piece).id).collect()
    }
}

impl<T: Table> Run<T> {
    /// Leaves what stands at or above a hash.
    pub(super) fn cut(&mut self, border: u64) {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            match T::clip(piece, border) {
                Some(rest) => pieces.push(rest),
                // Its bytes are given back, its entries are counted until the merge ends.
                None => {
                    let Size { entries, tombstones, occurrences, .. } = T::segment_size(piece);
                    let gone = Size { entries, tombstones, occurrences, ..Size::default() };
                    self.replaced = self.replaced + gone;
                }
            }
        }
        self.pieces = pieces;
    }

    /// Bytes of the longest piece: so much of it may be read and still take space.
    pub(super) fn longest_piece_bytes(&self) -> u64 {
        let bytes = |piece: &Arc<T::Segment>| T::file_ref(piece).bytes;
        self.pieces.iter().map(bytes).max().unwrap_or(0)
    }
}
