//! The manifest as its one writer has it: appends, the change to a new manifest, and the files that go away behind both.
//!
//! Whoever has the [`Journal`]'s lock is the commit, publish or verification under way; none of its methods takes another lock
//! than that of the register of files.
//!
//! Invariants:
//! 1. `log_bytes` is the length of the whole records in the manifest, all of them durable.
//! 2. The superblock is changed only after the manifest that it names is durable, name included.
//! 3. A file is removed only after the record that does not name it any more is durable.

use super::Core;
use super::catalog::Catalog;
use super::format::{self, FORMAT_VERSION, ManifestRecord, NamedFile, Superblock};
use super::{FileId, manifest};
use crate::device::block::BlockOwner;
use crate::device::{Access, BLOCK_BYTES, Device, DeviceFile};
use crate::{Error, Result};
use std::sync::Arc;

/// What the writer of the manifest knows.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) superblock: Superblock,
    pub(super) manifest: Arc<dyn DeviceFile>,
    pub(super) log_bytes: u64,
    pub(super) snapshot_bytes: u64,
    /// Files that nothing needs any more and that could not be removed yet.
    pub(super) dead: Vec<NamedFile>,
    pub(super) has_reserve: bool,
}

impl Core {
    /// Makes `edit` durable, on top of `catalog`.
    pub(super) fn write_record(
        &self,
        journal: &mut Journal,
        catalog: &Catalog,
        edit: &ManifestRecord,
    ) -> Result<()> {
        if journal.superblock.version < FORMAT_VERSION {
            // A build that reads only the old version is to refuse the store before it meets a record of this one.
            self.poison.watch(self.write_superblock(journal, journal.superblock.mark_bytes))?;
        }
        let limit_bytes = self.options.manifest_bytes.max(4 * journal.snapshot_bytes);
        if journal.log_bytes > limit_bytes && self.rotate(journal, catalog, edit)? {
            return Ok(());
        }
        self.append(journal, edit)
    }

    fn append(&self, journal: &mut Journal, edit: &ManifestRecord) -> Result<()> {
        let owner = self.files.owner(journal.superblock.manifest);
        let blocks = manifest::encode(edit, owner, journal.log_bytes);
        let mut written = journal.manifest.write(journal.log_bytes, &blocks);
        if matches!(written, Err(Error::Full { .. })) && self.release_reserve(journal)? {
            written = journal.manifest.write(journal.log_bytes, &blocks);
        }
        if let Err(full @ Error::Full { .. }) = written {
            // What did arrive must not stand where the next record of the same number goes.
            self.poison.watch(journal.manifest.set_len(journal.log_bytes))?;
            self.poison.watch(journal.manifest.sync())?;
            return Err(full);
        }
        self.poison.watch(written)?;
        self.poison.watch(journal.manifest.sync())?;
        journal.log_bytes += blocks.len() as u64;
        Ok(())
    }

    /// Writes the state after `edit` as the snapshot of a new manifest; false if the disk is too full for it.
    fn rotate(&self, journal: &mut Journal, catalog: &Catalog, edit: &ManifestRecord) -> Result<bool> {
        let mut catalog = catalog.clone();
        catalog.apply(edit.clone());
        let id = self.files.number();
        let mut superblock = Superblock {
            version: FORMAT_VERSION,
            generation: journal.superblock.generation + 1,
            epoch: journal.superblock.epoch + 1,
            manifest: id,
            ..journal.superblock
        };
        let owner = self.files.owner(id);
        let next_file = self.files.next_file();
        let (manifest, bytes) =
            match write_manifest(&*self.device, &catalog, superblock.epoch, next_file, owner) {
                Err(Error::Full { .. }) => {
                    // The append needs less space, and has the reserve.
                    journal.dead.push(NamedFile::Manifest(id));
                    self.remove_dead(journal);
                    return Ok(false);
                }
                written => self.poison.watch(written)?,
            };
        superblock.mark_bytes = bytes;
        self.files.note_new_name();
        self.poison.watch(self.files.sync_names())?;
        let file = self.poison.watch(self.device.open(format::SUPERBLOCK_NAME, Access::Write))?;
        self.poison.watch(superblock.write_pair(&*file))?;
        journal.dead.push(NamedFile::Manifest(journal.superblock.manifest));
        journal.superblock = superblock;
        journal.manifest = manifest;
        (journal.log_bytes, journal.snapshot_bytes) = (bytes, bytes);
        Ok(true)
    }

    /// Notes in the superblock how long the manifest is, unless it knows. For the end of a writer: a manifest that is shorter
    /// at the next open was cut.
    pub(super) fn mark(&self, journal: &mut Journal) -> Result<()> {
        if journal.log_bytes > journal.superblock.mark_bytes {
            self.write_superblock(journal, journal.log_bytes)?;
        }
        Ok(())
    }

    /// Writes the next generation of the superblock, with this mark.
    fn write_superblock(&self, journal: &mut Journal, mark_bytes: u64) -> Result<()> {
        let generation = journal.superblock.generation + 1;
        let superblock = Superblock { version: FORMAT_VERSION, generation, mark_bytes, ..journal.superblock };
        superblock.write_pair(&*self.device.open(format::SUPERBLOCK_NAME, Access::Write)?)?;
        journal.superblock = superblock;
        Ok(())
    }

    /// Removes what nothing needs. The commit is durable already, so what fails here is only put off.
    pub(super) fn remove_dead(&self, journal: &mut Journal) {
        if journal.dead.is_empty() {
            return;
        }
        journal.dead.retain(|&file| remove_file(&*self.device, file).is_err());
        if !journal.has_reserve {
            journal.has_reserve = self.keep_reserve();
        }
    }

    /// Gives the reserve's space back to the file system; false if there was none.
    fn release_reserve(&self, journal: &mut Journal) -> Result<bool> {
        if !std::mem::take(&mut journal.has_reserve) {
            return Ok(false);
        }
        self.poison.watch(self.device.remove(format::RESERVE_NAME))?;
        self.poison.watch(self.device.sync_directory())?;
        Ok(true)
    }

    /// Writes the reserve; without it the store works, only not on a full disk.
    pub(super) fn keep_reserve(&self) -> bool {
        let bytes = self.options.reserve_bytes.div_ceil(BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        let kept = write_reserve(&*self.device, bytes);
        if kept.is_err() {
            // Half a reserve helps nobody; whether this succeeds does not matter either.
            let _ = self.device.remove(format::RESERVE_NAME);
        }
        kept.is_ok()
    }
}

/// Writes and syncs a new manifest that holds `catalog` alone; its name is not yet durable.
pub(super) fn write_manifest(
    device: &dyn Device,
    catalog: &Catalog,
    epoch: u64,
    next_file: u64,
    owner: BlockOwner,
) -> Result<(Arc<dyn crate::device::DeviceFile>, u64)> {
    let file = device.create(&format::manifest_name(FileId(owner.file_id)))?;
    let blocks = manifest::encode(&catalog.snapshot(epoch, next_file), owner, 0);
    file.write(0, &blocks)?;
    file.sync()?;
    Ok((file, blocks.len() as u64))
}

/// Writes real bytes: a length alone would reserve nothing.
pub(super) fn write_reserve(device: &dyn Device, bytes: u64) -> Result<()> {
    let file = match device.open(format::RESERVE_NAME, Access::Write) {
        Err(Error::NotFound { .. }) => device.create(format::RESERVE_NAME)?,
        file => file?,
    };
    let zeros = vec![0; 64 << 10];
    let mut at = file.len_bytes()?.min(bytes);
    while at < bytes {
        let part = (bytes - at).min(zeros.len() as u64);
        file.write(at, &zeros[..part as usize])?;
        at += part;
    }
    file.sync()
}

pub(super) fn remove_file(device: &dyn Device, file: NamedFile) -> Result<()> {
    let name = match file {
        NamedFile::Manifest(id) => format::manifest_name(id),
        NamedFile::Data(id) => format::data_name(id),
    };
    match device.remove(&name) {
        Err(Error::NotFound { .. }) => Ok(()),
        result => result,
    }
}
