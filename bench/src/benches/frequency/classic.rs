//! The classic count-min sketch on a memory map: rows one after the other, each cell of a key on a page of its own.

use super::DEPTH;
use super::rival::{Cell, Rival};
use crate::{Mapping, Readahead, Result};
use keyhash::{KeyHash, columns};
use std::path::Path;
use std::time::Instant;

pub(super) struct Classic {
    map: Mapping,
    cell: Cell,
    width: usize,
    inserted: u64,
}

impl Classic {
    /// The sketch in `file`, which is as long as the sketch.
    pub(super) fn open(file: &Path, cell: Cell, readahead: Readahead) -> Result<Self> {
        let mut map = Mapping::open(file, readahead)?;
        let width = map.bytes().len() / cell.bytes() / DEPTH;
        Ok(Self { map, cell, width, inserted: 0 })
    }

    fn cells_of(&self, hash: KeyHash) -> [usize; DEPTH] {
        let columns = columns::<DEPTH>(hash.fold(), self.width as u64);
        std::array::from_fn(|row| row * self.width + columns[row] as usize)
    }
}

impl Rival for Classic {
    fn insert(&mut self, hash: KeyHash) -> Result<()> {
        for at in self.cells_of(hash) {
            self.cell.add_one(self.map.bytes(), at);
        }
        self.inserted += 1;
        Ok(())
    }

    fn finish(&mut self, _: Instant) -> Result<()> {
        self.map.sync()
    }

    fn applied(&self) -> u64 {
        self.inserted
    }

    fn estimate(&mut self, hash: KeyHash) -> Result<u64> {
        let cells = self.cells_of(hash);
        let least = cells.iter().map(|&at| self.cell.get(self.map.bytes(), at)).min();
        Ok(least.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::hasher;
    use super::*;
    use crate::{Workload, write_zeros};
    use std::collections::HashMap;

    /// Against a map of counts: never too low, and exact once the sketch is far wider than the stream.
    #[test]
    fn estimates_are_never_too_low_and_exact_in_a_wide_sketch() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (bytes, cell, is_wide) in [(4096, Cell::Four, false), (4 << 20, Cell::Eight, true)] {
            let file = folder.path().join(bytes.to_string());
            write_zeros(&file, bytes).expect("written");
            let mut sketch = Classic::open(&file, cell, Readahead::Off).expect("mapped");
            let mut counts: HashMap<u64, u64> = HashMap::new();
            for key in Workload::Zipf(1.1).keys(2_000, 1) {
                sketch.insert(hasher().hash(&key.to_le_bytes())).expect("counted");
                *counts.entry(key).or_default() += 1;
            }
            sketch.finish(Instant::now()).expect("synced");
            assert_eq!(sketch.applied(), 2_000);
            let mut again = Classic::open(&file, cell, Readahead::Default).expect("mapped again");
            for row in 0..DEPTH {
                let cells = row * again.width..(row + 1) * again.width;
                let sum: u64 = cells.map(|at| cell.get(again.map.bytes(), at)).sum();
                assert_eq!(sum, 2_000, "each update is one cell of row {row}");
            }
            let mut too_high = 0;
            for (key, &count) in &counts {
                let estimate = again.estimate(hasher().hash(&key.to_le_bytes())).expect("read");
                assert!(estimate >= count, "{estimate} for {count}");
                too_high += usize::from(estimate > count);
            }
            // 1,100 keys in rows of 204 columns meet everywhere; in rows of 104,857, five times over, nowhere.
            assert_eq!(too_high == 0, is_wide, "{too_high} of {}", counts.len());
        }
    }
}
