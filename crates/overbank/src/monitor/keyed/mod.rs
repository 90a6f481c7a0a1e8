//! Sketches whose counters have a key each, on the framework: slots of a flow and a count.
//!
//! ```text
//!   packets ─▶ worker 0   blocks of slots ── messages: block, count, flow ──▶ ring ─┐
//!   packets ─▶ worker 1   blocks of slots ──────────────────────────────────▶ ring ─┼─▶ aggregator   blocks of slots
//!                  │            ▲                                                    │
//!                  └────────────┴──────────── reader: reads all of them ◀───────────┘
//! ```
//!
//! 1. A flow has its slots in the block of one number, at every worker and at the aggregator. What it weighs moves, but not out of there:
//!    a read of a block finds all of it, once, wherever it is by then (`blocks`, `post`, `table`).
//! 2. A slot that is sent is emptied; one whose message has no room keeps its count, and its flow, in 64 bits.
//! 3. Epochs, weights and τ are those of the framework (`shared`), and so are the counters beside the slots, where a sketch has them.
//!
//! A slot of [`FlowParts`] is anybody's once it is sent; one of [`ElasticFlows`] stays its flow's until that is voted out.
//!
//! | operation      | CPU                                              | memory                                             |
//! |----------------|--------------------------------------------------|----------------------------------------------------|
//! | insert         | O(rows)                                          | a worker: twice 24 bytes and the key's a slot, a ring |
//! | poll, a message | O(rows)                                         | likewise, and once more for each epoch kept        |
//! | a flow's count | O(workers · (rows + messages that wait))         | –                                                  |
//! | all flows      | O(workers · (slots + blocks · messages that wait)) | a list                                           |
//!
//! Source: OctoSketch, section 4.4 and appendix C. Deviations: a CocoSketch's slots of all rows lie in one block, of which the rest of the
//! hash chooses, where the paper's rows are as long as the sketch; the worker's counts have 64 bits, not 8, as beside a key and its hash
//! it makes little difference, and nothing is to be kept apart when a ring is full.

mod blocks;
mod bucketed;
mod elastic;
mod gatherer;
mod parts;
mod passes;
mod post;
mod stand;
mod table;

pub use elastic::{ElasticAggregator, ElasticFlows, ElasticMonitor, ElasticReader, ElasticWorker};
pub use parts::{FlowParts, PartsAggregator, PartsMonitor, PartsReader, PartsWorker};

use super::{
    Allocation, MonitorOptions, Packet, Polled, WorkerStats, bounds, key, lane, message, monitored, ring,
    rows, rule, shared, sync, tally, threshold,
};

#[cfg(test)]
mod tests;
