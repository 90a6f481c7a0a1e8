//! The cascade filter: membership, counts and removals of more keys than RAM holds, on flash.
//!
//! ```text
//!   hashes ─▶ log ─full: sort, pack─▶ packed runs, RAM ─flush─▶ runs on flash ─merge─▶ fewer, longer runs
//!              └──────────── a lookup asks all of them: one block a run on flash, in one wave of reads ────┘
//! ```
//!
//! * `memtable`: the newest entries. `write_class`: what they belong to. `table`: what the runs are that the room `lsm` merges.
//!   `intake`, `query`, `arrivals`: entries in, questions, and both at once; `maplet`: with values. `merge_from`: two filters made one;
//!   `fingerprints`: all there are. `fronts`: the memory that saves lookups reads. `saved`, `format`: commits.
//!
//! Invariants:
//! 1. The answers are those of a multiset of fingerprints, whatever the batches, flushes, merges, commits and threads.
//! 2. "No" is certain for a key that was inserted and not removed. "Yes" errs with the false-positive rate, at most
//!    [`CascadeOptions::false_positive_rate`] whatever the number of keys, for hashes that are spread like random ones.
//! 3. "New" is certain: a key that [`CascadeFilter::insert_if_absent`] was asked for is found from then on, also where it was not
//!    inserted because it was taken for another key. What it was taken for has its bits, and stays; if that is removed or
//!    forgotten with its pane, so is the key.
//! 4. No entry is longer than those that come in now, so its fingerprints tell all apart that the filter tells apart.
//! 5. An insert waits for no merge: it does a share of the work that is due, a few milliseconds at a time.
//! 6. Merges that find the disk full, or are cut off, keep what they published, leave the rest as it was, and go on later.
//! 7. While writers rest, merges go on to two runs of each kind at most; the first insert stops them.
//!
//! | n keys, m in RAM, fan-out T, L = log_T(n / m) levels, B = 2,400 keys a block | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | insert, remove a key | O(lg m + L), sequential | L / B | (L + 1) / B | 23 to 26 bits until it is flushed |
//! | look k keys up | O(k (lg m + T L)) | at most k a run, fewer behind fronts; at most all blocks once | 0 | reads in flight, fronts |
//! | commit | | 0 | what is in RAM | |
//!
//! Removing a key that was never inserted can remove another one with the same fingerprint, or hide a later insert:
//! [`CascadeFilter::remove_if_present`] removes only what seems to be there.
//!
//! Source: Bender et al., Don't Thrash: How to Cache Your Hash on Flash (2012), section 2. Deviations: levels are packed runs, not
//! quotient filters (see `filter/run`); the fan-out is a choice; merges are deamortized and run beside inserts; fingerprints grow
//! with the number of keys.

mod arrivals;
mod fingerprints;
mod format;
mod fronts;
mod intake;
mod maplet;
mod memtable;
mod merge_from;
mod options;
mod plan;
mod query;
mod report;
mod saved;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod write_class;

pub use arrivals::Arrivals;
pub use fingerprints::{Distinct, Fingerprint, Fingerprints};
pub use intake::CascadeWriter;
pub use maplet::{Maplet, MapletReader, MapletWriter, Values};
pub use options::{CascadeOptions, Policy};
pub use plan::Plan;
pub use query::CascadeReader;
pub use report::{Report, RunReport};

use crate::error::invalid;
use crate::store::Reservation;
use crate::{KeyHash, Result};
use shared::Shared;
use std::sync::Arc;
use write_class::WriteClass;

/// A filter in a store. With values beside its keys it is a [`Maplet`].
///
/// ```
/// use overbank::filter::cascade::CascadeOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let filter = store.cascade("seen", CascadeOptions::default())?;
/// let mut filter = filter.lock().unwrap();
/// let hashes = ["a", "b", "a"].map(|key| store.hasher().hash(key.as_bytes()));
/// assert_eq!(filter.insert_if_absent(&hashes)?, [true, true, false]);
/// assert_eq!(filter.contains_many(&hashes[..1])?, [true]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct CascadeFilter {
    shared: Arc<Shared>,
    writers_given: usize,
    _reservation: Reservation,
}

impl CascadeFilter {
    /// Adds an occurrence of each key.
    ///
    /// # Errors
    /// `Full`: nothing of the last 4096 keys was taken, what came before them is in the filter, and nothing is lost. `ReadOnly`;
    /// `Corrupt`, `Io` or `Poisoned` from a merge, with any part of the keys taken.
    pub fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        self.shared.add(0, hashes.iter().map(|hash| (hash.high(), 0)), false)
    }

    /// Takes an occurrence of each key away, by a removal that a merge annihilates with what it takes. Only for keys that are in:
    /// others can take away a key that has the same fingerprint, or a later insert.
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`]; `InvalidOption` in a window.
    pub fn remove(&mut self, hashes: &[KeyHash]) -> Result<()> {
        self.shared.removable()?;
        self.shared.add(0, hashes.iter().map(|hash| (hash.high(), 0)), true)
    }

    /// Inserts the keys that are not in, and tells for each whether it was new: of equal ones in the batch, the first. A key that
    /// was asked for once is never new again, unless it, or one that it was taken for, is removed or forgotten with its pane.
    ///
    /// # Accuracy
    /// A new key is taken for one that is in at the false-positive rate, however many keys a batch has and the filter expected: a
    /// batch that is longer than the room left in a generation is asked for in parts.
    ///
    /// # Cost
    /// A lookup of each different key, at most all blocks of the filter once: large batches cost less a key; see [`Arrivals`].
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`], with any part of the batch taken.
    pub fn insert_if_absent(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut mask = vec![false; hashes.len()];
        self.shared.insert_if_absent(0, &prefixes(hashes), &mut mask)?;
        Ok(mask)
    }

    /// Removes an occurrence of each key that is in, and tells for each whether it was: a key that is in twice can be
    /// removed twice by one batch.
    ///
    /// # Errors
    /// As [`CascadeFilter::remove`], with any part of the batch removed.
    pub fn remove_if_present(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut mask = vec![false; hashes.len()];
        self.shared.remove_if_present(0, &prefixes(hashes), &mut mask)?;
        Ok(mask)
    }

    /// Whether each key is in the filter.
    ///
    /// # Cost
    /// One block read a run and key at most, all in flight together; no read for keys that are in RAM.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn contains_many(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        self.reader().contains_many(hashes)
    }

    /// How often each key is in the filter: at least as often as it was inserted and not removed.
    ///
    /// # Errors
    /// As [`CascadeFilter::contains_many`].
    pub fn count_many(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        self.reader().count_many(hashes)
    }

    /// For another thread to insert and remove with, side by side with this one.
    ///
    /// # Errors
    /// `InvalidOption` beyond [`CascadeOptions::writers`].
    pub fn writer(&mut self) -> Result<CascadeWriter> {
        let slots = self.shared.slots.len();
        if self.writers_given + 1 >= slots {
            let why = format!("the filter was opened for {slots}, itself among them; raise `writers`");
            return invalid("writers", self.writers_given + 2, why);
        }
        self.writers_given += 1;
        Ok(CascadeWriter { shared: Arc::clone(&self.shared), slot: self.writers_given })
    }

    /// For other threads to ask with, while this one inserts. It sees all that was inserted before it is asked.
    pub fn reader(&self) -> CascadeReader {
        CascadeReader { shared: Arc::clone(&self.shared) }
    }

    /// Begins the next pane of a window; what is older than its panes is forgotten, and its files go with the next commit.
    ///
    /// # Errors
    /// `InvalidOption` without panes; as [`CascadeFilter::insert`].
    pub fn advance(&mut self) -> Result<()> {
        let panes = u64::from(self.shared.options.panes);
        if panes == 0 {
            return invalid(
                "panes",
                0,
                "a filter that forgets has at least one; choose `panes` when it is made",
            );
        }
        self.shared.writable()?;
        self.shared.freeze_all()?;
        let mut state = self.shared.state();
        let WriteClass { revision, pane, .. } = state.writes;
        state.writes = WriteClass { revision: revision + 1, pane: pane + 1, ..state.writes };
        self.shared.note_class(&state);
        let oldest = (pane + 2).saturating_sub(panes);
        let dead = state.drop_classes(|class| class.pane < oldest);
        self.shared.tree.schedule(&mut state);
        drop(state);
        self.shared.tree.retire(dead);
        Ok(())
    }

    /// Writes all that is in RAM to flash.
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`].
    pub fn flush(&mut self) -> Result<()> {
        self.shared.writable()?;
        self.shared.freeze_all()?;
        self.shared.tree.flush()
    }

    /// Works until no merge is due, those tried again that found the disk full: lookups read the fewest runs then that the policy
    /// has. If keys were looked up before, the runs' fronts are made, too.
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`].
    pub fn settle(&mut self) -> Result<()> {
        self.shared.writable()?;
        let first_job = self.shared.state().next_job();
        self.shared.tree.finish_merges(first_job)?;
        self.shared.finish_fronts()
    }

    /// Merges everything to one run (one for each length of fingerprints, and pane): the fewest blocks and reads.
    ///
    /// # Cost
    /// Reads and writes the whole filter once.
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`].
    pub fn compact(&mut self) -> Result<()> {
        self.flush()?;
        self.settle()?;
        self.shared.tree.merge_all()?;
        self.shared.finish_fronts()
    }
}

fn prefixes(hashes: &[KeyHash]) -> Vec<u64> {
    hashes.iter().map(|hash| hash.high()).collect()
}
