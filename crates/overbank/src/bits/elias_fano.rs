//! A monotone sequence in at most 2 + lg(max/n) bits a value, with access by index and by value.
//!
//! ```text
//!   value   = high part | low part of lg(max/n) bits
//!   high    bit h + i is one for value i with high part h: as many zeros as high parts, as many ones as values
//!           1 1 0 1 0 0 1 0 …        select1(i) - i = high part of value i
//!           └─h=0─┘ └h=1┘            select0(h - 1) - (h - 1) = how many values have a high part below h
//!   low     n fields back to back
//!   samples the place of every 256th one and of every 256th zero, in RAM only
//! ```
//!
//! Byte form: number of values (8 bytes), largest value allowed (8), high words, low words.
//!
//! Invariants:
//! 1. `high` holds exactly `n` ones and `(max >> low_bits) + 1` zeros, and is zero past them.
//! 2. Values ascend or repeat, and none exceeds `max`.
//!
//! | cost | CPU | RAM |
//! |---|---|---|
//! | `get`, `rank`, `successor` | O(1) on average: one sample, some 8 words, one word of `low` (`rank`: a binary search among equal high parts) | - |
//! | iteration | O(1) a value | - |
//! | all | - | n (2 + lg(max/n)) bits, and at most 0.75 n bits of samples |
//!
//! Between two samples the words are scanned, so a sequence with one huge gap has a few indexes of slow
//! access: at most the whole of `high`, 2 n / 64 words. Hashes and fences have no such gaps.
//!
//! Source: Elias, Efficient Storage and Retrieval by Content and Address of Static Files, JACM 21 (1974);
//! Fano, MIT Project MAC memorandum 61 (1971).

use super::packed::PackedArray;
use super::select::select_in_word;
use super::word::{append_le_bytes, low_mask, words_for, words_from_le_bytes};
use crate::Result;
use crate::error::corrupt_bytes as corrupt;

/// Ones (and zeros) from one sample to the next.
const SAMPLE: u64 = 256;
const HEADER_BYTES: usize = 16;

/// A monotone sequence of integers, compressed.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::bits::{EliasFano, EliasFanoBuilder};
/// let mut builder = EliasFanoBuilder::new(4, 1000);
/// [3, 3, 500, 1000].into_iter().for_each(|value| builder.push(value));
/// let fences = builder.finish();
/// assert_eq!(fences.get(2), 500);
/// assert_eq!(fences.rank(4), 2);
/// assert_eq!(fences.successor(501), Some((3, 1000)));
/// assert_eq!(EliasFano::from_bytes(&fences.to_bytes())?, fences);
/// # }
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EliasFano {
    max: u64,
    low: PackedArray,
    high: Vec<u64>,
    ones: Vec<u64>,
    zeros: Vec<u64>,
}

/// Takes a monotone sequence value by value; its length and largest value are known before.
#[derive(Clone, Debug)]
pub struct EliasFanoBuilder {
    len: usize,
    max: u64,
    last: u64,
    low: PackedArray,
    high: Vec<u64>,
}

impl EliasFanoBuilder {
    /// Starts a sequence of exactly `len` values, none above `max`.
    ///
    /// # Panics
    /// When `len` values do not fit the address space.
    pub fn new(len: usize, max: u64) -> Self {
        let high_bits = high_bits(len as u64, max);
        Self {
            len,
            max,
            last: 0,
            low: PackedArray::with_capacity(low_bits(len as u64, max), len),
            high: vec![
                0;
                usize::try_from(high_bits.div_ceil(64)).expect("the sequence fits the address space")
            ],
        }
    }

    /// Appends a value.
    ///
    /// # Panics
    /// When it is below the one before or above the largest allowed, or when all `len` values are there.
    pub fn push(&mut self, value: u64) {
        let index = self.low.len();
        assert!(index < self.len, "the sequence was declared to have {} values", self.len);
        assert!(
            self.last <= value && value <= self.max,
            "{value} is not between {} and {}",
            self.last,
            self.max
        );
        let bits = self.low.width();
        self.low.push(value & low_mask(bits));
        let place = high_part(value, bits) + index as u64;
        self.high[(place / 64) as usize] |= 1 << (place % 64);
        self.last = value;
    }

    /// The finished sequence.
    ///
    /// # Panics
    /// When fewer values were pushed than declared.
    pub fn finish(self) -> EliasFano {
        assert_eq!(self.low.len(), self.len, "all declared values must be pushed");
        EliasFano::with_samples(self.max, self.low, self.high)
    }
}

impl EliasFano {
    /// Compresses a slice; its last value becomes the largest allowed.
    ///
    /// # Panics
    /// When the values descend anywhere.
    pub fn from_sorted(values: &[u64]) -> Self {
        let mut builder = EliasFanoBuilder::new(values.len(), values.last().copied().unwrap_or(0));
        values.iter().for_each(|value| builder.push(*value));
        builder.finish()
    }

    /// Reads the byte form, trusted or not: O(n).
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not exactly what [`EliasFano::to_bytes`] writes for some sequence.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(corrupt(
                bytes.len(),
                "the length of an Elias-Fano header",
                HEADER_BYTES,
                bytes.len(),
            ));
        };
        let [len, max] = *words_from_le_bytes(header) else {
            return Err(corrupt(0, "the length of an Elias-Fano header", HEADER_BYTES, header.len()));
        };
        let low_bits = low_bits(len, max);
        let high_bytes = high_bits(len, max).div_ceil(64) * 8;
        let low_bytes = (u128::from(len) * u128::from(low_bits)).div_ceil(64) * 8;
        if body.len() as u128 != high_bytes + low_bytes {
            let expected = high_bytes + low_bytes;
            return Err(corrupt(HEADER_BYTES, "the length of an Elias-Fano sequence", expected, body.len()));
        }
        let (high, low) = body.split_at(high_bytes as usize);
        let high = words_from_le_bytes(high);
        let found: u64 = high.iter().map(|word| u64::from(word.count_ones())).sum();
        if found != len {
            return Err(corrupt(HEADER_BYTES, "the number of Elias-Fano values", len, found));
        }
        // A one behind this place is a high part above that of `max`, and might be shifted out of 64 bits unseen.
        let last_one = high.iter().rposition(|word| *word != 0);
        let end = last_one.map_or(0, |at| at as u128 * 64 + u128::from(64 - high[at].leading_zeros()));
        if end >= high_bits(len, max).max(1) {
            let expected = format!("below {}", high_bits(len, max));
            return Err(corrupt(HEADER_BYTES, "the end of the Elias-Fano high parts", expected, end));
        }
        let low = PackedArray::from_bytes(low_bits, len as usize, low)?;
        // Samples of a sequence that is not ours would be wrong but harmless; the order is checked before
        // anyone sees it.
        let sequence = Self::with_samples(max, low, high);
        let mut last = 0;
        for (index, value) in sequence.iter().enumerate() {
            let high_part = high_part(value, low_bits);
            if value < last || value > max || high_part > self::high_part(max, low_bits) {
                let at = HEADER_BYTES + index / 8;
                return Err(corrupt(at, "an Elias-Fano value", format!("between {last} and {max}"), value));
            }
            last = value;
        }
        Ok(sequence)
    }

    /// The byte form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes());
        bytes.extend_from_slice(&(self.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.max.to_le_bytes());
        append_le_bytes(&self.high, &mut bytes);
        self.low.append_bytes(&mut bytes);
        bytes
    }

    /// Length of the byte form.
    pub fn encoded_bytes(&self) -> usize {
        let low_words = words_for(self.len() as u64 * u64::from(self.low.width())) as usize;
        HEADER_BYTES + (self.high.len() + low_words) * 8
    }

    /// Bytes that it holds in RAM, itself and the samples included.
    pub fn memory_bytes(&self) -> usize {
        let words = self.high.capacity() + self.ones.capacity() + self.zeros.capacity();
        size_of::<Self>() - size_of::<PackedArray>() + self.low.memory_bytes() + words * 8
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.low.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.low.is_empty()
    }

    /// The largest value that was allowed.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value at `index`.
    ///
    /// # Panics
    /// When `index` is not below the length.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        let low = self.low.get(index);
        let high_part = select::<true>(&self.high, &self.ones, index as u64) - index as u64;
        self.join(high_part, low)
    }

    /// How many values are below `value`: the index of the first that is not, or the length.
    #[inline]
    pub fn rank(&self, value: u64) -> usize {
        if self.is_empty() || value > self.max {
            return self.len();
        }
        let bits = self.low.width();
        let wanted = high_part(value, bits);
        // Where the values of this high part start, in `high` and among the values.
        let place = if wanted == 0 { 0 } else { select::<false>(&self.high, &self.zeros, wanted - 1) + 1 };
        let mut start = (place - wanted) as usize;
        let mut end = start + run_of_ones(&self.high, place) as usize;
        let low = value & low_mask(bits);
        while start < end {
            let middle = start + (end - start) / 2;
            if self.low.get(middle) < low {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }

    /// The first value that is not below `value`, with its index.
    #[inline]
    pub fn successor(&self, value: u64) -> Option<(usize, u64)> {
        let index = self.rank(value);
        (index < self.len()).then(|| (index, self.get(index)))
    }

    /// The indexes of the greatest value that is not above `value`, as often as it repeats; none if all are above.
    #[inline]
    pub fn last_run(&self, value: u64) -> std::ops::Range<usize> {
        let end = value.checked_add(1).map_or(self.len(), |above| self.rank(above));
        match end.checked_sub(1) {
            Some(last) => self.rank(self.get(last))..end,
            None => 0..0,
        }
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut index = 0;
        self.high
            .iter()
            .enumerate()
            .flat_map(|(i, &word)| ones_of(word).map(move |bit| i as u64 * 64 + bit))
            .map(move |place| {
                let value = self.join(place - index as u64, self.low.get(index));
                index += 1;
                value
            })
    }

    #[inline(always)]
    fn join(&self, high_part: u64, low: u64) -> u64 {
        let bits = self.low.width();
        if bits == 64 { low } else { high_part << bits | low }
    }

    fn with_samples(max: u64, low: PackedArray, high: Vec<u64>) -> Self {
        let ones = sample(&high, |word| word);
        let zeros = sample(&high, |word| !word);
        Self { max, low, high, ones, zeros }
    }
}

fn low_bits(len: u64, max: u64) -> u32 {
    max.checked_div(len).map_or(0, |gap| gap.max(1).ilog2())
}

fn high_part(value: u64, low_bits: u32) -> u64 {
    value >> low_bits
}

/// Bits of `high`, below 2^66.
fn high_bits(len: u64, max: u64) -> u128 {
    if len == 0 { 0 } else { u128::from(len) + u128::from(high_part(max, low_bits(len, max))) + 1 }
}

/// Places of every 256th one of the words as `view` shows them.
fn sample(words: &[u64], view: impl Fn(u64) -> u64) -> Vec<u64> {
    let (mut samples, mut before, mut next) = (Vec::new(), 0u64, 0u64);
    for (i, &word) in words.iter().enumerate() {
        let word = view(word);
        let here = u64::from(word.count_ones());
        if next < before + here {
            samples.push(i as u64 * 64 + u64::from(select_in_word(word, (next - before) as u32)));
            next += SAMPLE;
        }
        before += here;
    }
    samples.shrink_to_fit();
    samples
}

/// The place of the `rank`-th one (or zero); it must exist.
#[inline(always)]
fn select<const ONES: bool>(words: &[u64], samples: &[u64], rank: u64) -> u64 {
    let start = samples[(rank / SAMPLE) as usize];
    let mut left = (rank % SAMPLE) as u32;
    let mut at = (start / 64) as usize;
    let view = |word: u64| if ONES { word } else { !word };
    let mut word = view(words[at]) & (u64::MAX << (start % 64));
    loop {
        let here = word.count_ones();
        if left < here {
            return at as u64 * 64 + u64::from(select_in_word(word, left));
        }
        left -= here;
        at += 1;
        word = view(words[at]);
    }
}

/// How many ones stand from bit `place` to the next zero.
#[inline]
fn run_of_ones(words: &[u64], place: u64) -> u64 {
    let mut at = (place / 64) as usize;
    let Some(first) = words.get(at) else { return 0 };
    let first = (first >> (place % 64)).trailing_ones();
    let mut run = u64::from(first);
    if u64::from(first) + place % 64 < 64 {
        return run;
    }
    loop {
        at += 1;
        let here = words.get(at).map_or(0, |word| word.trailing_ones());
        run += u64::from(here);
        if here < 64 {
            return run;
        }
    }
}

fn ones_of(mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sorted values: spread, dense, clustered, with repeats and gaps.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value = prop_oneof![any::<u64>(), 0u64..100, 1000u64..1100, Just(5u64), Just(u64::MAX)];
        let one_kind = prop_oneof![
            prop::collection::vec(value, 0..700),
            prop::collection::vec(0u64..50, 0..700),
            prop::collection::vec(any::<u64>(), 0..700),
        ];
        one_kind.prop_map(|mut values| {
            values.sort_unstable();
            values
        })
    }

    #[test]
    fn a_high_part_that_64_bits_cannot_hold_is_corrupt() {
        let mut bytes = EliasFano::from_sorted(&[u64::MAX]).to_bytes();
        assert_eq!(bytes[16..24], 0b10u64.to_le_bytes());
        bytes[16..24].copy_from_slice(&0x1000u64.to_le_bytes());
        assert!(EliasFano::from_bytes(&bytes).is_err());
    }

    fn damaged(mut bytes: Vec<u8>, flips: &[(prop::sample::Index, u8)]) -> Vec<u8> {
        for (index, bit) in flips {
            let at = index.index(bytes.len());
            bytes[at] ^= 1 << (bit % 8);
        }
        bytes
    }

    proptest! {
        #[test]
        fn answers_as_a_sorted_vector_does(values in values(), slack: u32, probes in prop::collection::vec(any::<u64>(), 20)) {
            let max = values.last().copied().unwrap_or(0).saturating_add(u64::from(slack));
            let mut builder = EliasFanoBuilder::new(values.len(), max);
            values.iter().for_each(|value| builder.push(*value));
            let sequence = builder.finish();
            prop_assert_eq!(sequence.len(), values.len());
            prop_assert_eq!(sequence.iter().collect::<Vec<_>>(), values.clone());
            for (i, value) in values.iter().enumerate() {
                prop_assert_eq!(sequence.get(i), *value);
            }
            let near = values.iter().flat_map(|v| [v.saturating_sub(1), *v, v.saturating_add(1)]);
            for probe in near.chain(probes).chain([0, 7, 1050, max, u64::MAX]) {
                let rank = values.partition_point(|value| *value < probe);
                prop_assert_eq!(sequence.rank(probe), rank, "rank of {}", probe);
                prop_assert_eq!(sequence.successor(probe), values.get(rank).map(|value| (rank, *value)));
                let end = values.partition_point(|value| *value <= probe);
                let start = end.checked_sub(1).map_or(0, |last| values.partition_point(|value| *value < values[last]));
                prop_assert_eq!(sequence.last_run(probe), start..end, "run below {}", probe);
            }
            let bytes = sequence.to_bytes();
            prop_assert_eq!(bytes.len(), sequence.encoded_bytes());
            prop_assert_eq!(EliasFano::from_bytes(&bytes).unwrap(), sequence);
        }

        #[test]
        fn flipped_bits_are_corrupt_or_another_valid_sequence(
            values in values(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in 0usize..20,
        ) {
            let bytes = damaged(EliasFano::from_sorted(&values).to_bytes(), &flips);
            if let Ok(sequence) = EliasFano::from_bytes(&bytes) {
                prop_assert_eq!(sequence.to_bytes(), bytes.clone());
                prop_assert!(sequence.iter().is_sorted());
                prop_assert!(sequence.iter().all(|value| value <= sequence.max()));
                for (i, value) in sequence.iter().enumerate() {
                    prop_assert_eq!(sequence.get(i), value);
                    prop_assert!(sequence.rank(value) <= i);
                }
            }
            if cut > 0 {
                prop_assert!(EliasFano::from_bytes(&bytes[..bytes.len().saturating_sub(cut)]).is_err());
            }
        }

        #[test]
        fn noise_is_no_sequence_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0u64..20, max in 0u64..5000) {
            let _ = EliasFano::from_bytes(&bytes);
            let mut with_header = [len.to_le_bytes(), max.to_le_bytes()].concat();
            with_header.extend(bytes);
            if let Ok(sequence) = EliasFano::from_bytes(&with_header) {
                prop_assert!(sequence.iter().is_sorted());
            }
        }
    }

    #[test]
    fn sizes_keep_the_bound() {
        for (n, max) in [(1usize, u64::MAX), (1000, 1000), (10_000, 1 << 40), (50_000, 3 << 20), (4096, 4095)]
        {
            let values: Vec<u64> = (0..n as u128).map(|i| (u128::from(max) * i / n as u128) as u64).collect();
            let mut builder = EliasFanoBuilder::new(n, max);
            values.iter().for_each(|value| builder.push(*value));
            let sequence = builder.finish();
            let bound = n as f64 * (2.0 + (max as f64 / n as f64).log2().max(0.0)) + 1.0;
            // Rounding of two arrays to words, and the header.
            assert!(
                sequence.encoded_bytes() as f64 * 8.0 <= bound + 2.0 * 63.0 + 128.0,
                "{n} values up to {max}"
            );
            let held = (sequence.memory_bytes() - size_of::<EliasFano>()) as f64 * 8.0;
            assert!(held <= bound + 0.75 * n as f64 + 2.0 * 63.0 + 128.0, "{n} values hold {held} bits");
            let samples = (sequence.ones.len() + sequence.zeros.len()) as f64 * 64.0;
            assert!(samples <= 0.75 * n as f64 + 128.0, "{samples} bits of samples for {n} values");
        }
    }

    #[test]
    #[should_panic(expected = "4 is not between 5 and 9")]
    fn a_descent_is_refused() {
        let mut builder = EliasFanoBuilder::new(2, 9);
        builder.push(5);
        builder.push(4);
    }
}
