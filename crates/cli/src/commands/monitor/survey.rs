//! Reports, made of what the threads hold.

use super::crew::Crew;
use super::tally::Tally;
use crate::report::{
    CONFIDENCE, Change, Distinct, Ended, Entropy, PacketSizes, RANKS, Report, Span, TopFlow, spreaders,
};
use overbank::sketch::{CountBounds, DdSketch, HyperLogLog, Locher, UnivMon};
use overbank_ingest::capture::FlowKey;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What a report is of, beside its sketches.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) epoch: u64,
    pub(super) span: Option<Span>,
    pub(super) ended: Ended,
    pub(super) dropped: Option<u64>,
}

/// What the threads hold of an epoch together; sizes of flows are asked one by one.
pub(super) struct Held {
    pub(super) tally: Tally,
    pub(super) distinct: HyperLogLog,
    pub(super) spreaders: Locher,
    pub(super) sums: UnivMon,
    pub(super) lengths: DdSketch,
    /// The flows that are known by name: the heavy ones, and those of the sums.
    pub(super) known: Vec<FlowKey>,
    /// None that is larger lacks a name; `None` while that is not known.
    pub(super) heavy_threshold: Option<u64>,
}

impl Held {
    /// What is held of an epoch that was counted as `tally`; `None` where it is not kept any more.
    pub(super) fn of(crew: &Crew, epoch: u64, tally: Tally) -> Option<Self> {
        let readers = &crew.readers;
        let sums = readers.sums.sums(epoch, epoch)?;
        let (shortest, longest) = tally.ends.unwrap_or_default();
        let lengths = readers.lengths.values(epoch, epoch)?.with_ends(shortest.into(), longest.into());
        let announced = readers.flows.top(epoch, crew.shape.heavy_keys())?;
        let announced =
            announced.iter().filter_map(|(flow, _)| FlowKey::from_bytes(crew.kind, flow.key.as_bytes()));
        let summed = sums.top(crew.shape.heavy_keys(), CONFIDENCE);
        let summed = summed.iter().filter_map(|flow| FlowKey::from_bytes(crew.kind, flow.key));
        let known: BTreeSet<FlowKey> = announced.chain(summed).collect();
        Some(Self {
            tally,
            distinct: readers.distinct.distinct(epoch, epoch)?,
            spreaders: readers.spreaders.spreaders(epoch, epoch)?,
            lengths,
            known: known.into_iter().collect(),
            heavy_threshold: readers.flows.named_above(epoch, tally.weights(crew.by), CONFIDENCE),
            sums,
        })
    }
}

/// The report of the current epoch, or of the one before. `known_before` are the flows of the epoch before it that are known by name.
pub(super) fn report(crew: &Crew, about: About, held: &Held, known_before: &[FlowKey], top: usize) -> Report {
    let About { epoch, span, ended, dropped } = about;
    let before = epoch.checked_sub(1);
    let tally = &held.tally;
    let keys = || held.known.iter().chain(known_before).copied().collect::<BTreeSet<FlowKey>>();
    Report {
        epoch,
        span,
        ended,
        kind: crew.kind,
        by: crew.by,
        threads: crew.threads(),
        packets: tally.packets,
        counted: tally.counted,
        counted_bytes: tally.counted_bytes,
        dropped,
        flows: Distinct::of(&held.distinct),
        top: heaviest(crew, epoch, &held.known, top),
        heavy_threshold: held.heavy_threshold,
        changes: before.map(|before| changes(crew, before, epoch, keys(), top)),
        spreaders: Some(spreaders(&held.spreaders, top)),
        entropy: Some(Entropy::of(&held.sums)),
        packet_sizes: Some(PacketSizes::of(&held.lengths, (tally.counted, tally.counted_bytes), &RANKS)),
        readings: crew.readings(),
    }
}

fn size(crew: &Crew, epoch: u64, key: &FlowKey) -> CountBounds {
    let hash = crew.hasher.hash(key.as_bytes());
    let none = CountBounds { lower: 0, estimate: 0, upper: u64::MAX };
    crew.readers.flows.size_in(epoch, epoch, hash, CONFIDENCE).unwrap_or(none)
}

fn heaviest(crew: &Crew, epoch: u64, known: &[FlowKey], top: usize) -> Vec<TopFlow> {
    let mut flows: Vec<TopFlow> =
        known.iter().map(|&key| TopFlow { key, size: size(crew, epoch, &key) }).collect();
    flows.sort_by_key(|flow| (Reverse(flow.size.estimate), flow.key));
    flows.truncate(top);
    flows
}

fn changes(crew: &Crew, before: u64, after: u64, keys: BTreeSet<FlowKey>, top: usize) -> Vec<Change> {
    let change =
        |key: FlowKey| Change { key, before: size(crew, before, &key), after: size(crew, after, &key) };
    let mut changes: Vec<Change> =
        keys.into_iter().map(change).filter(|change| change.estimate() != 0).collect();
    changes.sort_by_key(|change| (Reverse(change.estimate().unsigned_abs()), change.key));
    changes.truncate(top);
    changes
}
