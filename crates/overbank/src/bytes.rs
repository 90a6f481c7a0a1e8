//! Little-endian fields off the front of bytes that may be anything: damaged, cut off, forged.
//!
//! ```text
//!        origin                    at()
//!   … ───┼── fields that were read ┼── left() bytes ───────┤      offsets in errors count as `origin` does
//! ```
//!
//! 1. No read goes past the end or panics, and none allocates. A number of items is compared with the bytes that are left before anybody
//!    allocates for them: [`ByteReader::counted`].
//! 2. An error says what was read, where, what it should be and what it is. It does not know the file: who does adds its name
//!    ([`Error::in_file`], [`Error::in_file_from`]).
//!
//! Cost: a comparison a field.

use crate::error::corrupt_bytes;
use crate::{Error, Result};

/// Reads fields one after another; every step checks that the bytes are there before it takes them.
#[derive(Clone, Debug)]
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    /// Reads `bytes`, which begin what errors count from.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::from_offset(bytes, 0)
    }

    /// Reads `bytes`, which begin at `origin` of what errors count from.
    pub(crate) fn from_offset(bytes: &'a [u8], origin: usize) -> Self {
        Self { rest: bytes, at: origin }
    }

    /// Where the next field begins.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are not yet read.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.corrupt("the number of bytes that follow", len, self.left()));
        };
        self.advance(rest, len);
        Ok(taken)
    }

    /// Everything that is left.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.advance(&[], rest.len());
        rest
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.corrupt("the number of bytes that follow", N, self.left()));
        };
        self.advance(rest, N);
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Fails unless `magic` is next.
    pub(crate) fn magic<const N: usize>(&mut self, what: &'static str, magic: [u8; N]) -> Result<()> {
        let at = self.at;
        match self.array()? {
            found if found == magic => Ok(()),
            found => Err(corrupt_bytes(at, what, format!("{magic:02x?}"), format!("{found:02x?}"))),
        }
    }

    /// Fails unless `len` bytes are next and all are zero.
    pub(crate) fn zeros(&mut self, len: usize) -> Result<()> {
        let at = self.at;
        let padding = self.take(len)?;
        // By comparison of whole pieces, since every open checks pages of zeros.
        const ZEROS: [u8; 256] = [0; 256];
        if padding.chunks(ZEROS.len()).all(|part| *part == ZEROS[..part.len()]) {
            return Ok(());
        }
        let offset = padding.iter().position(|&byte| byte != 0).unwrap_or(0);
        Err(corrupt_bytes(at + offset, "a padding byte", 0, padding[offset]))
    }

    /// Fails unless everything that is left is zero.
    pub(crate) fn only_zeros_left(&mut self) -> Result<()> {
        self.zeros(self.left())
    }

    /// Fails unless exactly `expected` bytes are left; `None` is more than memory can hold.
    pub(crate) fn require_left(&self, expected: Option<usize>) -> Result<()> {
        match expected {
            Some(expected) if expected == self.left() => Ok(()),
            Some(expected) => Err(self.corrupt("the number of bytes that follow", expected, self.left())),
            None => Err(self.corrupt("the shape", "one that memory can hold", "a larger one")),
        }
    }

    /// `count` as a number of items of `item_bytes` bytes each, all of which are left: call it before allocating for them.
    pub(crate) fn counted(
        &self,
        what: &'static str,
        count: impl Into<u64>,
        item_bytes: usize,
    ) -> Result<usize> {
        let (count, most) = (count.into(), self.left() / item_bytes.max(1));
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(self.corrupt(what, format!("at most {most}"), count)),
        }
    }

    /// Says that what was read up to here cannot be.
    #[cold]
    pub(crate) fn corrupt(&self, what: &'static str, expected: impl ToString, found: impl ToString) -> Error {
        corrupt_bytes(self.at, what, expected, found)
    }

    fn advance(&mut self, rest: &'a [u8], len: usize) {
        (self.rest, self.at) = (rest, self.at.saturating_add(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn fields_come_in_order_and_errors_say_where() {
        let mut bytes = b"OBxx".to_vec();
        bytes.extend(0x0102u16.to_le_bytes());
        bytes.extend((-3i32).to_le_bytes());
        bytes.extend(1.5f64.to_le_bytes());
        bytes.extend([0; 300]);
        let mut reader = ByteReader::from_offset(&bytes, 1000);
        reader.magic("the magic", *b"OBxx").unwrap();
        assert_eq!((reader.u16().unwrap(), reader.i32().unwrap(), reader.f64().unwrap()), (0x0102, -3, 1.5));
        assert_eq!((reader.at(), reader.left()), (1018, 300));
        reader.clone().only_zeros_left().unwrap();
        let error = reader.zeros(301).unwrap_err();
        assert!(matches!(error, Error::Corrupt { at: 1018, .. }), "{error}");
        assert_eq!(reader.left(), 300);

        let error = ByteReader::new(b"OBxy").magic("the magic", *b"OBxx").unwrap_err();
        assert!(error.to_string().contains("the magic should be [4f, 42, 78, 78] but is [4f, 42, 78, 79]"));
        let error =
            ByteReader::from_offset(&[0, 0, 7], 10).only_zeros_left().unwrap_err().in_file(Path::new("f"));
        assert_eq!(
            error.to_string(),
            "f is damaged at byte 12: a padding byte should be 0 but is 7; restore the store from a copy"
        );
        let error = ByteReader::from_offset(&[], 3).u64().unwrap_err().in_file_from(Path::new("f"), 4096);
        assert!(matches!(&error, Error::Corrupt { at: 4099, path, .. } if path == Path::new("f")), "{error}");
    }

    #[test]
    fn a_count_is_believed_only_if_its_items_are_there() {
        let reader = ByteReader::new(&[0; 17]);
        assert_eq!(reader.counted("items", 4u32, 4).unwrap(), 4);
        for count in [5, u64::MAX] {
            assert!(matches!(reader.counted("items", count, 4), Err(Error::Corrupt { what: "items", .. })));
        }
        assert!(reader.require_left(Some(17)).is_ok());
        assert!(reader.require_left(Some(16)).is_err() && reader.require_left(None).is_err());
    }

    proptest! {
        #[test]
        fn no_read_goes_past_the_end(bytes: Vec<u8>, reads in proptest::collection::vec((0u8..5, 0usize..40), 0..12)) {
            let mut reader = ByteReader::new(&bytes);
            let mut at = 0;
            for (kind, len) in reads {
                let (len, value) = match kind {
                    0 => (8, reader.u64().map(u128::from)),
                    1 => (2, reader.u16().map(u128::from)),
                    2 => (16, reader.u128()),
                    3 => (len, reader.take(len).map(|taken| taken.len() as u128)),
                    _ => (len, reader.zeros(len).map(|()| 0)),
                };
                let is_there = at + len <= bytes.len();
                let is_zero = || bytes[at..at + len].iter().all(|&byte| byte == 0);
                prop_assert_eq!(value.is_ok(), is_there && (kind != 4 || is_zero()));
                if is_there {
                    at += len;
                }
                prop_assert_eq!((reader.at(), reader.left()), (at, bytes.len() - at));
            }
        }
    }
}
