//! A directory by its path: what the standard library has on every system.
//!
//! Where it is weaker than by descriptor: the path is looked up at each call, so a directory that is renamed is not found any
//! more, and what stands behind a name is looked at before it is opened, so that a pipe put there in between makes the open wait. A
//! link put there in between is seen on Unix: the file that was opened is not the one that was looked at.

use super::directory::{Directory, IGNORED_DIRECTORIES, OpenFile, Purpose};
use super::{Direct, errors, kind};
use crate::{Error, Result};
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A directory that is known by its path.
#[derive(Debug)]
pub(super) struct PathDirectory {
    path: PathBuf,
}

/// Makes the directory `path` for its owner alone, where the system has such a thing, and its name durable.
pub(super) fn make(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(path);
    #[cfg(not(unix))]
    fs::create_dir(path)
}

/// Makes the names in the directory `path` durable. Windows has no call for it: NTFS logs names by itself.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return fs::File::open(path)?.sync_all();
    #[cfg(not(unix))]
    return path.metadata().map(drop);
}

impl PathDirectory {
    /// Opens the directory `path`, which must exist.
    pub(super) fn open(path: &Path, direct: Direct) -> Result<Self> {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(errors::classify("open", path, 0, ErrorKind::NotADirectory)),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let name = path.to_string_lossy().into_owned();
                return Err(Error::NotFound { what: "directory", name });
            }
            Err(e) => return Err(errors::classify("open", path, 0, e)),
        }
        if direct == Direct::On {
            return Err(Error::InvalidOption {
                name: "direct",
                value: "on".into(),
                why: "files bypass the page cache on Linux alone, and not by the portable calls; choose auto or off".into(),
            });
        }
        // A relative path would mean another directory once the process has moved.
        let path = std::path::absolute(path).map_err(|e| errors::classify("open", path, 0, e))?;
        Ok(Self { path })
    }
}

impl Directory for PathDirectory {
    fn cache(&self) -> &'static str {
        "page cache"
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |e| errors::classify("list", &self.path, 0, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if !kind.is_dir() => names.push(name),
                Ok(_) if !IGNORED_DIRECTORIES.contains(&&*name) => names.push(format!("{name}/")),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str, purpose: Purpose, op: &'static str) -> Result<OpenFile> {
        let path = self.path.join(name);
        let failed = |e: io::Error| errors::classify(op, &path, 0, e);
        let before = match path.symlink_metadata() {
            Ok(_) if purpose == Purpose::Create => return Err(failed(ErrorKind::AlreadyExists.into())),
            Ok(found) => Some(found),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(failed(e)),
        };
        if let Some(found) = &before {
            kind::check(kind::of(found.file_type()), 1, &path, op)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(purpose.writes());
        match purpose {
            Purpose::Create => options.create_new(true),
            Purpose::Lock => options.create(true).truncate(false),
            Purpose::Read | Purpose::Write | Purpose::LookAtLock => &mut options,
        };
        for_owner(&mut options);
        let file = options.open(&path).map_err(failed)?;
        let after = file.metadata().map_err(failed)?;
        kind::check(
            kind::of(after.file_type()),
            if purpose.writes() { names(&after) } else { 1 },
            &path,
            op,
        )?;
        if before.is_some_and(|before| !is_same(&before, &after)) {
            return Err(failed(io::Error::other("another file was put in its place meanwhile; try again")));
        }
        Ok(OpenFile { file, direct: false })
    }

    fn nameless(&self, path: &Path, stem: &str) -> Result<OpenFile> {
        let named = self.path.join(stem);
        let failed = |e| errors::classify("create", path, 0, e);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        for_owner(&mut options);
        // FILE_FLAG_DELETE_ON_CLOSE: the system removes the name with the last handle, also where the process is ended.
        #[cfg(windows)]
        std::os::windows::fs::OpenOptionsExt::custom_flags(&mut options, 0x0400_0000);
        let file = options.open(&named).map_err(failed)?;
        #[cfg(not(windows))]
        fs::remove_file(&named).map_err(failed)?;
        Ok(OpenFile { file, direct: false })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let from = self.path.join(from);
        fs::rename(&from, self.path.join(to)).map_err(|e| errors::classify("rename", &from, 0, e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(|e| errors::classify("remove", &path, 0, e))
    }

    fn sync(&self) -> Result<()> {
        sync(&self.path).map_err(|e| errors::classify("sync", &self.path, 0, e))
    }
}

/// What is made is the owner's alone, where the system has such a thing.
fn for_owner(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

/// How many names a file has; 1 where the system does not say.
fn names(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::nlink(metadata);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        1
    }
}

/// Whether both are of one file, as far as the system tells.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
    #[cfg(not(unix))]
    {
        one.file_type() == other.file_type()
    }
}
