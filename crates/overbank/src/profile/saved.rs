//! A profile in a store: what a commit writes, and how it comes back.

use super::flash::Flash;
use super::format::{self, Inline};
use super::{Plan, Profile, SHARDS};
use crate::Result;
use crate::error::missing;
use crate::lock::lock;
use crate::sketch::{CountMin, DdSketch, HyperLogLog, SpaceSaving};
use crate::store::{FileRef, Files, Participant, Prepared, Record, Store, Structure, lock_whole, registry};
use std::sync::{Arc, Mutex};

/// The name that a profile has in its store.
pub(super) const NAME: &str = "profile";

impl Profile {
    /// Makes this profile a part of `store`'s commits, and takes its memory from the store's budget: the sketches at
    /// least, the whole plan if it is free.
    ///
    /// # Errors
    /// `AlreadyExists` if the store has a profile attached; `BudgetExceeded`.
    pub fn attach(mut self, store: &Store) -> Result<Arc<Mutex<Self>>> {
        let plan_bytes = usize::try_from(self.plan.memory_bytes).unwrap_or(usize::MAX);
        // The sketch on flash has taken its part itself.
        let wanted_bytes = plan_bytes - self.plan.flash_memory_bytes;
        self.reservation =
            Some(store.budget().reserve("the profile", wanted_bytes, self.allocated_bytes())?);
        self.files = Some(store.files().clone());
        let shared = Arc::new(Mutex::new(self));
        store.attach(NAME, Arc::clone(&shared) as Arc<dyn Participant>)?;
        Ok(shared)
    }

    /// Whether `store` holds a profile.
    pub fn is_in(store: &Store) -> bool {
        store.record(NAME).is_some()
    }

    /// The profile of `store` at its last commit.
    ///
    /// # Errors
    /// As [`Store::frequency`]; [`Error::NotFound`] if there is none; [`Error::Corrupt`]; [`Error::UnsupportedVersion`];
    /// [`Error::Incompatible`] if a sketch was made under another seed than the store's.
    pub fn load(store: &Store) -> Result<Self> {
        Self::load_for(store, 1)
    }

    /// As [`Profile::load`], to be updated by as many threads.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn load_for(store: &Store, threads: usize) -> Result<Self> {
        let saved = Saved::of(store)?;
        let plan = saved.plan(store)?;
        let Saved { inline, files: [distinct, counts, values, heavy] } = saved;
        let files = store.files();
        let heavy = files.read_blob_with(&heavy, read_parts)?;
        let open = || Flash::open(store, plan.flash_writers(threads));
        let flash = Flash::is_in(store).then(open).transpose()?;
        let profile = Self {
            plan,
            totals: inline.totals,
            distinct: HyperLogLog::from_bytes(&files.read_blob(&distinct)?)?,
            counts: files.read_blob_with(&counts, CountMin::read_from)?,
            heavy,
            values: files.read_blob_with(&values, DdSketch::read_from)?,
            flash,
            prepared: None,
            committed: Some(inline.totals),
            files: None,
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

/// What the manifest says of a profile.
pub(super) struct Saved {
    pub(super) inline: Inline,
    /// Distinct keys, counts, values, heavy keys.
    pub(super) files: [FileRef; 4],
}

impl Saved {
    pub(super) fn of(store: &Store) -> Result<Self> {
        let entry = store.record(NAME).ok_or_else(|| missing("profile in this store", NAME))?;
        entry.require(NAME, registry::PROFILE)?;
        let [distinct, counts, values, heavy] = entry.record.files[..] else {
            return Err(format::corrupt(0, "number of files", 4, entry.record.files.len()));
        };
        let inline = Inline::from_bytes(&entry.record.state)?;
        Ok(Self { inline, files: [distinct, counts, values, heavy] })
    }

    /// How the profile divides its budget.
    pub(super) fn plan(&self, store: &Store) -> Result<Plan> {
        let plan = if Flash::is_in(store) { Plan::with_flash } else { Plan::for_memory };
        plan(self.inline.memory_bytes)
    }
}

impl Participant for Mutex<Profile> {
    fn structure(&self) -> Structure {
        registry::PROFILE.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let mut profile = lock_whole(self)?;
        match profile.files.clone() {
            Some(files) => profile.prepare(&files),
            None => Ok(Prepared::Unchanged),
        }
    }

    fn committed(&self) {
        let mut profile = lock(self);
        profile.committed = profile.prepared.take();
    }

    fn is_changed(&self) -> bool {
        let profile = lock(self);
        profile.committed != Some(profile.totals)
    }
}

impl Profile {
    fn prepare(&mut self, files: &Files) -> Result<Prepared> {
        if self.committed == Some(self.totals) {
            return Ok(Prepared::Unchanged);
        }
        if let Some(flash) = &self.flash {
            flash.check()?;
        }
        let inline = Inline { totals: self.totals, memory_bytes: self.plan.memory_bytes };
        // The large sketches are streamed, so that no second copy of them is in memory.
        let parts = vec![
            files.write_blob(&self.distinct.to_bytes())?,
            files.write_blob_with(self.counts.encoded_bytes(), |sink| self.counts.write_to(sink))?,
            files.write_blob_with(self.values.encoded_bytes(), |sink| self.values.write_to(sink))?,
            files.write_blob_with(parts_bytes(&self.heavy), |sink| write_parts(&self.heavy, sink))?,
        ];
        self.prepared = Some(self.totals);
        Ok(Prepared::Changed(Record { state: inline.to_bytes(), files: parts }))
    }
}

/// The bytes of all shards, each after its length.
fn parts_bytes(shards: &[SpaceSaving]) -> usize {
    shards.iter().map(|shard| size_of::<u64>() + shard.encoded_bytes()).sum()
}

fn write_parts(shards: &[SpaceSaving], sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    for shard in shards {
        sink(&(shard.encoded_bytes() as u64).to_le_bytes())?;
        shard.write_to(sink)?;
    }
    Ok(())
}

fn read_parts(
    total_bytes: usize,
    source: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<Vec<SpaceSaving>> {
    let mut shards = Vec::new();
    each_part(total_bytes, source, &mut |part| {
        shards.push(part);
        Ok(())
    })?;
    Ok(shards)
}

/// Reads the parts of all shards one by one.
pub(super) fn each_part(
    total_bytes: usize,
    source: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    each: &mut dyn FnMut(SpaceSaving) -> Result<()>,
) -> Result<()> {
    let mut left = total_bytes;
    while left > 0 {
        let mut length = [0; size_of::<u64>()];
        let at = total_bytes - left;
        left = left
            .checked_sub(length.len())
            .ok_or_else(|| format::corrupt(at, "the bytes behind the last part", 0, left))?;
        source(&mut length)?;
        let length = u64::from_le_bytes(length);
        let part = usize::try_from(length).ok().filter(|&part| part <= left);
        let part =
            part.ok_or_else(|| format::corrupt(at, "length of a part", format!("at most {left}"), length))?;
        each(SpaceSaving::read_from(part, source)?)?;
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::HashId;
    use crate::{HashKind, KeyHasher, Seed};
    use proptest::prelude::*;

    fn read(mut bytes: &[u8]) -> Result<Vec<SpaceSaving>> {
        read_parts(bytes.len(), &mut |into| {
            let (part, rest) = bytes.split_at(into.len());
            into.copy_from_slice(part);
            bytes = rest;
            Ok(())
        })
    }

    proptest! {
        #[test]
        fn parts_come_back_and_damage_never_panics(capacities in proptest::collection::vec(1usize..9, 0..4), at: prop::sample::Index, bit in 0u32..8) {
            let hash_id = HashId::from(KeyHasher::new(HashKind::Xxh3, Seed(1)));
            let shards: Vec<_> = capacities.iter().map(|&capacity| SpaceSaving::new(capacity, 3, hash_id).unwrap()).collect();
            let mut bytes = Vec::new();
            write_parts(&shards, &mut |piece| { bytes.extend_from_slice(piece); Ok(()) }).unwrap();
            prop_assert_eq!(bytes.len(), parts_bytes(&shards));
            let back: Vec<_> = read(&bytes).unwrap().iter().map(SpaceSaving::to_bytes).collect();
            prop_assert_eq!(back, shards.iter().map(SpaceSaving::to_bytes).collect::<Vec<_>>());
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                prop_assert!(read(&bytes).is_err());
            }
        }
    }
}
