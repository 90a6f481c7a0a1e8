//! What a run says of itself, in its segment's meta bytes.
//!
//! ```text
//!   0             1       4             8       16          24         32           40          48            56           64
//!   ┼ compression ┼ zeros ┼ page blocks ┼ items ┼ if absent ┼ operands ┼ tombstones ┼ key bytes ┼ value bytes ┼ dictionary ┼ front ┼
//!     u8                    u32           u64 …                                                                bytes        bytes
//!   72      80        88
//!   ┼ ranks ┼ longest ┼ the dictionary of its compression │ its front │ its ranks
//!     bytes   bytes
//! ```
//!
//! Version 1 is read, which has no length of the longest item.

use super::super::item::{Item, Value};
use super::Compression;
use crate::Result;
use crate::bytes::ByteReader;
use crate::dictionary::item::ItemHasher;
use crate::error::corrupt_bytes;
use crate::filter::run::{RunKind, Sign};
use crate::segment::SegmentKind;
use crate::store::registry;

/// What the segments of a dictionary's runs are of.
pub(super) fn segment_kind(hasher: ItemHasher) -> SegmentKind {
    SegmentKind {
        structure: registry::DICTIONARY_SEGMENT.structure(),
        seed_fingerprint: hasher.seed().fingerprint(),
        hash_kind: hasher.kind(),
    }
}

/// The first 64 bits of their hashes, as the keys of a front.
pub(super) fn front_kind(hasher: ItemHasher) -> RunKind {
    RunKind {
        fingerprint_bits: 64,
        seed_fingerprint: hasher.seed().fingerprint(),
        hash_kind: hasher.kind(),
        sign: Sign::Insertions,
    }
}

/// What is in a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) items: u64,
    /// How many of them say that the key has a value unless it had one before.
    pub(crate) if_absent: u64,
    /// … that its value is to be changed.
    pub(crate) operands: u64,
    /// … that it has none.
    pub(crate) tombstones: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    /// Bytes of the longest key with its value. Files of version 1 do not say it.
    pub(crate) longest: Option<u64>,
}

/// The first version whose meta bytes tell of the longest item.
const VERSION_WITH_LONGEST: u16 = 2;
/// The oldest version that is read.
pub(super) const OLDEST_VERSION: u16 = 1;

/// The meta bytes, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta<'a> {
    pub(super) compression: Compression,
    pub(super) page_blocks: u32,
    pub(super) counts: Counts,
    pub(super) dictionary: &'a [u8],
    pub(super) front: &'a [u8],
    pub(super) ranks: &'a [u8],
}

impl Counts {
    #[inline]
    pub(super) fn add(&mut self, item: &Item<'_>) {
        self.items += 1;
        self.key_bytes += item.key.len() as u64;
        self.longest = self.longest.max(Some((item.key.len() + item.value.bytes().len()) as u64));
        match item.value {
            Value::Put(bytes) => self.value_bytes += bytes.len() as u64,
            Value::IfAbsent(bytes) => {
                (self.if_absent, self.value_bytes) =
                    (self.if_absent + 1, self.value_bytes + bytes.len() as u64)
            }
            Value::Operand(bytes) => {
                (self.operands, self.value_bytes) = (self.operands + 1, self.value_bytes + bytes.len() as u64)
            }
            Value::Deleted => self.tombstones += 1,
        }
    }

    fn fields(&self) -> [u64; 6] {
        let Counts { items, if_absent, operands, tombstones, key_bytes, value_bytes, longest: _ } = *self;
        [items, if_absent, operands, tombstones, key_bytes, value_bytes]
    }
}

impl<'a> Meta<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.compression as u8, 0, 0, 0];
        out.extend_from_slice(&self.page_blocks.to_le_bytes());
        for field in self.counts.fields() {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let parts = [self.dictionary, self.front, self.ranks];
        for part in parts {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        out.extend_from_slice(&self.counts.longest.unwrap_or(0).to_le_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out
    }

    /// Reads the meta bytes of a run of `entries` items, in a segment whose structure is of `version`.
    pub(super) fn decode(bytes: &'a [u8], entries: u64, version: u16) -> Result<Meta<'a>> {
        let mut fields = ByteReader::new(bytes);
        let compression = match fields.u8()? {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            other => return Err(corrupt_bytes(0, "the compression of a run", "0, 1 or 2", other)),
        };
        fields.zeros(3)?;
        let page_blocks = fields.u32()?;
        let mut counts = Counts {
            items: fields.u64()?,
            if_absent: fields.u64()?,
            operands: fields.u64()?,
            tombstones: fields.u64()?,
            key_bytes: fields.u64()?,
            value_bytes: fields.u64()?,
            longest: None,
        };
        let of_kinds =
            counts.if_absent.checked_add(counts.operands).and_then(|sum| sum.checked_add(counts.tombstones));
        if page_blocks == 0 || counts.items != entries || of_kinds.is_none_or(|sum| sum > entries) {
            let found = format!("{page_blocks} blocks a page, {counts:?}");
            return Err(corrupt_bytes(
                4,
                "what a run says of itself",
                format!("what fits {entries} items"),
                found,
            ));
        }
        let (dictionary, front, ranks) = (fields.u64()?, fields.u64()?, fields.u64()?);
        if version >= VERSION_WITH_LONGEST {
            let (longest, all) = (fields.u64()?, counts.key_bytes.saturating_add(counts.value_bytes));
            if longest > all {
                let expected = format!("at most the {all} of all of them");
                return Err(corrupt_bytes(80, "bytes of the longest item", expected, longest));
            }
            counts.longest = Some(longest);
        }
        let dictionary = fields.counted("the bytes of a run's dictionary", dictionary, 1)?;
        let dictionary = fields.take(dictionary)?;
        let front = fields.counted("the bytes of a run's front", front, 1)?;
        let front = fields.take(front)?;
        fields.require_left(usize::try_from(ranks).ok())?;
        Ok(Meta { compression, page_blocks, counts, dictionary, front, ranks: fields.take_rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_bytes_are_read_back_those_of_the_first_version_too() {
        let counts =
            Counts { items: 3, key_bytes: 20, value_bytes: 7, longest: Some(12), ..Counts::default() };
        let meta = Meta {
            compression: Compression::None,
            page_blocks: 4,
            counts,
            dictionary: b"d",
            front: b"front",
            ranks: b"ranks",
        };
        let bytes = meta.encode();
        assert_eq!(Meta::decode(&bytes, 3, 2).unwrap(), meta);
        let first_version = [&bytes[..80], &bytes[88..]].concat();
        let counts = Counts { longest: None, ..counts };
        assert_eq!(Meta::decode(&first_version, 3, 1).unwrap(), Meta { counts, ..meta });
        for (length, version) in [(bytes.len(), 1), (bytes.len() - 1, 2), (87, 2), (0, 2)] {
            assert!(
                Meta::decode(&bytes[..length], 3, version).is_err(),
                "{length} bytes of version {version}"
            );
        }
        let mut damaged = bytes;
        damaged[80] = 28;
        assert!(Meta::decode(&damaged, 3, 2).is_err());
    }
}
