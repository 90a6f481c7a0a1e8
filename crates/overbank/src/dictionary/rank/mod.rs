//! The rank of a hash among sorted hashes, in 2.5 bits a hash: a minimal perfect hash function that keeps hash order.
//!
//! ```text
//!   hash ──▶ bucket = part of the range ──▶ directory ──▶ rank of the bucket's first hash
//!                  path = what is left of it     │  └──────▶ number of its hashes
//!                         │                      └─────────▶ bit where its trie begins ──▶ trie.rank(path)
//! ```
//!
//! Invariants:
//! 1. `rank` is a bijection from the hashes that were pushed to `0..len`, and keeps their order.
//! 2. Where several items have one hash, its rank is that of the first, and the others have the ranks behind it.
//!
//! | cost | CPU | RAM |
//! |---|---|---|
//! | build | some 40 ns a hash | 2.5 bits a hash |
//! | `rank` | two cache misses, and some 60 keys' bits of one trie | – |
//! | `rank_many` | the same, the misses of many under way at once | – |
//!
//! Source: Lim, Andersen, Kaminsky, Practical Batch-Updatable External Hashing with Sorting, ALENEX 2013, sections 2.3 and 2.4.
//!
//! Where we left it: see the room `trie`.

mod format;
#[cfg(test)]
mod tests;

use crate::error::invalid;
use crate::sketch::HashId;
use crate::trie::{Detail, Forest, ForestBuilder, HUFFMAN_KEYS_MAX, TrieShape};
use crate::{KeyHash, Result};
use std::ops::RangeInclusive;

/// The most keys that a bucket may have on average: a 256th of what it may hold, so that none comes near that.
const BUCKET_KEYS_MAX: u32 = 1 << 16;

/// How much space a [`HashRank`] takes, and how fast it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashRankOptions {
    bucket_keys: u32,
    huffman_keys_max: u32,
    skip_keys_min: Option<u32>,
}

impl Default for HashRankOptions {
    fn default() -> Self {
        Self { bucket_keys: 244, huffman_keys_max: 128, skip_keys_min: Some(128) }
    }
}

impl HashRankOptions {
    /// 244 keys a bucket, Huffman codes up to 128 keys, skip pointers from 128 keys on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys of a bucket on average, 1 to 65,536: the paper's g. More take less space and longer to decode.
    pub fn bucket_keys(mut self, keys: u32) -> Self {
        self.bucket_keys = keys;
        self
    }

    /// Up to how many keys of a trie counts are Huffman coded, 1 to 128: the paper's hmax.
    pub fn huffman_keys_max(mut self, keys: u32) -> Self {
        self.huffman_keys_max = keys;
        self
    }

    /// From how many keys on a trie has a pointer past its left side, 2 at least; `None` for the paper's tries, which have none. 64 instead
    /// of 128 takes 2.56 bits instead of 2.50, and two thirds of the time: it is for those who ask for many ranks.
    pub fn skip_keys_min(mut self, keys: Option<u32>) -> Self {
        self.skip_keys_min = keys;
        self
    }

    fn shape(self) -> Result<TrieShape> {
        let checked = |name, value: u32, range: RangeInclusive<u32>| {
            if range.contains(&value) {
                return Ok(value);
            }
            invalid(name, value, format!("it must be {} to {}", range.start(), range.end()))
        };
        checked("bucket_keys", self.bucket_keys, 1..=BUCKET_KEYS_MAX)?;
        let skip_keys_min = checked("skip_keys_min", self.skip_keys_min.unwrap_or(u32::MAX), 2..=u32::MAX)?;
        Ok(TrieShape {
            huffman_keys_max: checked("huffman_keys_max", self.huffman_keys_max, 1..=HUFFMAN_KEYS_MAX)?,
            detail: Detail::Keys { skip_keys_min },
        })
    }
}

/// Where each of some hashes stands among them in hash order, without the hashes: 2.5 bits each.
///
/// It answers for any hash, and only for those that it was built from is the answer right: whoever cannot know asks what stands at the
/// rank, and compares. Different keys may have one hash, if hardly ever: its rank is then where the first of them stands, and the others
/// follow.
///
/// # Accuracy
/// Exact for the hashes that it was built from; for others some rank below [`len`](HashRank::len).
///
/// ```
/// use overbank::dictionary::{HashRank, HashRankOptions};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
/// let mut hashes: Vec<_> = ["ada", "grace", "barbara"].map(|key| hasher.hash(key.as_bytes())).into();
/// hashes.sort_unstable();
/// let mut builder = HashRank::builder(hashes.len() as u64, hasher, HashRankOptions::new())?;
/// for hash in &hashes {
///     builder.push(*hash)?;
/// }
/// let ranks = builder.finish();
/// assert_eq!(ranks.rank(hashes[1]), 1);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HashRank {
    hash_id: HashId,
    forest: Forest,
    /// For each item whose hash is that of the one before: how many different hashes are less. As good as always empty.
    repeats: Vec<u64>,
}

impl HashRank {
    /// Starts a function of some `expected` hashes made by `hasher`: fewer or more may come, at the price of shorter or longer buckets.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for an option out of its range.
    pub fn builder(
        expected: u64,
        hasher: impl Into<HashId>,
        options: HashRankOptions,
    ) -> Result<HashRankBuilder> {
        Self::builder_in(0..=u64::MAX, expected, hasher, options)
    }

    /// The same for hashes whose first 64 bits are of a range.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for an option out of its range, or an empty range.
    pub fn builder_in(
        range: RangeInclusive<u64>,
        expected: u64,
        hasher: impl Into<HashId>,
        options: HashRankOptions,
    ) -> Result<HashRankBuilder> {
        if range.is_empty() {
            return invalid("range", format!("{range:x?}"), "its first hash must not be above its last");
        }
        Ok(HashRankBuilder {
            hash_id: hasher.into(),
            builder: Forest::builder(options.shape()?, range, expected, options.bucket_keys),
            last: None,
            repeats: Vec::new(),
        })
    }

    /// Where this hash stands among those that the function was built from; 0 where there are none.
    ///
    /// # Cost
    /// Two cache misses, and the decoding of a part of one bucket.
    #[inline]
    pub fn rank(&self, hash: KeyHash) -> u64 {
        self.among_all(self.forest.rank(hash))
    }

    /// [`rank`](Self::rank) of each hash, in their order.
    ///
    /// # Cost
    /// Cache misses of 32 hashes are under way together.
    pub fn rank_many(&self, hashes: &[KeyHash]) -> Vec<u64> {
        let mut ranks = Vec::with_capacity(hashes.len());
        self.forest.rank_many(hashes, |rank| ranks.push(self.among_all(rank)));
        ranks
    }

    /// How many items it was built from, those of equal hashes included.
    pub fn len(&self) -> u64 {
        self.forest.len() + self.repeats.len() as u64
    }

    /// Whether it was built from none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items had the hash of the one before.
    pub fn repeats(&self) -> u64 {
        self.repeats.len() as u64
    }

    /// Under which hash it was built.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// Bytes that it holds in RAM.
    pub fn memory_bytes(&self) -> usize {
        self.forest.memory_bytes() + self.repeats.capacity() * size_of::<u64>() + size_of::<HashId>()
    }

    /// Bits of the tries alone: what is left of [`memory_bytes`](Self::memory_bytes) is where each begins.
    pub fn trie_bits(&self) -> u64 {
        self.forest.trie_bits()
    }

    /// The rank among all items of what has this rank among different hashes.
    #[inline(always)]
    fn among_all(&self, rank: u64) -> u64 {
        if self.repeats.is_empty() {
            return rank;
        }
        rank + self.repeats.partition_point(|repeated| *repeated < rank) as u64
    }
}

impl std::fmt::Debug for HashRank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashRank")
            .field("len", &self.len())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

/// Takes sorted hashes one by one.
pub struct HashRankBuilder {
    hash_id: HashId,
    builder: ForestBuilder,
    last: Option<KeyHash>,
    repeats: Vec<u64>,
}

impl HashRankBuilder {
    /// Takes the hash of the next item; equal ones may follow each other.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a hash below the one before, or outside the range; it is not taken.
    #[inline]
    pub fn push(&mut self, hash: KeyHash) -> Result<()> {
        if self.last == Some(hash) {
            self.repeats.push(self.builder.len() - 1);
            return Ok(());
        }
        self.builder.push(hash)?;
        self.last = Some(hash);
        Ok(())
    }

    /// How many items were taken.
    pub fn len(&self) -> u64 {
        self.builder.len() + self.repeats.len() as u64
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The finished function.
    pub fn finish(mut self) -> HashRank {
        self.repeats.shrink_to_fit();
        HashRank { hash_id: self.hash_id, forest: self.builder.finish(), repeats: self.repeats }
    }
}

impl std::fmt::Debug for HashRankBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashRankBuilder").field("len", &self.len()).finish_non_exhaustive()
    }
}
