//! The writer lock: an advisory lock on the file `LOCK`, which holds its owner's process id.
//!
//! `flock` belongs to the open file, so a second open in the same process is refused as well, and the kernel
//! gives the lock back when the owner dies. The file stays when the lock is released: removing it could hand two
//! writers a lock each.

use super::errors;
use crate::device::LockGuard;
use crate::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// The lock's file name; reserved, so it is neither listed nor opened.
pub(super) const LOCK_NAME: &str = "LOCK";

#[derive(Debug)]
struct FileLock {
    _fd: OwnedFd,
}

impl LockGuard for FileLock {}

/// Takes the lock of the directory, or says who holds it.
pub(super) fn take(directory: BorrowedFd<'_>, path: &Path) -> Result<Box<dyn LockGuard>> {
    let lock_path = path.join(LOCK_NAME);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = errors::retry(|| rustix::fs::openat(directory, LOCK_NAME, flags, Mode::from_raw_mode(0o600)))
        .map_err(|e| errors::classify("open", &lock_path, 0, e))?;
    match errors::retry(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(Error::Locked { path: path.into(), pid: owner(&fd) });
        }
        Err(e) => return Err(errors::classify("lock", &lock_path, 0, e)),
    }
    // The id only serves messages: a full disk must not keep a store from being opened and emptied.
    let pid = format!("{}\n", std::process::id());
    let _ = rustix::fs::ftruncate(&fd, 0);
    let _ = rustix::io::pwrite(&fd, pid.as_bytes(), 0);
    Ok(Box::new(FileLock { _fd: fd }))
}

/// The process id in the lock file, 0 where there is none.
fn owner(fd: &OwnedFd) -> u32 {
    let mut text = [0u8; 16];
    let read = rustix::io::pread(fd, &mut text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..read]).ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
}
