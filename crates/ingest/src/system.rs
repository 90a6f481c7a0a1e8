//! What systems name differently: handles that are waited for, standard input, reads at a place, and paths as bytes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// An open input, as the system lends it to whoever waits for it.
#[cfg(unix)]
pub type InputHandle<'a> = std::os::fd::BorrowedFd<'a>;
/// An open input, as the system lends it to whoever waits for it.
#[cfg(windows)]
pub type InputHandle<'a> = std::os::windows::io::BorrowedHandle<'a>;

/// What is lent of an open file.
pub(crate) fn handle(file: &File) -> InputHandle<'_> {
    #[cfg(unix)]
    return std::os::fd::AsFd::as_fd(file);
    #[cfg(windows)]
    return std::os::windows::io::AsHandle::as_handle(file);
}

/// Standard input without the buffer that the standard library puts before it: what lies there would not be seen coming.
pub(crate) fn own_stdin() -> io::Result<File> {
    let stdin = io::stdin();
    #[cfg(unix)]
    let own = std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned()?;
    #[cfg(windows)]
    let own = std::os::windows::io::AsHandle::as_handle(&stdin).try_clone_to_owned()?;
    Ok(File::from(own))
}

/// Opens a file, and a named pipe without waiting for its writer: the first read waits for that, and can be called away.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&path.metadata()?.file_type()) {
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NONBLOCK.bits() as i32,
        );
    }
    options.read(true).open(path)
}

/// Reads some bytes at `offset`; 0 means the end. On Windows the file's cursor moves.
pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, into, offset);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, into, offset);
}

/// Fills `into` from `offset`; as [`read_at`].
pub(crate) fn read_exact_at(file: &File, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        match read_at(file, into, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                into = &mut into[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The path of these bytes, which [`std::ffi::OsStr::as_encoded_bytes`] gave on the same system. `None` where no path is made of
/// them: Windows takes UTF-8 alone here.
pub(crate) fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    #[cfg(unix)]
    return Some(PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)));
    #[cfg(windows)]
    return std::str::from_utf8(bytes).ok().map(PathBuf::from);
}
