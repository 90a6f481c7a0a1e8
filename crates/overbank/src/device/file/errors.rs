//! From the operating system's errors to [`Error`].

use crate::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Repeats a call that a signal interrupted.
#[cfg(target_os = "linux")]
pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// The error for `op` on `path`, which wanted `needed_bytes` more.
pub(super) fn classify(
    op: &'static str,
    path: &Path,
    needed_bytes: u64,
    source: impl Into<io::Error>,
) -> Error {
    let source = source.into();
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { path: path.into(), needed_bytes },
        ErrorKind::NotFound => Error::NotFound { what: "file", name: name() },
        ErrorKind::AlreadyExists => Error::AlreadyExists { what: "file", name: name() },
        _ => match files_max(&source) {
            Some(files_max) => Error::TooManyFiles { op, path: path.into(), files_max },
            None => Error::Io { op, path: path.into(), source },
        },
    }
}

/// How many files this process may have open, if an error says that there are so many.
#[cfg(target_os = "linux")]
fn files_max(error: &io::Error) -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let is_limit = error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error());
    if is_limit { getrlimit(Resource::Nofile).current } else { None }
}

#[cfg(not(target_os = "linux"))]
fn files_max(_: &io::Error) -> Option<u64> {
    None
}
