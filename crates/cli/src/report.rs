//! A report of `overbank monitor`: what the sketches of an epoch say, with bounds, and how the monitor fares.

use crate::arguments::Measure;
use overbank::sketch::locher::DistinctBounds;
use overbank::sketch::{CountBounds, DdSketch, HyperLogLog, Locher, UnivMon};
use overbank_ingest::capture::{FlowKey, FlowKind, PacketCounts};

/// How surely lower bounds of flows and both bounds of distinct flows and spreaders hold.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// The standard errors that hold with it.
const SIGMAS: f64 = 1.96;
/// How far off a quantile of packet sizes may be, as a share of it.
pub(crate) const SIZE_ERROR: f64 = 0.01;
/// The quantiles of packet sizes.
pub(crate) const RANKS: [f64; 8] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];

/// Why a report was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The epoch's time was over.
    ByTime,
    /// The captures have ended.
    ByInput,
    /// Ctrl-C, or q.
    ByUser,
    /// It goes on: that is how far it has come.
    NotYet,
}

impl Ended {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ByTime => "time",
            Self::ByInput => "input",
            Self::ByUser => "interrupt",
            Self::NotYet => "not yet",
        }
    }
}

/// When an epoch was, by the time of packets, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// What is known of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Its number in this run, from 0.
    pub(crate) epoch: u64,
    /// `None` where no packet came.
    pub(crate) span: Option<Span>,
    pub(crate) ended: Ended,
    pub(crate) kind: FlowKind,
    pub(crate) by: Measure,
    pub(crate) threads: usize,
    /// All packets, and of which no flow came.
    pub(crate) packets: PacketCounts,
    /// Packets that have a flow, and their bytes.
    pub(crate) counted: u64,
    pub(crate) counted_bytes: u64,
    /// Packets that the kernel had no room for; `None` of captures.
    pub(crate) dropped: Option<u64>,
    pub(crate) flows: Distinct,
    pub(crate) top: Vec<TopFlow>,
    /// No flow that is larger is unknown; `None` while that is not known.
    pub(crate) heavy_threshold: Option<u64>,
    /// Against the epoch before; `None` where there is none.
    pub(crate) changes: Option<Vec<Change>>,
    /// `None` where they are not counted, as of the next two.
    pub(crate) spreaders: Option<Vec<Spreads>>,
    pub(crate) entropy: Option<Entropy>,
    pub(crate) packet_sizes: Option<PacketSizes>,
    pub(crate) readings: Readings,
}

/// Distinct flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Distinct {
    pub(crate) estimate: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) relative_error: f64,
}

/// A heavy flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopFlow {
    pub(crate) key: FlowKey,
    pub(crate) size: CountBounds,
}

/// A flow that has another size than in the epoch before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: FlowKey,
    pub(crate) before: CountBounds,
    pub(crate) after: CountBounds,
}

impl Change {
    /// By how much it is larger, about.
    pub(crate) fn estimate(&self) -> i128 {
        i128::from(self.after.estimate) - i128::from(self.before.estimate)
    }

    /// By how much it is larger at least, and at most.
    pub(crate) fn bounds(&self) -> (i128, i128) {
        let least = i128::from(self.after.lower) - i128::from(self.before.upper);
        (least, i128::from(self.after.upper) - i128::from(self.before.lower))
    }
}

/// A source with many destinations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spreads {
    pub(crate) source: FlowKey,
    pub(crate) destinations: DistinctBounds,
}

/// The entropy of flow sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Entropy {
    pub(crate) bits: f64,
    pub(crate) standard_error: f64,
}

/// How long packets are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PacketSizes {
    pub(crate) count: u64,
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) mean: Option<f64>,
    /// Ranks and values.
    pub(crate) quantiles: Vec<(f64, f64)>,
}

impl PacketSizes {
    /// What a sketch says of so many packets with so many bytes.
    pub(crate) fn of(sketch: &DdSketch, (count, bytes): (u64, u64), ranks: &[f64]) -> Self {
        let quantile = |rank: f64| Some((rank, sketch.quantile(rank)?));
        Self {
            count,
            range: sketch.min().zip(sketch.max()),
            mean: (count > 0).then(|| bytes as f64 / count as f64),
            quantiles: ranks.iter().copied().filter_map(quantile).collect(),
        }
    }
}

impl Distinct {
    /// What a sketch says.
    pub(crate) fn of(sketch: &HyperLogLog) -> Self {
        Self {
            estimate: sketch.estimate(),
            lower: sketch.lower_bound(SIGMAS),
            upper: sketch.upper_bound(SIGMAS),
            relative_error: sketch.relative_standard_error(),
        }
    }
}

impl Entropy {
    /// What a sketch says.
    pub(crate) fn of(sketch: &UnivMon) -> Self {
        let entropy = sketch.entropy();
        Self { bits: entropy.estimate, standard_error: entropy.standard_error }
    }
}

/// The sketches of the framework, by their names in JSON.
pub(crate) const SKETCHES: [&str; 5] = ["flows", "distinct", "spreaders", "entropy", "packet_sizes"];

/// The framework's state, as it is at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Readings {
    /// τ of each sketch that there is.
    pub(crate) taus: [Option<u8>; SKETCHES.len()],
    /// Messages that wait.
    pub(crate) queue: u64,
    /// Messages that were applied.
    pub(crate) messages: u64,
    /// How often a counter was to be sent, and its ring was full.
    pub(crate) kept: u64,
}

impl Report {
    /// What flows are counted in, of all that have one.
    pub(crate) fn weight(&self) -> u64 {
        match self.by {
            Measure::Packets => self.counted,
            Measure::Bytes => self.counted_bytes,
        }
    }
}

/// The sources that have the most destinations.
pub(crate) fn spreaders(sketch: &Locher, top: usize) -> Vec<Spreads> {
    let spreads = sketch.top(top).into_iter().filter_map(|spreader| {
        let source = FlowKey::from_bytes(FlowKind::SOURCE, spreader.key)?;
        Some(Spreads { source, destinations: sketch.bounds(spreader.hash, CONFIDENCE) })
    });
    spreads.collect()
}
