//! LogLog: how many distinct keys, within about `1.30 / sqrt(m)` of the truth, or `1.05 / sqrt(m)` of the lesser registers.
//!
//! ```text
//!   registers as HyperLogLog has them:  the largest rank of the keys of each of m = 2^lg_m ranges of the hash
//!   estimate             alpha * m * 2^(mean of the ranks)
//!   truncated_estimate   the same of the 70 % of the registers that are least
//! ```
//!
//! 1. The state depends on the set of keys only: not on order, repeats, or how it was merged.
//! 2. It is that of a [`HyperLogLog`] of the same keys, which estimates better from it.
//!
//! | operation            | CPU           | RAM     |
//! |----------------------|---------------|---------|
//! | `update`             | O(1), one byte | –      |
//! | estimates, `merge`   | O(m)          | –       |
//! | the sketch           | –             | m bytes |
//!
//! Source: Durand, Flajolet, "Loglog counting of large cardinalities" (ESA 2003): Theorem 1 for the estimate, section 5 for the
//! truncation rule (SuperLogLog).
//!
//! Deviations: the paper's estimates hold for many keys a register; an empty sketch would be one of 0.4 m keys. While more than
//! `e^-3` of the registers are empty, that share is what estimates here ("linear counting": Whang, Vander-Zanden, Taylor, 1990). At
//! three keys a register, the two err alike: by 1.3 / sqrt(m). A register has the whole of a 64-bit word for its rank where the paper's has
//! 5 bits, so its restriction rule has no work to do.

use super::format;
use super::hash_id::HashId;
use super::hyperloglog::{HyperLogLog, histogram};
use crate::{KeyHash, Result};

/// The share of the registers that the truncation rule keeps: the paper's.
const KEPT: f64 = 0.7;
/// What makes the truncated estimate right: keys a register over `2^(mean of the least 70 %)`, for ranks whose distribution is
/// `P(rank <= k) = exp(-keys / 2^k)`, averaged over a factor of two of keys, within which it goes from 0.764 to 0.780.
const TRUNCATED_ALPHA: f64 = 0.769_63;

/// Counts distinct keys.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::LogLog};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut distinct = LogLog::new(12, &hasher)?;
/// for key in 0..100_000u32 {
///     distinct.update(hasher.hash(&(key % 25_000).to_le_bytes()));
/// }
/// assert!(distinct.lower_bound(4.0) <= 25_000.0 && 25_000.0 <= distinct.upper_bound(4.0));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLog {
    /// Whose registers these are too.
    pub(crate) ranks: HyperLogLog,
}

impl LogLog {
    /// An empty sketch of `2^lg_m` registers, for keys hashed under `hash_id`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless `4 <= lg_m <= 18`.
    pub fn new(lg_m: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        Ok(Self { ranks: HyperLogLog::new(lg_m, hash_id)? })
    }

    /// Takes one key in.
    ///
    /// # Cost
    /// One byte read, rarely written.
    #[inline]
    pub fn update(&mut self, hash: KeyHash) {
        self.ranks.update(hash);
    }

    /// Takes a slice of keys in.
    pub fn update_batch(&mut self, hashes: &[KeyHash]) {
        self.ranks.update_batch(hashes);
    }

    /// How many distinct keys there were.
    ///
    /// # Accuracy
    /// Relative standard error about [`relative_standard_error`](Self::relative_standard_error), if the hash is uniform.
    pub fn estimate(&self) -> f64 {
        self.few().unwrap_or_else(|| self.large_estimate())
    }

    /// The estimate of the paper's Theorem 1, which wants some keys a register: an empty sketch's is `0.4 m`.
    pub fn large_estimate(&self) -> f64 {
        let m = self.registers() as f64;
        let sum: u64 = self.ranks.registers.iter().map(|&rank| u64::from(rank)).sum();
        alpha(m) * m * (sum as f64 / m).exp2()
    }

    /// How many distinct keys there were, by the 70 % of the registers that are least: the rest vary most.
    ///
    /// # Accuracy
    /// Relative standard error about `1.05 / sqrt(m)`, and a bias of up to 1.4 % that changes with the number of keys a register.
    pub fn truncated_estimate(&self) -> f64 {
        self.few().unwrap_or_else(|| {
            let m = self.registers() as f64;
            let kept = (KEPT * m).floor();
            let (mut left, mut sum) = (kept, 0.0);
            for (rank, &count) in histogram(&self.ranks.registers).iter().enumerate() {
                let taken = f64::from(count).min(left);
                left -= taken;
                sum += taken * rank as f64;
            }
            TRUNCATED_ALPHA * m * (sum / kept).exp2()
        })
    }

    /// A value that the true number is not below, but with the tail probability of `sigmas` standard errors. Never below the number
    /// of registers in use, which is certain.
    pub fn lower_bound(&self, sigmas: f64) -> f64 {
        let in_use = self.registers() - self.empty();
        (self.estimate() / (1.0 + sigmas * self.relative_standard_error())).max(in_use as f64)
    }

    /// A value that the true number is not above, but with the tail probability of `sigmas` standard errors; infinite where they
    /// reach 100 %.
    pub fn upper_bound(&self, sigmas: f64) -> f64 {
        let shrink = 1.0 - sigmas * self.relative_standard_error();
        match self.estimate() {
            0.0 => 0.0,
            _ if shrink <= 0.0 => f64::INFINITY,
            estimate => estimate / shrink,
        }
    }

    /// The standard error of the estimate as a share of the true number: `1.30 / sqrt(m)` (Theorem 1).
    pub fn relative_standard_error(&self) -> f64 {
        1.30 / (self.registers() as f64).sqrt()
    }

    /// Takes in the keys of another sketch: the result is that of one sketch that saw both streams.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or `lg_m` differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.ranks.merge(&other.ranks)
    }

    /// The sketch as bytes: header, `lg_m` (u32), registers.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.ranks.encode(format::LOG_LOG)
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self { ranks: HyperLogLog::decode(bytes, format::LOG_LOG)? })
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.ranks.hash_id()
    }

    /// log₂ of the number of registers.
    pub fn lg_m(&self) -> u32 {
        self.ranks.lg_m()
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        self.ranks.memory_bytes()
    }

    fn registers(&self) -> usize {
        self.ranks.registers.len()
    }

    fn empty(&self) -> usize {
        self.ranks.registers.iter().filter(|&&rank| rank == 0).count()
    }

    /// The number of keys by the share of empty registers, while that errs less.
    fn few(&self) -> Option<f64> {
        let (m, empty) = (self.registers() as f64, self.empty() as f64);
        (empty > m * (-3f64).exp()).then(|| m * (m / empty).ln())
    }
}

/// `(Gamma(-1/m) (1 - 2^(1/m)) / ln 2)^-m`: 0.397 for many registers, 0.376 for 16.
fn alpha(m: f64) -> f64 {
    // Euler's constant, and the zeta function at 2, 3, ...: ln Gamma(1 - x) = euler x + sum of zeta(k) x^k / k.
    const EULER: f64 = 0.577_215_664_901_532_9;
    const ZETA: [f64; 7] = [
        1.644_934_066_848_226_4,
        1.202_056_903_159_594_3,
        1.082_323_233_711_138_2,
        1.036_927_755_143_37,
        1.017_343_061_984_449,
        1.008_349_277_381_922_8,
        1.004_077_356_197_944_3,
    ];
    let x = 1.0 / m;
    let tail = ZETA.iter().zip(2..).map(|(zeta, k)| zeta * x.powi(k) / f64::from(k)).sum::<f64>();
    // Gamma(-x) = -Gamma(1 - x) / x, and (2^x - 1) / (x ln 2) is near 1.
    let octave = x * std::f64::consts::LN_2;
    let ln = EULER * x + tail + (octave.exp_m1() / octave).ln();
    (-m * ln).exp()
}

#[cfg(test)]
mod tests;
