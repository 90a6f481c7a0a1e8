//! Distinct flows: a HyperLogLog on the framework.

use super::monitored::Monitored;
use super::reader::Reader;
use super::rule::Max;
use crate::Result;
use crate::sketch::{HashId, HyperLogLog};
use keyhash::KeyHash;

/// A HyperLogLog of `2^lg_m` registers. Its elements are the hashes of keys.
#[derive(Clone, Copy, Debug)]
pub struct DistinctFlows {
    lg_m: u32,
    hash_id: HashId,
}

impl DistinctFlows {
    /// `2^lg_m` registers: a byte each for every worker, two for it to change epochs.
    ///
    /// # Errors
    /// Those of [`HyperLogLog::new`].
    pub fn new(lg_m: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        let hash_id = HyperLogLog::new(lg_m, hash_id)?.hash_id();
        Ok(Self { lg_m, hash_id })
    }
}

impl Monitored for DistinctFlows {
    type Element = KeyHash;
    type Key = ();
    type Rule = Max;
    const SHOWS_KEYS: bool = false;

    fn cells(&self) -> usize {
        1 << self.lg_m
    }

    #[inline]
    fn weight(&self, _: KeyHash) -> u64 {
        1
    }

    #[inline(always)]
    fn visit(&self, hash: KeyHash, mut change: impl FnMut(usize, u64)) {
        let (register, rank) = HyperLogLog::register_of(hash, self.lg_m);
        change(register, rank.into());
    }

    #[inline(always)]
    fn key(&self, _: KeyHash) {}
}

impl Reader<DistinctFlows> {
    /// How many flows were distinct in the epochs `first..=last`, as a sketch, to be asked, merged or stored; `None` where one of them is
    /// not kept any more, or has not begun.
    ///
    /// # Accuracy
    /// Each register is one that a sketch of all traffic had at a moment of the call, so the sketch is not behind what had been inserted
    /// when the call began, and not ahead of its end.
    ///
    /// # Cost
    /// `2^lg_m` bytes a worker.
    pub fn distinct(&self, first: u64, last: u64) -> Option<HyperLogLog> {
        let ranks = self.read_all(first, last)?.into_iter().map(|rank| rank as u8);
        HyperLogLog::from_registers(self.sketch().hash_id, ranks.collect())
    }

    /// As [`distinct`](Self::distinct) of the current epoch, by what the aggregator was sent alone: the paper's answer, which is the same
    /// once no register is τ or less ([`bounds::applied_is_exact_above`](super::bounds::applied_is_exact_above)).
    pub fn applied_distinct(&self) -> Option<HyperLogLog> {
        let ranks = self.read_applied().into_iter().map(|rank| rank as u8);
        HyperLogLog::from_registers(self.sketch().hash_id, ranks.collect())
    }
}
