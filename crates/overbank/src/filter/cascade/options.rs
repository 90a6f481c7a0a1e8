//! What a caller chooses, and what follows from it: lengths of fingerprints, shares of the memory.

use crate::Result;
use crate::batch::Sorter;
use crate::error::invalid;
pub use crate::lsm::Policy;

/// The least `memory_bytes`: two merges, a log, and lookups.
pub(super) const MEMORY_BYTES_MIN: usize = 16 << 20;
/// Bits of a fingerprint with its value: a word of the log has one bit more, which marks removals.
pub(super) const ENTRY_BITS_MAX: u32 = 63;
/// Each generation holds this many times the keys of the one before.
const GENERATION_GROWTH: u64 = 8;
/// The share of the false-positive rate that the first generation may use; the others share the rest.
const FIRST_SHARE: f64 = 7.0 / 8.0;
/// The most writers.
const WRITERS_MAX: usize = 64;

/// Size and behaviour of a [`CascadeFilter`](super::CascadeFilter).
///
/// ```
/// use overbank::filter::cascade::CascadeOptions;
/// let options = CascadeOptions { keys: 10_000_000_000, false_positive_rate: 1e-6, ..CascadeOptions::default() };
/// assert_eq!(options.fingerprint_bits()?, 54);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CascadeOptions {
    /// RAM in bytes, from the store's budget; at least 16 MiB. No more is allocated; what the allocator holds beside is not counted.
    pub memory_bytes: usize,
    /// How many different keys are expected. It is no limit: more begin a generation of longer fingerprints, with room for 8
    /// times as many. Fewer take a bit or so more each, and make fewer false positives.
    pub keys: u64,
    /// The bound of the false-positive rate, whatever the number of keys (until fingerprints of 63 bits no longer do).
    pub false_positive_rate: f64,
    /// When runs are merged.
    pub policy: Policy,
    /// Bits of the value that a [`Maplet`](super::Maplet) keeps beside each fingerprint, 1 to 16; 0 in a filter.
    pub value_bits: u32,
    /// How many threads insert side by side, 1 to 64.
    pub writers: usize,
    /// How many panes a window has: what came in older ones is forgotten. 0 forgets nothing.
    pub panes: u32,
}

impl Default for CascadeOptions {
    fn default() -> Self {
        CascadeOptions {
            memory_bytes: 64 << 20,
            keys: 1 << 30,
            false_positive_rate: 1.0 / 4096.0,
            policy: Policy::Tiered { fan_out: 8 },
            value_bits: 0,
            writers: 1,
            panes: 0,
        }
    }
}

impl CascadeOptions {
    /// Bits of the fingerprints of the first generation, values aside.
    ///
    /// # Errors
    /// `InvalidOption` if any option is out of its range.
    pub fn fingerprint_bits(&self) -> Result<u32> {
        self.check()?;
        Ok(self.bits(0))
    }

    /// Refuses what is out of range.
    pub(super) fn check(&self) -> Result<()> {
        if self.keys == 0 {
            return invalid("keys", 0, "expect at least one");
        }
        if !(self.false_positive_rate > 0.0 && self.false_positive_rate <= 0.5) {
            let why = "a rate lies above 0 and up to 0.5";
            return invalid("false_positive_rate", self.false_positive_rate, why);
        }
        if self.value_bits > 16 {
            return invalid(
                "value_bits",
                self.value_bits,
                "a value has at most 16 bits; keep longer ones in a dictionary",
            );
        }
        let needed = self.wanted_bits(0) + self.value_bits;
        if needed > ENTRY_BITS_MAX {
            let why = format!(
                "{} keys at that rate need fingerprints of {needed} bits with their values, and {ENTRY_BITS_MAX} is the most; \
                 allow a higher rate",
                self.keys
            );
            return invalid("false_positive_rate", self.false_positive_rate, why);
        }
        if !(2..=64).contains(&self.policy.fan_out()) {
            return invalid("fan_out", self.policy.fan_out(), "2 to 64 runs are merged");
        }
        if !(1..=WRITERS_MAX).contains(&self.writers) {
            return invalid("writers", self.writers, format!("1 to {WRITERS_MAX} threads insert"));
        }
        let least = MEMORY_BYTES_MIN + (self.writers - 1) * self.log_bytes();
        if self.memory_bytes < least {
            return invalid(
                "memory_bytes",
                self.memory_bytes,
                format!("logs, merges and lookups need at least {least}"),
            );
        }
        Ok(())
    }

    /// Bits of the fingerprints of a generation, values aside.
    pub(super) fn bits(&self, generation: u32) -> u32 {
        self.wanted_bits(generation).clamp(1, ENTRY_BITS_MAX - self.value_bits)
    }

    fn wanted_bits(&self, generation: u32) -> u32 {
        // The shares of all generations add up to 1: those after the first have 6 / pi^2 / g^2 of its rest.
        let share = match generation {
            0 => FIRST_SHARE,
            _ => (1.0 - FIRST_SHARE) * 6.0 / std::f64::consts::PI.powi(2) / f64::from(generation).powi(2),
        };
        (self.capacity(generation) as f64 / (self.false_positive_rate * share)).log2().ceil().max(1.0) as u32
    }

    /// How many different fingerprints a generation takes.
    pub(super) fn capacity(&self, generation: u32) -> u64 {
        self.keys.saturating_mul(GENERATION_GROWTH.saturating_pow(generation))
    }

    /// Keys of a writer's log: 2^17 sort inside a core's second cache, in less time than a stall is noticed.
    pub(super) fn log_keys(&self) -> usize {
        (self.memory_bytes / 256).clamp(1 << 10, 1 << 17)
    }

    /// RAM of a writer's log, and of sorting it.
    pub(super) fn log_bytes(&self) -> usize {
        2 * self.log_keys() * size_of::<u64>() + Sorter::<u64>::memory_bytes()
    }

    /// RAM of a packed log at most, of keys that are all different.
    pub(super) fn packed_log_bytes(&self) -> usize {
        let bits = f64::from(self.bits(0) + self.value_bits) - (self.log_keys() as f64).log2() + 2.5;
        (self.log_keys() as f64 * bits.max(2.5) / 8.0) as usize + 4096
    }

    /// How many fingerprints are looked up at a time.
    pub(super) fn questions(&self) -> usize {
        (self.memory_bytes / 2048).clamp(1 << 10, 1 << 16)
    }
}
