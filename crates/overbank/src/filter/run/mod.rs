//! Runs: immutable files of sorted fingerprints, packed; the levels of a cascade filter on flash.
//!
//! ```text
//!   sorted fingerprints ─▶ RunWriter ─▶ blocks that decode alone │ fences │ meta │ footer      a segment
//!                              ▲                    │                 └ in RAM: which block has a fingerprint
//!     Merge: window by window ─┘◀── RunCursor ◀─────┤         PackedRun: the same blocks in RAM, merged and asked alike
//!                                   count_many ◀────┘ one block a run and fingerprint, all runs in one wave of reads
//! ```
//!
//! A fingerprint is the top `p <= 64` bits of `KeyHash::high()`, as a number below 2^p. It is once in a run, with a count: how often
//! its key was inserted or, in a run of [`Sign::Removals`], removed. The sum over all runs, removals taken off, is how often it is in the
//! filter, if only keys that were inserted are removed. Removing a key that was never inserted can remove another one that has the same
//! fingerprint. So insertions and removals are each merged as plain sums, at full speed; a merge of both annihilates them, and what a
//! removal could not take there, because it is in a run that has no part in the merge, stays as a negative count beside insertions: a
//! tombstone. A lookup reads runs of removals for those fingerprints only that runs of insertions have.
//!
//! Invariants:
//! 1. Fingerprints ascend strictly from block to block and within each; so all counts of one are in one block.
//! 2. A run is whole before anything refers to it, and never changes. An unfinished one removes its file.
//! 3. Equal entries make equal bytes, however they were cut into batches, windows or steps.
//! 4. Counts of one are not stored.
//! 5. Runs of longer and shorter fingerprints are asked together, by prefixes of hashes; merged are those of one kind.
//!
//! The last bits of a fingerprint may be a value beside its key, a maplet: [`values_many`].
//!
//! | | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | write n | O(n) | 0 | n (r + 2.1) / 32,768 | 1.2 MiB; 2.2 if written behind |
//! | open | | 2 + 1/952 of the run | 0 | 4.5 bytes a block: 1.1 MiB a GiB |
//! | look up k in l runs | O(k l) | at most k l | 0 | the reads in flight |
//! | look up k behind fronts | O(k l) | those that pass: of b bits a key about 2^(-0.7 b) | 0 | b n bits; see `front` |
//! | cursor | O(n) | the range's, once | 0 | 256 KiB; 512 if read ahead |
//! | merge of m runs | O(n lg m) | all, once | the result, once | a writer, m cursors, 16 KiB unpacked of each, of few 64 to 128 |
//!
//! `r = lg(2^p / n)` is what a fingerprint must have: the rate of false positives is 2^-r. The cost is r + 1.91 to 2.0 bits by the split
//! of the bits, 0.4 % of headers, 0.4 % of seals and 0.1 % of fences.
//!
//! Source: Bender et al., Don't Thrash: How to Cache Your Hash on Flash (2012), section 2: the in-flash quotient filters.
//! Deviation: a level on flash never changes, so it needs no empty slots and no metadata bits: quotients in unary, remainders packed,
//! which is Elias-Fano's code a block at a time. A quotient filter of load 3/4 needs r + 3 bits for 4/3 of the slots.

mod cursor;
mod decode;
mod encode;
mod entries;
mod exceptions;
mod format;
mod front;
mod inputs;
mod merge;
mod packed;
mod query;
mod reader;
mod scan;
#[cfg(test)]
mod tests;
mod values;
mod window;
mod writer;

#[cfg(feature = "internals")]
pub use cursor::RunCursor;
pub use entries::Entries;
#[cfg(any(test, feature = "internals"))]
pub use front::BITS_RANGE;
pub use front::{Front, FrontBuilder, FrontOrder, FrontShape, allot};
#[cfg(any(test, feature = "internals"))]
pub use inputs::Progress;
pub use inputs::Source;
pub use merge::{Merge, MergeOptions, MergedCursor};
#[cfg(feature = "internals")]
pub use packed::PackedCursor;
pub use packed::PackedRun;
pub use query::count_many;
pub use reader::FingerprintSegment;
pub use scan::FrontScan;
#[cfg(feature = "internals")]
pub use values::FoundValues;
pub use values::values_many;
#[cfg(any(test, feature = "internals"))]
pub use writer::{RunInfo, RunWriter};

use crate::HashKind;
#[cfg(any(test, feature = "internals"))]
use crate::Result;

/// The entries of one block's body, whose fingerprints have `fingerprint_bits`: what a cursor makes of it.
///
/// # Errors
/// `Corrupt` where no writer wrote that; `InvalidOption` for a number of bits that is not 1 to 64.
#[cfg(any(test, feature = "internals"))]
pub fn decode_block(body: &[u8], fingerprint_bits: u32) -> Result<Entries> {
    format::check_bits(fingerprint_bits)?;
    let mut entries = Entries::default();
    decode::decode(body, format::fingerprint_max(fingerprint_bits), &mut entries)?;
    Ok(entries)
}

/// The counts of ascending `fingerprints` in one block's body, 0 for those that are not there: what a lookup makes of it.
///
/// # Errors
/// As [`decode_block`], as far as a lookup could be led out of the block; it looks at no more than it must.
#[cfg(feature = "internals")]
pub fn count_in_block(body: &[u8], fingerprint_bits: u32, fingerprints: &[u64]) -> Result<Vec<i64>> {
    format::check_bits(fingerprint_bits)?;
    let mut prober = decode::Prober::new(body, format::fingerprint_max(fingerprint_bits))?;
    fingerprints.iter().map(|&fingerprint| prober.count(fingerprint)).collect()
}

/// What the entries of a run do to the sum of a fingerprint's counts: add to it, or take from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Sign {
    /// The counts are of insertions.
    #[default]
    Insertions,
    /// The counts, all above 0, are of removals.
    Removals,
}

impl Sign {
    /// What a run's count is in the sum of a fingerprint's counts.
    #[inline(always)]
    pub fn signed(self, count: i64) -> i64 {
        match self {
            Sign::Insertions => count,
            Sign::Removals => -count,
        }
    }
}

/// What the fingerprints of a run are: stored in it, and compared when it is opened or merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunKind {
    /// Bits of a fingerprint, 1 to 64.
    pub fingerprint_bits: u32,
    /// The fingerprint of the seed of their hashes.
    pub seed_fingerprint: u64,
    /// The function of their hashes.
    pub hash_kind: HashKind,
    /// Whether they were inserted or removed.
    pub sign: Sign,
}

impl RunKind {
    /// The fingerprint of a hash.
    ///
    /// ```
    /// # #[cfg(feature = "internals")]
    /// # {
    /// use overbank::filter::run::{RunKind, Sign};
    /// use overbank::{HashKind, KeyHash};
    /// let kind =
    ///     RunKind { fingerprint_bits: 12, seed_fingerprint: 0, hash_kind: HashKind::Xxh3, sign: Sign::Insertions };
    /// assert_eq!(kind.fingerprint(KeyHash::new(0xabcd_0000_0000_0000, 0)), 0xabc);
    /// # }
    /// ```
    #[cfg(feature = "internals")]
    pub fn fingerprint(&self, hash: crate::KeyHash) -> u64 {
        self.fingerprint_of(hash.high())
    }

    /// The fingerprint of the hashes that begin with `prefix`, which is left-aligned.
    fn fingerprint_of(&self, prefix: u64) -> u64 {
        prefix >> self.shift()
    }

    /// Where a fingerprint stands in hash order: its bits on top.
    fn hash(&self, fingerprint: u64) -> u64 {
        fingerprint << self.shift()
    }

    /// Which of ascending `prefixes` have a fingerprint from `first` to `last`.
    fn within(&self, prefixes: &[u64], first: u64, last: u64) -> std::ops::Range<usize> {
        let start = prefixes.partition_point(|&prefix| self.fingerprint_of(prefix) < first);
        let len = prefixes[start..].partition_point(|&prefix| self.fingerprint_of(prefix) <= last);
        start..start + len
    }

    fn shift(&self) -> u32 {
        64 - self.fingerprint_bits.clamp(1, 64)
    }

    fn segment_kind(&self) -> crate::segment::SegmentKind {
        crate::segment::SegmentKind {
            structure: format::STRUCTURE,
            seed_fingerprint: self.seed_fingerprint,
            hash_kind: self.hash_kind,
        }
    }
}
