//! An array of unsigned integers of one fixed width, 0 to 64 bits, back to back.
//!
//! ```text
//!   word 0                                   word 1
//!   bit 0                            bit 63  bit 64
//!   |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 ----|-- 3 cont. --| …
//! ```
//!
//! Invariants:
//! 1. Bits past the last value are zero.
//! 2. The byte form is the words, little-endian, and nothing else: length and width are the container's to
//!    keep.
//!
//! | cost | CPU | RAM |
//! |---|---|---|
//! | `get`, `set` | O(1), one or two words | - |
//! | all | - | `len * width` bits, rounded up to 8 bytes |

use super::prefetch::prefetch;
use super::word::{append_le_bytes, low_mask, read_bits, words_for, words_from_le_bytes, write_bits};
use crate::Result;
use crate::error::corrupt_bytes as corrupt;

/// Integers of a fixed width in bits.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::bits::PackedArray;
/// let mut small = PackedArray::new(5);
/// small.push(17);
/// small.push(31);
/// small.set(0, 3);
/// assert_eq!(small.iter().collect::<Vec<_>>(), [3, 31]);
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackedArray {
    width: u32,
    len: usize,
    words: Vec<u64>,
}

impl PackedArray {
    /// An empty array of values of `width` bits.
    ///
    /// # Panics
    /// When `width` is above 64.
    pub fn new(width: u32) -> Self {
        assert!(width <= 64, "a value has at most 64 bits");
        Self { width, len: 0, words: Vec::new() }
    }

    /// An empty array with room for `len` values of `width` bits, and not more.
    ///
    /// # Panics
    /// When `width` is above 64, or the bits number more than 2^64.
    pub fn with_capacity(width: u32, len: usize) -> Self {
        assert!(width <= 64, "a value has at most 64 bits");
        let words = words_for(len as u64 * u64::from(width)) as usize;
        Self { width, len: 0, words: Vec::with_capacity(words) }
    }

    /// `len` zeros of `width` bits.
    ///
    /// # Panics
    /// When `width` is above 64, or the bits number more than 2^64.
    #[cfg(any(test, feature = "internals"))]
    pub fn zeros(width: u32, len: usize) -> Self {
        assert!(width <= 64, "a value has at most 64 bits");
        let words = words_for(len as u64 * u64::from(width)) as usize;
        Self { width, len, words: vec![0; words] }
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// `Corrupt` when `bytes` is not exactly as long as `len` values of `width` bits, when bits past the last
    /// value are not zero, or when `width` is above 64.
    #[cfg(any(test, feature = "internals"))]
    pub fn from_bytes(width: u32, len: usize, bytes: &[u8]) -> Result<Self> {
        if width > 64 {
            return Err(corrupt(0, "the width of a packed array", "at most 64", width));
        }
        let bits = u128::from(width) * len as u128;
        let expected = bits.div_ceil(64) * 8;
        if bytes.len() as u128 != expected {
            return Err(corrupt(0, "the length of a packed array", expected, bytes.len()));
        }
        let words = words_from_le_bytes(bytes);
        let used = (bits % 64) as u32;
        if used > 0 && words.last().is_some_and(|last| last & !low_mask(used) != 0) {
            return Err(corrupt(bytes.len() - 8, "the padding of a packed array", "zero", "bits set"));
        }
        Ok(Self { width, len, words })
    }

    /// Appends the byte form.
    #[cfg(any(test, feature = "internals"))]
    pub fn append_bytes(&self, into: &mut Vec<u8>) {
        append_le_bytes(&self.words, into);
    }

    /// Bits of a value.
    #[cfg(any(test, feature = "internals"))]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it holds in RAM, itself included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.words.capacity() * 8
    }

    /// The value at `index`.
    ///
    /// # Panics
    /// When `index` is not below the length.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        assert!(index < self.len, "index {index} of {} packed values", self.len);
        read_bits(&self.words, index as u64 * u64::from(self.width), self.width)
    }

    /// The value at `index`, and the next one.
    ///
    /// # Panics
    /// When `index + 1` is not below the length.
    #[inline(always)]
    pub fn pair(&self, index: usize) -> (u64, u64) {
        if self.width > 32 {
            return (self.get(index), self.get(index + 1));
        }
        assert!(index + 1 < self.len, "index {index} and the next of {} packed values", self.len);
        let both = read_bits(&self.words, index as u64 * u64::from(self.width), 2 * self.width);
        (both & low_mask(self.width), both >> self.width)
    }

    /// Has the value at `index` brought to the cache.
    #[inline]
    #[cfg(any(test, feature = "internals"))]
    pub fn prefetch(&self, index: usize) {
        prefetch(&self.words, (index as u64 * u64::from(self.width) / 64) as usize);
    }

    /// Overwrites the value at `index`.
    ///
    /// # Panics
    /// When `index` is not below the length, or `value` has more bits than the width.
    #[inline]
    pub fn set(&mut self, index: usize, value: u64) {
        assert!(index < self.len, "index {index} of {} packed values", self.len);
        assert!(value <= low_mask(self.width), "{value} has more than {} bits", self.width);
        write_bits(&mut self.words, index as u64 * u64::from(self.width), self.width, value);
    }

    /// Appends a value.
    ///
    /// # Panics
    /// When `value` has more bits than the width.
    pub fn push(&mut self, value: u64) {
        self.len += 1;
        let words = words_for(self.len as u64 * u64::from(self.width)) as usize;
        if words > self.words.len() {
            self.words.push(0);
        }
        self.set(self.len - 1, value);
    }

    /// All values in order.
    #[cfg(any(test, feature = "internals"))]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        let width = self.width;
        (0..self.len).map(move |index| read_bits(&self.words, index as u64 * u64::from(width), width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holds_what_a_vector_holds(
            width in 0u32..=64,
            values in prop::collection::vec(any::<u64>(), 0..200),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..50),
        ) {
            let mut model: Vec<u64> = values.iter().map(|value| value & low_mask(width)).collect();
            let mut packed = PackedArray::new(width);
            model.iter().for_each(|value| packed.push(*value));
            let mut zeros = PackedArray::zeros(width, model.len());
            model.iter().enumerate().for_each(|(i, value)| zeros.set(i, *value));
            prop_assert_eq!(&packed, &zeros);
            for (index, value) in changes {
                if !model.is_empty() {
                    let index = index.index(model.len());
                    model[index] = value & low_mask(width);
                    packed.set(index, model[index]);
                }
            }
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), model.clone());
            for (i, value) in model.iter().enumerate() {
                prop_assert_eq!(packed.get(i), *value);
                if let Some(next) = model.get(i + 1) {
                    prop_assert_eq!(packed.pair(i), (*value, *next));
                }
            }
            let mut bytes = Vec::new();
            packed.append_bytes(&mut bytes);
            prop_assert_eq!(PackedArray::from_bytes(width, model.len(), &bytes).unwrap(), packed);
        }

        #[test]
        fn hostile_bytes_are_corrupt_or_exact(width: u32, len: usize, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            for (width, len) in [(width, len), (width % 65, len % 50)] {
                if let Ok(packed) = PackedArray::from_bytes(width, len, &bytes) {
                    let mut again = Vec::new();
                    packed.append_bytes(&mut again);
                    prop_assert_eq!(&again, &bytes);
                    prop_assert!(width == 0 || packed.iter().all(|value| value <= low_mask(width)));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "more than 3 bits")]
    fn a_value_too_wide_is_refused() {
        PackedArray::zeros(3, 1).set(0, 8);
    }

    #[test]
    #[should_panic(expected = "index 2 of 2")]
    fn an_index_past_the_end_is_refused() {
        PackedArray::zeros(3, 2).get(2);
    }
}
