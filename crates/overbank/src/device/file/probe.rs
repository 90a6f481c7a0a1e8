//! What the kernel, the container and the file system allow, found out by trying.

use super::{Direct, DirectChoice, Engine, FileOptions, errors, ring};
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The engine that will be used: never `Auto`.
pub(super) fn engine(options: &FileOptions) -> Result<Engine> {
    let ring = || if options.refuse_io_uring { Err(Errno::PERM.into()) } else { ring::probe() };
    match options.engine {
        Engine::Threads => Ok(Engine::Threads),
        Engine::Auto => Ok(if ring().is_ok() { Engine::IoUring } else { Engine::Threads }),
        Engine::IoUring => match ring() {
            Ok(()) => Ok(Engine::IoUring),
            Err(e) => Err(Error::InvalidOption {
                name: "engine",
                value: "io_uring".into(),
                why: format!("the kernel or the container refuses it ({e}); choose auto or threads"),
            }),
        },
    }
}

/// Tries one block of O_DIRECT on a file without a name, there and back.
///
/// Where such a file cannot be made (a read-only directory, a file system without them), each file is tried as it opens.
pub(super) fn direct(directory: BorrowedFd<'_>, path: &Path, wanted: Direct) -> Result<DirectChoice> {
    let outcome = match wanted {
        Direct::Off => return Ok(DirectChoice::Never),
        Direct::On | Direct::Auto => there_and_back(directory),
    };
    match (outcome, wanted) {
        (Ok(()), Direct::On) => Ok(DirectChoice::Always),
        (Err(Errno::INVAL), Direct::On) => Err(Error::InvalidOption {
            name: "direct",
            value: "on".into(),
            why: format!("the file system of {} refuses O_DIRECT; choose auto or off", path.display()),
        }),
        (Err(_), Direct::On) => Ok(DirectChoice::Always),
        (Err(Errno::INVAL), _) => Ok(DirectChoice::Never),
        (Ok(()) | Err(_), _) => Ok(DirectChoice::Try),
    }
}

fn there_and_back(directory: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT | OFlags::CLOEXEC;
    let fd = errors::retry(|| rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o600)))?;
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    errors::retry(|| rustix::io::pwrite(&fd, &block, 0))?;
    errors::retry(|| rustix::io::pread(&fd, &mut *block, 0))?;
    Ok(())
}
