//! Elastic: buckets of seven flows with their counts, and counters for the others, asked for heavy flows.

use super::super::stream::HASHER;
use super::Shape;
use super::keyed::{KEY_BYTES, Keyed, KeyedSketch, Keying, StartedOf, on_the_framework};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{
    ElasticAggregator, ElasticFlows, ElasticMonitor, ElasticReader, ElasticWorker, MonitorOptions,
};
use overbank::sketch::Elastic;

/// The light part's one row is as long as the rows of a Count-Min together (appendix D.1).
const LIGHT: u32 = 3;

/// The subject.
pub(in super::super) type Votes = Keyed<Voting>;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Voting;

/// Buckets and light counters: three slots for each heavy key of other sketches, 3066, where the paper's code has 767 buckets of four.
fn sizes(shape: Shape) -> (u32, u32) {
    ((shape.heavy_keys * 3 / 7) as u32, LIGHT * shape.columns)
}

on_the_framework!(ElasticWorker<u64>, ElasticAggregator<u64>);

impl Keying for Voting {
    const NAME: &'static str = "elastic";
    const MERGE_NS: f64 = 190_000.0;
    type Worker = ElasticWorker<u64>;
    type Aggregator = ElasticAggregator<u64>;
    type Reader = ElasticReader<u64>;
    type Sketch = Elastic;

    fn start(shape: Shape, options: MonitorOptions) -> Result<StartedOf<Self>> {
        let (buckets, light) = sizes(shape);
        let sketch = ElasticFlows::new(buckets, light, HASHER)?;
        let ElasticMonitor { workers, aggregator, reader } = options.start_elastic(sketch)?;
        Ok((workers, aggregator, reader))
    }

    fn sketch(shape: Shape) -> Result<Elastic> {
        let (buckets, light) = sizes(shape);
        Ok(Elastic::new(buckets, light, 1, KEY_BYTES, HASHER)?)
    }

    fn known(reader: &Self::Reader) -> Vec<(KeyHash, u64, u64)> {
        let epoch = reader.epoch();
        let known = reader.top(epoch, epoch, usize::MAX).unwrap_or_default();
        known.into_iter().map(|(flow, size)| (flow.hash, flow.key, size)).collect()
    }

    fn size(reader: &Self::Reader, hash: KeyHash) -> u64 {
        reader.size(hash, 0.5).estimate
    }

    fn applied_size(reader: &Self::Reader, hash: KeyHash) -> u64 {
        reader.applied_size(hash)
    }
}

impl KeyedSketch for Elastic {
    #[inline]
    fn add(&mut self, hash: KeyHash, key: &[u8]) {
        self.update(hash, key, 1);
    }

    fn join(&mut self, other: &Self) -> Result<()> {
        Ok(self.merge(other)?)
    }

    fn empty(&self) -> Result<Self> {
        let light = *self.light().layout();
        let (buckets, columns, depth) = (self.buckets() as u32, light.columns(), light.depth());
        Ok(Self::new(buckets, columns, depth, self.key_bytes_max(), self.hash_id())?)
    }

    fn known(&self) -> Vec<(&[u8], u64)> {
        self.top(usize::MAX, 0.5).into_iter().map(|flow| (flow.key, flow.count.estimate)).collect()
    }

    fn size(&self, hash: KeyHash) -> u64 {
        self.estimate(hash)
    }
}
