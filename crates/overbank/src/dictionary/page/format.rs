//! The bytes of a page.
//!
//! ```text
//!   0      1       2       4       8           12            16
//!   ┼ form ┼ shape ┼ zeros ┼ items ┼ key bytes ┼ value bytes ┼ tags │ key lengths │ value lengths │ kinds │ keys │ values │ zeros to
//!     u8     u8              u32     u32         u32                                                        the block's end
//!
//!   shape    bits 0-2: the kind of all items, or 4 where each has its own     3-4: bytes of a key's length     5-6: of a value's     7: 0
//!            a width of 0, 1, 2, 3 in the bits stands for 0, 1, 2, 4 bytes
//!   tags     8 bits of each key's hash, the least significant ones; none where all lengths are equal
//!   lengths  of each key and value, little-endian; none where those of all are equal: the header then has that length, else their sum
//!   kinds    2 bits an item, the first in the lowest ones: put, if absent, operand, deleted
//!   keys, values    one behind the other; what is deleted has no value, and its length counts for nothing
//! ```
//!
//! So 254 items of 16 bytes, and no other byte but the header's 16, are a block.

use super::super::item::{Item, Value};
use crate::Result;
use crate::error::corrupt_bytes;

pub(super) const HEADER_BYTES: usize = 16;
/// The first byte of a page as it is here.
const PLAIN: u8 = 1;
/// In the header: each item has a kind of its own.
const OWN_KINDS: u8 = 4;
/// Kinds in a byte.
pub(super) const KINDS_A_BYTE: usize = 4;

/// What a value is, as two bits say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Put = 0,
    IfAbsent = 1,
    Operand = 2,
    Deleted = 3,
}

/// What the header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// `None` where each item has its own.
    pub(super) kind: Option<Kind>,
    pub(super) key_width: u8,
    pub(super) value_width: u8,
    pub(super) items: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
}

/// What a page of some items takes, counted as they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub(crate) items: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    keys: Lengths,
    values: Lengths,
    /// The bit of each kind that there is.
    kinds: u8,
}

/// The least and the greatest length so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lengths {
    least: u64,
    greatest: u64,
}

impl Kind {
    pub(super) fn of(bits: u8) -> Kind {
        match bits & 3 {
            0 => Kind::Put,
            1 => Kind::IfAbsent,
            2 => Kind::Operand,
            _ => Kind::Deleted,
        }
    }

    /// A value's kind, and its bytes.
    pub(super) fn split<'a>(value: &Value<'a>) -> (Kind, &'a [u8]) {
        match *value {
            Value::Put(bytes) => (Kind::Put, bytes),
            Value::IfAbsent(bytes) => (Kind::IfAbsent, bytes),
            Value::Operand(bytes) => (Kind::Operand, bytes),
            Value::Deleted => (Kind::Deleted, &[]),
        }
    }

    pub(super) fn joined(self, bytes: &[u8]) -> Value<'_> {
        match self {
            Kind::Put => Value::Put(bytes),
            Kind::IfAbsent => Value::IfAbsent(bytes),
            Kind::Operand => Value::Operand(bytes),
            Kind::Deleted => Value::Deleted,
        }
    }
}

impl Header {
    /// Whether each item has a tag.
    pub(super) fn has_tags(&self) -> bool {
        self.key_width != 0 || self.value_width != 0
    }

    /// Bytes between the header and the keys.
    fn columns_bytes(&self) -> u64 {
        let items = u64::from(self.items);
        let lengths = items * (u64::from(self.key_width) + u64::from(self.value_width));
        let tags = if self.has_tags() { items } else { 0 };
        tags + lengths + self.kinds_bytes()
    }

    fn kinds_bytes(&self) -> u64 {
        if self.kind.is_none() { u64::from(self.items).div_ceil(KINDS_A_BYTE as u64) } else { 0 }
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let code = |width: u8| if width == 4 { 3 } else { width };
        let mut out = [0; HEADER_BYTES];
        out[0] = PLAIN;
        out[1] = self.kind.map_or(OWN_KINDS, |kind| kind as u8)
            | code(self.key_width) << 3
            | code(self.value_width) << 5;
        out[4..8].copy_from_slice(&self.items.to_le_bytes());
        out[8..12].copy_from_slice(&self.key_bytes.to_le_bytes());
        out[12..].copy_from_slice(&self.value_bytes.to_le_bytes());
        out
    }

    pub(super) fn decode(body: &[u8]) -> Result<Header> {
        let Some((&[form, shape, z0, z1, i0, i1, i2, i3, k0, k1, k2, k3, v0, v1, v2, v3], _)) =
            body.split_first_chunk::<HEADER_BYTES>()
        else {
            return Err(corrupt_bytes(0, "the length of a page", "16 or more", body.len()));
        };
        if form != PLAIN || shape & 7 > OWN_KINDS || shape >> 7 != 0 || z0 | z1 != 0 {
            return Err(refused(form, shape, [z0, z1]));
        }
        let width = |code: u8| if code & 3 == 3 { 4 } else { code & 3 };
        let header = Header {
            kind: (shape & 7 != OWN_KINDS).then(|| Kind::of(shape)),
            key_width: width(shape >> 3),
            value_width: width(shape >> 5),
            items: u32::from_le_bytes([i0, i1, i2, i3]),
            key_bytes: u32::from_le_bytes([k0, k1, k2, k3]),
            value_bytes: u32::from_le_bytes([v0, v1, v2, v3]),
        };
        let is_deleted =
            header.kind == Some(Kind::Deleted) && (header.value_width != 0 || header.value_bytes != 0);
        if header.items == 0 || is_deleted {
            return Err(corrupt_bytes(
                4,
                "a page's items",
                "one at least, of which what is deleted has no value",
                "others",
            ));
        }
        Ok(header)
    }
}

#[cold]
fn refused(form: u8, shape: u8, zeros: [u8; 2]) -> crate::Error {
    corrupt_bytes(0, "the form of a page", "1, its shape, zeros", format!("{form}, {shape:#x}, {zeros:?}"))
}

impl Default for Sizes {
    fn default() -> Self {
        let none = Lengths { least: u64::MAX, greatest: 0 };
        Sizes { items: 0, key_bytes: 0, value_bytes: 0, keys: none, values: none, kinds: 0 }
    }
}

impl Lengths {
    fn with(self, length: u64) -> Lengths {
        Lengths { least: self.least.min(length), greatest: self.greatest.max(length) }
    }

    /// Bytes that each length takes: none where all are equal.
    fn width(self) -> u8 {
        match self.greatest {
            greatest if greatest <= self.least => 0,
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        }
    }
}

impl Sizes {
    /// With an item more.
    #[inline]
    pub(crate) fn with(&self, item: &Item<'_>) -> Sizes {
        let (kind, bytes) = Kind::split(&item.value);
        self.grown(item.key.len() as u64, kind, bytes.len() as u64)
    }

    #[inline]
    pub(super) fn grown(&self, key_length: u64, kind: Kind, value_length: u64) -> Sizes {
        Sizes {
            items: self.items + 1,
            key_bytes: self.key_bytes + key_length,
            value_bytes: self.value_bytes + value_length,
            keys: self.keys.with(key_length),
            values: if kind == Kind::Deleted { self.values } else { self.values.with(value_length) },
            kinds: self.kinds | 1 << kind as u8,
        }
    }

    /// The bytes of a page of these items.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        let (key_width, value_width) = (self.keys.width(), self.values.width());
        let tag = u64::from(key_width | value_width != 0);
        let columns = self.items * (tag + u64::from(key_width) + u64::from(value_width));
        let kinds = if self.has_own_kinds() { self.items.div_ceil(KINDS_A_BYTE as u64) } else { 0 };
        HEADER_BYTES as u64 + columns + kinds + self.key_bytes + self.value_bytes
    }

    fn has_own_kinds(&self) -> bool {
        self.kinds & self.kinds.wrapping_sub(1) != 0
    }

    /// The header of a page of these items, some at least, which is shorter than 4 GiB.
    pub(super) fn header(&self) -> Header {
        let length_or_sum = |lengths: Lengths, sum: u64| match lengths.width() {
            // Of values, there may be none.
            0 => lengths.greatest as u32,
            _ => sum as u32,
        };
        Header {
            kind: (!self.has_own_kinds()).then(|| Kind::of(self.kinds.trailing_zeros() as u8)),
            key_width: self.keys.width(),
            value_width: self.values.width(),
            items: self.items as u32,
            key_bytes: length_or_sum(self.keys, self.key_bytes),
            value_bytes: length_or_sum(self.values, self.value_bytes),
        }
    }
}

/// Where the parts of a page are, counted from its start. All lie in the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) header: Header,
    pub(super) key_lengths_at: usize,
    pub(super) value_lengths_at: usize,
    pub(super) kinds_at: usize,
    pub(super) keys_at: usize,
    pub(super) values_at: usize,
    pub(super) end: usize,
}

impl Layout {
    /// Reads the header of a page that lies in `body`, and finds its parts.
    pub(super) fn of(body: &[u8]) -> Result<Layout> {
        let header = Header::decode(body)?;
        let items = u64::from(header.items);
        let sum_of = |width: u8, bytes: u32, items: u64| {
            if width == 0 { items * u64::from(bytes) } else { bytes.into() }
        };
        let columns_end = HEADER_BYTES as u64 + header.columns_bytes();
        let keys = sum_of(header.key_width, header.key_bytes, items);
        let Some(kinds) = within(body.len(), columns_end)
            .and_then(|end| body.get(end - header.kinds_bytes() as usize..end))
        else {
            return Err(too_long(body.len(), columns_end));
        };
        let valued = if header.kind.is_some() {
            items
        } else {
            items - count_deleted(kinds, header.items as usize) as u64
        };
        let values_at = columns_end + keys;
        let end = values_at.saturating_add(sum_of(header.value_width, header.value_bytes, valued));
        let Some(end) = within(body.len(), end) else {
            return Err(too_long(body.len(), end));
        };
        // Nothing before the end is longer than memory then.
        let tags_end = HEADER_BYTES + if header.has_tags() { header.items as usize } else { 0 };
        let value_lengths_at = tags_end + header.items as usize * usize::from(header.key_width);
        Ok(Layout {
            header,
            key_lengths_at: tags_end,
            value_lengths_at,
            kinds_at: value_lengths_at + header.items as usize * usize::from(header.value_width),
            keys_at: columns_end as usize,
            values_at: values_at as usize,
            end,
        })
    }
}

/// `end` as a place in so many bytes.
fn within(bytes: usize, end: u64) -> Option<usize> {
    usize::try_from(end).ok().filter(|&end| end <= bytes)
}

#[cold]
fn too_long(bytes: usize, end: u64) -> crate::Error {
    corrupt_bytes(4, "the length of a page", format!("at most {bytes}"), end)
}

/// How many of the first `items` are deleted.
pub(super) fn count_deleted(kinds: &[u8], items: usize) -> usize {
    let of = |byte: u8| (byte & byte >> 1 & 0b0101_0101).count_ones() as usize;
    let (whole, part) = (items / KINDS_A_BYTE, items % KINDS_A_BYTE);
    let rest = kinds.get(whole).map_or(0, |&byte| of(byte & ((1 << (2 * part)) - 1)));
    kinds.iter().take(whole).map(|&byte| of(byte)).sum::<usize>() + rest
}
