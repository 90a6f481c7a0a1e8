//! Runs: immutable files of items in hash order, of which a lookup reads one page.
//!
//! ```text
//!   items in order ─▶ RunWriter ─▶ pages, each of whole quanta │ index │ meta │ footer      a segment
//!                                    │                           └ in RAM: the one page of a hash
//!   RunScan: all items, or a range ◀─┤
//!   read_pages: pages of many runs ◀─┘ one read a lookup, all in flight together
//! ```
//!
//! A page begins only where a quantum does, one of many equal parts of the run's range of hashes: so the index, some five bits a page, is
//! exact. A page is cut before the first quantum that does not fit it any more; one quantum alone that does not fit makes a longer page.
//!
//! Invariants:
//! 1. All items of a hash are in one page, and the index names it.
//! 2. A run is whole before anything refers to it, and never changes. An unfinished one removes its file.
//! 3. Keys are stored and hashes are not: who goes through a run hashes its keys again.
//!
//! | | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | write n items | O(n), some 40 ns an item | 0 | their pages | one page being filled, 1 MiB, 2 if written behind; a byte or two a page |
//! | open | | one, the index's and the meta bytes' | 0 | some 5 bits a page |
//! | [`read_pages`] of k pages | | each page once, neighbours together | 0 | a bound on what is in flight |
//! | scan | O(n), a hash an item | the pages of the range | 0 | a piece, two if read ahead, and a page |

mod codec;
mod file;
mod format;
mod reader;
mod reads;
mod scan;
mod search;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub(crate) use format::Counts;
pub(crate) use reader::RunSegment;
pub(crate) use reads::{PageReads, read_pages};
pub(crate) use scan::RunScan;
pub(crate) use writer::RunWriter;

/// How a run is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunShape {
    /// Blocks that a page is filled up to: what a lookup reads.
    pub(crate) page_blocks: u32,
    /// How its pages are compressed.
    pub(crate) compression: Compression,
    /// Bits a key of what tells without a read that a key is not there; `None` for none.
    pub(crate) front_bits: Option<u32>,
    /// Whether it tells a key's rank.
    pub(crate) has_ranks: bool,
}

/// How the pages of a run are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Compression {
    /// They are not.
    #[default]
    None = 0,
    /// By LZ4: fast, and some two or three times shorter where keys and values are text.
    Lz4 = 1,
    /// By zstd, shorter still, with a dictionary that is trained on the first items, which are as good a sample as any: they come in the
    /// order of their hashes.
    Zstd = 2,
}

/// What is to come into a run: not more than that, or pages grow longer than they should.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Expected {
    pub(crate) items: u64,
    /// Of keys and values.
    pub(crate) bytes: u64,
}

impl Compression {
    /// What the manifest says of it.
    pub(crate) fn of_code(code: u8) -> Option<Compression> {
        [Compression::None, Compression::Lz4, Compression::Zstd].into_iter().find(|one| *one as u8 == code)
    }
}

impl std::ops::Add for Expected {
    type Output = Expected;

    fn add(self, other: Expected) -> Expected {
        Expected { items: self.items + other.items, bytes: self.bytes + other.bytes }
    }
}
