//! Where everything lies in a run's blocks and in its meta bytes.
//!
//! A run is a segment (`segment/format.rs`) of [`STRUCTURE`]. Its blocks decode alone:
//!
//! ```text
//!   0      8        10           12           14         15      16       …      …            4080
//!   ┼ base ┼ keys n ┼ exceptions ┼ high words ┼ low bits ┼ spare ┼ highs ┼ lows ┼ exceptions ┼ 0 ┤
//!     u64    u16      u16          u16          u8         u8
//!
//!   fingerprint i = base + (high << low_bits | low)       base is the first one
//!   highs        bit high + i is one for fingerprint i; words of 64 bits, the last of which is not 0 and lacks its last `spare` bytes
//!   lows         n fields of low_bits, least significant bit first, to a whole byte
//!   exceptions   for each fingerprint whose count is not 1, to a whole byte: the distance of its index from the last one's,
//!                the first one's from −1, in Elias-gamma code; then its count: −1 as 1, 2 as 2 … (−k as 2 k − 1, k as
//!                2 (k − 1)), in gamma code: unary of the number of bits, then the bits below the first
//! ```
//!
//! The meta bytes:
//!
//! ```text
//!   0                  1      2       8            16            24
//!   ┼ fingerprint bits ┼ sign ┼ 0 …  ┼ tombstones ┼ occurrences ┤      entries with counts below 0; sum of the counts above 0
//! ```
//!
//! The sign is 0 for insertions and 1 for removals, whose counts are all above 0. Version 2 had whole words of highs: no spare bytes.
//! Version 1 had only insertions; its bytes are those of version 2, and its removals are all tombstones.

use super::Sign;
use crate::error::corrupt_bytes as corrupt;
use crate::segment::BODY_BYTES;
use crate::store::Structure;
use crate::{Error, Result};

/// A run, and the version of its blocks and meta bytes.
pub(super) const STRUCTURE: Structure = Structure { id: 18, version: 3 };
/// The oldest version that is read.
pub(super) const OLDEST_VERSION: u16 = 1;

/// Counts lie between this and its negative.
pub(super) const COUNT_MAX: i64 = 1 << 47;

pub(super) const HEADER_BYTES: usize = 16;
pub(super) const META_BYTES: usize = 24;

/// The first bytes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) base: u64,
    pub(super) keys: usize,
    pub(super) exceptions: usize,
    pub(super) high_bytes: usize,
    pub(super) low_bits: u32,
}

/// A block's body, taken apart and not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) header: Header,
    /// The words of the highs but the last.
    pub(super) highs: &'a [[u8; 8]],
    /// The last word of the highs; 0 where there is none.
    last_high: u64,
    pub(super) lows: &'a [u8],
    /// The exceptions, and zeros up to the body's end.
    pub(super) exceptions: &'a [u8],
}

impl Header {
    pub(super) fn highs_at(&self) -> usize {
        HEADER_BYTES
    }

    /// Words of the highs, of which the last may lack bytes.
    pub(super) fn high_words(&self) -> usize {
        self.high_bytes.div_ceil(8)
    }

    pub(super) fn lows_at(&self) -> usize {
        HEADER_BYTES + self.high_bytes
    }

    pub(super) fn exceptions_at(&self) -> usize {
        self.lows_at() + (self.keys * self.low_bits as usize).div_ceil(8)
    }

    #[cold]
    fn refused(&self, spare: u8) -> Error {
        let found = format!("{self:?}, {spare} spare");
        let expected = "at least one key, at most 63 low bits and 7 spare bytes";
        corrupt(8, "a run's block header", expected, found)
    }

    #[cold]
    fn too_long(&self, bytes: usize) -> Error {
        corrupt(8, "the bytes of a run's block", bytes, self.exceptions_at())
    }

    pub(super) fn encode(&self, body: &mut [u8]) {
        body[..8].copy_from_slice(&self.base.to_le_bytes());
        body[8..10].copy_from_slice(&(self.keys as u16).to_le_bytes());
        body[10..12].copy_from_slice(&(self.exceptions as u16).to_le_bytes());
        body[12..14].copy_from_slice(&(self.high_words() as u16).to_le_bytes());
        body[14] = self.low_bits as u8;
        body[15] = (self.high_words() * 8 - self.high_bytes) as u8;
    }
}

impl<'a> Parts<'a> {
    /// Takes a body apart; no field leads outside it, and no fingerprint is above `max`.
    #[inline]
    pub(super) fn of(body: &'a [u8], max: u64) -> Result<Parts<'a>> {
        let Some((head, _)) = body.split_first_chunk::<HEADER_BYTES>() else {
            return Err(too_short(body.len()));
        };
        let [b0, b1, b2, b3, b4, b5, b6, b7, k0, k1, e0, e1, h0, h1, low_bits, spare] = *head;
        let number = |low, high| usize::from(u16::from_le_bytes([low, high]));
        let header = Header {
            base: u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            keys: number(k0, k1),
            exceptions: number(e0, e1),
            high_bytes: (number(h0, h1) * 8).saturating_sub(spare.into()),
            low_bits: low_bits.into(),
        };
        if header.keys == 0 || header.exceptions > header.keys || low_bits > 63 || spare > 7 {
            return Err(header.refused(spare));
        }
        if header.exceptions_at() > body.len() {
            return Err(header.too_long(body.len()));
        }
        let (highs, lows) = body[HEADER_BYTES..header.exceptions_at()].split_at(header.high_bytes);
        let (highs, last_high) = highs.split_at(header.high_words().saturating_sub(1) * 8);
        let mut last_word = [0; 8];
        last_word[..last_high.len()].copy_from_slice(last_high);
        let (highs, last_high) = (highs.as_chunks().0, u64::from_le_bytes(last_word));
        let parts = Parts { header, highs, last_high, lows, exceptions: &body[header.exceptions_at()..] };
        parts.check_span(max)?;
        Ok(parts)
    }

    /// The `i`-th word of the highs; 0 past their end.
    #[inline(always)]
    pub(super) fn high_word(&self, i: usize) -> u64 {
        match self.highs.get(i) {
            Some(word) => u64::from_le_bytes(*word),
            None if i == self.highs.len() => self.last_high,
            None => 0,
        }
    }

    /// The last high part follows from where the highs end. No sum of base, high and low exceeds `max` then.
    #[inline]
    fn check_span(&self, max: u64) -> Result<()> {
        let Header { base, keys, low_bits, .. } = self.header;
        let last = self.last_high;
        let ones_end = (self.header.high_words() * 64).saturating_sub(last.leading_zeros() as usize);
        let span = (ones_end.checked_sub(keys).map(|high| high as u64))
            .filter(|&high| last != 0 && high <= u64::MAX >> low_bits)
            .map(|high| high << low_bits | ((1 << low_bits) - 1));
        // The last low is at most all ones; that the fingerprint itself is at most `max` is checked where it is decoded.
        match span.map(|span| base.checked_add(span & !((1 << low_bits) - 1))) {
            Some(Some(least)) if least <= max => Ok(()),
            _ => Err(beyond(max)),
        }
    }
}

// What is wrong with a body, told apart from the checks, so that these are short enough to stand where a block is looked at.

#[cold]
fn too_short(bytes: usize) -> Error {
    corrupt(0, "the length of a run's block", BODY_BYTES, bytes)
}

#[cold]
fn beyond(max: u64) -> Error {
    corrupt(12, "the span of a run's block", format!("at most {max:#x}"), "more, or none")
}

/// What a run says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    pub(super) fingerprint_bits: u32,
    pub(super) sign: Sign,
    pub(super) tombstones: u64,
    pub(super) occurrences: u64,
}

impl Meta {
    pub(super) fn encode(&self) -> [u8; META_BYTES] {
        let mut out = [0; META_BYTES];
        out[0] = self.fingerprint_bits as u8;
        out[1] = self.sign as u8;
        out[8..16].copy_from_slice(&self.tombstones.to_le_bytes());
        out[16..].copy_from_slice(&self.occurrences.to_le_bytes());
        out
    }

    /// Reads the meta bytes of a run of `entries` fingerprints, written by `version` of [`STRUCTURE`].
    pub(super) fn decode(bytes: &[u8], entries: u64, version: u16) -> Result<Meta> {
        let (words, &[]) = bytes.as_chunks::<8>() else {
            return Err(corrupt(0, "the length of a run's meta bytes", META_BYTES, bytes.len()));
        };
        let &[[bits, sign, padding @ ..], tombstones, occurrences] = words else {
            return Err(corrupt(0, "the length of a run's meta bytes", META_BYTES, bytes.len()));
        };
        let (tombstones, occurrences) = (u64::from_le_bytes(tombstones), u64::from_le_bytes(occurrences));
        if !(1..=64).contains(&bits) || padding != [0; 6] {
            return Err(corrupt(0, "a run's fingerprint bits", "1 to 64", format!("{bits}, {padding:?}")));
        }
        let sign = match sign {
            0 => Sign::Insertions,
            1 if version > 1 => Sign::Removals,
            other => return Err(corrupt(1, "a run's sign", "0 or, from version 2 on, 1", other)),
        };
        if sign == Sign::Removals && tombstones > 0 {
            return Err(corrupt(8, "tombstones of a run of removals", 0, tombstones));
        }
        if tombstones > entries || occurrences < entries - tombstones {
            let found = format!("{tombstones} tombstones, {occurrences} occurrences");
            return Err(corrupt(8, "a run's counts", format!("those of {entries} fingerprints"), found));
        }
        Ok(Meta { fingerprint_bits: bits.into(), sign, tombstones, occurrences })
    }
}

/// Fingerprints have 1 to 64 bits.
pub(super) fn check_bits(bits: u32) -> Result<()> {
    if (1..=64).contains(&bits) {
        return Ok(());
    }
    let why = "1 to 64 bits of a hash are taken".to_owned();
    Err(Error::InvalidOption { name: "fingerprint_bits", value: bits.to_string(), why })
}

/// The greatest fingerprint of `bits` bits.
pub(super) fn fingerprint_max(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}
