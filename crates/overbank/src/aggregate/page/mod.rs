//! Pages: groups in hash order, compressed by columns, found and changed without being decoded.
//!
//! ```text
//!   header │ words' heads │ ends of buckets  │ (starts of keys) │ fingerprints │
//!            base, width    2 bytes a bucket   likewise           a byte each
//!   (lengths)          │ keys        │ word 0 │ word 1 │ … │ exceptions ▸  ◂ (tails)
//!   0, 1, 2, 4 bytes     packed bits   width bytes each      12 bytes each
//!
//!   hash ─▶ bucket: its first bits ─▶ some 12 entries ─▶ fingerprint: the next 8 bits ─▶ the key itself, compared as packed bits
//! ```
//!
//! A hash is not stored: bucket and fingerprint are bits of it, which take 9.3 bits an entry, and who needs the rest hashes the key again.
//! Lengths are left out where all are equal. A word is kept as its difference to the base of its column, in 0, 1, 2, 4 or 8 bytes; what
//! does not fit is an exception, and a page keeps room for two more, so that a count that outgrows its byte does not rewrite its page.
//!
//! Invariants:
//! 1. Entries are in the order of their hashes, all 128 bits, and of their keys where these are equal. Many of one bucket, or of one hash,
//!    may go over several pages: the first bucket of a page may be the last of the one before.
//! 2. A page has [`BLOCK_BYTES`](super::pool::BLOCK_BYTES), unless it holds one entry that is longer.
//! 3. The bytes never leave the process that wrote them: nothing is checked that the writer promised.
//!
//! | cost | CPU |
//! |---|---|
//! | find | some 5 cache lines; 12 comparisons of a byte, and one of a key |
//! | change | the words alone |
//! | read all, write all | some 10 to 20 ns an entry |
//!
//! Source: Amur et al., SoCC 2013, section 4.2. Deviations: the paper's fragments store their hashes as differences, and are decompressed
//! before anything is found in them.

mod builder;
mod column;
mod find;
mod format;
mod reader;
#[cfg(test)]
mod tests;

pub(super) use builder::PageBuilder;
pub(super) use format::{Page, PageHead, change_words};
pub(super) use reader::EntryCursor;

/// The most bits of a bucket's number.
pub(super) const LG_BUCKETS_MAX: u32 = 24;

/// The bucket of a hash, of 2^`lg_buckets`.
#[inline]
pub(super) fn bucket_of(hash: u32, lg_buckets: u32) -> u32 {
    // Two shifts, for a shift by 32 is none.
    (hash >> 1).wrapping_shr(31u32.wrapping_sub(lg_buckets))
}

/// The bits of a hash behind those of its bucket.
#[inline]
pub(super) fn fingerprint_of(hash: u32, lg_buckets: u32) -> u8 {
    (hash.wrapping_shl(lg_buckets) >> 24) as u8
}
