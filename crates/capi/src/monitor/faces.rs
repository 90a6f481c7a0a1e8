//! One face for the workers and aggregators of all sketches.

use super::readers::Asked;
use super::{Name, Started, boxed, key_of, overbank_monitor_options, overbank_packet};
use crate::error::overbank_status::*;
use crate::error::{Answer, fail};
use crate::monitor::or;
use crate::sketch::*;
use keyhash::{KeyHash, KeyHasher};
use overbank::monitor::{
    Aggregator, DistinctFlows, ElasticAggregator, ElasticFlows, ElasticMonitor, ElasticWorker, FlowParts,
    FlowSizes, FlowSums, LogLogFlows, Monitor, MonitorOptions, Monitored, Packet, PartsAggregator,
    PartsMonitor, PartsWorker, Polled, Quantiles, Reading, SignedPacket, SignedSizes, Worker,
};
use overbank::sketch::HashId;
use std::sync::Arc;
use std::time::Instant;

pub(super) use super::readers::ReaderFace;

/// A worker of any sketch.
pub(crate) trait WorkerFace: Send {
    /// All packets, or none.
    fn insert(&mut self, packets: &[overbank_packet]) -> Answer<()>;
    fn publish(&mut self);
    /// Whether all is sent.
    fn flush(&mut self) -> bool;
}

/// An aggregator of any sketch.
pub(crate) trait AggregatorFace: Send {
    fn poll(&mut self) -> Polled;
    fn begin_epoch(&mut self) -> Option<u64>;
}

/// What workers of all kinds do.
pub(crate) trait Counts<E> {
    fn insert_batch(&mut self, elements: &[E]);
    fn publish(&mut self);
    fn flush(&mut self, from: usize) -> Option<usize>;
}

/// A worker, and its elements made of packets.
pub(crate) struct Counting<W, E> {
    worker: W,
    element: fn(KeyHash, Name, u64) -> E,
    /// Of the last call, whose memory is used again.
    elements: Vec<E>,
    /// Where the next flush goes on.
    from: usize,
}

impl<W: Counts<E> + Send, E: Send> WorkerFace for Counting<W, E> {
    fn insert(&mut self, packets: &[overbank_packet]) -> Answer<()> {
        self.elements.clear();
        for packet in packets {
            self.elements.push((self.element)(packet.hash.key_hash(), key_of(packet)?, packet.weight));
        }
        self.worker.insert_batch(&self.elements);
        Ok(())
    }

    fn publish(&mut self) {
        self.worker.publish();
    }

    fn flush(&mut self) -> bool {
        let next = self.worker.flush(self.from);
        self.from = next.unwrap_or(0);
        next.is_none()
    }
}

/// The same methods of types that have no trait for them.
macro_rules! faces {
    ($([$($generics:tt)*] $worker:ty, $element:ty, $aggregator:ty;)*) => {$(
        impl<$($generics)*> Counts<$element> for $worker {
            fn insert_batch(&mut self, elements: &[$element]) {
                self.insert_batch(elements);
            }

            fn publish(&mut self) {
                self.publish();
            }

            fn flush(&mut self, from: usize) -> Option<usize> {
                self.flush(from)
            }
        }

        impl<$($generics)*> AggregatorFace for Clocked<$aggregator> {
            fn poll(&mut self) -> Polled {
                let began = self.began;
                self.aggregator.poll(|| began.elapsed().as_nanos() as u64)
            }

            fn begin_epoch(&mut self) -> Option<u64> {
                self.aggregator.begin_epoch()
            }
        }
    )*};
}

/// An aggregator, and the time since it was made.
pub(crate) struct Clocked<A> {
    aggregator: A,
    began: Instant,
}

faces! {
    [S: Monitored] Worker<S>, S::Element, Aggregator<S>;
    [const D: usize] PartsWorker<Name, D>, Packet<Name>, PartsAggregator<Name, D>;
    [] ElasticWorker<Name>, Packet<Name>, ElasticAggregator<Name>;
}

fn clocked<A>(aggregator: A) -> Box<dyn AggregatorFace>
where
    Clocked<A>: AggregatorFace + 'static,
{
    Box::new(Clocked { aggregator, began: Instant::now() })
}

fn counting<W, E>(element: fn(KeyHash, Name, u64) -> E) -> impl Fn(W) -> Box<dyn WorkerFace>
where
    W: Counts<E> + Send + 'static,
    E: Send + 'static,
{
    move |worker| Box::new(Counting { worker, element, elements: Vec::new(), from: 0 })
}

fn packet(hash: KeyHash, key: Name, weight: u64) -> Packet<Name> {
    Packet { hash, key, weight }
}

fn plain<S: Monitored>(
    options: MonitorOptions,
    sketch: S,
    hash_id: HashId,
    element: fn(KeyHash, Name, u64) -> S::Element,
) -> Answer<Started>
where
    S::Element: Send + 'static,
    Asked<overbank::monitor::Reader<S>>: ReaderFace + 'static,
{
    let Monitor { workers, aggregator, reader } = options.start(sketch)?;
    let reader = Arc::new(Asked { reader, hash_id });
    Ok(Started::new(boxed(workers, counting(element)), clocked(aggregator), reader))
}

/// A type of sketch has its rows as a constant.
macro_rules! with_rows {
    ($rows:expr, $build:ident, $($arguments:expr),*) => {
        match $rows {
            2 => $build::<2>($($arguments),*),
            3 => $build::<3>($($arguments),*),
            4 => $build::<4>($($arguments),*),
            5 => $build::<5>($($arguments),*),
            rows => fail(OVERBANK_INVALID, format!("rows cannot be {rows}: choose 2 to 5, or 0 for 3")),
        }
    };
}

fn sizes<const D: usize>(options: MonitorOptions, columns: u32, id: HashId) -> Answer<Started> {
    plain(options, FlowSizes::<Name, D>::new(columns)?, id, packet)
}

fn signed<const D: usize>(options: MonitorOptions, columns: u32, id: HashId) -> Answer<Started> {
    let element =
        |hash, key, weight| SignedPacket { hash, key, weight: i64::try_from(weight).unwrap_or(i64::MAX) };
    plain(options, SignedSizes::<Name, D>::new(columns, id)?, id, element)
}

/// Starts what the options ask for.
pub(super) fn start(
    options: MonitorOptions,
    asked: &overbank_monitor_options,
    hasher: KeyHasher,
) -> Answer<Started> {
    let (id, columns, rows) = (HashId::from(hasher), or(asked.columns, 1 << 16), or(asked.rows, 3));
    let require_rows = |has: u32| match asked.rows {
        0 => Ok(()),
        rows if rows == has => Ok(()),
        rows => {
            fail(OVERBANK_INVALID, format!("rows cannot be {rows}: this kind has {has}; choose that, or 0"))
        }
    };
    match asked.kind {
        OVERBANK_COUNT_MIN => with_rows!(rows, sizes, options, columns, id),
        OVERBANK_COUNT_SKETCH => with_rows!(rows, signed, options, columns, id),
        OVERBANK_HYPERLOGLOG => {
            plain(options, DistinctFlows::new(or(asked.columns, 14), id)?, id, |hash, _, _| hash)
        }
        OVERBANK_LOGLOG => {
            plain(options, LogLogFlows::new(or(asked.columns, 14), id)?, id, |hash, _, _| hash)
        }
        OVERBANK_DDSKETCH => {
            let element = |_, _, weight| Reading { value: weight as f64, count: 1 };
            plain(options, Quantiles::new(0.01)?, id, element)
        }
        OVERBANK_UNIVMON => {
            require_rows(5)?;
            let columns = or(asked.columns, 1 << 13);
            plain(options, FlowSums::<Name, 5>::new(or(asked.parts, 8), columns, id)?, id, packet)
        }
        OVERBANK_COCO => {
            require_rows(2)?;
            let PartsMonitor { workers, aggregator, reader } =
                options.start_parts(FlowParts::<Name, 2>::new(columns, id)?)?;
            let reader = Arc::new(Asked { reader, hash_id: id });
            Ok(Started::new(boxed(workers, counting(packet)), clocked(aggregator), reader))
        }
        OVERBANK_ELASTIC => {
            require_rows(1)?;
            let ElasticMonitor { workers, aggregator, reader } =
                options.start_elastic(ElasticFlows::<Name>::new(or(asked.parts, 1 << 13), columns, id)?)?;
            let reader = Arc::new(Asked { reader, hash_id: id });
            Ok(Started::new(boxed(workers, counting(packet)), clocked(aggregator), reader))
        }
        kind => {
            let why = format!(
                "a monitor's kind cannot be {kind}: choose OVERBANK_COUNT_MIN, _COUNT_SKETCH, _HYPERLOGLOG, _LOGLOG, _DDSKETCH, \
                 _COCO, _UNIVMON or _ELASTIC"
            );
            fail(OVERBANK_INVALID, why)
        }
    }
}
