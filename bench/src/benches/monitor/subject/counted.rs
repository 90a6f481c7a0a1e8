//! Sketches whose counters are in one array and which show keys: what they have in common, so that each says only what it is.

use super::super::heaviest::Heaviest;
use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Asked, HASHER, Query, Question, Record};
use super::{Counters, KeyOf, Plain, Shape, Subject, start};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{Aggregator, MonitorOptions, Monitored, Reader, Worker};
use std::marker::PhantomData;

/// Which sketch it is.
pub(in super::super) trait Counting: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// [`Subject::NAME`].
    const NAME: &'static str;
    /// [`Subject::MERGE_NS`].
    const MERGE_NS: f64;
    /// On the framework.
    type Sketch: Monitored<Element: Send + Sync + 'static>;
    /// The one that sees all packets.
    type Ideal: Single;

    /// On the framework.
    ///
    /// # Errors
    /// Those of the sketch; so in what follows.
    fn sketch(shape: Shape) -> Result<Self::Sketch>;

    /// One that is to see all packets.
    fn ideal(shape: Shape) -> Result<Self::Ideal>;

    /// A packet of weight 1.
    fn element(record: &Record) -> <Self::Sketch as Monitored>::Element;

    /// The key of a flow.
    fn key(hash: KeyHash, key: u64) -> <Self::Sketch as Monitored>::Key;

    /// The flow of a key.
    fn name(key: <Self::Sketch as Monitored>::Key) -> u64;
}

/// The subject of such a sketch.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Counted<C>(Shape, PhantomData<C>);

impl<C: Counting> Subject for Counted<C> {
    const NAME: &'static str = C::NAME;
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = C::MERGE_NS;
    type Element = <C::Sketch as Monitored>::Element;
    type Worker = Worker<C::Sketch>;
    type Aggregator = Aggregator<C::Sketch>;
    type Reader = Reader<C::Sketch>;
    type Ideal = C::Ideal;
    type Own = Plain<Self>;

    fn with_shape(shape: Shape) -> Self {
        Self(shape, PhantomData)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        start(self.sketch()?, options.heavy_keys(self.0.heavy_keys))
    }

    fn ideal(self) -> Result<C::Ideal> {
        C::ideal(self.0)
    }

    fn own(self) -> Result<Self::Own> {
        Ok(Plain::new(self, self.sketch()?, self.0.heavy_keys))
    }

    #[inline]
    fn element(self, record: &Record) -> Self::Element {
        C::element(record)
    }

    fn online(self, reader: &Self::Reader, query: &Query) -> Answer {
        let epoch = reader.epoch();
        let known = reader.top(epoch, usize::MAX).unwrap_or_default();
        let known = known.into_iter().map(|(key, weight)| (C::name(key), weight as f64)).collect();
        let estimate = |asked| reader.estimate(epoch, epoch, self.key(asked)).unwrap_or(0) as f64;
        Answer { known, estimates: query.asked.iter().map(estimate).collect() }
    }

    fn applied(self, reader: &Self::Reader, query: &Query) -> Option<Answer> {
        let estimate = |key| reader.applied_estimate(key).unwrap_or(0) as f64;
        let known = reader.top(reader.epoch(), usize::MAX).unwrap_or_default();
        let known = known.into_iter().map(|(key, _)| (C::name(key), estimate(key))).collect();
        let asked = query.asked.iter().map(|asked| estimate(self.key(asked)));
        Some(Answer { known, estimates: asked.collect() })
    }
}

impl<C: Counting> Counters for Counted<C> {
    type Sketch = C::Sketch;

    fn sketch(self) -> Result<C::Sketch> {
        C::sketch(self.0)
    }

    fn key(self, asked: &Asked) -> KeyOf<Self> {
        C::key(asked.hash, asked.key)
    }

    fn name(self, key: KeyOf<Self>) -> u64 {
        C::name(key)
    }
}

/// A sketch of one thread that knows no names.
pub(in super::super) trait Nameless: Send + 'static {
    /// Takes a packet of this flow.
    fn add(&mut self, hash: KeyHash);

    /// How many it had; of flows that only grow, an estimate below 0 says as much as one above.
    fn size(&self, hash: KeyHash) -> u64;

    /// Adds another's packets.
    fn join(&mut self, other: &Self);

    /// Forgets all.
    fn clear(&mut self);
}

/// Such a sketch, and the heaviest keys beside it.
#[derive(Debug)]
pub(in super::super) struct Named<T> {
    sketch: T,
    heaviest: Heaviest<u64>,
}

impl<T> Named<T> {
    pub(in super::super) fn new(sketch: T, keys: usize) -> Self {
        Self { sketch, heaviest: Heaviest::new(keys) }
    }
}

impl<T: Nameless> Single for Named<T> {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.sketch.add(record.hash);
        self.heaviest.offer(record.hash.fold(), record.key, self.sketch.size(record.hash));
    }

    fn join(&mut self, other: &Self) {
        self.sketch.join(&other.sketch);
        let mut heaviest = Heaviest::new(self.heaviest.capacity());
        for (_, key) in self.heaviest.keys().chain(other.heaviest.keys()) {
            let hash = HASHER.hash_u64(key);
            heaviest.offer(hash.fold(), key, self.sketch.size(hash));
        }
        self.heaviest = heaviest;
    }

    fn clear(&mut self) {
        self.sketch.clear();
        self.heaviest.clear();
    }

    fn answer(&self, query: &Query) -> Answer {
        let estimate = |hash| self.sketch.size(hash) as f64;
        let known = self.heaviest.keys().map(|(_, key)| (key, estimate(HASHER.hash_u64(key))));
        let asked = query.asked.iter().map(|asked| estimate(asked.hash));
        Answer { known: known.collect(), estimates: asked.collect() }
    }
}
