//! The border between quotient and remainder, and the sizes that follow from a false-positive rate.
//!
//! 1. `LG_QUOTIENTS_MIN <= lg_quotients`: a filter is made of whole blocks of 64 slots.
//! 2. `1 <= remainder_bits <= REMAINDER_BITS_MAX` and both together are at most 64.
//!
//! Source: Bender et al., "Don't Thrash: How to Cache Your Hash on Flash" (cascade filter), section 2: a hard collision has
//! probability `1 - exp(-alpha / 2^r)`, with `alpha = n / 2^q`; hence a rate of at most `epsilon` up to
//! `n = -ln(1 - epsilon) 2^p` fingerprints.

use crate::{Error, KeyHash, Result};

/// One block.
pub(super) const LG_QUOTIENTS_MIN: u32 = 6;
/// 2^40 slots: more than one machine's RAM.
pub(super) const LG_QUOTIENTS_MAX: u32 = 40;
/// What is left of 64 bits beside the least quotient, less one so that a shift by its complement is always a shift.
pub(super) const REMAINDER_BITS_MAX: u32 = 57;
/// The paper's clusters stay short up to here; beyond, an insert's shifts grow as `1 / (1 - load)^2`.
const LOAD_PERCENT_MAX: u64 = 95;
/// Rates above this would leave no remainder bit at a full load.
const RATE_MAX: f64 = 0.25;

/// How many bits of a fingerprint are quotient, and how many are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) lg_quotients: u32,
    pub(super) remainder_bits: u32,
}

impl Shape {
    pub(super) fn new(lg_quotients: u32, remainder_bits: u32) -> Result<Self> {
        if !(LG_QUOTIENTS_MIN..=LG_QUOTIENTS_MAX).contains(&lg_quotients) {
            let why = format!(
                "a filter has 2^{LG_QUOTIENTS_MIN} (one block) to 2^{LG_QUOTIENTS_MAX} quotients; choose in between"
            );
            return Err(Error::InvalidOption { name: "lg_quotients", value: lg_quotients.to_string(), why });
        }
        let most = REMAINDER_BITS_MAX.min(64 - lg_quotients);
        if !(1..=most).contains(&remainder_bits) {
            let why = format!(
                "beside {lg_quotients} quotient bits a remainder has 1 to {most}; fewer quotients leave more"
            );
            return Err(Error::InvalidOption {
                name: "remainder_bits",
                value: remainder_bits.to_string(),
                why,
            });
        }
        Ok(Self { lg_quotients, remainder_bits })
    }

    /// The least shape that holds `keys` keys and fingerprints of `fingerprint_bits`, or longer ones where those would leave
    /// no remainder.
    pub(super) fn for_keys(keys: u64, fingerprint_bits: u32) -> Result<Self> {
        let slots = (u128::from(keys) * 100).div_ceil(u128::from(LOAD_PERCENT_MAX)).max(1);
        let least = LG_QUOTIENTS_MIN.max(fingerprint_bits.saturating_sub(REMAINDER_BITS_MAX));
        let lg_quotients = (128 - (slots - 1).leading_zeros()).max(least);
        Self::new(lg_quotients, fingerprint_bits.saturating_sub(lg_quotients).max(1))
    }

    pub(super) fn slots(self) -> usize {
        1 << self.lg_quotients
    }

    /// Fingerprints at the highest load.
    pub(super) fn capacity(self) -> u64 {
        ((1u128 << self.lg_quotients) * u128::from(LOAD_PERCENT_MAX) / 100) as u64
    }

    pub(super) fn fingerprint_bits(self) -> u32 {
        self.lg_quotients + self.remainder_bits
    }

    /// The top bits of a hash, right-aligned.
    #[inline(always)]
    pub(super) fn fingerprint(self, hash: KeyHash) -> u64 {
        hash.high() >> (64 - self.fingerprint_bits())
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub(super) fn split(self, fingerprint: u64) -> (usize, u64) {
        let quotient = (fingerprint >> self.remainder_bits) as usize;
        (quotient, fingerprint & ((1 << self.remainder_bits) - 1))
    }

    #[inline(always)]
    pub(super) fn join(self, quotient: usize, remainder: u64) -> u64 {
        (quotient as u64) << self.remainder_bits | remainder
    }

    /// The same fingerprints with one quotient bit more.
    pub(super) fn doubled(self) -> Result<Self> {
        Self::new(self.lg_quotients + 1, self.remainder_bits.wrapping_sub(1))
    }

    /// The same fingerprints with one quotient bit less.
    pub(super) fn halved(self) -> Result<Self> {
        Self::new(self.lg_quotients - 1, self.remainder_bits + 1)
    }
}

/// The probability that a key meets one of `keys` fingerprints of others.
pub(super) fn rate(keys: u64, fingerprint_bits: u32) -> f64 {
    -(-(keys as f64) * (-f64::from(fingerprint_bits)).exp2()).exp_m1()
}

/// The most keys that keep the rate with fingerprints of so many bits.
pub(super) fn keys_max(fingerprint_bits: u32, false_positive_rate: f64) -> u64 {
    (-(-false_positive_rate).ln_1p() * f64::from(fingerprint_bits).exp2()) as u64
}

/// The shortest fingerprints with which `keys` keys keep the rate.
pub(super) fn fingerprint_bits_for(keys: u64, false_positive_rate: f64) -> Result<u32> {
    if !(false_positive_rate > 0.0 && false_positive_rate <= RATE_MAX) {
        let why = format!("it must be above 0 and at most {RATE_MAX}");
        let value = false_positive_rate.to_string();
        return Err(Error::InvalidOption { name: "false_positive_rate", value, why });
    }
    let bits = (1..=64).find(|&bits| rate(keys.max(1), bits) <= false_positive_rate);
    bits.ok_or_else(|| Error::InvalidOption {
        name: "false_positive_rate",
        value: false_positive_rate.to_string(),
        why: format!(
            "{keys} fingerprints of at most 64 bits reach {:.3e}; allow a higher rate",
            rate(keys, 64)
        ),
    })
}
