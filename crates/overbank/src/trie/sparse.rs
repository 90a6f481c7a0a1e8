//! In which block a hash lies, where items of one size stand in hash order in blocks: the paper's sparse index.
//!
//! | items of a block | bits an item |
//! |---|---|
//! | 256 | 0.17 |
//! | 40 | 0.54 |
//! | 4 | 1.67 |
//!
//! Measured on 4 M items with [`SparseOptions::for_blocks_of`], the places of buckets included.

use super::forest::{Forest, ForestBuilder};
use super::{Detail, HUFFMAN_KEYS_MAX, TrieShape};
use crate::bytes::ByteReader;
use crate::error::invalid;
use crate::{KeyHash, Result};
use std::ops::{Range, RangeInclusive};

/// The most keys of a bucket that are asked for unless told otherwise: of more, what is kept of a bucket takes next to nothing.
const BUCKET_KEYS: u32 = 4096;

/// How much space [`SparseTries`] take, and how fast they answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SparseOptions {
    bucket_keys: u32,
    huffman_keys_max: u32,
}

impl SparseOptions {
    /// Huffman codes up to 64 keys, and buckets of two blocks, of at least 256 keys: what is kept of a bucket beside its trie then takes
    /// less than the trie.
    pub fn for_blocks_of(block_items: u32) -> Self {
        Self { bucket_keys: block_items.saturating_mul(2).clamp(256, BUCKET_KEYS), huffman_keys_max: 64 }
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

/// The blocks of sorted hashes, of which each block but the last holds exactly `block_items`: the index of a file of items of one size
/// that is sorted in hash order, whoever wrote it. It is built from the hashes alone, at any time. The dictionary's own pages have an index
/// of 5 bits a page instead, which is smaller, and takes items of any length.
///
/// ```
/// use overbank::dictionary::{SparseOptions, SparseTries};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
/// let mut hashes: Vec<_> = (0..1000u64).map(|number| hasher.hash_u64(number)).collect();
/// hashes.sort_unstable();
/// let mut builder = SparseTries::builder(0..=u64::MAX, 1000, 255, SparseOptions::for_blocks_of(255))?;
/// for hash in &hashes {
///     builder.push(*hash)?;
/// }
/// let blocks = builder.finish();
/// assert_eq!(blocks.find(hashes[600]), 2..3);
/// # Ok::<(), overbank::Error>(())
/// ```
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
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a hash below the one before, or outside the range; it is not taken.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn built(hashes: &[KeyHash], expected: u64, block_items: u32, options: SparseOptions) -> SparseTries {
        let range =
            hashes.first().map_or(0, |hash| hash.high())..=hashes.last().map_or(0, |hash| hash.high());
        let mut builder = SparseTries::builder(range, expected, block_items, options).unwrap();
        hashes.iter().for_each(|hash| builder.push(*hash).unwrap());
        builder.finish()
    }

    proptest! {
        /// Hashes that cluster, and such as repeat, over more than a block too.
        #[test]
        fn blocks_are_those_of_the_items(
            drawn in prop::collection::vec((
                prop_oneof![8 => any::<u128>(), 1 => any::<u16>().prop_map(u128::from), 1 => Just(7u128 << 100)],
                prop_oneof![20 => Just(1usize), 1 => 2usize..70],
            ), 0..800),
            block_items in prop_oneof![1u32..5, 1u32..300],
            expected in prop_oneof![Just(800u64), 0u64..5000],
            bucket_keys in prop_oneof![Just(256u32), 1u32..1000],
            huffman_keys_max in 1u32..=128,
            others in prop::collection::vec(any::<u128>(), 10),
        ) {
            let mut hashes: Vec<KeyHash> =
                drawn.into_iter().flat_map(|(hash, times)| vec![KeyHash(hash); times]).collect();
            hashes.sort_unstable();
            let options = SparseOptions { bucket_keys, huffman_keys_max };
            let tries = built(&hashes, expected, block_items, options);
            let block = |item: usize| item as u64 / u64::from(block_items);
            for hash in &hashes {
                let (first, end) =
                    (hashes.partition_point(|other| other < hash), hashes.partition_point(|other| other <= hash));
                prop_assert_eq!(tries.find(*hash), block(first)..block(end - 1) + 1);
            }
            for other in others {
                prop_assert!(tries.find(KeyHash(other)).end <= tries.len().div_ceil(u64::from(block_items)));
            }
            let mut bytes = Vec::new();
            tries.encode(&mut bytes);
            prop_assert!(SparseTries::decode(&bytes).unwrap() == tries);
        }
    }

    /// Figure 6 of the paper, and what it takes here: bits an item, of tries and of all.
    #[test]
    fn an_item_takes_what_the_paper_says() {
        for (block_items, bits_max) in [(256, 0.174), (40, 0.584), (4, 1.716)] {
            let items = 200_000u64;
            let hasher = keyhash::KeyHasher::new(keyhash::HashKind::Xxh3, keyhash::Seed(5));
            let mut hashes: Vec<KeyHash> = (0..items).map(|item| hasher.hash_u64(item)).collect();
            hashes.sort_unstable();
            let tries = built(&hashes, items, block_items, SparseOptions::for_blocks_of(block_items));
            let bits = tries.memory_bytes() as f64 * 8.0 / items as f64;
            assert!(bits < bits_max + 0.01, "{bits} bits an item, {block_items} items a block");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let options = SparseOptions::for_blocks_of(4);
        assert!(SparseTries::builder(0..=9, 1, 0, options).is_err());
        assert!(SparseTries::builder(0..=9, 1, 4, options.bucket_keys(0)).is_err());
        assert!(SparseTries::builder(0..=9, 1, 4, options.huffman_keys_max(129)).is_err());
        let mut builder = SparseTries::builder(3..=9, 1, 4, options).unwrap();
        builder.push(KeyHash::new(5, 5)).unwrap();
        for refused in [KeyHash::new(5, 4), KeyHash::new(10, 0), KeyHash::new(2, 0)] {
            assert!(builder.push(refused).is_err());
        }
        builder.push(KeyHash::new(5, 5)).unwrap();
        assert_eq!(builder.finish().find(KeyHash::new(5, 5)), 0..1);
    }
}
