//! What the last commit says: the position and every summary's record.
//!
//! Invariant: it changes only by applying a record that is durable.

use super::format::{self, ManifestRecord, Stored};
use super::{Entry, FileRef, Files};
use crate::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The committed state of a store. A clone shares the records.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Catalog {
    pub(super) commit: u64,
    pub(super) time_ns: u64,
    pub(super) position: Vec<u8>,
    pub(super) summaries: BTreeMap<String, Arc<Stored>>,
}

impl Catalog {
    /// The state after `records`, a snapshot and the edits behind it.
    pub(super) fn replay(records: Vec<ManifestRecord>) -> Self {
        let mut catalog = Catalog::default();
        for record in records {
            catalog.apply(record);
        }
        catalog
    }

    pub(super) fn apply(&mut self, record: ManifestRecord) {
        if record.is_snapshot {
            self.summaries.clear();
        }
        (self.commit, self.time_ns, self.position) = (record.commit, record.time_ns, record.position);
        for name in &record.removed {
            self.summaries.remove(name);
        }
        self.summaries.extend(record.changed);
    }

    /// The record that holds all of it.
    pub(super) fn snapshot(&self, epoch: u64, next_file: u64) -> ManifestRecord {
        ManifestRecord {
            is_snapshot: true,
            epoch,
            commit: self.commit,
            time_ns: self.time_ns,
            next_file,
            position: self.position.clone(),
            removed: Vec::new(),
            changed: self.summaries.clone(),
        }
    }

    /// All files that it needs.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.summaries.values().flat_map(|stored| stored.files())
    }

    /// Reads the records that are blobs of their own.
    ///
    /// # Errors
    /// `Corrupt` if one is missing or damaged.
    pub(super) fn load_spilled(&mut self, files: &Files) -> Result<()> {
        for stored in self.summaries.values_mut() {
            if let Some(spill) = stored.spill {
                let record = files.read_blob_with(&spill, format::read_record)?;
                let entry = Entry { structure: stored.entry.structure, record };
                *stored = Arc::new(Stored { entry, spill: Some(spill) });
            }
        }
        Ok(())
    }
}
