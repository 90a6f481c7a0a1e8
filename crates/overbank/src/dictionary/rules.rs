//! What all threads of a dictionary know of its items: how keys are hashed, what items of one key come to, and who counts such.

use super::item::ItemHasher;
use super::operator::MergeOperator;
use crate::lock::lock;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) hasher: ItemHasher,
    pub(super) operator: Option<MergeOperator>,
    /// Keys that came twice, while somebody counts them.
    repeats: Arc<Mutex<Option<Repeats>>>,
    /// Held by whoever sorts for a reader: one at a time has the room for it.
    pub(super) sorting: Arc<Mutex<()>>,
}

/// A key that was written twice while somebody counted that.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    pub(super) count: u64,
    pub(super) example: Option<Vec<u8>>,
}

impl Rules {
    pub(super) fn new(hasher: ItemHasher, operator: Option<MergeOperator>) -> Self {
        Rules { hasher, operator, repeats: Arc::default(), sorting: Arc::default() }
    }

    /// Counts keys that come twice from now on.
    pub(super) fn count_repeats(&self) {
        *lock(&self.repeats) = Some(Repeats::default());
    }

    /// What was counted, no more of it.
    pub(super) fn take_repeats(&self) -> Option<Repeats> {
        lock(&self.repeats).take()
    }

    /// An empty count, if somebody counts.
    pub(super) fn begin_repeats(&self) -> Option<Repeats> {
        lock(&self.repeats).as_ref().map(|_| Repeats::default())
    }

    /// Adds what was counted since [`Rules::begin_repeats`].
    pub(super) fn add_repeats(&self, found: Option<Repeats>) {
        if let (Some(found), Some(repeats)) = (found, lock(&self.repeats).as_mut()) {
            repeats.count += found.count;
            repeats.example = repeats.example.take().or(found.example);
        }
    }
}

impl Repeats {
    pub(super) fn note(&mut self, key: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| key.to_vec());
    }
}
