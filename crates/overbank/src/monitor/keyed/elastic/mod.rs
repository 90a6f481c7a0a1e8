//! Heavy flows exactly and light ones bounded: an Elastic sketch on the framework.
//!
//! ```text
//!   packet ─ high() ─▶ a bucket of seven slots   flow │ count │ the worker's own: votes, flag, votes against
//!
//!   a slot is the flow's:   its count and votes += weight
//!   a slot is free:         the flow gets it
//!   else:                   votes against += weight; if they reach 8 times the least votes, what that slot counts goes to the aggregator
//!                           and the slot to the flow; else the weight goes to the light part ─ fold() ─▶ one counter
//!   from τ on:              the slot's count goes to the aggregator, and a counter as in other sketches of counters
//! ```
//!
//! The aggregator does the same with what comes for its own bucket, but that a flow which is voted out there, or does not get in, passes to
//! the light part: so weight passes from slots to counters there and nowhere else.
//!
//! 1. Each packet's weight is in one place at a time: a slot, a message or a counter of the light part. They sum to the total weight.
//! 2. A slot that is emptied into a message keeps its flow. Votes and flags are not what is sent: they are of all that a flow weighed since
//!    it has its slot, and no message, flush or full ring changes them.
//! 3. A flow that a ring without room would have to wait for is not voted out yet; the packet goes to the light part.
//! 4. The light part has no weight of a flow unless a worker, or the aggregator, put something into its counter in this epoch (`trace`),
//!    and has the flow in a slot that is flagged, or in none though all seven are taken. This once so stays so to the epoch's end.
//! 5. A query reads a flow's bucket, then 4, then the counter if it must: what passed meanwhile makes it read again (`passes`).
//!
//! Source: "Elastic sketch" (SIGCOMM 2018), sections 3 and 4; OctoSketch, appendix C. Deviations: those of
//! [`sketch::Elastic`](crate::sketch::Elastic), whose buckets these are. The worker's counts of slots have 64 bits, not 8. A flow that is
//! voted out at a worker goes to the aggregator's slots, not to the worker's light part.

mod aggregator;
mod heavy;
mod reader;
mod shape;
mod trace;
mod worker;

pub use aggregator::ElasticAggregator;
pub use reader::ElasticReader;
pub use shape::ElasticFlows;
pub use worker::ElasticWorker;

use super::{
    MonitorOptions, Packet, Polled, WorkerStats, blocks, bounds, bucketed, gatherer, key, lane, message,
    monitored, passes, post, rows, rule, shared, stand, sync,
};
use crate::Result;
use bucketed::All;
use gatherer::Gatherer;
use heavy::ElasticShared;
use key::Key;
use stand::Stand;
use std::sync::Arc;

/// What [`MonitorOptions::start_elastic`] gives.
#[derive(Debug)]
pub struct ElasticMonitor<K: Key> {
    /// One for each thread that receives packets.
    pub workers: Vec<ElasticWorker<K>>,
    /// For one thread more.
    pub aggregator: ElasticAggregator<K>,
    /// For any number of threads.
    pub reader: ElasticReader<K>,
}

impl MonitorOptions {
    /// Starts to monitor by an Elastic sketch of this shape. [`heavy_keys`](Self::heavy_keys) has no meaning for it: every flow that
    /// has a slot is known.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn start_elastic<K: Key>(self, shape: ElasticFlows<K>) -> Result<ElasticMonitor<K>> {
        self.require_valid(1)?;
        let shared = ElasticShared::new(shape, self.workers);
        let buckets = shared.aggregator_buckets();
        let all = All::new(shared, self.workers, self.lg_ring, self.epochs_kept);
        let threshold = self.threshold(u8::MAX);
        let gatherer = Gatherer::new(Arc::clone(&all), self.policy, threshold, buckets);
        let worker = |index: usize| ElasticWorker::new(Stand::new(Arc::clone(&all), index));
        let workers = (0..self.workers).map(worker).collect();
        let aggregator = ElasticAggregator::new(gatherer);
        Ok(ElasticMonitor { workers, aggregator, reader: ElasticReader::new(all) })
    }
}
