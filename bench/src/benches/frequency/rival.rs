//! What the baselines share: cells in bytes, files of zeros, and the operations that a contest asks of them.

use crate::{Result, forget_file};
use keyhash::KeyHash;
use overbank::device::AlignedBuf;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Instant;

/// A count-min sketch on flash as others build it.
pub(super) trait Rival {
    /// Adds 1 to a key.
    fn insert(&mut self, hash: KeyHash) -> Result<()>;

    /// Moves what waits in RAM to the sketch, as far as it comes until then, and syncs the file.
    fn finish(&mut self, until: Instant) -> Result<()>;

    /// How many updates have reached the sketch.
    fn applied(&self) -> u64;

    /// The count of a key, updates that wait included; too high perhaps, too low never.
    fn estimate(&mut self, hash: KeyHash) -> Result<u64>;
}

/// How wide a counter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    Four,
    Eight,
}

impl Cell {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    pub(super) const fn bits(self) -> u32 {
        8 * self.bytes() as u32
    }

    /// Adds 1 to cell `at`, or leaves it at its maximum.
    pub(super) fn add_one(self, cells: &mut [u8], at: usize) {
        match self {
            Self::Four => {
                let cell = &mut cells.as_chunks_mut::<4>().0[at];
                *cell = u32::from_le_bytes(*cell).saturating_add(1).to_le_bytes();
            }
            Self::Eight => {
                let cell = &mut cells.as_chunks_mut::<8>().0[at];
                *cell = u64::from_le_bytes(*cell).saturating_add(1).to_le_bytes();
            }
        }
    }

    pub(super) fn get(self, cells: &[u8], at: usize) -> u64 {
        match self {
            Self::Four => u32::from_le_bytes(cells.as_chunks::<4>().0[at]).into(),
            Self::Eight => u64::from_le_bytes(cells.as_chunks::<8>().0[at]),
        }
    }
}

/// Writes a new file of `bytes` zeros, a multiple of a block, and puts it out of the page cache. Written, not reserved:
/// the file system then knows where each block lies, and reading one costs a read.
pub(super) fn write_zeros(path: &Path, bytes: u64) -> Result<()> {
    let zeros = AlignedBuf::zeroed(1 << 20);
    let mut options = OpenOptions::new();
    let mut file = open_direct(path, options.write(true).create_new(true))?;
    let mut left = bytes as usize;
    while left > 0 {
        let piece = left.min(zeros.len());
        file.write_all(&zeros[..piece])?;
        left -= piece;
    }
    drop(file);
    forget_file(path)
}

/// Opens past the page cache, or through it where the file system cannot.
pub(super) fn open_direct(path: &Path, options: &mut OpenOptions) -> Result<File> {
    let direct = i32::try_from(OFlags::DIRECT.bits())?;
    let file = options.custom_flags(direct).open(path);
    Ok(file.or_else(|_| options.custom_flags(0).open(path))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_count_up_to_their_maximum_and_touch_no_neighbour() {
        let mut cells = [0u8; 16];
        Cell::Four.add_one(&mut cells, 1);
        Cell::Four.add_one(&mut cells, 1);
        assert_eq!([0, 1, 2].map(|at| Cell::Four.get(&cells, at)), [0, 2, 0]);
        cells[8..].fill(0xff);
        Cell::Eight.add_one(&mut cells, 1);
        assert_eq!([0, 1].map(|at| Cell::Eight.get(&cells, at)), [2 << 32, u64::MAX]);
        Cell::Four.add_one(&mut cells, 3);
        assert_eq!(Cell::Four.get(&cells, 3), u64::from(u32::MAX));
    }

    #[test]
    fn a_file_of_zeros_has_its_length() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("zeros");
        write_zeros(&path, (1 << 20) + 4096).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), vec![0; (1 << 20) + 4096]);
        assert!(write_zeros(&path, 4096).is_err(), "nothing is written over");
    }
}
