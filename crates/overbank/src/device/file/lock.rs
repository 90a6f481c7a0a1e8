//! The writer lock: an advisory lock on the file `LOCK`, which holds its owner's process id.
//!
//! The lock (`flock`, on Windows `LockFileEx`) belongs to the open file, so a second open in the same process is refused as well,
//! and the kernel gives it back when the owner dies. Windows keeps others from reading a locked file, so there the id is not known. The
//! file stays when the lock is released: removing it could hand two writers a lock each.
//!
//! A fork shares the open file, and with it the lock. The process that took the lock unlocks it for all copies; a copy that
//! another process drops is only closed, which unlocks nothing.

use super::directory::{Directory, Purpose};
use super::{calls, errors};
use crate::device::{LockGuard, Process};
use crate::{Error, Result};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

/// The lock's file name; reserved, so it is neither listed nor opened.
pub(super) const LOCK_NAME: &str = "LOCK";

/// The longest process id, with its line end and room to see that something else stands there.
const CONTENT_BYTES: usize = 16;

#[derive(Debug)]
struct FileLock {
    file: File,
    owner: Process,
}

impl LockGuard for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.owner.is_current() {
            // While it is still ours. Whoever finds an id in the file knows that its owner did not come to an end here.
            let _ = self.file.set_len(0);
            let _ = self.file.unlock();
        }
    }
}

/// Takes the lock of the directory, or says who holds it.
pub(super) fn take(directory: &dyn Directory, path: &Path) -> Result<Box<dyn LockGuard>> {
    let lock_path = path.join(LOCK_NAME);
    let file = directory.open(LOCK_NAME, Purpose::Lock, "lock")?.file;
    match without_signals(|| file.try_lock()) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::Locked { path: path.into(), pid: content(&file).unwrap_or(0) });
        }
        Err(TryLockError::Error(e)) => return Err(errors::classify("lock", &lock_path, 0, e)),
    }
    if content(&file).is_none() {
        let why = "it holds something else than a process id, so it is not a store's; move it away";
        let source = std::io::Error::new(ErrorKind::InvalidData, why);
        return Err(Error::Io { op: "lock", path: lock_path, source });
    }
    // The id only serves messages: a full disk must not keep a store from being opened and emptied.
    let id = format!("{}\n", std::process::id());
    let _ = file.set_len(0);
    let _ = calls::write_at(&file, id.as_bytes(), 0);
    Ok(Box::new(FileLock { file, owner: Process::current() }))
}

/// The process that holds the lock, if one does; 0 where it is not known.
pub(super) fn holder(directory: &dyn Directory, path: &Path) -> Result<Option<u32>> {
    let failed = |op, e| errors::classify(op, &path.join(LOCK_NAME), 0, e);
    let file = match directory.open(LOCK_NAME, Purpose::LookAtLock, "open") {
        Err(Error::NotFound { .. }) => return Ok(None),
        opened => opened?.file,
    };
    let id = content(&file).unwrap_or(0);
    if file.metadata().map_err(|e| failed("inspect", e))?.len() == 0 {
        // The last holder came to its end. Asking the lock itself could be in the way of one that takes it now.
        return Ok(None);
    }
    match without_signals(|| file.try_lock_shared()) {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(id)),
        Err(TryLockError::Error(e)) => Err(failed("lock", e)),
    }
}

/// Repeats a call that a signal interrupted.
fn without_signals(
    call: impl Fn() -> std::result::Result<(), TryLockError>,
) -> std::result::Result<(), TryLockError> {
    loop {
        match call() {
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// The process id in the lock file, 0 where it is empty; `None` where it holds anything else.
fn content(file: &File) -> Option<u32> {
    let mut text = [0u8; CONTENT_BYTES];
    let read = calls::read_at(file, &mut text, 0).ok()?;
    match text.get(..read)? {
        [] => Some(0),
        text => std::str::from_utf8(text).ok()?.strip_suffix('\n')?.parse().ok(),
    }
}
