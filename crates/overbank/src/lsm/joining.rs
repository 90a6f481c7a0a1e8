//! Which frozen runs are being joined.

use std::collections::BTreeSet;

/// Frozen runs that are being joined, by id.
#[derive(Default, Debug)]
pub(super) struct Joining(BTreeSet<u64>);

impl Joining {
    pub(super) fn contains(&self, id: u64) -> bool {
        self.0.contains(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn begin(&mut self, ids: impl Iterator<Item = u64>) {
        self.0.extend(ids);
    }

    pub(super) fn end(&mut self, ids: &[u64]) {
        self.0.retain(|id| !ids.contains(id));
    }
}
