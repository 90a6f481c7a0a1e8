//! Reports, made of what the threads hold.

use super::crew::Crew;
use super::local::Local;
use super::name::key_of;
use crate::report::{
    CONFIDENCE, Change, Distinct, Ended, Entropy, PacketSizes, RANKS, Report, Span, TopFlow, spreaders,
};
use overbank::sketch::{CountBounds, HyperLogLog};
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

/// The report of the current epoch, or of the one before. `local` has what merges of it, `known` are its flows that are known by name,
/// and `known_before` those of the epoch before it.
pub(super) fn report(
    crew: &Crew,
    about: About,
    local: &Local,
    (known, known_before): (&[FlowKey], &[FlowKey]),
    top: usize,
) -> overbank::Result<Report> {
    let About { epoch, span, ended, dropped } = about;
    let distinct = match crew.distinct.distinct(epoch, epoch) {
        Some(sketch) => sketch,
        None => HyperLogLog::new(crew.shape.lg_registers(), crew.hasher)?,
    };
    let before = epoch.checked_sub(1);
    let keys = || known.iter().chain(known_before).copied().collect::<BTreeSet<FlowKey>>();
    Ok(Report {
        epoch,
        span,
        ended,
        kind: crew.kind,
        by: crew.by,
        threads: crew.threads(),
        packets: local.packets,
        counted: local.counted,
        counted_bytes: local.counted_bytes,
        dropped,
        flows: Distinct::of(&distinct),
        top: heaviest(crew, epoch, known, top),
        changes: before.map(|before| changes(crew, before, epoch, keys(), top)),
        spreaders: spreaders(&local.spreaders, top),
        entropy: Entropy::of(&local.entropy),
        packet_sizes: PacketSizes::of(&local.packet_sizes, &RANKS),
        readings: crew.readings(),
    })
}

/// The flows of an epoch that are known by name: those that the threads announced, and the heaviest that each keeps for the entropy.
pub(super) fn known(crew: &Crew, epoch: u64, local: &Local) -> Vec<FlowKey> {
    let announced = crew.sizes.top(epoch, crew.shape.heavy_keys()).unwrap_or_default();
    let announced = announced.iter().filter_map(|(flow, _)| key_of(crew.kind, &flow.key));
    let kept = local.entropy.top(crew.shape.heavy_keys(), CONFIDENCE);
    let kept = kept.iter().filter_map(|flow| FlowKey::from_bytes(crew.kind, flow.key));
    announced.chain(kept).collect::<BTreeSet<FlowKey>>().into_iter().collect()
}

fn size(crew: &Crew, epoch: u64, key: &FlowKey) -> CountBounds {
    let hash = crew.hasher.hash(key.as_bytes());
    let none = CountBounds { lower: 0, estimate: 0, upper: u64::MAX };
    crew.sizes.size_in(epoch, epoch, hash, CONFIDENCE).unwrap_or(none)
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
