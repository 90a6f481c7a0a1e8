//! The calls on an open file that systems name differently: reads and writes at a place, and the sync.

use std::fs::File;
use std::io;

/// Reads some bytes at `offset`; 0 means the end.
#[cfg(unix)]
pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, offset)
}

/// Writes some bytes at `offset`.
#[cfg(unix)]
pub(super) fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, data, offset)
}

/// Reads some bytes at `offset`; 0 means the end. The file's cursor moves, and nobody here uses it.
#[cfg(windows)]
pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset)
}

/// Writes some bytes at `offset`. The file's cursor moves, and nobody here uses it.
#[cfg(windows)]
pub(super) fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, data, offset)
}

/// Makes data and length durable, by one call that is never repeated, not even where a signal interrupts it: a second one could
/// report success for pages that are gone.
#[cfg(target_os = "linux")]
pub(super) fn sync(file: &File) -> io::Result<()> {
    // fdatasync also makes durable whatever of the metadata is needed to read the data back: the length is.
    Ok(rustix::fs::fdatasync(file)?)
}

/// Makes data and length durable. On Apple's systems the standard library asks for more than `fsync` does: that the drive empties
/// its cache.
#[cfg(not(target_os = "linux"))]
pub(super) fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}
