//! A worker: counts heavy flows in slots, and the others in the light part.

use super::Packet;
use super::heavy::ElasticShared;
use super::key::{Hashed, Key};
use super::lane::{Limit, PATIENCE};
use super::post::Claim;
use super::rule::Sum;
use super::stand::Stand;
use crate::bits::prefetch::prefetch;
use crate::sketch::elastic::{Bucket, SLOTS, Vote};

/// Inserts, on one thread: no lock and no hashing. Insertions count at once: a query that begins after one has returned finds it. What
/// a worker holds when it is dropped stays counted.
///
/// # Cost
/// An insertion reads a bucket of three cache lines; it writes one of them and a slot, or a byte of the light part; one in about τ of them
/// also a message. Nothing is allocated, but once: 16 bytes for each counter of the light part, when one first outgrows its byte.
#[derive(Debug)]
pub struct ElasticWorker<K: Key> {
    stand: Stand<ElasticShared<K>>,
    /// Votes, flags and votes against, each of the epoch that last touched it.
    buckets: Box<[Bucket]>,
}

impl<K: Key> ElasticWorker<K> {
    pub(super) fn new(stand: Stand<ElasticShared<K>>) -> Self {
        let buckets = vec![Bucket::default(); stand.all.sketch.shape.buckets as usize].into();
        Self { stand, buckets }
    }

    /// Inserts one packet. Messages go to the aggregator eight at a time: call [`publish`](Self::publish) when there is nothing to do.
    #[inline]
    pub fn insert(&mut self, packet: Packet<K>) {
        let tau = self.stand.begin(1, packet.weight);
        self.count(packet, tau, &mut Limit::new(tau));
    }

    /// Inserts a batch, such as the packets of one receive call, and publishes.
    pub fn insert_batch(&mut self, packets: &[Packet<K>]) {
        let weight = packets.iter().fold(0u64, |sum, packet| sum.saturating_add(packet.weight));
        let tau = self.stand.begin(packets.len() as u64, weight);
        for packets in packets.chunks(PATIENCE) {
            let shape = self.stand.all.sketch.shape;
            packets.iter().for_each(|packet| prefetch(&self.buckets, shape.block_of(packet.hash)));
            let mut limit = Limit::new(tau);
            for &packet in packets {
                self.count(packet, tau, &mut limit);
            }
        }
        self.publish();
    }

    /// Lets the aggregator have what is due, with what a full ring kept back, as far as there is room now; and goes over to a new epoch if
    /// one has begun. To be called now and then by a worker that has nothing to insert: epochs end when all workers have left them.
    pub fn publish(&mut self) {
        self.stand.publish();
    }

    /// Sends every slot and counter that holds anything, however little: for whoever asks the aggregator's own. Answers that read through
    /// need no flush. Flows keep their slots, with votes and flags. Stops where the ring is full; `from` is 0 at first, then what the
    /// last call returned, until it returns `None`. What it returned in an epoch that is over counts as 0.
    pub fn flush(&mut self, from: usize) -> Option<usize> {
        self.stand.flush(from)
    }

    #[inline(always)]
    fn count(&mut self, packet: Packet<K>, tau: u8, limit: &mut Limit) {
        let Packet { hash, key, weight } = packet;
        if weight == 0 {
            return;
        }
        let Stand { all, index, seat, light, epoch, first_block, .. } = &mut self.stand;
        let (sketch, post, epoch) = (&all.sketch, &all.posts[*index], *epoch);
        let at = sketch.shape.block_of(hash);
        let (block, bucket) = (first_block.wrapping_add(at), &mut self.buckets[at]);
        let first = block.wrapping_mul(SLOTS);
        bucket.begin(epoch);
        let (claim, trace) = (Claim { count: weight, flow: Hashed { hash, key } }, &sketch.traces[*index]);
        match bucket.vote(hash, weight) {
            Vote::Own(at) => {
                let slot = first.wrapping_add(at);
                let count = post.blocks.count(slot).saturating_add(weight);
                return post.put::<Hashed<K>>(seat, (block, slot), count, None, tau);
            }
            Vote::Free(at) => {
                bucket.set(at, hash, weight, false);
                // Nothing leaves it, so no ring is too full.
                post.give(seat, (block, first.wrapping_add(at)), claim, false, tau);
                return;
            }
            Vote::Wins(at) => {
                let is_flagged = trace.has(epoch, sketch.shape.cell_of(hash));
                if post.give(seat, (block, first.wrapping_add(at)), claim, is_flagged, tau) {
                    return bucket.replace(at, hash, weight, is_flagged);
                }
            }
            Vote::Against => {}
        }
        let cell = sketch.shape.cell_of(hash);
        trace.leave(epoch, cell);
        let half = all.base.lanes[*index].half(all.base.base(epoch), sketch.shape.columns as usize);
        half.change::<Sum, ()>(light, cell, weight, *limit, limit, ());
    }
}
