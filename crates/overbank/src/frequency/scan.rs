//! Changes to the whole sketch: fold, decay, clear. Each but the last writes a new pages file in one sequential pass.
//!
//! ```text
//!   pages + logs + buffers ──group by group──▶ composed ──▶ new pages file, which then takes the place of all three
//! ```
//!
//! 1. Until the new file is whole, the sketch is as it was; until the next commit, so is the store.
//! 2. Upkeep's lock and all turns are held: writers wait. Estimates go on, of the state before, until the new one takes its place in one
//!    step; one that was half-way then begins anew.
//!
//! | | block reads | block writes | flash |
//! |---|---|---|---|
//! | fold | the sketch, logs | half the sketch | 1.5 times the sketch until the commit |
//! | decay | the sketch, logs | the sketch | twice the sketch until the commit |
//! | merge (`merge_from.rs`) | both sketches, logs | the sketch | as decay |

use super::commitment::Upkeep;
use super::flash::PagesFile;
use super::format::GroupPlace;
use super::intake::Still;
use super::page;
use super::plus;
use super::query::View;
use super::shape::Shape;
use super::sketch::Sketch;
use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::error::invalid;
use crate::lock::{lock, read, write};
use crate::sketch::count_min::Layout;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// Fills the blocks of a group from the sketch as it is, and says whether a cell came to stand at its maximum.
type Compose<'a> = dyn FnMut(&View<'_>, usize, &mut [u8]) -> Result<bool> + 'a;

impl Sketch {
    /// Halves the number of pages.
    pub(super) fn fold(&self) -> Result<()> {
        self.writable()?;
        let upkeep = lock(&self.upkeep);
        let still = self.hold_still();
        let shape = self.shape();
        let layout = shape.layout;
        if !layout.pages().is_multiple_of(2) {
            return invalid("pages", layout.pages(), "only an even number of pages can be halved");
        }
        let half = Layout::with_shape(layout.pages() / 2, layout.columns(), layout.depth())?;
        let folded = Shape { layout: half, ..shape };
        let mut pairs = AlignedBuf::zeroed(folded.group_bytes().max(2 * BLOCK_BYTES));
        let pairs_at_once = (pairs.len() / BLOCK_BYTES / 2) as u64;
        self.rewrite(&upkeep, &still, folded, |weight| weight, &mut |wide, group, blocks| {
            let pages = folded.pages_of(group);
            let mut saturated = false;
            let mut first = pages.start;
            while first < pages.end {
                let end = (first + pairs_at_once).min(pages.end);
                let sources: Vec<u64> = (2 * first..2 * end).collect();
                wide.compose_still(&sources, &mut pairs)?;
                let into = &mut blocks[(first - pages.start) as usize * BLOCK_BYTES..];
                for (into, pair) in into
                    .chunks_exact_mut(BLOCK_BYTES)
                    .zip(pairs.chunks_exact(2 * BLOCK_BYTES))
                    .take((end - first) as usize)
                {
                    let (even, odd) = pair.split_at(BLOCK_BYTES);
                    into.copy_from_slice(even);
                    saturated |= page::add_blocks(into, odd, folded);
                }
                first = end;
            }
            Ok(saturated)
        })
    }

    /// Halves all counts.
    pub(super) fn decay(&self) -> Result<()> {
        self.writable()?;
        let upkeep = lock(&self.upkeep);
        let still = self.hold_still();
        self.rewrite(&upkeep, &still, self.shape(), |weight| weight / 2, &mut |view, group, blocks| {
            let pages: Vec<u64> = view.shape.pages_of(group).collect();
            view.compose_still(&pages, blocks)?;
            page::halve_blocks(&mut blocks[..pages.len() * BLOCK_BYTES], view.shape);
            Ok(false)
        })
    }

    /// Forgets everything that was counted, and is the pane `epoch` of its window from now on, if one is given.
    pub(super) fn clear(&self, epoch: Option<u64>) -> Result<()> {
        self.writable()?;
        let upkeep = lock(&self.upkeep);
        let still = self.hold_still();
        let shape = self.shape();
        let places = vec![GroupPlace::EMPTY; shape.groups()];
        self.replace(&upkeep, &still, Whole { shape, file: None, places, epoch }, |_| 0);
        self.saturated.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The sum of all weights; all turns are held.
    pub(super) fn exact_weight(&self) -> u128 {
        let waiting = self.slots.iter().map(|slot| read(&slot.waiting).weight);
        plus(lock(&self.table).weight, waiting.fold(0, i128::saturating_add))
    }

    /// Puts a new pages file of `shape` in the place of pages, logs and buffers.
    pub(super) fn rewrite(
        &self,
        upkeep: &MutexGuard<'_, Upkeep>,
        still: &Still<'_>,
        shape: Shape,
        weight: impl FnOnce(u128) -> u128,
        compose: &mut Compose<'_>,
    ) -> Result<()> {
        self.slots.iter().for_each(|slot| slot.sort_tail(true));
        let sequence = self.next_sequence();
        let (view, file) = (self.view(), PagesFile::create(&self.files, shape)?);
        let mut places = Vec::with_capacity(shape.groups());
        let mut blocks = AlignedBuf::zeroed(shape.group_bytes());
        let mut saturated = false;
        for group in 0..shape.groups() {
            let composed = compose(&view, group, &mut blocks);
            let stored = composed.and_then(|is_full| {
                saturated |= is_full;
                file.write(group, &mut blocks, sequence)
            });
            match stored {
                Ok(place) => places.push(place),
                Err(error) => {
                    // No commit can have seen it.
                    let _ = self.files.discard(file.id());
                    return Err(error);
                }
            }
        }
        self.note_saturated(saturated);
        self.replace(upkeep, still, Whole { shape, file: Some(file), places, epoch: None }, weight);
        Ok(())
    }

    /// Puts a new whole in the place of pages, logs and buffers, in one step.
    fn replace(
        &self,
        _upkeep: &MutexGuard<'_, Upkeep>,
        _still: &Still<'_>,
        whole: Whole,
        weight: impl FnOnce(u128) -> u128,
    ) {
        let (logs, file) = {
            let mut waiting: Vec<_> = self.slots.iter().map(|slot| write(&slot.waiting)).collect();
            let mut table = lock(&self.table);
            let sum = waiting.iter().map(|waiting| waiting.weight).fold(0, i128::saturating_add);
            table.weight = weight(plus(table.weight, sum));
            for (emptied, waiting) in table.emptied.iter_mut().zip(&mut waiting) {
                waiting.clear();
                waiting.shape = whole.shape;
                *emptied = waiting.emptied;
            }
            table.shape = whole.shape;
            table.places = whole.places;
            table.epoch = whole.epoch.unwrap_or(table.epoch);
            table.generation += 1;
            table.change_places();
            (std::mem::take(&mut table.logs), std::mem::replace(&mut table.file, whole.file))
        };
        self.retire_logs(&logs);
        if let Some(file) = file {
            self.files.retire(file.id());
        }
    }
}

/// What takes the place of a whole sketch.
struct Whole {
    shape: Shape,
    file: Option<Arc<PagesFile>>,
    places: Vec<GroupPlace>,
    epoch: Option<u64>,
}
