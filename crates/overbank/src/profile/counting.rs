//! The stages of a profile's pipeline: what a shard does with its rows, and what a thread keeps for itself.
//!
//! ```text
//!   shard:  heavy? ─ yes ─▶ counted there          thread:  totals, lengths, values      any order will do
//!              └──── no ──▶ registers, pages ─────────────▶ outbox ── a chunk's end ──▶ sketch on flash
//! ```
//!
//! 1. What the pages are told, the outbox is told: the sketch on flash counts the same updates.
//! 2. The outbox is sent when no shard is held, so a pass over the sketch stops nobody but those who write to it.

use super::flash::Outbox;
use super::pipeline::{self, Group};
use super::{COUNT_DEPTH, KeyedRows, Measure, Parse, TALLIED_LENGTHS, Totals};
use crate::sketch::count_min::CountMinShard;
use crate::sketch::hyperloglog::HyperLogLogShard;
use crate::sketch::space_saving::{Admission, Probe};
use crate::sketch::{DdSketch, SpaceSaving};

/// The three sketches' parts for one range of the hash.
pub(super) struct Shard<'a, 'b> {
    pub(super) distinct: HyperLogLogShard<'a>,
    pub(super) counts: &'b mut CountMinShard<'a, u32>,
    pub(super) heavy: &'b mut SpaceSaving,
}

/// Rows whose cache misses are under way at once: enough to hide one behind the others, few enough to stay in the first cache.
const TOGETHER: usize = 32;

/// What was found out about a row's key before its turn came.
#[derive(Clone, Copy, Default)]
struct Looked {
    probe: Probe,
    /// Where its counters are; meant only where the key was not among the heavy ones.
    places: [usize; COUNT_DEPTH as usize],
}

/// The stages of a profile.
pub(super) struct Counting<'p, 'a, 'b, P> {
    pub(super) parser: &'p P,
    pub(super) shards: std::marker::PhantomData<fn() -> Shard<'a, 'b>>,
}

impl<'a, 'b, P: Parse> pipeline::Stages for Counting<'_, 'a, 'b, P> {
    type Chunk = P::Chunk;
    type Rows = P::Rows;
    type Shard = Shard<'a, 'b>;
    type Tally = Tally;
    type Error = P::Error;

    fn parse(&self, chunk: P::Chunk, rows: &mut P::Rows) -> std::result::Result<(), P::Error> {
        self.parser.parse(chunk, rows)
    }

    fn apply(&self, shard: &mut Shard<'a, 'b>, tally: &mut Tally, rows: &P::Rows, group: Group<'_>) {
        let weights = rows.weights();
        let outbox = &mut tally.outbox;
        let Shard { distinct, counts, heavy } = shard;
        let mut looked: [Looked; TOGETHER] = std::array::from_fn(|_| Looked::default());
        group.hashes.iter().take(TOGETHER).for_each(|&hash| heavy.prefetch(hash));
        let blocks = group.rows.chunks(TOGETHER).zip(group.hashes.chunks(TOGETHER));
        for (block, (block_rows, hashes)) in blocks.enumerate() {
            for (looked, &hash) in looked.iter_mut().zip(hashes) {
                looked.probe = heavy.probe(hash);
                if !looked.probe.is_present() {
                    looked.places = counts.places(hash);
                    counts.prefetch(&looked.places);
                }
            }
            let next = group.hashes.iter().skip((block + 1) * TOGETHER).take(TOGETHER);
            next.for_each(|&hash| heavy.prefetch(hash));
            for ((&row, &hash), looked) in block_rows.iter().zip(hashes).zip(&looked) {
                let row = row as usize;
                let weight = weights.map_or(1, |weights| weights[row]);
                // A key that was present when it was looked for may have been displaced since.
                let places = || if looked.probe.is_present() { counts.places(hash) } else { looked.places };
                let estimate = || counts.estimate_at(&places());
                match heavy.admit_probed(looked.probe, hash, weight, estimate, || rows.key(row)) {
                    // The registers saw it when it was admitted.
                    Admission::Present => {}
                    Admission::New => distinct.update(hash),
                    Admission::Displaced { hash: displaced, held } => {
                        distinct.update(hash);
                        counts.update(displaced, held);
                        outbox.push(displaced, held);
                    }
                    Admission::Absent => {
                        distinct.update(hash);
                        let places = places();
                        counts.update_at(&places, weight);
                        outbox.push(hash, weight);
                    }
                }
            }
        }
    }

    fn finish(&self, tally: &mut Tally, rows: &P::Rows) -> std::result::Result<(), P::Error> {
        tally.take(rows);
        Ok(tally.outbox.send()?)
    }
}

/// What one thread adds up for itself.
pub(super) struct Tally {
    outbox: Outbox,
    totals: Totals,
    values: DdSketch,
    lengths: Box<[u64]>,
}

impl Tally {
    pub(super) fn new(measure: Measure, values: DdSketch, outbox: Outbox) -> Self {
        let totals = Totals { measure, ..Totals::default() };
        Self { outbox, totals, values, lengths: vec![0; TALLIED_LENGTHS].into_boxed_slice() }
    }

    fn take(&mut self, rows: &impl KeyedRows) {
        let count = rows.hashes().len();
        self.totals.add(&Totals {
            measure: self.totals.measure,
            rows: count as u64,
            skipped: rows.skipped(),
            bytes: rows.bytes(),
            weight: rows
                .weights()
                .map_or(count as u64, |weights| weights.iter().fold(0, |a, &b| a.saturating_add(b))),
        });
        match self.totals.measure {
            Measure::Value => {
                for &value in rows.values().unwrap_or(&[]) {
                    self.values.update(value, 1);
                }
            }
            Measure::KeyLength => {
                for row in 0..count {
                    let bytes = rows.key_bytes(row);
                    match self.lengths.get_mut(bytes) {
                        Some(tally) => *tally += 1,
                        None => self.values.update(bytes as f64, 1),
                    }
                }
            }
        }
    }

    pub(super) fn add_to(mut self, totals: &mut Totals, values: &mut DdSketch) -> Outbox {
        for (bytes, &count) in self.lengths.iter().enumerate() {
            self.values.update(bytes as f64, count);
        }
        totals.add(&self.totals);
        values.merge(&self.values).expect("both were made with the same error and bins");
        self.outbox
    }
}
