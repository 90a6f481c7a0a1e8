//! Queries, from any number of threads, at any time.

use super::bucketed::{All, over, summed};
use super::heavy::ElasticShared;
use super::key::{Hashed, Key};
use super::lane::{Lane, PLACES_MAX};
use super::monitored::Monitored;
use super::post::Post;
use super::rule::Sum;
use super::shape::ElasticFlows;
use super::shared::Archived;
use super::sync::{Ordering, spin_loop};
use super::{WorkerStats, bounds};
use crate::Result;
use crate::sketch::elastic::SLOTS;
use crate::sketch::{CountBounds, CountMin, Elastic};
use keyhash::KeyHash;
use std::sync::Arc;

/// Answers, and writes nothing: no lock is taken, and neither a worker nor the aggregator waits for it, nor it for them.
///
/// # Accuracy
/// Every packet whose insertion had returned when the call began is in one of the slots, messages and counters that an answer is made of,
/// once. A flow's estimate is not below what it weighs. It is exact for a flow of which nothing is in the light part: that had a slot from
/// its first packet on, at each worker that received it, and was not voted out. Of any other it is too high by what other flows have
/// in its counter of the light part.
#[derive(Debug)]
pub struct ElasticReader<K: Key> {
    all: Arc<All<ElasticShared<K>>>,
}

/// What a flow weighs: in slots and messages, and in the light part if that may have any.
#[derive(Clone, Copy, Default)]
struct Weight {
    heavy: u64,
    light: u64,
}

/// Flows with what they weigh in slots, and whether the light part may have more of them.
type Flows<K> = Vec<(u64, Hashed<K>, bool)>;

impl<K: Key> Clone for ElasticReader<K> {
    fn clone(&self) -> Self {
        Self { all: Arc::clone(&self.all) }
    }
}

impl<K: Key> ElasticReader<K> {
    pub(super) fn new(all: Arc<All<ElasticShared<K>>>) -> Self {
        Self { all }
    }

    /// The current epoch: 0 at first.
    pub fn epoch(&self) -> u64 {
        self.all.base.control().0
    }

    /// The threshold.
    pub fn tau(&self) -> u8 {
        self.all.base.control().1
    }

    /// The shape of the sketch that is kept.
    pub fn sketch(&self) -> &ElasticFlows<K> {
        &self.all.sketch.shape
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.all.posts.len()
    }

    /// An epoch's total weight, with what is being inserted just now; `None` where the epoch is not kept any more, or has not begun.
    pub fn total_weight(&self, epoch: u64) -> Option<u64> {
        self.all.base.total_weight(epoch)
    }

    /// What each worker has done. A flow that could not be voted out, because the ring was full, counts as kept.
    pub fn worker_stats(&self) -> Vec<WorkerStats> {
        self.all.base.worker_stats()
    }

    /// How much a flow weighs in the current epoch, with bounds. `estimate` and `upper` are certain: not below what had been inserted when
    /// the call began. `lower` is certain of what the flow has in slots, and of its share of the light part holds with probability
    /// `confidence`, as for [`CountMin::bounds`]: where nothing is there, it is the estimate. `u64::MAX` says that no bound is
    /// known: weights have come to the end of their type.
    pub fn size(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        loop {
            let epoch = self.epoch();
            if let Some(size) = self.size_in(epoch, epoch, hash, confidence) {
                return size;
            }
        }
    }

    /// As [`size`](Self::size), over the epochs `first..=last`; `None` where one of them is not kept any more, or has not begun, or
    /// `last` is before `first`.
    pub fn size_in(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Option<CountBounds> {
        let Weight { heavy, light } = self.weight(first, last, hash)?;
        let total = self.all.base.total_weight_of(first, last)?;
        let estimate = heavy.saturating_add(light);
        if total == u64::MAX {
            return Some(CountBounds { lower: heavy, estimate, upper: u64::MAX });
        }
        let error = bounds::count_min_error(total, self.sketch().columns, 1, confidence);
        let lower = heavy.saturating_add(light.saturating_sub(error));
        Some(CountBounds { lower, estimate, upper: estimate })
    }

    /// The `count` heaviest flows over the epochs `first..=last` that have a slot anywhere, with their estimates, heaviest first; equal
    /// ones in the order of their hashes. `None` as for [`size_in`](Self::size_in).
    ///
    /// # Cost
    /// One pass over the slots of all, and an estimate of each flow.
    pub fn top(&self, first: u64, last: u64, count: usize) -> Option<Vec<(Hashed<K>, u64)>> {
        let mut flows = Vec::new();
        over(first, last, |epoch| {
            flows.append(&mut self.all.slots(epoch)?);
            Some(())
        })?;
        let weighed = |(_, flow): (u64, Hashed<K>)| {
            let Weight { heavy, light } = self.weight(first, last, flow.hash)?;
            Some((flow, heavy.saturating_add(light)))
        };
        let mut flows: Vec<_> = summed(flows).into_iter().map(weighed).collect::<Option<_>>()?;
        flows.sort_unstable_by_key(|&(flow, weight)| (std::cmp::Reverse(weight), flow.hash));
        flows.truncate(count);
        Some(flows)
    }

    /// The epochs `first..=last` as a sketch, to be asked, merged or stored, with [`Key::BYTES`] bytes of each key; `None` as for
    /// [`size_in`](Self::size_in). It tells what readers do not: the distribution of weights, their entropy, how many flows there are.
    ///
    /// # Accuracy
    /// Its estimates are not below what flows weigh. They may be above those of the reader itself: of the flows that have slots at workers
    /// and at the aggregator, the seven heaviest of a bucket stay, and the others go to the light part. Where nothing is inserted or
    /// applied meanwhile, its total weight is that of the packets; else what passes to the light part meanwhile may be in it twice.
    /// Nobody has voted against anybody in it yet.
    ///
    /// # Errors
    /// Those of [`Elastic::new`].
    pub fn flow_sketch(&self, first: u64, last: u64) -> Result<Option<Elastic>> {
        let shape = self.sketch();
        let mut sketch: Option<Elastic> = None;
        for epoch in first..=last {
            let Some((flows, light)) = self.everything(epoch) else { return Ok(None) };
            let light = CountMin::from_counts(shape.columns, 1, shape.hash_id, &light)?;
            let keys =
                flows.into_iter().map(|(count, flow, flag)| (flow.hash, flow.key.to_bytes(), count, flag));
            let part = Elastic::of_counts(shape.buckets, K::BYTES, light, keys)?;
            match &mut sketch {
                Some(sketch) => sketch.merge(&part)?,
                None => sketch = Some(part),
            }
        }
        Ok(sketch)
    }

    /// As the estimate of [`size`](Self::size) in the current epoch, by the aggregator's slots and counters alone, without what the
    /// workers hold: the paper's answer.
    pub fn applied_size(&self, hash: KeyHash) -> u64 {
        loop {
            let epoch = self.epoch();
            if let Some(Weight { heavy, light }) =
                self.all.base.while_live(epoch, || self.live(epoch, hash, &[], &[]))
            {
                return heavy.saturating_add(light);
            }
        }
    }

    /// What a flow weighs over several epochs.
    fn weight(&self, first: u64, last: u64, hash: KeyHash) -> Option<Weight> {
        let mut sum = Weight::default();
        over(first, last, |epoch| {
            let base = &self.all.base;
            let live = || self.live(epoch, hash, &self.all.posts, &base.lanes);
            let kept = |archived: &Archived| self.kept(epoch, hash, archived);
            let weight = base.while_live(epoch, live).or_else(|| base.archived(epoch, kept))?;
            sum.heavy = sum.heavy.saturating_add(weight.heavy);
            sum.light = sum.light.saturating_add(weight.light);
            Some(())
        })?;
        Some(sum)
    }

    /// What a flow weighs in a live epoch, with what these queues and lanes of workers hold.
    fn live(&self, epoch: u64, hash: KeyHash, posts: &[Post], lanes: &[Lane]) -> Weight {
        let all = &*self.all;
        let (shape, passes) = (&all.sketch.shape, &all.sketch.passes);
        let block = all.first_block(epoch) + shape.block_of(hash);
        let cell = (all.base.base(epoch) + shape.cell_of(hash)) as u32;
        let mut held = Vec::new();
        loop {
            let passed = passes.count(block);
            let raised = all.table.read(posts, block, &all_slots(), &mut held, || passes.last());
            let heavy = of_flow::<K>(&held, hash);
            // What had passed, or never had a slot, by the time of these slots is in doubt ever after.
            if !ElasticShared::is_in_doubt(all, epoch, hash) {
                return Weight { heavy, light: 0 };
            }
            let mut light = [0];
            all.base.tally.read_raised::<Sum>(lanes, &[cell], &mut light, raised);
            if passes.is_still(block, passed) {
                return Weight { heavy, light: light[0] };
            }
            spin_loop();
        }
    }

    /// What a flow weighed in an epoch that is over.
    fn kept(&self, epoch: u64, hash: KeyHash, archived: &Archived) -> Weight {
        let shape = self.sketch();
        let (archive, block) = (&self.all.archive[self.all.place(epoch)], shape.block_of(hash));
        let mut held = Vec::new();
        archive.read(block, &all_slots(), &mut held, || ());
        let is_in_doubt = archive.is_in_doubt(block, [hash.high(), hash.low()]);
        let light = || archived.cells[shape.cell_of(hash)].load(Ordering::Relaxed);
        Weight { heavy: of_flow::<K>(&held, hash), light: if is_in_doubt { light() } else { 0 } }
    }

    /// All flows of an epoch that have slots, with what they weigh there, heaviest first, and whether the light part may have more of
    /// them; and the light part.
    fn everything(&self, epoch: u64) -> Option<(Flows<K>, Vec<u64>)> {
        let (all, base) = (&*self.all, &self.all.base);
        let flows = |is_in_doubt: &dyn Fn(KeyHash) -> bool| {
            let flows = summed(all.slots(epoch)?);
            Some(flows.into_iter().map(|(count, flow)| (count, flow, is_in_doubt(flow.hash))).collect())
        };
        let live =
            || Some((flows(&|hash| ElasticShared::is_in_doubt(all, epoch, hash))?, self.light(epoch)?));
        let kept = |_: &Archived| {
            let archive = &all.archive[all.place(epoch)];
            let is_in_doubt =
                |hash: KeyHash| archive.is_in_doubt(self.sketch().block_of(hash), [hash.high(), hash.low()]);
            Some((flows(&is_in_doubt)?, self.light(epoch)?))
        };
        base.while_live(epoch, live).flatten().or_else(|| base.archived(epoch, kept).flatten())
    }

    /// The light part of an epoch.
    fn light(&self, epoch: u64) -> Option<Vec<u64>> {
        let base = &self.all.base;
        let mut counts = vec![0; base.sketch.cells()];
        let mut places = [0; PLACES_MAX];
        for (block, counts) in (0..).zip(counts.chunks_mut(PLACES_MAX)) {
            let start = block * PLACES_MAX as u32;
            places.iter_mut().zip(start..).for_each(|(place, at)| *place = at);
            if !base.read(epoch, &places[..counts.len()], counts) {
                return None;
            }
        }
        Some(counts)
    }
}

/// The slots of a bucket.
fn all_slots() -> [u32; SLOTS] {
    std::array::from_fn(|at| at as u32)
}

/// What is a flow's of what slots and messages hold.
fn of_flow<K: Key>(held: &[(u64, Hashed<K>)], hash: KeyHash) -> u64 {
    let own = held.iter().filter(|held| held.1.hash == hash);
    own.fold(0, |sum, held| sum.saturating_add(held.0))
}
