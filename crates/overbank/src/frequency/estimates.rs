//! What a sketch says of keys, and of all of them together.

use super::bounds::Reading;
use super::rounds;
use super::sketch::Sketch;
use super::table::Cut;
use crate::error::invalid;
use crate::lock::lock;
use crate::sketch::CountBounds;
use crate::{KeyHash, Result};

impl Sketch {
    pub(super) fn estimate(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        let mut estimates = vec![0; hashes.len()];
        let mut is_full = false;
        self.answer(hashes, &mut |i, reading| {
            estimates[i] = reading.estimate();
            is_full |= reading.is_full(estimates[i]);
        })?;
        self.note_saturated(is_full);
        Ok(estimates)
    }

    pub(super) fn bounds(&self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        if !(0.0..=1.0).contains(&confidence) {
            return invalid("confidence", confidence, "choose a probability, 0 to 1");
        }
        let mut bounds = vec![CountBounds::default(); hashes.len()];
        let mut is_full = false;
        self.answer(hashes, &mut |i, reading| {
            bounds[i] = reading.bounds(confidence);
            is_full |= reading.is_full(bounds[i].upper);
        })?;
        self.note_saturated(is_full);
        Ok(bounds)
    }

    /// The sum of all weights; `u64::MAX` stands for that and more.
    pub(super) fn total_weight(&self) -> u64 {
        loop {
            let generation = lock(&self.table).generation;
            if let Some(cut) = Cut::take(&self.table, &self.slots, generation, &[]) {
                return cut.total_weight;
            }
        }
    }

    /// Calls `each` for every key with what its page says, until it has done so for all in one generation of the sketch.
    fn answer(&self, hashes: &[KeyHash], each: &mut dyn FnMut(usize, Reading<'_>)) -> Result<()> {
        self.usable()?;
        loop {
            if rounds::answer(&self.view(), hashes, each)? {
                return Ok(());
            }
        }
    }
}
