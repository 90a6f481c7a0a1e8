//! How often keys came: the heavy keys' slots, the pages in RAM and the sketch on flash, put together.
//!
//! 1. Upper bounds are certain, and the least that any of the three allows; none is above the total weight. `u64::MAX` is none.
//! 2. The lower bound of a heavy key is what its slot has held, which is certain. That of any other key fails for at most
//!    1 in 20: it is taken from one sketch alone, the widest, for two of them would fail twice as often.

use super::sketches::Sketches;
use super::{CONFIDENCE, Estimate, HeavyHitter, LG_SHARDS, SHARDS};
use crate::pipeline::shard_of;
use crate::sketch::space_saving::HeavyKey;
use crate::sketch::{CountBounds, SpaceSaving};
use crate::{KeyHash, Result};
use std::cmp::Reverse;

/// Candidates whose bounds are tightened together, at least: enough to keep the device busy.
const TOGETHER: usize = 256;
/// Keys that never came, drawn to measure the error: the average is then known to 3 % of its spread.
const PROBES: u64 = 1024;

/// By how much estimates of keys outside the heavy ones are too high, measured with keys that never came: these have no
/// count of their own, so what is estimated is error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateError {
    /// The average.
    pub average: f64,
    /// 99 of 100 keys are off by no more.
    pub p99: u64,
}

impl Sketches {
    pub(super) fn estimates(&self, hashes: &[KeyHash]) -> Result<Vec<Estimate>> {
        let flash = self.flash_bounds(hashes)?;
        let mut absent_upper = [None; SHARDS];
        let each = |(i, &hash): (usize, &KeyHash)| {
            let shard = shard_of(hash, LG_SHARDS);
            let slot = self.heavy[shard].present(hash);
            if let Some(slot) = slot {
                return self.tightened(hash, Some(slot), slot.upper, flash.get(i));
            }
            // A pass over the shard: once for all absent keys.
            let most = *absent_upper[shard].get_or_insert_with(|| self.heavy[shard].absent_upper_bound());
            self.tightened(hash, None, most, flash.get(i))
        };
        Ok(hashes.iter().enumerate().map(each).collect())
    }

    pub(super) fn heavy(&self, top: usize) -> Result<Vec<HeavyHitter>> {
        let mut candidates: Vec<HeavyKey<'_>> =
            self.heavy.iter().flat_map(|shard| shard.top(shard.len())).collect();
        // Keys that came with weights of 0 alone.
        candidates.retain(|key| key.count.upper > 0);
        candidates.sort_unstable_by_key(|key| (Reverse(key.count.upper), key.key, key.hash));
        let mut rest = &candidates[..];
        let mut heaviest: Vec<HeavyHitter> = Vec::new();
        loop {
            // A slot's count is never below the estimate: what comes behind cannot be heavier, nor as heavy and before the last.
            let may_rise = |next: &HeavyKey<'_>, last: &HeavyHitter| {
                (Reverse(next.count.upper), next.key, next.hash)
                    < (Reverse(last.estimate), &last.key[..], last.hash)
            };
            let is_settled = heaviest.len() >= top
                && heaviest.last().zip(rest.first()).is_none_or(|(last, next)| !may_rise(next, last));
            if rest.is_empty() || is_settled {
                return Ok(heaviest);
            }
            let (batch, after) = rest.split_at(rest.len().min(top.max(TOGETHER)));
            rest = after;
            heaviest.extend(self.tightened_all(batch)?);
            let rank = |key: &'_ HeavyHitter| Reverse(key.estimate);
            heaviest.sort_by(|a, b| (rank(a), &a.key, a.hash).cmp(&(rank(b), &b.key, b.hash)));
            heaviest.truncate(top);
        }
    }

    pub(super) fn heavy_threshold(&self) -> u64 {
        self.heavy.iter().map(SpaceSaving::absent_upper_bound).max().unwrap_or(0)
    }

    pub(super) fn estimate_error(&self) -> Result<EstimateError> {
        // Spread over all pages by the golden ratio, with columns from the same sequence: 128 bits that no key has.
        let probe = |i: u64| {
            let word = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            KeyHash::new(word, word.rotate_left(32).wrapping_mul(0xd6e8_feb8_6659_fd93))
        };
        let probes: Vec<KeyHash> = (0..PROBES).map(probe).collect();
        let mut errors: Vec<u64> = self.estimates(&probes)?.iter().map(|bounds| bounds.estimate).collect();
        errors.sort_unstable();
        let average = errors.iter().map(|&error| error as f64).sum::<f64>() / PROBES as f64;
        Ok(EstimateError { average, p99: errors[errors.len() * 99 / 100] })
    }

    fn tightened_all<'k>(&self, candidates: &[HeavyKey<'k>]) -> Result<Vec<HeavyHitter>> {
        let hashes: Vec<KeyHash> = candidates.iter().map(|key| key.hash).collect();
        let flash = self.flash_bounds(&hashes)?;
        let each = |(i, key): (usize, &HeavyKey<'k>)| {
            let tightened = self.tightened(key.hash, Some(key.count), key.count.upper, flash.get(i));
            let Estimate { lower, estimate, upper, .. } = tightened;
            let (hash, truncated) = (key.hash, key.truncated);
            HeavyHitter { hash, key: key.key.to_vec(), truncated, lower, estimate, upper }
        };
        Ok(candidates.iter().enumerate().map(each).collect())
    }

    /// Nothing without flash.
    fn flash_bounds(&self, hashes: &[KeyHash]) -> Result<Vec<CountBounds>> {
        self.flash.as_ref().map_or(Ok(Vec::new()), |flash| flash.bounds(hashes, CONFIDENCE))
    }

    /// The tightest of all bounds: what the key's slot says, if it has one, and what the pages and the sketch on flash say of the
    /// time before the key was admitted, together with what it has weighed since. `most` is what the slots know of it.
    fn tightened(
        &self,
        hash: KeyHash,
        slot: Option<CountBounds>,
        most: u64,
        flash: Option<&CountBounds>,
    ) -> Estimate {
        let pages = self.counts.bounds(hash, CONFIDENCE);
        let widest = flash.unwrap_or(&pages);
        let elsewhere = pages.upper.min(widest.upper);
        let upper = match slot {
            // A full slot has lost some of what it held.
            Some(slot) if slot.saturated() => u64::MAX,
            Some(slot) => elsewhere.saturating_add(slot.lower),
            None => elsewhere,
        };
        let upper = upper.min(most).min(u64::try_from(self.totals.weight).unwrap_or(u64::MAX));
        let lower = slot.map_or(widest.lower, |slot| slot.lower).min(upper);
        let lower_confidence = if lower == 0 || slot.is_some() { 1.0 } else { CONFIDENCE };
        Estimate { lower, estimate: upper, upper, lower_confidence }
    }
}
