//! UnivMon: six levels of three rows, asked for heavy flows.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Asked, HASHER, Query, Record};
use super::Shape;
use super::counted::{Counted, Counting};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{FlowSums, Hashed, Packet};
use overbank::sketch::UnivMon;

/// Levels and rows (appendix D.1).
const LEVELS: u32 = 6;
const ROWS: usize = 3;
const KEY_BYTES: usize = 8;

pub(in super::super) type Sums = Counted<Levels>;

/// Levels, each of half of the flows of the one before.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Levels;

impl Counting for Levels {
    const NAME: &'static str = "univ_mon";
    const MERGE_NS: f64 = 150_000.0;
    type Sketch = FlowSums<u64, ROWS>;
    type Ideal = UnivMon;

    fn sketch(shape: Shape) -> Result<Self::Sketch> {
        Ok(FlowSums::new(LEVELS, shape.columns, HASHER)?)
    }

    fn ideal(shape: Shape) -> Result<UnivMon> {
        Ok(UnivMon::new(LEVELS, shape.columns, ROWS as u32, shape.heavy_keys, KEY_BYTES, HASHER)?)
    }

    #[inline]
    fn element(record: &Record) -> Packet<u64> {
        Packet { hash: record.hash, key: record.key, weight: 1 }
    }

    fn key(hash: KeyHash, key: u64) -> Hashed<u64> {
        Hashed { hash, key }
    }

    fn name(key: Hashed<u64>) -> u64 {
        key.key
    }
}

impl Single for UnivMon {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.update(record.hash, &record.key.to_le_bytes(), 1);
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        let (levels, depth) = (self.levels() as u32, self.depth());
        let empty =
            Self::new(levels, self.columns(), depth, self.heavy_max(), self.key_bytes_max(), self.hash_id());
        if let Ok(empty) = empty {
            *self = empty;
        }
    }

    fn answer(&self, query: &Query) -> Answer {
        let named = |key: &[u8]| Some(u64::from_le_bytes(key.try_into().ok()?));
        let known = self.top(usize::MAX, 0.5).into_iter();
        let known = known.filter_map(|flow| Some((named(flow.key)?, flow.count.estimate as f64))).collect();
        let estimate = |asked: &Asked| self.estimate(asked.hash) as f64;
        Answer { known, estimates: query.asked.iter().map(estimate).collect() }
    }
}
