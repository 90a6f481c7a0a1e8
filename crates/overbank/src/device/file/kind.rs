//! What stands behind a name in the directory: a store's files are regular files, and what is written has no second name.
//!
//! Opening must not wait either: a FIFO in the place of a file would hold up whoever opens it until somebody else does. So
//! files are opened with O_NONBLOCK, looked at, and only then made blocking.

use super::errors;
use crate::{Error, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Opens `name`, if it is a regular file and not a link to one. For writing, only if it has no other name.
///
/// # Errors
/// `Ok(Err(errno))` if the system refuses a regular file, or one that is not there; `Io` if it is something else.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    name: &str,
    flags: OFlags,
    path: &Path,
    op: &'static str,
) -> Result<std::result::Result<OwnedFd, Errno>> {
    let failed = |e| errors::classify(op, path, 0, e);
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
    let opened = errors::retry(|| rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600)));
    let fd = match opened {
        Ok(fd) => fd,
        Err(errno) => {
            if let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                && errno != Errno::EXIST
            {
                check(&stat, OFlags::empty(), path, op)?;
            }
            return Ok(Err(errno));
        }
    };
    check(&rustix::fs::fstat(&fd).map_err(failed)?, flags, path, op)?;
    let status = rustix::fs::fcntl_getfl(&fd).map_err(failed)?;
    rustix::fs::fcntl_setfl(&fd, status - OFlags::NONBLOCK).map_err(failed)?;
    Ok(Ok(fd))
}

fn check(stat: &Stat, flags: OFlags, path: &Path, op: &'static str) -> Result<()> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink > 1 && flags.contains(OFlags::RDWR) => {
            let names = stat.st_nlink;
            return refuse(
                op,
                path,
                format!(
                    "it has {names} names (hard links), and writing would change what the others hold; \
                 put a copy of it in its place"
                ),
            );
        }
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    };
    refuse(
        op,
        path,
        format!("it is {kind}, and a store's files are regular files; put the file itself in its place"),
    )
}

fn refuse(op: &'static str, path: &Path, why: String) -> Result<()> {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
    Err(Error::Io { op, path: path.into(), source })
}
