//! Runs against an ordered map of signed counts.

mod blocks;
mod faults;
mod merges;
mod packed;
mod queries;
mod values;

use super::*;
use crate::Seed;
use crate::device::Device;
use crate::device::memory::MemoryDevice;
use crate::store::{Files, Store, StoreOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The obvious run: a count, not 0, for each fingerprint.
type Model = BTreeMap<u64, i64>;

fn kind(fingerprint_bits: u32) -> RunKind {
    RunKind { fingerprint_bits, seed_fingerprint: 0x5eed, hash_kind: HashKind::Xxh3, sign: Sign::Insertions }
}

fn removals(fingerprint_bits: u32) -> RunKind {
    RunKind { sign: Sign::Removals, ..kind(fingerprint_bits) }
}

fn store_on(device: Arc<dyn Device>) -> Store {
    Store::create_on(device, StoreOptions::new().seed(Seed(1)).threads(1).reserve_bytes(0)).unwrap()
}

fn store() -> Store {
    store_on(Arc::new(MemoryDevice::new()))
}

fn write(files: &Files, bits: u32, model: &Model) -> RunInfo {
    write_kind(files, kind(bits), model)
}

fn write_kind(files: &Files, kind: RunKind, model: &Model) -> RunInfo {
    let entries: Vec<(u64, i64)> = model.iter().map(|(&fingerprint, &count)| (fingerprint, count)).collect();
    let mut writer = RunWriter::create(files, kind, false).unwrap();
    writer.push_counted(&entries).unwrap();
    writer.finish().unwrap()
}

fn open(files: &Files, bits: u32, info: &RunInfo) -> FingerprintSegment {
    FingerprintSegment::open(files, &info.file, kind(bits)).unwrap()
}

fn run_of(files: &Files, bits: u32, model: &Model) -> FingerprintSegment {
    open(files, bits, &write(files, bits, model))
}

/// Runs of what `model` has above 0 and, as removals, below.
fn split_of(files: &Files, bits: u32, model: &Model) -> [FingerprintSegment; 2] {
    [kind(bits), removals(bits)].map(|kind| {
        let side = split(model, kind.sign);
        FingerprintSegment::open(files, &write_kind(files, kind, &side).file, kind).unwrap()
    })
}

/// What `model` has above 0, or the amounts of what it has below.
fn split(model: &Model, sign: Sign) -> Model {
    let of_sign = |(&fingerprint, &count): (&u64, &i64)| (fingerprint, sign.signed(count));
    model.iter().map(of_sign).filter(|entry| entry.1 > 0).collect()
}

fn read(run: &FingerprintSegment, is_ahead: bool) -> crate::Result<Vec<(u64, i64)>> {
    let mut entries = Entries::default();
    let mut cursor = run.cursor(is_ahead)?;
    while cursor.next_block(&mut entries)? {}
    Ok(entries.iter().collect())
}

fn listed(model: &Model) -> Vec<(u64, i64)> {
    model.iter().map(|(&fingerprint, &count)| (fingerprint, count)).collect()
}

/// `n` different fingerprints, spread over all that there are.
fn uniform(n: u64, bits: u32, seed: u64) -> Vec<u64> {
    let of = |i: u64| Seed(u128::from(i) << 64 | u128::from(seed)).fingerprint() >> (64 - bits);
    let mut fingerprints: Vec<u64> = (0..n).map(of).collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    fingerprints
}

/// Fingerprints of some size: spread, crowded in places, next to each other, and with gaps of all sizes between them.
fn fingerprints(bits: u32) -> impl Strategy<Value = Vec<u64>> {
    let max = format::fingerprint_max(bits);
    let spread = prop::collection::vec(0..=max, 0..3000);
    let crowded = (prop::collection::vec(0..=max, 1..6), prop::collection::vec(0u64..2000, 0..3000))
        .prop_map(move |(places, near)| {
            near.iter()
                .zip(places.iter().cycle())
                .map(|(n, place)| place.saturating_add(*n).min(max))
                .collect()
        });
    let adjacent = (0..=max, 0u64..20_000)
        .prop_map(move |(from, n)| (from..=from.saturating_add(n).min(max)).collect::<Vec<_>>());
    let gaps = prop::collection::vec(any::<(u64, u32)>(), 0..2000).prop_map(move |gaps| {
        let gap = |(gap, shift): (u64, u32)| gap >> (shift % 64);
        gaps.into_iter()
            .map(gap)
            .scan(0u64, |at, gap| {
                *at = at.checked_add(gap)?;
                Some(*at & max)
            })
            .collect()
    });
    let constant = (0..=max, 0usize..5).prop_map(|(fingerprint, n)| vec![fingerprint; n]);
    prop_oneof![spread, crowded, adjacent, gaps, constant].prop_map(|mut fingerprints: Vec<u64>| {
        fingerprints.sort_unstable();
        fingerprints
    })
}

/// A count for each: mostly 1, or nearly never.
fn counts() -> impl Strategy<Value = Vec<i64>> {
    let exception = prop_oneof![4 => Just(-1i64), 2 => 2i64..4, 1 => -9i64..-1, 1 => Just(1i64 << 40)];
    (1u32..50, prop::collection::vec((any::<u32>(), exception), 1..500)).prop_map(|(rate, draws)| {
        draws.into_iter().map(|(draw, count)| if draw.is_multiple_of(rate) { count } else { 1 }).collect()
    })
}

fn models(bits: u32) -> impl Strategy<Value = Model> {
    (fingerprints(bits), counts(), any::<bool>()).prop_map(|(fingerprints, counts, is_plain)| {
        let counts = counts.iter().cycle().map(|&count| if is_plain { 1 } else { count });
        fingerprints.into_iter().zip(counts).collect()
    })
}
