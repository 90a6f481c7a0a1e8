//! The counts on flash: a frequency sketch in the profile's store that is told what the pages in RAM are told.
//!
//! ```text
//!   absent key, displaced key ─┬─▶ pages in RAM       a small filter: is the key heavy enough for a slot?
//!                              └─▶ sketch on flash    as wide as flash allows: how often did it come?
//!
//!   a key's count is at most   min(pages, sketch on flash) + what its slot has held since it was admitted
//! ```
//!
//! 1. A row of a heavy key costs flash nothing: it is counted in its slot.
//! 2. Sketch and profile commit together, in one record of the store.
//! 3. Once the sketch has refused an update the profile answers and commits no more: its counts would be too low.

use crate::device::BLOCK_BYTES;
use crate::frequency::{Frequency, FrequencyOptions};
use crate::sketch::CountBounds;
use crate::sketch::count_min::Layout;
use crate::store::Store;
use crate::store::registry::counts_of;
use crate::{Error, KeyHash, Result};
use std::path::PathBuf;

/// The sketch on flash of a profile.
#[derive(Debug)]
pub(super) struct Flash {
    sketch: Frequency,
    /// Where its store is.
    path: PathBuf,
    /// Why an update was refused.
    failure: Option<String>,
}

/// What the sketch on flash is like now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashReport {
    /// Its shape.
    pub layout: Layout,
    /// Bits of a cell; cells of 4 and 8 bits merge where a count outgrows them.
    pub cell_bits: u32,
    /// Whether an update raises only the cells that it must.
    pub is_conservative: bool,
    /// The weight that it counts: that of all rows less what the heavy keys hold.
    pub weight: u64,
    /// Theorem 1: an estimate is too high by more than this with probability at most `e^-depth + 1 / pages`, in a stream
    /// where no key that the sketch counts weighs much.
    pub theorem_1_error: f64,
    /// Logs that wait to be applied; an estimate reads about one block of each.
    pub pending_chunks: usize,
    /// Whether a cell stands at its maximum, so that some upper bounds are infinite.
    pub saturated: bool,
}

impl FlashReport {
    /// What a sketch is like now.
    pub fn of(sketch: &Frequency) -> Self {
        Self {
            layout: sketch.layout(),
            cell_bits: sketch.cell_bits(),
            is_conservative: sketch.is_conservative(),
            weight: sketch.total_weight(),
            theorem_1_error: if sketch.total_weight() == 0 { 0.0 } else { sketch.theorem_1_error(1.0) },
            pending_chunks: sketch.pending_chunks(),
            saturated: sketch.saturated(),
        }
    }

    /// Bytes of the sketch once all its pages are written: a block each.
    pub fn bytes(&self) -> u64 {
        self.layout.pages() * BLOCK_BYTES as u64
    }

    /// The error as a share of the weight, `e / width`.
    pub fn epsilon(&self) -> f64 {
        std::f64::consts::E / self.layout.width() as f64
    }

    /// The probability of a greater error, `e^-depth`.
    pub fn delta(&self) -> f64 {
        (-f64::from(self.layout.depth())).exp()
    }

    /// The probability with which Theorem 1's error may be exceeded.
    pub fn theorem_1_failure(&self) -> f64 {
        (self.delta() + 1.0 / self.layout.pages() as f64).min(1.0)
    }
}

impl Flash {
    /// Whether the store has a sketch for its profile of this name.
    pub(super) fn is_in(store: &Store, profile: &str) -> bool {
        store.record(&counts_of(profile)).is_some()
    }

    /// That sketch. What `options` set, it must be.
    pub(super) fn open(store: &Store, profile: &str, options: FrequencyOptions) -> Result<Self> {
        Ok(Self::of(store, store.frequency(&counts_of(profile), options)?))
    }

    /// A new sketch for a new profile.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one; as [`Store::frequency`].
    pub(super) fn create(store: &Store, profile: &str, options: FrequencyOptions) -> Result<Self> {
        let taken = || Error::AlreadyExists { what: "summary", name: counts_of(profile) };
        if Flash::is_in(store, profile) {
            return Err(taken());
        }
        let flash = Self::open(store, profile, options)?;
        // One that counts is that of a profile that was given up before a commit.
        if flash.sketch.total_weight() > 0 { Err(taken()) } else { Ok(flash) }
    }

    fn of(store: &Store, sketch: Frequency) -> Self {
        Self { sketch, path: store.device().path(), failure: None }
    }

    /// What it is like now.
    pub(super) fn report(&self) -> Result<FlashReport> {
        self.check()?;
        Ok(FlashReport::of(&self.sketch))
    }

    pub(super) fn outbox(&self) -> Outbox {
        Outbox { writer: Some(self.sketch.clone()), ..Outbox::default() }
    }

    /// What the sketch says of each key.
    pub(super) fn bounds(&self, hashes: &[KeyHash], confidence: f64) -> Result<Vec<CountBounds>> {
        self.check()?;
        self.sketch.bounds(hashes, confidence)
    }

    /// Hears what became of a thread's outbox: what did not get through is counted in RAM but not on flash.
    pub(super) fn absorb(&mut self, outbox: Outbox) {
        self.failure = self.failure.take().or(outbox.failure);
    }

    /// Options of a sketch of the same shape.
    pub(super) fn options_in(store: &Store, profile: &str) -> Result<FrequencyOptions> {
        Frequency::options_in(store, &counts_of(profile))
    }

    /// Adds what another sketch counted.
    pub(super) fn merge(&self, other: &Self) -> Result<()> {
        self.sketch.merge(&other.sketch)
    }

    /// Adds weights to keys.
    pub(super) fn add(&self, updates: &[(KeyHash, u64)]) -> Result<()> {
        let (hashes, weights): (Vec<KeyHash>, Vec<u64>) = updates.iter().copied().unzip();
        self.sketch.update(&hashes, Some(&weights))
    }

    pub(super) fn check(&self) -> Result<()> {
        match &self.failure {
            Some(why) => Err(Error::Poisoned { path: self.path.clone(), why: why.clone() }),
            None => Ok(()),
        }
    }
}

/// What one thread has for the sketch on flash, of one chunk at a time. Without a sketch it takes nothing.
#[derive(Default)]
pub(super) struct Outbox {
    writer: Option<Frequency>,
    /// Keys to add 1 to: they take half the space of others.
    units: Vec<KeyHash>,
    hashes: Vec<KeyHash>,
    weights: Vec<u64>,
    failure: Option<String>,
}

impl Outbox {
    /// Adds `weight` to a key.
    #[inline]
    pub(super) fn push(&mut self, hash: KeyHash, weight: u64) {
        if self.writer.is_none() {
            return;
        }
        if weight == 1 {
            self.units.push(hash);
        } else {
            self.hashes.push(hash);
            self.weights.push(weight);
        }
    }

    /// Hands everything to the sketch.
    pub(super) fn send(&mut self) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let sent =
            writer.update(&self.units, None).and_then(|()| writer.update(&self.hashes, Some(&self.weights)));
        self.units.clear();
        self.hashes.clear();
        self.weights.clear();
        sent.inspect_err(|error| self.failure = Some(error.to_string()))
    }
}
