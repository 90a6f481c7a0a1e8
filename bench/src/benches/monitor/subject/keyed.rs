//! Sketches whose counters have a key each: what they have in common, so that each says only what it is.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Asked, Query, Question, Record};
use super::{Polling, Shape, Subject, Working};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{MonitorOptions, Packet};
use std::marker::PhantomData;

/// Bytes of a flow's key.
pub(super) const KEY_BYTES: usize = 8;

/// Workers, aggregator and reader of a sketch.
pub(super) type StartedOf<K> = (Vec<<K as Keying>::Worker>, <K as Keying>::Aggregator, <K as Keying>::Reader);

/// Which sketch it is.
pub(in super::super) trait Keying: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// [`Subject::NAME`].
    const NAME: &'static str;
    /// [`Subject::MERGE_NS`].
    const MERGE_NS: f64;
    /// On the framework: who inserts,
    type Worker: Working<Element = Packet<u64>> + 'static;
    /// who takes what is sent,
    type Aggregator: Polling + 'static;
    /// and who answers.
    type Reader: 'static;
    /// By itself.
    type Sketch: KeyedSketch;

    /// On the framework.
    ///
    /// # Errors
    /// Those of the sketch; so in what follows.
    fn start(shape: Shape, options: MonitorOptions) -> Result<StartedOf<Self>>;

    /// By itself.
    fn sketch(shape: Shape) -> Result<Self::Sketch>;

    /// All flows that a reader knows, with their sizes.
    fn known(reader: &Self::Reader) -> Vec<(KeyHash, u64, u64)>;

    /// A flow's size.
    fn size(reader: &Self::Reader, hash: KeyHash) -> u64;

    /// The same by what the aggregator has alone.
    fn applied_size(reader: &Self::Reader, hash: KeyHash) -> u64;
}

/// Such a sketch by itself.
pub(in super::super) trait KeyedSketch: Send + std::fmt::Debug + 'static {
    /// Takes a packet.
    fn add(&mut self, hash: KeyHash, key: &[u8]);

    /// Adds another's packets.
    ///
    /// # Errors
    /// Sketches of different shapes; so in what follows.
    fn join(&mut self, other: &Self) -> Result<()>;

    /// One of the same shape that has seen nothing.
    fn empty(&self) -> Result<Self>
    where
        Self: Sized;

    /// All flows that it knows, with their sizes.
    fn known(&self) -> Vec<(&[u8], u64)>;

    /// A flow's size.
    fn size(&self, hash: KeyHash) -> u64;
}

/// The subject of such a sketch.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Keyed<K>(Shape, PhantomData<K>);

impl<K: Keying> Subject for Keyed<K> {
    const NAME: &'static str = K::NAME;
    const QUESTION: Question = Question::Sizes;
    const MERGE_NS: f64 = K::MERGE_NS;
    type Element = Packet<u64>;
    type Worker = K::Worker;
    type Aggregator = K::Aggregator;
    type Reader = K::Reader;
    type Ideal = Alone<K::Sketch>;
    type Own = Alone<K::Sketch>;

    fn with_shape(shape: Shape) -> Self {
        Self(shape, PhantomData)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<StartedOf<K>> {
        K::start(self.0, options)
    }

    fn ideal(self) -> Result<Self::Ideal> {
        Ok(Alone(K::sketch(self.0)?))
    }

    fn own(self) -> Result<Self::Own> {
        self.ideal()
    }

    #[inline]
    fn element(self, record: &Record) -> Packet<u64> {
        Packet { hash: record.hash, key: record.key, weight: 1 }
    }

    fn online(self, reader: &K::Reader, query: &Query) -> Answer {
        let known = K::known(reader).into_iter().map(|(_, key, size)| (key, size as f64)).collect();
        let estimate = |asked: &Asked| K::size(reader, asked.hash) as f64;
        Answer { known, estimates: query.asked.iter().map(estimate).collect() }
    }

    fn applied(self, reader: &K::Reader, query: &Query) -> Option<Answer> {
        let size = |hash| K::applied_size(reader, hash) as f64;
        let known = K::known(reader).into_iter().map(|(hash, key, _)| (key, size(hash))).collect();
        Some(Answer { known, estimates: query.asked.iter().map(|asked| size(asked.hash)).collect() })
    }
}

/// A sketch by itself, on one thread.
#[derive(Debug)]
pub(in super::super) struct Alone<T>(T);

impl<T: KeyedSketch> Single for Alone<T> {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.0.add(record.hash, &record.key.to_le_bytes());
    }

    fn join(&mut self, other: &Self) {
        let joined = self.0.join(&other.0);
        assert!(joined.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        if let Ok(empty) = self.0.empty() {
            self.0 = empty;
        }
    }

    fn answer(&self, query: &Query) -> Answer {
        let named = |key: &[u8]| Some(u64::from_le_bytes(key.try_into().ok()?));
        let known = self.0.known().into_iter();
        let known = known.filter_map(|(key, size)| Some((named(key)?, size as f64))).collect();
        let estimate = |asked: &Asked| self.0.size(asked.hash) as f64;
        Answer { known, estimates: query.asked.iter().map(estimate).collect() }
    }
}

/// The framework's types of such a sketch: a worker and an aggregator, which have these methods themselves.
macro_rules! on_the_framework {
    ($worker:ty, $aggregator:ty) => {
        impl $crate::benches::monitor::subject::Working for $worker {
            type Element = overbank::monitor::Packet<u64>;

            #[inline]
            fn insert_batch(&mut self, packets: &[Self::Element]) {
                <$worker>::insert_batch(self, packets);
            }
        }

        impl $crate::benches::monitor::subject::Polling for $aggregator {
            fn poll(&mut self, clock: impl Fn() -> u64) -> overbank::monitor::Polled {
                <$aggregator>::poll(self, clock)
            }

            fn tau(&self) -> u8 {
                <$aggregator>::tau(self)
            }

            fn messages(&self) -> u64 {
                <$aggregator>::messages(self)
            }
        }
    };
}
pub(super) use on_the_framework;
