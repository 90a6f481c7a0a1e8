//! What snapshots hold, as long as somebody may ask them.

use super::table::GroupVersion;
use crate::lock::lock;
use std::sync::{Arc, Mutex, Weak};

/// All that somebody may still ask.
#[derive(Debug)]
pub(super) struct Held<T>(Mutex<Vec<Weak<T>>>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Held(Mutex::default())
    }
}

impl<T> Held<T> {
    /// Adds one.
    pub(super) fn push(&self, one: &Arc<T>) {
        let mut all = lock(&self.0);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(one));
    }

    /// Those that were not dropped.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}

/// A version of a moment, held until there is no room for the fences that nothing else needs, in memory, or for the files, on flash.
#[derive(Debug)]
pub(super) struct HeldVersion {
    version: Mutex<Option<Arc<GroupVersion>>>,
}

impl HeldVersion {
    pub(super) fn new(version: Arc<GroupVersion>) -> Arc<HeldVersion> {
        Arc::new(HeldVersion { version: Mutex::new(Some(version)) })
    }

    /// The version, unless it was lost.
    pub(super) fn version(&self) -> Option<Arc<GroupVersion>> {
        lock(&self.version).clone()
    }

    /// Gives the version up; whether it was there.
    pub(super) fn lose(&self) -> bool {
        lock(&self.version).take().is_some()
    }
}
