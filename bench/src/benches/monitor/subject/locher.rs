//! Locher: which sources have many destinations.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{HASHER, Query, Question, Record};
use super::{Shape, Subject, start};
use crate::Result;
use overbank::monitor::{Aggregator, Contact, MonitorOptions, Reader, Spreaders, Worker};
use overbank::sketch::Locher;

/// Rows (appendix D.1).
const ROWS: usize = 3;
const KEY_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sources(Shape);

impl Subject for Sources {
    const NAME: &'static str = "locher";
    const QUESTION: Question = Question::Spreads;
    const MERGE_NS: f64 = 5_000_000.0;
    type Element = Contact<u64>;
    type Worker = Worker<Spreaders<u64, ROWS>>;
    type Aggregator = Aggregator<Spreaders<u64, ROWS>>;
    type Reader = Reader<Spreaders<u64, ROWS>>;
    type Ideal = Locher;
    type Own = Locher;

    fn with_shape(shape: Shape) -> Self {
        Self(shape)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        start(Spreaders::new(self.0.columns, HASHER)?, options.heavy_keys(self.0.heavy_keys))
    }

    fn ideal(self) -> Result<Self::Ideal> {
        Ok(Locher::new(self.0.columns, ROWS as u32, self.0.heavy_keys, KEY_BYTES, HASHER)?)
    }

    fn own(self) -> Result<Self::Own> {
        self.ideal()
    }

    #[inline]
    fn element(self, record: &Record) -> Contact<u64> {
        Contact { source: record.hash, key: record.key, item: HASHER.hash_u64(record.destination()) }
    }

    fn online(self, reader: &Self::Reader, query: &Query) -> Answer {
        let sketch = reader.spreaders(reader.epoch(), reader.epoch());
        sketch.map_or_else(Answer::default, |sketch| sketch.answer(query))
    }

    /// The framework does not tell cells that were applied alone.
    fn applied(self, _: &Self::Reader, _: &Query) -> Option<Answer> {
        None
    }
}

impl Single for Locher {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.update(record.hash, &record.key.to_le_bytes(), HASHER.hash_u64(record.destination()));
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        let empty =
            Self::new(self.columns(), self.depth(), self.sources_max(), self.key_bytes_max(), self.hash_id());
        if let Ok(empty) = empty {
            *self = empty;
        }
    }

    fn answer(&self, query: &Query) -> Answer {
        let named = |key: &[u8]| Some(u64::from_le_bytes(key.try_into().ok()?));
        let known = self.top(self.sources_max()).into_iter();
        let known = known.filter_map(|source| Some((named(source.key)?, source.items))).collect();
        Answer { known, estimates: query.asked.iter().map(|asked| self.estimate(asked.hash)).collect() }
    }
}
