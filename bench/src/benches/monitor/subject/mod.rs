//! The paper's sketches, each as one small implementation of [`Subject`].
//!
//! To add one: a file with its [`Subject`], and a line in [`visit_all`].

mod coco;
mod count_min;
mod count_sketch;
mod counted;
mod distinct;
mod elastic;
mod keyed;
mod locher;
mod plain;
mod quantiles;
mod univ_mon;

use coco::Parts;
pub(super) use count_min::Sizes;
use count_sketch::Signed;
use distinct::Flows;
use elastic::Votes;
use locher::Sources;
pub(super) use plain::Plain;
use quantiles::Values;
use univ_mon::Sums;

use super::score::Answer;
use super::single::Single;
use super::stream::{Asked, Query, Question, Record};
use crate::Result;
use overbank::monitor::{Aggregator, Monitor, MonitorOptions, Monitored, Polled, Reader, Worker};
use overbank::sketch::{HyperLogLog, LogLog};

/// How large sketches are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Counters of a row.
    pub(super) columns: u32,
    /// Heavy keys of a sketch that keeps them beside.
    pub(super) heavy_keys: usize,
    /// Registers of a HyperLogLog.
    pub(super) lg_registers: u32,
    /// A share of the true value, in thousandths.
    pub(super) alpha_thousandths: u32,
}

impl Shape {
    /// Those of the paper (appendix D.1) and its code: rows of 2^16 counters, 1023 heavy keys, 2^16 registers.
    pub(super) const PAPER: Self =
        Self { columns: 1 << 16, heavy_keys: 1023, lg_registers: 16, alpha_thousandths: 10 };

    /// For tests.
    pub(super) const SMALL: Self =
        Self { columns: 1 << 10, heavy_keys: 64, lg_registers: 8, alpha_thousandths: 50 };
}

/// What a worker of the framework does.
pub(super) trait Working: Send {
    /// What is inserted.
    type Element: Copy + Send + Sync;

    /// Inserts a batch.
    fn insert_batch(&mut self, elements: &[Self::Element]);
}

/// What the framework's aggregator does.
pub(super) trait Polling {
    /// Takes what waits.
    fn poll(&mut self, clock: impl Fn() -> u64) -> Polled;

    /// The threshold.
    fn tau(&self) -> u8;

    /// How many messages were applied.
    fn messages(&self) -> u64;
}

/// Workers, aggregator and reader of a subject.
type StartedOf<S> = (Vec<<S as Subject>::Worker>, <S as Subject>::Aggregator, <S as Subject>::Reader);

/// A sketch of the paper.
pub(super) trait Subject: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// Its name in the figures.
    const NAME: &'static str;
    /// What it is asked.
    const QUESTION: Question;
    /// What adding one worker's sketch to the aggregator's takes in sketch-merge, in nanoseconds, where time is counted: as the bench
    /// `monitor_speed` measures it, rounded down.
    const MERGE_NS: f64;
    /// On the framework: what is inserted, and who does what.
    type Element: Copy + Send + Sync + 'static;
    /// Inserts.
    type Worker: Working<Element = Self::Element> + 'static;
    /// Takes what workers send.
    type Aggregator: Polling + 'static;
    /// Answers.
    type Reader: 'static;
    /// The one that sees all packets.
    type Ideal: Single;
    /// The one that each worker of sketch-merge has.
    type Own: Single;

    /// With this shape.
    fn with_shape(shape: Shape) -> Self;

    /// On the framework.
    ///
    /// # Errors
    /// Those of the sketch; so in all that follow.
    fn start(self, options: MonitorOptions) -> Result<StartedOf<Self>>;

    /// One that is to see all packets.
    fn ideal(self) -> Result<Self::Ideal>;

    /// One that a worker of sketch-merge has.
    fn own(self) -> Result<Self::Own>;

    /// Its shape.
    fn shape(self) -> Shape;

    /// A packet as the framework takes it.
    fn element(self, record: &Record) -> Self::Element;

    /// What a reader says, with what the workers hold.
    fn online(self, reader: &Self::Reader, query: &Query) -> Answer;

    /// What the aggregator's counters alone say, which is the paper's answer; `None` where the framework does not tell.
    fn applied(self, reader: &Self::Reader, query: &Query) -> Option<Answer>;
}

/// A subject whose counters are in one array, and which shows keys.
pub(super) trait Counters: Subject {
    /// The array's shape.
    type Sketch: Monitored<Element = Self::Element>;

    /// The array's shape.
    ///
    /// # Errors
    /// Those of the sketch.
    fn sketch(self) -> Result<Self::Sketch>;

    /// The key that a number is asked of.
    fn key(self, asked: &Asked) -> KeyOf<Self>;

    /// The flow of a key.
    fn name(self, key: KeyOf<Self>) -> u64;
}

/// What messages of a subject carry.
pub(super) type KeyOf<S> = <<S as Counters>::Sketch as Monitored>::Key;

impl<S: Monitored<Element: Send + Sync>> Working for Worker<S> {
    type Element = S::Element;

    #[inline]
    fn insert_batch(&mut self, elements: &[S::Element]) {
        Worker::insert_batch(self, elements);
    }
}

impl<S: Monitored> Polling for Aggregator<S> {
    fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
        Aggregator::poll(self, clock)
    }

    fn tau(&self) -> u8 {
        Aggregator::tau(self)
    }

    fn messages(&self) -> u64 {
        Aggregator::messages(self)
    }
}

/// [`Subject::start`] of a sketch of counters.
type Started<S> = (Vec<Worker<S>>, Aggregator<S>, Reader<S>);

fn start<S: Monitored>(sketch: S, options: MonitorOptions) -> Result<Started<S>> {
    let Monitor { workers, aggregator, reader } = options.start(sketch)?;
    Ok((workers, aggregator, reader))
}

/// What is done with each subject.
pub(super) trait Visit {
    /// Does it with this one.
    ///
    /// # Errors
    /// What goes wrong.
    fn visit<S: Subject>(&mut self, subject: S) -> Result<()>;
}

/// Visits all subjects.
pub(super) fn visit_all(shape: Shape, visit: &mut impl Visit) -> Result<()> {
    visit.visit(Sizes::with_shape(shape))?;
    visit.visit(Signed::with_shape(shape))?;
    visit.visit(Sums::with_shape(shape))?;
    visit.visit(Sources::with_shape(shape))?;
    visit.visit(Parts::with_shape(shape))?;
    visit.visit(Votes::with_shape(shape))?;
    visit.visit(Flows::<HyperLogLog>::with_shape(shape))?;
    visit.visit(Flows::<LogLog>::with_shape(shape))?;
    visit.visit(Values::with_shape(shape))
}
