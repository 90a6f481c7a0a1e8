//! The cascade filter: membership, counts and removals of more keys than RAM holds, on flash.
//!
//! ```text
//!   hashes ─▶ memtable ─full: sort, pack─▶ packed runs, RAM ─flush─▶ runs on flash ─merge─▶ fewer, longer runs
//!              └──────────── a lookup asks all of them: one block a run on flash, in one wave of reads ────┘
//! ```
//!
//! * `memtable`: the newest entries, and `writers`: who has which. `class`, `generations`: what they belong to. `table`: what the runs are
//!   that the room `lsm` merges. `intake`: entries in; `query`: questions; `arrivals`: both at once; `single`: one key at a time, whose
//!   entries stand in the `cells` of `shards`; `maplet`: with values. `fronts`: the memory that saves lookups reads. `upkeep`: flushes,
//!   panes, fronts; `merge_from`: two filters made one; `fingerprints`: all there are. `saved`, `format`: commits.
//!
//! Locks, in the order in which they are taken: shards are held, a writer slot, shards' locks from the first on, memtables', the tree's.
//! Merges take the last one only, commits all but the first two, and nothing is held or locked while flash is read but shards held.
//!
//! Invariants:
//! 1. The answers are those of a multiset of fingerprints, whatever the batches, flushes, merges, commits and threads.
//! 2. "No" is certain for a key that was inserted and not removed. "Yes" errs with the false-positive rate, at most
//!    [`FilterOptions::false_positive_rate`] whatever the number of keys, for hashes that are spread like random ones.
//! 3. "New" is certain: a key that [`Filter::insert_if_absent`] was asked for is found from then on, also where it was not
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
//! [`Filter::remove_if_present`] removes only what seems to be there.
//!
//! Source: Bender et al., Don't Thrash: How to Cache Your Hash on Flash (2012), section 2. Deviations: levels are packed runs, not
//! quotient filters (see `filter/run`); the fan-out is a choice; merges are deamortized and run beside inserts; fingerprints grow
//! with the number of keys.

mod arrivals;
mod cells;
mod class;
mod fingerprints;
mod format;
mod fronts;
mod generations;
mod intake;
mod maplet;
mod maplet_options;
mod memtable;
mod merge_from;
mod options;
mod plan;
mod query;
mod report;
mod saved;
mod shards;
mod shared;
mod single;
mod table;
#[cfg(test)]
mod tests;
mod upkeep;
mod writers;

pub use arrivals::Arrivals;
pub use fingerprints::{CountedFingerprints, DistinctKeys, Fingerprint};
pub use maplet::{KeyValues, Maplet};
pub use maplet_options::MapletOptions;
pub use options::{FilterOptions, Policy};
pub use plan::FilterPlan;
pub use report::{FilterReport, RunReport};

use crate::error::invalid;
use crate::store::Handle;
use crate::{KeyHash, KeyHasher, Result};
use saved::Core;
use shared::Shared;
use std::sync::Arc;

/// A filter in a store: a handle, whose clones are the same filter. With values beside its keys it is a [`Maplet`].
///
/// Any number of threads insert and ask at once; up to [`FilterOptions::writers`] of them insert side by side, others take turns. A
/// question sees all that was inserted before it. Calls block on the device: asynchronous code wraps them in `spawn_blocking`.
///
/// Keys are given as hashes of the store's [`hasher`](crate::store::Store::hasher), or as bytes, which are hashed so. A number that is
/// hashed by `hash_u64` and its digits as text are different keys.
///
/// ```
/// use overbank::filter::cascade::FilterOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let seen = store.filter("seen", FilterOptions::new().keys(1_000_000).false_positive_rate(1e-6))?;
/// assert_eq!(seen.insert_keys_if_absent(&["a", "b", "a"])?, [true, true, false]);
/// let of_another_thread = seen.clone();
/// std::thread::spawn(move || of_another_thread.insert_keys(&["c"])).join().unwrap()?;
/// assert!(seen.contains(store.hasher().hash(b"c"))?);
/// store.commit(b"")?;
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    core: Handle<Core>,
}

impl Filter {
    fn shared(&self) -> &Arc<Shared> {
        &self.core.shared
    }

    /// Adds an occurrence of each key.
    ///
    /// # Errors
    /// `Full`: nothing of the last 4096 keys was taken, what came before them is in the filter, and nothing is lost. `ReadOnly`;
    /// `Corrupt`, `Io` or `Poisoned` from a merge, with any part of the keys taken.
    pub fn insert(&self, hashes: &[KeyHash]) -> Result<()> {
        self.shared().add(hashes.iter().map(|hash| (hash.high(), 0)), false)
    }

    /// As [`Filter::insert`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn insert_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        self.add_keys(keys, false)
    }

    /// Takes an occurrence of each key away, by a removal that a merge annihilates with what it takes. Only for keys that are in:
    /// others can take away a key that has the same fingerprint, or a later insert.
    ///
    /// # Errors
    /// As [`Filter::insert`]; `InvalidOption` in a window.
    pub fn remove(&self, hashes: &[KeyHash]) -> Result<()> {
        self.shared().removable()?;
        self.shared().add(hashes.iter().map(|hash| (hash.high(), 0)), true)
    }

    /// As [`Filter::remove`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn remove_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        self.shared().removable()?;
        self.add_keys(keys, true)
    }

    /// Inserts the keys that are not in, and tells for each whether it was new: of equal ones in the batch, the first. A key that
    /// was asked for once is never new again, unless it, or one that it was taken for, is removed or forgotten with its pane. Of
    /// several threads that ask for one key, one is told that it is new.
    ///
    /// # Accuracy
    /// A new key is taken for one that is in at the false-positive rate, however many keys a batch has and the filter expected: a
    /// batch that is longer than the room left in a generation is asked for in parts.
    ///
    /// # Cost
    /// A lookup of each different key, at most all blocks of the filter once: large batches cost less a key; see [`Arrivals`].
    ///
    /// # Errors
    /// As [`Filter::insert`], with any part of the batch taken.
    pub fn insert_if_absent(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut is_new = vec![false; hashes.len()];
        self.insert_if_absent_into(hashes, &mut is_new)?;
        Ok(is_new)
    }

    /// As [`Filter::insert_if_absent`], with the answers written to `is_new`, one for each key.
    ///
    /// # Errors
    /// As there; `InvalidOption` for another number of answers than of keys.
    pub fn insert_if_absent_into(&self, hashes: &[KeyHash], is_new: &mut [bool]) -> Result<()> {
        check_answers(hashes.len(), is_new.len())?;
        is_new.fill(false);
        self.shared().insert_if_absent(&prefixes(hashes), is_new)
    }

    /// As [`Filter::insert_if_absent`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn insert_keys_if_absent<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut is_new = vec![false; keys.len()];
        self.shared().insert_if_absent(&self.hashed(keys), &mut is_new)?;
        Ok(is_new)
    }

    /// As [`Filter::insert_if_absent`], of one key: true if it was new.
    ///
    /// # Cost
    /// In RAM about as much as a few cache misses, and no allocation; on flash a block a run.
    ///
    /// # Errors
    /// As there.
    pub fn insert_one_if_absent(&self, hash: KeyHash) -> Result<bool> {
        self.shared().insert_one_if_absent(hash.high())
    }

    /// Removes an occurrence of each key that is in, and tells for each whether it was: a key that is in twice can be
    /// removed twice by one batch.
    ///
    /// # Errors
    /// As [`Filter::remove`], with any part of the batch removed.
    pub fn remove_if_present(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut was_there = vec![false; hashes.len()];
        self.remove_if_present_into(hashes, &mut was_there)?;
        Ok(was_there)
    }

    /// As [`Filter::remove_if_present`], with the answers written to `was_there`, one for each key.
    ///
    /// # Errors
    /// As there; `InvalidOption` for another number of answers than of keys.
    pub fn remove_if_present_into(&self, hashes: &[KeyHash], was_there: &mut [bool]) -> Result<()> {
        check_answers(hashes.len(), was_there.len())?;
        was_there.fill(false);
        self.shared().remove_if_present(&prefixes(hashes), was_there)
    }

    /// As [`Filter::remove_if_present`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn remove_keys_if_present<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut was_there = vec![false; keys.len()];
        self.shared().remove_if_present(&self.hashed(keys), &mut was_there)?;
        Ok(was_there)
    }

    /// Whether a key is in the filter.
    ///
    /// # Cost
    /// As [`Filter::insert_one_if_absent`].
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn contains(&self, hash: KeyHash) -> Result<bool> {
        Ok(self.shared().sum(hash.high(), true)? > 0)
    }

    /// Whether each key is in the filter.
    ///
    /// # Cost
    /// One block read a run and key at most, all in flight together; no read for keys that are in RAM.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn contains_many(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut are_in = vec![false; hashes.len()];
        self.contains_many_into(hashes, &mut are_in)?;
        Ok(are_in)
    }

    /// As [`Filter::contains_many`], with the answers written to `are_in`, one for each key.
    ///
    /// # Errors
    /// As there; `InvalidOption` for another number of answers than of keys.
    pub fn contains_many_into(&self, hashes: &[KeyHash], are_in: &mut [bool]) -> Result<()> {
        check_answers(hashes.len(), are_in.len())?;
        self.shared().ask(hashes.iter().map(|hash| hash.high()), true, |at, sum| are_in[at] = sum > 0)
    }

    /// As [`Filter::contains_many`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn contains_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut are_in = vec![false; keys.len()];
        let prefixes = self.hashed(keys);
        self.shared().ask(prefixes.into_iter(), true, |at, sum| are_in[at] = sum > 0)?;
        Ok(are_in)
    }

    /// How often a key is in the filter: at least as often as it was inserted and not removed.
    ///
    /// # Errors
    /// As [`Filter::contains`].
    pub fn count(&self, hash: KeyHash) -> Result<u64> {
        Ok(u64::try_from(self.shared().sum(hash.high(), false)?).unwrap_or(0))
    }

    /// How often each key is in the filter: at least as often as it was inserted and not removed.
    ///
    /// # Errors
    /// As [`Filter::contains_many`].
    pub fn count_many(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        let mut counts = vec![0; hashes.len()];
        self.count_many_into(hashes, &mut counts)?;
        Ok(counts)
    }

    /// As [`Filter::count_many`], with the answers written to `counts`, one for each key.
    ///
    /// # Errors
    /// As there; `InvalidOption` for another number of answers than of keys.
    pub fn count_many_into(&self, hashes: &[KeyHash], counts: &mut [u64]) -> Result<()> {
        check_answers(hashes.len(), counts.len())?;
        let prefixes = hashes.iter().map(|hash| hash.high());
        self.shared().ask(prefixes, false, |at, sum| counts[at] = u64::try_from(sum).unwrap_or(0))
    }

    /// Begins the next pane of a window; what is older than its panes is forgotten, and its files go with the next commit.
    ///
    /// # Errors
    /// `InvalidOption` without panes; as [`Filter::insert`].
    pub fn advance(&self) -> Result<()> {
        self.shared().advance()
    }

    /// Writes all that is in RAM to flash.
    ///
    /// # Errors
    /// As [`Filter::insert`].
    pub fn flush(&self) -> Result<()> {
        self.shared().flush()
    }

    /// Works until no merge is due, those tried again that found the disk full: lookups read the fewest runs then that the policy
    /// has. If keys were looked up before, the runs' fronts are made, too.
    ///
    /// # Errors
    /// As [`Filter::insert`].
    pub fn settle(&self) -> Result<()> {
        self.shared().finish_merges()
    }

    /// Merges everything to one run (one for each length of fingerprints, and pane): the fewest blocks and reads.
    ///
    /// # Cost
    /// Reads and writes the whole filter once.
    ///
    /// # Errors
    /// As [`Filter::insert`].
    pub fn compact(&self) -> Result<()> {
        self.shared().compact()
    }

    /// How the filter's keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.shared().hasher
    }

    /// The options that it has, those of a stored one included.
    pub fn options(&self) -> FilterOptions {
        self.shared().options
    }

    /// Hashes keys, some thousands at a time, and adds them. No lock is held while a key gives its bytes.
    fn add_keys<K: AsRef<[u8]>>(&self, keys: &[K], is_removal: bool) -> Result<()> {
        for keys in keys.chunks(intake::CHUNK_KEYS) {
            self.shared().add(self.hashed(keys).into_iter().map(|prefix| (prefix, 0)), is_removal)?;
        }
        Ok(())
    }

    fn hashed<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<u64> {
        let hasher = self.shared().hasher;
        keys.iter().map(|key| hasher.hash(key.as_ref()).high()).collect()
    }
}

fn prefixes(hashes: &[KeyHash]) -> Vec<u64> {
    hashes.iter().map(|hash| hash.high()).collect()
}

/// There is an answer for each key.
fn check_answers(keys: usize, answers: usize) -> Result<()> {
    if keys == answers {
        return Ok(());
    }
    invalid("answers", answers, format!("there is one for each of {keys} keys"))
}
