//! The dictionaries of the paper's evaluation, plain: the paper's own, and external perfect hashing in its two variants.
//!
//! ```text
//!   ect             sort by hash ──▶ items in the order of hashes        a trie of 256 keys a bucket
//!   eph_sort        sort by hash ──▶ buckets of 128, each permuted       a perfect hash function a bucket
//!   eph_partition   partition    ──▶ buckets of 128, each permuted       the same
//! ```
//!
//! 1. All items are equally long, so an item's number is its place: a look-up is one read past the page cache.
//! 2. An update brings the new items alone into order and merges them with the old ones front to back, making the index anew.
//! 3. What is in RAM between two operations is the index; while arranging, buffers share `memory_bytes`.
//!
//! Where they are unlike the paper's: buckets are equal ranges of the hash, any number of them, not the prefixes of a whole number of bits;
//! one thread computes, others read ahead and write behind; buffers go past the page cache.
//!
//! Source: Lim, Andersen, Kaminsky, Practical Batch-Updatable External Hashing with Sorting, ALENEX 2013, sections 2 and 3.

mod arrange;
mod bit_string;
mod directory;
mod file;
mod index;
mod perfect_hash;
mod stored;
#[cfg(test)]
mod tests;
mod trie;

pub(super) use bit_string::BitString;
pub(super) use index::{G, HMAX, Index};
pub(super) use trie::{Blocks, Codes, weights};

use crate::{Result, open_direct};
use arrange::{Arrangement, Arranger, Ordered, Pile};
use file::{FileReader, FileWriter, piece_bytes};
use index::IndexedWriter;
use items::Items;
use keyhash::{HashKind, KeyHasher, Seed, range_of};
use overbank::device::{AlignedBuf, BLOCK_BYTES};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    Ect,
    EphSort,
    EphPartition,
}

/// A dictionary in a folder.
pub(super) struct Plain {
    scheme: Scheme,
    folder: PathBuf,
    items: Items,
    memory_bytes: usize,
    index: Option<Index>,
}

/// The hash of a key.
pub(super) fn hash_of(key: &[u8]) -> u64 {
    KeyHasher::new(HashKind::Xxh3, Seed(7)).hash(key).high()
}

impl Plain {
    /// The dictionary in a folder; in one without any it is empty.
    pub(super) fn open(folder: &Path, scheme: Scheme, items: Items, memory_bytes: usize) -> Result<Self> {
        let mut plain = Self { scheme, folder: folder.to_owned(), items, memory_bytes, index: None };
        if plain.index_file().exists() {
            plain.index = Some(Index::read(&plain.index_file(), scheme)?);
        }
        Ok(plain)
    }

    /// Adds the items of these numbers, all new, as one batch: they are on disk and synced afterwards.
    pub(super) fn insert(&mut self, numbers: Range<u64>) -> Result<()> {
        let (items, item_bytes) = (self.items, self.items.item_bytes());
        let arrangement = match self.scheme {
            Scheme::Ect | Scheme::EphSort => Arrangement::Sort,
            Scheme::EphPartition => Arrangement::Partition,
        };
        let count = numbers.end - numbers.start;
        let mut arranger = Arranger::new(arrangement, &self.folder, items, count, self.memory_bytes)?;
        let mut item = vec![0; item_bytes];
        for number in numbers {
            items.fill(number, &mut item);
            arranger.push(&item)?;
        }
        let old_items = self.index.as_ref().map_or(0, Index::items);
        let path = self.folder.join("items.new");
        let writer = FileWriter::create(&path, piece_bytes(self.memory_bytes / 16))?;
        let mut into = IndexedWriter::new(self.scheme, old_items + count, item_bytes, writer);
        let buckets = into.buckets();
        let new = arranger.finish(buckets)?;
        match &self.index {
            None => copy(new, &mut into)?,
            Some(index) => {
                let old = OldItems::open(self, index)?;
                let is_in_hash_order = self.scheme == Scheme::Ect;
                merge(
                    old,
                    new,
                    |hash| if is_in_hash_order { hash } else { range_of(hash, buckets) },
                    &mut into,
                )?;
            }
        }
        let index = into.finish()?;
        index.write(&self.index_file())?;
        std::fs::rename(path, self.items_file())?;
        File::open(&self.folder)?.sync_all()?;
        self.index = Some(index);
        Ok(())
    }

    /// RAM of the index, in bits.
    pub(super) fn index_bits(&self) -> u64 {
        self.index.as_ref().map_or(0, Index::size_bits)
    }

    /// A reader for one thread.
    pub(super) fn reader(&self) -> Result<PlainReader<'_>> {
        Ok(PlainReader {
            index: self.index.as_ref().ok_or("nothing was inserted")?,
            file: open_direct(&self.items_file(), OpenOptions::new().read(true))?,
            items: self.items,
            window: AlignedBuf::zeroed(self.items.item_bytes() + 2 * BLOCK_BYTES),
        })
    }

    fn items_file(&self) -> PathBuf {
        self.folder.join("items")
    }

    fn index_file(&self) -> PathBuf {
        self.folder.join("index")
    }
}

/// Looks up keys.
pub(super) struct PlainReader<'p> {
    index: &'p Index,
    file: File,
    items: Items,
    window: AlignedBuf,
}

impl PlainReader<'_> {
    /// The value of a key, by one read.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        let Some(number) = self.index.rank(hash_of(key)) else { return Ok(None) };
        let block = BLOCK_BYTES as u64;
        let first = number * self.items.item_bytes() as u64;
        let (start, end) =
            (first / block * block, (first + self.items.item_bytes() as u64).next_multiple_of(block));
        let window = &mut self.window[..(end - start) as usize];
        self.file.read_exact_at(window, start)?;
        let item = &window[(first - start) as usize..][..self.items.item_bytes()];
        let (found, value) = item.split_at(self.items.key_bytes());
        Ok((found == key).then_some(value))
    }
}

/// The items of a dictionary before an update, in the order of their hashes: a bucket that was permuted is sorted again.
struct OldItems {
    reader: FileReader,
    items: Items,
    /// Items of the buckets that are still to come, where they are permuted.
    buckets: Option<Vec<u64>>,
    next_bucket: usize,
    bucket: Pile,
    /// Which of the bucket comes next.
    at: usize,
}

impl OldItems {
    fn open(plain: &Plain, index: &Index) -> Result<Self> {
        let items = plain.items;
        let piece_bytes = piece_bytes(plain.memory_bytes / 16);
        let reader = FileReader::open(&plain.items_file(), index.items(), items.item_bytes(), piece_bytes)?;
        let buckets = (plain.scheme != Scheme::Ect).then(|| index.bucket_items().collect());
        Ok(Self { reader, items, buckets, next_bucket: 0, bucket: Pile::new(items), at: 0 })
    }
}

impl Ordered for OldItems {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        let key_bytes = self.items.key_bytes();
        let Some(buckets) = &self.buckets else {
            let next = self.reader.next()?;
            return Ok(next.map(|item| (hash_of(&item[..key_bytes]), item)));
        };
        self.at += 1;
        while self.bucket.get(self.at - 1).is_none() {
            let Some(count) = buckets.get(self.next_bucket) else { return Ok(None) };
            (self.next_bucket, self.at) = (self.next_bucket + 1, 1);
            self.bucket.clear();
            for _ in 0..*count {
                let item = self.reader.next()?.ok_or("the items end early")?;
                self.bucket.push(hash_of(&item[..key_bytes]), item);
            }
            self.bucket.sort();
        }
        Ok(self.bucket.get(self.at - 1))
    }
}

fn copy(mut from: Box<dyn Ordered>, into: &mut IndexedWriter) -> Result<()> {
    while let Some((hash, item)) = from.next()? {
        into.push(hash, item)?;
    }
    Ok(())
}

/// Old and new items together, in the order of what `order` makes of their hashes.
fn merge(
    mut old: OldItems,
    mut new: Box<dyn Ordered>,
    order: impl Fn(u64) -> u64,
    into: &mut IndexedWriter,
) -> Result<()> {
    let mut waiting = old.next()?;
    while let Some((new_hash, new_item)) = new.next()? {
        while let Some((hash, item)) = waiting.filter(|(hash, _)| order(*hash) <= order(new_hash)) {
            into.push(hash, item)?;
            waiting = old.next()?;
        }
        into.push(new_hash, new_item)?;
    }
    while let Some((hash, item)) = waiting {
        into.push(hash, item)?;
        waiting = old.next()?;
    }
    Ok(())
}
