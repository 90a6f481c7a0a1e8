//! A monotone sequence in about 2 + lg(max/n) bits a value, with search by value and access by index.
//!
//! ```text
//!   value    = high part: its bucket | low part of lg(max/n) bits
//!   group    32 buckets, back to back in one array of words:
//!              high    a one for each value of a bucket, then a zero: 1 1 0 | 1 0 | 0 | 1 0 …    32 zeros, n ones
//!              low     n fields
//!            group g begins at bit 32 g + (1 + lg(max/n)) × values before it: so its place follows from its first index
//!   directory, in RAM only: the first index of every 64th group, and how far the others' are from a straight line between these
//! ```
//!
//! Byte form: number of values (8 bytes), largest value allowed (8), words.
//!
//! Invariants:
//! 1. Group `g` has exactly 32 zeros and as many ones as values; the last one also has zeros for buckets above that of `max`.
//! 2. Values ascend or repeat, and none exceeds `max`. Behind the last group all bits are zero.
//!
//! | cost | CPU | RAM |
//! |---|---|---|
//! | `rank`, `successor`, `last_run` | O(1) on average: one miss for the group, one more where the directory does not fit the cache; binary search among many equal high parts | - |
//! | `get` | as these, and a binary search of the directory | - |
//! | iteration | O(1) a value | - |
//! | all | - | n (2 + lg(max/n)) bits; the directory: n/32 times the bits of the furthest from the line, 5 to 9 for hashes |
//!
//! Where values stand far closer than on average, a group has many of them and its words are scanned: all of them, 2 n / 64 words,
//! where one value is far above all others. Hashes and borders have no such gaps.
//!
//! Deviation: the text book has all high parts in one array, all low parts in another, and samples of both the ones and the zeros: three
//! or four misses a search. Here what a search reads lies within 20 bytes, and what leads there is small.
//!
//! Source: Elias, Efficient Storage and Retrieval by Content and Address of Static Files, JACM 21 (1974);
//! Fano, MIT Project MAC memorandum 61 (1971).

mod scalar;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(any(not(target_arch = "x86_64"), miri))]
use scalar as isa;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as isa;

use super::packed::PackedArray;
use super::prefetch::prefetch;
use super::select::{select_in_word, zero_from, zero_from_with};
use super::word::{append_le_bytes, low_mask, read_bits, words_from_le_bytes, write_bits};
use crate::Result;
use crate::error::corrupt_bytes as corrupt;
use std::ops::Range;

/// Buckets of a group. With 64 the directory is half as long, but the high parts of a group seldom fit a word: some 5 ns more a search.
const GROUP: u64 = 32;
/// Groups from one absolute index of the directory to the next.
const SPAN: u64 = 64;
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
    len: usize,
    max: u64,
    low_bits: u32,
    /// How many low parts a word shows; without any, as many as it has bits.
    lows_a_word: u32,
    words: Vec<u64>,
    directory: Directory,
}

/// Takes a monotone sequence value by value; its length and largest value are known before.
#[derive(Clone, Debug)]
pub struct EliasFanoBuilder {
    len: usize,
    max: u64,
    low_bits: u32,
    last: u64,
    pushed: usize,
    words: Vec<u64>,
    /// Where the group begins that the last value is in, and its values' low parts.
    at: u64,
    low: Vec<u64>,
    /// The first index of each group up to that one.
    starts: Vec<u64>,
}

impl EliasFanoBuilder {
    /// Starts a sequence of exactly `len` values, none above `max`.
    ///
    /// # Panics
    /// When `len` values do not fit the address space.
    pub fn new(len: usize, max: u64) -> Self {
        let words = total_bits(len as u64, max).div_ceil(64);
        Self {
            len,
            max,
            low_bits: low_bits(len as u64, max),
            last: 0,
            pushed: 0,
            words: vec![0; usize::try_from(words).expect("the sequence fits the address space")],
            at: 0,
            low: Vec::new(),
            starts: vec![0],
        }
    }

    /// Appends a value.
    ///
    /// # Panics
    /// When it is below the one before or above the largest allowed, or when all `len` values are there.
    pub fn push(&mut self, value: u64) {
        assert!(self.pushed < self.len, "the sequence was declared to have {} values", self.len);
        assert!(
            self.last <= value && value <= self.max,
            "{value} is not between {} and {}",
            self.last,
            self.max
        );
        let bucket = value >> self.low_bits;
        while self.starts.len() as u64 <= bucket / GROUP {
            self.end_group();
        }
        let place = self.at + bucket % GROUP + self.low.len() as u64;
        self.words[(place / 64) as usize] |= 1 << (place % 64);
        self.low.push(value & low_mask(self.low_bits));
        self.pushed += 1;
        self.last = value;
    }

    /// The finished sequence.
    ///
    /// # Panics
    /// When fewer values were pushed than declared.
    pub fn finish(mut self) -> EliasFano {
        assert_eq!(self.pushed, self.len, "all declared values must be pushed");
        let groups = groups(self.len as u64, self.max);
        while self.starts.len() as u64 <= groups {
            self.end_group();
        }
        EliasFano::from_parts(self.len, self.max, self.words, &self.starts)
    }

    /// Puts the low parts behind the high parts.
    fn end_group(&mut self) {
        let mut at = self.at + GROUP + self.low.len() as u64;
        for low in self.low.drain(..) {
            write_bits(&mut self.words, at, self.low_bits, low);
            at += u64::from(self.low_bits);
        }
        self.at = at;
        self.starts.push(self.pushed as u64);
    }
}

/// Where a group lies, and what is in it.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The index of its first value.
    first: u64,
    len: u64,
    /// Its first bit.
    at: u64,
}

impl EliasFano {
    /// Compresses a slice; its last value becomes the largest allowed.
    ///
    /// # Panics
    /// When the values descend anywhere.
    #[cfg(any(test, feature = "internals"))]
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
        let header = |found| corrupt(0, "the length of an Elias-Fano header", HEADER_BYTES, found);
        let Some((fields, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(header(bytes.len()));
        };
        let [len, max] = *words_from_le_bytes(fields) else { return Err(header(fields.len())) };
        let bits = total_bits(len, max);
        let expected = bits.div_ceil(64) * 8;
        if body.len() as u128 != expected {
            return Err(corrupt(HEADER_BYTES, "the length of an Elias-Fano sequence", expected, body.len()));
        }
        let words = words_from_le_bytes(body);
        let low_bits = low_bits(len, max);
        // From here on all bits are in `words`, so 64 bits hold their number.
        let (mut at, mut starts) = (0, vec![0]);
        for group in 0..groups(len, max) {
            let first = starts[group as usize];
            let (end, _) = zero_from(&words, at, GROUP - 1);
            let values = end + 1 - GROUP;
            if values > len - first {
                let place = HEADER_BYTES + (at / 8) as usize;
                return Err(corrupt(place, "the values of an Elias-Fano group", len - first, values));
            }
            at += end + 1 + values * u64::from(low_bits);
            starts.push(first + values);
        }
        let found = starts[starts.len() - 1];
        if found != len {
            return Err(corrupt(HEADER_BYTES, "the number of Elias-Fano values", len, found));
        }
        let behind = words.last().map_or(0, |last| last.checked_shr((bits % 64) as u32).unwrap_or(0));
        if !bits.is_multiple_of(64) && behind != 0 {
            return Err(corrupt(bytes.len() - 8, "the padding of an Elias-Fano sequence", 0, behind));
        }
        let sequence = Self::from_parts(len as usize, max, words, &starts);
        let mut last = 0;
        for (index, (bucket, low)) in sequence.parts().enumerate() {
            // A bucket above that of `max` may be shifted out of 64 bits unseen.
            let value = sequence.join(bucket, low);
            if bucket > max >> low_bits || value < last || value > max {
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
        bytes.extend_from_slice(&(self.len as u64).to_le_bytes());
        bytes.extend_from_slice(&self.max.to_le_bytes());
        append_le_bytes(&self.words, &mut bytes);
        bytes
    }

    /// Length of the byte form.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + self.words.len() * 8
    }

    /// Bytes that it holds in RAM, itself and the directory included.
    pub fn memory_bytes(&self) -> usize {
        let directory = self.directory.spans.capacity() * 8 + self.directory.offsets.memory_bytes();
        size_of::<Self>() - size_of::<PackedArray>() + directory + self.words.capacity() * 8
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The largest value that was allowed.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value at `index`.
    ///
    /// # Panics
    /// When `index` is not below the length.
    pub fn get(&self, index: usize) -> u64 {
        assert!(index < self.len, "index {index} of {} values", self.len);
        let number = self.directory.group_of(index as u64);
        let group = self.group(number);
        let within = index as u64 - group.first;
        let (mut left, mut place) = (within as u32, 0);
        let bit = loop {
            let word = read_bits(&self.words, group.at + place, 64);
            let here = word.count_ones();
            if left < here {
                break select_in_word(word, left);
            }
            left -= here;
            place += 64;
        };
        self.join(number * GROUP + place + u64::from(bit) - within, self.low(group, within))
    }

    /// How many values are below `value`: the index of the first that is not, or the length.
    #[inline]
    pub fn rank(&self, value: u64) -> usize {
        if self.is_empty() || value > self.max {
            return self.len;
        }
        let bucket = value >> self.low_bits;
        let group = self.group(bucket / GROUP);
        let (place, before) = zero_from(&self.words, group.at, bucket % GROUP);
        // How many values of the group are in buckets up to this one, and where its own begin.
        let mut end = place - bucket % GROUP;
        let mut run = u64::from(before.leading_ones());
        if run == 64 {
            run = self.run_below(group, place);
        }
        let mut start = end - run;
        let low = value & low_mask(self.low_bits);
        while start < end {
            let middle = start + (end - start) / 2;
            if self.low(group, middle) < low {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        (group.first + start) as usize
    }

    /// The first value that is not below `value`, with its index.
    #[inline]
    #[cfg(any(test, feature = "internals"))]
    pub fn successor(&self, value: u64) -> Option<(usize, u64)> {
        let index = self.rank(value);
        (index < self.len).then(|| (index, self.get(index)))
    }

    /// The indexes of the greatest value that is not above `value`, as often as it repeats; none if all are above.
    #[inline]
    pub fn last_run(&self, value: u64) -> Range<usize> {
        isa::last_run(self, value)
    }

    /// [`EliasFano::last_run`] with the instruction set's own select in a word. Nothing here overflows for a sequence that fits RAM, whose
    /// words have fewer than 2^64 bits, so nothing is checked for it.
    #[inline(always)]
    fn last_run_with(&self, value: u64, select: impl Fn(u64, u32) -> u32) -> Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let value = value.min(self.max);
        let (bits, low) = (self.low_bits, value & low_mask(self.low_bits));
        let (number, rank) = ((value >> bits) / GROUP, (value >> bits) % GROUP);
        let group = self.group(number);
        let (place, before) = zero_from_with(&self.words, group.at, rank, select);
        let end = place.wrapping_sub(rank);
        let in_bucket = before.leading_ones();
        // The low parts below `end`, the nearest one in the most significant bits. What is in front of the group's may be among them;
        // behind the last one that a word shows are zeros, which are above nothing.
        let lows_end = self.low_at(group).wrapping_add(end.wrapping_mul(u64::from(bits)));
        let mut lows = match lows_end.checked_sub(64) {
            Some(at) => read_bits(&self.words, at, 64),
            // The high parts alone have 32 bits, so it is not shifted by all 64.
            None => read_bits(&self.words, 0, 64) << (64 - lows_end),
        };
        let nearest = |lows: u64| lows >> 1 >> (63 - bits);
        // Whether the nearest one is above cannot be foretold, so nothing branches on it; that a second one is above is rare.
        let mut above = u32::from(in_bucket > 0) & u32::from(nearest(lows) > low);
        lows <<= above * bits;
        while above > 0 && above < in_bucket && nearest(lows) > low {
            above += 1;
            lows <<= bits;
        }
        // `before` has the 64 bits below `place`, the nearest one first; what is sought is its first one behind those above `value`.
        let rest = before.unbounded_shl(above);
        let zeros = rest.leading_zeros();
        let alike_max = rest.unbounded_shl(zeros).leading_ones();
        // Where none is found, or ones go on to the last of the 64 bits, more are needed.
        if above + zeros + alike_max >= 64 || above + alike_max > self.lows_a_word {
            let is_known = above < self.lows_a_word;
            return self.last_run_before(value, is_known.then_some(group.first + end - u64::from(above)));
        }
        let end = group.first.wrapping_add(end).wrapping_sub(u64::from(above));
        let (mut alike, low) = (1, nearest(lows));
        lows <<= bits;
        while (alike < alike_max) & (nearest(lows) == low) {
            alike += 1;
            lows <<= bits;
        }
        end.wrapping_sub(u64::from(alike)) as usize..end as usize
    }

    /// [`EliasFano::last_run`] where 64 bits do not show it: the value is in an earlier group, or one of many in its bucket. `end` is how
    /// many are not above it, if that is known.
    #[cold]
    fn last_run_before(&self, value: u64, end: Option<u64>) -> Range<usize> {
        let counted = || value.checked_add(1).map_or(self.len, |next| self.rank(next));
        let end = end.map_or_else(counted, |end| end as usize);
        match end.checked_sub(1) {
            Some(last) => self.rank(self.get(last))..end,
            None => 0..0,
        }
    }

    /// Has what [`EliasFano::last_run`] will read for `value` brought to the cache, where values are about evenly spread.
    #[inline]
    pub fn prefetch(&self, value: u64) {
        let number = (value.min(self.max) >> self.low_bits) / GROUP;
        if !self.is_empty() {
            self.directory.prefetch(number);
            let first = self.directory.on_line(number);
            prefetch(&self.words, (self.at(number, first) / 64) as usize);
        }
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts().map(|(bucket, low)| self.join(bucket, low))
    }

    /// Of each value, its bucket and its low part.
    fn parts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..groups(self.len as u64, self.max)).flat_map(move |number| {
            let group = self.group(number);
            let mut place = 0;
            (0..group.len).map(move |index| {
                let mut word = read_bits(&self.words, group.at + place, 64);
                while word == 0 {
                    place += 64;
                    word = read_bits(&self.words, group.at + place, 64);
                }
                place += u64::from(word.trailing_zeros()) + 1;
                (number * GROUP + place - 1 - index, self.low(group, index))
            })
        })
    }

    fn from_parts(len: usize, max: u64, words: Vec<u64>, starts: &[u64]) -> Self {
        let low_bits = low_bits(len as u64, max);
        let lows_a_word = 64u32.checked_div(low_bits).unwrap_or(64);
        Self { len, max, low_bits, lows_a_word, words, directory: Directory::new(starts) }
    }

    #[inline(always)]
    fn group(&self, number: u64) -> Group {
        let (first, end) = self.directory.bounds(number);
        Group { first, len: end.wrapping_sub(first), at: self.at(number, first) }
    }

    /// The first bit of group `number`, whose first value is the one at index `first`.
    #[inline(always)]
    fn at(&self, number: u64, first: u64) -> u64 {
        (number * GROUP).wrapping_add(first.wrapping_mul(u64::from(1 + self.low_bits)))
    }

    /// The low part of the group's value at `index` in it.
    #[inline(always)]
    fn low(&self, group: Group, index: u64) -> u64 {
        read_bits(&self.words, self.low_at(group) + index * u64::from(self.low_bits), self.low_bits)
    }

    /// The first bit of the group's low parts.
    #[inline(always)]
    fn low_at(&self, group: Group) -> u64 {
        group.at.wrapping_add(GROUP).wrapping_add(group.len)
    }

    /// How many ones there are in a row below bit `place` of the group.
    #[cold]
    fn run_below(&self, group: Group, place: u64) -> u64 {
        let mut run = 0;
        while run < place {
            let width = (place - run).min(64);
            let bits = read_bits(&self.words, group.at + place - run - width, width as u32) << (64 - width);
            run += u64::from(bits.leading_ones());
            if bits.leading_ones() < 64 {
                break;
            }
        }
        run
    }

    #[inline(always)]
    fn join(&self, bucket: u64, low: u64) -> u64 {
        bucket << self.low_bits | low
    }
}

/// The first index of each group.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Directory {
    /// Of every 64th group; behind the last of these, where the next one would be.
    spans: Vec<u64>,
    /// Of each group, and the end of the last, how far it is above the straight line between its neighbours in `spans`, plus `bias`.
    offsets: PackedArray,
    bias: u64,
}

impl Directory {
    /// Of groups that begin at these indexes, the last of which is the end of the last group.
    fn new(starts: &[u64]) -> Self {
        let mut spans: Vec<u64> = starts.iter().step_by(SPAN as usize).copied().collect();
        // The last span may be short: its line goes on as it began.
        let (first, last) = (spans[spans.len() - 1], starts[starts.len() - 1]);
        let groups = (starts.len() as u64 - 1) % SPAN;
        spans.push(first + ((last - first) * SPAN).checked_div(groups).unwrap_or(0));
        let mut directory = Self { spans, offsets: PackedArray::new(0), bias: 0 };
        let above = |(number, start): (usize, &u64)| *start as i64 - directory.on_line(number as u64) as i64;
        let least = starts.iter().enumerate().map(above).min().unwrap_or(0);
        let greatest = starts.iter().enumerate().map(above).max().unwrap_or(0);
        let width = 64 - greatest.wrapping_sub(least).leading_zeros();
        let mut offsets = PackedArray::with_capacity(width, starts.len());
        for start in starts.iter().enumerate() {
            offsets.push(above(start).wrapping_sub(least) as u64);
        }
        directory.offsets = offsets;
        directory.bias = least.wrapping_neg() as u64;
        directory
    }

    /// The straight line at group `number`.
    #[inline(always)]
    fn on_line(&self, number: u64) -> u64 {
        let span = (number / SPAN) as usize;
        let (first, next) = (self.spans[span], self.spans[span + 1]);
        first.wrapping_add(next.wrapping_sub(first).wrapping_mul(number % SPAN) / SPAN)
    }

    /// The first index of group `number`, and that of the next.
    #[inline(always)]
    fn bounds(&self, number: u64) -> (u64, u64) {
        let span = (number / SPAN) as usize;
        let [first, next] = self.spans[span..span + 2] else { return (0, 0) };
        // At the end of the span the line is at the next one's first index, as at its beginning.
        let gap = next.wrapping_sub(first);
        let risen = gap.wrapping_mul(number % SPAN);
        let (line, next_line) =
            (first.wrapping_add(risen / SPAN), first.wrapping_add(risen.wrapping_add(gap) / SPAN));
        let (offset, next_offset) = self.offsets.pair(number as usize);
        let index = |line: u64, offset: u64| line.wrapping_add(offset).wrapping_sub(self.bias);
        (index(line, offset), index(next_line, next_offset))
    }

    /// The group that the value at `index` is in; there is one.
    fn group_of(&self, index: u64) -> u64 {
        let span = self.spans.partition_point(|&first| first <= index) as u64 - 1;
        // Of groups that begin at the same index all but the last are empty.
        let (mut low, mut high) = (span * SPAN, ((span + 1) * SPAN).min(self.offsets.len() as u64 - 1));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.bounds(middle).0 <= index {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline(always)]
    fn prefetch(&self, number: u64) {
        self.offsets.prefetch(number as usize);
    }
}

fn low_bits(len: u64, max: u64) -> u32 {
    max.checked_div(len).map_or(0, |gap| gap.max(1).ilog2())
}

fn groups(len: u64, max: u64) -> u64 {
    if len == 0 { 0 } else { (max >> low_bits(len, max)) / GROUP + 1 }
}

/// Bits of all groups, below 2^71.
fn total_bits(len: u64, max: u64) -> u128 {
    u128::from(groups(len, max)) * u128::from(GROUP) + u128::from(len) * u128::from(1 + low_bits(len, max))
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
        assert_eq!(bytes[16..20], 0b10u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&0x1000u32.to_le_bytes());
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
            // Evenly spread as they are, they are at most a few from the line.
            let held = (sequence.memory_bytes() - size_of::<EliasFano>()) as f64 * 8.0;
            assert!(held <= bound + 0.35 * n as f64 + 2.0 * 63.0 + 5.0 * 64.0, "{n} values hold {held} bits");
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
