//! What a caller of a maplet chooses.

use super::options::{FilterOptions, Policy};
use super::plan::FilterPlan;
use crate::Result;

/// Size and behaviour of a [`Maplet`](super::Maplet), for [`Store::maplet`](crate::store::Store::maplet).
///
/// What is not said has a default in a new maplet, and in a stored one is what it was made with; memory, policy and writers are always
/// those asked for now. A new one is told how many bits its values have.
///
/// ```
/// use overbank::filter::cascade::MapletOptions;
/// let options = MapletOptions::new().keys(1_000_000_000).value_bits(4);
/// assert!(options.plan(1_000_000_000, 1)?.flash_bytes < 4_000_000_000);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MapletOptions {
    pub(super) filter: FilterOptions,
}

impl MapletOptions {
    /// The defaults: those of [`FilterOptions::new`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Bits of the value beside each key, 1 to 16.
    pub fn value_bits(mut self, bits: u32) -> Self {
        self.filter.value_bits = bits;
        self.filter.asked_for.value_bits = true;
        self
    }

    /// As [`FilterOptions::memory_bytes`].
    pub fn memory_bytes(self, bytes: usize) -> Self {
        MapletOptions { filter: self.filter.memory_bytes(bytes) }
    }

    /// How many different pairs of a key and a value are expected; as [`FilterOptions::keys`].
    pub fn keys(self, keys: u64) -> Self {
        MapletOptions { filter: self.filter.keys(keys) }
    }

    /// The bound of the rate at which a lookup finds a value of another key; as [`FilterOptions::false_positive_rate`].
    pub fn false_positive_rate(self, rate: f64) -> Self {
        MapletOptions { filter: self.filter.false_positive_rate(rate) }
    }

    /// As [`FilterOptions::policy`].
    pub fn policy(self, policy: Policy) -> Self {
        MapletOptions { filter: self.filter.policy(policy) }
    }

    /// As [`FilterOptions::writers`].
    pub fn writers(self, threads: usize) -> Self {
        MapletOptions { filter: self.filter.writers(threads) }
    }

    /// As [`FilterOptions::panes`].
    pub fn panes(self, panes: u32) -> Self {
        MapletOptions { filter: self.filter.panes(panes) }
    }

    /// As [`FilterOptions::plan`], of pairs.
    ///
    /// # Errors
    /// As there.
    pub fn plan(&self, keys: u64, threads: usize) -> Result<FilterPlan> {
        self.filter.plan(keys, threads)
    }

    /// Bits of the fingerprints of the first generation, values aside.
    ///
    /// # Errors
    /// `InvalidOption` if any option is out of its range.
    pub fn fingerprint_bits(&self) -> Result<u32> {
        self.filter.fingerprint_bits()
    }
}
