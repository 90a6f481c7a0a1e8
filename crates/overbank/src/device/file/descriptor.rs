//! A directory by its descriptor, on Linux: a name never becomes a path, and files bypass the page cache where they can.
//!
//! Opening must not wait: a FIFO in the place of a file would hold up whoever opens it until somebody else does. So
//! files are opened with O_NONBLOCK, looked at, and only then made blocking.

use super::directory::{Directory, IGNORED_DIRECTORIES, OpenFile, Purpose};
use super::errors::{self, retry};
use super::{Direct, kind};
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::{Error, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that is known by its descriptor; the path serves messages.
#[derive(Debug)]
pub(super) struct DescriptorDirectory {
    fd: OwnedFd,
    path: PathBuf,
    direct: DirectChoice,
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

impl DescriptorDirectory {
    /// Opens the directory `path`, which must exist, and probes O_DIRECT.
    pub(super) fn open(path: &Path, direct: Direct) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = retry(|| rustix::fs::open(path, flags, Mode::empty())).map_err(|e| match e {
            Errno::NOENT => Error::NotFound { what: "directory", name: path.to_string_lossy().into_owned() },
            e => errors::classify("open", path, 0, e),
        })?;
        let direct = probe(&fd, path, direct)?;
        Ok(Self { fd, path: path.into(), direct })
    }

    /// Opens by `attempt`, which is told whether to ask for O_DIRECT; its second try comes after the file system has refused that.
    fn open_by(
        &self,
        attempt: impl Fn(bool, bool) -> Result<rustix::io::Result<File>>,
    ) -> Result<rustix::io::Result<OpenFile>> {
        let (opened, direct) = match self.direct {
            DirectChoice::Never => (attempt(false, false)?, false),
            DirectChoice::Always => (attempt(true, false)?, true),
            DirectChoice::Try => match attempt(true, false)? {
                Err(Errno::INVAL) => (attempt(false, true)?, false),
                outcome => (outcome, true),
            },
        };
        Ok(opened.map(|file| OpenFile { file, direct }))
    }

    /// Opens `name`, if it is a regular file and not a link to one. `Ok(Err(errno))` if the system refuses a regular file, or one
    /// that is not there; `Io` if it is something else.
    fn open_regular(
        &self,
        name: &str,
        flags: OFlags,
        path: &Path,
        op: &'static str,
    ) -> Result<rustix::io::Result<File>> {
        let failed = |e: Errno| errors::classify(op, path, 0, e);
        let all = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = match retry(|| rustix::fs::openat(&self.fd, name, all, Mode::from_raw_mode(0o600))) {
            Ok(fd) => fd,
            Err(errno) => {
                if let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    && errno != Errno::EXIST
                {
                    kind::check(kind_of(FileType::from_raw_mode(stat.st_mode)), 1, path, op)?;
                }
                return Ok(Err(errno));
            }
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|e| errors::classify(op, path, 0, e))?;
        let names = if flags.contains(OFlags::RDWR) { metadata.nlink() } else { 1 };
        kind::check(kind::of(metadata.file_type()), names, path, op)?;
        let status = rustix::fs::fcntl_getfl(&file).map_err(failed)?;
        rustix::fs::fcntl_setfl(&file, status - OFlags::NONBLOCK).map_err(failed)?;
        Ok(Ok(file))
    }
}

impl Directory for DescriptorDirectory {
    fn cache(&self) -> &'static str {
        match self.direct {
            DirectChoice::Always => "O_DIRECT",
            DirectChoice::Try => "O_DIRECT where a file allows it",
            DirectChoice::Never => "page cache",
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |e: Errno| errors::classify("list", &self.path, 0, e);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                match rustix::fs::statat(&self.fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => kind = FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(e) => return Err(failed(e)),
                }
            }
            match kind {
                FileType::Directory if !IGNORED_DIRECTORIES.contains(&&*name) => {
                    names.push(format!("{name}/"))
                }
                FileType::Directory => {}
                _ => names.push(name),
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str, purpose: Purpose, op: &'static str) -> Result<OpenFile> {
        let path = self.path.join(name);
        let flags = match purpose {
            Purpose::Read | Purpose::LookAtLock => OFlags::RDONLY,
            Purpose::Write => OFlags::RDWR,
            Purpose::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Purpose::Lock => OFlags::RDWR | OFlags::CREATE,
        };
        let opened = match purpose {
            Purpose::Lock | Purpose::LookAtLock => {
                self.open_regular(name, flags, &path, op)?.map(|file| OpenFile { file, direct: false })
            }
            Purpose::Read | Purpose::Write | Purpose::Create => self.open_by(|direct, is_second| {
                let flags = if direct { flags | OFlags::DIRECT } else { flags };
                // A file system that refuses O_DIRECT does so after it has made the name.
                let flags = if is_second { flags - OFlags::EXCL } else { flags };
                self.open_regular(name, flags, &path, op)
            })?,
        };
        opened.map_err(|e| errors::classify(op, &path, 0, e))
    }

    fn nameless(&self, path: &Path, stem: &str) -> Result<OpenFile> {
        let mode = Mode::from_raw_mode(0o600);
        let opened = self.open_by(|direct, _| {
            let flags =
                OFlags::RDWR | OFlags::CLOEXEC | if direct { OFlags::DIRECT } else { OFlags::empty() };
            let nameless = OFlags::TMPFILE | OFlags::EXCL;
            let made = match retry(|| rustix::fs::openat(&self.fd, ".", flags | nameless, mode)) {
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
                    let create = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                    let made = retry(|| rustix::fs::openat(&self.fd, stem, create, mode));
                    // O_DIRECT is refused only once the name is there.
                    if made.is_ok() || made.as_ref().err() == Some(&Errno::INVAL) {
                        let _ = retry(|| rustix::fs::unlinkat(&self.fd, stem, AtFlags::empty()));
                    }
                    made
                }
                made => made,
            };
            Ok(made.map(File::from))
        })?;
        opened.map_err(|e| errors::classify("create", path, 0, e))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        retry(|| rustix::fs::renameat(&self.fd, from, &self.fd, to))
            .map_err(|e| errors::classify("rename", &self.path.join(from), 0, e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        retry(|| rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()))
            .map_err(|e| errors::classify("remove", &self.path.join(name), 0, e))
    }

    fn sync(&self) -> Result<()> {
        retry(|| rustix::fs::fsync(&self.fd)).map_err(|e| errors::classify("sync", &self.path, 0, e))
    }
}

/// What stands behind a name that could not be opened, if it is no regular file.
fn kind_of(file_type: FileType) -> Option<&'static str> {
    match file_type {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a named pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        FileType::Unknown => Some("of an unknown kind"),
    }
}

/// Tries one block of O_DIRECT on a file without a name, there and back.
///
/// Where such a file cannot be made (a read-only directory, a file system without them), each file is tried as it opens.
fn probe(directory: &OwnedFd, path: &Path, wanted: Direct) -> Result<DirectChoice> {
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

fn there_and_back(directory: &OwnedFd) -> rustix::io::Result<()> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT | OFlags::CLOEXEC;
    let fd = retry(|| rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o600)))?;
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    retry(|| rustix::io::pwrite(&fd, &block, 0))?;
    retry(|| rustix::io::pread(&fd, &mut *block, 0))?;
    Ok(())
}
