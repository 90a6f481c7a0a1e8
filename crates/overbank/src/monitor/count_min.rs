//! Flow sizes: a count-min sketch of `D` rows on the framework, with the heaviest flows.

use super::key::{Flow, Key};
use super::monitored::{Monitored, ReadCounters, Weighed};
use super::reader::Reader;
use super::rule::Sum;
use super::{bounds, rows};
use crate::Result;
use crate::sketch::{CountBounds, CountMin, HashId};
use keyhash::KeyHash;
use std::marker::PhantomData;

/// A count-min sketch of `D` rows, whose flows are shown by keys of type `K`.
///
/// Its columns are those of a [`CountMin`](crate::sketch::CountMin) of one page, so the two answer the same.
#[derive(Clone, Copy, Debug)]
pub struct FlowSizes<K, const D: usize> {
    columns: u32,
    /// 0 unless the columns are that power of two, as they usually are, and more than one.
    lg_columns: u32,
    keys: PhantomData<fn() -> K>,
}

/// A packet: its flow, by hash and by name, and its weight: 1, or its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packet<K> {
    /// The hash of the flow's key.
    pub hash: KeyHash,
    /// The flow's key, for people to read.
    pub key: K,
    /// How much it counts.
    pub weight: u64,
}

impl<K: Key, const D: usize> FlowSizes<K, D> {
    /// `D` rows of `columns` counters: a byte each for every worker, two for it to change epochs, and 8 in the aggregator, twice as well.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) without columns or rows, or with more than 2^23 counters.
    pub fn new(columns: u32) -> Result<Self> {
        rows::require(columns, 1, D, 1)?;
        let lg_columns = if columns.is_power_of_two() { columns.ilog2() } else { 0 };
        Ok(Self { columns, lg_columns, keys: PhantomData })
    }

    /// Counters of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    fn places(&self, fold: u64) -> [u32; D] {
        rows::places(fold, self.columns, 0)
    }
}

impl<K: Key, const D: usize> Monitored for FlowSizes<K, D> {
    type Element = Packet<K>;
    type Key = Flow<K>;
    type Rule = Sum;
    const SHOWS_KEYS: bool = true;

    fn cells(&self) -> usize {
        self.columns as usize * D
    }

    #[inline]
    fn weight(&self, packet: Packet<K>) -> u64 {
        packet.weight
    }

    #[inline(always)]
    fn visit(&self, packet: Packet<K>, mut change: impl FnMut(usize, u64)) {
        let mut first = 0usize;
        let columns = match self.lg_columns {
            0 => keyhash::columns::<D>(packet.hash.fold(), self.columns.into()),
            lg_columns => keyhash::columns_of_power::<D>(packet.hash.fold(), lg_columns),
        };
        for column in columns {
            change(first.wrapping_add(column as usize), packet.weight);
            first = first.wrapping_add(self.columns as usize);
        }
    }

    #[inline(always)]
    fn key(&self, packet: Packet<K>) -> Flow<K> {
        Flow { fold: packet.hash.fold(), key: packet.key }
    }

    #[inline]
    fn weigh(&self, key: Flow<K>, mut read: impl ReadCounters) -> Option<Weighed> {
        let mut counters = [0; D];
        read(&self.places(key.fold), &mut counters);
        let weight = counters.into_iter().min().unwrap_or(0);
        Some(Weighed { weight, hash: key.fold })
    }
}

impl<K: Key, const D: usize> Reader<FlowSizes<K, D>> {
    /// How much a flow weighs in the current epoch, with bounds that hold with probability `confidence`.
    ///
    /// # Accuracy
    /// `upper` and `estimate` are certain: not below what had been inserted when the call began. `lower` fails with probability at most
    /// `1 - confidence` over the seed of the hash, for a key chosen without looking at the sketch
    /// ([`bounds::count_min_error`]).
    pub fn size(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        self.of_current(|epoch| self.size_in(epoch, epoch, hash, confidence))
    }

    /// As [`size`](Self::size), over the epochs `first..=last`; `None` where one of them is not kept any more, or has not begun, or
    /// `last` is before `first`.
    pub fn size_in(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Option<CountBounds> {
        let sketch = self.sketch();
        let mut counters = [0; D];
        let is_there = self.read(first, last, &sketch.places(hash.fold()), &mut counters);
        let estimate = counters.into_iter().min().filter(|_| is_there)?;
        let weight = self.total_weight_of(first, last)?;
        let error = bounds::count_min_error(weight, sketch.columns, D as u32, confidence);
        Some(CountBounds { lower: estimate.saturating_sub(error), estimate, upper: estimate })
    }

    /// A size above which no flow of an epoch lacks a name among all its heavy keys ([`Reader::top`]); `weights` are the least and the
    /// greatest of a packet. `None` where the epoch goes on or is not kept any more, or nothing is known: rings were too full.
    ///
    /// # Accuracy
    /// Fails with probability at most `1 - confidence` over the seed of the hash, for a flow chosen without looking at the sketch
    /// ([`bounds::unnamed`]); and not at all while τ was 1 or no packet weighed less than it. No weight may be as large as 2^39, and
    /// workers not have been [flushed](super::Worker::flush).
    pub fn named_above(&self, epoch: u64, weights: (u64, u64), confidence: f64) -> Option<u64> {
        let (naming, weight) = self.naming(epoch, weights)?;
        let others = bounds::count_min_error(weight, self.sketch().columns, D as u32, confidence);
        let size = bounds::unnamed(naming, others);
        (size == 0 || size < weight).then_some(size)
    }

    /// All counters of the epochs `first..=last` as a sketch, to be asked, merged or stored; `hash_id` names the hash that the packets
    /// carry. `None` where one of the epochs is not kept any more, or has not begun, or `last` is before `first`.
    ///
    /// # Accuracy
    /// Each counter is one that a sketch of all traffic had at a moment of the call. Where nothing is inserted meanwhile, it is that
    /// sketch.
    ///
    /// # Cost
    /// A byte a counter and worker.
    pub fn sizes(&self, first: u64, last: u64, hash_id: impl Into<HashId>) -> Option<CountMin<u64>> {
        let counters = self.read_all(first, last)?;
        CountMin::from_cells(self.sketch().columns, D as u32, hash_id.into(), counters).ok()
    }
}
