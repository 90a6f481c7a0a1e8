//! CocoSketch: two rows of slots, each with a flow and its count, asked for heavy flows.

use super::super::stream::HASHER;
use super::Shape;
use super::keyed::{KEY_BYTES, Keyed, KeyedSketch, Keying, StartedOf, on_the_framework};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{FlowParts, MonitorOptions, PartsAggregator, PartsMonitor, PartsReader, PartsWorker};
use overbank::sketch::CocoSketch;

/// Rows (appendix D.1).
const ROWS: usize = 2;

/// The subject.
pub(in super::super) type Parts = Keyed<Coco>;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Coco;

on_the_framework!(PartsWorker<u64, ROWS>, PartsAggregator<u64, ROWS>);

impl Keying for Coco {
    const NAME: &'static str = "coco";
    const MERGE_NS: f64 = 120_000.0;
    type Worker = PartsWorker<u64, ROWS>;
    type Aggregator = PartsAggregator<u64, ROWS>;
    type Reader = PartsReader<u64, ROWS>;
    type Sketch = CocoSketch;

    fn start(shape: Shape, options: MonitorOptions) -> Result<StartedOf<Self>> {
        let sketch = FlowParts::new(shape.columns, HASHER)?;
        let PartsMonitor { workers, aggregator, reader } = options.start_parts(sketch)?;
        Ok((workers, aggregator, reader))
    }

    fn sketch(shape: Shape) -> Result<CocoSketch> {
        Ok(CocoSketch::new(shape.columns, ROWS as u32, KEY_BYTES, HASHER)?)
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

impl KeyedSketch for CocoSketch {
    #[inline]
    fn add(&mut self, hash: KeyHash, key: &[u8]) {
        self.update(hash, key, 1);
    }

    fn join(&mut self, other: &Self) -> Result<()> {
        Ok(self.merge(other)?)
    }

    fn empty(&self) -> Result<Self> {
        Ok(Self::new(self.columns(), self.depth(), self.key_bytes_max(), self.hash_id())?)
    }

    fn known(&self) -> Vec<(&[u8], u64)> {
        self.top(usize::MAX, 0.5).into_iter().map(|flow| (flow.key, flow.count.estimate)).collect()
    }

    fn size(&self, hash: KeyHash) -> u64 {
        self.estimate(hash)
    }
}
