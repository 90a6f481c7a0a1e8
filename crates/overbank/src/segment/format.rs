//! Where everything lies in a segment file.
//!
//! ```text
//!   block 0 …            n          n + f       n + f + m     n + f + m + 1
//!   ├── data bodies ─────┼─ index ──┼─ meta ────┼─ footer ────┤       every block sealed; the seal's tag is the part
//!
//!   What of the index fills no block, and meta, are behind the footer if they fit there, and meta has no block of its own (m = 0):
//!   where a segment is short, one block is all that follows its data (f = m = 0).
//!
//!   index    fences: 2^lg_buckets + 1 bucket starts, u32      n remainders, u32
//!            quantised: first hash, last hash, quanta, unit, borders; see `quantised.rs`      padding 0
//!   meta     the structure's own bytes                                                        padding 0
//!   footer   0      8        10          12         13            14          16
//!            ┼ magic ┼ version ┼ structure ┼ hash kind ┼ lg_buckets ┼ structure version
//!            16                  24       32        40            48           56             64            72
//!            ┼ seed fingerprint   ┼ blocks ┼ entries ┼ first hash   ┼ last hash  ┼ meta bytes   ┼ index ─┼ index, meta │ padding 0
//!
//!   index    7 bytes: how long it is; 1 byte: 1 for a quantised one. All 0 for fences, whose length follows from the blocks.
//!   seals of data blocks   sequence: the block's place in its page (upper 32 bits), and the page's blocks. 0 under fences, where a
//!                          page is a block.
//! ```
//!
//! Versions 2 and 3 are read. Version 2 had fences and meta in blocks of their own always; version 3 where they did not fit behind the
//! footer together. Where the fences fill no block, the bytes are those of version 3, which the footer then says; those of version 4
//! where they do. Version 5 is that of a quantised index; its `lg_buckets` is 0.

use super::SegmentKind;
use crate::bytes::ByteReader;
use crate::device::BLOCK_BYTES;
use crate::device::block::BODY_BYTES;
use crate::error::corrupt_bytes;
use crate::store::Structure;
use crate::{Error, HashKind, Result};
use std::path::Path;

/// The version of this layout, and the oldest that is read.
pub(super) const VERSION: u16 = 5;
/// The versions of segments with fences that fill a block, and with shorter ones.
const FENCES_VERSION: u16 = 4;
const SHORT_FENCES_VERSION: u16 = 3;
const OLDEST_VERSION: u16 = 2;
const MAGIC: &[u8; 8] = b"OVBKSEGM";
pub(super) const FOOTER_BYTES: usize = 72;
const _: () = assert!(FOOTER_BYTES <= BODY_BYTES);

/// More blocks than this (16 TiB) do not fit the fences' 32-bit starts.
pub(super) const BLOCKS_MAX: u64 = u32::MAX as u64;
/// The fences' buckets have at least 2^3 blocks on average, and fewer than 2^4: their starts then cost 2 to 4 bits a block.
const LG_BUCKET_BLOCKS: u32 = 3;

/// The parts of the file, as tags of their blocks' seals.
pub(super) const DATA_TAG: u32 = u32::from_le_bytes(*b"sdat");
pub(super) const INDEX_TAG: u32 = u32::from_le_bytes(*b"sfen");
pub(super) const META_TAG: u32 = u32::from_le_bytes(*b"smet");
pub(super) const FOOTER_TAG: u32 = u32::from_le_bytes(*b"sfoo");

/// Bits of the number of a fence's bucket in a segment of `blocks` blocks.
pub(super) fn lg_buckets_for(blocks: u64) -> u32 {
    blocks.checked_ilog2().unwrap_or(0).saturating_sub(LG_BUCKET_BLOCKS)
}

/// How many blocks follow the data of a segment of `blocks` blocks without meta.
pub(crate) fn blocks_behind(blocks: u64) -> u64 {
    let bytes = fences_bytes(blocks);
    let (whole, tail) = (bytes / BODY_BYTES as u64, bytes % BODY_BYTES as u64);
    if is_short(tail) { 1 + whole } else { 2 + whole }
}

/// Bytes of the encoded fences, without padding.
fn fences_bytes(blocks: u64) -> u64 {
    if blocks == 0 { 0 } else { ((1u64 << lg_buckets_for(blocks)) + 1) * 4 + blocks * 4 }
}

/// Which index a segment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IndexKind {
    Fences,
    /// Of so many bytes.
    Quantised {
        bytes: u64,
    },
}

/// The footer's last byte, of a quantised index.
const QUANTISED: u64 = 1;
const LENGTH_BITS: u32 = 56;

impl IndexKind {
    /// The version that a segment of `blocks` blocks is of, if not of an older one.
    pub(super) fn version(self, blocks: u64) -> u16 {
        match self {
            Self::Quantised { .. } => VERSION,
            Self::Fences if fences_bytes(blocks) < BODY_BYTES as u64 => SHORT_FENCES_VERSION,
            Self::Fences => FENCES_VERSION,
        }
    }

    /// What the footer says in the byte of `lg_buckets`.
    fn lg_buckets(self, blocks: u64) -> u32 {
        match self {
            Self::Fences => lg_buckets_for(blocks),
            Self::Quantised { .. } => 0,
        }
    }

    fn to_field(self) -> u64 {
        match self {
            Self::Fences => 0,
            Self::Quantised { bytes } => QUANTISED << LENGTH_BITS | bytes,
        }
    }

    /// Which one the footer of a file of `version` and `file_bytes` says it is.
    fn from_field(field: u64, version: u16, file_bytes: u64) -> Result<Self> {
        let bytes = field & ((1 << LENGTH_BITS) - 1);
        match (version, field >> LENGTH_BITS) {
            (..VERSION, 0) if bytes == 0 => Ok(Self::Fences),
            (VERSION, QUANTISED) if bytes <= file_bytes => Ok(Self::Quantised { bytes }),
            _ => Err(corrupt_bytes(64, "kind and length of the index", "ones of this version", field)),
        }
    }
}

/// What the seal of a page's block says: its place in the page, and the page's blocks.
pub(super) fn page_sequence(place: u64, blocks: u64) -> u64 {
    place << 32 | blocks
}

/// The place in its page and the page's blocks, of a block that was sealed with `sequence`.
pub(super) fn place_in_page(sequence: u64) -> (u64, u64) {
    // A block under fences is a page of its own.
    (sequence >> 32, (sequence & u64::from(u32::MAX)).max(1))
}

/// Whether so many bytes of index and meta fit behind the footer.
fn is_short(bytes: u64) -> bool {
    bytes <= (BODY_BYTES - FOOTER_BYTES) as u64
}

/// The last block's contents, but for what may lie behind it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Footer {
    pub(super) version: u16,
    pub(super) kind: SegmentKind,
    pub(super) blocks: u64,
    pub(super) entries: u64,
    pub(super) first_hash: u64,
    pub(super) last_hash: u64,
    pub(super) meta_bytes: u64,
    pub(super) index: IndexKind,
}

impl Footer {
    /// Bytes of the encoded index, without padding.
    pub(super) fn index_bytes(&self) -> u64 {
        match self.index {
            IndexKind::Fences => fences_bytes(self.blocks),
            IndexKind::Quantised { bytes } => bytes,
        }
    }

    /// Bytes of the index that are behind the footer, with meta behind them; `None` where both have blocks of their own.
    pub(super) fn tail_bytes(&self) -> Option<u64> {
        let tail = match self.version {
            OLDEST_VERSION => return None,
            SHORT_FENCES_VERSION => self.index_bytes(),
            _ => self.index_bytes() % BODY_BYTES as u64,
        };
        is_short(tail.saturating_add(self.meta_bytes)).then_some(tail)
    }

    /// How many blocks the index takes.
    pub(super) fn index_blocks(&self) -> u64 {
        (self.index_bytes() - self.tail_bytes().unwrap_or(0)).div_ceil(BODY_BYTES as u64)
    }

    /// How many blocks the structure's own bytes take.
    pub(super) fn meta_blocks(&self) -> u64 {
        if self.tail_bytes().is_some() { 0 } else { self.meta_bytes.div_ceil(BODY_BYTES as u64) }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.kind.structure.id.to_le_bytes());
        out.push(self.kind.hash_kind as u8);
        out.push(self.index.lg_buckets(self.blocks) as u8);
        out.extend_from_slice(&self.kind.structure.version.to_le_bytes());
        for field in [
            self.kind.seed_fingerprint,
            self.blocks,
            self.entries,
            self.first_hash,
            self.last_hash,
            self.meta_bytes,
            self.index.to_field(),
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out
    }

    /// Reads the body of the last block of a file of `file_bytes`, and checks that all lengths add up to it.
    pub(super) fn decode(body: &[u8], file_bytes: u64, path: &Path) -> Result<Footer> {
        let base = file_bytes.saturating_sub(BLOCK_BYTES as u64);
        Footer::decode_body(body, file_bytes, path).map_err(|error| error.in_file_from(path, base))
    }

    /// Offsets in errors count from the body's start.
    fn decode_body(body: &[u8], file_bytes: u64, path: &Path) -> Result<Footer> {
        let mut fields = ByteReader::new(body);
        fields.magic("magic", *MAGIC)?;
        let version = fields.u16()?;
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            let what = path.display().to_string();
            return Err(Error::UnsupportedVersion { what, found: version.into(), supported: VERSION.into() });
        }
        let (id, hash_kind) = (fields.u16()?, fields.u8()?);
        let hash_kind = match hash_kind {
            1 => HashKind::Xxh3,
            2 => HashKind::SipHash13,
            other => return Err(corrupt_bytes(12, "hash kind", "1 or 2", other)),
        };
        let lg_buckets = fields.u8()?;
        let structure = Structure { id, version: fields.u16()? };
        let seed_fingerprint = fields.u64()?;
        let footer = Footer {
            version,
            kind: SegmentKind { structure, seed_fingerprint, hash_kind },
            blocks: fields.u64()?,
            entries: fields.u64()?,
            first_hash: fields.u64()?,
            last_hash: fields.u64()?,
            meta_bytes: fields.u64()?,
            index: IndexKind::from_field(fields.u64()?, version, file_bytes)?,
        };
        if footer.blocks > BLOCKS_MAX || footer.meta_bytes > file_bytes {
            let found = format!("{} blocks, {} bytes of meta", footer.blocks, footer.meta_bytes);
            return Err(corrupt_bytes(24, "segment size", format!("{file_bytes} bytes at most"), found));
        }
        let blocks = footer.blocks + footer.index_blocks() + footer.meta_blocks() + 1;
        if blocks * BLOCK_BYTES as u64 != file_bytes {
            let expected = blocks * BLOCK_BYTES as u64;
            return Err(corrupt_bytes(24, "file length in bytes", expected, file_bytes));
        }
        let expected = footer.index.lg_buckets(footer.blocks);
        if u32::from(lg_buckets) != expected {
            return Err(corrupt_bytes(13, "lg_buckets", expected, lg_buckets));
        }
        if footer.first_hash > footer.last_hash {
            let (expected, found) = (footer.last_hash, footer.first_hash);
            let expected = format!("at most {expected:#x}");
            return Err(corrupt_bytes(40, "first hash", expected, format!("{found:#x}")));
        }
        if let Some(tail_bytes) = footer.tail_bytes() {
            fields.take((tail_bytes + footer.meta_bytes) as usize)?;
        }
        fields.only_zeros_left()?;
        Ok(footer)
    }
}
