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
//! 4. Readers take no lock of the window: it is always made of the same sketches, and in which order does not matter for a sum. Writers
//!    hold the lock `window` of `w/0` for reading, and who moves the window on for writing: an update is never in a pane that has given
//!    its buffers back.
//!
//! | operation | block reads | block writes |
//! |---|---|---|
//! | update | as one sketch | as one sketch |
//! | estimate | as one sketch, for each pane | 0 |
//! | advance | a pass over the newest | the same; the next commit gives the oldest pane's space back |

use super::saved::Role;
use super::{Frequency, FrequencyOptions};
use crate::error::invalid;
use crate::lock::{lock, read, write};
use crate::sketch::{CountBounds, HashId};
use crate::store::Store;
use crate::store::registry::pane_of;
use crate::{Error, KeyHash, Result};
use std::sync::Arc;

/// The most panes of a window.
const PANES_MAX: usize = 1024;

/// Counts over a sliding window of time. [`Store::frequency_window`] creates or opens one.
///
/// As [`Frequency`], it is a handle that threads clone, to add and to ask side by side.
///
/// ```
/// use overbank::frequency::FrequencyOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let options = FrequencyOptions::new().error(1e-3, 0.01).memory_bytes(24 << 20);
/// let hours = store.frequency_window("clicks", 2, options)?;
/// let key = [store.hasher().hash(b"/index.html")];
/// hours.update(&key, None)?;
/// hours.advance()?;
/// hours.update(&key, None)?;
/// assert_eq!(hours.estimate(&key)?, [2]);
/// hours.advance()?;
/// assert_eq!(hours.estimate(&key)?, [1]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FrequencyWindow {
    /// By the number in their names, of which there is at least one.
    pub(super) panes: Arc<Vec<Frequency>>,
}

impl Store {
    /// The window of this name with `panes` panes: the stored one, or a new one. Its RAM is `options.memory_bytes` and 28
    /// bytes a group of each pane: only the newest has buffers, and passes and estimates take one pane at a time.
    ///
    /// # Errors
    /// `InvalidOption` for no pane or more than 1024; `Incompatible` if the stored window has another number of panes;
    /// `BudgetExceeded`; as [`Store::frequency`] for each pane.
    pub fn frequency_window(
        &self,
        name: &str,
        panes: usize,
        options: FrequencyOptions,
    ) -> Result<FrequencyWindow> {
        FrequencyWindow::open_or_create(self, name, panes, &options)
    }
}

impl FrequencyWindow {
    fn open_or_create(store: &Store, name: &str, panes: usize, options: &FrequencyOptions) -> Result<Self> {
        if panes == 0 || panes > PANES_MAX {
            return invalid("panes", panes, format!("choose 1 to {PANES_MAX}"));
        }
        let pane_name = |i: usize| pane_of(name, i);
        // All of one commit.
        let _stay = store.stay();
        let stored = (0..=PANES_MAX).take_while(|&i| store.record(&pane_name(i)).is_some()).count();
        if stored > 0 && stored != panes {
            let (expected, found) = (stored.to_string(), panes.to_string());
            return Err(Error::Incompatible { what: "the number of panes", expected, found });
        }
        let mut role = Role { panes: Some(panes), memory: None };
        let mut ring = Vec::with_capacity(panes);
        for i in 0..panes {
            match Self::open_pane(store, pane_name(i), options, &role, stored > 0) {
                Ok(pane) => {
                    // The first has reserved what all use in turn.
                    role.memory.get_or_insert_with(|| Arc::clone(&pane.sketch.memory));
                    ring.push(pane);
                }
                Err(error) => {
                    drop(ring);
                    // A commit must not find a new window with some of its panes only.
                    for made in (0..i).filter(|_| stored == 0) {
                        store.remove(&pane_name(made))?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(FrequencyWindow { panes: Arc::new(ring) })
    }

    /// One of its panes. Of a window that is not stored, it must be new, or open as such a pane.
    fn open_pane(
        store: &Store,
        name: String,
        options: &FrequencyOptions,
        role: &Role,
        is_stored: bool,
    ) -> Result<Frequency> {
        let taken = || Error::AlreadyExists { what: "summary", name: name.clone() };
        if !is_stored && store.record(&name).is_some() {
            return Err(taken());
        }
        let pane = Frequency::open_or_create(store, &name, options.clone(), role.clone())?;
        match pane.sketch.panes {
            None if !is_stored => Err(taken()),
            Some(found) if Some(found) != role.panes => {
                let expected = role.panes.unwrap_or(1).to_string();
                Err(Error::Incompatible { what: "the number of panes", expected, found: found.to_string() })
            }
            _ => Ok(pane),
        }
    }

    /// Adds to the newest pane; see [`Frequency::update`].
    ///
    /// # Errors
    /// As [`Frequency::update`].
    pub fn update(&self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.panes[0].sketch.writable()?;
        let _stays = read(&self.panes[0].sketch.window);
        self.newest().update(hashes, weights)
    }

    /// How often each key occurred in all panes together: never too low.
    ///
    /// # Errors
    /// As [`Frequency::estimate`].
    pub fn estimate(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        let mut sums = vec![0u64; hashes.len()];
        for pane in &*self.panes {
            let estimates = pane.estimate(hashes)?;
            sums.iter_mut().zip(estimates).for_each(|(sum, estimate)| *sum = sum.saturating_add(estimate));
        }
        Ok(sums)
    }

    /// The estimates with bounds that hold for each key with probability `confidence`: each pane may fail with its share of
    /// `1 - confidence`.
    ///
    /// # Errors
    /// As [`Frequency::bounds`].
    pub fn bounds(&self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        let mut sums = vec![CountBounds::default(); hashes.len()];
        let each = 1.0 - (1.0 - confidence) / self.panes.len() as f64;
        for pane in &*self.panes {
            for (sum, bounds) in sums.iter_mut().zip(pane.bounds(hashes, each)?) {
                sum.lower = sum.lower.saturating_add(bounds.lower);
                sum.estimate = sum.estimate.saturating_add(bounds.estimate);
                sum.upper = sum.upper.saturating_add(bounds.upper);
            }
        }
        Ok(sums)
    }

    /// Moves the window on by one pane: what the oldest counted is forgotten. What waits in the newest is applied, for it
    /// takes no more; who adds meanwhile waits, who asks does not.
    ///
    /// # Errors
    /// `ReadOnly`, `Full` and other errors of writing; the window then stands where it stood.
    pub fn advance(&self) -> Result<()> {
        self.panes[0].sketch.writable()?;
        let _moves = write(&self.panes[0].sketch.window);
        let newest = self.newest();
        newest.sketch.apply_and_release()?;
        let next = epoch(newest) + 1;
        self.oldest().sketch.clear(Some(next))
    }

    /// Halves all counts, rounding down, in each pane: an estimate becomes its half, less at most one a pane. Pane by pane: an estimate,
    /// or a commit, that runs at the same time may have some of them halved and others not.
    ///
    /// # Errors
    /// `ReadOnly`; what the device says. Then some of the panes may be halved: the same call again would halve them twice, so their
    /// counts are of use only with the last commit.
    pub fn decay(&self) -> Result<()> {
        self.panes[0].sketch.writable()?;
        let _stays = write(&self.panes[0].sketch.window);
        self.panes.iter().try_for_each(Frequency::decay)
    }

    /// The sum of all weights in the window; `u64::MAX` stands for that and more.
    pub fn total_weight(&self) -> u64 {
        self.panes.iter().map(Frequency::total_weight).fold(0, u64::saturating_add)
    }

    /// How many panes there are.
    pub fn panes(&self) -> usize {
        self.panes.len()
    }

    /// The hash that its keys have.
    pub(super) fn hash_id(&self) -> HashId {
        self.panes[0].sketch.hash_id
    }

    /// The pane of the greatest epoch; of panes that were never advanced, the last.
    fn newest(&self) -> &Frequency {
        let newest = self.panes.iter().max_by_key(|pane| epoch(pane));
        newest.unwrap_or(&self.panes[0])
    }

    /// The pane of the least epoch; of panes that were never advanced, the first.
    fn oldest(&self) -> &Frequency {
        let oldest = self.panes.iter().min_by_key(|pane| epoch(pane));
        oldest.unwrap_or(&self.panes[0])
    }
}

/// Which pane of its window a sketch is.
fn epoch(pane: &Frequency) -> u64 {
    lock(&pane.sketch.table).epoch
}
