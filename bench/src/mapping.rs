//! A file mapped into memory, for rivals that leave paging to the kernel.
//!
//! The one file of the bench with `unsafe` in it: a memory map is what such a rival is.

use crate::Result;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::path::Path;

/// A whole file as bytes in memory, shared with the file. Nothing else may write or shorten the file meanwhile.
#[derive(Debug)]
pub struct Mapping {
    start: *mut c_void,
    len: usize,
    /// Held open so that the mapping's owner is also the file's.
    _file: File,
}

/// What the kernel is told about the order of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readahead {
    /// `MADV_NORMAL`, the default: a fault also reads the neighbourhood, 128 KiB unless the device is set otherwise.
    Default,
    /// `MADV_RANDOM`: a fault reads one page.
    Off,
}

impl Mapping {
    /// Maps `file`, which exists and is not empty, for reading and writing.
    ///
    /// # Errors
    /// When it cannot be opened, or the kernel refuses.
    pub fn open(file: &Path, readahead: Readahead) -> Result<Self> {
        let handle = File::options().read(true).write(true).open(file)?;
        let len = usize::try_from(handle.metadata()?.len())?;
        // SAFETY: the kernel chooses a fresh range of addresses, so no memory of ours is mapped over; `len` is the
        // file's length, and whoever makes a Mapping keeps others from changing the file.
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, &handle, 0)?
        };
        let mapping = Self { start, len, _file: handle };
        let advice = match readahead {
            Readahead::Default => Advice::Normal,
            Readahead::Off => Advice::Random,
        };
        // SAFETY: the range is the one just mapped, and the advice changes no contents.
        unsafe { madvise(start, len, advice)? };
        Ok(mapping)
    }

    /// The file's bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start` and `len` are a live mapping, readable and writable, that only this object knows; the borrow
        // of `self` is the borrow of the range. Every byte is initialised: they are the file's.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) }
    }

    /// Writes what was changed to the device, and waits for it.
    ///
    /// # Errors
    /// What the device says.
    pub fn sync(&mut self) -> Result<()> {
        // SAFETY: the range is the live mapping, and writing it out changes no memory.
        unsafe { msync(self.start, self.len, MsyncFlags::SYNC)? };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the live mapping, and no borrow of it outlives this object. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_through_the_map_is_in_the_file() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), vec![7u8; 10_000]).expect("written");
        for (readahead, value) in [(Readahead::Default, 1), (Readahead::Off, 2)] {
            let mut mapping = Mapping::open(file.path(), readahead).expect("mapped");
            assert_eq!((mapping.bytes().len(), mapping.bytes()[0]), (10_000, 7));
            mapping.bytes()[9_999] = value;
            mapping.sync().expect("written out");
            assert_eq!(std::fs::read(file.path()).expect("read")[9_999], value);
        }
        assert!(Mapping::open(Path::new("/nonexistent"), Readahead::Off).is_err());
    }
}
