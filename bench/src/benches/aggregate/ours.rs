//! Ours: groups in compressed memory; and in less of it, the rest on flash.

use super::job::Counter;
use crate::Result;
use overbank::aggregate::{Count, Groups, GroupsOptions};
use overbank::store::{Store, StoreOptions};
use std::path::Path;

pub(super) struct OfGroups {
    groups: Groups<Count>,
    /// Where they go when memory is full, if anywhere.
    _scratch: Option<Store>,
}

impl OfGroups {
    pub(super) fn new(memory_bytes: usize, threads: usize) -> Result<Self> {
        let options = GroupsOptions::new().memory_bytes(memory_bytes).threads(threads);
        Ok(Self { groups: Groups::new(Count, options)?, _scratch: None })
    }

    /// Groups that go to files in `folder`.
    pub(super) fn spilling(memory_bytes: usize, folder: &Path) -> Result<Self> {
        let place = folder.join("scratch");
        if place.exists() {
            std::fs::remove_dir_all(&place)?;
        }
        let scratch = Store::open_or_create(place, StoreOptions::new())?;
        let options = GroupsOptions::new().memory_bytes(memory_bytes).threads(1);
        Ok(Self { groups: Groups::spilling(Count, options, &scratch)?, _scratch: Some(scratch) })
    }
}

impl Counter for OfGroups {
    fn insert(&self, keys: &[&[u8]]) -> Result<()> {
        Ok(self.groups.insert_many(keys, &[])?)
    }

    fn finalize(&self) -> Result<()> {
        Ok(self.groups.finalize()?)
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) -> Result<()> {
        let mut scan = self.groups.scan()?;
        while let Some(group) = scan.next_group()? {
            visit(&group.key, group.words[0]);
        }
        Ok(())
    }
}
