//! Count-Min: three rows, the heaviest flows beside them.

use super::super::heaviest::Heaviest;
use super::super::score::Answer;
use super::super::single::{Named, Single};
use super::super::stream::{Asked, HASHER, Query, Question, Record};
use super::{Counters, Plain, Shape, Subject, applied, online, start};
use crate::Result;
use overbank::monitor::{Aggregator, Flow, FlowSizes, MonitorOptions, Packet, Reader, Worker};
use overbank::sketch::CountMin;

/// Rows (appendix D.1).
const ROWS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sizes(Shape);

impl Subject for Sizes {
    const NAME: &'static str = "count_min";
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = 45_000.0;
    type Element = Packet<u64>;
    type Worker = Worker<FlowSizes<u64, ROWS>>;
    type Aggregator = Aggregator<FlowSizes<u64, ROWS>>;
    type Reader = Reader<FlowSizes<u64, ROWS>>;
    type Ideal = Named<CountMin<u32>>;
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
        let sketch = CountMin::with_shape(1, self.0.columns, ROWS as u32, HASHER)?;
        Ok(Named { sketch, heaviest: Heaviest::new(self.0.heavy_keys) })
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

impl Counters for Sizes {
    type Sketch = FlowSizes<u64, ROWS>;

    fn sketch(self) -> Result<Self::Sketch> {
        Ok(FlowSizes::new(self.0.columns)?)
    }

    fn key(self, asked: &Asked) -> Flow<u64> {
        Flow { fold: asked.hash.fold(), key: asked.key }
    }

    fn name(self, key: Flow<u64>) -> u64 {
        key.key
    }
}

impl Single for Named<CountMin<u32>> {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.sketch.update(record.hash, 1);
        let estimate = self.sketch.estimate(record.hash);
        self.heaviest.offer(record.hash.fold(), record.key, estimate);
    }

    fn join(&mut self, other: &Self) {
        let merged = self.sketch.merge(&other.sketch);
        assert!(merged.is_ok(), "sketches of one shape");
        let mut heaviest = Heaviest::new(self.heaviest.capacity());
        for (_, key) in self.heaviest.keys().chain(other.heaviest.keys()) {
            let hash = HASHER.hash_u64(key);
            heaviest.offer(hash.fold(), key, self.sketch.estimate(hash));
        }
        self.heaviest = heaviest;
    }

    fn clear(&mut self) {
        self.sketch = CountMin::new(*self.sketch.layout(), self.sketch.hash_id());
        self.heaviest.clear();
    }

    fn answer(&self, query: &Query) -> Answer {
        let known =
            self.heaviest.keys().map(|(_, key)| (key, self.sketch.estimate(HASHER.hash_u64(key)) as f64));
        let estimate = |asked: &Asked| self.sketch.estimate(asked.hash) as f64;
        Answer { known: known.collect(), estimates: query.asked.iter().map(estimate).collect() }
    }
}
