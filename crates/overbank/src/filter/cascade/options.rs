//! What a caller chooses, and what follows from it: lengths of fingerprints, shares of the memory.

use crate::batch::Sorter;
use crate::error::invalid;
pub use crate::lsm::Policy;
use crate::{Error, Result};

/// The least `memory_bytes` for writing: two merges, a log, and lookups.
pub(super) const MEMORY_BYTES_MIN: usize = 16 << 20;
/// The least `memory_bytes` of a filter that is only asked: reads in flight, and a batch of questions.
const READING_BYTES_MIN: usize = 4 << 20;
/// An eighth of a store's usual budget.
const MEMORY_BYTES_DEFAULT: usize = 32 << 20;
/// Bits of a fingerprint with its value: a word of the log has one bit more, which marks removals.
pub(super) const ENTRY_BITS_MAX: u32 = 63;
/// Each generation holds this many times the keys of the one before.
const GENERATION_GROWTH: u64 = 8;
/// The share of the false-positive rate that the first generation may use; the others share the rest.
const FIRST_SHARE: f64 = 7.0 / 8.0;
/// The most writers.
const WRITERS_MAX: usize = 64;

/// Size and behaviour of a [`Filter`](super::Filter), for [`Store::filter`](crate::store::Store::filter).
///
/// What is not said has a default in a new filter, and in a stored one is what it was made with; memory, policy and writers are always
/// those asked for now.
///
/// ```
/// use overbank::filter::cascade::FilterOptions;
/// let options = FilterOptions::new().keys(10_000_000_000).false_positive_rate(1e-6);
/// assert_eq!(options.fingerprint_bits()?, 54);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FilterOptions {
    pub(super) memory_bytes: usize,
    pub(super) keys: u64,
    pub(super) false_positive_rate: f64,
    pub(super) policy: Policy,
    /// Bits of the value that a maplet keeps beside each fingerprint, 1 to 16; 0 in a filter.
    pub(super) value_bits: u32,
    pub(super) writers: usize,
    pub(super) panes: u32,
    pub(super) asked_for: AskedFor,
}

/// What of the shape was asked for: a stored filter of another one is refused.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct AskedFor {
    pub(super) false_positive_rate: bool,
    pub(super) panes: bool,
    pub(super) value_bits: bool,
}

impl Default for FilterOptions {
    fn default() -> Self {
        FilterOptions {
            memory_bytes: MEMORY_BYTES_DEFAULT,
            keys: 1 << 30,
            false_positive_rate: 1.0 / 4096.0,
            policy: Policy::Tiered { fan_out: 8 },
            value_bits: 0,
            writers: 1,
            panes: 0,
            asked_for: AskedFor::default(),
        }
    }
}

impl FilterOptions {
    /// The defaults: 2^30 keys at a rate of 1 in 4096, 32 MiB, one writer, a fan-out of 8, nothing forgotten.
    pub fn new() -> Self {
        Self::default()
    }

    /// RAM in bytes, from the store's budget; at least 16 MiB for writing, more with many writers, and 4 MiB where the store is open
    /// read-only. No more is allocated; what the allocator holds beside is not counted.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// How many different keys are expected. It is no limit: more begin a generation of longer fingerprints, with room for 8
    /// times as many. Fewer take a bit or so more each, and make fewer false positives. A stored filter keeps its own number.
    pub fn keys(mut self, keys: u64) -> Self {
        self.keys = keys;
        self
    }

    /// The bound of the false-positive rate, whatever the number of keys (until fingerprints of 63 bits no longer do).
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.false_positive_rate = rate;
        self.asked_for.false_positive_rate = true;
        self
    }

    /// When runs are merged.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How many threads insert side by side, 1 to 64: each takes a buffer of its own while it inserts. More may insert, and take turns.
    pub fn writers(mut self, threads: usize) -> Self {
        self.writers = threads;
        self
    }

    /// How many panes a window has: what came in older ones is forgotten. 0 forgets nothing.
    pub fn panes(mut self, panes: u32) -> Self {
        self.panes = panes;
        self.asked_for.panes = true;
        self
    }

    /// The RAM that was chosen, in bytes.
    pub fn chosen_memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// How many keys are expected.
    pub fn expected_keys(&self) -> u64 {
        self.keys
    }

    /// The bound of the false-positive rate.
    pub fn rate(&self) -> f64 {
        self.false_positive_rate
    }

    /// When runs are merged.
    pub fn merge_policy(&self) -> Policy {
        self.policy
    }

    /// How many panes a window has, 0 where nothing is forgotten.
    pub fn window_panes(&self) -> u32 {
        self.panes
    }

    /// Bits of the fingerprints of the first generation, values aside.
    ///
    /// # Errors
    /// `InvalidOption` if any option is out of its range.
    pub fn fingerprint_bits(&self) -> Result<u32> {
        self.check()?;
        Ok(self.bits(0))
    }

    /// These options for a filter that is stored with others: its shape, if it is what was asked for.
    ///
    /// # Errors
    /// `Incompatible` where something else was asked for.
    pub(super) fn with_shape_of(self, stored: &Self) -> Result<Self> {
        let AskedFor { false_positive_rate, panes, value_bits } = self.asked_for;
        let is_other = false_positive_rate && self.false_positive_rate != stored.false_positive_rate
            || panes && self.panes != stored.panes
            || value_bits && self.value_bits != stored.value_bits;
        if is_other {
            let [expected, found] = [&self, stored].map(|options| {
                let FilterOptions { value_bits, panes, false_positive_rate, .. } = options;
                format!("{value_bits} bits of value, {panes} panes, a rate of {false_positive_rate}")
            });
            return Err(Error::Incompatible { what: "the filter", expected, found });
        }
        let FilterOptions { memory_bytes, policy, writers, asked_for, .. } = self;
        Ok(FilterOptions { memory_bytes, policy, writers, asked_for, ..*stored })
    }

    /// Refuses what is out of range for writing.
    pub(super) fn check(&self) -> Result<()> {
        self.check_shape()?;
        let least = MEMORY_BYTES_MIN + (self.writers - 1) * self.memtable_bytes();
        if self.memory_bytes < least {
            return invalid(
                "memory_bytes",
                self.memory_bytes,
                format!("logs, merges and lookups need at least {least}"),
            );
        }
        Ok(())
    }

    /// Refuses what is out of range for asking alone.
    pub(super) fn check_for_reading(&self) -> Result<()> {
        self.check_shape()?;
        if self.memory_bytes < READING_BYTES_MIN {
            let why = format!("lookups need at least {READING_BYTES_MIN}");
            return invalid("memory_bytes", self.memory_bytes, why);
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<()> {
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
    pub(super) fn memtable_keys(&self) -> usize {
        (self.memory_bytes / 256).clamp(1 << 10, 1 << 17)
    }

    /// RAM of a writer's log, and of sorting it.
    pub(super) fn memtable_bytes(&self) -> usize {
        2 * self.memtable_keys() * size_of::<u64>() + Sorter::<u64>::memory_bytes()
    }

    /// Memtables: one for each writer, and one for what comes one key at a time.
    pub(super) fn memtables(&self) -> usize {
        self.writers + 1
    }

    /// RAM of a packed log at most, of keys that are all different.
    pub(super) fn packed_memtable_bytes(&self) -> usize {
        let bits = f64::from(self.bits(0) + self.value_bits) - (self.memtable_keys() as f64).log2() + 2.5;
        (self.memtable_keys() as f64 * bits.max(2.5) / 8.0) as usize + 4096
    }

    /// How many fingerprints are looked up at a time.
    pub(super) fn questions(&self) -> usize {
        (self.memory_bytes / 2048).clamp(1 << 10, 1 << 16)
    }
}
