//! The cascade filter as its paper has it: quotient filters of three bits a slot, one in RAM, one a level on flash.
//!
//! ```text
//!   level 0   2^q0 slots in RAM, at most 3/4 of them full; then it and levels 1 … i-1 are merged into level i, the first empty one
//!   level i   2^(q0 + i - 1) slots in a file: empty, or what one merge wrote
//!   look-up   one block of each level that is not empty; a second one where a cluster crosses the block's edge
//! ```
//!
//! 1. All levels hold entries of as many bits; what a quotient has more, a remainder has less. The largest level's has 11.
//! 2. With removals, the lowest bit of a remainder says that the entry takes one back: a tombstone. A merge annihilates pairs, and
//!    a merge into the deepest level drops tombstones that are left. A key is in if its entries outnumber its tombstones.
//!
//! Where it is unlike the paper's, it is faster or as fast: merges read and write past the page cache, and take all levels at once
//! in the place of two at a time.
//!
//! Source: Bender et al., "Don't Thrash: How to Cache Your Hash on Flash" (HotStorage 2011), sections 2 and 3.

mod layout;
mod level;
mod lookup;
mod merge;
#[cfg(test)]
mod tests;

pub(super) use layout::Layout;

use super::filter::Filter;
use super::keys::Keys;
use crate::Result;
use crate::three_bit::{ThreeBitFilter, for_run};
use keyhash::KeyHash;
use level::{Level, LevelWriter};
use lookup::BlockSlots;
use merge::Merge;
use overbank::device::AlignedBuf;
use std::path::{Path, PathBuf};

pub(super) struct Paper {
    folder: PathBuf,
    layout: Layout,
    ram: ThreeBitFilter,
    /// Levels 1 and up.
    levels: Vec<Option<Level>>,
    /// What look-ups read into.
    window: AlignedBuf,
}

impl Paper {
    /// The cascade in the files of a folder; in a folder without any it is empty.
    pub(super) fn open(folder: &Path, layout: Layout) -> Result<Self> {
        let levels = (1..=layout.levels()).map(|level| {
            let file = file_of(folder, level);
            file.exists()
                .then(|| Level::open(&file, layout.quotient_bits(level), layout.entry_bits()))
                .transpose()
        });
        Ok(Self {
            folder: folder.to_owned(),
            layout,
            levels: levels.collect::<Result<_>>()?,
            ram: ThreeBitFilter::new(layout.quotient_bits(0), layout.remainder_bits(0)),
            window: lookup::window(),
        })
    }

    /// Writes a cascade whose levels are all full, of as many first keys of a stream, in ample memory.
    pub(super) fn build(folder: &Path, layout: Layout, keys: Keys) -> Result<()> {
        let mut entries = Vec::new();
        let mut level = layout.levels();
        for chunk in 0..keys.chunks() {
            keys.for_batches(chunk, 4096, |hashes| -> Result<bool> {
                for &hash in hashes {
                    if level == 0 {
                        return Ok(false);
                    }
                    entries.push(layout.entry(hash, false));
                    if entries.len() as u64 == layout.capacity(level) {
                        entries.sort_unstable();
                        write_level(folder, layout, level, entries.drain(..))?;
                        level -= 1;
                    }
                }
                Ok(level > 0)
            })?;
        }
        match level {
            0 => Ok(()),
            _ => Err(format!("the keys end before level {level} is full").into()),
        }
    }

    fn push(&mut self, entry: u64) -> Result<()> {
        self.ram.insert(entry);
        if self.ram.len() < self.layout.capacity(0) { Ok(()) } else { self.flush() }
    }

    /// Merges RAM and the full levels below the first empty one into that.
    fn flush(&mut self) -> Result<()> {
        let Some(empty) = self.levels.iter().position(Option::is_none) else {
            return Err(format!("all {} levels are full", self.levels.len()).into());
        };
        let is_deepest = self.levels[empty..].iter().all(Option::is_none);
        let mut merge = Merge::new();
        merge.add_ram(&self.ram);
        for level in self.levels[..empty].iter().flatten() {
            merge.add_level(level)?;
        }
        let level = empty as u32 + 1;
        let (quotient_bits, entry_bits) = (self.layout.quotient_bits(level), self.layout.entry_bits());
        let file = file_of(&self.folder, level);
        let mut writer = LevelWriter::create(&file, quotient_bits, entry_bits)?;
        if self.layout.has_tombstones() {
            merge.annihilate(is_deepest, |entry| writer.push(entry))?;
        } else {
            merge.for_each(|entry| writer.push(entry))?;
        }
        self.levels[empty] = Some(writer.finish()?);
        self.ram.clear();
        for below in 0..empty {
            self.levels[below] = None;
            std::fs::remove_file(file_of(&self.folder, below as u32 + 1))?;
        }
        Ok(())
    }

    fn has(&mut self, hash: KeyHash) -> Result<bool> {
        let mut balance = 0i64;
        let (quotient, remainder) = self.layout.split(0, hash);
        let Ok(()) =
            for_run(&mut &self.ram, quotient, |other| self.layout.weigh(&mut balance, remainder, other));
        for level in 1..=self.layout.levels() {
            if balance > 0 && !self.layout.has_tombstones() {
                break;
            }
            let Some(file) = &self.levels[level as usize - 1] else { continue };
            let (quotient, remainder) = self.layout.split(level, hash);
            let mut slots = BlockSlots::new(file, quotient, &mut self.window);
            for_run(&mut slots, quotient, |other| self.layout.weigh(&mut balance, remainder, other))?;
        }
        Ok(balance > 0)
    }
}

impl Filter for Paper {
    fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        hashes.iter().try_for_each(|&hash| self.push(self.layout.entry(hash, false)))
    }

    fn remove(&mut self, hashes: &[KeyHash]) -> Result<()> {
        if !self.layout.has_tombstones() {
            return Err("this cascade has no bit for tombstones".into());
        }
        hashes.iter().try_for_each(|&hash| self.push(self.layout.entry(hash, true)))
    }

    fn finish(&mut self) -> Result<()> {
        if !self.ram.is_empty() {
            self.flush()?;
        }
        self.levels.iter().flatten().try_for_each(Level::sync)
    }

    fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        hashes.iter().map(|&hash| self.has(hash)).collect()
    }
}

fn write_level(
    folder: &Path,
    layout: Layout,
    level: u32,
    mut entries: impl Iterator<Item = u64>,
) -> Result<()> {
    let file = file_of(folder, level);
    let mut writer = LevelWriter::create(&file, layout.quotient_bits(level), layout.entry_bits())?;
    entries.try_for_each(|entry| writer.push(entry))?;
    writer.finish()?.sync()
}

fn file_of(folder: &Path, level: u32) -> PathBuf {
    folder.join(format!("level-{level}"))
}
