//! Flow sizes without bias, whose weights may be negative: a count sketch of `D` rows on the framework, with the flows of the greatest
//! sizes of either sign.
//!
//! ```text
//!   bytes sent +, received -       each row: += sign * weight        size: the median of sign * counter
//! ```

use super::key::{Hashed, Key};
use super::monitored::{Monitored, ReadCounters, Weighed};
use super::reader::Reader;
use super::rows;
use super::rule::Signed;
use crate::Result;
use crate::sketch::count_sketch::{SignedBounds, median_of, signed};
use crate::sketch::{CountSketch, HashId};
use keyhash::KeyHash;
use std::cmp::Reverse;
use std::marker::PhantomData;

/// A count sketch of `D` rows, whose flows are shown by keys of type `K`.
///
/// ```
/// use overbank::monitor::{Monitor, MonitorOptions, SignedPacket, SignedSizes};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let packet = |flow: u64, weight: i64| SignedPacket { hash: hasher.hash_u64(flow), key: flow, weight };
/// let Monitor { mut workers, mut aggregator, reader } =
///     MonitorOptions::new(2).start(SignedSizes::<u64, 5>::new(1 << 12, &hasher)?)?;
/// workers[0].insert_batch(&[packet(1, 300), packet(2, 40)]);
/// workers[1].insert_batch(&[packet(1, -1000)]);
/// aggregator.poll(|| 0);
/// assert_eq!(reader.signed_size(hasher.hash_u64(1)), -700);
/// let top = reader.top_signed(0, 0, 1, 0.99).expect("the epoch is kept");
/// assert_eq!((top[0].0.key, top[0].1.estimate), (1, -700));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SignedSizes<K, const D: usize> {
    columns: u32,
    hash_id: HashId,
    keys: PhantomData<fn() -> K>,
}

/// A packet: its flow, by hash and by name, and its weight, which may be negative.
#[derive(Clone, Copy, Debug)]
pub struct SignedPacket<K> {
    /// The hash of the flow's key.
    pub hash: KeyHash,
    /// The flow's key, for people to read.
    pub key: K,
    /// How much it counts.
    pub weight: i64,
}

impl<K: Key, const D: usize> SignedSizes<K, D> {
    /// `D` rows of `columns` counters, for keys hashed under `hash_id`: a byte each for every worker, two for it to change epochs, and 8
    /// in the aggregator, twice as well.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) without columns or rows, with more than 16 rows, or with more than 2^23
    /// counters.
    pub fn new(columns: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        rows::require(columns, 1, D, 1)?;
        Ok(Self { columns, hash_id: hash_id.into(), keys: PhantomData })
    }

    /// Counters of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }
}

impl<K: Key, const D: usize> Monitored for SignedSizes<K, D> {
    type Element = SignedPacket<K>;
    type Key = Hashed<K>;
    type Rule = Signed;
    const SHOWS_KEYS: bool = true;

    fn cells(&self) -> usize {
        self.columns as usize * D
    }

    /// The weight without its sign.
    #[inline]
    fn weight(&self, packet: SignedPacket<K>) -> u64 {
        packet.weight.unsigned_abs()
    }

    #[inline(always)]
    fn visit(&self, packet: SignedPacket<K>, mut change: impl FnMut(usize, u64)) {
        // The least of all has no opposite.
        let weight = packet.weight.max(-i64::MAX);
        let places = rows::places::<D>(packet.hash.fold(), self.columns, 0);
        for (row, place) in places.into_iter().enumerate() {
            change(place as usize, signed(packet.hash, row, weight) as u64);
        }
    }

    #[inline(always)]
    fn key(&self, packet: SignedPacket<K>) -> Hashed<K> {
        Hashed { hash: packet.hash, key: packet.key }
    }

    /// The estimate without its sign.
    #[inline]
    fn weigh(&self, key: Hashed<K>, mut read: impl ReadCounters) -> Option<Weighed> {
        let mut counters = [0; D];
        read(&rows::places::<D>(key.hash.fold(), self.columns, 0), &mut counters);
        let size = median_of(counters.map(|counter| counter as i64), key.hash);
        Some(Weighed { weight: size.unsigned_abs(), hash: key.hash.fold() })
    }
}

impl<K: Key, const D: usize> Reader<SignedSizes<K, D>> {
    /// How much a flow weighs in the current epoch, without bias; [`top_signed`](Self::top_signed) and
    /// [`signed_sizes`](Self::signed_sizes) give bounds.
    pub fn signed_size(&self, hash: KeyHash) -> i64 {
        self.of_current(|epoch| self.signed_size_in(epoch, epoch, hash))
    }

    /// As [`signed_size`](Self::signed_size), over the epochs `first..=last`; `None` where one of them is not kept any more, or has not
    /// begun, or `last` is before `first`.
    pub fn signed_size_in(&self, first: u64, last: u64, hash: KeyHash) -> Option<i64> {
        let mut counters = [0; D];
        let places = rows::places::<D>(hash.fold(), self.sketch().columns, 0);
        let is_there = self.read(first, last, &places, &mut counters);
        is_there.then(|| median_of(counters.map(|counter| counter as i64), hash))
    }

    /// All counters of the epochs `first..=last` as a sketch, to be asked, merged, subtracted or stored; `None` where one of the epochs
    /// is not kept any more, or has not begun, or `last` is before `first`.
    ///
    /// # Accuracy
    /// Each counter is one that a sketch of all traffic had at a moment of the call. Where nothing is inserted meanwhile, it is that
    /// sketch, as long as the weights without their signs sum to less than 2^63: beyond that no bound is known, as
    /// [`CountSketch::saturated`] says.
    ///
    /// # Cost
    /// A byte a counter and worker.
    pub fn signed_sizes(&self, first: u64, last: u64) -> Option<CountSketch> {
        let shape = self.sketch();
        let counters = self.read_all(first, last)?.into_iter().map(|counter| counter as i64).collect();
        // After the counters, so that their sums are not above it.
        let weight = self.total_weight_of(first, last)?;
        CountSketch::from_cells(shape.columns, D as u32, shape.hash_id, weight, counters).ok()
    }

    /// The `count` flows of the greatest sizes, of either sign, that the aggregator knows of the epochs `first..=last`, greatest first;
    /// equal ones in the order of their hashes. With bounds that hold for each with probability `confidence`, as those of
    /// [`CountSketch::bounds`] do. `None` as [`signed_sizes`](Self::signed_sizes).
    pub fn top_signed(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Option<Vec<(Hashed<K>, SignedBounds)>> {
        let sketch = self.signed_sizes(first, last)?;
        let error = sketch.error_bound(confidence);
        let keys = self.keys(first, last)?.into_iter();
        let mut top: Vec<_> = keys.map(|key| (key, sketch.bounds_within(key.hash, error))).collect();
        top.sort_by_key(|(key, size)| (Reverse(size.estimate.unsigned_abs()), key.hash));
        top.truncate(count);
        Some(top)
    }
}
