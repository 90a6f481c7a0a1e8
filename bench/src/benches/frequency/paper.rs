//! The paper's own design (section 3): hash localisation, column-first pages, and a sub-buffer in RAM for each page.
//!
//! ```text
//!   hash ─▶ page h0 ─▶ sub-buffer of that page ──full──▶ read page, add all of it, write page
//! ```
//!
//! Where it is unlike the paper, it is faster: pages go past the page cache, so that all RAM is buffer; an entry is five
//! columns of 2 bytes instead of five hashes; an estimate writes its page back only if its sub-buffer was not empty.

use super::DEPTH;
use super::rival::{Cell, Rival};
use crate::{Result, open_direct};
use keyhash::{KeyHash, columns, range_of};
use overbank::device::{AlignedBuf, BLOCK_BYTES};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

/// What waits in a sub-buffer for one update: its column in each row.
type Entry = [u16; DEPTH];

pub(super) struct Paper {
    file: File,
    cell: Cell,
    /// Columns of one page.
    columns: u64,
    /// Entries that a sub-buffer holds.
    capacity: usize,
    /// The sub-buffers one after the other, and how full each is.
    entries: Vec<Entry>,
    filled: Vec<u16>,
    /// The page that was read last.
    block: AlignedBuf,
    applied: u64,
}

impl Paper {
    /// The sketch in `file`, whole pages long, with sub-buffers of `buffer_bytes` together, past the page cache.
    pub(super) fn open(file: &Path, cell: Cell, buffer_bytes: usize) -> Result<Self> {
        let file = open_direct(file, OpenOptions::new().read(true).write(true))?;
        Self::with_file(file, cell, buffer_bytes)
    }

    /// The same through the page cache, to build a sketch that is then asked.
    pub(super) fn open_cached(file: &Path, cell: Cell, buffer_bytes: usize) -> Result<Self> {
        let file = File::options().read(true).write(true).open(file)?;
        Self::with_file(file, cell, buffer_bytes)
    }

    fn with_file(file: File, cell: Cell, buffer_bytes: usize) -> Result<Self> {
        let pages = usize::try_from(file.metadata()?.len())? / BLOCK_BYTES;
        let sub_buffer_bytes = buffer_bytes / pages.max(1);
        let capacity = (sub_buffer_bytes.saturating_sub(size_of::<u16>()) / size_of::<Entry>())
            .clamp(1, u16::MAX.into());
        Ok(Self {
            file,
            cell,
            columns: (BLOCK_BYTES / cell.bytes() / DEPTH) as u64,
            capacity,
            entries: vec![[0; DEPTH]; pages * capacity],
            filled: vec![0; pages],
            block: AlignedBuf::zeroed(BLOCK_BYTES),
            applied: 0,
        })
    }

    fn page_of(&self, hash: KeyHash) -> usize {
        range_of(hash.high(), self.filled.len() as u64) as usize
    }

    fn read(&mut self, page: usize) -> Result<()> {
        Ok(self.file.read_exact_at(&mut self.block, (page * BLOCK_BYTES) as u64)?)
    }

    /// Empties one sub-buffer into its page; `block` is that page then.
    fn flush(&mut self, page: usize) -> Result<()> {
        self.read(page)?;
        let filled = usize::from(std::mem::take(&mut self.filled[page]));
        for entry in &self.entries[page * self.capacity..][..filled] {
            for (row, &column) in entry.iter().enumerate() {
                self.cell.add_one(&mut self.block, usize::from(column) * DEPTH + row);
            }
        }
        self.file.write_all_at(&self.block, (page * BLOCK_BYTES) as u64)?;
        self.applied += filled as u64;
        Ok(())
    }
}

impl Rival for Paper {
    fn insert(&mut self, hash: KeyHash) -> Result<()> {
        let page = self.page_of(hash);
        let at = page * self.capacity + usize::from(self.filled[page]);
        self.entries[at] = columns::<DEPTH>(hash.fold(), self.columns).map(|column| column as u16);
        self.filled[page] += 1;
        if usize::from(self.filled[page]) == self.capacity {
            self.flush(page)?;
        }
        Ok(())
    }

    fn finish(&mut self, until: Instant) -> Result<()> {
        for page in 0..self.filled.len() {
            if self.filled[page] > 0 {
                self.flush(page)?;
                if Instant::now() >= until {
                    break;
                }
            }
        }
        Ok(self.file.sync_data()?)
    }

    fn applied(&self) -> u64 {
        self.applied
    }

    fn estimate(&mut self, hash: KeyHash) -> Result<u64> {
        let page = self.page_of(hash);
        if self.filled[page] > 0 {
            self.flush(page)?;
        } else {
            self.read(page)?;
        }
        let columns = columns::<DEPTH>(hash.fold(), self.columns);
        let cells = columns.iter().enumerate().map(|(row, &column)| column as usize * DEPTH + row);
        Ok(cells.map(|at| self.cell.get(&self.block, at)).min().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::hasher;
    use super::*;
    use crate::{Workload, write_zeros};
    use std::collections::HashMap;
    use std::time::Duration;

    const PAGES: u64 = 8;

    /// The obvious version: a map of cells, and nothing waits.
    #[derive(Default)]
    struct Model {
        cells: HashMap<(u64, usize, u64), u64>,
        counts: HashMap<u64, u64>,
    }

    impl Model {
        fn cells_of(key: u64, cell: Cell) -> [(u64, usize, u64); DEPTH] {
            let hash = hasher().hash(&key.to_le_bytes());
            let columns = columns::<DEPTH>(hash.fold(), (4096 / cell.bytes() / DEPTH) as u64);
            std::array::from_fn(|row| (range_of(hash.high(), PAGES), row, columns[row]))
        }

        fn insert(&mut self, key: u64, cell: Cell) {
            *self.counts.entry(key).or_default() += 1;
            for place in Self::cells_of(key, cell) {
                *self.cells.entry(place).or_default() += 1;
            }
        }

        fn estimate(&self, key: u64, cell: Cell) -> u64 {
            let cells = Self::cells_of(key, cell);
            cells.iter().map(|place| self.cells.get(place).copied().unwrap_or(0)).min().unwrap_or(0)
        }
    }

    /// The same counts as without sub-buffers, whether an update waits in one, was flushed by a full one, by an estimate,
    /// or at the end.
    #[test]
    fn estimates_are_those_of_a_localised_sketch_without_buffers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (i, (cell, buffer_bytes)) in
            [(Cell::Four, 1), (Cell::Eight, 1000), (Cell::Four, 1 << 20)].into_iter().enumerate()
        {
            let file = folder.path().join(i.to_string());
            write_zeros(&file, PAGES * 4096).expect("written");
            let mut sketch = Paper::open(&file, cell, buffer_bytes).expect("opened");
            let mut model = Model::default();
            for (at, key) in Workload::Zipf(1.0).keys(4_000, 3).into_iter().enumerate() {
                sketch.insert(hasher().hash(&key.to_le_bytes())).expect("counted");
                model.insert(key, cell);
                if at % 7 == 0 {
                    let estimate = sketch.estimate(hasher().hash(&key.to_le_bytes())).expect("read");
                    assert_eq!(estimate, model.estimate(key, cell));
                }
            }
            sketch.finish(Instant::now() + Duration::from_secs(3600)).expect("flushed");
            assert_eq!(sketch.applied(), 4_000, "nothing waits, nothing was applied twice");
            let mut again = Paper::open_cached(&file, cell, 1).expect("opened again");
            for (&key, &count) in &model.counts {
                let estimate = again.estimate(hasher().hash(&key.to_le_bytes())).expect("read");
                assert_eq!(estimate, model.estimate(key, cell));
                assert!(estimate >= count);
            }
        }
    }

    #[test]
    fn a_flush_that_must_stop_has_applied_what_it_says() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("sketch");
        write_zeros(&file, PAGES * 4096).expect("written");
        let mut sketch = Paper::open(&file, Cell::Four, 1 << 20).expect("opened");
        for key in 0..1_000u64 {
            sketch.insert(hasher().hash(&key.to_le_bytes())).expect("counted");
        }
        assert_eq!(sketch.applied(), 0, "all of it waits");
        sketch.finish(Instant::now()).expect("flushed in part");
        let waiting: u64 = sketch.filled.iter().map(|&filled| u64::from(filled)).sum();
        assert!(sketch.applied() > 0 && waiting > 0);
        assert_eq!(sketch.applied() + waiting, 1_000);
    }
}
