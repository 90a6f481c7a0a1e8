//! What a sketch says of keys, and of all of them together.

use super::bounds::Reading;
use super::rounds;
use super::sketch::Sketch;
use super::table::Cut;
use crate::error::invalid;
use crate::lock::lock;
use crate::sketch::CountBounds;
use crate::{KeyHash, Result};

/// How often an estimate begins anew because the whole was replaced meanwhile, by a merge, fold, decay or clear, before it keeps those
/// waiting: whoever clears a sketch again and again would else keep a large batch from ever ending.
const TRIES: usize = 4;

impl Sketch {
    pub(super) fn estimate(&self, hashes: &[KeyHash]) -> Result<Vec<u64>> {
        let mut is_full = false;
        let estimates = self.answer(hashes, &mut |reading| {
            let estimate = reading.estimate();
            is_full |= reading.is_full(estimate);
            estimate
        })?;
        self.note_saturated(is_full);
        Ok(estimates)
    }

    pub(super) fn bounds(&self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        if !(0.0..=1.0).contains(&confidence) {
            return invalid("confidence", confidence, "choose a probability, 0 to 1");
        }
        let mut is_full = false;
        let bounds = self.answer(hashes, &mut |reading| {
            let bounds = reading.bounds(confidence);
            is_full |= reading.is_full(bounds.upper);
            bounds
        })?;
        self.note_saturated(is_full);
        Ok(bounds)
    }

    /// The sum of all weights; `u64::MAX` stands for that and more.
    pub(super) fn total_weight(&self) -> u64 {
        // Of no page, and so of no generation in particular, there always is one.
        Cut::take(&self.table, &self.slots, None, &[]).map_or(0, |cut| cut.total_weight)
    }

    /// What `answer` makes of what each key's page says, in one generation of the sketch.
    fn answer<A: Clone + Default>(
        &self,
        hashes: &[KeyHash],
        answer: &mut impl FnMut(&Reading<'_>) -> A,
    ) -> Result<Vec<A>> {
        self.usable()?;
        let mut answers = vec![A::default(); hashes.len()];
        let mut try_once = || {
            let answered = rounds::answer(&self.view(), hashes, &mut answers, answer);
            answered.map_err(|error| self.outdated(error))
        };
        for _ in 0..TRIES {
            if try_once()? {
                return Ok(answers);
            }
        }
        let _upkeep = lock(&self.upkeep);
        let is_answered = try_once()?;
        debug_assert!(is_answered, "another generation while upkeep's lock is held");
        Ok(answers)
    }
}
