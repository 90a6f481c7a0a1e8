//! DDSketch: quantiles of a value.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Query, Question, Record};
use super::{Shape, Subject, start};
use crate::Result;
use overbank::monitor::{Aggregator, MonitorOptions, Quantiles, Reader, Reading, Worker};
use overbank::sketch::DdSketch;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Values(Shape);

impl Values {
    fn alpha(self) -> f64 {
        f64::from(self.0.alpha_thousandths) / 1000.0
    }
}

impl Subject for Values {
    const NAME: &'static str = "ddsketch";
    const QUESTION: Question = Question::Quantiles;
    const MERGE_NS: f64 = 1_500.0;
    type Element = Reading;
    type Worker = Worker<Quantiles>;
    type Aggregator = Aggregator<Quantiles>;
    type Reader = Reader<Quantiles>;
    type Ideal = DdSketch;
    type Own = DdSketch;

    fn with_shape(shape: Shape) -> Self {
        Self(shape)
    }

    fn shape(self) -> Shape {
        self.0
    }

    fn start(self, options: MonitorOptions) -> Result<(Vec<Self::Worker>, Self::Aggregator, Self::Reader)> {
        start(Quantiles::new(self.alpha())?, options)
    }

    fn ideal(self) -> Result<Self::Ideal> {
        Ok(DdSketch::new(self.alpha())?)
    }

    fn own(self) -> Result<Self::Own> {
        self.ideal()
    }

    #[inline]
    fn element(self, record: &Record) -> Reading {
        Reading { value: record.value(), count: 1 }
    }

    fn online(self, reader: &Self::Reader, query: &Query) -> Answer {
        answer(reader.values(reader.epoch(), reader.epoch()).as_ref(), query)
    }

    /// The framework does not tell bins that were applied alone.
    fn applied(self, _: &Self::Reader, _: &Query) -> Option<Answer> {
        None
    }
}

fn answer(sketch: Option<&DdSketch>, query: &Query) -> Answer {
    let quantile = |quantile| sketch.and_then(|sketch| sketch.quantile(quantile)).unwrap_or(0.0);
    Answer { known: vec![], estimates: query.asked.iter().map(|asked| quantile(asked.quantile)).collect() }
}

impl Single for DdSketch {
    #[inline]
    fn insert(&mut self, record: &Record) {
        self.update(record.value(), 1);
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        DdSketch::clear(self);
    }

    fn answer(&self, query: &Query) -> Answer {
        answer(Some(self), query)
    }
}
