//! What the manifest and the files of a stored profile say.

use super::ProfilePlan;
use super::flash::Flash;
use super::format::{self, Inline};
use crate::Result;
use crate::error::missing;
use crate::sketch::SpaceSaving;
use crate::store::{FileRef, Store, registry};

/// What the manifest says of a profile.
pub(super) struct Saved {
    pub(super) inline: Inline,
    /// Distinct keys, counts, values, heavy keys.
    pub(super) files: [FileRef; 4],
}

impl Saved {
    pub(super) fn of(store: &Store, name: &str) -> Result<Self> {
        let entry = store.record(name).ok_or_else(|| missing("profile in this store", name))?;
        entry.require(name, registry::PROFILE)?;
        let [distinct, counts, values, heavy] = entry.record.files[..] else {
            return Err(format::corrupt(0, "number of files", 4, entry.record.files.len()));
        };
        let inline = Inline::from_bytes(&entry.record.state)?;
        Ok(Self { inline, files: [distinct, counts, values, heavy] })
    }

    /// How the profile divides its budget.
    pub(super) fn plan(&self, store: &Store, name: &str) -> Result<ProfilePlan> {
        let has_flash = Flash::is_in(store, name);
        let plan = if has_flash { ProfilePlan::with_flash } else { ProfilePlan::for_memory };
        plan(self.inline.memory_bytes)
    }
}

/// The bytes of all shards, each after its length.
pub(super) fn parts_bytes(shards: &[SpaceSaving]) -> usize {
    shards.iter().map(|shard| size_of::<u64>() + shard.encoded_bytes()).sum()
}

pub(super) fn write_parts(shards: &[SpaceSaving], sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    for shard in shards {
        sink(&(shard.encoded_bytes() as u64).to_le_bytes())?;
        shard.write_to(sink)?;
    }
    Ok(())
}

pub(super) fn read_parts(
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
