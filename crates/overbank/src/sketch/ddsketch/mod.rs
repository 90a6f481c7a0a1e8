//! DDSketch: quantiles of a stream of numbers, each within a relative error.
//!
//! ```text
//!          lower values ◀──────────────────────────────────────────────▶ higher values
//!   negative: … │ -g^3 │ -g^2 │ -g │ … │        0        │ … │ g │ g^2 │ g^3 │ …   positive
//!   a bin holds the values within a factor gamma = (1 + alpha) / (1 - alpha)
//! ```
//!
//! 1. A value lies in a bin whose middle is within `alpha` of it, relatively: every finite value, from 5e-324 to 1.8e308 on
//!    either side of zero. Bins are made where values are, and none is ever given up.
//! 2. Counts are exact: no stream has 2^128 values.
//! 3. The state is a function of the multiset of (value, count): the same bytes in any order, by any tree of
//!    merges. That includes the sum, which is exact until it is read.
//! 4. NaN and infinities enter no quantile, minimum, maximum or sum; they are counted apart ([`DdSketch::skipped`]).
//!
//! | operation          | CPU           | RAM                           |
//! |--------------------|---------------|-------------------------------|
//! | `update`           | O(1)          | –                             |
//! | `quantile`, `rank` | O(bins)       | –                             |
//! | `merge`            | O(bins)       | –                             |
//! | the sketch         | –             | 4 to 256 B a bin in use + 0.7 KB; at most [`DdSketch::memory_bytes_max`] |
//!
//! Source: Masson, Rim, Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees"
//! (VLDB 2019), sections 2 and 3.
//!
//! Deviations: the logarithm is a cubic without library calls (`mapping.rs`), for speed and equal bytes on every
//! machine; a bin's value is its harmonic middle between its true edges; the sum is a long accumulator (`exact_sum.rs`),
//! since a running double depends on the order. The paper bounds the number of bins and lets the lowest collapse, which
//! makes quantiles wrong without bound; at 1 % the bins of all doubles take less than a MiB, so nothing collapses here.

mod bins;
mod exact_sum;
pub(crate) mod mapping;

use super::format::{self, Decoder, Encoder, HEADER_BYTES, corrupt};
use super::hash_id::require_equal;
use super::stream::{self, Reader};
use crate::{Error, Result};
use bins::Bins;
use exact_sum::ExactSum;
use mapping::Mapping;

const ALPHA_MIN: f64 = 1e-4;
const ALPHA_MAX: f64 = 0.5;
/// What is before the bins in the payload.
const HEAD_BYTES: usize =
    3 * size_of::<f64>() + 3 * size_of::<u128>() + exact_sum::BYTES + 2 * size_of::<u32>();
/// A bin in the payload.
const BIN_BYTES: usize = size_of::<i32>() + size_of::<u128>();
/// Bins that are written or read at a time.
const PIECE_BINS: usize = 4096;
const _: () = assert!(HEAD_BYTES == 640 && BIN_BYTES == 20);

/// Summarises numbers for their quantiles.
///
/// ```
/// use overbank::sketch::DdSketch;
///
/// let mut latency_ms = DdSketch::new(0.01)?;
/// (1..=1000).for_each(|value| latency_ms.update(f64::from(value), 1));
/// let p99 = latency_ms.quantile(0.99).expect("it is not empty");
/// assert!((p99 - 990.0).abs() <= 0.01 * 990.0);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DdSketch {
    alpha: f64,
    mapping: Mapping,
    /// By rank `bin`.
    positive: Bins,
    /// By rank `-bin`, so that the lowest rank is the lowest value.
    negative: Bins,
    zeros: u128,
    skipped: u128,
    count: u128,
    min: f64,
    max: f64,
    sum: ExactSum,
}

impl DdSketch {
    /// An empty sketch of relative error `alpha`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `1e-4 <= alpha <= 0.5`.
    pub fn new(alpha: f64) -> Result<Self> {
        if !(ALPHA_MIN..=ALPHA_MAX).contains(&alpha) {
            let why = format!("choose a relative error from {ALPHA_MIN} to {ALPHA_MAX}");
            return Err(Error::InvalidOption { name: "alpha", value: alpha.to_string(), why });
        }
        Ok(Self::empty(alpha, Mapping::new(alpha)))
    }

    fn empty(alpha: f64, mapping: Mapping) -> Self {
        Self {
            alpha,
            mapping,
            positive: Bins::default(),
            negative: Bins::default(),
            zeros: 0,
            skipped: 0,
            count: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: ExactSum::default(),
        }
    }

    /// The most memory that a sketch of relative error `alpha` takes, with values in every bin; more only where 64
    /// neighbouring bins hold 2^32 values. With `alpha` = 0.01, 0.7 MB.
    ///
    /// # Errors
    /// As [`DdSketch::new`].
    pub fn memory_bytes_max(alpha: f64) -> Result<usize> {
        let (lowest, highest) = Self::new(alpha)?.mapping.range();
        let bins = Bins::memory_bytes_max(lowest, highest) + Bins::memory_bytes_max(-highest, -lowest);
        Ok(size_of::<Self>() + bins)
    }

    /// Takes `count` values of `value` in. NaN and infinities are only counted, in [`skipped`](Self::skipped).
    ///
    /// # Cost
    /// O(1); O(bins) where the value is lower or higher than all before.
    #[inline]
    pub fn update(&mut self, value: f64, count: u64) {
        if count == 0 {
            return;
        }
        let counted = u128::from(count);
        if !value.is_finite() {
            self.skipped = self.skipped.saturating_add(counted);
            return;
        }
        if value > 0.0 {
            self.positive.add(self.mapping.bin(value), counted);
        } else if value < 0.0 {
            self.negative.add(-self.mapping.bin(-value), counted);
        } else {
            self.zeros = self.zeros.saturating_add(counted);
        }
        self.count = self.count.saturating_add(counted);
        // Adding zero makes -0.0 and 0.0 the same, as the order would else decide.
        self.min = self.min.min(value + 0.0);
        self.max = self.max.max(value + 0.0);
        self.sum.add(value, count);
    }

    /// The value of rank `floor(q * (count - 1))`, counted from 0 in ascending order; `None` if empty. The product is that
    /// of doubles.
    ///
    /// # Accuracy
    /// Within `alpha` of it, relatively. Exact at 0 and 1.
    ///
    /// # Panics
    /// Unless `0 <= q <= 1`.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let bin = self.bin_of_quantile(q)?;
        let value = if q == 0.0 {
            self.min
        } else if q == 1.0 {
            self.max
        } else {
            self.middle(bin)
        };
        Some(value.clamp(self.min, self.max))
    }

    /// A value that the true quantile is not below.
    ///
    /// # Panics
    /// Unless `0 <= q <= 1`.
    pub fn lower_bound(&self, q: f64) -> Option<f64> {
        let bin = self.bin_of_quantile(q)?;
        Some(self.edges(bin).0.clamp(self.min, self.max))
    }

    /// A value that the true quantile is not above.
    ///
    /// # Panics
    /// Unless `0 <= q <= 1`.
    pub fn upper_bound(&self, q: f64) -> Option<f64> {
        let bin = self.bin_of_quantile(q)?;
        Some(self.edges(bin).1.clamp(self.min, self.max))
    }

    /// How many values are at most `value`: not fewer than the first number, not more than the second.
    ///
    /// They differ by the count of the bin that `value` falls into.
    pub fn rank(&self, value: f64) -> (u128, u128) {
        if value >= self.max {
            return (self.count, self.count);
        }
        if value < self.min || value.is_nan() {
            return (0, 0);
        }
        let own = self.bin_of(value);
        let (mut below, mut within) = (0u128, 0u128);
        for (bin, count) in self.iter() {
            if bin < own {
                below = below.saturating_add(count);
            } else if bin == own {
                within = count;
            }
        }
        (below, below.saturating_add(within))
    }

    /// How many values there are, without the skipped ones.
    pub fn count(&self) -> u128 {
        self.count
    }

    /// How many values were NaN or infinite.
    pub fn skipped(&self) -> u128 {
        self.skipped
    }

    /// The least value; `None` if empty.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The greatest value; `None` if empty.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// With these for the least and the greatest value, where they are known better than by the values that were taken in, such as the
    /// middles of bins: each where it lies in the bin of the value whose place it takes.
    pub fn with_ends(self, least: f64, greatest: f64) -> Self {
        let known = |value: f64, end: f64| {
            let is_it = value.is_finite() && self.count > 0 && self.bin_of(value) == self.bin_of(end);
            if is_it { value + 0.0 } else { end }
        };
        let (min, max) = (known(least, self.min), known(greatest, self.max));
        if min <= max { Self { min, max, ..self } } else { self }
    }

    /// The exact sum of all values, rounded once to a double; infinite where no double is as large.
    pub fn sum(&self) -> f64 {
        self.sum.value()
    }

    /// The exact mean of all values, rounded once to a double, which is finite; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.mean(self.count))
    }

    /// Takes in the values of another sketch: the result is that of one sketch that saw both.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where `alpha` differs; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        require_equal("alpha", self.alpha, other.alpha)?;
        self.positive.merge(&other.positive);
        self.negative.merge(&other.negative);
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum.merge(&other.sum);
        Ok(())
    }

    /// Forgets everything, memory included.
    pub fn clear(&mut self) {
        *self = Self::empty(self.alpha, self.mapping);
    }

    /// The sketch as bytes: header, alpha f64, min f64, max f64, zeros u128, skipped u128, count u128, sum (70 digits of
    /// i64), positive bins u32, negative bins u32; then the bins, positive ones first, each in ascending order: rank i32,
    /// count u128.
    pub fn to_bytes(&self) -> Vec<u8> {
        stream::collect(self.encoded_bytes(), |sink| self.write_to(sink))
    }

    /// How many bytes [`to_bytes`](Self::to_bytes) has.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + HEAD_BYTES + (self.positive.iter().count() + self.negative.iter().count()) * BIN_BYTES
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) piece by piece, without a second copy of the sketch.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn write_to(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (positive, negative) = (self.positive.iter().count(), self.negative.iter().count());
        let pieces = 1 + (positive + negative).div_ceil(PIECE_BINS);
        let put = |piece: usize, encoder: &mut Encoder| match piece.checked_sub(1) {
            None => {
                [self.alpha, self.min, self.max].into_iter().for_each(|value| encoder.f64(value));
                [self.zeros, self.skipped, self.count].into_iter().for_each(|count| encoder.u128(count));
                self.sum.to_digits().into_iter().for_each(|digit| encoder.u64(digit as u64));
                [positive, negative].into_iter().for_each(|bins| encoder.u32(bins as u32));
            }
            Some(piece) => {
                let bins = self.positive.iter().chain(self.negative.iter());
                for (rank, count) in bins.skip(piece * PIECE_BINS).take(PIECE_BINS) {
                    encoder.u32(rank as u32);
                    encoder.u128(count);
                }
            }
        };
        stream::write(format::DDSKETCH, None, pieces, &put, sink)
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Decoder::open(bytes, format::DDSKETCH)?;
        Self::read_from(bytes.len(), &mut stream::source_of(bytes))
    }

    /// The sketch back from `total_bytes` bytes that `source` gives in order, without a second copy of it.
    ///
    /// # Errors
    /// Those of `source`, and those of [`from_bytes`](Self::from_bytes). The checksum is compared last, so damaged bytes may
    /// be another error than a wrong one.
    pub fn read_from(total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Self> {
        let mut reader = Reader::open(total_bytes, source, format::DDSKETCH)?;
        let bins_bytes = reader.left().saturating_sub(HEAD_BYTES);
        let mut head = reader.piece(HEAD_BYTES)?;
        head.require_no_hash()?;
        let sketch = Self::new(head.f64()?);
        let mut sketch = sketch.map_err(|why| head.corrupt("the shape", "a valid one", why))?;
        (sketch.min, sketch.max) = (head.f64()?, head.f64()?);
        (sketch.zeros, sketch.skipped, sketch.count) = (head.u128()?, head.u128()?, head.u128()?);
        let mut digits = sketch.sum.to_digits();
        for digit in &mut digits {
            *digit = head.u64()? as i64;
        }
        let sum = ExactSum::from_digits(digits);
        sketch.sum = sum.ok_or_else(|| head.corrupt("the sum", "carried digits", "others"))?;
        let (positive, negative) = (head.u32()? as usize, head.u32()? as usize);
        if (positive + negative).checked_mul(BIN_BYTES) != Some(bins_bytes) {
            let found = format!("{positive} and {negative}");
            return Err(head.corrupt("the number of bins", format!("{bins_bytes} bytes of them"), found));
        }
        let (lowest, highest) = sketch.mapping.range();
        sketch.positive = read_bins(&mut reader, positive, (lowest, highest))?;
        sketch.negative = read_bins(&mut reader, negative, (-highest, -lowest))?;
        reader.finish()?;
        sketch.validate()?;
        Ok(sketch)
    }

    /// What the numbers before the bins must be by the bins.
    fn validate(&self) -> Result<()> {
        let total = self.iter().try_fold(0u128, |total, (_, count)| total.checked_add(count));
        if total != Some(self.count) {
            return Err(corrupt(HEADER_BYTES, "the count", format!("{total:?}"), self.count));
        }
        let (min, max) = (self.min, self.max);
        let range_fits = match self.count {
            0 => min == f64::INFINITY && max == f64::NEG_INFINITY,
            _ => min <= max && min.is_finite() && max.is_finite(),
        };
        if range_fits {
            return Ok(());
        }
        let found = format!("{min} to {max}");
        Err(corrupt(HEADER_BYTES, "the range", "a finite minimum up to a maximum", found))
    }

    /// The relative error.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// How much memory the sketch holds now.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.positive.memory_bytes() + self.negative.memory_bytes()
    }

    /// All bins in use, lowest values first.
    fn iter(&self) -> impl Iterator<Item = (Bin, u128)> + '_ {
        let negative = self.negative.iter().map(|(rank, count)| (Bin::Negative(rank), count));
        let zero = (self.zeros > 0).then_some((Bin::Zero, self.zeros));
        let positive = self.positive.iter().map(|(rank, count)| (Bin::Positive(rank), count));
        negative.chain(zero).chain(positive)
    }

    fn bin_of_quantile(&self, q: f64) -> Option<Bin> {
        assert!((0.0..=1.0).contains(&q), "a quantile is from 0 to 1, not {q}");
        let rank = (q * self.count.checked_sub(1)? as f64) as u128;
        let mut seen = 0u128;
        let mut last = None;
        for (bin, count) in self.iter() {
            seen = seen.saturating_add(count);
            last = Some(bin);
            if seen > rank {
                break;
            }
        }
        last
    }

    fn bin_of(&self, value: f64) -> Bin {
        if value > 0.0 {
            Bin::Positive(self.mapping.bin(value))
        } else if value < 0.0 {
            Bin::Negative(-self.mapping.bin(-value))
        } else {
            Bin::Zero
        }
    }

    fn middle(&self, bin: Bin) -> f64 {
        match bin {
            Bin::Negative(rank) => -self.mapping.middle(-rank),
            Bin::Zero => 0.0,
            Bin::Positive(rank) => self.mapping.middle(rank),
        }
    }

    /// Between which values those of the bin lie.
    fn edges(&self, bin: Bin) -> (f64, f64) {
        match bin {
            Bin::Negative(rank) => {
                let (near, far) = self.mapping.edges(-rank, self.alpha);
                (-far, -near)
            }
            Bin::Zero => (0.0, 0.0),
            Bin::Positive(rank) => self.mapping.edges(rank, self.alpha),
        }
    }
}

/// Where a value is counted. Orders as the values do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Bin {
    Negative(i32),
    Zero,
    Positive(i32),
}

/// Bins of ascending ranks inside a range.
fn read_bins(reader: &mut Reader<'_>, mut left: usize, (lowest, highest): (i32, i32)) -> Result<Bins> {
    let mut bins = Bins::default();
    let mut least = lowest;
    while left > 0 {
        let here = left.min(PIECE_BINS);
        let mut piece = reader.piece(here * BIN_BYTES)?;
        for _ in 0..here {
            let (rank, count) = (piece.u32()? as i32, piece.u128()?);
            if !(least..=highest).contains(&rank) || count == 0 {
                let expected = format!("a count above 0 from rank {least} to {highest}");
                return Err(piece.corrupt("a bin", expected, format!("{count} of rank {rank}")));
            }
            bins.add(rank, count);
            least = rank + 1;
        }
        left -= here;
    }
    Ok(bins)
}

#[cfg(test)]
mod tests;
