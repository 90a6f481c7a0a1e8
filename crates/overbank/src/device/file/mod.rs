//! A directory of the file system as a [`Device`]: on Linux with O_DIRECT and io_uring where a probe allows, on every other
//! system, and where that is asked for, by positional reads and writes, batched on threads to the same depth.
//!
//! ```text
//!   read_many ──depth 1──▶ pread on the calling thread          (a ring costs more than it saves)
//!        │
//!        ├── io_uring ──▶ ring.rs   a ring of a pool, its slots refilled as they complete
//!        └── threads ───▶ pool.rs   that many threads in pread, jobs queued ahead of them
//!   read, write, sync ──▶ one system call on the calling thread, continued until it is whole
//!
//!   names ──▶ trait Directory:  descriptor.rs (Linux), by_path.rs (every system)
//! ```
//!
//! Invariants:
//! 1. A name is one component; on Linux it never becomes a path, and every call goes through the directory's descriptor.
//! 2. Where a file is open with O_DIRECT, only aligned memory reaches the kernel: other buffers pass through one of ours.
//! 3. Writes never enter a ring. `write` returns after the kernel took the full length, so a sync cannot overtake one.
//! 4. Only regular files are opened, links are not followed, and a file with a second name is not written.
//! 5. Batches are read for the process that opened the device only: a fork has neither its threads nor its rings.
//! 6. After a failed sync a file takes no more writes and no more syncs: the kernel has dropped pages that it could
//!    not write, and a second sync would report success.
//!
//! | operation | CPU | RAM |
//! |---|---|---|
//! | `read`, `write` | one system call, plus a copy if the buffer is not aligned | none, or a bounce buffer of at most 1 MiB |
//! | `read_many`, ring | 2.3-4.3 µs a 4 KiB read, kernel included, where fio takes 3.8-7.0 (virtual disk, busy machine) | depth × longest request, kept up to 4 MiB a ring |
//! | `read_many`, threads | 7.3-13.5 µs a 4 KiB read: two context switches | 2 × depth × longest request |
//!
//! Deviation: a large write is not cut into pieces that are in flight together. The kernel cuts one O_DIRECT write
//! into requests of at most a mebibyte and submits them all before it waits; writes of 8 MiB by `pwrite` measured
//! 1,736 MiB/s where eight of 1 MiB in flight through io_uring measured 1,690 (fio, ext4 on a virtual disk).

#[cfg(target_os = "linux")]
pub(super) mod address_space;
pub(super) mod allocator;
mod batcher;
mod by_path;
mod calls;
#[cfg(target_os = "linux")]
mod descriptor;
mod directory;
mod errors;
mod handle;
mod kind;
mod lock;
mod nameless;
mod opened;
mod options;
mod pool;
#[cfg(target_os = "linux")]
pub(super) mod process;
mod reads;
// The architectures are those that the crate `io-uring` knows; they stand in Cargo.toml too.
#[cfg_attr(
    not(all(
        feature = "io_uring",
        target_os = "linux",
        target_pointer_width = "64",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            all(target_arch = "powerpc64", target_endian = "little")
        )
    )),
    path = "no_ring.rs"
)]
mod ring;
#[cfg(test)]
mod tests;

pub use nameless::NamelessDevice;
pub use options::{Direct, Engine, FileOptions};

use super::{Access, Device, DeviceFile, FileRead, LockGuard};
use crate::{Error, Result};
use batcher::Batcher;
use by_path::PathDirectory;
use directory::{Directory, OpenFile, Purpose};
use handle::FileHandle;
use opened::Opened;
use reads::Reads;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory whose files are read and written past the page cache.
///
/// ```
/// use overbank::device::{AlignedBuf, BLOCK_BYTES, Device, FileDevice, FileOptions, ReadRequest};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let directory = scratch.path();
/// let device = FileDevice::open(directory, FileOptions::new())?;
/// let file = device.create("numbers")?;
/// let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
/// block[0] = 42;
/// file.write(8 * BLOCK_BYTES as u64, &block)?;
/// file.sync()?;
/// device.sync_directory()?;
///
/// let requests: Vec<_> = (0..9).map(|i| ReadRequest { offset: i * 4096, bytes: 4096 }).collect();
/// let mut sum = 0;
/// file.read_many(&requests, 32, &mut |_, bytes| {
///     sum += usize::from(bytes[0]);
///     Ok(())
/// })?;
/// assert_eq!(sum, 42);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct FileDevice {
    path: PathBuf,
    directory: Box<dyn Directory>,
    batcher: Arc<Batcher>,
}

impl FileDevice {
    /// Opens the directory `path`, which must exist, and probes what the kernel and the file system allow.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory; `InvalidOption` if an engine or O_DIRECT that was demanded is refused.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self> {
        let path = path.as_ref();
        if options.threads_max == 0 {
            return Err(Error::InvalidOption {
                name: "threads_max",
                value: "0".into(),
                why: "a pool needs at least one thread".into(),
            });
        }
        let directory = open_directory(path, &options)?;
        Ok(Self { path: path.into(), directory, batcher: Arc::new(Batcher::choose(&options)?) })
    }

    /// Opens the directory `path`, making it if it is absent; its parent must exist. What is made is the owner's alone: a store's
    /// seed keeps others from choosing keys that collide.
    ///
    /// # Errors
    /// As [`FileDevice::open`].
    pub fn open_or_create(path: impl AsRef<Path>, options: FileOptions) -> Result<Self> {
        let path = path.as_ref();
        match by_path::make(path) {
            Ok(()) => sync_parent(path)?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // A missing parent is named; some file systems also answer so where nothing may be made.
                let parent = path.parent().filter(|parent| parent.metadata().is_err());
                return Err(match parent {
                    Some(parent) => {
                        Error::NotFound { what: "directory", name: parent.to_string_lossy().into_owned() }
                    }
                    None => Error::Io { op: "create", path: path.into(), source: e },
                });
            }
            Err(e) => return Err(errors::classify("create", path, 0, e)),
        }
        Self::open(path, options)
    }

    fn open_file(&self, name: &str, purpose: Purpose, op: &'static str) -> Result<Arc<dyn DeviceFile>> {
        check_name(name)?;
        let OpenFile { file, direct } = self.directory.open(name, purpose, op)?;
        let opened = Opened { file, name: name.into(), path: self.path.join(name), direct };
        Ok(Arc::new(FileHandle::new(opened, self.batcher.clone())))
    }
}

impl Device for FileDevice {
    fn describe(&self) -> String {
        format!("{}, {}", self.batcher.describe(), self.directory.cache())
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// All names but that of the writer's lock. Those of sub-directories end with `/`: they are not ours, but whoever wants
    /// an empty directory must see them.
    fn list(&self) -> Result<Vec<String>> {
        let mut names = self.directory.list()?;
        names.retain(|name| name != lock::LOCK_NAME);
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        self.open_file(name, Purpose::Create, "create")
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
        let purpose = match access {
            Access::Read => Purpose::Read,
            Access::Write => Purpose::Write,
        };
        self.open_file(name, purpose, "open")
    }

    fn read_many(
        &self,
        reads: &[FileRead<'_>],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let own = |read: &FileRead<'_>| read.file.as_any().downcast_ref::<FileHandle>().is_some();
        assert!(reads.iter().all(own), "the files are of this device");
        let opened: Vec<_> = reads
            .iter()
            .filter_map(|read| {
                Some((read.file.as_any().downcast_ref::<FileHandle>()?.opened(), read.request))
            })
            .collect();
        self.batcher.read_many(&Reads::Many(&opened), depth, done)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.directory.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.directory.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.directory.sync()
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        lock::take(&*self.directory, &self.path)
    }

    fn writer(&self) -> Result<Option<u32>> {
        lock::holder(&*self.directory, &self.path)
    }

    fn random_128(&self) -> Result<u128> {
        super::random_128(&self.path)
    }

    fn now_ns(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Opens the directory `path`, and probes what its file system allows.
fn open_directory(path: &Path, options: &FileOptions) -> Result<Box<dyn Directory>> {
    #[cfg(target_os = "linux")]
    if !options.portable {
        return Ok(Box::new(descriptor::DescriptorDirectory::open(path, options.direct)?));
    }
    Ok(Box::new(PathDirectory::open(path, options.direct)?))
}

/// 128 bits from the operating system, for what is at `path`.
#[cfg(target_os = "linux")]
pub(super) fn random_128(path: &Path) -> Result<u128> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        filled +=
            errors::retry(|| rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()))
                .map_err(|e| errors::classify("draw randomness for", path, 0, e))?;
    }
    Ok(u128::from_le_bytes(bytes))
}

/// Refuses what could leave the directory, and the lock.
fn check_name(name: &str) -> Result<()> {
    let separates = |c| matches!(c, '/' | '\0') || (cfg!(windows) && matches!(c, '\\' | ':'));
    let why = if name.is_empty() || name == "." || name == ".." || name.contains(separates) {
        "a name is one component of a path, without '/' and NUL, and on Windows without '\\' and ':'"
    } else if name.len() > 255 {
        "a name has at most 255 bytes"
    } else if name == lock::LOCK_NAME {
        "this name is the writer lock's"
    } else {
        return Ok(());
    };
    Err(Error::InvalidOption { name: "file name", value: format!("{name:?}"), why: why.into() })
}

/// Makes the name of a new directory durable.
fn sync_parent(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    by_path::sync(parent).map_err(|e| errors::classify("sync", parent, 0, e))
}
