//! Maplets: a value of a few bits beside each fingerprint.
//!
//! An entry is a fingerprint followed by its value; a key may have several. What a lookup finds are the values of all keys with the
//! same fingerprint: those of the key, and seldom others.

use super::CascadeFilter;
use super::query::{DEPTH, View};
use super::shared::{Shared, lock};
use crate::error::invalid;
use crate::filter::run::values_many;
use crate::{KeyHash, Result};
use std::collections::BTreeMap;

/// The values of a key, ascending, and how often each is there.
pub type Values = Vec<(u16, u64)>;

impl CascadeFilter {
    /// Adds an occurrence of each key with the value beside it.
    ///
    /// # Errors
    /// As [`CascadeFilter::insert`]; `InvalidOption` for a value of more than `value_bits`, or another number of values than of keys.
    pub fn insert_values(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.check_values(hashes, values)?;
        self.shared.add(0, entries(hashes, values), false)
    }

    /// Takes an occurrence of each key with the value beside it away. Only what is there: see [`CascadeFilter::remove`].
    ///
    /// # Errors
    /// As [`CascadeFilter::insert_values`] and [`CascadeFilter::remove`].
    pub fn remove_values(&mut self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        self.check_values(hashes, values)?;
        self.shared.removable()?;
        self.shared.add(0, entries(hashes, values), true)
    }

    /// The values of each key: all that were inserted and not removed, and with the false-positive rate others.
    ///
    /// # Cost
    /// As [`CascadeFilter::count_many`].
    ///
    /// # Errors
    /// As there; `InvalidOption` for a filter without values.
    pub fn values_many(&self, hashes: &[KeyHash]) -> Result<Vec<Values>> {
        if self.shared.options.value_bits == 0 {
            return invalid(
                "value_bits",
                0,
                "the filter was made without values; choose 1 to 16 bits when it is made",
            );
        }
        let mut asked: Vec<(u64, usize)> = hashes.iter().map(|hash| hash.high()).zip(0..).collect();
        asked.sort_unstable();
        let mut answers = vec![Values::new(); hashes.len()];
        for asked in asked.chunks(self.shared.options.questions()) {
            let prefixes: Vec<u64> = asked.iter().map(|one| one.0).collect();
            for (one, values) in asked.iter().zip(self.shared.values(&prefixes)?) {
                let there = values.into_iter().filter(|value| value.1 > 0);
                answers[one.1] = there.map(|(value, count)| (value as u16, count as u64)).collect();
            }
        }
        Ok(answers)
    }

    fn check_values(&self, hashes: &[KeyHash], values: &[u16]) -> Result<()> {
        let bits = self.shared.options.value_bits;
        if hashes.len() != values.len() {
            return invalid(
                "values",
                values.len(),
                format!("there is one for each of {} keys", hashes.len()),
            );
        }
        match values.iter().find(|&&value| u32::from(value) >> bits != 0) {
            Some(value) => {
                invalid("a value", value, format!("the filter was made for values of {bits} bits"))
            }
            None => Ok(()),
        }
    }
}

fn entries(hashes: &[KeyHash], values: &[u16]) -> impl ExactSizeIterator<Item = (u64, u64)> {
    hashes.iter().zip(values).map(|(hash, &value)| (hash.high(), value.into()))
}

impl Shared {
    /// The values of ascending prefixes of hashes, with the sums of their counts.
    pub(super) fn values(&self, prefixes: &[u64]) -> Result<Vec<BTreeMap<u64, i64>>> {
        self.join_packed()?;
        let mut sums = vec![BTreeMap::new(); prefixes.len()];
        let mut slots: Vec<_> = self.slots.iter().map(lock).collect();
        let view = View::of(&self.board());
        for slot in slots.iter_mut().filter(|slot| !slot.log.is_empty()) {
            let place = self.place(slot.era);
            for (prefix, sums) in prefixes.iter().zip(&mut sums) {
                slot.log.each_value(prefix & place.mask, place, |value, count| {
                    *sums.entry(value).or_default() += count
                });
            }
        }
        drop(slots);
        let found = values_many(&self.files, &view.sources(), self.options.value_bits, prefixes, DEPTH)?;
        for (i, sums) in sums.iter_mut().enumerate() {
            for &(value, count) in found.of(i) {
                *sums.entry(value).or_default() += count;
            }
        }
        Ok(sums)
    }
}
