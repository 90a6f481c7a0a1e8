//! How many flows there are, by registers of ranks: HyperLogLog, and LogLog, which takes the mean of the ranks.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{HASHER, Query, Question, Record};
use super::{Shape, Subject, start};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{Aggregator, Distinct, MonitorOptions, Reader, Registers, Worker};
use overbank::sketch::{HyperLogLog, LogLog};
use std::marker::PhantomData;

/// What the registers make.
pub(in super::super) trait Ranks: Registers + Send + std::fmt::Debug {
    /// [`Subject::NAME`].
    const NAME: &'static str;

    /// `2^lg_m` registers of nothing.
    ///
    /// # Errors
    /// Those of the sketch; so in what follows.
    fn empty(lg_m: u32) -> Result<Self>;

    fn lg_m(&self) -> u32;

    fn see(&mut self, hash: KeyHash);

    fn unite(&mut self, other: &Self) -> Result<()>;

    fn flows(&self) -> f64;
}

/// The subject of such registers.
#[derive(Debug)]
pub(in super::super) struct Flows<R>(Shape, PhantomData<fn() -> R>);

/// Whether or not `R` is.
impl<R> Copy for Flows<R> {}

impl<R> Clone for Flows<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Ranks> Subject for Flows<R> {
    const NAME: &'static str = R::NAME;
    const QUESTION: Question = Question::Flows;
    const MERGE_NS: f64 = 1_500.0;
    type Element = KeyHash;
    type Worker = Worker<Distinct<R>>;
    type Aggregator = Aggregator<Distinct<R>>;
    type Reader = Reader<Distinct<R>>;
    type Ideal = R;
    type Own = R;

    fn with_shape(shape: Shape) -> Self {
        Self(shape, PhantomData)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        start(Distinct::new(self.0.lg_registers, HASHER)?, options)
    }

    fn ideal(self) -> Result<R> {
        R::empty(self.0.lg_registers)
    }

    fn own(self) -> Result<R> {
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

fn answer<R: Ranks>(sketch: Option<&R>) -> Answer {
    Answer { known: vec![], estimates: vec![sketch.map_or(0.0, R::flows)] }
}

impl<R: Ranks> Single for R {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.see(record.hash);
    }

    fn join(&mut self, other: &Self) {
        let united = self.unite(other);
        assert!(united.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        if let Ok(empty) = Self::empty(self.lg_m()) {
            *self = empty;
        }
    }

    fn answer(&self, _: &Query) -> Answer {
        answer(Some(self))
    }
}

impl Ranks for HyperLogLog {
    const NAME: &'static str = "hyperloglog";

    fn empty(lg_m: u32) -> Result<Self> {
        Ok(Self::new(lg_m, HASHER)?)
    }

    fn lg_m(&self) -> u32 {
        HyperLogLog::lg_m(self)
    }

    #[inline]
    fn see(&mut self, hash: KeyHash) {
        self.update(hash);
    }

    fn unite(&mut self, other: &Self) -> Result<()> {
        Ok(self.merge(other)?)
    }

    fn flows(&self) -> f64 {
        self.estimate()
    }
}

impl Ranks for LogLog {
    const NAME: &'static str = "log_log";

    fn empty(lg_m: u32) -> Result<Self> {
        Ok(Self::new(lg_m, HASHER)?)
    }

    fn lg_m(&self) -> u32 {
        LogLog::lg_m(self)
    }

    #[inline]
    fn see(&mut self, hash: KeyHash) {
        self.update(hash);
    }

    fn unite(&mut self, other: &Self) -> Result<()> {
        Ok(self.merge(other)?)
    }

    fn flows(&self) -> f64 {
        self.estimate()
    }
}
