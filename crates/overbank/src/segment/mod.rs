//! Immutable files in hash order: what every structure beyond RAM leaves on flash.
//!
//! ```text
//!   entries ──packed by the structure──▶ block bodies ──push_block──▶ Writer ──finish──▶ FileRef for a commit
//!                                        or pages ─────push_page───▶                        │
//!   hash ──index in RAM──▶ a block, or the blocks of a page ──read, many in flight──▶ body ◀── Segment::open
//! ```
//!
//! There are two indexes. Under *fences* a block begins anywhere. Under a *quantised* index, pages of one block or more begin only at
//! borders of equal parts of the hash range ([`Quanta`]); so it takes a sixth of the RAM, and names the one page of a hash, however long,
//! but the structure packs its entries by these borders and fills some 95 % of a block.
//!
//! Invariants:
//! 1. Blocks are in hash order: a block's first hash is not below the last hash of the block before it, and a page's first hash is
//!    in a later quantum than the last one of the page before it.
//! 2. Every block is sealed with its store, file and number, and checked on every read. That of a page says its place in the page.
//! 3. A segment is invisible until a commit names it; a writer that is dropped unfinished removes its file.
//! 4. The index never misses: a hash that is in the segment is in the blocks that [`Segment::find`] names. Fences name two blocks where
//!    they cannot tell: for one hash in 10^8, and where equal hashes go over a border. A quantised index names one page.
//!
//! | | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | write n blocks | CRC32C and XXH3 of each | 0 | n + 1; beyond 944, n + n/952 + 1 or 2 | 1 MiB, 2 if written behind, and until `finish` 9 bytes a block, or 1 or 2 a page |
//! | open | | 1; beyond 944, n/952 + 1 or 2, and the meta bytes' | 0 | 4.25 to 4.5 bytes a block: 1.1 MiB a GiB |
//! | `find` | two cache misses | 0 | 0 | 0 |
//! | look up k hashes | | k | 0 | depth × 4 KiB |
//! | [`reads`]: k blocks of several files | | k, neighbours in one request | 0 | a bound on what is in flight |
//! | `scan` | CRC32C of each block | n | 0 | 1 MiB, 2 if read ahead; the longest page |
//!
//! With a quantised index of 2^l quanta a block, the index takes about (2 + l) / 8 bytes a block on flash and in RAM instead.
//!
//! Deviation: the fences are a two-level directory of 31-bit remainders rather than Elias-Fano. It takes 36 bits
//! a block where Elias-Fano with as many bits of precision takes 33, and finds with one probe and a search among about
//! eight neighbours, without a select. Quantised borders have three bits where a fence has 31: there Elias-Fano is much shorter.

mod fences;
mod format;
mod index;
mod quanta;
mod quantised;
mod reader;
pub(crate) mod reads;
mod scan;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use format::blocks_behind;
#[cfg(feature = "internals")]
pub use index::LooseIndex;
pub use quanta::Quanta;
pub use reader::Segment;
pub use scan::Scan;
#[cfg(any(test, feature = "internals"))]
pub use writer::SegmentInfo;
pub use writer::SegmentWriter;

use crate::HashKind;
use crate::store::Structure;

/// Bytes of a block that a structure fills.
pub use crate::device::block::BODY_BYTES;

/// What a segment is of: stored in it, and compared when it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentKind {
    /// The structure, and the version of its block bodies.
    pub structure: Structure,
    /// The fingerprint of the seed of its hashes.
    pub seed_fingerprint: u64,
    /// The function of its hashes.
    pub hash_kind: HashKind,
}
