//! Filters in RAM and on flash as one ascending stream of entries.

use super::level::{Level, LevelReader};
use crate::Result;
use crate::three_bit::ThreeBitFilter;

enum Source<'a> {
    Ram(Box<dyn Iterator<Item = u64> + 'a>),
    Level(LevelReader<'a>),
}

impl Source<'_> {
    fn next_entry(&mut self) -> Result<Option<u64>> {
        match self {
            Self::Ram(entries) => Ok(entries.next()),
            Self::Level(reader) => reader.next_entry(),
        }
    }
}

pub(super) struct Merge<'a> {
    /// The next entry of each source that has one.
    heads: Vec<u64>,
    sources: Vec<Source<'a>>,
}

impl<'a> Merge<'a> {
    pub(super) fn new() -> Self {
        Self { heads: Vec::new(), sources: Vec::new() }
    }

    pub(super) fn add_ram(&mut self, filter: &'a ThreeBitFilter) {
        let mut entries = filter.iter();
        if let Some(head) = entries.next() {
            self.heads.push(head);
            self.sources.push(Source::Ram(Box::new(entries)));
        }
    }

    pub(super) fn add_level(&mut self, level: &'a Level) -> Result<()> {
        let mut reader = LevelReader::new(level);
        if let Some(head) = reader.next_entry()? {
            self.heads.push(head);
            self.sources.push(Source::Level(reader));
        }
        Ok(())
    }

    /// All entries in ascending order; of a handful of sources, the least head is found by looking at each.
    pub(super) fn for_each(mut self, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
        while let Some((at, &entry)) = self.heads.iter().enumerate().min_by_key(|head| head.1) {
            each(entry)?;
            match self.sources[at].next_entry()? {
                Some(next) => self.heads[at] = next,
                None => {
                    self.heads.swap_remove(at);
                    self.sources.swap_remove(at);
                }
            }
        }
        Ok(())
    }

    /// The same, without the pairs of an entry and its tombstone, and at the deepest level without tombstones.
    pub(super) fn annihilate(self, is_deepest: bool, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let mut group = Group::default();
        self.for_each(|entry| {
            if entry >> 1 != group.fingerprint {
                std::mem::take(&mut group).emit(is_deepest, &mut each)?;
                group.fingerprint = entry >> 1;
            }
            group.balance += if entry & 1 == 0 { 1 } else { -1 };
            Ok(())
        })?;
        group.emit(is_deepest, &mut each)
    }
}

/// Entries less tombstones of one fingerprint.
#[derive(Default)]
struct Group {
    fingerprint: u64,
    balance: i64,
}

impl Group {
    fn emit(self, is_deepest: bool, each: &mut impl FnMut(u64) -> Result<()>) -> Result<()> {
        let is_tombstone = self.balance < 0;
        if is_tombstone && is_deepest {
            return Ok(());
        }
        let entry = self.fingerprint << 1 | u64::from(is_tombstone);
        (0..self.balance.unsigned_abs()).try_for_each(|_| each(entry))
    }
}
