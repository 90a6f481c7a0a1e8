//! What a profile says: plain numbers with their bounds, for a face to print.

use keyhash::KeyHash;

/// The whole picture of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileReport {
    /// Rows counted.
    pub rows: u64,
    /// Malformed rows skipped.
    pub skipped: u64,
    /// Decompressed bytes of input read.
    pub bytes: u64,
    /// The sum of all weights; the number of rows where none were given.
    pub weight: u128,
    /// Distinct keys.
    pub distinct: DistinctCount,
    /// The heaviest keys, heaviest first.
    pub heavy: Vec<HeavyHitter>,
    /// Every key heavier than this is among the candidates that `heavy` is taken from; `u64::MAX` says that no such weight is
    /// known.
    pub heavy_threshold: u64,
    /// Quantiles of what was measured.
    pub values: Distribution,
}

impl ProfileReport {
    /// The share of rows whose key had come before, between 0 and 1: one less the distinct keys a row.
    pub fn repeat_share(&self) -> f64 {
        repeat_share(self.rows, self.distinct.estimate)
    }

    /// The least and the greatest share of repeats that the bounds of the distinct keys allow.
    pub fn repeat_share_bounds(&self) -> (f64, f64) {
        (repeat_share(self.rows, self.distinct.upper), repeat_share(self.rows, self.distinct.lower))
    }
}

fn repeat_share(rows: u64, distinct: f64) -> f64 {
    if rows == 0 { 0.0 } else { (1.0 - distinct / rows as f64).clamp(0.0, 1.0) }
}

/// How many distinct keys there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistinctCount {
    /// The estimate.
    pub estimate: f64,
    /// Two standard errors below: the truth is below this for about 1 stream in 40.
    pub lower: f64,
    /// Two standard errors above: the truth is above this for about 1 stream in 40.
    pub upper: f64,
    /// The relative standard error of the estimate.
    pub relative_error: f64,
    /// Whether every key was kept, so that the estimate is the count and the bounds are no others.
    pub exact: bool,
}

/// How often one key came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The weight is not below this, with probability `lower_confidence`.
    pub lower: u64,
    /// The estimated weight; `u64::MAX` where it is that or more.
    pub estimate: u64,
    /// The weight is not above this, which is certain; `u64::MAX` says that no bound is known.
    pub upper: u64,
    /// 1 where the lower bound is certain: for a key among the heavy ones, and for a bound of 0. Else it is taken from a
    /// count-min sketch, and fails for at most this share's rest of keys.
    pub lower_confidence: f64,
}

impl Estimate {
    /// Whether a counter of this key is full, so that no upper bound is known.
    pub fn saturated(&self) -> bool {
        self.upper == u64::MAX
    }
}

/// One heavy key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeavyHitter {
    /// Its hash.
    pub hash: KeyHash,
    /// Its bytes, cut if it is longer than the profile keeps.
    pub key: Vec<u8>,
    /// Whether `key` was cut.
    pub truncated: bool,
    /// Its weight is not below this.
    pub lower: u64,
    /// Its estimated weight.
    pub estimate: u64,
    /// Its weight is not above this; `u64::MAX` says that no bound is known.
    pub upper: u64,
}

impl HeavyHitter {
    /// Whether a counter of this key is full, so that no upper bound is known.
    pub fn saturated(&self) -> bool {
        self.upper == u64::MAX
    }
}

/// What the quantiles are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Measure {
    /// The lengths of the keys in bytes.
    #[default]
    KeyLength,
    /// The value field.
    Value,
}

impl Measure {
    /// What errors call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::KeyLength => "key lengths",
            Measure::Value => "values",
        }
    }
}

/// The distribution of the measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// What was measured.
    pub measure: Measure,
    /// How many numbers.
    pub count: u64,
    /// The least and the greatest, exact; `None` for an empty stream.
    pub range: Option<(f64, f64)>,
    /// The mean; `None` for an empty stream.
    pub mean: Option<f64>,
    /// Pairs of (rank from 0 to 1, number); each number is within `relative_error` of the true quantile.
    pub quantiles: Vec<(f64, f64)>,
    /// The guaranteed relative error of the quantiles.
    pub relative_error: f64,
}
