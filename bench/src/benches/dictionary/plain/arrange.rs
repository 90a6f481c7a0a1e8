//! Bringing items into order within little memory: an external sort by hash, and a partition by hash.
//!
//! ```text
//!   sort        items ──▶ memory full: sort, write a run … ──▶ merge of all runs                   in the order of hashes
//!   partition   items ──▶ a file for each range of hashes  ──▶ one after the other into memory     in the order of buckets
//! ```
//!
//! One thread computes; files have threads that read ahead and write behind.

use super::file::{BUFFERS, FileReader, FileWriter, piece_bytes};
use super::hash_of;
use crate::Result;
use items::Items;
use keyhash::range_of;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// Bytes that the place of an item in memory takes beside it.
const PLACE_BYTES: usize = size_of::<(u64, u32)>();

/// Of a partition's memory, the part that the files' buffers take while it is made, and the items of one file afterwards; the rest is
/// slack, for no two files are equally long.
const PARTITION_SHARE: f64 = 0.75;

/// Items in some order, one at a time: hash, and bytes.
pub(super) trait Ordered {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>>;
}

/// How items are arranged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrangement {
    Sort,
    Partition,
}

/// Takes items in any order.
pub(super) enum Arranger {
    Sort(Sorter),
    Partition(Partitioner),
}

impl Arranger {
    /// For about so many items, with files in a folder.
    pub(super) fn new(
        arrangement: Arrangement,
        folder: &Path,
        items: Items,
        expected: u64,
        memory_bytes: usize,
    ) -> Result<Self> {
        Ok(match arrangement {
            Arrangement::Sort => Self::Sort(Sorter::new(folder, items, memory_bytes)),
            Arrangement::Partition => {
                Self::Partition(Partitioner::new(folder, items, expected, memory_bytes)?)
            }
        })
    }

    pub(super) fn push(&mut self, item: &[u8]) -> Result<()> {
        match self {
            Self::Sort(sorter) => sorter.push(item),
            Self::Partition(partitioner) => partitioner.push(item),
        }
    }

    /// All items, in the order of their hashes or only of their buckets, of which there are so many.
    pub(super) fn finish(self, buckets: u64) -> Result<Box<dyn Ordered>> {
        Ok(match self {
            Self::Sort(sorter) => sorter.finish()?,
            Self::Partition(partitioner) => Box::new(partitioner.finish(buckets)?),
        })
    }
}

/// Items in memory, and an order among them.
pub(super) struct Pile {
    items: Items,
    bytes: Vec<u8>,
    places: Vec<(u64, u32)>,
}

impl Pile {
    pub(super) fn new(items: Items) -> Self {
        Self { items, bytes: Vec::new(), places: Vec::new() }
    }

    fn reserve(&mut self, count: usize) {
        self.bytes.reserve_exact(count * self.items.item_bytes());
        self.places.reserve_exact(count);
    }

    pub(super) fn push(&mut self, hash: u64, item: &[u8]) {
        self.places.push((hash, self.places.len() as u32));
        self.bytes.extend_from_slice(item);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Puts them in the order of their hashes.
    pub(super) fn sort(&mut self) {
        self.places.sort_unstable();
    }

    pub(super) fn get(&self, at: usize) -> Option<(u64, &[u8])> {
        let (hash, place) = *self.places.get(at)?;
        let item_bytes = self.items.item_bytes();
        Some((hash, &self.bytes[place as usize * item_bytes..][..item_bytes]))
    }
}

/// A pile being read.
struct Piled {
    pile: Pile,
    at: usize,
}

impl Ordered for Piled {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        self.at += 1;
        Ok(self.pile.get(self.at - 1))
    }
}

pub(super) struct Sorter {
    folder: PathBuf,
    memory_bytes: usize,
    pile: Pile,
    pile_items: usize,
    runs: Vec<(PathBuf, u64)>,
}

impl Sorter {
    fn new(folder: &Path, items: Items, memory_bytes: usize) -> Self {
        // An eighth is the buffers' of the run that is written.
        let pile_items = (memory_bytes / 8 * 7 / (items.item_bytes() + PLACE_BYTES)).max(1);
        let folder = folder.to_owned();
        Self { folder, memory_bytes, pile: Pile::new(items), pile_items, runs: Vec::new() }
    }

    fn push(&mut self, item: &[u8]) -> Result<()> {
        if self.pile.places.is_empty() {
            self.pile.reserve(self.pile_items);
        }
        self.pile.push(hash_of(&item[..self.pile.items.key_bytes()]), item);
        if self.pile.places.len() == self.pile_items { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        self.pile.sort();
        let path = self.folder.join(format!("run-{}", self.runs.len()));
        let mut writer = FileWriter::create(&path, piece_bytes(self.memory_bytes / 8))?;
        for at in 0..self.pile.places.len() {
            if let Some((_, item)) = self.pile.get(at) {
                writer.write(item)?;
            }
        }
        writer.finish(false)?;
        self.runs.push((path, self.pile.places.len() as u64));
        self.pile.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Ordered>> {
        if self.runs.is_empty() {
            self.pile.sort();
            return Ok(Box::new(Piled { pile: self.pile, at: 0 }));
        }
        if !self.pile.places.is_empty() {
            self.spill()?;
        }
        let items = self.pile.items;
        self.pile = Pile::new(items);
        let piece_bytes = piece_bytes(self.memory_bytes / 8 * 7 / self.runs.len());
        let mut merge = Merge { items, runs: Vec::new(), heap: BinaryHeap::new(), last: None };
        for (number, (path, count)) in self.runs.iter().enumerate() {
            let mut reader = FileReader::open(path, *count, items.item_bytes(), piece_bytes)?;
            std::fs::remove_file(path)?;
            let mut item = Vec::new();
            if let Some(first) = reader.next()? {
                item.extend_from_slice(first);
                merge.heap.push(Reverse((hash_of(&item[..items.key_bytes()]), number)));
            }
            merge.runs.push((reader, item));
        }
        Ok(Box::new(merge))
    }
}

/// Sorted runs, merged.
struct Merge {
    items: Items,
    /// Each with the item that comes next.
    runs: Vec<(FileReader, Vec<u8>)>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// The run whose item was given out and has to be replaced.
    last: Option<usize>,
}

impl Ordered for Merge {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if let Some(number) = self.last.take() {
            let (reader, item) = &mut self.runs[number];
            if let Some(next) = reader.next()? {
                item.copy_from_slice(next);
                self.heap.push(Reverse((hash_of(&item[..self.items.key_bytes()]), number)));
            }
        }
        let Some(Reverse((hash, number))) = self.heap.pop() else { return Ok(None) };
        self.last = Some(number);
        Ok(Some((hash, &self.runs[number].1)))
    }
}

pub(super) struct Partitioner {
    items: Items,
    piece_bytes: usize,
    parts: Vec<(PathBuf, FileWriter, u64)>,
}

impl Partitioner {
    fn new(folder: &Path, items: Items, expected: u64, memory_bytes: usize) -> Result<Self> {
        let share_bytes = (memory_bytes as f64 * PARTITION_SHARE) as usize;
        let part_items = (share_bytes / (items.item_bytes() + PLACE_BYTES)).max(1) as u64;
        let count = expected.div_ceil(part_items).max(1) as usize;
        let piece_bytes = piece_bytes(share_bytes / count);
        let part = |number| -> Result<_> {
            let path = folder.join(format!("part-{number}"));
            let writer = FileWriter::create(&path, piece_bytes)?;
            Ok((path, writer, 0))
        };
        Ok(Self { items, piece_bytes, parts: (0..count).map(part).collect::<Result<_>>()? })
    }

    fn push(&mut self, item: &[u8]) -> Result<()> {
        let hash = hash_of(&item[..self.items.key_bytes()]);
        let number = range_of(hash, self.parts.len() as u64) as usize;
        let (_, writer, count) = &mut self.parts[number];
        *count += 1;
        writer.write(item)
    }

    fn finish(self, buckets: u64) -> Result<Partitioned> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (path, writer, count) in self.parts {
            writer.finish(false)?;
            parts.push((path, count));
        }
        parts.reverse();
        let pile = Piled { pile: Pile::new(self.items), at: 0 };
        // A part at a time is read, and its buffers are all there are.
        let piece_bytes = self.piece_bytes.max(1 << 20 >> (BUFFERS - 1));
        Ok(Partitioned { items: self.items, buckets, piece_bytes, parts, pile })
    }
}

/// Partitions, read one after the other.
struct Partitioned {
    items: Items,
    buckets: u64,
    piece_bytes: usize,
    /// Those that are left, the last first.
    parts: Vec<(PathBuf, u64)>,
    pile: Piled,
}

impl Partitioned {
    fn read(&mut self, path: &Path, count: u64) -> Result<()> {
        let (items, pile) = (self.items, &mut self.pile.pile);
        pile.clear();
        pile.reserve(count as usize);
        let mut reader = FileReader::open(path, count, items.item_bytes(), self.piece_bytes)?;
        while let Some(item) = reader.next()? {
            pile.push(hash_of(&item[..items.key_bytes()]), item);
        }
        std::fs::remove_file(path)?;
        pile.places.sort_unstable_by_key(|(hash, _)| range_of(*hash, self.buckets));
        self.pile.at = 0;
        Ok(())
    }
}

impl Ordered for Partitioned {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        while self.pile.at >= self.pile.pile.places.len() {
            let Some((path, count)) = self.parts.pop() else { return Ok(None) };
            self.read(&path, count)?;
        }
        self.pile.next()
    }
}
