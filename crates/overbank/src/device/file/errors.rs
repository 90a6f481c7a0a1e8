//! From the operating system's error numbers to [`Error`].

use crate::Error;
use rustix::io::Errno;
use std::path::Path;

/// Repeats a call that a signal interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// The error for `op` on `path`, which wanted `needed_bytes` more.
pub(super) fn classify(op: &'static str, path: &Path, needed_bytes: u64, errno: Errno) -> Error {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match errno {
        Errno::NOSPC | Errno::DQUOT => Error::Full { path: path.into(), needed_bytes },
        Errno::NOENT => Error::NotFound { what: "file", name: name() },
        Errno::EXIST => Error::AlreadyExists { what: "file", name: name() },
        errno => Error::Io { op, path: path.into(), source: errno.into() },
    }
}
