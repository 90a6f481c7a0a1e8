//! Quantiles of a value, such as the length of packets or a latency: a DDSketch on the framework.
//!
//! ```text
//!   │ zero │ skipped │ bins of positive values, all of them │ bins of negative values, all of them │
//! ```
//!
//! Every bin that a finite value can fall into has its counter from the beginning: at 1 % that is 105,000 a sign, a byte each for a
//! worker. So no bin is ever collapsed or moved while others read it. Who knows between which values all lie asks for these bins alone:
//! those from 1 to 2^32 are 1,120 at 1 %.

use super::message::CELLS_MAX;
use super::monitored::Monitored;
use super::reader::Reader;
use super::rule::Sum;
use crate::Result;
use crate::error::invalid;
use crate::sketch::DdSketch;
use crate::sketch::ddsketch::mapping::Mapping;

const ZERO: usize = 0;
const SKIPPED: usize = 1;
const FIRST_BIN: usize = 2;

/// A DDSketch whose quantiles are within a share `alpha` of the true value.
#[derive(Clone, Copy, Debug)]
pub struct Quantiles {
    alpha: f64,
    mapping: Mapping,
    lowest: i32,
    /// Bins of one sign.
    bins: usize,
    has_negative: bool,
}

/// A value and how often it came.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    /// The value. NaN and infinities are counted apart.
    pub value: f64,
    /// How often.
    pub count: u64,
}

impl Quantiles {
    /// Quantiles within a share `alpha` of the true value.
    ///
    /// # Errors
    /// Those of [`DdSketch::new`], or [`Error::InvalidOption`](crate::Error::InvalidOption) below some 0.0002: the bins of all values are
    /// then more than messages can name.
    pub fn new(alpha: f64) -> Result<Self> {
        DdSketch::new(alpha)?;
        let mapping = Mapping::new(alpha);
        let (lowest, highest) = mapping.range();
        let bins = (i64::from(highest) - i64::from(lowest) + 1) as usize;
        if FIRST_BIN + 2 * bins > CELLS_MAX / 2 {
            return invalid("alpha", alpha, format!("it needs {bins} bins a sign; choose a larger share"));
        }
        Ok(Self { alpha, mapping, lowest, bins, has_negative: true })
    }

    /// Quantiles of values from `least` to `greatest`, both above 0, and of zeros: with bins for these alone. What lies beyond their bins
    /// is counted apart, as NaN is.
    ///
    /// # Errors
    /// Those of [`DdSketch::new`], or [`Error::InvalidOption`](crate::Error::InvalidOption) unless `0 < least <= greatest` and
    /// both are finite.
    pub fn within(alpha: f64, least: f64, greatest: f64) -> Result<Self> {
        DdSketch::new(alpha)?;
        if !(least > 0.0 && least <= greatest && greatest.is_finite()) {
            let why = "choose two finite values above 0, the lesser one first";
            return invalid("range", format!("{least} to {greatest}"), why);
        }
        let mapping = Mapping::new(alpha);
        let (lowest, highest) = (mapping.bin(least), mapping.bin(greatest));
        let bins = (i64::from(highest) - i64::from(lowest) + 1) as usize;
        // At most 7.3 million, at the least alpha, which messages can name.
        Ok(Self { alpha, mapping, lowest, bins, has_negative: false })
    }

    #[inline]
    fn cell(&self, value: f64) -> usize {
        if value == 0.0 {
            return ZERO;
        }
        if !value.is_finite() || value < 0.0 && !self.has_negative {
            return SKIPPED;
        }
        let bin = i64::from(self.mapping.bin(value.abs())) - i64::from(self.lowest);
        match usize::try_from(bin) {
            Ok(bin) if bin < self.bins => FIRST_BIN + bin + if value < 0.0 { self.bins } else { 0 },
            _ => SKIPPED,
        }
    }
}

impl Monitored for Quantiles {
    type Element = Reading;
    type Key = ();
    type Rule = Sum;
    const SHOWS_KEYS: bool = false;

    fn cells(&self) -> usize {
        FIRST_BIN + self.bins * if self.has_negative { 2 } else { 1 }
    }

    #[inline]
    fn weight(&self, value: Reading) -> u64 {
        value.count
    }

    #[inline(always)]
    fn visit(&self, value: Reading, mut change: impl FnMut(usize, u64)) {
        change(self.cell(value.value), value.count);
    }

    #[inline(always)]
    fn key(&self, _: Reading) {}
}

impl Reader<Quantiles> {
    /// The values of the epochs `first..=last` as a sketch, to be asked, merged or stored; `None` where one of the epochs is not kept any
    /// more, or has not begun.
    ///
    /// # Accuracy
    /// Each count is the true one at a moment of the call, and quantiles are within `alpha` of the true ones. Values are known by their
    /// bins: minimum, maximum and sum are those of the bins' middles, so within `alpha` too; who knows the first two says so by
    /// [`DdSketch::with_ends`].
    ///
    /// # Cost
    /// A byte a bin and worker: some 0.2 MB each at 1 % for values of any size.
    pub fn values(&self, first: u64, last: u64) -> Option<DdSketch> {
        let shape = self.sketch();
        let counts = self.read_all(first, last)?;
        let mut sketch = DdSketch::new(shape.alpha).ok()?;
        sketch.update(0.0, counts[ZERO]);
        sketch.update(f64::NAN, counts[SKIPPED]);
        let (positive, negative) = counts[FIRST_BIN..].split_at(shape.bins);
        for (sign, counts) in [(1.0, positive), (-1.0, negative)] {
            for (bin, &count) in (shape.lowest..).zip(counts).filter(|bin| *bin.1 > 0) {
                sketch.update(sign * shape.mapping.middle(bin), count);
            }
        }
        Some(sketch)
    }
}
