//! Heavy hitters: candidates kept in RAM, verified by the sketch.
//!
//! Space-saving with `k` slots holds every key above `n / k`, among others; the sketch tells how heavy each really is.
//!
//! Source: the problem `epsilon-HH(k)` of the paper's introduction; candidates from Metwally, Agrawal, El Abbadi,
//! "Efficient computation of frequent and top-k elements" (ICDT 2005).

use super::Frequency;
use crate::Result;
use crate::error::invalid;
use crate::sketch::SpaceSaving;
use crate::sketch::space_saving::HeavyKey;

impl Frequency {
    /// The keys that weigh more than `total_weight / k`, heaviest first, from `candidates` that saw the same updates and, after
    /// the same of them, the same [`decay`](SpaceSaving::decay)s.
    ///
    /// # Cost
    /// That of an estimate of all candidates.
    ///
    /// # Accuracy
    /// Every key above `n / k` is there. A key is there only if both sketches allow it to be above `n / k`; one below
    /// `n / k - epsilon n` is, with probability at most `delta`. The bounds are the narrower of both sketches' at each
    /// end: the upper one is certain, the lower one holds with probability `confidence` (after a
    /// decay less [what its rounding took](Frequency::decay)).
    ///
    /// # Errors
    /// `InvalidOption` if `k` is 0 or above the candidates' capacity, which would lose heavy keys, or if the candidates'
    /// total weight differs, so that they did not see the same; `Incompatible` if they were made under another hash; else as
    /// [`Frequency::estimate`].
    pub fn heavy<'a>(
        &mut self,
        candidates: &'a SpaceSaving,
        k: u64,
        confidence: f64,
    ) -> Result<Vec<HeavyKey<'a>>> {
        self.hash_id.require(candidates.hash_id())?;
        if k == 0 || k > candidates.capacity() as u64 {
            return invalid("k", k, format!("choose 1 to {}, the candidates kept", candidates.capacity()));
        }
        if candidates.total_weight() != self.total_weight() {
            let (weight, total) = (candidates.total_weight(), self.total_weight());
            let why =
                format!("the sketch has {total}; give both the same updates, and decay both or neither");
            return invalid("the candidates' total weight", weight, why);
        }
        let mut heavy = candidates.top(candidates.len());
        let hashes: Vec<_> = heavy.iter().map(|candidate| candidate.hash).collect();
        for (candidate, bounds) in heavy.iter_mut().zip(self.bounds(&hashes, confidence)?) {
            candidate.count.upper = candidate.count.upper.min(bounds.upper);
            candidate.count.estimate = candidate.count.estimate.min(bounds.estimate);
            // A lower bound of the sketch may fail; it must not contradict what is certain.
            candidate.count.lower = candidate.count.lower.max(bounds.lower).min(candidate.count.upper);
        }
        let total = u128::from(self.total_weight());
        heavy.retain(|candidate| u128::from(candidate.count.upper) * u128::from(k) > total);
        heavy.sort_by_key(|candidate| {
            (std::cmp::Reverse(candidate.count.estimate), candidate.key, candidate.hash)
        });
        Ok(heavy)
    }
}
