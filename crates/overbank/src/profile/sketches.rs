//! What a profile holds in RAM, and the sketch on flash: one thread's at a time, but for the threads of a pass.

use super::counting::{Counting, Shard, Tally};
use super::flash::{Flash, Outbox};
use super::totals::Totals;
use super::{COUNT_DEPTH, Measure, Parse, ProfilePlan, ProfileReport, QUANTILE_ERROR, SHARDS, SIGMAS};
use super::{DistinctCount, Distribution, FlashReport};
use crate::Result;
use crate::device::require_memory;
use crate::pipeline;
use crate::sketch::{CountMin, DdSketch, HashId, HyperLogLog, SpaceSaving};
use crate::store::Caller;
use std::sync::Mutex;

/// The sketches of a profile.
#[derive(Debug)]
pub(super) struct Sketches {
    pub(super) plan: ProfilePlan,
    pub(super) totals: Totals,
    pub(super) distinct: HyperLogLog,
    pub(super) counts: CountMin<u32>,
    pub(super) heavy: Vec<SpaceSaving>,
    pub(super) values: DdSketch,
    pub(super) flash: Option<Flash>,
    /// Why it is of no use any more: a merge changed some of the parts and not the others.
    pub(super) failure: Option<String>,
}

impl Sketches {
    /// Those of an empty profile of `plan`, without flash.
    pub(super) fn new(plan: ProfilePlan, hash_id: impl Into<HashId>, measure: Measure) -> Result<Self> {
        let hash_id = hash_id.into();
        require_memory("a profile", usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX))?;
        let heavy = (0..SHARDS).map(|_| SpaceSaving::new(plan.heavy_capacity, plan.key_bytes_max, hash_id));
        Ok(Self {
            plan,
            totals: Totals { measure, ..Totals::default() },
            distinct: HyperLogLog::new(plan.lg_registers, hash_id)?,
            counts: CountMin::with_bytes(plan.count_bytes, COUNT_DEPTH, SHARDS, hash_id)?,
            heavy: heavy.collect::<Result<_>>()?,
            values: empty_values(),
            flash: None,
            failure: None,
        })
    }

    /// The memory that the sketches in RAM hold, in bytes.
    pub(super) fn allocated_bytes(&self) -> usize {
        let heavy = self.heavy.iter().map(SpaceSaving::memory_bytes).sum::<usize>();
        self.distinct.memory_bytes() + self.counts.memory_bytes() + heavy + self.values.memory_bytes()
    }

    /// Counts the chunks that `next` yields, with `threads` threads, until it yields `None`; what it calls is called by `caller`.
    pub(super) fn update<P: Parse>(
        &mut self,
        caller: Caller,
        threads: usize,
        parser: &P,
        next: impl FnMut() -> std::result::Result<Option<P::Chunk>, P::Error> + Send,
    ) -> std::result::Result<(), P::Error> {
        let measure = self.totals.measure;
        let outbox = || self.flash.as_ref().map_or_else(Outbox::default, Flash::outbox);
        if let Some(flash) = &self.flash {
            flash.check()?;
        }
        let tallies = (0..threads.max(1)).map(|_| Tally::new(measure, outbox()));
        let mut tallies: Vec<Tally> = tallies.collect();
        let mut counts = self.counts.split_mut(SHARDS).expect("the pages were made a multiple of the shards");
        let distinct = self.distinct.split_mut(SHARDS).expect("there are more registers than shards");
        let shards = distinct.into_iter().zip(counts.as_mut_slice()).zip(&mut self.heavy);
        let shards = shards.map(|((distinct, counts), heavy)| Shard { distinct, counts, heavy }).collect();
        let values = Mutex::new(&mut self.values);
        let counting = Counting { caller, parser, values, shards: std::marker::PhantomData };
        let outcome = pipeline::run(&counting, next, shards, &mut tallies);
        drop(counts);
        for tally in tallies {
            let outbox = tally.add_to(&mut self.totals, &mut self.values);
            if let Some(flash) = &mut self.flash {
                flash.absorb(outbox);
            }
        }
        outcome
    }

    pub(super) fn report(&self, top: usize, ranks: &[f64]) -> Result<ProfileReport> {
        Ok(ProfileReport {
            rows: self.totals.rows,
            skipped: self.totals.skipped,
            bytes: self.totals.bytes,
            weight: self.totals.weight,
            distinct: self.distinct(),
            heavy: self.heavy(top)?,
            heavy_threshold: self.heavy_threshold(),
            values: self.values(ranks),
        })
    }

    pub(super) fn distinct(&self) -> DistinctCount {
        let kept = self.heavy.iter().map(SpaceSaving::len).sum::<usize>() as f64;
        if self.holds_every_key() {
            return DistinctCount {
                estimate: kept,
                lower: kept,
                upper: kept,
                relative_error: 0.0,
                exact: true,
            };
        }
        // Keys in slots are distinct, and each has a row.
        let between = |count: f64| count.max(kept).min((self.totals.rows as f64).max(kept));
        DistinctCount {
            estimate: between(self.distinct.estimate()),
            lower: between(self.distinct.lower_bound(SIGMAS)),
            upper: between(self.distinct.upper_bound(SIGMAS)),
            relative_error: self.distinct.relative_standard_error(),
            exact: false,
        }
    }

    pub(super) fn flash_report(&self) -> Result<Option<FlashReport>> {
        self.flash.as_ref().map(Flash::report).transpose()
    }

    pub(super) fn holds_every_key(&self) -> bool {
        self.heavy.iter().all(|shard| shard.len() < shard.capacity())
    }

    pub(super) fn values(&self, ranks: &[f64]) -> Distribution {
        let range = self.values.min().zip(self.values.max());
        // A length is whole, so up to 50 bytes rounding undoes the relative error of 1 %.
        let shown =
            |value: f64| if self.totals.measure == Measure::KeyLength { value.round() } else { value };
        Distribution {
            measure: self.totals.measure,
            count: u64::try_from(self.values.count()).unwrap_or(u64::MAX),
            range,
            mean: self.values.mean(),
            quantiles: ranks
                .iter()
                .filter_map(|&rank| Some((rank, shown(self.values.quantile(rank)?))))
                .collect(),
            relative_error: QUANTILE_ERROR,
        }
    }
}

pub(super) fn empty_values() -> DdSketch {
    DdSketch::new(QUANTILE_ERROR).expect("the error is in range")
}
