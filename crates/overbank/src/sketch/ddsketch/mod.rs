//! DDSketch: quantiles of a stream of numbers, each within a relative error.
//!
//! ```text
//!          lower values ◀──────────────────────────────────────────────▶ higher values
//!   negative: ▒▒│ -g^3 │ -g^2 │ -g │       zero       │ g │ g^2 │ g^3 │   positive (lowest of each collapse ▒▒)
//!   a bin holds the values within a factor gamma = (1 + alpha) / (1 - alpha)
//! ```
//!
//! 1. A value that is not collapsed lies in a bin whose middle is within `alpha` of it, relatively.
//! 2. Each sign has at most `bins_max` bins; beyond that the lowest *values* of the sign share its lowest bin:
//!    among the positive those next to zero, among the negative those farthest from it. Higher quantiles stay exact.
//! 3. The state is a function of the multiset of (value, count): the same bytes in any order, by any tree of
//!    merges. That includes the sum, which is exact until it is read.
//! 4. NaN and infinities enter no quantile, minimum, maximum or sum; they are counted apart ([`DdSketch::skipped`]).
//!    Values of less than 2.2e-308 in magnitude count as zero in the quantiles.
//!
//! | operation          | CPU           | RAM                           |
//! |--------------------|---------------|-------------------------------|
//! | `update`           | O(1)          | –                             |
//! | `quantile`, `rank` | O(bins)       | –                             |
//! | `merge`            | O(bins)       | –                             |
//! | the sketch         | –             | `16 * bins_max` B + 0.7 KB, twice while growing |
//!
//! Source: Masson, Rim, Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees"
//! (VLDB 2019), sections 2 and 3.
//!
//! Deviations: the logarithm is a cubic without library calls (`mapping.rs`), for speed and equal bytes on every
//! machine; a bin's value is its harmonic middle between its true edges; the sum is a long accumulator (`exact_sum.rs`),
//! since a running double depends on the order.

mod bins;
mod exact_sum;
mod mapping;

use super::format::{self, Decoder, Encoder};
use super::hash_id::require_equal;
use crate::{Error, Result};
use bins::Bins;
use exact_sum::ExactSum;
use mapping::{Mapping, VALUE_MIN};
use std::collections::VecDeque;

const ALPHA_MIN: f64 = 1e-4;
const ALPHA_MAX: f64 = 0.5;
const BINS_MAX: usize = 1 << 24;
/// No value of any alpha has a rank beyond this.
const RANK_MAX: u32 = 1 << 24;

/// Summarises numbers for their quantiles.
///
/// ```
/// use overbank::sketch::DdSketch;
///
/// let mut latency_ms = DdSketch::new(0.01, 2048)?;
/// (1..=1000).for_each(|value| latency_ms.update(f64::from(value), 1));
/// let p99 = latency_ms.quantile(0.99).expect("it is not empty");
/// assert!((p99 - 990.0).abs() <= 0.01 * 990.0);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DdSketch {
    alpha: f64,
    bins_max: usize,
    mapping: Mapping,
    /// By rank `bin`.
    positive: Bins,
    /// By rank `-bin`, so that the lowest rank is the lowest value.
    negative: Bins,
    zeros: u64,
    skipped: u64,
    count: u64,
    min: f64,
    max: f64,
    sum: ExactSum,
}

impl DdSketch {
    /// An empty sketch of relative error `alpha` with at most `bins_max` bins for each sign.
    ///
    /// With `alpha` = 0.01, 2048 bins span 17 decades.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `1e-4 <= alpha <= 0.5` and `1 <= bins_max <= 2^24`.
    pub fn new(alpha: f64, bins_max: usize) -> Result<Self> {
        if !(ALPHA_MIN..=ALPHA_MAX).contains(&alpha) {
            let why = format!("choose a relative error from {ALPHA_MIN} to {ALPHA_MAX}");
            return Err(Error::InvalidOption { name: "alpha", value: alpha.to_string(), why });
        }
        if bins_max == 0 || bins_max > BINS_MAX {
            let why = format!("choose 1 to {BINS_MAX} bins");
            return Err(Error::InvalidOption { name: "bins_max", value: bins_max.to_string(), why });
        }
        Ok(Self {
            alpha,
            bins_max,
            mapping: Mapping::new(alpha),
            positive: Bins::default(),
            negative: Bins::default(),
            zeros: 0,
            skipped: 0,
            count: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: ExactSum::default(),
        })
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
        if !value.is_finite() {
            self.skipped = self.skipped.saturating_add(count);
            return;
        }
        if value >= VALUE_MIN {
            self.positive.add(self.mapping.bin(value), count, self.bins_max);
        } else if value <= -VALUE_MIN {
            self.negative.add(-self.mapping.bin(-value), count, self.bins_max);
        } else {
            self.zeros = self.zeros.saturating_add(count);
        }
        self.count = self.count.saturating_add(count);
        // Adding zero makes -0.0 and 0.0 the same, as the order would else decide.
        self.min = self.min.min(value + 0.0);
        self.max = self.max.max(value + 0.0);
        self.sum.add(value, count);
    }

    /// The value of rank `floor(q * (count - 1))`, counted from 0 in ascending order; `None` if empty.
    ///
    /// # Accuracy
    /// Within `alpha` of it, relatively, unless it is [`collapsed`](Self::collapsed_at). Exact at 0 and 1.
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

    /// Whether the quantile fell among values whose bins were collapsed, so that `alpha` does not hold for it.
    ///
    /// # Panics
    /// Unless `0 <= q <= 1`.
    pub fn collapsed_at(&self, q: f64) -> bool {
        self.bin_of_quantile(q).is_some_and(|bin| self.is_collapsed(bin))
    }

    /// How many values are at most `value`: not fewer than the first number, not more than the second.
    ///
    /// They differ by the count of the bin that `value` falls into.
    pub fn rank(&self, value: f64) -> (u64, u64) {
        if value >= self.max {
            return (self.count, self.count);
        }
        if value < self.min || value.is_nan() {
            return (0, 0);
        }
        let own = self.bin_of(value);
        let (mut below, mut within) = (0u64, 0u64);
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
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many values were NaN or infinite.
    pub fn skipped(&self) -> u64 {
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

    /// The exact sum of all values, rounded once to a double.
    pub fn sum(&self) -> f64 {
        self.sum.value()
    }

    /// Takes in the values of another sketch: the result is that of one sketch that saw both.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where `alpha` or `bins_max` differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        require_equal("alpha", self.alpha, other.alpha)?;
        require_equal("bins_max", self.bins_max, other.bins_max)?;
        self.positive.merge(&other.positive, self.bins_max);
        self.negative.merge(&other.negative, self.bins_max);
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum.merge(&other.sum);
        Ok(())
    }

    /// The sketch as bytes: header, alpha f64, bins_max u32, zero u32, zeros u64, skipped u64, count u64, min f64, max
    /// f64, sum (70 digits of i64); then positive and negative bins, each: lowest rank i32, length u32,
    /// collapsed u32 (0 or 1), counts u64.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bins = self.positive.span().1.len() + self.negative.span().1.len();
        let mut encoder =
            Encoder::new(format::DDSKETCH, None, 80 + exact_sum::BYTES + bins * size_of::<u64>());
        encoder.f64(self.alpha);
        encoder.u32(self.bins_max as u32);
        encoder.u32(0);
        encoder.u64(self.zeros);
        encoder.u64(self.skipped);
        encoder.u64(self.count);
        encoder.f64(self.min);
        encoder.f64(self.max);
        self.sum.to_digits().into_iter().for_each(|digit| encoder.u64(digit as u64));
        for bins in [&self.positive, &self.negative] {
            let (lowest, counts) = bins.span();
            encoder.u32(lowest as u32);
            encoder.u32(counts.len() as u32);
            encoder.u32(bins.has_collapsed().into());
            counts.iter().for_each(|&count| encoder.u64(count));
        }
        encoder.seal()
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, format::DDSKETCH)?;
        decoder.require_no_hash()?;
        let (alpha, bins_max) = (decoder.f64()?, decoder.u32()? as usize);
        decoder.zeros(4)?;
        let sketch = Self::new(alpha, bins_max);
        let mut sketch = sketch.map_err(|why| decoder.impossible("the shape", "a valid one", why))?;
        sketch.zeros = decoder.u64()?;
        sketch.skipped = decoder.u64()?;
        sketch.count = decoder.u64()?;
        sketch.min = decoder.f64()?;
        sketch.max = decoder.f64()?;
        let mut digits = sketch.sum.to_digits();
        for digit in &mut digits {
            *digit = decoder.u64()? as i64;
        }
        let sum = ExactSum::from_digits(digits);
        sketch.sum = sum.ok_or_else(|| decoder.impossible("the sum", "carried digits", "others"))?;
        sketch.positive = read_bins(&mut decoder, bins_max)?;
        sketch.negative = read_bins(&mut decoder, bins_max)?;
        decoder.require_left(Some(0))?;

        let total = sketch.iter().fold(0u64, |total, (_, count)| total.saturating_add(count));
        if total != sketch.count {
            return Err(decoder.impossible("the count", total, sketch.count));
        }
        let (min, max) = (sketch.min, sketch.max);
        let range_fits = match total {
            0 => min == f64::INFINITY && max == f64::NEG_INFINITY,
            _ => min <= max && min.is_finite() && max.is_finite(),
        };
        if !range_fits {
            return Err(decoder.impossible(
                "the range",
                "a finite minimum up to a maximum",
                format!("{min} to {max}"),
            ));
        }
        Ok(sketch)
    }

    /// The relative error.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The most bins of each sign.
    pub fn bins_max(&self) -> usize {
        self.bins_max
    }

    /// How much memory the sketch holds now.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.positive.memory_bytes() + self.negative.memory_bytes()
    }

    /// All bins in use, lowest values first.
    fn iter(&self) -> impl Iterator<Item = (Bin, u64)> + '_ {
        let negative = self.negative.iter().map(|(rank, count)| (Bin::Negative(rank), count));
        let zero = (self.zeros > 0).then_some((Bin::Zero, self.zeros));
        let positive = self.positive.iter().map(|(rank, count)| (Bin::Positive(rank), count));
        negative.chain(zero).chain(positive)
    }

    fn bin_of_quantile(&self, q: f64) -> Option<Bin> {
        assert!((0.0..=1.0).contains(&q), "a quantile is from 0 to 1, not {q}");
        let rank = (q * self.count.checked_sub(1)? as f64) as u64;
        let mut seen = 0u64;
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

    /// The bin that holds `value`, or that it collapsed into.
    fn bin_of(&self, value: f64) -> Bin {
        if value >= VALUE_MIN {
            Bin::Positive(self.positive.place_of(self.mapping.bin(value)))
        } else if value <= -VALUE_MIN {
            Bin::Negative(self.negative.place_of(-self.mapping.bin(-value)))
        } else {
            Bin::Zero
        }
    }

    fn is_collapsed(&self, bin: Bin) -> bool {
        match bin {
            Bin::Negative(rank) => self.negative.is_collapsed(rank),
            Bin::Zero => false,
            Bin::Positive(rank) => self.positive.is_collapsed(rank),
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
        let (low, high) = match bin {
            Bin::Negative(rank) => {
                let (near, far) = self.mapping.edges(-rank, self.alpha);
                (-far, -near)
            }
            Bin::Zero => (-VALUE_MIN, VALUE_MIN),
            Bin::Positive(rank) => self.mapping.edges(rank, self.alpha),
        };
        match bin {
            Bin::Negative(_) if self.is_collapsed(bin) => (self.min, high),
            Bin::Positive(_) if self.is_collapsed(bin) => (0.0, high),
            _ => (low, high),
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

fn read_bins(decoder: &mut Decoder<'_>, bins_max: usize) -> Result<Bins> {
    let (lowest, len) = (decoder.u32()? as i32, decoder.u32()? as usize);
    let collapsed = decoder.u32()?;
    let fits = len.checked_mul(size_of::<u64>()).is_some_and(|bytes| bytes <= decoder.left());
    if len > bins_max || !fits || lowest.unsigned_abs() > RANK_MAX || collapsed > 1 {
        let found = format!("{len} from rank {lowest}, collapsed {collapsed}");
        return Err(decoder.impossible(
            "the number of bins",
            format!("at most {bins_max}, all there"),
            found,
        ));
    }
    let counts = (0..len).map(|_| decoder.u64()).collect::<Result<VecDeque<u64>>>()?;
    if counts.front() == Some(&0) || counts.back() == Some(&0) {
        return Err(decoder.impossible("the first and the last bin", "counts above 0", 0));
    }
    Ok(Bins::from_span(lowest, counts, collapsed == 1))
}

#[cfg(test)]
mod tests;
