//! CocoSketch: two rows of slots, each with a flow and its count, asked for heavy flows.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Asked, HASHER, Query, Question, Record};
use super::{Polling, Shape, Subject, Working};
use crate::Result;
use overbank::monitor::{
    FlowParts, MonitorOptions, Packet, PartsAggregator, PartsMonitor, PartsReader, PartsWorker, Polled,
};
use overbank::sketch::CocoSketch;

/// Rows (appendix D.1).
const ROWS: usize = 2;
const KEY_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Parts(Shape);

impl Working for PartsWorker<u64, ROWS> {
    type Element = Packet<u64>;

    #[inline]
    fn insert_batch(&mut self, packets: &[Packet<u64>]) {
        PartsWorker::insert_batch(self, packets);
    }
}

impl Polling for PartsAggregator<u64, ROWS> {
    fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
        PartsAggregator::poll(self, clock)
    }

    fn tau(&self) -> u8 {
        PartsAggregator::tau(self)
    }

    fn messages(&self) -> u64 {
        PartsAggregator::messages(self)
    }
}

impl Subject for Parts {
    const NAME: &'static str = "coco";
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = 500_000.0;
    type Element = Packet<u64>;
    type Worker = PartsWorker<u64, ROWS>;
    type Aggregator = PartsAggregator<u64, ROWS>;
    type Reader = PartsReader<u64, ROWS>;
    type Ideal = CocoSketch;
    type Own = CocoSketch;

    fn with_shape(shape: Shape) -> Self {
        Self(shape)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        let sketch = FlowParts::new(self.0.columns, HASHER)?;
        let PartsMonitor { workers, aggregator, reader } = options.start_parts(sketch)?;
        Ok((workers, aggregator, reader))
    }

    fn ideal(self) -> Result<CocoSketch> {
        Ok(CocoSketch::new(self.0.columns, ROWS as u32, KEY_BYTES, HASHER)?)
    }

    fn own(self) -> Result<CocoSketch> {
        self.ideal()
    }

    #[inline]
    fn element(self, record: &Record) -> Packet<u64> {
        Packet { hash: record.hash, key: record.key, weight: 1 }
    }

    fn online(self, reader: &Self::Reader, query: &Query) -> Answer {
        let epoch = reader.epoch();
        let known = reader.top(epoch, epoch, usize::MAX).unwrap_or_default();
        let known = known.into_iter().map(|(flow, weight)| (flow.key, weight as f64)).collect();
        let estimate = |asked: &Asked| reader.size(asked.hash, 0.5).estimate as f64;
        Answer { known, estimates: query.asked.iter().map(estimate).collect() }
    }

    fn applied(self, reader: &Self::Reader, query: &Query) -> Option<Answer> {
        let epoch = reader.epoch();
        let known = reader.top(epoch, epoch, usize::MAX).unwrap_or_default().into_iter();
        let known = known.map(|(flow, _)| (flow.key, reader.applied_size(flow.hash) as f64)).collect();
        let estimate = |asked: &Asked| reader.applied_size(asked.hash) as f64;
        Some(Answer { known, estimates: query.asked.iter().map(estimate).collect() })
    }
}

impl Single for CocoSketch {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.update(record.hash, &record.key.to_le_bytes(), 1);
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        if let Ok(empty) = Self::new(self.columns(), self.depth(), self.key_bytes_max(), self.hash_id()) {
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
