//! Super-spreaders: the sources with the most distinct items, such as addresses that talk to many others. Locher's sketch on the framework.
//!
//! ```text
//!   row 0    │ cell: 16 registers, a byte each │ cell │ …        row 1   │ …
//! ```

use super::key::{Hashed, Key};
use super::monitored::{Monitored, ReadCounters, Weighed};
use super::reader::Reader;
use super::rows;
use super::rule::Max;
use crate::Result;
use crate::sketch::locher::{REGISTERS, cell_of, median_items, ranks_of};
use crate::sketch::{HashId, Locher};
use keyhash::KeyHash;
use std::collections::HashMap;
use std::marker::PhantomData;

/// The highest threshold of a rank: with it, a source of 100 items is known but with probability `(15/16)^(100 D)`, 4e-9 for three rows.
/// A register sends 11 messages at most, so a higher one would save little.
const TAU_MAX: u8 = 4;

/// Locher's sketch of `D` rows, whose sources are shown by keys of type `K`.
///
/// ```
/// use overbank::monitor::{Contact, Monitor, MonitorOptions, Spreaders};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let contact = |from: u64, to: u64| Contact { source: hasher.hash_u64(from), key: from, item: hasher.hash_u64(to) };
/// let Monitor { mut workers, mut aggregator, reader } =
///     MonitorOptions::new(2).start(Spreaders::<u64, 3>::new(1 << 10, &hasher)?)?;
/// for to in 0..1000 {
///     workers[to as usize % 2].insert(contact(7, to));
///     workers[to as usize % 2].insert(contact(to, 443));
///     aggregator.poll(|| 0);
/// }
/// let top = reader.top_spreaders(0, 0, 1).expect("the epoch is kept");
/// assert_eq!(top[0].0.key, 7);
/// assert!((400.0..2500.0).contains(&top[0].1));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spreaders<K, const D: usize> {
    columns: u32,
    hash_id: HashId,
    keys: PhantomData<fn() -> K>,
}

/// One item of a source.
#[derive(Clone, Copy, Debug)]
pub struct Contact<K> {
    /// The hash of the source's key.
    pub source: KeyHash,
    /// The source's key, for people to read.
    pub key: K,
    /// The hash of the item.
    pub item: KeyHash,
}

impl<K: Key, const D: usize> Spreaders<K, D> {
    /// `D` rows of `columns` cells, for keys hashed under `hash_id`: 16 bytes each for every worker, twice as many for it to change epochs,
    /// and 128 in the aggregator, twice as well.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless there are two columns, 1 to 16 rows, at most 2^19 cells, and keys of
    /// less than 2^15 bytes.
    pub fn new(columns: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        rows::require(columns, 2, D, REGISTERS)?;
        let hash_id = Locher::new(2, 1, 1, K::BYTES, hash_id)?.hash_id();
        Ok(Self { columns, hash_id, keys: PhantomData })
    }

    /// Cells of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }
}

impl<K: Key, const D: usize> Monitored for Spreaders<K, D> {
    type Element = Contact<K>;
    type Key = Hashed<K>;
    type Rule = Max;
    const SHOWS_KEYS: bool = true;

    fn cells(&self) -> usize {
        self.columns as usize * D * REGISTERS
    }

    #[inline]
    fn weight(&self, _: Contact<K>) -> u64 {
        1
    }

    #[inline(always)]
    fn visit(&self, contact: Contact<K>, mut change: impl FnMut(usize, u64)) {
        let places = rows::places::<D>(contact.source.fold(), self.columns, 0);
        for (place, (register, rank)) in places.into_iter().zip(ranks_of::<D>(contact.source, contact.item)) {
            change(place as usize * REGISTERS + register as usize, rank);
        }
    }

    #[inline(always)]
    fn visit_below(&self, contact: Contact<K>, tau: u8, mut change: impl FnMut(usize, u64, u8)) {
        let tau = tau.min(TAU_MAX);
        self.visit(contact, |register, rank| change(register, rank, tau));
    }

    #[inline(always)]
    fn key(&self, contact: Contact<K>) -> Hashed<K> {
        Hashed { hash: contact.source, key: contact.key }
    }

    /// How many items the source's cells hold, those of others with it: the row's sum, which these are taken off by, is the same for all
    /// sources, and takes a look at every cell.
    #[inline]
    fn weigh(&self, key: Hashed<K>, mut read: impl ReadCounters) -> Option<Weighed> {
        let cells = rows::places::<D>(key.hash.fold(), self.columns, 0).map(|place| {
            let first = place * REGISTERS as u32;
            let mut ranks = [0; REGISTERS];
            read(&std::array::from_fn::<_, REGISTERS, _>(|register| first + register as u32), &mut ranks);
            cell_of(&ranks)
        });
        Some(Weighed { weight: median_items(cells).round() as u64, hash: key.hash.fold() })
    }
}

impl<K: Key, const D: usize> Reader<Spreaders<K, D>> {
    /// The sources of the epochs `first..=last` as a sketch, to be asked, merged or stored: all cells, and of the sources that the
    /// aggregator knows, the best. `None` where one of the epochs is not kept any more, or has not begun, or `last` is before `first`.
    ///
    /// # Accuracy
    /// Each register is one that a sketch of all traffic had at a moment of the call, so no cell is behind what had been inserted when the
    /// call began, or ahead of its end. A source is known once a rank above τ, at most 4, was sent for it.
    ///
    /// # Cost
    /// 16 bytes a cell and worker.
    pub fn spreaders(&self, first: u64, last: u64) -> Option<Locher> {
        self.with_sources(first, last, &self.keys(first, last)?)
    }

    /// The `count` sources of the most items that the aggregator knows of the epochs `first..=last`, and how many each has, most first;
    /// equal ones in the order of their hashes. `None` as [`spreaders`](Self::spreaders).
    pub fn top_spreaders(&self, first: u64, last: u64, count: usize) -> Option<Vec<(Hashed<K>, f64)>> {
        let keys = self.keys(first, last)?;
        let sketch = self.with_sources(first, last, &keys)?;
        let by_hash: HashMap<KeyHash, Hashed<K>> = keys.into_iter().map(|key| (key.hash, key)).collect();
        let top = sketch.top(count).into_iter();
        Some(top.filter_map(|source| Some((*by_hash.get(&source.hash)?, source.items))).collect())
    }

    fn with_sources(&self, first: u64, last: u64, keys: &[Hashed<K>]) -> Option<Locher> {
        let shape = self.sketch();
        let cells = self.read_all(first, last)?.chunks_exact(REGISTERS).map(cell_of).collect();
        let keys: Vec<_> = keys.iter().map(|key| (key.hash, key.key.to_bytes())).collect();
        Locher::from_cells(shape.columns, D as u32, shape.hash_id, cells, self.heavy_keys(), K::BYTES, &keys)
            .ok()
    }
}
