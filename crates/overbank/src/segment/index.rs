//! The two kinds of block index, and what is collected for them while a segment is written.

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
