//! What a profile is to be like.

use super::flash::Flash;
use super::record::Saved;
use super::{Measure, ProfilePlan};
use crate::frequency::FrequencyOptions;
use crate::sketch::hash_id::require_equal;
use crate::store::Store;
use crate::{Error, Result};

/// The memory of a new profile that is not told how much it may take, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// What a profile is to be like. What is not set is that of the stored one; of a new one, what the methods say.
///
/// ```
/// use overbank::profile::{Measure, ProfileOptions};
/// use overbank::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let options = ProfileOptions::new().memory_bytes(16 << 20).measure(Measure::Value);
/// let profile = store.profile("clicks", options)?;
/// assert_eq!((profile.measure(), profile.rows()?), (Measure::Value, 0));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    memory_bytes: Option<u64>,
    measure: Option<Measure>,
    flash: Option<FrequencyOptions>,
    threads: usize,
    /// Makes the shapes of a new one so small that keys meet.
    #[cfg(test)]
    pub(super) crowd: Option<fn(ProfilePlan) -> ProfilePlan>,
}

impl ProfileOptions {
    /// Nothing is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The memory of all its parts, with the chunks on their way, in bytes; a new one has 64 MiB. A stored one keeps its own: another is
    /// `Incompatible`, for shapes depend on it.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// What the quantiles are of; of a new one, the lengths of the keys. That of a stored one stays.
    pub fn measure(mut self, measure: Measure) -> Self {
        self.measure = Some(measure);
        self
    }

    /// A sketch on flash of this size beside the sketches in RAM; its RAM, groups and writers are the plan's. A new profile has none,
    /// and none can be added to one that has counted rows.
    pub fn flash(mut self, options: FrequencyOptions) -> Self {
        self.flash = Some(options);
        self
    }

    /// How many threads are to update it side by side: the sketch on flash has a buffer for each. 1 if not set.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How a new profile of these options divides its memory.
    ///
    /// # Errors
    /// `InvalidOption` for less than [`MEMORY_BYTES_MIN`](super::MEMORY_BYTES_MIN), with flash [`FLASH_MEMORY_BYTES_MIN`](super::FLASH_MEMORY_BYTES_MIN).
    pub fn plan(&self) -> Result<ProfilePlan> {
        let memory_bytes = self.memory_bytes.unwrap_or(MEMORY_BYTES);
        let plan = if self.flash.is_some() { ProfilePlan::with_flash } else { ProfilePlan::for_memory };
        let plan = plan(memory_bytes)?;
        #[cfg(test)]
        let plan = self.crowd.map_or(plan, |crowd| crowd(plan));
        Ok(plan)
    }

    /// The options of the profile `name` at the store's last commit, without opening it: a new one of these can be merged with it.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `UnsupportedVersion`, `Corrupt`.
    pub fn stored(store: &Store, name: &str) -> Result<Self> {
        let _stay = store.stay();
        let saved = Saved::of(store, name)?;
        let flash = Flash::is_in(store, name).then(|| Flash::options_in(store, name)).transpose()?;
        Ok(Self {
            memory_bytes: Some(saved.inline.memory_bytes),
            measure: Some(saved.inline.totals.measure),
            flash,
            ..Self::default()
        })
    }

    /// The memory that is set, in bytes, or that a new profile has.
    pub fn chosen_memory_bytes(&self) -> u64 {
        self.memory_bytes.unwrap_or(MEMORY_BYTES)
    }

    pub(super) fn chosen_measure(&self) -> Measure {
        self.measure.unwrap_or_default()
    }

    pub(super) fn working_threads(&self) -> usize {
        self.threads.max(1)
    }

    /// The options of the sketch on flash of a new profile of `plan`, if it is to have one.
    pub(super) fn fitted_flash(&self, plan: &ProfilePlan) -> Result<Option<FrequencyOptions>> {
        self.flash.as_ref().map(|flash| plan.fitted(flash, self.working_threads())).transpose()
    }

    /// Refuses a profile of another kind than what is set; of a sketch on flash, where there is none: its shape is its own to check.
    pub(super) fn require(&self, memory_bytes: u64, measure: Measure, has_flash: bool) -> Result<()> {
        if let Some(wanted) = self.memory_bytes {
            require_equal("the memory", wanted, memory_bytes)?;
        }
        if let Some(wanted) = self.measure {
            require_equal("the measure", wanted.name(), measure.name())?;
        }
        if self.flash.is_some() && !has_flash {
            let (what, found) = ("the kind of profile", "one without".to_owned());
            return Err(Error::Incompatible {
                what,
                expected: "one with a sketch on flash".to_owned(),
                found,
            });
        }
        Ok(())
    }
}
