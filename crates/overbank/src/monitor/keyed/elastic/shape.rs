//! Where a flow's slots are, and its counter.

use super::Packet;
use super::key::Key;
use super::message::CELLS_MAX;
use super::monitored::Monitored;
use super::rows;
use super::rule::Sum;
use crate::Result;
use crate::error::invalid;
use crate::sketch::HashId;
use keyhash::{KeyHash, range_of};
use std::marker::PhantomData;

/// An Elastic sketch, for flows whose keys are of type `K`.
///
/// ```
/// use overbank::monitor::{ElasticFlows, ElasticMonitor, MonitorOptions, Packet};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let packet = |flow: u64| Packet { hash: hasher.hash_u64(flow), key: flow, weight: 1 };
/// let ElasticMonitor { workers, mut aggregator, reader } =
///     MonitorOptions::new(2).start_elastic(ElasticFlows::<u64>::new(1 << 10, 1 << 16, hasher)?)?;
/// std::thread::scope(|scope| {
///     for mut worker in workers {
///         scope.spawn(move || (0..1000).for_each(|i| worker.insert(packet(i % 10))));
///     }
/// });
/// aggregator.poll(|| 0);
/// let size = reader.size(packet(7).hash, 0.99);
/// assert_eq!((size.lower, size.upper), (200, 200));
/// assert_eq!(reader.flow_sketch(0, 0)?.unwrap().cardinality(), 10.0);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ElasticFlows<K> {
    pub(super) buckets: u32,
    pub(super) columns: u32,
    pub(super) hash_id: HashId,
    keys: PhantomData<fn() -> K>,
}

impl<K: Key> ElasticFlows<K> {
    /// `buckets` buckets of seven slots, and a light part of one row of `columns` counters. A worker has `75 + 16 K::WORDS` bytes for each
    /// slot, the aggregator `103 + 16 K::WORDS`, with which they change epochs, and `24 + 8 K::WORDS` for each epoch that is kept; for
    /// each counter a worker 2 bytes, and the aggregator 16 and 8.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) without buckets, with less than two columns, or with more than 2^23 of either.
    pub fn new(buckets: u32, columns: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        if buckets == 0 || buckets as usize > CELLS_MAX / 2 {
            return invalid("buckets", buckets, format!("choose 1 to {}", CELLS_MAX / 2));
        }
        rows::require(columns, 2, 1, 1)?;
        Ok(Self { buckets, columns, hash_id: hash_id.into(), keys: PhantomData })
    }

    /// Buckets of seven slots.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Counters of the light part.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// The block of a flow, of those of a half.
    #[inline(always)]
    pub(super) fn block_of(&self, hash: KeyHash) -> usize {
        range_of(hash.high(), self.buckets.into()) as usize
    }

    /// The counter of a flow, of those of a half.
    #[inline(always)]
    pub(super) fn cell_of(&self, hash: KeyHash) -> usize {
        let [column] = keyhash::columns::<1>(hash.fold(), self.columns.into());
        column as usize
    }
}

/// The counters of the light part, as the framework keeps them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LightRow {
    pub(super) columns: u32,
}

impl Monitored for LightRow {
    /// The flow's key is not shown.
    type Element = Packet<()>;
    type Key = ();
    type Rule = Sum;
    const SHOWS_KEYS: bool = false;

    fn cells(&self) -> usize {
        self.columns as usize
    }

    fn weight(&self, packet: Packet<()>) -> u64 {
        packet.weight
    }

    fn visit(&self, packet: Packet<()>, mut change: impl FnMut(usize, u64)) {
        let [column] = keyhash::columns::<1>(packet.hash.fold(), self.columns.into());
        change(column as usize, packet.weight);
    }

    fn key(&self, _: Packet<()>) {}
}
