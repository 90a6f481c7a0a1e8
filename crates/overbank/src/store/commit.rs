//! One commit: everybody prepares, one record makes it so, and what is dead goes away.
//!
//! ```text
//!   prepare all ─▶ sync directory ─▶ append record, sync ──────────────────────────────▶ committed ─▶ remove dead files
//!                                └▶ log too long: new manifest, sync, sync directory,
//!                                   superblock pair, sync (the commit point) ──────────▶
//! ```
//!
//! A full disk: up to the record, the commit is called off and its new files are taken back. At the record, the reserve is
//! given back and the append tried once more; if that fails too, the half-written record is cut off. So a commit that
//! only removes works on a full disk, and its removals pay for a new reserve.

use super::catalog::Catalog;
use super::format::{self, ManifestRecord, NamedFile, POSITION_BYTES_MAX, STATE_BYTES_MAX, Superblock};
use super::{CommitId, Entry, FileId, Files, Participant, Prepared, Record, State, Store, manifest};
use crate::device::block::BlockOwner;
use crate::device::{Access, BLOCK_BYTES, Device};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

impl Store {
    /// Makes all attached summaries and the source's `position` (at most 64 KiB) durable in one atomic step.
    ///
    /// It locks all attached summaries, by name, until it is done: the commit is one cut through all of them. Do not
    /// call it while holding one of these locks.
    ///
    /// # Cost
    /// Nothing if no summary and not the position changed. Else the summaries' own writes and syncs, one write and one
    /// sync of the manifest, and one sync of the directory if there are new files.
    ///
    /// # Errors
    /// `Full`, `BudgetExceeded` and `InvalidOption` leave the store usable and the last commit in place; any other error
    /// poisons the store, and reopening it shows whether this commit arrived.
    pub fn commit(&self, position: &[u8]) -> Result<CommitId> {
        self.writable()?;
        if position.len() > POSITION_BYTES_MAX {
            let (name, value) = ("position", format!("{} bytes", position.len()));
            return Err(Error::InvalidOption {
                name,
                value,
                why: format!("it has at most {POSITION_BYTES_MAX}"),
            });
        }
        let mut state = self.state();
        let files = self.files.scoped();
        let result = self.commit_all(&mut state, &files, position);
        if let Err(error) = &result {
            if !is_recoverable(error) {
                self.poison.set(error.to_string());
            }
            // After a failed sync the record may be durable all the same, and it names these files.
            if self.poison.check().is_ok() {
                files.roll_back();
            }
        }
        result
    }

    fn commit_all(&self, state: &mut State, files: &Files, position: &[u8]) -> Result<CommitId> {
        let commit = CommitId(state.catalog.commit + 1);
        let participants: Vec<(String, Arc<Mutex<dyn Participant>>)> =
            state.participants.iter().map(|(name, p)| (name.clone(), Arc::clone(p))).collect();
        let mut guards: Vec<_> = participants
            .iter()
            .map(|(name, p)| p.lock().map(|guard| (name, guard)).map_err(|_| self.panicked(name)))
            .collect::<Result<_>>()?;
        let mut changed = BTreeMap::new();
        for (name, participant) in &mut guards {
            let prepared = participant.prepare(files, commit)?;
            let stored = state.catalog.summaries.get(*name).filter(|_| !state.removed.contains(*name));
            if let Prepared::Changed(record) = prepared {
                check_record(name, &record, stored.map(|entry| &entry.record), files)?;
                changed.insert((*name).clone(), Entry { structure: participant.structure(), record });
            } else if stored.is_none() {
                let why = "a summary that was never committed cannot be unchanged".to_owned();
                return Err(Error::InvalidOption { name: "record", value: format!("{name:?}"), why });
            }
        }
        // A job that failed in the background may have left its summary half-done.
        self.poison.check()?;
        let nothing_new =
            changed.is_empty() && state.removed.is_empty() && state.catalog.position == position;
        if nothing_new && state.catalog.commit > 0 {
            return Ok(CommitId(state.catalog.commit));
        }
        let changed_names: BTreeSet<String> = changed.keys().cloned().collect();
        let edit = ManifestRecord {
            is_snapshot: false,
            epoch: state.superblock.epoch,
            commit: commit.0,
            time_ns: self.device.now_ns(),
            next_file: files.next_file(),
            position: position.to_vec(),
            removed: state.removed.iter().cloned().collect(),
            changed,
        };
        self.poison.watch(files.sync_names())?;
        self.write_record(state, edit)?;
        state.removed.clear();
        for (name, participant) in &mut guards {
            if changed_names.contains(*name) {
                participant.committed(commit);
            }
        }
        Ok(commit)
    }

    /// Makes `edit` durable, then the state, then the directory, agree with it.
    fn write_record(&self, state: &mut State, edit: ManifestRecord) -> Result<()> {
        let before: BTreeSet<FileId> = state.catalog.files().map(|file| file.id).collect();
        let limit_bytes = self.options.manifest_bytes.max(4 * state.snapshot_bytes);
        let rotated = state.log_bytes > limit_bytes && self.rotate(state, &edit)?;
        if !rotated {
            self.append(state, &edit)?;
            state.catalog.apply(edit);
        }
        let after: BTreeSet<FileId> = state.catalog.files().map(|file| file.id).collect();
        self.files.mark_committed(after.iter().copied());
        state.dead.extend(before.difference(&after).map(|&id| NamedFile::Data(id)));
        self.remove_dead(state);
        Ok(())
    }

    fn append(&self, state: &mut State, edit: &ManifestRecord) -> Result<()> {
        let owner = self.files.owner(state.superblock.manifest);
        let blocks = manifest::encode(edit, owner, state.log_bytes);
        let mut written = state.manifest.write(state.log_bytes, &blocks);
        if matches!(written, Err(Error::Full { .. })) && self.release_reserve(state)? {
            written = state.manifest.write(state.log_bytes, &blocks);
        }
        if let Err(full @ Error::Full { .. }) = written {
            // What did arrive must not stand where the next record of the same number goes.
            self.poison.watch(state.manifest.set_len(state.log_bytes))?;
            self.poison.watch(state.manifest.sync())?;
            return Err(full);
        }
        self.poison.watch(written)?;
        self.poison.watch(state.manifest.sync())?;
        state.log_bytes += blocks.len() as u64;
        Ok(())
    }

    /// Writes the state after `edit` as the snapshot of a new manifest; false if the disk is too full for it.
    fn rotate(&self, state: &mut State, edit: &ManifestRecord) -> Result<bool> {
        let mut catalog = state.catalog.clone();
        catalog.apply(edit.clone());
        let id = self.files.number();
        let mut superblock = Superblock {
            generation: state.superblock.generation + 1,
            epoch: state.superblock.epoch + 1,
            manifest: id,
            ..state.superblock
        };
        let owner = self.files.owner(id);
        let next_file = self.files.next_file();
        let (manifest, bytes) =
            match write_manifest(&*self.device, &catalog, superblock.epoch, next_file, owner) {
                Err(Error::Full { .. }) => {
                    // The append needs less space, and has the reserve.
                    state.dead.push(NamedFile::Manifest(id));
                    self.remove_dead(state);
                    return Ok(false);
                }
                written => self.poison.watch(written)?,
            };
        superblock.mark_bytes = bytes;
        self.files.note_new_name();
        self.poison.watch(self.files.sync_names())?;
        let file = self.poison.watch(self.device.open(format::SUPERBLOCK_NAME, Access::Write))?;
        self.poison.watch(superblock.write_pair(&*file))?;
        state.dead.push(NamedFile::Manifest(state.superblock.manifest));
        state.superblock = superblock;
        state.catalog = catalog;
        state.manifest = manifest;
        (state.log_bytes, state.snapshot_bytes) = (bytes, bytes);
        Ok(true)
    }

    /// Notes in the superblock how long the manifest is, unless it knows. For the end of a writer: a manifest that is shorter
    /// at the next open was cut.
    pub(super) fn mark(&self, state: &mut State) -> Result<()> {
        if state.log_bytes > state.superblock.mark_bytes {
            let generation = state.superblock.generation + 1;
            let superblock = Superblock { generation, mark_bytes: state.log_bytes, ..state.superblock };
            superblock.write_pair(&*self.device.open(format::SUPERBLOCK_NAME, Access::Write)?)?;
            state.superblock = superblock;
        }
        Ok(())
    }

    /// Removes what nothing needs. The commit is durable already, so what fails here is only put off.
    fn remove_dead(&self, state: &mut State) {
        if state.dead.is_empty() {
            return;
        }
        state.dead.retain(|&file| remove_file(&*self.device, file).is_err());
        if !state.has_reserve {
            state.has_reserve = self.keep_reserve();
        }
    }

    /// Gives the reserve's space back to the file system; false if there was none.
    fn release_reserve(&self, state: &mut State) -> Result<bool> {
        if !std::mem::take(&mut state.has_reserve) {
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

    fn panicked(&self, name: &str) -> Error {
        self.poison.set(format!("a thread panicked while it held summary {name:?}"));
        self.poison.check().err().unwrap_or(Error::ReadOnly { path: self.device.path() })
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

/// Whether a commit that failed so has left everything as it was.
fn is_recoverable(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::BudgetExceeded { .. } | Error::InvalidOption { .. })
}

fn check_record(name: &str, record: &Record, stored: Option<&Record>, files: &Files) -> Result<()> {
    let refuse = |what, value: String, why: &str| {
        Err(Error::InvalidOption { name: what, value, why: format!("{why} (summary {name:?})") })
    };
    if record.state.len() > STATE_BYTES_MAX {
        return refuse("state", format!("{} bytes", record.state.len()), "inline state has at most 64 KiB");
    }
    for file in &record.files {
        let is_ours = stored.is_some_and(|stored| stored.files.iter().any(|f| f.id == file.id));
        if !is_ours && !files.is_uncommitted(file.id) {
            return refuse("file", file.id.0.to_string(), "it is neither new nor this summary's own");
        }
        if !file.bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return refuse("file length", file.bytes.to_string(), "files are whole blocks");
        }
    }
    Ok(())
}
