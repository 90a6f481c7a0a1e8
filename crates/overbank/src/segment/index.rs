//! The kinds of block index, and what is collected for them while a segment is written.

use super::fences::{Borders, Fences};
use super::format::IndexKind;
use super::quantised::{Pages, Quantised};
use crate::Result;
use std::ops::Range;
use std::path::Path;

/// Where a hash's blocks are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BlockIndex {
    Fences(Fences),
    Quantised(Quantised),
}

impl BlockIndex {
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Range<u64> {
        match self {
            Self::Fences(fences) => fences.find(hash),
            Self::Quantised(quantised) => quantised.find(hash),
        }
    }

    /// Has on its way what a find of this hash will read, where that misses the cache.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Self::Quantised(quantised) = self {
            quantised.prefetch(hash);
        }
    }

    pub(super) fn begin_below(&self, hash: u64) -> u64 {
        match self {
            Self::Fences(fences) => fences.begin_below(hash),
            Self::Quantised(quantised) => quantised.begin_below(hash),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Fences(fences) => fences.memory_bytes(),
            Self::Quantised(quantised) => quantised.memory_bytes(),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Fences(fences) => fences.encode(),
            Self::Quantised(quantised) => quantised.encode(),
        }
    }

    /// Reads what [`BlockIndex::encode`] wrote of `blocks` blocks whose hashes are from `hashes.0` to `hashes.1`; it lies at `at` in the
    /// file, trailers left out, and has the length that the footer says.
    pub(super) fn decode(
        kind: IndexKind,
        bytes: &[u8],
        blocks: u64,
        hashes: (u64, u64),
        at: u64,
        path: &Path,
    ) -> Result<Self> {
        match kind {
            IndexKind::Fences if blocks == 0 => Ok(Self::Fences(Fences::new(&Default::default()))),
            IndexKind::Fences => Fences::decode(bytes, blocks, hashes, at, path).map(Self::Fences),
            IndexKind::Quantised { .. } => Quantised::decode(bytes, blocks, hashes)
                .map(Self::Quantised)
                .map_err(|error| error.in_file_from(path, at)),
        }
    }
}

/// What a writer knows of its blocks.
#[derive(Clone, Debug)]
pub(super) enum Collected {
    Fences(Borders),
    Quantised(Pages),
}

impl Collected {
    pub(super) fn blocks(&self) -> u64 {
        match self {
            Self::Fences(borders) => borders.len() as u64,
            Self::Quantised(pages) => pages.blocks(),
        }
    }

    /// Of the first and the last entry; 0 where there is none.
    pub(super) fn hashes(&self) -> (u64, u64) {
        match self {
            Self::Fences(borders) => (borders.first_hash(), borders.last_hash()),
            Self::Quantised(pages) => (pages.first_hash(), pages.last_hash()),
        }
    }

    pub(super) fn index(&self) -> BlockIndex {
        match self {
            Self::Fences(borders) => BlockIndex::Fences(Fences::new(borders)),
            Self::Quantised(pages) => BlockIndex::Quantised(Quantised::new(pages)),
        }
    }
}

/// A block index without a segment, for benches.
#[cfg(feature = "internals")]
#[derive(Clone, Debug)]
pub struct LooseIndex(BlockIndex);

#[cfg(feature = "internals")]
impl LooseIndex {
    /// Fences of blocks whose first and last hashes are these, in order.
    pub fn fences(blocks: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut borders = Borders::default();
        blocks.for_each(|(first, last)| borders.push(first, last));
        Self(Collected::Fences(borders).index())
    }

    /// The quantised index of pages whose first and last hashes, and blocks, are these.
    ///
    /// # Errors
    /// `InvalidOption` for pages that [`SegmentWriter::push_page_of`](super::SegmentWriter::push_page_of) refuses.
    pub fn quantised(quanta: super::Quanta, pages: impl Iterator<Item = (u64, u64, u64)>) -> Result<Self> {
        let mut collected = Pages::new(quanta);
        for (first, last, blocks) in pages {
            collected.check(first, last)?;
            collected.push(first, last, blocks);
        }
        Ok(Self(Collected::Quantised(collected).index()))
    }

    /// As [`Segment::find`](super::Segment::find).
    #[inline]
    pub fn find(&self, hash: u64) -> Range<u64> {
        self.0.find(hash)
    }

    /// As [`Segment::prefetch`](super::Segment::prefetch).
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.0.prefetch(hash);
    }

    /// Bytes of RAM.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// Bytes on flash, without padding.
    pub fn encoded_bytes(&self) -> usize {
        self.0.encode().len()
    }
}
