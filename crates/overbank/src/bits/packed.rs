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
use super::word::{low_mask, read_bits, words_for, write_bits};

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
            prop_assert_eq!(packed.is_empty(), model.is_empty());
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
