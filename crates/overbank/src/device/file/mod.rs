//! A directory of the file system as a [`Device`]: O_DIRECT and io_uring where a probe allows, else positional
//! reads and writes, batched on threads to the same depth.
//!
//! ```text
//!   read_many ──depth 1──▶ pread on the calling thread          (a ring costs more than it saves)
//!        │
//!        ├── io_uring ──▶ ring.rs   a ring of a pool, its slots refilled as they complete
//!        └── threads ───▶ pool.rs   that many threads in pread, jobs queued ahead of them
//!   read, write, sync ──▶ one system call on the calling thread, continued until it is whole
//! ```
//!
//! Invariants:
//! 1. A name is one component: it never becomes a path, and every call goes through the directory's descriptor.
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

mod errors;
mod handle;
mod kind;
mod lock;
mod nameless;
mod pool;
mod probe;
pub(super) mod process;
mod reads;
mod ring;
#[cfg(test)]
mod tests;

pub use nameless::NamelessDevice;

use super::{Access, AlignedBuf, Device, DeviceFile, FileRead, LockGuard};
use crate::{Error, Result};
use handle::{FileHandle, Opened};
use reads::Reads;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What every directory of some file systems holds: `.`, `..`, and the checker's own place in the root of ext4.
const IGNORED_DIRECTORIES: [&str; 3] = [".", "..", "lost+found"];

/// How batches of reads reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// io_uring if the kernel lets this process have one, else threads.
    #[default]
    Auto,
    /// io_uring, or an error: containers often forbid it.
    IoUring,
    /// Positional reads on a pool of threads.
    Threads,
}

/// Whether files bypass the page cache (O_DIRECT).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direct {
    /// Where the file system allows it.
    #[default]
    Auto,
    /// Always, or an error.
    On,
    /// Never.
    Off,
}

/// How a [`FileDevice`] does its I/O.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    engine: Engine,
    direct: Direct,
    threads_max: usize,
    refuse_io_uring: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        // 128 is the greatest depth that a structure asks for; a thread blocked in a read costs a 64 KiB stack.
        Self { engine: Engine::Auto, direct: Direct::Auto, threads_max: 128, refuse_io_uring: false }
    }
}

impl FileOptions {
    /// Everything chosen by probe.
    pub fn new() -> Self {
        Self::default()
    }

    /// How batches of reads reach the kernel.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Whether files bypass the page cache.
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    /// The most threads that [`Engine::Threads`] keeps, at least 1; default 128. It bounds the depth of all batches
    /// of the device together.
    pub fn threads_max(mut self, threads: usize) -> Self {
        self.threads_max = threads;
        self
    }

    /// Acts as if the kernel had refused io_uring, as many containers do.
    pub fn refuse_io_uring(mut self, refuse: bool) -> Self {
        self.refuse_io_uring = refuse;
        self
    }
}

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
    directory: OwnedFd,
    direct: DirectChoice,
    batcher: Arc<Batcher>,
}

/// What the probe left of [`Direct`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DirectChoice {
    /// Every file opens with O_DIRECT or not at all.
    Always,
    /// Each file tries.
    Try,
    /// No file tries.
    Never,
}

/// What carries out batches of reads.
#[derive(Debug)]
enum Batcher {
    Rings(ring::RingPool),
    Threads(pool::ThreadPool),
}

/// Whether an engine took a batch. One that has neither a ring nor a thread leaves it to the caller, who reads place by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begun {
    Yes,
    No,
}

impl Batcher {
    fn read_many(
        &self,
        reads: &Reads<'_>,
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for i in 0..reads.len() {
            handle::check_aligned(reads.request(i).offset, reads.request(i).bytes as usize)?;
        }
        let (longest, depth) = (reads.longest(), depth.min(reads.len()));
        if depth > 1 && longest > 0 {
            let begun = match self {
                Batcher::Rings(rings) => rings.read_many(reads, longest, depth, done)?,
                Batcher::Threads(pool) => pool.read_many(reads, longest, depth, done)?,
            };
            if begun == Begun::Yes {
                return Ok(());
            }
        }
        let mut buffer = AlignedBuf::zeroed(longest);
        for i in 0..reads.len() {
            let into = &mut buffer[..reads.request(i).bytes as usize];
            reads.file(i).read_exact(reads.request(i).offset, into)?;
            done(i, into)?;
        }
        Ok(())
    }
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            errors::retry(|| rustix::fs::open(path, flags, Mode::empty())).map_err(|e| match e {
                rustix::io::Errno::NOENT => {
                    Error::NotFound { what: "directory", name: path.to_string_lossy().into_owned() }
                }
                e => errors::classify("open", path, 0, e),
            })?;
        let direct = probe::direct(directory.as_fd(), path, options.direct)?;
        let batcher = Arc::new(match probe::engine(&options)? {
            Engine::Threads => Batcher::Threads(pool::ThreadPool::new(options.threads_max)),
            _ => Batcher::Rings(ring::RingPool::new()),
        });
        Ok(Self { path: path.into(), directory, direct, batcher })
    }

    /// Opens the directory `path`, making it if it is absent; its parent must exist. What is made is the owner's alone: a store's
    /// seed keeps others from choosing keys that collide.
    ///
    /// # Errors
    /// As [`FileDevice::open`].
    pub fn open_or_create(path: impl AsRef<Path>, options: FileOptions) -> Result<Self> {
        let path = path.as_ref();
        match errors::retry(|| rustix::fs::mkdir(path, Mode::from_raw_mode(0o700))) {
            Ok(()) => sync_parent(path)?,
            Err(rustix::io::Errno::EXIST) => {}
            Err(e @ rustix::io::Errno::NOENT) => {
                // A missing parent is named; some file systems also answer so where nothing may be made.
                let parent = path.parent().filter(|parent| rustix::fs::stat(*parent).is_err());
                return Err(match parent {
                    Some(parent) => {
                        Error::NotFound { what: "directory", name: parent.to_string_lossy().into_owned() }
                    }
                    None => Error::Io { op: "create", path: path.into(), source: e.into() },
                });
            }
            Err(e) => return Err(errors::classify("create", path, 0, e)),
        }
        Self::open(path, options)
    }

    fn open_file(&self, name: &str, flags: OFlags, op: &'static str) -> Result<Arc<dyn DeviceFile>> {
        check_name(name)?;
        let path = self.path.join(name);
        let open = |flags| kind::open(self.directory.as_fd(), name, flags, &path, op);
        let (fd, direct) = match self.direct {
            DirectChoice::Never => (open(flags)?, false),
            DirectChoice::Always => (open(flags | OFlags::DIRECT)?, true),
            DirectChoice::Try => match open(flags | OFlags::DIRECT)? {
                // A file system that refuses O_DIRECT does so after it has made the name.
                Err(rustix::io::Errno::INVAL) => (open(flags - OFlags::EXCL)?, false),
                outcome => (outcome, true),
            },
        };
        let fd = fd.map_err(|e| errors::classify(op, &path, 0, e))?;
        Ok(Arc::new(FileHandle::new(Opened { fd, name: name.into(), path, direct }, self.batcher.clone())))
    }
}

impl Device for FileDevice {
    fn describe(&self) -> String {
        let engine = match &*self.batcher {
            Batcher::Rings(_) => "io_uring".to_owned(),
            Batcher::Threads(pool) => format!("up to {} threads", pool.threads_max()),
        };
        let cache = match self.direct {
            DirectChoice::Always => "O_DIRECT",
            DirectChoice::Try => "O_DIRECT where a file allows it",
            DirectChoice::Never => "page cache",
        };
        format!("{engine}, {cache}")
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// All names but that of the writer's lock. Those of sub-directories end with `/`: they are not ours, but whoever wants
    /// an empty directory must see them.
    fn list(&self) -> Result<Vec<String>> {
        let failed = |e| errors::classify("list", &self.path, 0, e);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                match rustix::fs::statat(&self.directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => kind = FileType::from_raw_mode(stat.st_mode),
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(e) => return Err(failed(e)),
                }
            }
            match kind {
                FileType::Directory if !IGNORED_DIRECTORIES.contains(&&*name) => {
                    names.push(format!("{name}/"))
                }
                FileType::Directory => {}
                _ if name == lock::LOCK_NAME => {}
                _ => names.push(name),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, "create")
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        self.open_file(name, flags, "open")
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
        errors::retry(|| rustix::fs::renameat(&self.directory, from, &self.directory, to))
            .map_err(|e| errors::classify("rename", &self.path.join(from), 0, e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        errors::retry(|| rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()))
            .map_err(|e| errors::classify("remove", &self.path.join(name), 0, e))
    }

    fn sync_directory(&self) -> Result<()> {
        errors::retry(|| rustix::fs::fsync(&self.directory))
            .map_err(|e| errors::classify("sync", &self.path, 0, e))
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        lock::take(self.directory.as_fd(), &self.path)
    }

    fn writer(&self) -> Result<Option<u32>> {
        lock::holder(self.directory.as_fd(), &self.path)
    }

    fn random_128(&self) -> Result<u128> {
        let mut bytes = [0u8; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            filled +=
                errors::retry(|| rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()))
                    .map_err(|e| errors::classify("draw randomness for", &self.path, 0, e))?;
        }
        Ok(u128::from_le_bytes(bytes))
    }

    fn now_ns(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Refuses what could leave the directory, and the lock.
fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        "a name is one component of a path, without '/' and NUL"
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
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    errors::retry(|| rustix::fs::open(parent, flags, Mode::empty()))
        .and_then(|fd| errors::retry(|| rustix::fs::fsync(&fd)))
        .map_err(|e| errors::classify("sync", parent, 0, e))
}
