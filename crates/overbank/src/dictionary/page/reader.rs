//! Looks keys up in a page, and goes through it.

use super::super::item::{Item, Value};
use super::format::{HEADER_BYTES, Header, KINDS_A_BYTE, Kind, Layout, count_deleted};
use crate::dictionary::item::ItemHasher;
use crate::error::corrupt_bytes;
use crate::{KeyHash, Result};
use std::ops::Range;

/// A page as it was read. What it says of lengths may be anything: no answer is from outside of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    layout: Layout,
    body: &'a [u8],
}

/// A place in a page, between two items. It holds nothing of the page's bytes, so that it can stand beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageCursor {
    layout: Layout,
    item: usize,
    key_at: usize,
    value_at: usize,
}

/// Where an item is in its page.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    kind: Kind,
    key: Range<usize>,
    value: Range<usize>,
}

/// The items of a page, in order.
#[derive(Debug)]
pub(crate) struct PageItems<'a> {
    cursor: PageCursor,
    body: &'a [u8],
    hasher: ItemHasher,
}

impl<'a> Page<'a> {
    /// Reads the header of a page that begins `body`.
    ///
    /// # Errors
    /// `Corrupt` where the page would be longer than `body`, or no writer wrote that.
    pub(crate) fn of(body: &'a [u8]) -> Result<Page<'a>> {
        Ok(Page { layout: Layout::of(body)?, body })
    }

    /// How many items it has; one at least.
    pub(crate) fn items_count(&self) -> usize {
        self.layout.header.items as usize
    }

    /// The bytes that it takes of its body.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.end
    }

    /// What the page says of a key, whose hash is `hash`.
    ///
    /// # Cost
    /// Compares the first and last bytes of each key where all have the same length, else a byte of each hash, and then few keys.
    ///
    /// # Errors
    /// `Corrupt` where the lengths lead out of the page.
    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Result<Option<Value<'a>>> {
        let place = match self.layout.header.has_tags() {
            false => find_equal(self.keys(), self.layout.header.key_bytes as usize, key),
            true => self.find_tagged(hash.low() as u8, key)?,
        };
        place.map(|place| self.value(place)).transpose()
    }

    /// The items in order; `hasher` made their hashes.
    pub(crate) fn items(&self, hasher: ItemHasher) -> PageItems<'a> {
        PageItems { cursor: self.cursor(), body: self.body, hasher }
    }

    /// The hashes of the first and the last item.
    ///
    /// # Errors
    /// As [`PageCursor::next`].
    pub(crate) fn ends(&self, hasher: ItemHasher) -> Result<(KeyHash, KeyHash)> {
        let mut cursor = self.cursor();
        let first = cursor.next(self.body)?.map_or(0..0, |place| place.key);
        let mut last = first.clone();
        while let Some(place) = cursor.next(self.body)? {
            last = place.key;
        }
        Ok((hasher.hash(&self.body[first]), hasher.hash(&self.body[last])))
    }

    /// Before the first item.
    pub(crate) fn cursor(&self) -> PageCursor {
        PageCursor {
            layout: self.layout,
            item: 0,
            key_at: self.layout.keys_at,
            value_at: self.layout.values_at,
        }
    }

    fn keys(&self) -> &'a [u8] {
        &self.body[self.layout.keys_at..self.layout.values_at]
    }

    fn find_tagged(&self, tag: u8, key: &[u8]) -> Result<Option<usize>> {
        let Layout { header, key_lengths_at, .. } = self.layout;
        let tags = &self.body[HEADER_BYTES..key_lengths_at];
        let lengths = Column {
            layout: &self.layout,
            at: key_lengths_at,
            width: header.key_width,
            equal: header.key_bytes,
        };
        let keys = self.keys();
        // Where the key of the item before `counted` ends.
        let (mut counted, mut start) = (0, 0u64);
        for (item, _) in tags.iter().enumerate().filter(|&(_, &found)| found == tag) {
            start += lengths.sum(self.body, counted, item);
            counted = item;
            let length = lengths.get(self.body, item);
            if length != key.len() as u64 {
                continue;
            }
            let found = slice(keys, start, length).ok_or_else(|| astray(item))?;
            if found == key {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn value(&self, item: usize) -> Result<Value<'a>> {
        let Layout { header, value_lengths_at, kinds_at, values_at, end, .. } = self.layout;
        let kind = kind_of(&header, self.body, kinds_at, item);
        if kind == Kind::Deleted {
            return Ok(Value::Deleted);
        }
        let lengths = Column {
            layout: &self.layout,
            at: value_lengths_at,
            width: header.value_width,
            equal: header.value_bytes,
        };
        let deleted = match (header.kind, header.value_width) {
            (None, 0) => count_deleted(&self.body[kinds_at..self.layout.keys_at], item),
            _ => 0,
        };
        let start = lengths.sum(self.body, deleted, item);
        let value = slice(&self.body[values_at..end], start, lengths.get(self.body, item));
        Ok(kind.joined(value.ok_or_else(|| astray(item))?))
    }
}

/// The lengths of keys, or of values.
struct Column<'l> {
    layout: &'l Layout,
    at: usize,
    width: u8,
    /// Where all are equal, this length.
    equal: u32,
}

impl Column<'_> {
    fn get(&self, body: &[u8], item: usize) -> u64 {
        match self.width {
            0 => self.equal.into(),
            width => length_at(body, self.at, width, item),
        }
    }

    /// The lengths of items `from` to `to` together.
    fn sum(&self, body: &[u8], from: usize, to: usize) -> u64 {
        let items = self.layout.header.items as usize;
        let bytes = &body[self.at..self.at + items * usize::from(self.width)];
        match self.width {
            0 => (to - from) as u64 * u64::from(self.equal),
            1 => bytes[from..to].iter().map(|&length| u64::from(length)).sum(),
            2 => bytes.as_chunks::<2>().0[from..to]
                .iter()
                .map(|&length| u64::from(u16::from_le_bytes(length)))
                .sum(),
            _ => bytes.as_chunks::<4>().0[from..to]
                .iter()
                .map(|&length| u64::from(u32::from_le_bytes(length)))
                .sum(),
        }
    }
}

/// The length of an item in a column of `width` bytes, which is in the page.
fn length_at(body: &[u8], at: usize, width: u8, item: usize) -> u64 {
    let bytes = &body[at + item * usize::from(width)..][..usize::from(width)];
    bytes.iter().rev().fold(0, |length, &byte| length << 8 | u64::from(byte))
}

fn kind_of(header: &Header, body: &[u8], kinds_at: usize, item: usize) -> Kind {
    match header.kind {
        Some(kind) => kind,
        None => Kind::of(body[kinds_at + item / KINDS_A_BYTE] >> (item % KINDS_A_BYTE * 2)),
    }
}

fn slice(bytes: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

#[cold]
fn astray(item: usize) -> crate::Error {
    corrupt_bytes(
        HEADER_BYTES,
        "the lengths in a page",
        "the sums in its header",
        format!("others, from item {item} on"),
    )
}

/// Which of `keys`, all of `length` bytes, is `key`.
fn find_equal(keys: &[u8], length: usize, key: &[u8]) -> Option<usize> {
    if key.len() != length {
        return None;
    }
    match length {
        // A page with the empty key has no other of that length.
        0 => Some(0),
        8 => find_short::<8>(keys, key),
        9 => find_short::<9>(keys, key),
        10 => find_short::<10>(keys, key),
        11 => find_short::<11>(keys, key),
        12 => find_short::<12>(keys, key),
        13 => find_short::<13>(keys, key),
        14 => find_short::<14>(keys, key),
        15 => find_short::<15>(keys, key),
        16 => find_short::<16>(keys, key),
        _ => keys.chunks_exact(length).position(|found| found == key),
    }
}

/// As [`find_equal`] of 8 to 16 bytes, a page of which has hundreds: their first and last eight are compared as numbers, whose places are
/// known when this is compiled.
fn find_short<const LENGTH: usize>(keys: &[u8], key: &[u8]) -> Option<usize> {
    let ends = |key: &[u8; LENGTH]| {
        let [first, last] = [key.first_chunk::<8>(), key.last_chunk::<8>()];
        let word = |end: Option<&[u8; 8]>| end.map_or(0, |end| u64::from_le_bytes(*end));
        (word(first), word(last))
    };
    let (first, last) = ends(key.first_chunk()?);
    keys.as_chunks::<LENGTH>().0.iter().position(|found| {
        let (found_first, found_last) = ends(found);
        (found_first ^ first) | (found_last ^ last) == 0
    })
}

impl PageCursor {
    /// The next item; `body` is that of the page. `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` where the lengths are not those that the page's header says. The cursor is then of no use.
    #[inline]
    pub(crate) fn next(&mut self, body: &[u8]) -> Result<Option<Place>> {
        let Layout { header, key_lengths_at, value_lengths_at, kinds_at, values_at, end, .. } = self.layout;
        let item = self.item;
        if item == header.items as usize {
            return match (self.key_at, self.value_at) == (values_at, end) {
                true => Ok(None),
                false => Err(astray(item)),
            };
        }
        let kind = kind_of(&header, body, kinds_at, item);
        let length = |width: u8, at: usize, equal: u32| match width {
            0 => equal as usize,
            width => length_at(body, at, width, item) as usize,
        };
        let key_length = length(header.key_width, key_lengths_at, header.key_bytes);
        let value_length = match (kind, header.value_width) {
            (Kind::Deleted, 0) => 0,
            (_, width) => length(width, value_lengths_at, header.value_bytes),
        };
        if key_length > values_at - self.key_at
            || value_length > end - self.value_at
            || kind == Kind::Deleted && value_length > 0
        {
            return Err(astray(item));
        }
        let key = self.key_at..self.key_at + key_length;
        let value = self.value_at..self.value_at + value_length;
        (self.item, self.key_at, self.value_at) = (item + 1, key.end, value.end);
        Ok(Some(Place { kind, key, value }))
    }
}

impl Place {
    /// The key of the item in the page's body.
    pub(crate) fn key<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        &body[self.key.clone()]
    }

    /// The item in the page's body, of which `hash` is known by now.
    pub(crate) fn item<'a>(&self, body: &'a [u8], hash: KeyHash) -> Item<'a> {
        Item { hash, key: self.key(body), value: self.kind.joined(&body[self.value.clone()]) }
    }
}

impl<'a> PageItems<'a> {
    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// As [`PageCursor::next`].
    pub(crate) fn next(&mut self) -> Result<Option<Item<'a>>> {
        let next = self.cursor.next(self.body)?;
        Ok(next.map(|place| place.item(self.body, self.hasher.hash(place.key(self.body)))))
    }
}
