//! The threads that count, the one that gathers, and what a report reads of them.
//!
//! ```text
//!   batch ─▶ Hand ─┬─▶ monitor::Worker of flow sizes ──────┐
//!   batch ─▶ Hand ─┼─▶ monitor::Worker of distinct flows ──┼─ messages ─▶ gather: monitor::Aggregator, one of each
//!                  └─▶ Local: what merges, under its lock  │
//!                                                          └─ read through ─▶ Crew::view
//! ```
//!
//! 1. `gate` holds the number of the epoch. A hand counts a batch under its read lock, so a batch is of one epoch in all sketches.
//! 2. An epoch ends when the gatherer takes the gate's write lock, and begins the next one in both aggregators. Hands find the new number
//!    with their next batch, or when they are asked to [`turn`](Hand::turn), and put what they hold of the old one to `ended`.
//! 3. An epoch is over when every hand has turned and both aggregators have settled: it is then read as it will stay.

use super::local::Local;
use super::name::{Name, bytes_of, name_of};
use super::shape::{EPOCHS_KEPT, LG_RING, Shape, Sizes};
use crate::arguments::Measure;
use crate::failure::Failure;
use crate::report::{Readings, Span};
use overbank::monitor::{Aggregator, DistinctFlows, Monitor, MonitorOptions, Packet, Reader, Worker};
use overbank::{KeyHash, KeyHasher};
use overbank_ingest::capture::{FlowBatch, FlowKind, FlowPacket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Packets that are counted between two looks at τ.
const SLICE: usize = 256;
/// How long the gatherer rests when nothing waits.
const REST: Duration = Duration::from_micros(100);

/// The number of the last poll, when there is nobody any more who polls.
const GONE: u64 = u64::MAX;

/// A lock whose holder cannot have left anything half-done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all threads share.
pub(super) struct Crew {
    pub(super) shape: Shape,
    pub(super) hasher: KeyHasher,
    pub(super) kind: FlowKind,
    pub(super) by: Measure,
    pub(super) sizes: Reader<Sizes>,
    pub(super) distinct: Reader<DistinctFlows>,
    gate: RwLock<u64>,
    locals: Vec<Mutex<Local>>,
    /// What the hands that have left the epoch that ends had counted in it.
    ended: Mutex<Option<Local>>,
    /// Hands that are in the epoch of the gate.
    turned: AtomicUsize,
    /// When the packets were that were counted of the current epoch.
    span: Mutex<Option<Span>>,
    gauges: Gauges,
}

/// What the gatherer says of itself.
#[derive(Default)]
struct Gauges {
    flow_tau: AtomicU64,
    distinct_tau: AtomicU64,
    queue: AtomicU64,
    messages: AtomicU64,
    polls: AtomicU64,
}

/// The gatherer's side.
pub(super) struct Gatherer {
    sizes: Aggregator<Sizes>,
    distinct: Aggregator<DistinctFlows>,
}

/// One thread's side.
pub(super) struct Hand<'c> {
    crew: &'c Crew,
    index: usize,
    epoch: u64,
    sizes: Worker<Sizes>,
    distinct: Worker<DistinctFlows>,
    packets: Vec<Packet<Name>>,
    hashes: Vec<KeyHash>,
}

/// The workers before they have threads.
pub(super) struct Workers {
    sizes: Vec<Worker<Sizes>>,
    distinct: Vec<Worker<DistinctFlows>>,
}

impl Crew {
    /// Everything for so many threads, which fit the shape.
    pub(super) fn new(
        shape: Shape,
        threads: usize,
        hasher: KeyHasher,
        kind: FlowKind,
        by: Measure,
    ) -> Result<(Self, Workers, Gatherer), Failure> {
        // Answers read through what waits, so it may be much: τ rises only where rings begin to fill, and few flows stay unknown.
        let target_queue = threads as u64 * ((1 << LG_RING) / 2);
        let options =
            MonitorOptions::new(threads).lg_ring(LG_RING).epochs_kept(EPOCHS_KEPT).target_queue(target_queue);
        let sizes = options.heavy_keys(shape.heavy_keys()).start(shape.flows()?)?;
        let distinct = options.start(DistinctFlows::new(shape.lg_registers(), hasher)?)?;
        let locals = (0..threads).map(|_| Ok(Mutex::new(Local::new(&shape, &hasher)?)));
        let Monitor { workers: of_sizes, aggregator: gathers_sizes, reader: sizes } = sizes;
        let Monitor { workers: of_distinct, aggregator: gathers_distinct, reader: distinct } = distinct;
        let crew = Self {
            shape,
            kind,
            by,
            sizes,
            distinct,
            gate: RwLock::new(0),
            locals: locals.collect::<overbank::Result<_>>()?,
            hasher,
            ended: Mutex::new(None),
            turned: AtomicUsize::new(threads),
            span: Mutex::new(None),
            gauges: Gauges::default(),
        };
        let gatherer = Gatherer { sizes: gathers_sizes, distinct: gathers_distinct };
        Ok((crew, Workers { sizes: of_sizes, distinct: of_distinct }, gatherer))
    }

    /// How many threads count.
    pub(super) fn threads(&self) -> usize {
        self.locals.len()
    }

    /// Whether flows have ports, which fragments lack.
    pub(super) fn has_ports(&self) -> bool {
        [FlowKind::SOURCE_PORT, FlowKind::DESTINATION_PORT].iter().any(|port| port.is_part_of(self.kind))
    }

    /// The number of the epoch.
    pub(super) fn epoch(&self) -> u64 {
        *self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted of the current epoch, by all threads.
    pub(super) fn local(&self) -> overbank::Result<Local> {
        let mut locals = self.locals.iter();
        let first = locals.next().map(|local| lock(local).clone());
        let mut all = first.map_or_else(|| Local::new(&self.shape, &self.hasher), Ok)?;
        for local in locals {
            all.merge(&lock(local))?;
        }
        Ok(all)
    }

    /// What was counted of the epoch that has ended.
    pub(super) fn take_ended(&self) -> overbank::Result<Local> {
        lock(&self.ended).take().map_or_else(|| Local::new(&self.shape, &self.hasher), Ok)
    }

    /// When the packets were that were counted of the current epoch.
    pub(super) fn span(&self) -> Option<Span> {
        *lock(&self.span)
    }

    pub(super) fn note_span(&self, span: Option<Span>) {
        *lock(&self.span) = span;
    }

    /// The readings once nothing waits for the gatherer any more of what was published before. To be asked while nobody counts.
    pub(super) fn drained(&self) -> Readings {
        // The poll under way may have looked at a ring before something came to it.
        let polls = self.gauges.polls.load(Ordering::Acquire).saturating_add(2);
        loop {
            let (now, readings) = (self.gauges.polls.load(Ordering::Acquire), self.readings());
            if now >= polls && readings.queue == 0 || now == GONE {
                return readings;
            }
            std::thread::sleep(REST);
        }
    }

    pub(super) fn readings(&self) -> Readings {
        let Gauges { flow_tau, distinct_tau, queue, messages, .. } = &self.gauges;
        let kept =
            |stats: Vec<overbank::monitor::WorkerStats>| stats.iter().map(|stats| stats.kept).sum::<u64>();
        Readings {
            flow_tau: flow_tau.load(Ordering::Relaxed) as u8,
            distinct_tau: distinct_tau.load(Ordering::Relaxed) as u8,
            queue: queue.load(Ordering::Relaxed),
            messages: messages.load(Ordering::Relaxed),
            kept: kept(self.sizes.worker_stats()) + kept(self.distinct.worker_stats()),
        }
    }
}

impl Workers {
    /// One hand for each thread.
    pub(super) fn hands(self, crew: &Crew) -> Vec<Hand<'_>> {
        let hand = |(index, (sizes, distinct))| Hand {
            crew,
            index,
            epoch: 0,
            sizes,
            distinct,
            packets: Vec::with_capacity(SLICE),
            hashes: Vec::with_capacity(SLICE),
        };
        self.sizes.into_iter().zip(self.distinct).enumerate().map(hand).collect()
    }
}

impl Hand<'_> {
    /// Counts a batch.
    pub(super) fn count(&mut self, batch: &FlowBatch) -> overbank::Result<()> {
        let crew = self.crew;
        let gate = crew.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.go_over(*gate)?;
        for slice in batch.packets().chunks(SLICE) {
            self.count_slice(slice);
        }
        lock(&crew.locals[self.index]).packets.add(batch.counts());
        Ok(())
    }

    /// Goes over to a new epoch if one has begun, and lets the gatherer have what is due.
    pub(super) fn turn(&mut self) -> overbank::Result<()> {
        let crew = self.crew;
        let gate = crew.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.go_over(*gate)?;
        self.sizes.publish();
        self.distinct.publish();
        Ok(())
    }

    fn count_slice(&mut self, slice: &[FlowPacket]) {
        let Crew { hasher, kind, by, locals, .. } = self.crew;
        self.packets.clear();
        self.hashes.clear();
        for packet in slice {
            // A five-tuple has the fields of every kind.
            let key = packet.key.project(*kind).unwrap_or(packet.key);
            let hash = hasher.hash(key.as_bytes());
            let weight = match by {
                Measure::Packets => 1,
                Measure::Bytes => u64::from(packet.wire_bytes),
            };
            self.packets.push(Packet { hash, key: name_of(&key), weight });
            self.hashes.push(hash);
        }
        self.sizes.insert_batch(&self.packets);
        self.distinct.insert_batch(&self.hashes);
        let local = &mut *lock(&locals[self.index]);
        local.counted += slice.len() as u64;
        for (packet, Packet { hash, key, weight }) in slice.iter().zip(&self.packets) {
            local.counted_bytes += u64::from(packet.wire_bytes);
            local.packet_sizes.update(packet.wire_bytes.into(), 1);
            local.entropy.update(*hash, bytes_of(key), *weight);
            let ends = [FlowKind::SOURCE, FlowKind::DESTINATION].map(|kind| packet.key.project(kind));
            if let [Some(source), Some(destination)] = ends {
                let item = hasher.hash(destination.as_bytes());
                local.spreaders.update(hasher.hash(source.as_bytes()), source.as_bytes(), item);
            }
        }
    }

    /// Leaves what it holds of the epoch before.
    fn go_over(&mut self, epoch: u64) -> overbank::Result<()> {
        if self.epoch == epoch {
            return Ok(());
        }
        let mut ended = lock(&self.crew.ended);
        let fresh = Local::new(&self.crew.shape, &self.crew.hasher)?;
        let left = std::mem::replace(&mut *lock(&self.crew.locals[self.index]), fresh);
        match &mut *ended {
            Some(ended) => ended.merge(&left)?,
            none => *none = Some(left),
        }
        drop(ended);
        self.sizes.publish();
        self.distinct.publish();
        self.epoch = epoch;
        self.crew.turned.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// A request to end the epoch; the sender is told once it is over.
pub(super) type Turn = SyncSender<()>;

/// Asks for the end of the epoch, and waits for it; whether the gatherer is still there.
pub(super) fn end_epoch(turns: &Sender<Turn>) -> bool {
    let (over, is_over) = std::sync::mpsc::sync_channel(1);
    turns.send(over).is_ok() && is_over.recv().is_ok()
}

impl Gatherer {
    /// Takes messages until nobody can ask for a turn any more. `wake` has hands turn that have nothing to count.
    pub(super) fn gather(mut self, crew: &Crew, turns: &Receiver<Turn>, wake: impl Fn()) {
        let began = Instant::now();
        let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut turning: Option<Turn> = None;
        // However it ends, nobody waits for another poll.
        let _end = End(&crew.gauges);
        loop {
            let (sizes, distinct) = (self.sizes.poll(clock), self.distinct.poll(clock));
            let gauges = &crew.gauges;
            gauges.flow_tau.store(self.sizes.tau().into(), Ordering::Relaxed);
            gauges.distinct_tau.store(self.distinct.tau().into(), Ordering::Relaxed);
            gauges.queue.store(sizes.queue + distinct.queue, Ordering::Relaxed);
            gauges.messages.store(self.sizes.messages() + self.distinct.messages(), Ordering::Relaxed);
            gauges.polls.fetch_add(1, Ordering::Release);
            let is_idle = sizes.applied + distinct.applied == 0;
            if turning.is_some() {
                let has_turned = crew.turned.load(Ordering::Acquire) == crew.threads();
                if has_turned && !self.sizes.is_settling() && !self.distinct.is_settling() {
                    // Who asked may have gone since.
                    let _ = turning.take().map(|over| over.send(()));
                } else if is_idle && !has_turned {
                    std::thread::park_timeout(REST);
                }
                continue;
            }
            let asked = match is_idle {
                true => turns.recv_timeout(REST),
                false => turns.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            };
            match asked {
                Ok(over) => {
                    self.begin_epoch(crew);
                    turning = Some(over);
                    wake();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Between two batches of every hand. The epoch before is settled, as whoever asks for a turn waits for its end.
    fn begin_epoch(&mut self, crew: &Crew) {
        let mut gate = crew.gate.write().unwrap_or_else(PoisonError::into_inner);
        crew.turned.store(0, Ordering::Relaxed);
        self.sizes.begin_epoch();
        self.distinct.begin_epoch();
        *gate += 1;
    }
}

struct End<'g>(&'g Gauges);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.polls.store(GONE, Ordering::Release);
    }
}
