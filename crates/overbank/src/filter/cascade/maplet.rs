//! Maplets: a value of a few bits beside each fingerprint.
//!
//! ```text
//!   an entry   │ fingerprint of the key │ value │      a key may have several: its entries are neighbours
//! ```
//!
//! What a lookup finds are the values of all keys with the same fingerprint: those of the key, and seldom others. Runs, merges and
//! removals know of longer fingerprints only; so a maplet is a cascade filter in all but its questions.

use super::fingerprints::Fingerprints;
use super::options::CascadeOptions;
use super::query::{DEPTH, View};
use super::report::Report;
use super::shared::Shared;
use super::{CascadeFilter, CascadeReader, CascadeWriter};
use crate::error::invalid;
use crate::filter::run::values_many;
use crate::lock::lock;
use crate::{KeyHash, Result};
use std::collections::BTreeMap;

/// The values of a key, ascending, and how often each is there.
pub type Values = Vec<(u16, u64)>;

/// A multimap in a store, from keys to small values; the keys themselves are not kept, so a lookup may find values of others, at the
/// false-positive rate.
///
/// A key can have several values, and each of them several times. Whatever is put in or taken out is a pair of a key and a value.
///
/// ```
/// use overbank::filter::cascade::CascadeOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let shards = store.maplet("shards", CascadeOptions { value_bits: 4, ..CascadeOptions::default() })?;
/// let mut shards = shards.lock().unwrap();
/// let hashes = ["a", "b", "a"].map(|key| store.hasher().hash(key.as_bytes()));
/// shards.insert(&hashes, &[3, 5, 7])?;
/// assert_eq!(shards.values_many(&hashes[..2])?, [vec![(3, 1), (7, 1)], vec![(5, 1)]]);
/// assert_eq!(shards.remove_if_present(&hashes[..2], &[3, 3])?, [true, false]);
/// assert_eq!(shards.contains_many(&hashes[..1])?, [true]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct Maplet {
    pub(super) filter: CascadeFilter,
}

/// Puts pairs into a maplet, and takes them out, beside other writers, from a thread of its own.
#[derive(Debug)]
pub struct MapletWriter {
    writer: CascadeWriter,
}

/// Asks a maplet beside those who write to it. It sees all that was inserted before it is asked.
#[derive(Clone, Debug)]
pub struct MapletReader {
    reader: CascadeReader,
}

impl Maplet {
    /// Adds an occurrence of each key with the value beside it.
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`]; `InvalidOption` for a value of more than [`CascadeOptions::value_bits`], or another number of
    /// values than of keys.
    pub fn insert(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.filter.shared.add_pairs(0, hashes, values, false)
    }

    /// Takes an occurrence of each key with the value beside it away. Only for pairs that are in: see [`CascadeFilter::remove`].
    ///
    /// # Errors
    /// As [`Maplet::insert`] and [`CascadeFilter::remove`].
    pub fn remove(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.filter.shared.add_pairs(0, hashes, values, true)
    }

    /// Takes an occurrence of each pair away that is in, and tells for each whether it was: a pair that is in twice can be removed
    /// twice by one batch. Other values of the key stay.
    ///
    /// # Errors
    /// As [`Maplet::remove`], with any part of the batch removed.
    pub fn remove_if_present(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<Vec<bool>> {
        let shared = &self.filter.shared;
        shared.check_values(hashes, values)?;
        shared.removable()?;
        let mut mask = Vec::with_capacity(hashes.len());
        let at_once = shared.options.questions();
        for (hashes, values) in hashes.chunks(at_once).zip(values.chunks(at_once)) {
            let fingerprint = shared.place(shared.state().writes).mask;
            let mut left: BTreeMap<(u64, u16), u64> = BTreeMap::new();
            for (hash, found) in hashes.iter().zip(shared.values_of(hashes)?) {
                left.extend(
                    found.into_iter().map(|(value, count)| ((hash.high() & fingerprint, value), count)),
                );
            }
            let mut gone = (Vec::new(), Vec::new());
            for (hash, &value) in hashes.iter().zip(values) {
                let count = left.get_mut(&(hash.high() & fingerprint, value)).filter(|count| **count > 0);
                mask.push(count.is_some());
                if let Some(count) = count {
                    *count -= 1;
                    gone.0.push(*hash);
                    gone.1.push(value);
                }
            }
            shared.add_pairs(0, &gone.0, &gone.1, true)?;
        }
        Ok(mask)
    }

    /// The values of each key: all that were inserted and not removed, and with the false-positive rate others.
    ///
    /// # Cost
    /// As [`CascadeFilter::count_many`].
    ///
    /// # Errors
    /// As there.
    pub fn values_many(&self, hashes: &[KeyHash]) -> Result<Vec<Values>> {
        self.filter.shared.values_of(hashes)
    }

    /// Whether each key has a value.
    ///
    /// # Errors
    /// As [`Maplet::values_many`].
    pub fn contains_many(&self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        Ok(self.values_many(hashes)?.iter().map(|values| !values.is_empty()).collect())
    }

    /// For another thread to insert and remove with, side by side with this one.
    ///
    /// # Errors
    /// As [`CascadeFilter::writer`].
    pub fn writer(&mut self) -> Result<MapletWriter> {
        Ok(MapletWriter { writer: self.filter.writer()? })
    }

    /// For other threads to ask with, while this one inserts.
    pub fn reader(&self) -> MapletReader {
        MapletReader { reader: self.filter.reader() }
    }

    /// Adds every pair of `other`, whose values have as many bits.
    ///
    /// # Errors
    /// As [`CascadeFilter::merge_from`].
    pub fn merge_from(&mut self, other: &Maplet) -> Result<()> {
        self.filter.merge_from(&other.filter)
    }

    /// As [`CascadeFilter::advance`].
    ///
    /// # Errors
    /// As there.
    pub fn advance(&mut self) -> Result<()> {
        self.filter.advance()
    }

    /// As [`CascadeFilter::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&mut self) -> Result<()> {
        self.filter.flush()
    }

    /// As [`CascadeFilter::settle`].
    ///
    /// # Errors
    /// As there.
    pub fn settle(&mut self) -> Result<()> {
        self.filter.settle()
    }

    /// As [`CascadeFilter::compact`].
    ///
    /// # Errors
    /// As there.
    pub fn compact(&mut self) -> Result<()> {
        self.filter.compact()
    }

    /// All fingerprints that have a value, each with its values and their counts; see [`CascadeFilter::fingerprints`].
    ///
    /// # Errors
    /// As there.
    pub fn fingerprints(&self) -> Result<Fingerprints> {
        self.filter.fingerprints()
    }

    /// What the maplet holds and costs now; a fingerprint counts once for each of its values.
    pub fn report(&self) -> Report {
        self.filter.report()
    }
}

impl MapletWriter {
    /// As [`Maplet::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.writer.shared.add_pairs(self.writer.slot, hashes, values, false)
    }

    /// As [`Maplet::remove`].
    ///
    /// # Errors
    /// As there.
    pub fn remove(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.writer.shared.add_pairs(self.writer.slot, hashes, values, true)
    }
}

impl MapletReader {
    /// As [`Maplet::values_many`].
    ///
    /// # Errors
    /// As there.
    pub fn values_many(&self, hashes: &[KeyHash]) -> Result<Vec<Values>> {
        self.reader.shared.values_of(hashes)
    }
}

impl Shared {
    /// Adds pairs through the log of a writer.
    fn add_pairs(
        self: &std::sync::Arc<Self>,
        slot: usize,
        hashes: &[KeyHash],
        values: &[u16],
        is_removal: bool,
    ) -> Result<()> {
        self.check_values(hashes, values)?;
        if is_removal {
            self.removable()?;
        }
        let pairs = hashes.iter().zip(values).map(|(hash, &value)| (hash.high(), value.into()));
        self.add(slot, pairs, is_removal)
    }

    fn check_values(&self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        let CascadeOptions { value_bits, .. } = self.options;
        if hashes.len() != values.len() {
            return invalid(
                "values",
                values.len(),
                format!("there is one for each of {} keys", hashes.len()),
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
    fn values_of(&self, hashes: &[KeyHash]) -> Result<Vec<Values>> {
        let mut asked: Vec<(u64, usize)> = hashes.iter().map(|hash| hash.high()).zip(0..).collect();
        asked.sort_unstable();
        let mut answers = vec![Values::new(); hashes.len()];
        for asked in asked.chunks(self.options.questions()) {
            let prefixes: Vec<u64> = asked.iter().map(|one| one.0).collect();
            for (one, values) in asked.iter().zip(self.values(&prefixes)?) {
                let there = values.into_iter().filter(|value| value.1 > 0);
                answers[one.1] = there.map(|(value, count)| (value as u16, count as u64)).collect();
            }
        }
        Ok(answers)
    }

    /// The values of ascending prefixes of hashes, with the sums of their counts.
    fn values(&self, prefixes: &[u64]) -> Result<Vec<BTreeMap<u64, i64>>> {
        self.tree.join_frozen()?;
        let mut sums = vec![BTreeMap::new(); prefixes.len()];
        let mut slots: Vec<_> = self.slots.iter().map(lock).collect();
        let view = View::of(&self.state());
        for slot in slots.iter_mut().filter(|slot| !slot.log.is_empty()) {
            let place = self.place(slot.class);
            for (prefix, sums) in prefixes.iter().zip(&mut sums) {
                slot.log.each_value(prefix & place.mask, place, |value, count| {
                    *sums.entry(value).or_default() += count
                });
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
