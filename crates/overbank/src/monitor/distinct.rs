//! Distinct flows: a HyperLogLog or a LogLog, which have the same registers, on the framework.

use super::monitored::Monitored;
use super::reader::Reader;
use super::rule::Max;
use crate::Result;
use crate::sketch::{HashId, HyperLogLog, LogLog};
use keyhash::KeyHash;
use std::marker::PhantomData;

/// A HyperLogLog: the better estimate.
pub type DistinctFlows = Distinct<HyperLogLog>;
/// A LogLog: the mean of the ranks.
pub type LogLogFlows = Distinct<LogLog>;

/// A sketch `S` of `2^lg_m` registers. Its elements are the hashes of keys.
#[derive(Debug)]
pub struct Distinct<S> {
    lg_m: u32,
    hash_id: HashId,
    sketch: PhantomData<fn() -> S>,
}

/// Whether or not `S` is.
impl<S> Copy for Distinct<S> {}

impl<S> Clone for Distinct<S> {
    fn clone(&self) -> Self {
        *self
    }
}

/// What the registers of [`Distinct`] make: [`HyperLogLog`] or [`LogLog`].
pub trait Registers: sealed::Sealed + Sized + 'static {
    /// The sketch of these registers.
    #[doc(hidden)]
    fn of(registers: HyperLogLog) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::HyperLogLog {}
    impl Sealed for super::LogLog {}
}

impl Registers for HyperLogLog {
    fn of(registers: HyperLogLog) -> Self {
        registers
    }
}

impl Registers for LogLog {
    fn of(registers: HyperLogLog) -> Self {
        Self { ranks: registers }
    }
}

impl<S: Registers> Distinct<S> {
    /// `2^lg_m` registers: a byte each for every worker, two for it to change epochs.
    ///
    /// # Errors
    /// Those of [`HyperLogLog::new`].
    pub fn new(lg_m: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        let hash_id = HyperLogLog::new(lg_m, hash_id)?.hash_id();
        Ok(Self { lg_m, hash_id, sketch: PhantomData })
    }

    fn sketch_of(&self, ranks: Vec<u64>) -> Option<S> {
        let ranks = ranks.into_iter().map(|rank| rank as u8).collect();
        HyperLogLog::from_registers(self.hash_id, ranks).map(S::of)
    }
}

impl<S: Registers> Monitored for Distinct<S> {
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

impl<S: Registers> Reader<Distinct<S>> {
    /// How many flows were distinct in the epochs `first..=last`, as a sketch, to be asked, merged or stored; `None` where one of them is
    /// not kept any more, or has not begun.
    ///
    /// # Accuracy
    /// Each register is one that a sketch of all traffic had at a moment of the call, so the sketch is not behind what had been inserted
    /// when the call began, and not ahead of its end.
    ///
    /// # Cost
    /// `2^lg_m` bytes a worker.
    pub fn distinct(&self, first: u64, last: u64) -> Option<S> {
        self.sketch().sketch_of(self.read_all(first, last)?)
    }

    /// As [`distinct`](Self::distinct) of the current epoch, by what the aggregator was sent alone: the paper's answer, which is the same
    /// once no register is τ or less ([`bounds::applied_is_exact_above`](super::bounds::applied_is_exact_above)).
    pub fn applied_distinct(&self) -> Option<S> {
        self.sketch().sketch_of(self.read_applied())
    }
}
