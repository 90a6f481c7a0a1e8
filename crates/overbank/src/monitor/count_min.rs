//! Flow sizes: a count-min sketch of `D` rows on the framework, with the heaviest flows.

use super::key::{Flow, Key};
use super::monitored::{Monitored, ReadCounters, Weighed};
use super::reader::Reader;
use super::rule::Sum;
use super::{bounds, message};
use crate::Result;
use crate::error::invalid;
use crate::sketch::CountBounds;
use keyhash::KeyHash;
use std::marker::PhantomData;

/// A count-min sketch of `D` rows, whose flows are shown by keys of type `K`.
///
/// Its columns are those of a [`CountMin`](crate::sketch::CountMin) of one page, so the two answer the same.
#[derive(Clone, Copy, Debug)]
pub struct FlowSizes<K, const D: usize> {
    columns: u32,
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
        if columns == 0 || D == 0 || D > 16 || columns as usize > message::CELLS_MAX / 2 / D {
            return invalid(
                "columns",
                columns,
                format!("choose 1 to 16 rows, and at most {} counters", message::CELLS_MAX / 2),
            );
        }
        Ok(Self { columns, keys: PhantomData })
    }

    /// Counters of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    fn places(&self, fold: u64) -> [u32; D] {
        let mut first = 0;
        keyhash::columns::<D>(fold, self.columns.into()).map(|column| {
            let place = first + column as u32;
            first += self.columns;
            place
        })
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
        for column in keyhash::columns::<D>(packet.hash.fold(), self.columns.into()) {
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
        loop {
            let epoch = self.epoch();
            if let Some(size) = self.size_in(epoch, epoch, hash, confidence) {
                return size;
            }
        }
    }

    /// As [`size`](Self::size), over the epochs `first..=last`; `None` where one of them is not kept any more, or has not begun, or
    /// `last` is before `first`.
    pub fn size_in(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Option<CountBounds> {
        let sketch = self.sketch();
        let mut counters = [0; D];
        let is_there = self.read(first, last, &sketch.places(hash.fold()), &mut counters);
        let estimate = counters.into_iter().min().filter(|_| is_there)?;
        let mut weights = (first..=last).map(|epoch| self.total_weight(epoch));
        let weight = weights.try_fold(0u64, |sum, weight| Some(sum.saturating_add(weight?)))?;
        let error = bounds::count_min_error(weight, sketch.columns, D as u32, confidence);
        Some(CountBounds { lower: estimate.saturating_sub(error), estimate, upper: estimate })
    }
}
