//! The first bytes of keys, one place each: for people to read, and for queries by a part of the key.
//!
//! ```text
//!   lengths   │ u16 │ u16 │ …        bit 15: the key was longer
//!   bytes     │ bytes_max bytes │ bytes_max bytes │ …
//! ```
//!
//! Cost: memory is allocated at construction and never grows; a key is copied when it gets a place, never when it is counted.

use super::format::{Decoder, Encoder};
use crate::{Error, Result};

/// The most bytes that are kept of a key.
pub(super) const KEY_BYTES_MAX: usize = LENGTH_MASK as usize;
/// In a key's length: the key was longer.
const TRUNCATED: u16 = 1 << 15;
const LENGTH_MASK: u16 = TRUNCATED - 1;

/// The keys of a fixed number of places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyStore {
    bytes_max: usize,
    lengths: Vec<u16>,
    bytes: Vec<u8>,
}

impl KeyStore {
    /// As many empty keys as `places`, of up to `bytes_max` bytes.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `bytes_max < 2^15`.
    pub(super) fn new(places: usize, bytes_max: usize) -> Result<Self> {
        if bytes_max > KEY_BYTES_MAX {
            let why = format!("choose at most {KEY_BYTES_MAX} bytes; longer keys are cut short");
            return Err(Error::InvalidOption { name: "key_bytes_max", value: bytes_max.to_string(), why });
        }
        Ok(Self { bytes_max, lengths: vec![0; places], bytes: vec![0; places * bytes_max] })
    }

    /// How many places `rows` of `columns` are, if memory can hold as many of `bytes` bytes with a key each of up to `bytes_max`.
    pub(super) fn places(rows: usize, columns: u32, bytes: usize, bytes_max: usize) -> Option<usize> {
        let places = rows.checked_mul(columns.try_into().ok()?)?;
        let all = places.checked_mul(bytes.checked_add(Self::encoded_bytes(bytes_max))?)?;
        (all <= isize::MAX as usize).then_some(places)
    }

    /// What as many places hold in memory.
    pub(super) fn memory_bytes_for(places: usize, bytes_max: usize) -> usize {
        places * (size_of::<u16>() + bytes_max)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lengths.capacity() * size_of::<u16>() + self.bytes.capacity()
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Gives a place to a key.
    #[inline]
    pub(super) fn keep(&mut self, place: usize, key: &[u8]) {
        let kept = &key[..key.len().min(self.bytes_max)];
        copy_key(&mut self.bytes[place * self.bytes_max..][..kept.len()], kept);
        let truncated = if kept.len() < key.len() { TRUNCATED } else { 0 };
        self.lengths[place] = kept.len() as u16 | truncated;
    }

    /// Gives a place to a key that was kept before, perhaps cut short.
    pub(super) fn keep_kept(&mut self, place: usize, key: &[u8], truncated: bool) {
        self.keep(place, key);
        self.lengths[place] |= if truncated { TRUNCATED } else { 0 };
    }

    /// Gives a place to the key of another one.
    pub(super) fn shift(&mut self, from: usize, to: usize) {
        self.lengths[to] = self.lengths[from];
        self.bytes.copy_within(from * self.bytes_max..(from + 1) * self.bytes_max, to * self.bytes_max);
    }

    /// The first bytes of a place's key, and whether the key is longer.
    pub(super) fn get(&self, place: usize) -> (&[u8], bool) {
        let length = self.lengths[place];
        let key = &self.bytes[place * self.bytes_max..][..usize::from(length & LENGTH_MASK)];
        (key, length & TRUNCATED != 0)
    }

    /// Appends a key's length u16, and its bytes padded with zeros.
    pub(super) fn put(&self, place: usize, encoder: &mut Encoder) {
        let (key, _) = self.get(place);
        encoder.raw(&self.lengths[place].to_le_bytes());
        encoder.raw(key);
        encoder.zeros(self.bytes_max - key.len());
    }

    /// How many bytes [`put`](Self::put) appends where so many are kept of a key.
    pub(super) const fn encoded_bytes(bytes_max: usize) -> usize {
        size_of::<u16>() + bytes_max
    }

    /// Reads what [`put`](Self::put) appended.
    pub(super) fn read(&mut self, place: usize, bytes: &mut Decoder<'_>) -> Result<()> {
        let length = bytes.u16()?;
        let key_len = usize::from(length & LENGTH_MASK);
        if key_len > self.bytes_max {
            return Err(bytes.corrupt("a key's length", format!("at most {}", self.bytes_max), key_len));
        }
        let key = bytes.take(key_len)?;
        bytes.zeros(self.bytes_max - key_len)?;
        self.keep(place, key);
        self.lengths[place] = length;
        Ok(())
    }
}

/// Copies between slices of one length: of 8 to 32 bytes as two words that may overlap, without a call.
#[inline]
fn copy_key(into: &mut [u8], key: &[u8]) {
    if !copy_ends::<16>(into, key) && !copy_ends::<8>(into, key) {
        into.copy_from_slice(key);
    }
}

/// Copies the first and the last `N` bytes, if that is all of them.
#[inline]
fn copy_ends<const N: usize>(into: &mut [u8], key: &[u8]) -> bool {
    let (Some(first), Some(last)) = (key.first_chunk::<N>(), key.last_chunk::<N>()) else { return false };
    if key.len() > 2 * N {
        return false;
    }
    let (first, last) = (*first, *last);
    if let Some(into) = into.first_chunk_mut() {
        *into = first;
    }
    if let Some(into) = into.last_chunk_mut() {
        *into = last;
    }
    true
}
