//! A stream of bit fields and unary numbers, written once from the front and read from the front.
//!
//! ```text
//!   byte 0               byte 1
//!   bit 0 1 2 3 4 5 6 7  0 1 …         fields least significant bit first
//!   unary n: n zeros, then a one
//! ```
//!
//! Invariants:
//! 1. The last byte is filled up with zeros.
//! 2. The reader never reads past its bytes: that is `Corrupt`, with the byte where it happened.

use super::word::low_mask;
use crate::Result;
use crate::error::corrupt_bytes as corrupt;

/// Appends bit fields to a vector of bytes.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::bits::{BitReader, BitWriter};
/// let mut writer = BitWriter::new();
/// writer.write(5, 3);
/// writer.write_unary(9);
/// let bytes = writer.finish();
/// let mut reader = BitReader::new(&bytes);
/// assert_eq!((reader.read(3)?, reader.read_unary()?), (5, 9));
/// # }
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// The bits not yet in `bytes`, fewer than 64.
    waiting: u64,
    waiting_bits: u32,
}

impl BitWriter {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the lowest `width` bits of `value`.
    ///
    /// # Panics
    /// When `width` is above 64 or `value` has more bits.
    #[inline]
    pub fn write(&mut self, value: u64, width: u32) {
        assert!(width <= 64 && value <= low_mask(width), "{value} does not fit {width} bits");
        if width == 0 {
            return;
        }
        self.waiting |= value << self.waiting_bits;
        let filled = self.waiting_bits + width;
        if filled >= 64 {
            self.bytes.extend_from_slice(&self.waiting.to_le_bytes());
            let taken = 64 - self.waiting_bits;
            self.waiting = if taken == 64 { 0 } else { value >> taken };
            self.waiting_bits = filled - 64;
        } else {
            self.waiting_bits = filled;
        }
    }

    /// Writes `number` zeros and a one.
    pub fn write_unary(&mut self, number: u64) {
        for _ in 0..number / 63 {
            self.write(0, 63);
        }
        let rest = (number % 63) as u32;
        self.write(1 << rest, rest + 1);
    }

    /// The bytes, the last one filled up with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        let bytes = self.waiting_bits.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.waiting.to_le_bytes()[..bytes]);
        self.bytes
    }
}

/// Reads bit fields from bytes, trusted or not.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at_bit: u64,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at_bit: 0 }
    }

    /// Bits read so far.
    pub fn at_bit(&self) -> u64 {
        self.at_bit
    }

    /// Bits left, the filling of the last byte included.
    pub fn left_bits(&self) -> u64 {
        self.bytes.len() as u64 * 8 - self.at_bit
    }

    /// Reads `width` bits.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left, or `width` is above 64.
    #[inline]
    pub fn read(&mut self, width: u32) -> Result<u64> {
        if width > 64 || u64::from(width) > self.left_bits() {
            return Err(self.past_the_end(u64::from(width)));
        }
        let shift = (self.at_bit % 8) as u32;
        let low = self.next_word() & low_mask(width);
        // A field of more than 56 bits may reach into a ninth byte.
        let value = if shift + width > 64 {
            let ninth = self.bytes.get((self.at_bit / 8) as usize + 8).copied().unwrap_or(0);
            (low | u64::from(ninth) << (64 - shift)) & low_mask(width)
        } else {
            low
        };
        self.at_bit += u64::from(width);
        Ok(value)
    }

    /// Reads a unary number.
    ///
    /// # Errors
    /// `Corrupt` when no one is left.
    #[inline]
    pub fn read_unary(&mut self) -> Result<u64> {
        let start = self.at_bit;
        while self.left_bits() > 0 {
            let seen = u64::from(64 - (self.at_bit % 8) as u32).min(self.left_bits());
            let zeros = u64::from(self.next_word().trailing_zeros());
            if zeros < seen {
                self.at_bit += zeros + 1;
                return Ok(self.at_bit - start - 1);
            }
            self.at_bit += seen;
        }
        self.at_bit = start;
        Err(self.past_the_end(1))
    }

    /// The next bits, at least 57 where so many are left; zeros past the end.
    #[inline(always)]
    fn next_word(&self) -> u64 {
        let rest = &self.bytes[(self.at_bit / 8) as usize..];
        let word = match rest.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        word >> (self.at_bit % 8)
    }

    #[cold]
    fn past_the_end(&self, wanted_bits: u64) -> crate::Error {
        corrupt(
            (self.at_bit / 8) as usize,
            "the number of bits left",
            format!("at least {wanted_bits}"),
            self.left_bits(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Field {
        Fixed(u64, u32),
        Unary(u64),
    }

    fn fields() -> impl Strategy<Value = Vec<Field>> {
        let fixed =
            (any::<u64>(), 0u32..=64).prop_map(|(value, width)| Field::Fixed(value & low_mask(width), width));
        let unary = prop_oneof![0u64..10, 0u64..300].prop_map(Field::Unary);
        prop::collection::vec(prop_oneof![fixed, unary], 0..100)
    }

    proptest! {
        #[test]
        fn fields_are_read_as_written(fields in fields()) {
            let mut writer = BitWriter::new();
            for field in &fields {
                match *field {
                    Field::Fixed(value, width) => writer.write(value, width),
                    Field::Unary(number) => writer.write_unary(number),
                }
            }
            let width = |field: &Field| match *field {
                Field::Fixed(_, width) => u64::from(width),
                Field::Unary(number) => number + 1,
            };
            let bits: u64 = fields.iter().map(width).sum();
            let bytes = writer.finish();
            prop_assert_eq!(bytes.len() as u64, bits.div_ceil(8));
            let mut reader = BitReader::new(&bytes);
            for field in &fields {
                match *field {
                    Field::Fixed(value, width) => prop_assert_eq!(reader.read(width).unwrap(), value),
                    Field::Unary(number) => prop_assert_eq!(reader.read_unary().unwrap(), number),
                }
            }
            prop_assert_eq!(reader.at_bit(), bits);
            prop_assert!(reader.left_bits() < 8);
            prop_assert!(reader.read_unary().is_err(), "only zeros fill the last byte");
        }

        #[test]
        fn hostile_bytes_end_in_an_error_and_never_in_a_panic(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40),
            widths in prop::collection::vec(0u32..200, 1..20),
        ) {
            let mut reader = BitReader::new(&bytes);
            for width in widths.into_iter().cycle().take(400) {
                let before = reader.at_bit();
                let ok = if width < 66 { reader.read(width).is_ok() } else { reader.read_unary().is_ok() };
                prop_assert!(ok || reader.at_bit() == before, "a failed read moves nothing");
                prop_assert!(reader.at_bit() <= bytes.len() as u64 * 8);
            }
        }
    }
}
