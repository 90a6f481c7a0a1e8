//! In which block a hash lies, where items of one size stand in hash order in blocks: the paper's sparse index.
//!
//! | items of a block | bits an item |
//! |---|---|
//! | 256 | 0.14 |
//! | 40 | 0.57 |
//! | 4 | 1.68 |

use super::forest::{Forest, ForestBuilder};
use super::{Detail, HUFFMAN_KEYS_MAX, TrieShape};
use crate::bytes::ByteReader;
use crate::error::invalid;
use crate::{KeyHash, Result};
use std::ops::{Range, RangeInclusive};

/// How much space [`SparseTries`] take, and how fast they answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SparseOptions {
    bucket_keys: u32,
    huffman_keys_max: u32,
}

impl Default for SparseOptions {
    fn default() -> Self {
        Self { bucket_keys: 256, huffman_keys_max: 64 }
    }
}

impl SparseOptions {
    /// 256 keys a bucket, Huffman codes up to 64 keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys of a bucket on average: the paper's g.
    pub fn bucket_keys(mut self, keys: u32) -> Self {
        self.bucket_keys = keys;
        self
    }

    /// Up to how many keys of a trie counts are Huffman coded, 1 to 128: the paper's hmax.
    pub fn huffman_keys_max(mut self, keys: u32) -> Self {
        self.huffman_keys_max = keys;
        self
    }
}

/// The blocks of sorted hashes, of which each block but the last holds exactly `block_items`.
#[derive(Clone, PartialEq, Eq)]
pub struct SparseTries {
    forest: Forest,
}

impl SparseTries {
    /// Starts the index of some `expected` items whose hashes begin with 64 bits of `range`: more or fewer may come, but the buckets are
    /// made for so many.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for an option out of its range.
    pub fn builder(
        range: RangeInclusive<u64>,
        expected: u64,
        block_items: u32,
        options: SparseOptions,
    ) -> Result<SparseTriesBuilder> {
        if block_items == 0 {
            return invalid("block_items", block_items, "a block holds one item at least");
        }
        if options.bucket_keys == 0 {
            return invalid("bucket_keys", options.bucket_keys, "a bucket has one key at least");
        }
        if !(1..=HUFFMAN_KEYS_MAX).contains(&options.huffman_keys_max) {
            let why = format!("it must be 1 to {HUFFMAN_KEYS_MAX}");
            return invalid("huffman_keys_max", options.huffman_keys_max, why);
        }
        let detail = Detail::Blocks { items: block_items };
        let shape = TrieShape { huffman_keys_max: options.huffman_keys_max, detail };
        Ok(SparseTriesBuilder { builder: Forest::builder(shape, range, expected, options.bucket_keys) })
    }

    /// The blocks that can hold items of this hash: one, or several that begin and end with it; none where there surely is none. For a hash
    /// that was not pushed, some blocks.
    ///
    /// # Cost
    /// Two cache misses, and a part of one bucket's trie.
    pub fn find(&self, hash: KeyHash) -> Range<u64> {
        let (items, block_items) = (self.forest.locate(hash), u64::from(self.block_items()));
        if items.is_empty() {
            return 0..0;
        }
        items.start / block_items..(items.end - 1) / block_items + 1
    }

    /// How many hashes were pushed.
    pub fn len(&self) -> u64 {
        self.forest.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items a block holds.
    pub fn block_items(&self) -> u32 {
        self.forest.shape.block_items()
    }

    /// Bytes that it holds in RAM.
    pub fn memory_bytes(&self) -> usize {
        self.forest.memory_bytes()
    }

    /// Appends its bytes; see `format.rs`.
    pub fn encode(&self, into: &mut Vec<u8>) {
        self.forest.encode(into);
    }

    /// The index that these are the bytes of, which may be anything.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        let forest = Forest::decode(&mut reader)?;
        match forest.shape.detail {
            Detail::Blocks { .. } => Ok(Self { forest }),
            Detail::Keys { .. } => {
                Err(reader.corrupt("the detail of tries", "that of blocks", "that of keys"))
            }
        }
    }
}

impl Forest {
    /// Which items of a sparse forest may be of this hash: those of its block, or all of that hash. None where there surely is none.
    pub(super) fn locate(&self, hash: KeyHash) -> Range<u64> {
        let (bucket, path) = self.places.of(hash);
        let bucket = self.directory.get(bucket);
        let offset = (bucket.first_rank % u64::from(self.shape.block_items())) as u32;
        let found = self.reader().locate(bucket.at_bit, bucket.keys, path, offset);
        bucket.first_rank + u64::from(found.start)..bucket.first_rank + u64::from(found.end)
    }
}

impl std::fmt::Debug for SparseTries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SparseTries")
            .field("len", &self.len())
            .field("block_items", &self.block_items())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

/// Takes the hashes of items in the items' order.
pub struct SparseTriesBuilder {
    builder: ForestBuilder,
}

impl SparseTriesBuilder {
    /// Takes the hash of the next item; equal ones may follow each other.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a hash that is below the one before, or outside the range; it is not taken.
    #[inline]
    pub fn push(&mut self, hash: KeyHash) -> Result<()> {
        self.builder.push(hash)
    }

    /// The finished index.
    pub fn finish(self) -> SparseTries {
        SparseTries { forest: self.builder.finish() }
    }
}

impl std::fmt::Debug for SparseTriesBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SparseTriesBuilder").field("len", &self.builder.len()).finish_non_exhaustive()
    }
}
