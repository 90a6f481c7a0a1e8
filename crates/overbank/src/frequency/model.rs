//! The oracle: exact counts in a map, and the in-RAM sketch of the same layout that holds them.

use super::Frequency;
use crate::sketch::CountMin;
use crate::sketch::count_min::Cell;
use crate::{KeyHash, KeyHasher};
use std::collections::BTreeMap;

/// What a sketch should hold.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Model {
    pub(super) counts: BTreeMap<KeyHash, u64>,
}

impl Model {
    pub(super) fn add(&mut self, hash: KeyHash, weight: u64) {
        let count = self.counts.entry(hash).or_default();
        *count = count.saturating_add(weight);
    }

    /// Takes off at most what is there, and says how much.
    pub(super) fn remove(&mut self, hash: KeyHash, weight: u64) -> u64 {
        let count = self.counts.entry(hash).or_default();
        let taken = weight.min(*count);
        *count -= taken;
        taken
    }

    /// The estimates that `sketch` must give for `hashes`.
    pub(super) fn estimates(&self, sketch: &Frequency, hasher: &KeyHasher, hashes: &[KeyHash]) -> Vec<u64> {
        match sketch.shape.cell_bytes {
            4 => self.in_ram::<u32>(sketch, hasher, hashes),
            _ => self.in_ram::<u64>(sketch, hasher, hashes),
        }
    }

    fn in_ram<C: Cell>(&self, sketch: &Frequency, hasher: &KeyHasher, hashes: &[KeyHash]) -> Vec<u64> {
        let place = sketch.shape.place();
        let mut exact = CountMin::<C>::new(sketch.shape.layout, hasher);
        self.counts.iter().for_each(|(&hash, &count)| exact.update(place.stand_in(hash), count));
        hashes.iter().map(|&hash| exact.estimate(place.stand_in(hash))).collect()
    }
}
