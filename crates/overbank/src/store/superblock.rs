//! The store's first file: which manifest is the current one, and how long it is at least.
//!
//! Invariants:
//! 1. A generation is written as a pair of equal slots, over the pair of the generation before the last. A power cut
//!    leaves the last generation whole; damage to one slot leaves its twin.
//! 2. A slot is always composed anew, never read, changed and sealed.
//! 3. A generation is written only after the manifest that it names is durable, name included.
//! 4. Its mark is a length of that manifest that was durable before. So no crash leaves a manifest shorter than the mark, and
//!    one that is shorter was cut, or put there from an older copy. The mark is written when a manifest is new and when a
//!    writer closes the store, never by a commit: what was committed after it is not vouched for.

use super::format::{
    FORMAT_VERSION, FORMAT_VERSION_LEAST, SUPERBLOCK_NAME, SUPERBLOCK_SLOTS, SUPERBLOCK_TAG, Superblock,
};
use crate::device::block::{self, BlockOwner, Seal};
use crate::device::{Access, BLOCK_BYTES, Device, DeviceFile};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

const PAIR_BYTES: usize = 2 * BLOCK_BYTES;
const SUPERBLOCK_BYTES: usize = SUPERBLOCK_SLOTS * BLOCK_BYTES;

impl Superblock {
    /// Fills all slots of a new file and syncs it.
    pub(super) fn write_all(&self, file: &dyn DeviceFile) -> Result<()> {
        let slots: Vec<u8> = (0..SUPERBLOCK_SLOTS as u64).flat_map(|slot| self.sealed(slot)).collect();
        file.write(0, &slots)?;
        file.sync()
    }

    /// Writes this generation's pair of slots and syncs.
    pub(super) fn write_pair(&self, file: &dyn DeviceFile) -> Result<()> {
        let first = self.generation % 2 * 2;
        let pair = [self.sealed(first), self.sealed(first + 1)].concat();
        debug_assert_eq!(pair.len(), PAIR_BYTES);
        file.write(first * BLOCK_BYTES as u64, &pair)?;
        file.sync()
    }

    /// Reads the slot with the highest generation among those whose seal holds.
    ///
    /// # Errors
    /// `NotAStore` without the file, `UnsupportedVersion`, or `Corrupt` if no slot holds.
    pub(super) fn read(device: &dyn Device) -> Result<Superblock> {
        let path = &device.path().join(SUPERBLOCK_NAME);
        let slots = read_slots(device)?;
        let mut newest: Option<Superblock> = None;
        let mut failure = None;
        for (number, slot) in slots.chunks_exact(BLOCK_BYTES).enumerate() {
            let at = (number * BLOCK_BYTES) as u64;
            match slot_seal(slot, number as u64, path).and_then(|_| Superblock::decode(slot, path, at)) {
                Ok(found) if newest.is_none_or(|n| n.generation < found.generation) => newest = Some(found),
                Ok(_) => {}
                Err(error @ Error::UnsupportedVersion { .. }) => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        newest.ok_or_else(|| foreign(device, &slots).or(failure).unwrap_or_else(|| short(device.path(), 0)))
    }

    /// What the seal of a block of its manifest must cover.
    pub(super) fn manifest_owner(&self) -> BlockOwner {
        BlockOwner { store_id: self.store_id, file_id: self.manifest.0 }
    }

    /// Verifies every slot; calls `damaged(offset, error)` for those that fail.
    pub(super) fn verify(device: &dyn Device, damaged: &mut dyn FnMut(u64, Error)) -> Result<u64> {
        let path = &device.path().join(SUPERBLOCK_NAME);
        for (number, slot) in read_slots(device)?.chunks_exact(BLOCK_BYTES).enumerate() {
            if let Err(error) = slot_seal(slot, number as u64, path) {
                damaged((number * BLOCK_BYTES) as u64, error);
            }
        }
        Ok(SUPERBLOCK_SLOTS as u64)
    }

    fn sealed(&self, slot: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        self.encode(&mut bytes);
        block::seal(
            &mut bytes,
            owner(self.store_id),
            slot,
            Seal { tag: SUPERBLOCK_TAG, sequence: self.generation },
        );
        bytes
    }
}

fn owner(store_id: u128) -> BlockOwner {
    BlockOwner { store_id, file_id: 0 }
}

fn read_slots(device: &dyn Device) -> Result<Vec<u8>> {
    let not_a_store = |why: String| Error::NotAStore { path: device.path(), why };
    let file = match device.open(SUPERBLOCK_NAME, Access::Read) {
        Err(Error::NotFound { .. }) => {
            return Err(not_a_store(format!("it has no file {SUPERBLOCK_NAME:?}")));
        }
        file => file?,
    };
    let bytes = file.len_bytes()?;
    if bytes < SUPERBLOCK_BYTES as u64 {
        return Err(short(device.path().join(SUPERBLOCK_NAME), bytes));
    }
    let mut slots = vec![0; SUPERBLOCK_BYTES];
    file.read(0, &mut slots)?;
    Ok(slots)
}

fn slot_seal(slot: &[u8], number: u64, path: &Path) -> Result<Seal> {
    let owner = owner(Superblock::claimed_store_id(slot));
    let seal = block::check(slot, owner, number, path)?;
    if seal.tag != SUPERBLOCK_TAG {
        return Err(Error::Corrupt {
            path: path.to_path_buf(),
            at: number * BLOCK_BYTES as u64,
            what: "block tag",
            expected: format!("{SUPERBLOCK_TAG:#010x}"),
            found: format!("{:#010x}", seal.tag),
        });
    }
    Ok(seal)
}

/// No slot holds: if all agree on another version, it may seal in another way; if none starts like ours, it is
/// somebody else's file.
fn foreign(device: &dyn Device, slots: &[u8]) -> Option<Error> {
    let claims: Vec<Option<u32>> = slots.chunks_exact(BLOCK_BYTES).map(Superblock::claimed_version).collect();
    let first = *claims.first()?;
    if claims.iter().any(|claim| *claim != first) {
        return None;
    }
    match first {
        None => {
            Some(Error::NotAStore { path: device.path(), why: format!("{SUPERBLOCK_NAME:?} is not ours") })
        }
        Some(FORMAT_VERSION_LEAST..=FORMAT_VERSION) => None,
        Some(found) => Some(Error::UnsupportedVersion {
            what: device.path().display().to_string(),
            found,
            supported: FORMAT_VERSION,
        }),
    }
}

fn short(path: PathBuf, bytes: u64) -> Error {
    Error::Corrupt {
        path,
        at: bytes,
        what: "superblock bytes",
        expected: SUPERBLOCK_BYTES.to_string(),
        found: bytes.to_string(),
    }
}
