//! What stands behind a name in the directory: a store's files are regular files, and what is written has no second name.

use crate::{Error, Result};
use std::fs::FileType;
use std::path::Path;

/// Refuses what is no regular file: `kind` names it, and is `None` for one that is. And refuses one that is to be written and has
/// several `names`.
pub(super) fn check(kind: Option<&str>, names: u64, path: &Path, op: &'static str) -> Result<()> {
    let why = match kind {
        None if names <= 1 => return Ok(()),
        None => format!(
            "it has {names} names (hard links), and writing would change what the others hold; put a copy of it in its place"
        ),
        Some(kind) => {
            format!("it is {kind}, and a store's files are regular files; put the file itself in its place")
        }
    };
    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
    Err(Error::Io { op, path: path.into(), source })
}

/// What a file is that is no regular one.
pub(super) fn of(file_type: FileType) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let special = [
            (file_type.is_fifo(), "a named pipe"),
            (file_type.is_socket(), "a socket"),
            (file_type.is_char_device() || file_type.is_block_device(), "a device"),
        ];
        if let Some((_, word)) = special.iter().find(|(is, _)| *is) {
            return Some(word);
        }
    }
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("a directory")
    } else if file_type.is_symlink() {
        Some("a symbolic link")
    } else {
        Some("of an unknown kind")
    }
}
