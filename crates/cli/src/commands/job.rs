//! What `profile` and `count` ask of a pass over a stream.

use crate::arguments::StreamArguments;
use overbank::frequency::FrequencyOptions;

/// What a command makes of a stream.
pub(super) struct Job<'a> {
    pub(super) arguments: &'a StreamArguments,
    /// The field whose quantiles are wanted.
    pub(super) value: Option<&'a String>,
    /// The sketch on flash.
    pub(super) flash: Option<Flash>,
}

/// The sketch on flash of a job.
pub(super) struct Flash {
    /// What a new store gets.
    pub(super) options: FrequencyOptions,
    /// What a store that is taken up again must have.
    pub(super) demand: Demand,
    /// The bits of its counters, if they were asked for.
    pub(super) cell_bits: Option<u32>,
    /// Whether it must be conservative.
    pub(super) is_conservative: bool,
}

/// What is asked of the sketch of a store that is taken up again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// Any, or none.
    Nothing,
    /// That there is one.
    Some,
    /// That there is one of the job's size.
    SameSize,
}
