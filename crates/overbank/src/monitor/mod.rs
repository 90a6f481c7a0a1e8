//! Sketches of one stream that many cores receive: each counts its share, and answers at any time are those of one sketch of all.
//!
//! ```text
//!   packets ─▶ Worker 0   8-bit counters ── messages: key, counter, value ──▶ ring ─┐
//!   packets ─▶ Worker 1   8-bit counters ───────────────────────────────────▶ ring ─┼─▶ Aggregator   64-bit counters, heavy keys
//!   packets ─▶ Worker 2   8-bit counters ───────────────────────────────────▶ ring ─┘       │ τ, epochs
//!                  │            ▲                                                            │
//!                  └────────────┴──────────── Reader: reads all of them ◀───────────────────┘
//! ```
//!
//! | shape             | sketch                | says                                                           |
//! |-------------------|-----------------------|----------------------------------------------------------------|
//! | [`FlowSizes`]     | count-min             | a flow's size, never too low; the heaviest flows               |
//! | [`SignedSizes`]   | count sketch          | the same without bias, of weights of either sign               |
//! | [`DistinctFlows`] | HyperLogLog           | how many flows there are; [`LogLogFlows`]: by LogLog           |
//! | [`Spreaders`]     | Locher's              | the sources with the most distinct items                       |
//! | [`Quantiles`]     | DDSketch              | quantiles of a value, such as the length of packets            |
//! | [`FlowSums`]      | UnivMon               | L2, entropy, number of flows, any such sum; heavy changes      |
//! | [`FlowParts`]     | CocoSketch            | sizes of flows and of any part of their keys, without bias     |
//! | [`ElasticFlows`]  | Elastic sketch        | heavy flows exactly, none too low; how sizes are distributed   |
//!
//! Each gives the sketch of an epoch, or of several, as a value of [`sketch`](crate::sketch), to be asked, merged and kept.
//!
//! A worker's counter that reaches τ is sent to the aggregator and cleared. The aggregator thus knows every counter up to less than τ a
//! worker, and which keys are heavy; τ follows what it can take. A [`Reader`] adds what the workers still hold, so that its answers are
//! those of an ideal sketch, which sees everything at once.
//!
//! 1. No packet is lost, counted twice or waited for: not while a message is under way, not where a ring is full.
//! 2. Nobody waits for anybody: workers, aggregator and readers take no lock, and go on wherever one of the others stops.
//! 3. How packets are spread over workers makes no difference to an answer: by flow, at random or in turn.
//! 4. All that is shared is atomic words; nothing here is `unsafe`.
//!
//! | operation               | CPU                                    | memory                                        |
//! |-------------------------|----------------------------------------|-----------------------------------------------|
//! | insert                  | O(rows), a byte each                   | a worker: 2 B a counter, a ring, 16 KiB       |
//! | poll, a message         | O(1); O(rows) where a key may be heavy | 16 B a counter, and 8 for each epoch kept     |
//! | a count                 | O(workers · (rows + messages waiting)) | –                                             |
//! | heavy keys              | a count each                           | a list                                        |
//! | a sketch of epochs      | O(workers · counters)                  | that sketch, and 8 B a counter                |
//!
//! A worker has 16 bytes more for each counter once one has outgrown its byte, which takes a full ring or a weight of 2^39.
//!
//! A sketch whose counters have a key each is kept likewise, by workers, an aggregator and readers of its own: [`FlowParts`], by
//! [`MonitorOptions::start_parts`], and [`ElasticFlows`], by [`MonitorOptions::start_elastic`].
//!
//! Source: Zhang, Chen, Liu, "OctoSketch: enabling real-time, continuous network monitoring over multiple cores" (NSDI 2024).
//!
//! Deviations. Queries read the workers' counters too: in shared memory that costs no message, and takes the error `k' τ` away
//! (section 5.1), so τ decides only how soon a key is known. Epochs end without a flush: each counter has two halves, a worker goes over
//! to the other in one step, and the aggregator adds up what was left. A full ring keeps the counter, where the published code lets its
//! byte wrap. Where the aggregator is far behind, τ rises by steps that double, and workers tell it of flows that it has not heard of
//! rather than more of those that it has: so a heavy flow is known before any of its counters at many workers reaches τ. The CPU limit
//! is a rest that the caller or a [`Poller`] takes, not a signal that stops a process.

mod aggregator;
pub mod bounds;
mod count_min;
mod count_sketch;
mod distinct;
mod heavy;
mod key;
mod keyed;
mod lane;
mod message;
mod monitored;
mod owed;
mod poller;
mod quantiles;
mod reader;
mod recent;
mod ring;
mod rows;
mod rule;
mod shared;
mod spreaders;
mod sync;
mod tally;
mod threshold;
mod univ_mon;
mod worker;

pub use aggregator::{Aggregator, Polled};
pub use count_min::{FlowSizes, Packet};
pub use count_sketch::{SignedPacket, SignedSizes};
pub use distinct::{Distinct, DistinctFlows, LogLogFlows, Registers};
pub use key::{Flow, Hashed, Key, KeyBytes};
pub use keyed::{ElasticAggregator, ElasticFlows, ElasticMonitor, ElasticReader, ElasticWorker};
pub use keyed::{FlowParts, PartsAggregator, PartsMonitor, PartsReader, PartsWorker};
pub use monitored::{Monitored, ReadCounters, Weighed};
pub use poller::{Poller, Refused};
pub use quantiles::{Quantiles, Reading};
pub use reader::Reader;
pub use rule::{Max, Rule, Signed, Sum};
pub use shared::WorkerStats;
pub use spreaders::{Contact, Spreaders};
pub use threshold::Allocation;
pub use univ_mon::{FlowChange, FlowSums};
pub use worker::Worker;

use crate::Result;
use crate::error::invalid;
use shared::Shared;
use std::sync::Arc;
use threshold::{Control, Threshold};

/// The most keys that are kept of an epoch.
const HEAVY_KEYS_MAX: usize = 1 << 24;

/// How a stream is monitored.
///
/// ```
/// use overbank::monitor::{FlowSizes, Monitor, MonitorOptions, Packet};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let packet = |flow: u64| Packet { hash: hasher.hash_u64(flow), key: flow, weight: 1 };
/// let Monitor { workers, mut aggregator, reader } =
///     MonitorOptions::new(2).start(FlowSizes::<u64, 3>::new(1 << 12)?)?;
/// std::thread::scope(|scope| {
///     for mut worker in workers {
///         scope.spawn(move || (0..1000).for_each(|i| worker.insert(packet(i % 10))));
///     }
/// });
/// aggregator.poll(|| 0);
/// assert_eq!(reader.size(packet(7).hash, 0.99).estimate, 200);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MonitorOptions {
    workers: usize,
    lg_ring: u32,
    heavy_keys: usize,
    epochs_kept: usize,
    policy: Allocation,
    target_queue: u64,
    window_ns: u64,
    worker_share: f64,
}

/// What [`MonitorOptions::start`] gives.
#[derive(Debug)]
pub struct Monitor<S: Monitored> {
    /// One for each thread that receives packets.
    pub workers: Vec<Worker<S>>,
    /// For one thread more: yours, or a [`Poller`]'s.
    pub aggregator: Aggregator<S>,
    /// For any number of threads.
    pub reader: Reader<S>,
}

impl MonitorOptions {
    /// For so many workers: rings of 1024 messages, 1024 heavy keys, one past epoch kept, τ as low as the aggregator keeps up with for an
    /// eighth of the workers' time, set every 100 µs for 10 messages that wait (section 4.3).
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            lg_ring: 10,
            heavy_keys: 1024,
            epochs_kept: 1,
            policy: Allocation::BestAccuracy,
            target_queue: 10,
            window_ns: 100_000,
            worker_share: 0.125,
        }
    }

    /// A ring holds `2^lg_ring - 1` messages. Beside a ring of a few a query has to read again more often: whenever so many passed
    /// meanwhile.
    pub fn lg_ring(self, lg_ring: u32) -> Self {
        Self { lg_ring, ..self }
    }

    /// How many of the heaviest keys are kept, of each group where the sketch has several.
    pub fn heavy_keys(self, heavy_keys: usize) -> Self {
        Self { heavy_keys, ..self }
    }

    /// How many epochs that are over are kept.
    pub fn epochs_kept(self, epochs_kept: usize) -> Self {
        Self { epochs_kept, ..self }
    }

    /// What the aggregator's time is spent for.
    pub fn policy(self, policy: Allocation) -> Self {
        Self { policy, ..self }
    }

    /// How many messages should wait, of all workers together: 1 or more.
    pub fn target_queue(self, target_queue: u64) -> Self {
        Self { target_queue, ..self }
    }

    /// How often τ is set, in nanoseconds: 1 or more.
    pub fn window_ns(self, window_ns: u64) -> Self {
        Self { window_ns, ..self }
    }

    /// The share of its time that a worker may spend on messages, of some 40 ns each: above 0, and at most 1. With an eighth it sends
    /// three million a second at most, whatever the aggregator could take: at the rates of a network card τ is then higher, and answers
    /// that read through are the same. For whoever asks [`Reader::applied_estimate`], 1 is the paper's way.
    pub fn worker_share(self, worker_share: f64) -> Self {
        Self { worker_share, ..self }
    }

    /// Starts to monitor by a sketch of this shape.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn start<S: Monitored>(self, sketch: S) -> Result<Monitor<S>> {
        self.require_valid(sketch.groups())?;
        let Self { workers, lg_ring, heavy_keys, epochs_kept, policy, .. } = self;
        if sketch.cells() > message::CELLS_MAX / 2 {
            let why = format!("a message can name {}", message::CELLS_MAX / 2);
            return invalid("cells", sketch.cells(), why);
        }
        let heavy_keys = if S::SHOWS_KEYS { heavy_keys } else { 0 };
        let shared = Arc::new(Shared::new(sketch, workers, lg_ring, heavy_keys, epochs_kept));
        let threshold = self.threshold(<S::Rule as Rule>::TAU_MAX);
        let aggregator = Aggregator::new(Arc::clone(&shared), policy, threshold, heavy_keys);
        let workers = (0..workers).map(|index| Worker::new(Arc::clone(&shared), index)).collect();
        Ok(Monitor { workers, aggregator, reader: Reader::new(shared) })
    }

    fn threshold(&self, tau_max: u8) -> Threshold {
        let Self { workers, policy, target_queue, window_ns, worker_share, .. } = *self;
        let room = ((1 << self.lg_ring) - 1) * workers as u64;
        Threshold::new(Control { policy, target_queue, room, window_ns, worker_share, tau_max }, workers)
    }

    fn require_valid(&self, groups: usize) -> Result<()> {
        let Self { workers, lg_ring, heavy_keys, epochs_kept, policy, target_queue, window_ns, worker_share } =
            *self;
        if !(1..=tally::WORKERS_MAX).contains(&workers) {
            return invalid("workers", workers, format!("choose 1 to {}", tally::WORKERS_MAX));
        }
        if !(1..=24).contains(&lg_ring) {
            return invalid("lg_ring", lg_ring, "choose rings of 2^1 to 2^24 messages");
        }
        let heavy_max = HEAVY_KEYS_MAX / groups.max(1);
        if !(1..=heavy_max).contains(&heavy_keys) {
            return invalid("heavy_keys", heavy_keys, format!("choose 1 to {heavy_max}"));
        }
        if epochs_kept == 0 {
            return invalid("epochs_kept", epochs_kept, "one is needed for answers while the next begins");
        }
        if target_queue == 0 {
            let why = "no queue is shorter, so τ would never fall; choose 1 message or more";
            return invalid("target_queue", target_queue, why);
        }
        if window_ns == 0 {
            let why = "τ would be set at every poll; choose 1 ns or more, such as 100 µs: 100000";
            return invalid("window_ns", window_ns, why);
        }
        if !(worker_share > 0.0 && worker_share <= 1.0) {
            return invalid(
                "worker_share",
                worker_share,
                "choose a share of a worker's time above 0 and at most 1",
            );
        }
        policy.require_valid()
    }
}

#[cfg(test)]
mod tests;
