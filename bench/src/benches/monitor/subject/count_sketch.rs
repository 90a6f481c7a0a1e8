//! Count Sketch: three rows, the heaviest flows beside them.

use super::super::heaviest::Heaviest;
use super::super::score::Answer;
use super::super::single::{Named, Single};
use super::super::stream::{Asked, HASHER, Query, Question, Record};
use super::{Counters, Plain, Shape, Subject, applied, online, start};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{Aggregator, Hashed, MonitorOptions, Reader, SignedPacket, SignedSizes, Worker};
use overbank::sketch::CountSketch;

/// Rows, as those of Count-Min.
const ROWS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Signed(Shape);

impl Subject for Signed {
    const NAME: &'static str = "count_sketch";
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = 45_000.0;
    type Element = SignedPacket<u64>;
    type Worker = Worker<SignedSizes<u64, ROWS>>;
    type Aggregator = Aggregator<SignedSizes<u64, ROWS>>;
    type Reader = Reader<SignedSizes<u64, ROWS>>;
    type Ideal = Named<CountSketch>;
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
        let sketch = CountSketch::new(self.0.columns, ROWS as u32, HASHER)?;
        Ok(Named { sketch, heaviest: Heaviest::new(self.0.heavy_keys) })
    }

    fn own(self) -> Result<Self::Own> {
        Ok(Plain::new(self, self.sketch()?, self.0.heavy_keys))
    }

    #[inline]
    fn element(self, record: &Record) -> SignedPacket<u64> {
        SignedPacket { hash: record.hash, key: record.key, weight: 1 }
    }

    fn online(self, reader: &Self::Reader, query: &Query) -> Answer {
        online(self, reader, query)
    }

    fn applied(self, reader: &Self::Reader, query: &Query) -> Option<Answer> {
        Some(applied(self, reader, query))
    }
}

impl Counters for Signed {
    type Sketch = SignedSizes<u64, ROWS>;

    fn sketch(self) -> Result<Self::Sketch> {
        Ok(SignedSizes::new(self.0.columns, HASHER)?)
    }

    fn key(self, asked: &Asked) -> Hashed<u64> {
        Hashed { hash: asked.hash, key: asked.key }
    }

    fn name(self, key: Hashed<u64>) -> u64 {
        key.key
    }
}

/// An estimate as a weight: of flows that only grow, one below 0 says nothing.
fn weight(sketch: &CountSketch, hash: KeyHash) -> u64 {
    sketch.estimate(hash).unsigned_abs()
}

impl Single for Named<CountSketch> {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.sketch.update(record.hash, 1);
        self.heaviest.offer(record.hash.fold(), record.key, weight(&self.sketch, record.hash));
    }

    fn join(&mut self, other: &Self) {
        let merged = self.sketch.merge(&other.sketch);
        assert!(merged.is_ok(), "sketches of one shape");
        let mut heaviest = Heaviest::new(self.heaviest.capacity());
        for (_, key) in self.heaviest.keys().chain(other.heaviest.keys()) {
            let hash = HASHER.hash_u64(key);
            heaviest.offer(hash.fold(), key, weight(&self.sketch, hash));
        }
        self.heaviest = heaviest;
    }

    fn clear(&mut self) {
        let sketch = &self.sketch;
        if let Ok(empty) = CountSketch::new(sketch.columns(), sketch.depth(), sketch.hash_id()) {
            self.sketch = empty;
        }
        self.heaviest.clear();
    }

    fn answer(&self, query: &Query) -> Answer {
        let estimate = |hash| weight(&self.sketch, hash) as f64;
        let known = self.heaviest.keys().map(|(_, key)| (key, estimate(HASHER.hash_u64(key))));
        let asked = query.asked.iter().map(|asked| estimate(asked.hash));
        Answer { known: known.collect(), estimates: asked.collect() }
    }
}
