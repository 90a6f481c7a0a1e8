//! The sketches that are kept of each epoch, all on the library's framework: a thread's counters, who gathers them, and who reads both.
//!
//! ```text
//!   packets ─▶ Slice ─▶ Counters, one of each a thread ── messages ─▶ Gathers, one of each
//!                                     ▲                                     ▲
//!                                     └──────────── Readers, one of each ───┘
//! ```
//!
//! | sketch    | takes                       | says                                     |
//! |-----------|-----------------------------|------------------------------------------|
//! | flows     | a flow and its weight       | how large flows are, and which are heavy |
//! | distinct  | a flow                      | how many there are                       |
//! | spreaders | a source and a destination  | which sources have many                  |
//! | sums      | a flow and its weight       | the entropy of their shares              |
//! | lengths   | the length of a packet      | quantiles                                |

use super::shape::{AddressBytes, FlowBytes, Flows, Shape, Sources, Sums};
use crate::arguments::Measure;
use crate::report::SKETCHES;
use overbank::monitor::{
    Aggregator, Contact, DistinctFlows, Monitor, MonitorOptions, Monitored, Packet, Polled, Quantiles,
    Reader, Reading, Worker,
};
use overbank::{KeyHash, KeyHasher};
use overbank_ingest::capture::{FlowKind, FlowPacket};

/// What reads them.
pub(super) struct Readers {
    pub(super) flows: Reader<Flows>,
    pub(super) distinct: Reader<DistinctFlows>,
    pub(super) spreaders: Reader<Sources>,
    pub(super) sums: Reader<Sums>,
    pub(super) lengths: Reader<Quantiles>,
}

/// What a thread has of them.
pub(super) struct Counters {
    flows: Worker<Flows>,
    distinct: Worker<DistinctFlows>,
    spreaders: Worker<Sources>,
    sums: Worker<Sums>,
    lengths: Worker<Quantiles>,
}

/// What gathers one of them, whichever it is.
pub(super) trait Gathers: Send {
    fn poll(&mut self, clock: &dyn Fn() -> u64) -> Polled;
    fn begin_epoch(&mut self);
    fn is_settling(&self) -> bool;
    fn tau(&self) -> u8;
    fn messages(&self) -> u64;
}

impl<S: Monitored> Gathers for Aggregator<S> {
    fn poll(&mut self, clock: &dyn Fn() -> u64) -> Polled {
        Aggregator::poll(self, clock)
    }

    fn begin_epoch(&mut self) {
        // Whoever ends an epoch waits until the one before is settled.
        Aggregator::begin_epoch(self);
    }

    fn is_settling(&self) -> bool {
        Aggregator::is_settling(self)
    }

    fn tau(&self) -> u8 {
        Aggregator::tau(self)
    }

    fn messages(&self) -> u64 {
        Aggregator::messages(self)
    }
}

/// What gathers each of them, in the order of their names.
pub(super) type Gathering = [Box<dyn Gathers>; SKETCHES.len()];

/// Everything for so many threads.
pub(super) fn start(
    shape: &Shape,
    threads: usize,
    hasher: &KeyHasher,
) -> overbank::Result<(Readers, Vec<Counters>, Gathering)> {
    let shapes = shape.shapes(hasher)?;
    let [flows, distinct, spreaders, sums, lengths] = shape.kept().map(|kept| {
        // Answers read through what waits, so it may be much: τ rises only where rings begin to fill, and few flows stay unknown.
        let target_queue = threads as u64 * ((1 << kept.lg_ring) / 2);
        let options = MonitorOptions::new(threads).lg_ring(kept.lg_ring).epochs_kept(kept.epochs);
        options.heavy_keys(kept.keys).target_queue(target_queue)
    });
    let Monitor { workers: of_flows, aggregator: gathers_flows, reader: flows } =
        flows.start(shapes.flows)?;
    let Monitor { workers: of_distinct, aggregator: gathers_distinct, reader: distinct } =
        distinct.start(shapes.distinct)?;
    let Monitor { workers: of_spreaders, aggregator: gathers_spreaders, reader: spreaders } =
        spreaders.start(shapes.spreaders)?;
    let Monitor { workers: of_sums, aggregator: gathers_sums, reader: sums } = sums.start(shapes.sums)?;
    let Monitor { workers: of_lengths, aggregator: gathers_lengths, reader: lengths } =
        lengths.start(shapes.lengths)?;
    let counters = of_flows.into_iter().zip(of_distinct).zip(of_spreaders).zip(of_sums).zip(of_lengths);
    let counters = counters.map(|((((flows, distinct), spreaders), sums), lengths)| Counters {
        flows,
        distinct,
        spreaders,
        sums,
        lengths,
    });
    let gathering: Gathering = [
        Box::new(gathers_flows),
        Box::new(gathers_distinct),
        Box::new(gathers_spreaders),
        Box::new(gathers_sums),
        Box::new(gathers_lengths),
    ];
    Ok((Readers { flows, distinct, spreaders, sums, lengths }, counters.collect(), gathering))
}

impl Readers {
    /// How often a counter was to be sent and its ring was full.
    pub(super) fn kept(&self) -> u64 {
        let Self { flows, distinct, spreaders, sums, lengths } = self;
        let stats = [
            flows.worker_stats(),
            distinct.worker_stats(),
            spreaders.worker_stats(),
            sums.worker_stats(),
            lengths.worker_stats(),
        ];
        stats.iter().flatten().fold(0, |sum: u64, stats| sum.saturating_add(stats.kept))
    }
}

impl Counters {
    /// Counts packets.
    pub(super) fn insert(&mut self, slice: &Slice) {
        self.flows.insert_batch(&slice.flows);
        self.distinct.insert_batch(&slice.hashes);
        self.spreaders.insert_batch(&slice.contacts);
        self.sums.insert_batch(&slice.flows);
        self.lengths.insert_batch(&slice.lengths);
    }

    /// Counts packets by thresholds of `tau_max` at most: while a ring is full, `wait` is called with the number of its sketch, and says
    /// whether to go on waiting.
    pub(super) fn insert_patiently(&mut self, slice: &Slice, tau_max: u8, wait: impl Fn(usize) -> bool) {
        self.flows.insert_patiently(&slice.flows, tau_max, || wait(0));
        self.distinct.insert_patiently(&slice.hashes, tau_max, || wait(1));
        self.spreaders.insert_patiently(&slice.contacts, tau_max, || wait(2));
        self.sums.insert_patiently(&slice.flows, tau_max, || wait(3));
        self.lengths.insert_patiently(&slice.lengths, tau_max, || wait(4));
    }

    /// Goes over to a new epoch if one has begun, and lets those who gather have what is due.
    pub(super) fn publish(&mut self) {
        self.flows.publish();
        self.distinct.publish();
        self.spreaders.publish();
        self.sums.publish();
        self.lengths.publish();
    }
}

/// Some packets, as each sketch takes them.
#[derive(Default)]
pub(super) struct Slice {
    flows: Vec<Packet<FlowBytes>>,
    hashes: Vec<KeyHash>,
    contacts: Vec<Contact<AddressBytes>>,
    lengths: Vec<Reading>,
}

impl Slice {
    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.hashes.clear();
        self.contacts.clear();
        self.lengths.clear();
    }

    /// Adds a packet, whose flow is of `kind`.
    #[inline]
    pub(super) fn push(&mut self, packet: &FlowPacket, hasher: &KeyHasher, kind: FlowKind, by: Measure) {
        // A five-tuple has the fields of every kind.
        let key = packet.key.project(kind).unwrap_or(packet.key);
        let hash = hasher.hash(key.as_bytes());
        let weight = match by {
            Measure::Packets => 1,
            Measure::Bytes => u64::from(packet.wire_bytes),
        };
        // No flow's bytes are more than there is room for.
        let key = FlowBytes::new(key.as_bytes()).into_iter();
        self.flows.extend(key.map(|key| Packet { hash, key, weight }));
        self.hashes.push(hash);
        self.lengths.push(Reading { value: packet.wire_bytes.into(), count: 1 });
        let ends = [FlowKind::SOURCE, FlowKind::DESTINATION].map(|kind| packet.key.project(kind));
        if let [Some(source), Some(destination)] = ends {
            let (from, item) = (hasher.hash(source.as_bytes()), hasher.hash(destination.as_bytes()));
            let key = AddressBytes::new(source.as_bytes()).into_iter();
            self.contacts.extend(key.map(|key| Contact { source: from, key, item }));
        }
    }
}
