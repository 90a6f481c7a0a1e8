//! What the baselines share: cells in bytes, and the operations that a contest asks of them.

use crate::Result;
use keyhash::KeyHash;
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
}
