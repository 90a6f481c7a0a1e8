//! The fronts of the runs on flash: how much memory they take, and who makes those that are missing.
//!
//! ```text
//!   lookup ─▶ new version? ─▶ divide the memory among its runs ─▶ halve what is too long ─▶ scan, step by step ─▶ front
//!   merge  ─▶ fills a front as it writes, if it is not too long to stand beside those of its inputs
//! ```
//!
//! Until somebody looks keys up there are no fronts, and buffers have all the memory: those who only insert pay for none. A version is
//! divided when the first lookup meets it. Scans go on in the background or, where there is none, with the lookups, some blocks at a time.
//!
//! Invariants:
//! 1. An answer never depends on a front.
//! 2. Fences, standing fronts and those that are made take no more than half of what buffers and fences have together; of that, an
//!    eighth is for those that merges fill.

use crate::filter::run::{FingerprintSegment, FrontOrder, FrontScan, FrontShape, allot};
use crate::lsm::{Run, Table};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Blocks of a step in the background: some milliseconds, between which others get their turn.
pub(super) const STEP_BLOCKS: u64 = 256;
/// Blocks that a lookup scans where there is no background: a sequential read about as long as a random one takes.
pub(super) const LOOKUP_BLOCKS: u64 = 16;
/// What merges may fill beside the standing fronts, as a share of these.
const FILLED_SHARE: usize = 8;

/// A file, and the bits a key of the front that it is to have.
type Wish<'a> = (&'a Arc<FingerprintSegment>, u32);

/// The fronts of a filter.
#[derive(Debug)]
pub(super) struct Fronts {
    value_bits: u32,
    /// RAM of fences and fronts together.
    memory_bytes: AtomicUsize,
    /// Fronts that merges may fill at a time.
    merges: usize,
    /// Bits a key of what merges write now; 0 while nobody looks keys up, or where memory is short.
    bits_a_key: AtomicU32,
    pub(super) state: Mutex<FrontsState>,
}

/// Which fronts there are to be, and how far they are.
#[derive(Default, Debug)]
pub(super) struct FrontsState {
    /// The ids of the runs for which memory was divided last; `None` before the first lookup.
    pub(super) divided: Option<Vec<u64>>,
    /// Fronts to be made, the last one next.
    pub(super) wanted: Vec<(Arc<FingerprintSegment>, u32)>,
    /// The one that is being made.
    pub(super) scan: Option<(Arc<FingerprintSegment>, FrontScan)>,
    /// A background job goes on with it.
    pub(super) is_driven: bool,
}

/// What fences and standing fronts may take where buffers, fences and fronts have `frozen_bytes`.
pub(super) fn standing_bytes(frozen_bytes: usize) -> usize {
    let memory_bytes = frozen_bytes / 2;
    memory_bytes - memory_bytes / FILLED_SHARE
}

impl Fronts {
    /// Of a filter whose fences and fronts may take `memory_bytes`, and that has so many merges open at a time.
    pub(super) fn new(value_bits: u32, memory_bytes: usize, merges: usize) -> Self {
        let (bits_a_key, state) = (AtomicU32::new(0), Mutex::default());
        Fronts { value_bits, memory_bytes: AtomicUsize::new(memory_bytes), merges, bits_a_key, state }
    }

    /// RAM of fences and fronts together.
    fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Lets fences and fronts take so much from the next division on.
    #[cfg(test)]
    pub(super) fn limit(&self, memory_bytes: usize) {
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
        crate::lock::lock(&self.state).divided = None;
    }

    /// The front that a merge is to fill, if it is short enough.
    pub(super) fn order(&self) -> Option<FrontOrder> {
        let bits_a_key = self.bits_a_key.load(Ordering::Relaxed);
        let bytes_max = self.memory_bytes() / FILLED_SHARE / self.merges.max(1);
        let shape = FrontShape { bits_a_key, value_bits: self.value_bits };
        (bits_a_key > 0).then_some(FrontOrder { shape, bytes_max })
    }

    /// RAM of the fronts that merges may be filling.
    pub(super) fn filled_bytes(&self) -> usize {
        if self.bits_a_key.load(Ordering::Relaxed) > 0 { self.memory_bytes() / FILLED_SHARE } else { 0 }
    }

    /// The state's lock, if nobody has it.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, FrontsState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Divides the memory among `runs`: shortens what is too long, and notes what is to be made.
    pub(super) fn divide<T>(&self, state: &mut FrontsState, runs: &[Run<T>])
    where
        T: Table<Segment = FingerprintSegment>,
    {
        let pieces = || runs.iter().flat_map(|run| &run.pieces);
        let fences: usize = pieces().map(|piece| piece.memory_bytes()).sum();
        let budget = (self.memory_bytes() - self.memory_bytes() / FILLED_SHARE).saturating_sub(fences);
        let keys: Vec<u64> = runs.iter().map(|run| run.size().entries).collect();
        let bits = allot(&keys, budget as u64);
        // What merges write is as long as it would be if all runs were equally long.
        let typical = (budget as u64).saturating_mul(8) / keys.iter().sum::<u64>().max(1);
        let typical = if typical < 3 { 0 } else { typical.min(10) as u32 };
        self.bits_a_key.store(typical, Ordering::Relaxed);
        let part =
            |piece: &FingerprintSegment, bits: u32| (piece.fingerprints() * u64::from(bits) / 8) as usize;
        // What is far shorter than its part is made anew, the others stay.
        let (mut wanted, kept): (Vec<Wish<'_>>, Vec<Wish<'_>>) = (runs.iter().zip(&bits))
            .flat_map(|(run, &bits)| run.pieces.iter().map(move |piece| (piece, bits)))
            .partition(|&(piece, bits)| bits > 0 && piece.front_bytes() * 8 < part(piece, bits) * 5);
        let mut bytes = wanted.iter().map(|&(piece, bits)| part(piece, bits)).sum::<usize>()
            + kept.iter().map(|one| one.0.front_bytes()).sum::<usize>();
        // Those that exceed their part the most go, or are halved, until all fit.
        while bytes > budget {
            let excess = |one: &&Wish<'_>| one.0.front_bytes() * 1024 / part(one.0, one.1).max(1);
            let Some((piece, bits)) = kept.iter().max_by_key(excess).filter(|one| one.0.front_bytes() > 0)
            else {
                break;
            };
            bytes -= piece.shorten_front(*bits > 0);
        }
        wanted.sort_by_key(|&(piece, _)| std::cmp::Reverse(piece.fingerprints()));
        state.scan = state.scan.take().filter(|(piece, _)| wanted.iter().any(|one| is_same(one.0, piece)));
        let is_scanned = |piece| state.scan.as_ref().is_some_and(|(scanned, _)| is_same(scanned, piece));
        wanted.retain(|&(piece, _)| !is_scanned(piece));
        state.wanted = wanted.into_iter().map(|(piece, bits)| (Arc::clone(piece), bits)).collect();
        state.divided = Some(runs.iter().map(|run| run.id).collect());
    }

    /// Makes fronts for about `blocks` blocks of scanning; whether there is more to make. A run that cannot be read goes without one:
    /// lookups tell of the damage.
    pub(super) fn step(&self, state: &mut FrontsState, mut blocks: u64) -> bool {
        while blocks > 0 {
            let scan = match state.scan.take() {
                Some(scan) => Some(scan),
                None => loop {
                    let Some((piece, bits_a_key)) = state.wanted.pop() else { break None };
                    let shape = FrontShape { bits_a_key, value_bits: self.value_bits };
                    // A short one that it has makes room first.
                    piece.set_front(None);
                    if let Ok(scan) = piece.scan_front(shape) {
                        break Some((piece, scan));
                    }
                },
            };
            let Some((piece, mut scan)) = scan else { return false };
            let part = blocks.min(piece.blocks());
            blocks -= part;
            match scan.step(part.max(1)) {
                Ok(true) => state.scan = Some((piece, scan)),
                Ok(false) => piece.set_front(scan.finish().ok()),
                Err(_) => {}
            }
        }
        state.scan.is_some() || !state.wanted.is_empty()
    }
}

/// Whether two see parts of the same file, which has one front.
fn is_same(one: &FingerprintSegment, other: &FingerprintSegment) -> bool {
    one.file_ref().id == other.file_ref().id
}
