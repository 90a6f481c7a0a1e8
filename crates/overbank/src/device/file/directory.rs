//! A directory of the file system, by one of two ways.
//!
//! ```text
//!   FileDevice ──▶ trait Directory
//!                    ├── descriptor   Linux: every call goes through the open directory, files may bypass the page cache
//!                    └── by_path      every system, by what the standard library has of files; also on Linux, where it is asked for
//! ```

use crate::Result;
use std::fmt::Debug;
use std::fs::File;
use std::path::Path;

/// What every directory of some file systems holds: `.`, `..`, and the checker's own place in the root of ext4.
pub(super) const IGNORED_DIRECTORIES: [&str; 3] = [".", "..", "lost+found"];

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Read,
    Write,
    /// To be made, read and written; it must not be there.
    Create,
    /// To be read and written, and made if it is not there, through the page cache: the writer's lock.
    Lock,
    /// To see who has the lock, through the page cache.
    LookAtLock,
}

impl Purpose {
    pub(super) fn writes(self) -> bool {
        matches!(self, Purpose::Write | Purpose::Create | Purpose::Lock)
    }
}

/// An open file, and whether it bypasses the page cache.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) direct: bool,
}

/// A directory. Names were checked: each is one component.
pub(super) trait Directory: Send + Sync + Debug {
    /// How its files use the page cache, for `describe`.
    fn cache(&self) -> &'static str;
    /// The names of all files, and those of directories with `/` at their ends, in any order.
    fn list(&self) -> Result<Vec<String>>;
    /// Opens a regular file; `op` is what the caller does, for messages. To write, only if it has no other name.
    fn open(&self, name: &str, purpose: Purpose, op: &'static str) -> Result<OpenFile>;
    /// A new file that goes when it is closed, and has no name already where the system allows that; `stem` is nobody else's.
    fn nameless(&self, path: &Path, stem: &str) -> Result<OpenFile>;
    /// Renames, replacing `to`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes names durable, where the system has a call for it.
    fn sync(&self) -> Result<()>;
}
