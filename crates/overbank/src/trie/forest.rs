//! The tries of all buckets, and where each begins.

use super::averages::Averages;
use super::directory::{Bucket, Directory, Load};
use super::places::Places;
use super::read::TrieReader;
use super::write::{BitSink, TrieWriter};
use super::{Detail, Path, TrieShape};
use crate::bits::prefetch::prefetch;
use crate::error::invalid;
use crate::{KeyHash, Result};
use std::ops::RangeInclusive;

/// Hashes whose cache misses are under way together.
const AHEAD: usize = 32;

/// The most keys that a bucket may have: its bits are then fewer than 2^32, and no code is longer than what is read at a time.
pub(super) const BUCKET_KEYS_MAX: u32 = 1 << 24;

/// Where sorted hashes stand, without the hashes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Forest {
    pub(super) shape: TrieShape,
    pub(super) places: Places,
    pub(super) directory: Directory,
    pub(super) averages: Averages,
    /// The tries, and [`TrieReader::BEHIND_BYTES`] zeros.
    pub(super) bytes: Vec<u8>,
    pub(super) trie_bits: u64,
    pub(super) len: u64,
}

impl Forest {
    /// Starts tries over `range` for some `expected` hashes, `bucket_keys` a bucket.
    pub(crate) fn builder(
        shape: TrieShape,
        range: RangeInclusive<u64>,
        expected: u64,
        bucket_keys: u32,
    ) -> ForestBuilder {
        ForestBuilder {
            shape,
            places: Places::new(range, expected.div_ceil(u64::from(bucket_keys.max(1)))),
            pushed: 0,
            last: None,
            bucket: 0,
            loads: Vec::new(),
            writer: TrieWriter::new(shape),
            sink: BitSink::default(),
        }
    }

    /// Where a hash stands among those of a dense forest; of another hash, something below `len`. 0 where there are none.
    #[inline]
    pub(crate) fn rank(&self, hash: KeyHash) -> u64 {
        let (bucket, path) = self.places.of(hash);
        self.rank_in(self.directory.get(bucket), path)
    }

    /// [`rank`](Self::rank) of each hash, one after another.
    pub(crate) fn rank_many(&self, hashes: &[KeyHash], mut tell: impl FnMut(u64)) {
        let mut found = [(Bucket::default(), Path { high: 0, low: 0 }); AHEAD];
        for hashes in hashes.chunks(AHEAD) {
            for hash in hashes {
                self.directory.prefetch(self.places.of(*hash).0);
            }
            for (found, hash) in std::iter::zip(&mut found, hashes) {
                let (bucket, path) = self.places.of(*hash);
                *found = (self.directory.get(bucket), path);
                // A trie of 244 keys takes 75 bytes: it lies in two lines, or three.
                let byte = (found.0.at_bit / 8) as usize;
                prefetch(&self.bytes, byte);
                prefetch(&self.bytes, byte.wrapping_add(64));
            }
            found[..hashes.len()].iter().for_each(|(bucket, path)| tell(self.rank_in(*bucket, *path)));
        }
    }

    pub(crate) fn shape(&self) -> TrieShape {
        self.shape
    }

    /// How many hashes it was made of.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that it holds in RAM.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.directory.memory_bytes()
            + self.averages.memory_bytes()
            + self.bytes.capacity()
    }

    /// Bits of the tries alone.
    pub(crate) fn trie_bits(&self) -> u64 {
        self.trie_bits
    }

    pub(super) fn reader(&self) -> TrieReader<'_> {
        TrieReader::new(self.shape, &self.averages, &self.bytes)
    }

    #[inline]
    fn rank_in(&self, bucket: Bucket, path: Path) -> u64 {
        let rank = bucket.first_rank + u64::from(self.reader().rank(bucket.at_bit, bucket.keys, path));
        // What falls into an empty bucket at the end would stand behind all.
        rank.min(self.len.saturating_sub(1))
    }
}

/// Takes sorted hashes one by one.
pub(crate) struct ForestBuilder {
    shape: TrieShape,
    places: Places,
    pushed: u64,
    last: Option<KeyHash>,
    /// The bucket that hashes are collected for.
    bucket: u64,
    /// What the buckets before it have.
    loads: Vec<Load>,
    writer: TrieWriter,
    sink: BitSink,
}

impl ForestBuilder {
    /// Takes the next hash: above the one before in a dense forest, not below it in a sparse one.
    #[inline]
    pub(crate) fn push(&mut self, hash: KeyHash) -> Result<()> {
        let is_behind = match (self.last, self.shape.detail) {
            (Some(last), Detail::Keys { .. }) => last < hash,
            (Some(last), Detail::Blocks { .. }) => last <= hash,
            (None, _) => true,
        };
        if !is_behind || !self.places.has(hash) || self.writer.len() == BUCKET_KEYS_MAX as usize {
            return self.refuse(hash, is_behind);
        }
        self.last = Some(hash);
        let (bucket, path) = self.places.of(hash);
        while self.bucket < bucket {
            self.close_bucket();
        }
        self.writer.push(path);
        self.pushed += 1;
        Ok(())
    }

    /// How many hashes were pushed.
    pub(crate) fn len(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn finish(mut self) -> Forest {
        while self.bucket < self.places.buckets() {
            self.close_bucket();
        }
        let trie_bits = self.sink.len_bits();
        let mut bytes = self.sink.into_bytes();
        bytes.reserve_exact(TrieReader::BEHIND_BYTES);
        bytes.resize(bytes.len() + TrieReader::BEHIND_BYTES, 0);
        bytes.shrink_to_fit();
        Forest {
            shape: self.shape,
            places: self.places,
            directory: Directory::of(&self.loads),
            averages: Averages::new(self.shape),
            bytes,
            trie_bits,
            len: self.pushed,
        }
    }

    fn close_bucket(&mut self) {
        let (keys, start) = (self.writer.len(), self.sink.len_bits());
        let first = self.pushed - keys as u64;
        let offset = first % u64::from(self.shape.block_items());
        self.writer.finish(offset as usize, &mut self.sink);
        self.loads.push(Load { keys: keys as u32, bits: (self.sink.len_bits() - start) as u32 });
        self.bucket += 1;
    }

    #[cold]
    fn refuse(&self, hash: KeyHash, is_behind: bool) -> Result<()> {
        let range = self.places.range();
        let why = if !is_behind {
            "hashes must ascend; sort them".to_owned()
        } else if !self.places.has(hash) {
            let (first, last) = range.into_inner();
            format!(
                "the first 64 bits must be {first:016x} to {last:016x}; give the range that hashes are of"
            )
        } else {
            format!("{BUCKET_KEYS_MAX} hashes are in one bucket; expect as many as there are")
        };
        invalid("hash", format!("{:032x}", hash.0), why)
    }
}
