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
use super::totals::Totals;
use super::{COUNT_DEPTH, KeyedRows, Measure, Parse, TALLIED_LENGTHS};
use crate::lock::lock;
use crate::pipeline::{self, Group};
use crate::sketch::count_min::CountMinShard;
use crate::sketch::hyperloglog::HyperLogLogShard;
use crate::sketch::space_saving::{Admission, Probe};
use crate::sketch::{DdSketch, SpaceSaving};
use crate::store::Caller;
use std::sync::Mutex;

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
    /// Calls the parser, and the rows that it makes.
    pub(super) caller: Caller,
    pub(super) parser: &'p P,
    /// The values of all threads: a sketch for each would be as large where they spread over all that a double can be. A chunk's
    /// are added at once, and take less time than its parsing by far.
    pub(super) values: Mutex<&'p mut DdSketch>,
    pub(super) shards: std::marker::PhantomData<fn() -> Shard<'a, 'b>>,
}

impl<'a, 'b, P: Parse> pipeline::Stages for Counting<'_, 'a, 'b, P> {
    type Chunk = P::Chunk;
    type Rows = P::Rows;
    type Shard = Shard<'a, 'b>;
    type Tally = Tally;
    type Error = P::Error;

    fn parse(&self, chunk: P::Chunk, rows: &mut P::Rows) -> std::result::Result<(), P::Error> {
        let _called = self.caller.call();
        self.parser.parse(chunk, rows)
    }

    fn apply(&self, shard: &mut Shard<'a, 'b>, tally: &mut Tally, rows: &P::Rows, group: Group<'_>) {
        let _called = self.caller.call();
        let weights = rows.weights();
        let outbox = &mut tally.outbox;
        let Shard { distinct, counts, heavy } = shard;
        let mut looked: [Looked; TOGETHER] = std::array::from_fn(|_| Looked::default());
        group.hashes().iter().take(TOGETHER).for_each(|&hash| heavy.prefetch(hash));
        for (block, hashes) in group.hashes().chunks(TOGETHER).enumerate() {
            for (looked, &hash) in looked.iter_mut().zip(hashes) {
                looked.probe = heavy.probe(hash);
                if !looked.probe.is_present() {
                    looked.places = counts.places(hash);
                    counts.prefetch(&looked.places);
                }
            }
            let next = group.hashes().iter().skip((block + 1) * TOGETHER).take(TOGETHER);
            next.for_each(|&hash| heavy.prefetch(hash));
            for (i, (&hash, looked)) in hashes.iter().zip(&looked).enumerate() {
                let row = group.row(block * TOGETHER + i);
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
        let called = self.caller.call();
        tally.take(rows);
        tally.measure(rows, &self.values);
        drop(called);
        Ok(tally.outbox.send()?)
    }
}

/// What one thread adds up for itself.
pub(super) struct Tally {
    outbox: Outbox,
    totals: Totals,
    lengths: Box<[u64]>,
}

impl Tally {
    pub(super) fn new(measure: Measure, outbox: Outbox) -> Self {
        let totals = Totals { measure, ..Totals::default() };
        Self { outbox, totals, lengths: vec![0; TALLIED_LENGTHS].into_boxed_slice() }
    }

    fn take(&mut self, rows: &impl KeyedRows) {
        let count = rows.hashes().len();
        let weigh = |weights: &[u64]| weights.iter().map(|&weight| u128::from(weight)).sum();
        self.totals.add(&Totals {
            measure: self.totals.measure,
            rows: count as u64,
            skipped: rows.skipped(),
            bytes: rows.bytes(),
            weight: rows.weights().map_or(count as u128, weigh),
        });
    }

    fn measure(&mut self, rows: &impl KeyedRows, values: &Mutex<&mut DdSketch>) {
        // A panic of another thread is passed on when the threads are joined.
        let values = || lock(values);
        match self.totals.measure {
            Measure::Value => {
                let mut values = values();
                rows.values().unwrap_or(&[]).iter().for_each(|&value| values.update(value, 1));
            }
            Measure::KeyLength => {
                for row in 0..rows.hashes().len() {
                    let bytes = rows.key_bytes(row);
                    match self.lengths.get_mut(bytes) {
                        Some(tally) => *tally += 1,
                        None => values().update(bytes as f64, 1),
                    }
                }
            }
        }
    }

    pub(super) fn add_to(self, totals: &mut Totals, values: &mut DdSketch) -> Outbox {
        for (bytes, &count) in self.lengths.iter().enumerate() {
            values.update(bytes as f64, count);
        }
        totals.add(&self.totals);
        self.outbox
    }
}
