//! The file of a run, open: what all that see a part of it share.

use super::super::rank::HashRank;
use super::codec::Unpacker;
use super::format::{Counts, Meta};
use crate::device::BLOCK_BYTES;
use crate::dictionary::item::ItemHasher;
use crate::error::corrupt_bytes;
use crate::filter::run::Front;
use crate::segment::Segment;
use crate::{Error, Result};

/// What all that see a part of a run share.
#[derive(Debug)]
pub(super) struct RunFile {
    pub(super) segment: Segment,
    pub(super) hasher: ItemHasher,
    pub(super) counts: Counts,
    pub(super) front: Option<Front>,
    pub(super) ranks: Option<HashRank>,
    pub(super) unpacker: Unpacker,
}

impl RunFile {
    /// Takes what a segment says of itself apart.
    ///
    /// # Errors
    /// As [`RunSegment::open`](super::RunSegment::open).
    pub(super) fn of(mut segment: Segment, hasher: ItemHasher) -> Result<RunFile> {
        let bytes = segment.take_meta();
        let opened =
            Meta::decode(&bytes, segment.entries(), segment.kind().structure.version).and_then(|meta| {
                let front = (!meta.front.is_empty()).then(|| Front::decode(meta.front)).transpose()?;
                let ranks = (!meta.ranks.is_empty()).then(|| HashRank::from_bytes(meta.ranks)).transpose()?;
                let ranks = ranks.map(|ranks| same_items(ranks, hasher, segment.entries())).transpose()?;
                Ok((meta.counts, front, ranks, Unpacker::new(meta.compression, meta.dictionary)?))
            });
        let (counts, front, ranks, unpacker) =
            opened.map_err(|error| error.in_file_from(segment.path(), segment.file_ref().bytes))?;
        Ok(RunFile { segment, hasher, counts, front, ranks, unpacker })
    }

    /// Says of damage in a page from `block` on where it is.
    pub(super) fn in_page(&self, error: Error, block: u64) -> Error {
        error.in_file_from(self.segment.path(), block * BLOCK_BYTES as u64)
    }
}

/// The ranks, if they are of so many items and of these hashes.
fn same_items(ranks: HashRank, hasher: ItemHasher, items: u64) -> Result<HashRank> {
    if ranks.len() == items && ranks.hash_id() == hasher.key_hasher().into() {
        return Ok(ranks);
    }
    let found = format!("{} items, {:?}", ranks.len(), ranks.hash_id());
    Err(corrupt_bytes(0, "the ranks of a run", format!("those of its {items} items"), found))
}
