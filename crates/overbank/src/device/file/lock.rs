//! The writer lock: an advisory lock on the file `LOCK`, which holds its owner's process id.
//!
//! `flock` belongs to the open file, so a second open in the same process is refused as well, and the kernel
//! gives the lock back when the owner dies. The file stays when the lock is released: removing it could hand two
//! writers a lock each.
//!
//! A fork shares the open file, and with it the lock. The process that took the lock unlocks it for all copies; a copy that
//! another process drops is only closed, which unlocks nothing.

use super::{errors, kind};
use crate::device::{LockGuard, Process};
use crate::{Error, Result};
use rustix::fs::{FlockOperation, OFlags};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// The lock's file name; reserved, so it is neither listed nor opened.
pub(super) const LOCK_NAME: &str = "LOCK";

/// The longest process id, with its line end and room to see that something else stands there.
const CONTENT_BYTES: usize = 16;

#[derive(Debug)]
struct FileLock {
    fd: OwnedFd,
    owner: Process,
}

impl LockGuard for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.owner.is_current() {
            // While it is still ours. Whoever finds an id in the file knows that its owner did not come to an end here.
            let _ = rustix::fs::ftruncate(&self.fd, 0);
            let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
        }
    }
}

/// Takes the lock of the directory, or says who holds it.
pub(super) fn take(directory: BorrowedFd<'_>, path: &Path) -> Result<Box<dyn LockGuard>> {
    let lock_path = path.join(LOCK_NAME);
    let fd = kind::open(directory, LOCK_NAME, OFlags::RDWR | OFlags::CREATE, &lock_path, "lock")?
        .map_err(|e| errors::classify("open", &lock_path, 0, e))?;
    match errors::retry(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(Error::Locked { path: path.into(), pid: content(&fd).unwrap_or(0) });
        }
        Err(e) => return Err(errors::classify("lock", &lock_path, 0, e)),
    }
    if content(&fd).is_none() {
        let why = "it holds something else than a process id, so it is not a store's; move it away";
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, why);
        return Err(Error::Io { op: "lock", path: lock_path, source });
    }
    // The id only serves messages: a full disk must not keep a store from being opened and emptied.
    let id = format!("{}\n", std::process::id());
    let _ = rustix::fs::ftruncate(&fd, 0);
    let _ = rustix::io::pwrite(&fd, id.as_bytes(), 0);
    Ok(Box::new(FileLock { fd, owner: Process::current() }))
}

/// The process that holds the lock, if one does; 0 where it is not known.
pub(super) fn holder(directory: BorrowedFd<'_>, path: &Path) -> Result<Option<u32>> {
    let lock_path = path.join(LOCK_NAME);
    let failed = |op, e| errors::classify(op, &lock_path, 0, e);
    let fd = match kind::open(directory, LOCK_NAME, OFlags::RDONLY, &lock_path, "open")? {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        fd => fd.map_err(|e| failed("open", e))?,
    };
    let id = content(&fd).unwrap_or(0);
    if rustix::fs::fstat(&fd).map_err(|e| failed("inspect", e))?.st_size == 0 {
        // The last holder came to its end. Asking the lock itself could be in the way of one that takes it now.
        return Ok(None);
    }
    match errors::retry(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared)) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(id)),
        Err(e) => Err(failed("lock", e)),
    }
}

/// The process id in the lock file, 0 where it is empty; `None` where it holds anything else.
fn content(fd: &OwnedFd) -> Option<u32> {
    let mut text = [0u8; CONTENT_BYTES];
    let read = rustix::io::pread(fd, &mut text, 0).ok()?;
    match text.get(..read)? {
        [] => Some(0),
        text => std::str::from_utf8(text).ok()?.strip_suffix('\n')?.parse().ok(),
    }
}
