//! From a positive value to its bin and back, within a relative error.
//!
//! ```text
//!   x = 2^exponent * (1 + s)          l(x) = exponent + ((A s + B) s + C) s      a cubic stand-in for log2
//!   bin(x) = floor(l(x) * bins_per_octave)
//! ```
//!
//! 1. `l` is continuous, increases, and `dl / d ln(x) >= C = 10/7` everywhere, so a bin of width
//!    `1 / bins_per_octave = ln(gamma) * 10/7` in `l` spans at most a factor of `gamma`.
//! 2. For `gamma = (1 + alpha) / (1 - alpha)` a bin's harmonic middle is within `alpha` of all that it holds.
//! 3. Below the least normal value doubles are whole multiples of 2^-1074, and a bin's middle must be one too. There, each
//!    octave has `2^lg_parts` bins of equal width, or one for each multiple: the middle is within `alpha` again.
//! 4. Additions, multiplications and divisions of IEEE 754 only, no library logarithm: the same bins on every
//!    machine, so bytes made apart are equal and merge.
//!
//! Cost: a few nanoseconds, 1 % more bins than the logarithm has.
//!
//! Source: Masson, Rim, Lee, "DDSketch" (VLDB 2019), section 2.1 for the bins; A, B, C: the cubic that has value
//! 1 at 1, equal slopes dl/dx·x at both ends, and the largest least slope.

/// Rounding moves a value by far less than this share of `alpha`; the bins are narrower by it.
const SLACK: f64 = 1.0 / (1 << 20) as f64;
const A: f64 = 6.0 / 35.0;
const B: f64 = -3.0 / 5.0;
const C: f64 = 10.0 / 7.0;
const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const EXPONENT_BIAS: i64 = 1023;

/// The least value with all its digits; below it are the subnormals.
const NORMAL_MIN: f64 = f64::MIN_POSITIVE;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Mapping {
    bins_per_octave: f64,
    /// The bin of the least normal value.
    normal_first: i32,
    lg_parts: u32,
}

impl Mapping {
    /// For `alpha` in `1e-4..=0.5`.
    pub(crate) fn new(alpha: f64) -> Self {
        let bins_per_octave = 1.0 / (ln_gamma(alpha * (1.0 - SLACK)) * C);
        let normal_first = floor((1 - EXPONENT_BIAS) as f64 * bins_per_octave);
        // Half a bin is at most alpha of its least value.
        let lg_parts =
            (0..MANTISSA_BITS).find(|&lg| 0.5 / f64::from(1u32 << lg) <= alpha).unwrap_or(MANTISSA_BITS);
        Self { bins_per_octave, normal_first, lg_parts }
    }

    /// The bin of a finite `value > 0`.
    #[inline]
    pub(crate) fn bin(&self, value: f64) -> i32 {
        let bits = value.to_bits();
        if value < NORMAL_MIN {
            return self.normal_first - self.subnormals() + self.part_of(bits);
        }
        let exponent = (bits >> MANTISSA_BITS) as i64 - EXPONENT_BIAS;
        let s = f64::from_bits((bits & MANTISSA) | (EXPONENT_BIAS as u64) << MANTISSA_BITS) - 1.0;
        let l = exponent as f64 + cubic(s);
        floor(l * self.bins_per_octave)
    }

    /// The bins of the least and of the greatest value.
    pub(crate) fn range(&self) -> (i32, i32) {
        (self.bin(f64::from_bits(1)), self.bin(f64::MAX))
    }

    /// What the values of a bin are not below and not above, rounding included.
    pub(crate) fn edges(&self, bin: i32, alpha: f64) -> (f64, f64) {
        if let Some((low, high)) = self.multiples(bin) {
            return (f64::from_bits(low), f64::from_bits(high));
        }
        let widen = alpha * SLACK;
        let high = self.low_edge(bin.saturating_add(1)) * (1.0 + widen);
        ((self.low_edge(bin) * (1.0 - widen)).max(NORMAL_MIN), high.min(f64::MAX))
    }

    /// The value that is within `alpha` of each value of the bin.
    pub(crate) fn middle(&self, bin: i32) -> f64 {
        if let Some((low, high)) = self.multiples(bin) {
            return f64::from_bits(low + (high - low) / 2);
        }
        let (low, high) = (self.low_edge(bin), self.low_edge(bin.saturating_add(1)));
        let ratio = high / low;
        low * (2.0 * ratio / (1.0 + ratio))
    }

    /// The least value of a bin of normal values, but for rounding; clamped to what f64 holds.
    fn low_edge(&self, bin: i32) -> f64 {
        let l = f64::from(bin) / self.bins_per_octave;
        let exponent = floor(l);
        if i64::from(exponent) > EXPONENT_BIAS {
            return f64::MAX;
        }
        if i64::from(exponent) < 1 - EXPONENT_BIAS {
            return NORMAL_MIN;
        }
        let power = f64::from_bits(((i64::from(exponent) + EXPONENT_BIAS) as u64) << MANTISSA_BITS);
        (power * (1.0 + inverse_cubic(l - f64::from(exponent)))).min(f64::MAX)
    }

    /// How many bins the subnormals have, and one for no value, which is not used.
    fn subnormals(&self) -> i32 {
        self.part_of(MANTISSA) + 1
    }

    /// The number of the bin of a multiple of 2^-1074: itself, up to two octaves of parts.
    fn part_of(&self, multiple: u64) -> i32 {
        let octave = (u64::BITS - 1 - multiple.leading_zeros()).saturating_sub(self.lg_parts);
        ((u64::from(octave) << self.lg_parts) + (multiple >> octave)) as i32
    }

    /// The least and the greatest multiple of 2^-1074 of a bin of subnormals; `None` for any other bin.
    fn multiples(&self, bin: i32) -> Option<(u64, u64)> {
        let part = (bin < self.normal_first).then(|| bin - (self.normal_first - self.subnormals()))?;
        let part = u64::try_from(part).unwrap_or(0).max(1);
        let octave = (part >> self.lg_parts).saturating_sub(1);
        let low = (part - (octave << self.lg_parts)) << octave;
        Some((low, low + (1 << octave) - 1))
    }
}

#[inline]
fn cubic(s: f64) -> f64 {
    ((A * s + B) * s + C) * s
}

/// The `s` in `0..1` with `cubic(s) == y`, by Newton's method: the slope is between 0.7 and 1.5.
fn inverse_cubic(y: f64) -> f64 {
    let mut s = y;
    for _ in 0..8 {
        let slope = (3.0 * A * s + 2.0 * B) * s + C;
        s -= (cubic(s) - y) / slope;
    }
    s.clamp(0.0, 1.0)
}

/// The floor as an integer, without a call into the library.
#[inline]
fn floor(x: f64) -> i32 {
    let truncated = x as i32;
    truncated - i32::from(x < f64::from(truncated))
}

/// `ln((1 + alpha) / (1 - alpha)) = 2 (alpha + alpha^3 / 3 + alpha^5 / 5 + …)`.
fn ln_gamma(alpha: f64) -> f64 {
    let square = alpha * alpha;
    // 40 terms: at alpha = 0.5 the rest is below 0.25^40. Smallest first.
    let series = (0..40).rev().fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    2.0 * alpha * series
}
