//! What workers, the aggregator and queries have together, and where each epoch's counters are.
//!
//! ```text
//!   epoch e   in half e % 2 of all counters, the workers' and the table's:   live
//!   closed    epochs below it are settled: in the archive, e % kept
//! ```
//!
//! 1. At most two epochs are live, in different halves: `closed <= epoch <= closed + 1`.
//! 2. A worker goes over to the other half by itself, between two insertions, and never looks back: what it left there is still.
//! 3. An epoch is settled when every worker has gone over and every message of it is applied. What the workers left is then added to what
//!    the aggregator has, and kept in the archive; from then on `closed` is above it. Its half is cleared before the next epoch that
//!    uses it begins.
//! 4. So whoever read a live half and finds `closed` still not above the epoch, read no counter that was cleared meanwhile.

use super::heavy::Board;
use super::key::Key;
use super::lane::{Lane, PLACES_MAX};
use super::monitored::Monitored;
use super::ring::Padded;
use super::rule::Rule;
use super::sync::{AtomicU64, Ordering, fence};
use super::tally::Tally;

/// A worker that is no more has left every epoch.
pub(super) const GONE: u64 = u64::MAX;
const TAU_BITS: u32 = 8;

#[derive(Debug)]
pub(super) struct Shared<S: Monitored> {
    pub(super) sketch: S,
    pub(super) lanes: Box<[Lane]>,
    pub(super) states: Box<[Padded<State>]>,
    pub(super) tally: Tally,
    /// The current epoch and τ.
    control: Padded<AtomicU64>,
    pub(super) closed: AtomicU64,
    pub(super) boards: [Board; 2],
    pub(super) archive: Box<[Archived]>,
}

/// What τ is set by at the end of a window, besides the queue.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Standing {
    /// The stream's so far.
    pub(super) total_weight: u64,
    /// How often a ring kept a worker's counter back or made it wait, ever.
    pub(super) stalls: u64,
}

/// What the workers have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerStats {
    /// Elements inserted, as of the last publishing.
    pub elements: u64,
    /// How often a counter was due to be sent and was kept, because the ring was full, or because an eighth of it waited and others had
    /// more to tell. In a batch, a full ring is tried with one element in 32, and such a ring with five or more.
    pub kept: u64,
}

/// What a worker says of itself.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The epoch that it inserts into, or [`GONE`].
    pub(super) epoch: AtomicU64,
    /// The weight that it inserted, by half.
    pub(super) weight: [AtomicU64; 2],
    pub(super) elements: AtomicU64,
    pub(super) kept: AtomicU64,
    /// How often it waited for a full ring that τ should have kept from filling.
    pub(super) waited: AtomicU64,
}

/// An epoch that is over.
#[derive(Debug)]
pub(super) struct Archived {
    /// The epoch and 1; 0 while there is none.
    pub(super) tag: AtomicU64,
    pub(super) cells: Box<[AtomicU64]>,
    pub(super) weight: AtomicU64,
    pub(super) board: Board,
    pub(super) known: Known,
}

/// How surely the keys of an epoch that is over came to be known.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// A key that the aggregator saw at more than this is on the board; 0 while that is not full.
    pub(super) floor: AtomicU64,
    /// The highest τ that was in force.
    pub(super) tau_max: AtomicU64,
    /// At least as often as a full ring kept a counter back.
    pub(super) kept: AtomicU64,
}

impl<S: Monitored> Shared<S> {
    pub(super) fn new(sketch: S, workers: usize, lg_slots: u32, heavy_keys: usize, kept: usize) -> Self {
        let (cells, key_words) = (sketch.cells(), S::Key::WORDS);
        let heavy_keys = heavy_keys * sketch.groups();
        let archived = |_| Archived {
            tag: AtomicU64::new(0),
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            weight: AtomicU64::new(0),
            board: Board::new(heavy_keys, key_words),
            known: Known::default(),
        };
        Self {
            lanes: (0..workers).map(|_| Lane::new(2 * cells, lg_slots, key_words)).collect(),
            states: (0..workers).map(|_| Padded(State::default())).collect(),
            tally: Tally::new(2 * cells, workers),
            control: Padded(AtomicU64::new(1)),
            closed: AtomicU64::new(0),
            boards: [(); 2].map(|()| Board::new(heavy_keys, key_words)),
            archive: (0..kept).map(archived).collect(),
            sketch,
        }
    }

    /// The current epoch and τ.
    #[inline]
    pub(super) fn control(&self) -> (u64, u8) {
        let control = self.control.0.load(Ordering::Acquire);
        (control >> TAU_BITS, control as u8)
    }

    /// Begins an epoch, or sets τ. The aggregator alone does.
    pub(super) fn set_control(&self, epoch: u64, tau: u8) {
        self.control.0.store(epoch << TAU_BITS | u64::from(tau), Ordering::Release);
    }

    /// The first counter of an epoch's half.
    #[inline]
    pub(super) fn base(&self, epoch: u64) -> usize {
        (epoch % 2) as usize * self.sketch.cells()
    }

    /// Sets `sums` to an epoch's counters as if one sketch had seen all its traffic; false where the epoch is not kept any more, or has
    /// not begun.
    pub(super) fn read(&self, epoch: u64, places: &[u32], sums: &mut [u64]) -> bool {
        let mut shifted = [0; PLACES_MAX];
        let shifted = &mut shifted[..places.len()];
        let base = self.base(epoch) as u32;
        shifted.iter_mut().zip(places).for_each(|(to, &place)| *to = base + place);
        let is_live =
            self.while_live(epoch, || self.tally.read::<S::Rule>(&self.lanes, shifted, sums)).is_some();
        let copy = |archived: &Archived| {
            for (sum, &place) in sums.iter_mut().zip(places) {
                *sum = archived.cells[place as usize].load(Ordering::Relaxed);
            }
        };
        is_live || self.archived(epoch, copy).is_some()
    }

    /// An epoch's total weight: all that was inserted, and up to a batch a worker that is being inserted.
    pub(super) fn total_weight(&self, epoch: u64) -> Option<u64> {
        let live = self.while_live(epoch, || self.live_weight(epoch));
        live.or_else(|| self.archived(epoch, |archived| archived.weight.load(Ordering::Relaxed)))
    }

    /// That of several epochs, of which there is one at least.
    pub(super) fn total_weight_of(&self, first: u64, last: u64) -> Option<u64> {
        (first <= last).then_some(())?;
        let mut weights = (first..=last).map(|epoch| self.total_weight(epoch));
        weights.try_fold(0u64, |sum, weight| Some(sum.saturating_add(weight?)))
    }

    /// What each worker has done.
    pub(super) fn worker_stats(&self) -> Vec<WorkerStats> {
        let stats = |state: &Padded<State>| WorkerStats {
            elements: state.0.elements.load(Ordering::Relaxed),
            kept: state.0.kept.load(Ordering::Relaxed),
        };
        self.states.iter().map(stats).collect()
    }

    /// The keys that the aggregator keeps of an epoch.
    pub(super) fn keys(&self, epoch: u64) -> Option<Vec<S::Key>> {
        let live = self.while_live(epoch, || self.boards[(epoch % 2) as usize].keys());
        live.or_else(|| self.archived(epoch, |archived| archived.board.keys()))
    }

    pub(super) fn live_weight(&self, epoch: u64) -> u64 {
        let weights =
            self.states.iter().map(|state| state.0.weight[(epoch % 2) as usize].load(Ordering::Relaxed));
        weights.fold(0, u64::saturating_add)
    }

    /// How often full rings kept counters back, as far as the workers have said.
    pub(super) fn kept(&self) -> u64 {
        let kept = self.states.iter().map(|state| state.0.kept.load(Ordering::Relaxed));
        kept.fold(0, u64::saturating_add)
    }

    /// What τ is set by, besides the queue.
    pub(super) fn standing(&self) -> Standing {
        let waited = self.states.iter().map(|state| state.0.waited.load(Ordering::Relaxed));
        let stalls = waited.fold(self.kept(), u64::saturating_add);
        Standing { total_weight: self.live_weight(self.control().0), stalls }
    }

    /// What an epoch's settled counter is: the aggregator's with what the workers left.
    pub(super) fn settled(&self, epoch: u64, cell: usize) -> u64 {
        let cell = self.base(epoch) + cell;
        let left = self.lanes.iter().map(|lane| lane.content::<S::Rule>(cell));
        left.fold(self.tally.applied(cell), S::Rule::join)
    }

    /// What `read` finds in the current epoch's half, of which it is told the first counter. Repeats where the epoch was closed meanwhile,
    /// so somebody else went on: the half may by then have been cleared, or be that of a later epoch.
    pub(super) fn of_current<T>(&self, mut read: impl FnMut(usize) -> T) -> T {
        loop {
            let (epoch, _) = self.control();
            if let Some(found) = self.while_live(epoch, || read(self.base(epoch))) {
                return found;
            }
        }
    }

    /// What `read` finds in an epoch's half, if the epoch was live from beginning to end.
    pub(super) fn while_live<T>(&self, epoch: u64, read: impl FnOnce() -> T) -> Option<T> {
        if self.closed.load(Ordering::Acquire) > epoch || epoch > self.control().0 {
            return None;
        }
        let found = read();
        fence(Ordering::Acquire);
        (self.closed.load(Ordering::Acquire) <= epoch).then_some(found)
    }

    /// What `read` finds in the archive, if the epoch was there from beginning to end.
    pub(super) fn archived<T>(&self, epoch: u64, read: impl FnOnce(&Archived) -> T) -> Option<T> {
        let archived = &self.archive[(epoch % self.archive.len() as u64) as usize];
        // The last of all numbers has no tag, and is no epoch's.
        let tag = epoch.checked_add(1)?;
        let is_it = || archived.tag.load(Ordering::Acquire) == tag;
        if !is_it() {
            return None;
        }
        let found = read(archived);
        fence(Ordering::Acquire);
        is_it().then_some(found)
    }
}
