//! Files of rivals, past the page cache: opened, written with zeros, measured.

use crate::{Result, forget_file};
use overbank::device::AlignedBuf;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Writes a new file of `bytes` zeros, a multiple of a block, and puts it out of the page cache. Written, not reserved:
/// the file system then knows where each block lies, and reading one costs a read.
///
/// # Errors
/// When there is a file of that name, or no room.
pub fn write_zeros(path: &Path, bytes: u64) -> Result<()> {
    let zeros = AlignedBuf::zeroed(1 << 20);
    let mut options = OpenOptions::new();
    let mut file = open_direct(path, options.write(true).create_new(true))?;
    let mut left = usize::try_from(bytes)?;
    while left > 0 {
        let piece = left.min(zeros.len());
        file.write_all(&zeros[..piece])?;
        left -= piece;
    }
    drop(file);
    forget_file(path)
}

/// Opens past the page cache, or through it where the file system cannot.
///
/// # Errors
/// When it cannot be opened.
pub fn open_direct(path: &Path, options: &mut OpenOptions) -> Result<File> {
    let direct = i32::try_from(OFlags::DIRECT.bits())?;
    let file = options.custom_flags(direct).open(path);
    Ok(file.or_else(|_| options.custom_flags(0).open(path))?)
}

/// What the files of a folder take together.
///
/// # Errors
/// When it cannot be listed.
pub fn folder_bytes(folder: &Path) -> Result<u64> {
    Ok(files(folder)?.iter().map(|file| file.0).sum())
}

/// The largest file of a folder.
///
/// # Errors
/// When it has none, or cannot be listed.
pub fn largest_file(folder: &Path) -> Result<PathBuf> {
    let largest = files(folder)?.into_iter().max().ok_or_else(|| format!("{} is empty", folder.display()))?;
    Ok(largest.1)
}

/// Length and path of each file.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_zeros_has_its_length_and_is_not_written_over() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("zeros");
        assert!(largest_file(folder.path()).is_err());
        write_zeros(&path, (1 << 20) + 4096).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), vec![0; (1 << 20) + 4096]);
        assert!(write_zeros(&path, 4096).is_err(), "nothing is written over");
        write_zeros(&folder.path().join("other"), 4096).expect("written");
        assert_eq!(largest_file(folder.path()).expect("listed"), path);
        assert_eq!(folder_bytes(folder.path()).expect("listed"), (1 << 20) + 8192);
    }
}
