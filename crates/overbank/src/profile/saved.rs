//! A profile in a store: what a commit writes, and how it comes back.

use super::format::{self, Inline};
use super::{Plan, Profile, SHARDS};
use crate::sketch::{CountMin, DdSketch, HyperLogLog, SpaceSaving};
use crate::store::{CommitId, Files, Participant, Prepared, Record, Store, Structure};
use crate::{Error, Result};
use std::sync::{Arc, Mutex};

/// The name that a profile has in its store.
pub(super) const NAME: &str = "profile";
/// Profiles own this number among the structures of a store.
const STRUCTURE: Structure = Structure { id: 16, version: format::VERSION };

impl Profile {
    /// Makes this profile a part of `store`'s commits, and takes its memory from the store's budget: the sketches at
    /// least, the whole plan if it is free.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if the store has a profile attached; [`Error::BudgetExceeded`].
    pub fn attach(mut self, store: &Store) -> Result<Arc<Mutex<Self>>> {
        let wanted_bytes = usize::try_from(self.plan.memory_bytes).unwrap_or(usize::MAX);
        self.reservation =
            Some(store.budget().reserve("the profile", wanted_bytes, self.allocated_bytes())?);
        let shared = Arc::new(Mutex::new(self));
        store.attach(NAME, Arc::clone(&shared) as Arc<Mutex<dyn Participant>>)?;
        Ok(shared)
    }

    /// Whether `store` holds a profile.
    pub fn is_in(store: &Store) -> bool {
        store.record(NAME).is_some()
    }

    /// The profile of `store` at its last commit.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none; [`Error::Corrupt`]; [`Error::UnsupportedVersion`]; [`Error::Incompatible`] if a
    /// sketch was made under another seed than the store's.
    pub fn load(store: &Store) -> Result<Self> {
        let entry = store
            .record(NAME)
            .ok_or_else(|| Error::NotFound { what: "profile in this store", name: NAME.to_owned() })?;
        if entry.structure.version != STRUCTURE.version {
            return Err(Error::UnsupportedVersion {
                what: "the profile".to_owned(),
                found: entry.structure.version.into(),
                supported: STRUCTURE.version.into(),
            });
        }
        if entry.structure.id != STRUCTURE.id {
            return Err(format::corrupt(0, "structure number", STRUCTURE.id, entry.structure.id));
        }
        let [distinct, counts, values, heavy] = entry.record.files[..] else {
            return Err(format::corrupt(0, "number of files", 4, entry.record.files.len()));
        };
        let inline = Inline::from_bytes(&entry.record.state)?;
        let files = store.files();
        let heavy_bytes = files.read_blob(&heavy)?;
        let heavy: Vec<SpaceSaving> =
            format::split(&heavy_bytes)?.into_iter().map(SpaceSaving::from_bytes).collect::<Result<_>>()?;
        drop(heavy_bytes);
        let profile = Self {
            plan: Plan::for_memory(inline.memory_bytes)?,
            totals: inline.totals,
            distinct: HyperLogLog::from_bytes(&files.read_blob(&distinct)?)?,
            counts: CountMin::from_bytes(&files.read_blob(&counts)?)?,
            heavy,
            values: DdSketch::from_bytes(&files.read_blob(&values)?)?,
            prepared: None,
            committed: Some(inline.totals),
            reservation: None,
        };
        profile.validate(store)?;
        Ok(profile)
    }

    /// What `update` relies on: as many shards as there are ranges, all under the store's hash.
    fn validate(&self, store: &Store) -> Result<()> {
        if self.heavy.len() != SHARDS {
            return Err(format::corrupt(0, "number of shards", SHARDS, self.heavy.len()));
        }
        if !self.counts.layout().pages().is_multiple_of(SHARDS as u64) {
            return Err(format::corrupt(
                0,
                "count-min pages",
                "a multiple of 32",
                self.counts.layout().pages(),
            ));
        }
        let ours = crate::sketch::HashId::from(store.hasher());
        let theirs = self
            .heavy
            .iter()
            .map(SpaceSaving::hash_id)
            .chain([self.distinct.hash_id(), self.counts.hash_id()]);
        for hash_id in theirs {
            ours.require(hash_id)?;
        }
        Ok(())
    }
}

impl Participant for Profile {
    fn structure(&self) -> Structure {
        STRUCTURE
    }

    fn prepare(&mut self, files: &Files, _: CommitId) -> Result<Prepared> {
        if self.committed == Some(self.totals) {
            return Ok(Prepared::Unchanged);
        }
        let inline = Inline { totals: self.totals, memory_bytes: self.plan.memory_bytes };
        // One sketch at a time, so that the bytes of only one are in memory beside it.
        let parts = vec![
            files.write_blob(&self.distinct.to_bytes())?,
            files.write_blob(&self.counts.to_bytes())?,
            files.write_blob(&self.values.to_bytes())?,
            files.write_blob(&format::join(self.heavy.iter().map(SpaceSaving::to_bytes)))?,
        ];
        self.prepared = Some(self.totals);
        Ok(Prepared::Changed(Record { state: inline.to_bytes(), files: parts }))
    }

    fn committed(&mut self, _: CommitId) {
        self.committed = self.prepared.take();
    }
}
