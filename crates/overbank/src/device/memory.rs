//! A directory in RAM: for structures used alone, and for tests that need no crash.
//!
//! Invariants:
//! 1. It honours [`Device`] to the letter, alignment included, so what runs here runs on a disk.
//! 2. Cloning the handle shares the directory; dropping the last handle frees it.
//!
//! | | CPU | RAM |
//! |---|---|---|
//! | `read`, `write` | one copy | the files' bytes |
//! | `sync` | nothing to do | 0 |

use super::{Access, BLOCK_BYTES, Device, DeviceFile, LockGuard, ReadRequest};
use crate::lock::{lock, read, write};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory in RAM.
///
/// ```
/// use overbank::device::{Device, memory::MemoryDevice};
/// let device = MemoryDevice::new();
/// let file = device.create("a")?;
/// file.write(0, &[7; 4096])?;
/// let mut back = [0; 4096];
/// file.read(0, &mut back)?;
/// assert_eq!(back, [7; 4096]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryDevice {
    directory: Arc<Directory>,
}

#[derive(Debug, Default)]
struct Directory {
    files: Mutex<BTreeMap<String, Arc<Bytes>>>,
    locked: Arc<AtomicBool>,
}

/// The content of one file.
type Bytes = RwLock<Vec<u8>>;

impl MemoryDevice {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Bytes>>> {
        // The map is whole at every point where a panic can happen, so a poisoned mutex is still good.
        lock(&self.directory.files)
    }
}

impl Device for MemoryDevice {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("memory")
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        let mut files = self.files();
        if files.contains_key(name) {
            return Err(Error::AlreadyExists { what: "file", name: name.to_owned() });
        }
        let bytes = Arc::<Bytes>::default();
        files.insert(name.to_owned(), Arc::clone(&bytes));
        Ok(Arc::new(MemoryFile { name: name.to_owned(), access: Access::Write, bytes }))
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
        let files = self.files();
        let bytes = files.get(name).ok_or_else(|| no_file(name))?;
        Ok(Arc::new(MemoryFile { name: name.to_owned(), access, bytes: Arc::clone(bytes) }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = self.files();
        let bytes = files.remove(from).ok_or_else(|| no_file(from))?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files().remove(name).map(drop).ok_or_else(|| no_file(name))
    }

    fn sync_directory(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        if self.directory.locked.swap(true, Ordering::AcqRel) {
            return Err(Error::Locked { path: self.path(), pid: std::process::id() });
        }
        Ok(Box::new(MemoryLock(Arc::clone(&self.directory.locked))))
    }

    fn random_128(&self) -> Result<u128> {
        super::random_128(&self.path())
    }

    fn now_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
    }
}

#[derive(Debug)]
struct MemoryLock(Arc<AtomicBool>);

impl LockGuard for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
struct MemoryFile {
    name: String,
    access: Access,
    bytes: Arc<Bytes>,
}

impl MemoryFile {
    fn writable(&self) -> Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(Error::Io {
                op: "write",
                path: PathBuf::from(&self.name),
                source: std::io::ErrorKind::PermissionDenied.into(),
            }),
        }
    }
}

impl DeviceFile for MemoryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> Result<u64> {
        Ok(read(&self.bytes).len() as u64)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        assert_aligned(offset, into.len());
        let bytes = read(&self.bytes);
        let source =
            usize::try_from(offset).ok().and_then(|from| bytes.get(from..from.checked_add(into.len())?));
        into.copy_from_slice(
            source.ok_or_else(|| past_the_end(&self.name, offset, into.len(), bytes.len()))?,
        );
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        assert_aligned(offset, data.len());
        self.writable()?;
        let mut bytes = write(&self.bytes);
        let end = usize::try_from(offset).ok().and_then(|from| Some((from, from.checked_add(data.len())?)));
        let (from, to) = end.ok_or_else(|| Error::Full {
            path: PathBuf::from(&self.name),
            needed_bytes: data.len() as u64,
        })?;
        if bytes.len() < to {
            bytes.resize(to, 0);
        }
        bytes[from..to].copy_from_slice(data);
        Ok(())
    }

    fn read_many(
        &self,
        requests: &[ReadRequest],
        _depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            buffer.resize(request.bytes as usize, 0);
            self.read(request.offset, &mut buffer)?;
            done(i, &buffer)?;
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        assert_aligned(bytes, 0);
        self.writable()?;
        let full = || Error::Full { path: PathBuf::from(&self.name), needed_bytes: bytes };
        let bytes = usize::try_from(bytes).map_err(|_| full())?;
        write(&self.bytes).resize(bytes, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

pub(super) fn no_file(name: &str) -> Error {
    Error::NotFound { what: "file", name: name.to_owned() }
}

pub(super) fn past_the_end(name: &str, offset: u64, bytes: usize, len_bytes: usize) -> Error {
    Error::Corrupt {
        path: PathBuf::from(name),
        at: offset,
        what: "file length in bytes",
        expected: format!("at least {}", offset.saturating_add(bytes as u64)),
        found: len_bytes.to_string(),
    }
}

/// A misaligned call is a defect of the caller, never of the data.
pub(super) fn assert_aligned(offset: u64, bytes: usize) {
    let block = BLOCK_BYTES as u64;
    assert!(
        offset.is_multiple_of(block) && (bytes as u64).is_multiple_of(block),
        "offset {offset} and length {bytes} are whole blocks"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_past_the_end_is_corrupt() {
        let file = MemoryDevice::new().create("f").unwrap();
        file.write(4096, &[1; 4096]).unwrap();
        let mut block = [0; 4096];
        file.read(0, &mut block).unwrap();
        assert_eq!(block, [0; 4096], "the gap before a write is zeros");
        let error = file.read(8192, &mut block).unwrap_err();
        assert!(matches!(error, Error::Corrupt { at: 8192, .. }), "{error}");
    }

    #[test]
    fn a_removed_file_stays_readable_through_its_handle() {
        let device = MemoryDevice::new();
        let file = device.create("f").unwrap();
        file.write(0, &[1; 4096]).unwrap();
        device.remove("f").unwrap();
        assert!(device.open("f", Access::Read).is_err());
        file.read(0, &mut [0; 4096]).unwrap();
    }

    #[test]
    fn the_lock_is_exclusive_until_dropped() {
        let device = MemoryDevice::new();
        let guard = device.lock().unwrap();
        assert!(matches!(device.clone().lock(), Err(Error::Locked { .. })));
        drop(guard);
        device.lock().unwrap();
    }
}
