//! UnivMon: six levels of three rows, asked for heavy flows.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Asked, HASHER, Query, Question, Record};
use super::{Counters, Plain, Shape, Subject, applied, online, start};
use crate::Result;
use overbank::monitor::{Aggregator, FlowSums, Hashed, MonitorOptions, Packet, Reader, Worker};
use overbank::sketch::UnivMon;

/// Levels and rows (appendix D.1).
const LEVELS: u32 = 6;
const ROWS: usize = 3;
const KEY_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sums(Shape);

impl Subject for Sums {
    const NAME: &'static str = "univ_mon";
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = 270_000.0;
    type Element = Packet<u64>;
    type Worker = Worker<FlowSums<u64, ROWS>>;
    type Aggregator = Aggregator<FlowSums<u64, ROWS>>;
    type Reader = Reader<FlowSums<u64, ROWS>>;
    type Ideal = UnivMon;
    type Own = Plain<Self>;

    fn with_shape(shape: Shape) -> Self {
        Self(shape)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        start(self.sketch()?, options.heavy_keys(self.0.heavy_keys))
    }

    fn ideal(self) -> Result<Self::Ideal> {
        let Shape { columns, heavy_keys, .. } = self.0;
        Ok(UnivMon::new(LEVELS, columns, ROWS as u32, heavy_keys, KEY_BYTES, HASHER)?)
    }

    fn own(self) -> Result<Self::Own> {
        Ok(Plain::new(self, self.sketch()?, self.0.heavy_keys))
    }

    #[inline]
    fn element(self, record: &Record) -> Packet<u64> {
        Packet { hash: record.hash, key: record.key, weight: 1 }
    }

    fn online(self, reader: &Self::Reader, query: &Query) -> Answer {
        online(self, reader, query)
    }

    fn applied(self, reader: &Self::Reader, query: &Query) -> Option<Answer> {
        Some(applied(self, reader, query))
    }
}

impl Counters for Sums {
    type Sketch = FlowSums<u64, ROWS>;

    fn sketch(self) -> Result<Self::Sketch> {
        Ok(FlowSums::new(LEVELS, self.0.columns, HASHER)?)
    }

    fn key(self, asked: &Asked) -> Hashed<u64> {
        Hashed { hash: asked.hash, key: asked.key }
    }

    fn name(self, key: Hashed<u64>) -> u64 {
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
