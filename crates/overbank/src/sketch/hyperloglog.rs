//! HyperLogLog: how many distinct keys, within about `1.04 / sqrt(m)` of the truth.
//!
//! ```text
//!   KeyHash.high()                KeyHash.low()
//!   ┌────────┬─────────────┐      ┌──────────────────────┐
//!   │ lg_m   │  unused     │      │ 0 0 0 1 …            │  rank = leading zeros + 1, 1..=65
//!   └───┬────┴─────────────┘      └──────────┬───────────┘
//!       ▼                                    ▼
//!   registers[index]  =  max(registers[index], rank)        m = 2^lg_m bytes
//! ```
//!
//! 1. A register is the largest rank of the distinct keys of its hash range; 0 where there was none.
//! 2. Registers are in hash order, so shards of the top bits own disjoint slices.
//! 3. The state depends on the set of keys only: not on order, repeats, or how shards were merged.
//!
//! | operation  | CPU                  | RAM         |
//! |------------|----------------------|-------------|
//! | `update`   | O(1), one byte       | –           |
//! | `estimate` | O(m)                 | –           |
//! | `merge`    | O(m)                 | –           |
//! | the sketch | –                    | `2^lg_m` B  |
//!
//! Source: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog" (2007), for the sketch; Ertl, "New cardinality
//! estimation algorithms for HyperLogLog sketches" (arXiv 1702.01284, 2017), Algorithm 6, for the estimator.
//!
//! Deviations: the rank has 64 fresh bits of its own rather than what the index leaves over, so the range
//! ends beyond any stream. Ertl's estimator replaces raw estimate, linear counting and their threshold:
//! it has no switch-over, hence no bump of bias at it. Registers are bytes, not 6 bits: a rank of 65 must
//! fit, and an update stays one compare and one store.

pub mod foreign;

use super::format::{self, Decoder, Encoder, Identity};
use super::hash_id::{HashId, require_equal};
use crate::{Error, KeyHash, Result};

pub(crate) const LG_M_MIN: u32 = 4;
pub(crate) const LG_M_MAX: u32 = 18;
/// The rank of a `low()` of zero.
const RANK_MAX: u8 = 65;

/// Counts distinct keys.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::HyperLogLog};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut distinct = HyperLogLog::new(12, &hasher)?;
/// for key in 0..10_000u32 {
///     distinct.update(hasher.hash(&(key % 2_500).to_le_bytes()));
/// }
/// assert!(distinct.lower_bound(4.0) <= 2_500.0 && 2_500.0 <= distinct.upper_bound(4.0));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HyperLogLog {
    lg_m: u32,
    hash_id: HashId,
    pub(crate) registers: Vec<u8>,
}

impl HyperLogLog {
    /// An empty sketch of `2^lg_m` registers, for keys hashed under `hash_id`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `4 <= lg_m <= 18`.
    pub fn new(lg_m: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        if !(LG_M_MIN..=LG_M_MAX).contains(&lg_m) {
            let why =
                format!("choose {LG_M_MIN} (16 bytes, 26 % error) to {LG_M_MAX} (256 KiB, 0.2 % error)");
            return Err(Error::InvalidOption { name: "lg_m", value: lg_m.to_string(), why });
        }
        Ok(Self { lg_m, hash_id: hash_id.into(), registers: vec![0; 1 << lg_m] })
    }

    /// The sketch of these registers, `2^lg_m` of them, that something else raised; `None` where no sketch has such. A key's register is
    /// the first `lg_m` bits of `hash.high()`, its rank the leading zeros of `hash.low()` and 1.
    pub fn from_registers(hash_id: impl Into<HashId>, registers: Vec<u8>) -> Option<Self> {
        let lg_m = registers.len().checked_ilog2()?;
        let is_whole = registers.len().is_power_of_two()
            && (LG_M_MIN..=LG_M_MAX).contains(&lg_m)
            && registers.iter().all(|&rank| rank <= RANK_MAX);
        is_whole.then(|| Self { lg_m, hash_id: hash_id.into(), registers })
    }

    /// The register of a key in a sketch of `2^lg_m` of them, and the rank that it brings.
    #[inline]
    pub(crate) fn register_of(hash: KeyHash, lg_m: u32) -> (usize, u8) {
        ((hash.high() >> (64 - lg_m)) as usize, hash.low().leading_zeros() as u8 + 1)
    }

    /// Takes one key in.
    ///
    /// # Cost
    /// One byte read, rarely written.
    #[inline]
    pub fn update(&mut self, hash: KeyHash) {
        raise(&mut self.registers, 0, self.lg_m, hash);
    }

    /// Takes a slice of keys in.
    pub fn update_batch(&mut self, hashes: &[KeyHash]) {
        for &hash in hashes {
            raise(&mut self.registers, 0, self.lg_m, hash);
        }
    }

    /// Splits the registers into `shards` disjoint ranges of the hash, for as many threads.
    ///
    /// Shard `i` takes exactly the keys whose top `log2(shards)` bits of `high()` are `i`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `shards` is a power of two, not above the number of registers.
    pub fn split_mut(&mut self, shards: usize) -> Result<Vec<HyperLogLogShard<'_>>> {
        if !shards.is_power_of_two() || shards > self.registers.len() {
            let why = format!("it must be a power of two, at most {}", self.registers.len());
            return Err(Error::InvalidOption { name: "shards", value: shards.to_string(), why });
        }
        let (lg_m, each) = (self.lg_m, self.registers.len() / shards);
        let slices = self.registers.chunks_exact_mut(each).enumerate();
        Ok(slices.map(|(i, registers)| HyperLogLogShard { lg_m, first: i * each, registers }).collect())
    }

    /// How many distinct keys there were.
    ///
    /// # Accuracy
    /// Unbiased; relative standard error about [`relative_standard_error`](Self::relative_standard_error),
    /// from one key to beyond 2^60, if the hash is uniform.
    ///
    /// # Cost
    /// One pass over the registers.
    pub fn estimate(&self) -> f64 {
        estimate_of(&histogram(&self.registers), self.registers.len())
    }

    /// A value that the true number is not below, but with the tail probability of `sigmas` standard errors.
    ///
    /// Never below the number of registers in use, which is certain.
    pub fn lower_bound(&self, sigmas: f64) -> f64 {
        let in_use = self.registers.iter().filter(|&&register| register != 0).count() as f64;
        (self.estimate() / (1.0 + sigmas * self.relative_standard_error())).max(in_use)
    }

    /// A value that the true number is not above, but with the tail probability of `sigmas` standard errors.
    ///
    /// Infinite where `sigmas` standard errors reach 100 %.
    pub fn upper_bound(&self, sigmas: f64) -> f64 {
        let shrink = 1.0 - sigmas * self.relative_standard_error();
        let estimate = self.estimate();
        if estimate == 0.0 {
            0.0
        } else if shrink <= 0.0 {
            f64::INFINITY
        } else {
            estimate / shrink
        }
    }

    /// The standard error of the estimate as a share of the true number: `1.04 / sqrt(m)`, a little more
    /// below 128 registers (Flajolet et al., Theorem 1).
    pub fn relative_standard_error(&self) -> f64 {
        let beta = match self.lg_m {
            4 => 1.106,
            5 => 1.070,
            6 => 1.054,
            7 => 1.046,
            _ => 1.04,
        };
        beta / (self.registers.len() as f64).sqrt()
    }

    /// Takes in the keys of another sketch: the result is that of one sketch that saw both streams.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where hash, seed or `lg_m` differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("lg_m", self.lg_m, other.lg_m)?;
        for (register, &rank) in self.registers.iter_mut().zip(&other.registers) {
            *register = rank.max(*register);
        }
        Ok(())
    }

    /// The sketch as bytes: header, `lg_m` (u32), registers.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode(format::HYPERLOGLOG)
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes, format::HYPERLOGLOG)
    }

    /// The registers as the bytes of a sketch that has such.
    pub(super) fn encode(&self, identity: Identity) -> Vec<u8> {
        let mut encoder = Encoder::new(identity, Some(self.hash_id), 4 + self.registers.len());
        encoder.u32(self.lg_m);
        encoder.raw(&self.registers);
        encoder.seal()
    }

    /// Reads what [`encode`](Self::encode) made.
    pub(super) fn decode(bytes: &[u8], identity: Identity) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, identity)?;
        let hash_id = decoder.hash_id()?;
        let lg_m = decoder.u32()?;
        if !(LG_M_MIN..=LG_M_MAX).contains(&lg_m) {
            return Err(decoder.corrupt("lg_m", format!("{LG_M_MIN} to {LG_M_MAX}"), lg_m));
        }
        decoder.require_left(Some(1 << lg_m))?;
        let registers = decoder.take(1 << lg_m)?;
        if let Some(rank) = registers.iter().find(|&&rank| rank > RANK_MAX) {
            return Err(decoder.corrupt("a register", format!("at most {RANK_MAX}"), rank));
        }
        Ok(Self { lg_m, hash_id, registers: registers.to_vec() })
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// log₂ of the number of registers.
    pub fn lg_m(&self) -> u32 {
        self.lg_m
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.registers.capacity()
    }
}

/// The registers of one range of the hash, lent to one thread by [`HyperLogLog::split_mut`].
#[derive(Debug)]
pub struct HyperLogLogShard<'a> {
    lg_m: u32,
    first: usize,
    registers: &'a mut [u8],
}

impl HyperLogLogShard<'_> {
    /// Takes one key of this shard's range in.
    ///
    /// # Panics
    /// If the key is not of this range.
    #[inline]
    pub fn update(&mut self, hash: KeyHash) {
        raise(self.registers, self.first, self.lg_m, hash);
    }
}

#[inline]
fn raise(registers: &mut [u8], first: usize, lg_m: u32, hash: KeyHash) {
    let (index, rank) = HyperLogLog::register_of(hash, lg_m);
    let register = &mut registers[index.wrapping_sub(first)];
    if rank > *register {
        *register = rank;
    }
}

pub(super) fn histogram(registers: &[u8]) -> [u32; RANK_MAX as usize + 1] {
    let mut counts = [0; RANK_MAX as usize + 1];
    for &register in registers {
        counts[register as usize] += 1;
    }
    counts
}

/// Ertl (2017), Algorithm 6, with q = 64.
fn estimate_of(counts: &[u32; RANK_MAX as usize + 1], registers: usize) -> f64 {
    let m = registers as f64;
    let share = |rank: usize| f64::from(counts[rank]) / m;
    let mut z = m * tau(1.0 - share(RANK_MAX as usize));
    for rank in (1..RANK_MAX as usize).rev() {
        z = 0.5 * (z + f64::from(counts[rank]));
    }
    z += m * sigma(share(0));
    m * m / (2.0 * std::f64::consts::LN_2 * z)
}

/// `x + sum over k >= 1 of x^(2^k) * 2^(k-1)`: what empty registers stand for (Ertl, eq. 4.12).
pub(super) fn sigma(x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (x, 1.0, x);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// What registers at the last rank stand for (Ertl, eq. 4.13).
pub(super) fn tau(x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (x, 1.0, 1.0 - x);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root) * (1.0 - root) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests;
