//! Any sum over the flows' sizes: how many there are, L2, entropy; and heavy flows and changes. UnivMon on the framework.
//!
//! ```text
//!   level 0   │ D rows of counters │ weight │     half of the flows     τ
//!   level 1   │ D rows of counters │ weight │     a quarter             τ / 2
//!   level 2   │ D rows of counters │ weight │     …                     τ / 4
//! ```
//!
//! As in [`UnivMon`], a packet changes the counters of its flow's deepest level only. What a level lacks counts twice at the level before
//! it, so its threshold is half as high. The aggregator keeps the heaviest flows of each level.

use super::key::{Hashed, Key};
use super::monitored::{Monitored, ReadCounters, Weighed};
use super::reader::Reader;
use super::rows;
use super::rule::{Rule, Signed};
use super::{Packet, message};
use crate::Result;
use crate::error::invalid;
use crate::sketch::count_sketch::{median_of, signed};
use crate::sketch::univ_mon::stratum_of;
use crate::sketch::{CountBounds, HashId, UnivMon};
use keyhash::KeyHash;
use std::collections::HashMap;
use std::marker::PhantomData;

/// A UnivMon of `D` rows a level, whose flows are shown by keys of type `K`.
///
/// ```
/// use overbank::monitor::{FlowSums, Monitor, MonitorOptions, Packet};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let packet = |flow: u64| Packet { hash: hasher.hash_u64(flow), key: flow, weight: 1 };
/// let Monitor { mut workers, mut aggregator, reader } =
///     MonitorOptions::new(2).start(FlowSums::<u64, 5>::new(6, 1 << 10, &hasher)?)?;
/// workers[0].insert_batch(&[packet(1), packet(2)]);
/// workers[1].insert_batch(&[packet(1), packet(3)]);
/// aggregator.poll(|| 0);
/// let sums = reader.sums(0, 0).expect("the epoch is kept");
/// assert_eq!((sums.cardinality().estimate, sums.entropy().estimate), (3.0, 1.5));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlowSums<K, const D: usize> {
    levels: u32,
    columns: u32,
    hash_id: HashId,
    keys: PhantomData<fn() -> K>,
}

/// A flow whose size differs between two epochs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowChange<K> {
    /// The flow.
    pub key: Hashed<K>,
    /// Its estimate in the earlier epoch.
    pub before: i64,
    /// Its estimate in the later one.
    pub after: i64,
}

impl<K: Key, const D: usize> FlowSums<K, D> {
    /// `levels` levels (the log of the number of flows over the heavy keys kept, or more) of `D` rows of `columns` counters, for keys
    /// hashed under `hash_id`: a byte each for every worker, two for it to change epochs, and 8 in the aggregator, twice as well.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless there are 1 to 32 levels, columns, 1 to 16 rows, at most 2^23
    /// counters with one a level for its weight, and keys of less than 2^15 bytes.
    pub fn new(levels: u32, columns: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        let hash_id = UnivMon::new(levels, 1, 1, 1, K::BYTES, hash_id)?.hash_id();
        rows::require(columns, 1, D, levels as usize)?;
        let shape = Self { levels, columns, hash_id, keys: PhantomData };
        if shape.cells() > message::CELLS_MAX / 2 {
            return invalid(
                "columns",
                columns,
                format!("choose fewer than {columns}: a counter a level is for its weight"),
            );
        }
        Ok(shape)
    }

    /// Levels.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Counters of a row of a level.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Counters of a level, without its weight.
    fn level_cells(&self) -> usize {
        self.columns as usize * D
    }

    #[inline]
    fn level_of(&self, hash: KeyHash) -> usize {
        stratum_of(hash, self.levels as usize)
    }

    #[inline]
    fn places(&self, hash: KeyHash) -> [u32; D] {
        let first = self.level_of(hash) * (self.level_cells() + 1);
        rows::places(hash.fold(), self.columns, first as u32)
    }
}

impl<K: Key, const D: usize> Monitored for FlowSums<K, D> {
    type Element = Packet<K>;
    type Key = Hashed<K>;
    type Rule = Signed;
    const SHOWS_KEYS: bool = true;

    fn cells(&self) -> usize {
        self.levels as usize * (self.level_cells() + 1)
    }

    #[inline]
    fn weight(&self, packet: Packet<K>) -> u64 {
        packet.weight
    }

    #[inline(always)]
    fn visit(&self, packet: Packet<K>, mut change: impl FnMut(usize, u64)) {
        self.visit_below(packet, 1, |counter, amount, _| change(counter, amount));
    }

    #[inline(always)]
    fn visit_below(&self, packet: Packet<K>, tau: u8, mut change: impl FnMut(usize, u64, u8)) {
        let level = self.level_of(packet.hash);
        let first = level * (self.level_cells() + 1);
        let weight = packet.weight.min(i64::MAX as u64) as i64;
        // Seldom: the weight says nothing of any key.
        change(first + self.level_cells(), weight as u64, Signed::TAU_MAX);
        let tau = tau.checked_shr(level as u32).unwrap_or(0).max(1);
        let places = rows::places::<D>(packet.hash.fold(), self.columns, first as u32);
        for (row, place) in places.into_iter().enumerate() {
            change(place as usize, signed(packet.hash, row, weight) as u64, tau);
        }
    }

    #[inline(always)]
    fn key(&self, packet: Packet<K>) -> Hashed<K> {
        Hashed { hash: packet.hash, key: packet.key }
    }

    /// The levels.
    fn groups(&self) -> usize {
        self.levels as usize
    }

    #[inline]
    fn group_of(&self, key: Hashed<K>) -> usize {
        self.level_of(key.hash)
    }

    /// The estimate, but not less than 0.
    #[inline]
    fn weigh(&self, key: Hashed<K>, mut read: impl ReadCounters) -> Option<Weighed> {
        let mut counters = [0; D];
        read(&self.places(key.hash), &mut counters);
        let size = median_of(counters.map(|counter| counter as i64), key.hash);
        Some(Weighed { weight: u64::try_from(size).unwrap_or(0), hash: key.hash.fold() })
    }
}

impl<K: Key, const D: usize> Reader<FlowSums<K, D>> {
    /// The flows of the epochs `first..=last` as a sketch, to be asked for any sum over their sizes, to be merged or stored: all counters,
    /// and the heaviest flows that the aggregator knows of each level. `None` where one of the epochs is not kept any more, or has
    /// not begun, or `last` is before `first`.
    ///
    /// # Accuracy
    /// Each counter is one that a sketch of all traffic had at a moment of the call; where nothing is inserted meanwhile, it is that
    /// sketch's. Sizes of heavy flows are the count sketch's estimates. Of a level whose counters are those of the flows that are known,
    /// and of nothing else, they are taken to be exact, as they are but with probability 1e-9 over the seed; while every flow is known,
    /// sums are so too.
    ///
    /// # Cost
    /// A byte a counter and worker.
    pub fn sums(&self, first: u64, last: u64) -> Option<UnivMon> {
        let keys = self.keys(first, last)?;
        self.with_flows(first, last, &keys)
    }

    /// The `count` heaviest flows that the aggregator knows of the epochs `first..=last`, heaviest first, with bounds that hold for each
    /// with probability `confidence`, as those of [`UnivMon::bounds`] do. `None` as [`sums`](Self::sums).
    pub fn top_flows(
        &self,
        first: u64,
        last: u64,
        count: usize,
        confidence: f64,
    ) -> Option<Vec<(Hashed<K>, CountBounds)>> {
        let keys = self.keys(first, last)?;
        let sketch = self.with_flows(first, last, &keys)?;
        let by_hash: HashMap<KeyHash, Hashed<K>> = keys.into_iter().map(|key| (key.hash, key)).collect();
        let top = sketch.top(count, confidence).into_iter();
        Some(top.filter_map(|flow| Some((*by_hash.get(&flow.hash)?, flow.count))).collect())
    }

    /// The flows that the aggregator knows of either epoch whose estimates differ by `least` or more, the greatest change first; equal
    /// ones in the order of their hashes. `None` where one of the epochs is not kept any more, or has not begun.
    pub fn changes(&self, earlier: u64, later: u64, least: u64) -> Option<Vec<FlowChange<K>>> {
        let (keys_before, keys_after) = (self.keys(earlier, earlier)?, self.keys(later, later)?);
        let before = self.with_flows(earlier, earlier, &keys_before)?;
        let after = self.with_flows(later, later, &keys_after)?;
        let keys = keys_before.into_iter().chain(keys_after);
        let by_hash: HashMap<KeyHash, Hashed<K>> = keys.map(|key| (key.hash, key)).collect();
        let changes = after.changes(&before, least).ok()?.into_iter();
        let named = changes.filter_map(|change| {
            let key = *by_hash.get(&change.hash)?;
            Some(FlowChange { key, before: change.before, after: change.after })
        });
        Some(named.collect())
    }

    fn with_flows(&self, first: u64, last: u64, keys: &[Hashed<K>]) -> Option<UnivMon> {
        let shape = self.sketch();
        let counters = self.read_all(first, last)?;
        let level = |counters: &[u64]| {
            let (cells, weight) = counters.split_at(shape.level_cells());
            // What stands at the end of its type may have been more.
            let weight = if weight[0] == i64::MAX as u64 { 1 << 63 } else { weight[0] };
            (weight, cells.iter().map(|&cell| cell as i64).collect())
        };
        let strata = counters.chunks_exact(shape.level_cells() + 1).map(level).collect();
        let keys: Vec<_> = keys.iter().map(|key| (key.hash, key.key.to_bytes())).collect();
        let empty =
            UnivMon::new(shape.levels, shape.columns, D as u32, self.heavy_keys(), K::BYTES, shape.hash_id)
                .ok()?;
        empty.of_cells(strata, &keys).ok()
    }
}
