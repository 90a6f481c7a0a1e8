//! Heavy hitters: candidates kept in RAM, verified by the sketch.
//!
//! Space-saving with `k` slots holds every key above `n / k`, among others; the sketch tells how heavy each really is.
//!
//! Source: the problem `epsilon-HH(k)` of the paper's introduction; candidates from Metwally, Agrawal, El Abbadi,
//! "Efficient computation of frequent and top-k elements" (ICDT 2005).

use super::{Frequency, FrequencyWindow};
use crate::Result;
use crate::error::invalid;
use crate::sketch::space_saving::HeavyKey;
use crate::sketch::{CountBounds, SpaceSaving};

impl Frequency {
    /// The keys that weigh more than `total_weight / k`, heaviest first, from `candidates` that saw the same updates and, after
    /// the same of them, the same [`decay`](SpaceSaving::decay)s. Where several threads add, one lock of the candidates' around both
    /// updates, and around this call, sees to that.
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
        &self,
        candidates: &'a SpaceSaving,
        k: u64,
        confidence: f64,
    ) -> Result<Vec<HeavyKey<'a>>> {
        self.sketch.hash_id.require(candidates.hash_id())?;
        if k == 0 || k > candidates.capacity() as u64 {
            return invalid("k", k, format!("choose 1 to {}, the candidates kept", candidates.capacity()));
        }
        let total = self.total_weight();
        // One that is full says nothing of the stream.
        if ![total, u64::MAX].contains(&candidates.total_weight()) {
            let weight = candidates.total_weight();
            let why =
                format!("the sketch has {total}; give both the same updates, and decay both or neither");
            return invalid("the candidates' total weight", weight, why);
        }
        let heavy = candidates.top(candidates.len());
        let hashes: Vec<_> = heavy.iter().map(|candidate| candidate.hash).collect();
        Ok(verified(heavy, &self.bounds(&hashes, confidence)?, total, k))
    }
}

impl FrequencyWindow {
    /// The keys that weigh more than `total_weight / k` in the window, heaviest first, from `candidates` that saw all its updates and may
    /// have seen older ones; where the window is decayed, so are they. Where several threads add, one lock of the candidates' around both
    /// updates, and around this call, sees to that.
    ///
    /// # Cost
    /// That of an estimate of all candidates.
    ///
    /// # Accuracy
    /// As [`Frequency::heavy`], with the window's weight for `n`; lower bounds are the window's alone, for the candidates count what it
    /// has forgotten.
    ///
    /// # Errors
    /// `InvalidOption` if `k` is 0 or more than so many candidates can tell: their capacity, times the share of the window's weight in
    /// theirs. [Decay](SpaceSaving::decay) does not help then; candidates begun anew do, once the window has moved past their beginning.
    /// `InvalidOption` if they weigh less than the window, so that they did not see all of it; `Incompatible` if they were made under
    /// another hash; else as [`FrequencyWindow::estimate`].
    pub fn heavy<'a>(
        &self,
        candidates: &'a SpaceSaving,
        k: u64,
        confidence: f64,
    ) -> Result<Vec<HeavyKey<'a>>> {
        self.hash_id().require(candidates.hash_id())?;
        let (total, seen) = (self.total_weight(), candidates.total_weight());
        if seen < total {
            let why = format!("the window has {total}; give the candidates all that it is given");
            return invalid("the candidates' total weight", seen, why);
        }
        // A key above total / k is among them if that is above seen / capacity.
        let k_max = match seen {
            0 => candidates.capacity() as u128,
            _ => candidates.capacity() as u128 * u128::from(total) / u128::from(seen),
        };
        if k == 0 || u128::from(k) > k_max {
            let why =
                format!("choose 1 to {k_max}: of the candidates' weight, {seen}, the window has {total}");
            return invalid("k", k, why);
        }
        let mut heavy = candidates.top(candidates.len());
        heavy.iter_mut().for_each(|candidate| candidate.count.lower = 0);
        let hashes: Vec<_> = heavy.iter().map(|candidate| candidate.hash).collect();
        Ok(verified(heavy, &self.bounds(&hashes, confidence)?, total, k))
    }
}

/// Those of `heavy` that may weigh more than `total / k` by `bounds` too, with the narrower of both bounds.
fn verified<'a>(
    mut heavy: Vec<HeavyKey<'a>>,
    bounds: &[CountBounds],
    total: u64,
    k: u64,
) -> Vec<HeavyKey<'a>> {
    for (candidate, bounds) in heavy.iter_mut().zip(bounds) {
        candidate.count.upper = candidate.count.upper.min(bounds.upper);
        candidate.count.estimate = candidate.count.estimate.min(bounds.estimate);
        // A lower bound of the sketch may fail; it must not contradict what is certain.
        candidate.count.lower = candidate.count.lower.max(bounds.lower).min(candidate.count.upper);
    }
    heavy.retain(|candidate| u128::from(candidate.count.upper) * u128::from(k) > u128::from(total));
    heavy.sort_by_key(|candidate| {
        (std::cmp::Reverse(candidate.count.estimate), candidate.key, candidate.hash)
    });
    heavy
}
