//! Entropy-coded tries: where a hash stands among sorted ones, in some 2.4 bits each.
//!
//! ```text
//!   keys   001…  010…  011…  110…            T of 4 keys
//!          └────3 left────┘  └1 right          code(3 of 4)  Rep(left)                     Rep(right)
//!                                              └ 0.. left of 3: all on one side, one more bit …   (one key: nothing)
//!
//!   Rep(T) = code(|Left(T)| given |T|)  [skip pointer]  Rep(Left(T))  Rep(Right(T))        pre-order, nothing where T ends
//! ```
//!
//! A trie covers a few hundred hashes, a *bucket*; a [`Forest`] is the tries of all buckets and where each begins. It is *dense* and says
//! of each of its hashes how many others are less, or *sparse* and says in which block the hash lies, where blocks hold a fixed number of
//! items.
//!
//! Invariants:
//! 1. `code` is a Huffman code of the binomial distribution where `|T|` is at most `huffman_keys_max`, else an Elias-gamma code of the
//!    distance from `|T| / 2`. All keys left and all keys right share a code, for no answer depends on which it is.
//! 2. A dense trie ends where one key is left. In it, a skip pointer stands in every trie of at least `skip_keys_min` keys that has keys on
//!    both sides: the length of `Rep(Left(T))`, less what a trie of so many keys takes on average, zigzag and Rice coded.
//! 3. A sparse trie ends where its keys lie in one block, or where a path of 128 bits does: equal hashes may lie in several blocks. It has
//!    no pointers.
//! 4. A trie that [`check`](read::TrieReader::check) accepts is read without a panic and without going past its end, whatever is asked.
//!
//! | cost | CPU | RAM |
//! |---|---|---|
//! | write | O(keys) | the hashes of one bucket, a scratch stream for each skip pointer that is under way |
//! | rank | O(keys) bits, a few at a time; with skip pointers O(`skip_keys_min`) | – |
//!
//! Source: Lim, Andersen, Kaminsky, Practical Batch-Updatable External Hashing with Sorting, ALENEX 2013, sections 2.3, 2.4 and 2.6. Beyond
//! it: the skip pointers, and tables that pass over a whole small trie at a time.
//!
//! Where we left it: weights below 2^-30 are raised to that, so that no code is longer than 45 bits. Buckets are equal parts of a range
//! of hashes, any number of them, not the prefixes of some whole number of bits, so that any average size can be had.

mod averages;
mod codes;
mod directory;
mod forest;
mod format;
mod locate;
#[cfg(test)]
mod model;
mod places;
mod pointer;
mod read;
mod sparse;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use codes::HUFFMAN_KEYS_MAX;
pub(crate) use forest::{Forest, ForestBuilder};
pub use sparse::{SparseOptions, SparseTries, SparseTriesBuilder};

/// How tries are coded: both sides must agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TrieShape {
    /// Up to how many keys counts are Huffman coded: the paper's hmax.
    pub(crate) huffman_keys_max: u32,
    pub(crate) detail: Detail,
}

/// Where tries end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    /// At single keys: dense tries.
    Keys {
        /// From how many keys on a trie has a skip pointer; `u32::MAX` for none.
        skip_keys_min: u32,
    },
    /// Where all keys lie in one block: sparse tries.
    Blocks {
        /// Items of a block, at least 1.
        items: u32,
    },
}

impl TrieShape {
    fn skip_keys_min(self) -> u32 {
        match self.detail {
            Detail::Keys { skip_keys_min } => skip_keys_min,
            Detail::Blocks { .. } => u32::MAX,
        }
    }

    /// How many items a block has: 1 where tries end at single keys.
    fn block_items(self) -> u32 {
        match self.detail {
            Detail::Keys { .. } => 1,
            Detail::Blocks { items } => items,
        }
    }
}

/// A key's way down its trie: the bits of a hash behind those that its bucket has used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Path {
    high: u64,
    low: u64,
}

impl Path {
    /// Bits of a path, and so the levels of a trie at most.
    const BITS: u32 = 128;

    /// Takes the first bit off.
    #[inline(always)]
    fn next_bit(&mut self) -> u64 {
        let bit = self.high >> 63;
        self.high = self.high << 1 | self.low >> 63;
        self.low <<= 1;
        bit
    }
}

/// Signed as unsigned, small either way: 0, -1, 1, -2, …
#[inline(always)]
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

/// What [`zigzag`] made of it.
#[inline(always)]
fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
