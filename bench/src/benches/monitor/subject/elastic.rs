//! Elastic: buckets of seven flows with their counts, and counters for the others, asked for heavy flows.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Asked, HASHER, Query, Question, Record};
use super::{Polling, Shape, Subject, Working};
use crate::Result;
use overbank::monitor::{
    ElasticAggregator, ElasticFlows, ElasticMonitor, ElasticReader, ElasticWorker, MonitorOptions, Packet,
    Polled,
};
use overbank::sketch::Elastic;

/// The light part's one row is as long as the rows of a Count-Min together (appendix D.1).
const LIGHT: u32 = 3;
const KEY_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Votes(Shape);

impl Votes {
    /// Three slots for each heavy key of other sketches: 3066, where the paper's code has 767 buckets of four.
    fn buckets(self) -> u32 {
        (self.0.heavy_keys * 3 / 7) as u32
    }

    fn light(self) -> u32 {
        LIGHT * self.0.columns
    }
}

impl Working for ElasticWorker<u64> {
    type Element = Packet<u64>;

    #[inline]
    fn insert_batch(&mut self, packets: &[Packet<u64>]) {
        ElasticWorker::insert_batch(self, packets);
    }
}

impl Polling for ElasticAggregator<u64> {
    fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
        ElasticAggregator::poll(self, clock)
    }

    fn tau(&self) -> u8 {
        ElasticAggregator::tau(self)
    }

    fn messages(&self) -> u64 {
        ElasticAggregator::messages(self)
    }
}

impl Subject for Votes {
    const NAME: &'static str = "elastic";
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = 500_000.0;
    type Element = Packet<u64>;
    type Worker = ElasticWorker<u64>;
    type Aggregator = ElasticAggregator<u64>;
    type Reader = ElasticReader<u64>;
    type Ideal = Elastic;
    type Own = Elastic;

    fn with_shape(shape: Shape) -> Self {
        Self(shape)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        let sketch = ElasticFlows::new(self.buckets(), self.light(), HASHER)?;
        let ElasticMonitor { workers, aggregator, reader } = options.start_elastic(sketch)?;
        Ok((workers, aggregator, reader))
    }

    fn ideal(self) -> Result<Elastic> {
        Ok(Elastic::new(self.buckets(), self.light(), 1, KEY_BYTES, HASHER)?)
    }

    fn own(self) -> Result<Elastic> {
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

impl Single for Elastic {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.update(record.hash, &record.key.to_le_bytes(), 1);
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        let light = *self.light().layout();
        let (buckets, columns, depth) = (self.buckets() as u32, light.columns(), light.depth());
        if let Ok(empty) = Self::new(buckets, columns, depth, self.key_bytes_max(), self.hash_id()) {
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
