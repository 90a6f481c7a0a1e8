//! The one seam to storage, time and randomness: everything the library asks of the world passes here,
//! so the simulated device is complete.
//!
//! ```text
//!   store, segment, frequency …          one directory, flat names, no paths
//!        │  trait Device / DeviceFile
//!        ├── file    Linux: O_DIRECT and io_uring (by probe); everywhere: positional I/O on a thread pool of the same depth
//!        ├── memory  for structures used in RAM alone, and for tests
//!        └── sim     counts blocks, enumerates crashes, injects EIO, ENOSPC, short and torn writes
//! ```
//!
//! Invariants:
//! 1. Offsets and lengths of reads and writes are multiples of [`BLOCK_BYTES`].
//! 2. A read or a write is whole or an error: never short.
//! 3. Nothing is durable before [`DeviceFile::sync`]; no name is durable before [`Device::sync_directory`].
//! 4. A failed sync is never retried by this layer.
//! 5. Threads are started here too, and a thread that cannot start is a value, never a panic.

pub(crate) mod ahead;
pub(crate) mod behind;
#[cfg(not(feature = "internals"))]
pub(crate) mod block;
#[cfg(feature = "internals")]
pub mod block;
mod buffer;
pub(crate) mod clock;
pub mod file;
pub mod memory;
pub(crate) mod pool;
mod process;
#[cfg(all(test, not(feature = "internals")))]
pub(crate) mod sim;
#[cfg(feature = "internals")]
pub mod sim;
pub(crate) mod thread;

pub use buffer::AlignedBuf;
pub(crate) use file::allocator::give_back_freed;
pub use file::{Direct, Engine, FileDevice, FileOptions, NamelessDevice};
pub(crate) use process::Process;

use crate::Result;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// 128 bits from the operating system, or why there are none.
fn random_128(path: &std::path::Path) -> Result<u128> {
    #[cfg(target_os = "linux")]
    return file::random_128(path);
    #[cfg(not(target_os = "linux"))]
    {
        use std::hash::BuildHasher;
        // The standard library draws its hashers' keys from the operating system; two of them give 128 bits.
        let half = || u128::from(std::collections::hash_map::RandomState::new().hash_one(path));
        Ok(half() << 64 | half())
    }
}

/// Refuses `bytes` of memory for `what` where the system would not give them. Asked before large blocks: an allocation that
/// fails ends the process.
pub(crate) fn require_memory(what: &str, bytes: usize) -> Result<()> {
    #[cfg(target_os = "linux")]
    let is_there = file::address_space::has(bytes);
    // Elsewhere large blocks come from the kernel and go back to it, so the allocator learns nothing from one that is given back.
    #[cfg(not(target_os = "linux"))]
    let is_there = Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    if is_there {
        return Ok(());
    }
    Err(crate::Error::OutOfMemory { what: what.to_owned(), wanted_bytes: bytes })
}

/// The unit of device I/O, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// Whether a file is opened to be read only, or also written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes.
    Write,
}

/// One read of a batch. Both fields are multiples of [`BLOCK_BYTES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub bytes: u32,
}

/// One read of a batch over several files.
#[derive(Clone, Copy, Debug)]
pub struct FileRead<'a> {
    /// A file of the device that does the batch.
    pub file: &'a dyn DeviceFile,
    /// What to read of it.
    pub request: ReadRequest,
}

/// A flat directory of files. Shared by all threads.
pub trait Device: Send + Sync + Debug {
    /// What it is and how it does I/O, for `info`: "io_uring, O_DIRECT".
    fn describe(&self) -> String;
    /// The directory's place, for messages.
    fn path(&self) -> std::path::PathBuf;
    /// All file names, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Creates an empty file open for writing; an error if the name is taken.
    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>>;
    /// Opens an existing file; `NotFound` if there is none.
    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>>;
    /// As [`DeviceFile::read_many`], over several of this device's files.
    ///
    /// Unless a device knows better, the files are read one after the other.
    fn read_many(
        &self,
        reads: &[FileRead<'_>],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        for run in reads.chunk_by(|one, next| std::ptr::addr_eq(one.file, next.file)) {
            let requests: Vec<ReadRequest> = run.iter().map(|read| read.request).collect();
            run[0].file.read_many(&requests, depth, &mut |i, bytes| done(first + i, bytes))?;
            first += run.len();
        }
        Ok(())
    }
    /// Renames, replacing `to`. Durable after [`Device::sync_directory`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a name; open files of it stay readable.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes creations, renames and removals so far durable.
    fn sync_directory(&self) -> Result<()>;
    /// Takes the directory's writer lock until the guard drops; `Locked` if another process holds it.
    fn lock(&self) -> Result<Box<dyn LockGuard>>;
    /// The process that holds the writer's lock, if one does; its id is 0 where it is not known.
    ///
    /// Unless a device knows better, there is none.
    fn writer(&self) -> Result<Option<u32>> {
        Ok(None)
    }
    /// 128 random bits.
    fn random_128(&self) -> Result<u128>;
    /// Wall-clock time, nanoseconds since 1970.
    fn now_ns(&self) -> u64;
}

/// Holds the writer lock while it lives.
pub trait LockGuard: Send + Sync + Debug {}

/// One open file. All methods may be called from any thread.
pub trait DeviceFile: Send + Sync + Debug {
    /// Its name in the directory.
    fn name(&self) -> &str;
    /// Its length in bytes.
    fn len_bytes(&self) -> Result<u64>;
    /// Fills `into` from `offset`; reading past the end is `Corrupt`.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()>;
    /// Writes all of `data` at `offset`, growing the file as needed.
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Reads many places with up to `depth` in flight; `done(i, bytes)` is called on this thread for request `i`
    /// as it completes, in any order. The first error ends the batch after what is in flight has been awaited.
    fn read_many(
        &self,
        requests: &[ReadRequest],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// Cuts or extends (with zeros) to `bytes`.
    fn set_len(&self, bytes: u64) -> Result<()>;
    /// Makes data and length durable.
    fn sync(&self) -> Result<()>;
    /// The device's own file, which a wrapper stands before.
    fn as_any(&self) -> &dyn Any;
}
