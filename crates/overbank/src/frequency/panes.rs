//! Time windows: a ring of sketches, one a pane, of which the oldest is emptied when time moves on.
//!
//! ```text
//!   advance:   │ pane e-2 │ pane e-1 │ pane e │  ─▶  │ pane e-1 │ pane e │ pane e+1, empty │
//!                 oldest                newest          (the sketch of e-2, emptied, is that of e+1)
//! ```
//!
//! 1. The newest pane takes the updates; an estimate is the sum over all panes, and so never too low for the window.
//! 2. Each sketch stores the epoch of its pane, so one commit moves the whole window or none of it.
//!
//! | operation | block reads | block writes |
//! |---|---|---|
//! | update | as one sketch | as one sketch |
//! | estimate | as one sketch, for each pane | 0 |
//! | advance | a pass over the newest | the same; the next commit gives the oldest pane's space back |

use super::{Frequency, FrequencyOptions};
use crate::error::invalid;
use crate::sketch::CountBounds;
use crate::store::Store;
use crate::{KeyHash, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts over a sliding window of time.
///
/// ```
/// use overbank::frequency::{FrequencyOptions, FrequencyPanes};
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let options = FrequencyOptions::new().error(1e-3, 0.01).memory_bytes(24 << 20);
/// let mut hours = FrequencyPanes::open_or_create(&store, "clicks", 2, options)?;
/// let key = [store.hasher().hash(b"/index.html")];
/// hours.update(&key, None)?;
/// hours.advance()?;
/// hours.update(&key, None)?;
/// assert_eq!(hours.estimate(&key)?, [2]);
/// hours.advance()?;
/// assert_eq!(hours.estimate(&key)?, [1]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct FrequencyPanes {
    /// Oldest first.
    pub(super) panes: Vec<Arc<Mutex<Frequency>>>,
}

impl FrequencyPanes {
    /// The window of this name with `panes` panes: the stored one, or a new one. Its RAM is `options.memory_bytes` and 12
    /// bytes a group of each pane: only the newest has a buffer, and passes and estimates take one pane at a time.
    ///
    /// # Errors
    /// `InvalidOption` for no pane or more than 1024; `BudgetExceeded`; as [`Store::frequency`] for each pane.
    pub fn open_or_create(
        store: &Store,
        name: &str,
        panes: usize,
        options: FrequencyOptions,
    ) -> Result<Self> {
        if panes == 0 || panes > 1024 {
            return invalid("panes", panes, "choose 1 to 1024");
        }
        let memory_bytes = options.memory_bytes;
        let memory = store.budget().reserve(&format!("window {name:?}"), memory_bytes, memory_bytes)?;
        let memory = Some(Arc::new(memory));
        let pane =
            |i| Frequency::open_or_create(store, &format!("{name}/{i}"), options.clone(), memory.clone());
        let panes = (0..panes).map(pane).collect::<Result<Vec<_>>>()?;
        let mut ring = Self { panes };
        // A stable sort: panes that were never advanced keep their order.
        ring.panes.sort_by_key(|pane| held(pane).epoch);
        Ok(ring)
    }

    /// Adds to the newest pane; see [`Frequency::update`].
    ///
    /// # Errors
    /// As [`Frequency::update`].
    ///
    /// # Panics
    /// If there are weights, but not one for each hash.
    pub fn update(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        match self.panes.last() {
            Some(newest) => held(newest).update(hashes, weights),
            None => Ok(()),
        }
    }

    /// How often each key occurred in all panes together: never too low.
    ///
    /// # Errors
    /// As [`Frequency::estimate`].
    pub fn estimate(&mut self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        let mut sums = vec![0u64; hashes.len()];
        for pane in &self.panes {
            let estimates = held(pane).estimate(hashes)?;
            sums.iter_mut().zip(estimates).for_each(|(sum, estimate)| *sum = sum.saturating_add(estimate));
        }
        Ok(sums)
    }

    /// The estimates with bounds that hold for each key with probability `confidence`: each pane may fail with its share of
    /// `1 - confidence`.
    ///
    /// # Errors
    /// As [`Frequency::bounds`].
    pub fn bounds(&mut self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        let mut sums = vec![CountBounds::default(); hashes.len()];
        let each = 1.0 - (1.0 - confidence) / self.panes.len() as f64;
        for pane in &self.panes {
            for (sum, bounds) in sums.iter_mut().zip(held(pane).bounds(hashes, each)?) {
                sum.lower = sum.lower.saturating_add(bounds.lower);
                sum.estimate = sum.estimate.saturating_add(bounds.estimate);
                sum.upper = sum.upper.saturating_add(bounds.upper);
            }
        }
        Ok(sums)
    }

    /// Moves the window on by one pane: what the oldest counted is forgotten. What waits in the newest is applied, for it
    /// takes no more.
    ///
    /// # Errors
    /// `ReadOnly`, `Full` and other errors of writing; the window then stands where it stood.
    pub fn advance(&mut self) -> Result<()> {
        let newest = match self.panes.last() {
            Some(newest) => {
                let mut newest = held(newest);
                newest.rest()?;
                newest.epoch
            }
            None => 0,
        };
        if let Some(oldest) = self.panes.first() {
            let mut oldest = held(oldest);
            oldest.clear()?;
            oldest.epoch = newest + 1;
        }
        self.panes.rotate_left(1);
        Ok(())
    }

    /// How many panes there are.
    pub fn panes(&self) -> usize {
        self.panes.len()
    }
}

fn held(pane: &Mutex<Frequency>) -> MutexGuard<'_, Frequency> {
    // A panic inside a pane poisons the store at its next commit; a reader may still look.
    pane.lock().unwrap_or_else(PoisonError::into_inner)
}
