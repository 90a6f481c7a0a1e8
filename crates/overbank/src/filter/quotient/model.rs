//! The obvious quotient filter: a map from fingerprint to multiplicity.

use crate::KeyHash;
use std::collections::BTreeMap;

/// The oracle.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Model {
    fingerprint_bits: u32,
    counts: BTreeMap<u64, u64>,
}

impl Model {
    pub(super) fn new(fingerprint_bits: u32) -> Self {
        Self { fingerprint_bits, counts: BTreeMap::new() }
    }

    fn fingerprint(&self, hash: KeyHash) -> u64 {
        hash.high() >> (64 - self.fingerprint_bits)
    }

    pub(super) fn insert(&mut self, hash: KeyHash) {
        *self.counts.entry(self.fingerprint(hash)).or_default() += 1;
    }

    pub(super) fn insert_if_absent(&mut self, hash: KeyHash) -> bool {
        let absent = self.count(hash) == 0;
        if absent {
            self.insert(hash);
        }
        absent
    }

    pub(super) fn remove(&mut self, hash: KeyHash) -> bool {
        let fingerprint = self.fingerprint(hash);
        let Some(count) = self.counts.get_mut(&fingerprint) else { return false };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&fingerprint);
        }
        true
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (&fingerprint, &count) in &other.counts {
            *self.counts.entry(fingerprint).or_default() += count;
        }
    }

    pub(super) fn count(&self, hash: KeyHash) -> u64 {
        self.counts.get(&self.fingerprint(hash)).copied().unwrap_or(0)
    }

    pub(super) fn len(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(super) fn fingerprints(&self) -> Vec<u64> {
        self.counts.iter().flat_map(|(&fingerprint, &count)| vec![fingerprint; count as usize]).collect()
    }
}
