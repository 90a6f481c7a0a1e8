//! The data files of a store: numbered, never reused, removed when no commit needs them.
//!
//! [`Ledger`](super::ledger) says which of them nobody needs any more.
//!
//! Invariants:
//! 1. A file that the last commit names is never removed and never renamed.
//! 2. A name is removed only after the commit that drops it is durable. Handles that readers hold stay readable, and the
//!    disk space comes back with the last of them.
//! 3. A failed write or sync of a data file poisons the store: a sync that failed is never tried again.

use super::format::data_name;
use super::ledger::Ledger;
use super::poison::Poison;
use super::{FileId, FileRef};
use crate::device::block::BlockOwner;
use crate::device::{Access, BLOCK_BYTES, Device, DeviceFile, FileRead, ReadRequest};
use crate::lock::{lock, read, write};
use crate::{Error, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use xxhash_rust::xxh3::Xxh3;

/// How much of a file is held in memory while it is written or read as a stream, in bytes.
pub(super) const STREAM_BYTES: usize = 64 * BLOCK_BYTES;

/// The data files of a store. Clones share them; any thread may use them.
#[derive(Clone, Debug)]
pub struct Files {
    shelf: Arc<Shelf>,
}

/// The files of a snapshot, open: a writer may remove their names.
pub(super) type Pins = BTreeMap<FileId, Arc<dyn DeviceFile>>;

#[derive(Debug)]
struct Shelf {
    device: Arc<dyn Device>,
    store_id: u128,
    poison: Poison,
    /// `Some` where the store is open read-only: the files of its snapshot.
    pins: Option<RwLock<Pins>>,
    ledger: Mutex<Ledger>,
}

impl Files {
    pub(super) fn new(device: Arc<dyn Device>, store_id: u128, poison: Poison, next_file: u64) -> Self {
        let ledger = Mutex::new(Ledger::new(next_file));
        Files { shelf: Arc::new(Shelf { device, store_id, poison, pins: None, ledger }) }
    }

    /// Files of a read-only store: only those of `pins`.
    pub(super) fn pinned(device: Arc<dyn Device>, store_id: u128, poison: Poison, pins: Pins) -> Self {
        let ledger = Mutex::new(Ledger::new(u64::MAX));
        Files { shelf: Arc::new(Shelf { device, store_id, poison, pins: Some(RwLock::new(pins)), ledger }) }
    }

    /// The device, where the store is open read-only.
    pub(super) fn device_to_read(&self) -> Option<&dyn Device> {
        self.shelf.pins.is_some().then_some(&*self.shelf.device)
    }

    /// The files of the snapshot of a read-only store.
    pub(super) fn pins(&self) -> Pins {
        self.shelf.pins.as_ref().map_or_else(Pins::new, |pins| read(pins).clone())
    }

    /// Makes these the files of the snapshot. Who has one of the others open keeps it open.
    pub(super) fn repin(&self, new: Pins) {
        if let Some(pins) = &self.shelf.pins {
            let old = std::mem::replace(&mut *write(pins), new);
            drop(old);
        }
    }

    /// Tells the store from others that are open in this process.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.shelf).addr()
    }

    /// What the seal of a block of file `id` must cover.
    pub fn owner(&self, id: FileId) -> BlockOwner {
        BlockOwner { store_id: self.shelf.store_id, file_id: id.0 }
    }

    /// Creates an empty data file. It is removed at the next open for writing unless a commit names it; whoever does not need it
    /// any more says so before, by [`Files::retire`].
    ///
    /// # Errors
    /// `Poisoned`, `Forked`, `Full`, or what the device says.
    pub fn create(&self) -> Result<(FileId, Arc<dyn DeviceFile>)> {
        self.create_as(false)
    }

    /// Creates an empty file for a blob, which belongs to the commit or publish that writes it.
    pub(super) fn create_blob(&self) -> Result<(FileId, Arc<dyn DeviceFile>)> {
        self.create_as(true)
    }

    fn create_as(&self, is_blob: bool) -> Result<(FileId, Arc<dyn DeviceFile>)> {
        self.writable()?;
        let id = self.number();
        let file = self.shelf.device.create(&data_name(id));
        let file = watch_space(&self.shelf.poison, file)?;
        self.ledger().created(id, is_blob);
        Ok((id, Arc::new(WatchedFile { file, poison: self.shelf.poison.clone() })))
    }

    /// Opens a committed file. For writing only if it is written in place.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or shorter than its record says.
    pub fn open(&self, file_ref: &FileRef) -> Result<Arc<dyn DeviceFile>> {
        self.check_process()?;
        let name = data_name(file_ref.id);
        let file = match &self.shelf.pins {
            Some(pins) => {
                read(pins).get(&file_ref.id).cloned().ok_or_else(|| missing(&self.path(file_ref.id)))?
            }
            None => {
                let access = if file_ref.is_in_place() { Access::Write } else { Access::Read };
                match self.shelf.device.open(&name, access) {
                    Err(Error::NotFound { .. }) => return Err(missing(&self.path(file_ref.id))),
                    file => file?,
                }
            }
        };
        let bytes = file.len_bytes()?;
        if bytes < file_ref.bytes || !file_ref.is_in_place() && bytes != file_ref.bytes {
            return Err(Error::Corrupt {
                path: self.path(file_ref.id),
                at: bytes.min(file_ref.bytes),
                what: "file length in bytes",
                expected: file_ref.bytes.to_string(),
                found: bytes.to_string(),
            });
        }
        Ok(Arc::new(WatchedFile { file, poison: self.shelf.poison.clone() }))
    }

    /// Reads places of many of this store's files, up to `depth` at a time; see [`Device::read_many`].
    ///
    /// # Errors
    /// What the device says.
    pub fn read_many(
        &self,
        reads: &[FileRead<'_>],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.check_process()?;
        self.shelf.device.read_many(reads, depth, done)
    }

    /// Says that what created a file does not need it any more. It goes when no durable record and none under way names it; a
    /// reader that has it open keeps it open. A file that is gone already is nobody's concern.
    ///
    /// # Cost
    /// Where it goes at once, what the device takes to remove it: long files are better retired by a background job.
    pub fn retire(&self, id: FileId) {
        if self.writable().is_ok() && self.ledger().retire(id) {
            // What cannot be removed now is, when the store is next opened for writing.
            let _ = self.remove(id);
        }
    }

    /// Removes a file that no record has named, at once and even while a commit is under way: for what was never finished, and
    /// for what never was part of any state that a commit can have seen.
    ///
    /// # Errors
    /// `InvalidOption` if it is committed or not of this store.
    pub fn discard(&self, id: FileId) -> Result<()> {
        self.writable()?;
        if !self.ledger().forget(id) {
            let why = "only a file that no commit has named can be discarded".to_owned();
            return Err(Error::InvalidOption { name: "file", value: id.0.to_string(), why });
        }
        self.remove(id)
    }

    pub(super) fn number(&self) -> FileId {
        self.ledger().number()
    }

    pub(super) fn next_file(&self) -> u64 {
        self.ledger().next_file()
    }

    pub(super) fn is_uncommitted(&self, id: FileId) -> bool {
        self.ledger().is_uncommitted(id)
    }

    pub(super) fn note_new_name(&self) {
        self.ledger().note_new_name();
    }

    /// Makes the names of all files so far durable, if there is a new one.
    pub(super) fn sync_names(&self) -> Result<()> {
        let has_new = self.ledger().take_new_names();
        if has_new {
            self.shelf.device.sync_directory()?;
        }
        Ok(())
    }

    /// Begins a commit or publish of this thread; it ends when what is returned is dropped.
    pub(super) fn begin_turn(&self) -> Turn<'_> {
        self.ledger().begin_turn();
        Turn { files: self }
    }

    /// The record of the turn is durable, and names these files.
    pub(super) fn committed(&self, named: impl Iterator<Item = FileId>) {
        self.ledger().commit(named);
    }

    pub(super) fn remove(&self, id: FileId) -> Result<()> {
        match self.shelf.device.remove(&data_name(id)) {
            Err(Error::NotFound { .. }) => Ok(()),
            result => result,
        }
    }

    /// Where a file is, for messages.
    pub fn path(&self, id: FileId) -> PathBuf {
        self.shelf.device.path().join(data_name(id))
    }

    /// Whether the process is the one that opened the store: what stands before the first lock of whatever is asked of it.
    ///
    /// # Errors
    /// `Forked`.
    pub fn check_process(&self) -> Result<()> {
        self.shelf.poison.check_process()
    }

    /// Whether the store takes writes.
    ///
    /// # Errors
    /// `Forked`, `ReadOnly`, `Poisoned`.
    pub(crate) fn writable(&self) -> Result<()> {
        self.check_process()?;
        if self.shelf.pins.is_some() {
            return Err(Error::ReadOnly { path: self.shelf.device.path() });
        }
        self.shelf.poison.check()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.shelf.ledger)
    }
}

/// A commit or publish under way, as the files see it.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    files: &'a Files,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.files.shelf.poison.set("a thread panicked in the middle of a commit".to_owned());
        }
        let dead = self.files.ledger().end_turn();
        // After a failed sync the record may be durable all the same, and it names these files.
        if self.files.writable().is_ok() {
            for id in dead {
                // What cannot be removed now is, when the store is next opened for writing.
                let _ = self.files.remove(id);
            }
        }
    }
}

/// Reads a file of sealed blocks front to back; `each(number, block)` for every block. Returns its XXH3-128.
pub(super) fn stream(
    file: &dyn DeviceFile,
    file_bytes: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<u128> {
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; STREAM_BYTES.min(usize::try_from(file_bytes).unwrap_or(usize::MAX))];
    let mut at = 0;
    while at < file_bytes {
        let bytes = (file_bytes - at).min(buffer.len() as u64) as usize;
        let part = &mut buffer[..bytes];
        file.read(at, part)?;
        hash.update(part);
        for (i, block) in part.chunks_exact(BLOCK_BYTES).enumerate() {
            each(at / BLOCK_BYTES as u64 + i as u64, block)?;
        }
        at += bytes as u64;
    }
    Ok(nonzero(hash.digest128()))
}

pub(super) fn same_hash(path: &Path, file_ref: &FileRef, hash: u128) -> Result<()> {
    if hash == file_ref.xxh3 {
        return Ok(());
    }
    let (expected, found) = (format!("{:#034x}", file_ref.xxh3), format!("{hash:#034x}"));
    Err(corrupt(path, 0, "whole-file hash", expected, found))
}

/// 0 means "written in place", so a hash that happens to be 0 becomes 1.
pub(super) fn nonzero(hash: u128) -> u128 {
    hash.max(1)
}

pub(super) fn corrupt(path: &Path, at: u64, what: &'static str, expected: String, found: String) -> Error {
    Error::Corrupt { path: path.to_path_buf(), at, what, expected, found }
}

pub(super) fn missing(path: &Path) -> Error {
    corrupt(path, 0, "committed file", "there".to_owned(), "missing".to_owned())
}

/// A full disk is the caller's to handle; every other failed write poisons.
fn watch_space<T>(poison: &Poison, result: Result<T>) -> Result<T> {
    match result {
        Err(Error::Full { .. }) => result,
        _ => poison.watch(result),
    }
}

/// A data file whose failed writes and syncs poison the store.
#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn DeviceFile>,
    poison: Poison,
}

impl DeviceFile for WatchedFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len_bytes(&self) -> Result<u64> {
        self.file.len_bytes()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.poison.check_process()?;
        self.file.read(offset, into)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.poison.check()?;
        watch_space(&self.poison, self.file.write(offset, data))
    }

    fn read_many(
        &self,
        requests: &[ReadRequest],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.poison.check_process()?;
        self.file.read_many(requests, depth, done)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.poison.check()?;
        watch_space(&self.poison, self.file.set_len(bytes))
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        self.poison.watch(self.file.sync())
    }

    fn as_any(&self) -> &dyn Any {
        self.file.as_any()
    }
}
