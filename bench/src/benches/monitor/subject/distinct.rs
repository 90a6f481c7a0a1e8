//! HyperLogLog: how many flows there are.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{HASHER, Query, Question, Record};
use super::{Shape, Subject, start};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{Aggregator, DistinctFlows, MonitorOptions, Reader, Worker};
use overbank::sketch::HyperLogLog;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Flows(Shape);

impl Subject for Flows {
    const NAME: &'static str = "hyperloglog";
    const QUESTION: Question = Question::Flows;
    const MERGE_NS: f64 = 2_000.0;
    type Element = KeyHash;
    type Worker = Worker<DistinctFlows>;
    type Aggregator = Aggregator<DistinctFlows>;
    type Reader = Reader<DistinctFlows>;
    type Ideal = HyperLogLog;
    type Own = HyperLogLog;

    fn with_shape(shape: Shape) -> Self {
        Self(shape)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        start(DistinctFlows::new(self.0.lg_registers, HASHER)?, options)
    }

    fn ideal(self) -> Result<Self::Ideal> {
        Ok(HyperLogLog::new(self.0.lg_registers, HASHER)?)
    }

    fn own(self) -> Result<Self::Own> {
        self.ideal()
    }

    #[inline]
    fn element(self, record: &Record) -> KeyHash {
        record.hash
    }

    fn online(self, reader: &Self::Reader, _: &Query) -> Answer {
        answer(reader.distinct(reader.epoch(), reader.epoch()).as_ref())
    }

    fn applied(self, reader: &Self::Reader, _: &Query) -> Option<Answer> {
        Some(answer(reader.applied_distinct().as_ref()))
    }
}

fn answer(sketch: Option<&HyperLogLog>) -> Answer {
    Answer { known: vec![], estimates: vec![sketch.map_or(0.0, HyperLogLog::estimate)] }
}

impl Single for HyperLogLog {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.update(record.hash);
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        if let Ok(empty) = Self::new(self.lg_m(), self.hash_id()) {
            *self = empty;
        }
    }

    fn answer(&self, _: &Query) -> Answer {
        answer(Some(self))
    }
}
