//! A directory whose files have no names on disk: whatever ends the process, and a power cut too, leaves nothing of them behind.
//!
//! The names exist in this process alone. Each file is open and unlinked (O_TMPFILE, or a name that is removed at once where the
//! system has no such files), readable by nobody else. Windows removes the name with the last handle, however the process ends;
//! after a power cut it is left there.

use super::directory::OpenFile;
use super::handle::FileHandle;
use super::opened::Opened;
use super::{FileDevice, FileOptions, check_name};
use crate::device::{Access, Device, DeviceFile, FileRead, LockGuard};
use crate::lock::lock;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// Files without names in a directory, as a [`Device`] that vanishes with the process.
#[derive(Debug)]
pub struct NamelessDevice {
    place: FileDevice,
    files: Mutex<BTreeMap<String, OpenFile>>,
}

/// Nobody else can reach the files.
#[derive(Debug)]
struct Unshared;

impl LockGuard for Unshared {}

impl NamelessDevice {
    /// Keeps files in the directory `path`, which must exist.
    ///
    /// # Errors
    /// As [`FileDevice::open`].
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self> {
        Ok(Self { place: FileDevice::open(path, options)?, files: Mutex::default() })
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, OpenFile>> {
        lock(&self.files)
    }

    fn handle(&self, name: &str, file: &OpenFile) -> Result<Arc<dyn DeviceFile>> {
        let path = self.place.path.join(name);
        let copy =
            file.file.try_clone().map_err(|source| Error::Io { op: "open", path: path.clone(), source })?;
        let opened = Opened { file: copy, name: name.into(), path, direct: file.direct };
        Ok(Arc::new(FileHandle::new(opened, self.place.batcher.clone())))
    }
}

fn missing(name: &str) -> Error {
    Error::NotFound { what: "file", name: name.to_owned() }
}

impl Device for NamelessDevice {
    fn describe(&self) -> String {
        format!("{}, files without names", self.place.describe())
    }

    fn path(&self) -> PathBuf {
        self.place.path()
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        check_name(name)?;
        let mut files = self.files();
        if files.contains_key(name) {
            return Err(Error::AlreadyExists { what: "file", name: name.to_owned() });
        }
        let stem = format!(".overbank-{:032x}", self.random_128()?);
        let file = self.place.directory.nameless(&self.place.path.join(name), &stem)?;
        let handle = self.handle(name, &file)?;
        files.insert(name.to_owned(), file);
        Ok(handle)
    }

    fn open(&self, name: &str, _: Access) -> Result<Arc<dyn DeviceFile>> {
        check_name(name)?;
        self.handle(name, self.files().get(name).ok_or_else(|| missing(name))?)
    }

    fn read_many(
        &self,
        reads: &[FileRead<'_>],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.place.read_many(reads, depth, done)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(|| missing(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files().remove(name).map(drop).ok_or_else(|| missing(name))
    }

    /// There is no name to make durable.
    fn sync_directory(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        Ok(Box::new(Unshared))
    }

    fn random_128(&self) -> Result<u128> {
        self.place.random_128()
    }

    fn now_ns(&self) -> u64 {
        self.place.now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{AlignedBuf, BLOCK_BYTES, Direct, Engine, ReadRequest};

    #[test]
    fn files_are_known_by_their_names_here_and_by_none_on_disk() {
        let place = tempfile::tempdir().unwrap();
        let chosen = FileOptions::new();
        for options in [chosen, chosen.direct(Direct::Off).engine(Engine::Threads), chosen.portable(true)] {
            let device = NamelessDevice::open(place.path(), options).unwrap();
            let _guard = device.lock().unwrap();
            let draft = device.create("draft").unwrap();
            let mut blocks = AlignedBuf::zeroed(3 * BLOCK_BYTES);
            for (at, byte) in blocks.iter_mut().enumerate() {
                *byte = (at / BLOCK_BYTES) as u8 + 1;
            }
            draft.write(0, &blocks).unwrap();
            draft.sync().unwrap();
            assert!(matches!(device.create("draft"), Err(Error::AlreadyExists { .. })));
            device.create("other").unwrap();
            device.rename("draft", "other").unwrap();
            device.sync_directory().unwrap();
            assert_eq!(device.list().unwrap(), ["other"]);
            assert!(matches!(device.open("draft", Access::Read), Err(Error::NotFound { .. })));
            let file = device.open("other", Access::Write).unwrap();
            assert_eq!((file.name(), file.len_bytes().unwrap()), ("other", 3 * BLOCK_BYTES as u64));
            let requests: Vec<FileRead<'_>> = [2, 0, 1]
                .map(|block| FileRead {
                    file: &*file,
                    request: ReadRequest { offset: block * BLOCK_BYTES as u64, bytes: BLOCK_BYTES as u32 },
                })
                .into();
            let mut found = [0; 3];
            device
                .read_many(&requests, 3, &mut |i, bytes| {
                    found[i] = bytes[BLOCK_BYTES - 1];
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, [3, 1, 2]);
            device.remove("other").unwrap();
            assert!(matches!(device.remove("other"), Err(Error::NotFound { .. })));
            // An open file stays what it was.
            let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
            file.read(0, &mut block).unwrap();
            assert_eq!((block[0], std::fs::read_dir(place.path()).unwrap().count()), (1, 0));
        }
    }
}
