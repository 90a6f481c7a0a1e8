//! A directory whose files have no names on disk: whatever ends the process, and a power cut too, leaves nothing of them behind.
//!
//! The names exist in this process alone. Each file is an open descriptor of an unlinked file (O_TMPFILE, or a name that is
//! removed at once where the file system has no such files), readable by nobody else.

use super::handle::{FileHandle, Opened};
use super::{DirectChoice, FileDevice, FileOptions, check_name, errors};
use crate::device::{Access, Device, DeviceFile, FileRead, LockGuard};
use crate::lock::lock;
use crate::{Error, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// Files without names in a directory, as a [`Device`] that vanishes with the process.
#[derive(Debug)]
pub struct NamelessDevice {
    place: FileDevice,
    files: Mutex<BTreeMap<String, Nameless>>,
}

/// A file that has a name here alone.
#[derive(Debug)]
struct Nameless {
    fd: OwnedFd,
    direct: bool,
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

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Nameless>> {
        lock(&self.files)
    }

    /// A new file that no directory knows.
    fn nameless(&self, path: &Path) -> Result<Nameless> {
        let make = |direct: bool| {
            let flags =
                OFlags::RDWR | OFlags::CLOEXEC | if direct { OFlags::DIRECT } else { OFlags::empty() };
            let mode = Mode::from_raw_mode(0o600);
            let directory = &self.place.directory;
            let nameless = OFlags::TMPFILE | OFlags::EXCL;
            match errors::retry(|| rustix::fs::openat(directory, ".", flags | nameless, mode)) {
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
                    let name = format!(".overbank-{:032x}", self.random_128()?);
                    let create = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                    let made = errors::retry(|| rustix::fs::openat(directory, &*name, create, mode));
                    // O_DIRECT is refused only once the name is there.
                    if made.is_ok() || made.as_ref().err() == Some(&Errno::INVAL) {
                        let _ = errors::retry(|| rustix::fs::unlinkat(directory, &*name, AtFlags::empty()));
                    }
                    Ok(made)
                }
                made => Ok(made),
            }
        };
        let failed = |e| errors::classify("create", path, 0, e);
        match self.place.direct {
            DirectChoice::Never => Ok(Nameless { fd: make(false)?.map_err(failed)?, direct: false }),
            DirectChoice::Always => Ok(Nameless { fd: make(true)?.map_err(failed)?, direct: true }),
            DirectChoice::Try => match make(true)? {
                Err(Errno::INVAL) => Ok(Nameless { fd: make(false)?.map_err(failed)?, direct: false }),
                made => Ok(Nameless { fd: made.map_err(failed)?, direct: true }),
            },
        }
    }

    fn handle(&self, name: &str, file: &Nameless) -> Result<Arc<dyn DeviceFile>> {
        let path = self.place.path.join(name);
        let fd =
            file.fd.try_clone().map_err(|source| Error::Io { op: "open", path: path.clone(), source })?;
        let opened = Opened { fd, name: name.into(), path, direct: file.direct };
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
        let file = self.nameless(&self.place.path.join(name))?;
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
        for (direct, engine) in [(Direct::Auto, Engine::Auto), (Direct::Off, Engine::Threads)] {
            let options = FileOptions::new().direct(direct).engine(engine);
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
