//! Time windows: a ring of sketches, one a pane, of which the oldest is emptied when time moves on.
//!
//! ```text
//!   advance:   │ pane e-2 │ pane e-1 │ pane e │  ─▶  │ pane e-1 │ pane e │ pane e+1, empty │
//!                 oldest                newest          (the sketch of e-2, emptied, is that of e+1)
//! ```
//!
//! 1. The newest pane takes the updates; an estimate is the sum over all panes, and so never too low for the window.
//! 2. Each sketch stores the epoch of its pane, so one commit moves the whole window or none of it.
//! 3. The panes of a window `w` are the summaries `w/0`, `w/1` and so on, without a gap: so the store knows how many there are,
//!    and a window is never asked or moved with some of them only.
//!
//! | operation | block reads | block writes |
//! |---|---|---|
//! | update | as one sketch | as one sketch |
//! | estimate | as one sketch, for each pane | 0 |
//! | advance | a pass over the newest | the same; the next commit gives the oldest pane's space back |

use super::{Frequency, FrequencyOptions};
use crate::error::invalid;
use crate::lock::lock;
use crate::sketch::CountBounds;
use crate::store::Store;
use crate::{Error, KeyHash, Result};
use std::sync::{Arc, Mutex, MutexGuard};

/// The most panes of a window.
const PANES_MAX: usize = 1024;

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
    /// `InvalidOption` for no pane or more than 1024; `Incompatible` if the stored window has another number of panes;
    /// `BudgetExceeded`; as [`Store::frequency`] for each pane.
    pub fn open_or_create(
        store: &Store,
        name: &str,
        panes: usize,
        options: FrequencyOptions,
    ) -> Result<Self> {
        if panes == 0 || panes > PANES_MAX {
            return invalid("panes", panes, format!("choose 1 to {PANES_MAX}"));
        }
        let pane_name = |i: usize| format!("{name}/{i}");
        let stored = (0..=PANES_MAX).take_while(|&i| store.record(&pane_name(i)).is_some()).count();
        if stored > 0 && stored != panes {
            let (expected, found) = (stored.to_string(), panes.to_string());
            return Err(Error::Incompatible { what: "the number of panes", expected, found });
        }
        let memory_bytes = options.memory_bytes;
        let memory = store.budget().reserve(&format!("window {name:?}"), memory_bytes, memory_bytes)?;
        let memory = Some(Arc::new(memory));
        let mut ring = Self { panes: Vec::with_capacity(panes) };
        for i in 0..panes {
            match Frequency::open_or_create(store, &pane_name(i), options.clone(), memory.clone()) {
                Ok(pane) => ring.panes.push(pane),
                Err(error) => {
                    // A commit must not find a new window with some of its panes only.
                    for made in (0..i).filter(|_| stored == 0) {
                        store.remove(&pane_name(made))?;
                    }
                    return Err(error);
                }
            }
        }
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
    lock(&pane)
}
