//! What all have of an Elastic sketch beside slots and counters, and what the aggregator does with a message.

use super::blocks::{Blocks, Moment};
use super::bucketed::{All, Bucketed};
use super::key::{Hashed, Key};
use super::passes::Passes;
use super::post::Claim;
use super::shape::{ElasticFlows, LightRow};
use super::sync::Ordering;
use super::trace::Trace;
use crate::sketch::elastic::{Bucket, SLOTS, Vote};
use keyhash::KeyHash;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct ElasticShared<K> {
    pub(super) shape: ElasticFlows<K>,
    /// Of what each worker, and last the aggregator, has put into the light part.
    pub(super) traces: Box<[Trace]>,
    pub(super) passes: Passes,
}

/// Where a claim goes in a bucket of the aggregator.
struct Settled<K> {
    /// The slot that changes, within the bucket, and what it counts then.
    at: usize,
    count: u64,
    taker: Option<Hashed<K>>,
    is_flagged: bool,
    /// What passes to the light part: of which flow, and how much.
    passed: Option<(KeyHash, u64)>,
}

impl<K: Key> ElasticShared<K> {
    pub(super) fn new(shape: ElasticFlows<K>, workers: usize) -> Self {
        let traces = (0..=workers).map(|_| Trace::new(shape.columns as usize)).collect();
        Self { shape, traces, passes: Passes::new(2 * shape.buckets as usize) }
    }

    /// Free buckets of both halves, for the votes that the aggregator counts.
    pub(super) fn aggregator_buckets(&self) -> Box<[Bucket]> {
        vec![Bucket::default(); 2 * self.blocks()].into()
    }

    /// Whether the light part may have weight of a flow in a live epoch, from anybody.
    pub(super) fn is_in_doubt(all: &All<Self>, epoch: u64, hash: KeyHash) -> bool {
        Self::is_in_doubt_of(all, epoch, hash, Self::workers_blocks(all).chain([&all.table.blocks]))
    }

    /// The same, from those whose slots these are: the workers, and the aggregator after them.
    fn is_in_doubt_of<'a>(
        all: &'a All<Self>,
        epoch: u64,
        hash: KeyHash,
        parties: impl Iterator<Item = &'a Blocks>,
    ) -> bool {
        let shape = &all.sketch.shape;
        let (block, cell) = (all.first_block(epoch) + shape.block_of(hash), shape.cell_of(hash));
        parties.zip(&all.sketch.traces).any(|(blocks, trace)| {
            trace.has(epoch, cell) && blocks.is_in_doubt(block, [hash.high(), hash.low()])
        })
    }

    fn workers_blocks(all: &All<Self>) -> impl Iterator<Item = &Blocks> {
        all.posts.iter().map(|post| &post.blocks)
    }

    /// The aggregator's.
    fn own_trace(&self) -> &Trace {
        &self.traces[self.traces.len() - 1]
    }

    fn settle(&self, bucket: &mut Bucket, epoch: u64, claim: Claim<Hashed<K>>) -> Settled<K> {
        bucket.begin(epoch);
        let Claim { count, flow } = claim;
        match bucket.vote(flow.hash, count) {
            Vote::Own(at) => {
                Settled { at, count: bucket.votes[at], taker: None, is_flagged: false, passed: None }
            }
            Vote::Free(at) => {
                bucket.set(at, flow.hash, count, false);
                Settled { at, count, taker: Some(flow), is_flagged: false, passed: None }
            }
            Vote::Against => {
                let passed = Some((flow.hash, count));
                Settled { at: 0, count: bucket.votes[0], taker: None, is_flagged: false, passed }
            }
            Vote::Wins(at) => {
                let is_flagged = self.own_trace().has(epoch, self.shape.cell_of(flow.hash));
                let passed = Some((bucket.hash(at), bucket.votes[at]));
                bucket.replace(at, flow.hash, count, is_flagged);
                Settled { at, count, taker: Some(flow), is_flagged, passed }
            }
        }
    }
}

impl<K: Key> Bucketed for ElasticShared<K> {
    type Key = K;
    type Light = LightRow;
    /// Votes, flags and votes against of both halves.
    type Own = Box<[Bucket]>;
    const CONCLUDES: bool = true;

    fn blocks(&self) -> usize {
        self.shape.buckets as usize
    }

    fn block_slots(&self) -> usize {
        SLOTS
    }

    fn light(&self) -> LightRow {
        LightRow { columns: self.shape.columns }
    }

    fn apply(
        all: &All<Self>,
        buckets: &mut Box<[Bucket]>,
        (worker, number): (usize, u64),
        block: usize,
        claim: Claim<Hashed<K>>,
    ) {
        let (sketch, table, tally) = (&all.sketch, &all.table, &all.base.tally);
        let epoch = all.epoch_of(block);
        let Settled { at, count, taker, is_flagged, passed } =
            sketch.settle(&mut buckets[block], epoch, claim);
        if is_flagged {
            table.blocks.flag(block, at);
        }
        let slot = (block, block * SLOTS + at);
        let keep = || {
            if taker.is_some() {
                table.blocks.keep(block, at, is_flagged);
            }
        };
        let Some((hash, weight)) = passed else {
            return table.apply(worker, number, slot, count, taker, keep);
        };
        let cell = sketch.shape.cell_of(hash);
        sketch.own_trace().leave(epoch, cell);
        let cell = all.base.base(epoch) + cell;
        let sum = tally.applied(cell).saturating_add(weight);
        sketch.passes.announce(cell, sum);
        table.apply(worker, number, slot, count, taker, || {
            keep();
            sketch.passes.begin(block);
            tally.raise(cell, sum);
        });
    }

    fn adopt(
        all: &All<Self>,
        buckets: &mut Box<[Bucket]>,
        epoch: u64,
        block: usize,
        claim: Claim<Hashed<K>>,
    ) {
        let (sketch, place) = (&all.sketch, all.place(epoch));
        let bucket = &mut buckets[all.first_block(epoch) + block];
        let Settled { at, count, taker, passed, .. } = sketch.settle(bucket, epoch, claim);
        all.archive[place].change(block, block * SLOTS + at, count, taker, Moment::NONE, || ());
        if let Some((hash, weight)) = passed {
            let cell = sketch.shape.cell_of(hash);
            sketch.own_trace().leave(epoch, cell);
            let counter = &all.base.archive[place].cells[cell];
            let sum = counter.load(Ordering::Relaxed).saturating_add(weight);
            counter.store(sum, Ordering::Relaxed);
        }
    }

    fn conclude(all: &All<Self>, buckets: &mut Box<[Bucket]>, epoch: u64, block: usize) {
        let bucket = &mut buckets[all.first_block(epoch) + block];
        bucket.begin(epoch);
        let (mut kept, mut flagged) = (0, 0);
        for at in (0..SLOTS).filter(|&at| bucket.votes[at] > 0) {
            let of_workers = || Self::is_in_doubt_of(all, epoch, bucket.hash(at), Self::workers_blocks(all));
            kept |= 1 << at;
            flagged |= u64::from(bucket.flag(at) || of_workers()) << at;
        }
        all.archive[all.place(epoch)].mark(block, kept, flagged);
    }

    fn clear(all: &All<Self>, epoch: u64, blocks: Range<usize>) {
        all.sketch.passes.forget();
        for trace in &all.sketch.traces {
            trace.clear(epoch, all.share(&blocks, trace.half_words()));
        }
    }
}
