//! Maplets: a value of a few bits beside each fingerprint.
//!
//! ```text
//!   an entry   │ fingerprint of the key │ value │      a key may have several: its entries are neighbours
//! ```
//!
//! What a lookup finds are the values of all keys with the same fingerprint: those of the key, and seldom others. Runs, merges and
//! removals know of longer fingerprints only; so a maplet is a cascade filter in all but its questions.

use super::fingerprints::CountedFingerprints;
use super::options::FilterOptions;
use super::query::{DEPTH, View};
use super::report::FilterReport;
use super::shared::Shared;
use super::{Filter, prefixes};
use crate::batch::ask_in_order;
use crate::error::invalid;
use crate::filter::run::values_many;
use crate::lock::lock;
use crate::{KeyHash, KeyHasher, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of a key, ascending, and how often each is there.
pub type KeyValues = Vec<(u16, u64)>;

/// A multimap in a store, from keys to small values; the keys themselves are not kept, so a lookup may find values of others, at the
/// false-positive rate. A handle, whose clones are the same maplet.
///
/// A key can have several values, and each of them several times. Whatever is put in or taken out is a pair of a key and a value. Threads
/// share it as they share a [`Filter`], and it blocks as that does.
///
/// ```
/// use overbank::filter::cascade::MapletOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let shards = store.maplet("shards", MapletOptions::new().value_bits(4))?;
/// let hashes = ["a", "b", "a"].map(|key| store.hasher().hash(key.as_bytes()));
/// shards.insert(&hashes, &[3, 5, 7])?;
/// assert_eq!(shards.values_many(&hashes[..2])?, [vec![(3, 1), (7, 1)], vec![(5, 1)]]);
/// assert_eq!(shards.remove_if_present(&hashes[..2], &[3, 3])?, [true, false]);
/// assert_eq!(shards.contains_many(&hashes[..1])?, [true]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Maplet {
    pub(super) filter: Filter,
}

impl Maplet {
    fn shared(&self) -> &Arc<Shared> {
        self.filter.shared()
    }

    /// Adds an occurrence of each key with the value beside it.
    ///
    /// # Errors
    /// As [`Filter::insert`]; `InvalidOption` for a value of more than [`MapletOptions::value_bits`](super::MapletOptions::value_bits),
    /// or another number of values than of keys.
    pub fn insert(&self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.shared().add_pairs(&prefixes(hashes), values, false)
    }

    /// As [`Maplet::insert`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn insert_keys<K: AsRef<[u8]>>(&self, keys: &[K], values: &[u16]) -> Result<()> {
        self.shared().add_pairs(&self.filter.hashed(keys), values, false)
    }

    /// Takes an occurrence of each key with the value beside it away. Only for pairs that are in: see [`Filter::remove`].
    ///
    /// # Errors
    /// As [`Maplet::insert`] and [`Filter::remove`].
    pub fn remove(&self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.shared().add_pairs(&prefixes(hashes), values, true)
    }

    /// Takes an occurrence of each pair away that is in, and tells for each whether it was: a pair that is in twice can be removed
    /// twice by one batch. Other values of the key stay.
    ///
    /// # Errors
    /// As [`Maplet::remove`], with any part of the batch removed.
    pub fn remove_if_present(&self, hashes: &[KeyHash], values: &[u16]) -> Result<Vec<bool>> {
        self.shared().remove_pairs_if_present(&prefixes(hashes), values)
    }

    /// The values of each key: all that were inserted and not removed, and with the false-positive rate others.
    ///
    /// # Cost
    /// As [`Filter::count_many`].
    ///
    /// # Errors
    /// As there.
    pub fn values_many(&self, hashes: &[KeyHash]) -> Result<Vec<KeyValues>> {
        self.shared().values_of(&prefixes(hashes))
    }

    /// As [`Maplet::values_many`], of keys that are not hashed yet.
    ///
    /// # Errors
    /// As there.
    pub fn values_of_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<KeyValues>> {
        self.shared().values_of(&self.filter.hashed(keys))
    }

    /// Whether each key has a value.
    ///
    /// # Errors
    /// As [`Maplet::values_many`].
    pub fn contains_many(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        Ok(self.values_many(hashes)?.iter().map(|values| !values.is_empty()).collect())
    }

    /// Adds every pair of `other`, whose values have as many bits.
    ///
    /// # Errors
    /// As [`Filter::merge_from`].
    pub fn merge_from(&self, other: &Maplet) -> Result<()> {
        self.filter.merge_from(&other.filter)
    }

    /// As [`Filter::advance`].
    ///
    /// # Errors
    /// As there.
    pub fn advance(&self) -> Result<()> {
        self.filter.advance()
    }

    /// As [`Filter::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<()> {
        self.filter.flush()
    }

    /// As [`Filter::settle`].
    ///
    /// # Errors
    /// As there.
    pub fn settle(&self) -> Result<()> {
        self.filter.settle()
    }

    /// As [`Filter::compact`].
    ///
    /// # Errors
    /// As there.
    pub fn compact(&self) -> Result<()> {
        self.filter.compact()
    }

    /// All fingerprints that have a value, each with its values and their counts; see [`Filter::fingerprints`].
    ///
    /// # Errors
    /// As there.
    pub fn fingerprints(&self) -> Result<CountedFingerprints> {
        self.filter.fingerprints()
    }

    /// What the maplet holds and costs now; a fingerprint counts once for each of its values.
    pub fn report(&self) -> FilterReport {
        self.filter.report()
    }

    /// How the maplet's keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.filter.hasher()
    }
}

impl Shared {
    /// Adds pairs of a key's hash and a value.
    fn add_pairs(self: &Arc<Self>, prefixes: &[u64], values: &[u16], is_removal: bool) -> Result<()> {
        self.check_values(prefixes, values)?;
        if is_removal {
            self.removable()?;
        }
        let pairs = prefixes.iter().zip(values).map(|(&prefix, &value)| (prefix, value.into()));
        self.add(pairs, is_removal)
    }

    /// Removes an occurrence of each pair that is in, and tells for each whether it was.
    fn remove_pairs_if_present(self: &Arc<Self>, prefixes: &[u64], values: &[u16]) -> Result<Vec<bool>> {
        self.check_values(prefixes, values)?;
        self.removable()?;
        let mut mask = Vec::with_capacity(prefixes.len());
        let at_once = self.options.questions();
        for (prefixes, values) in prefixes.chunks(at_once).zip(values.chunks(at_once)) {
            // Nobody else removes one of these pairs from the question until it is gone.
            let _held = self.tree.table.shards.hold_range(0..=u64::MAX);
            let fingerprint = self.place(self.state().writes).mask;
            let mut left: BTreeMap<(u64, u16), u64> = BTreeMap::new();
            for (prefix, found) in prefixes.iter().zip(self.values_of(prefixes)?) {
                left.extend(found.into_iter().map(|(value, count)| ((prefix & fingerprint, value), count)));
            }
            let mut gone = (Vec::new(), Vec::new());
            for (&prefix, &value) in prefixes.iter().zip(values) {
                let count = left.get_mut(&(prefix & fingerprint, value)).filter(|count| **count > 0);
                mask.push(count.is_some());
                if let Some(count) = count {
                    *count -= 1;
                    gone.0.push(prefix);
                    gone.1.push(value);
                }
            }
            self.add_pairs(&gone.0, &gone.1, true)?;
        }
        Ok(mask)
    }

    fn check_values(&self, prefixes: &[u64], values: &[u16]) -> Result<()> {
        let FilterOptions { value_bits, .. } = self.options;
        if prefixes.len() != values.len() {
            return invalid(
                "values",
                values.len(),
                format!("there is one for each of {} keys", prefixes.len()),
            );
        }
        match values.iter().find(|&&value| u32::from(value) >> value_bits != 0) {
            Some(value) => {
                invalid("a value", value, format!("the maplet was made for values of {value_bits} bits"))
            }
            None => Ok(()),
        }
    }

    /// The values of keys, in their order.
    fn values_of(&self, prefixes: &[u64]) -> Result<Vec<KeyValues>> {
        let mut answers = vec![KeyValues::new(); prefixes.len()];
        let ask = |prefixes: &[u64], found: &mut Vec<BTreeMap<u64, i64>>| {
            found.extend(self.values(prefixes)?);
            Ok(())
        };
        ask_in_order(prefixes.iter().copied(), self.options.questions(), ask, |at, values| {
            let there = values.into_iter().filter(|value| value.1 > 0);
            answers[at] = there.map(|(value, count)| (value as u16, count as u64)).collect();
        })?;
        Ok(answers)
    }

    /// The values of ascending prefixes of hashes, with the sums of their counts.
    fn values(&self, prefixes: &[u64]) -> Result<Vec<BTreeMap<u64, i64>>> {
        self.usable()?;
        self.tree.join_frozen()?;
        let mut sums = vec![BTreeMap::new(); prefixes.len()];
        let mut slots: Vec<_> = self.slots.iter().map(lock).collect();
        let view = View::of(&self.state());
        for slot in slots.iter_mut().filter(|slot| !slot.memtable.is_empty()) {
            let place = self.place(slot.class);
            for (prefix, sums) in prefixes.iter().zip(&mut sums) {
                slot.memtable
                    .each_value(*prefix, place, |value, count| *sums.entry(value).or_default() += count);
            }
        }
        drop(slots);
        self.tend_fronts(&view.version);
        let found = values_many(&self.files, &view.sources(), self.options.value_bits, prefixes, DEPTH)?;
        for (i, sums) in sums.iter_mut().enumerate() {
            for &(value, count) in found.of(i) {
                *sums.entry(value).or_default() += count;
            }
        }
        Ok(sums)
    }
}
