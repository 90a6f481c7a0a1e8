//! Changes to the whole sketch: merge, fold, decay, clear. Each but the last writes a new pages file in one sequential pass.
//!
//! ```text
//!   pages + logs + buffer ──group by group──▶ combined ──▶ new pages file, which then takes the place of all three
//! ```
//!
//! 1. Until the new file is whole, the sketch is as it was; until the next commit, so is the store.
//!
//! | | block reads | block writes | flash |
//! |---|---|---|---|
//! | fold | the sketch, logs | half the sketch | 1.5 times the sketch until the commit |
//! | decay | the sketch, logs | the sketch | twice the sketch until the commit |
//! | merge | both sketches, logs | the sketch | as decay |

use super::flash::Pages;
use super::intake::Held;
use super::page;
use super::place::Shape;
use super::query::View;
use super::{Frequency, Layout};
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::error::invalid;
use crate::{Error, Result};
use std::sync::Arc;

impl Frequency {
    /// Adds the other sketch: the result is that of one sketch that saw both streams.
    ///
    /// # Errors
    /// `Incompatible` where hash, seed or shape differ; `InvalidOption` in conservative mode; `ReadOnly`; what the devices
    /// say. Then nothing changed.
    pub fn merge(&mut self, other: &mut Frequency) -> Result<()> {
        self.intake.writable()?;
        self.plain("add up")?;
        self.hash_id.require(other.hash_id)?;
        if self.shape != other.shape {
            let (expected, found) = (format!("{:?}", self.shape), format!("{:?}", other.shape));
            return Err(Error::Incompatible { what: "the shape", expected, found });
        }
        let their_intake = Arc::clone(&other.intake);
        let mut held = their_intake.hold();
        other.hear(&mut held);
        held.settle();
        let theirs = other.view(&held);
        let mut more = AlignedBuf::zeroed(self.shape.group_bytes());
        self.rewrite(self.shape, &mut |ours, group, blocks| {
            let pages: Vec<u64> = ours.shape.pages_of(group).collect();
            ours.compose(&pages, blocks)?;
            theirs.compose(&pages, &mut more)?;
            let bytes = pages.len() * BLOCK_BYTES;
            Ok(page::add_blocks(&mut blocks[..bytes], &more[..bytes], ours.shape))
        })?;
        self.weight = self.weight.saturating_add(other.weight);
        self.saturated |= other.saturated;
        Ok(())
    }

    /// Halves the number of pages, without the stream: page `i` becomes the sum of pages `2 i` and `2 i + 1`. The error
    /// doubles; two sketches of which one is a fold of the other's shape can then be merged.
    ///
    /// # Errors
    /// `InvalidOption` if the number of pages is odd; `ReadOnly`; what the device says. Then nothing changed.
    pub fn fold(&mut self) -> Result<()> {
        self.intake.writable()?;
        let layout = self.shape.layout;
        if !layout.pages().is_multiple_of(2) {
            return invalid("pages", layout.pages(), "only an even number of pages can be halved");
        }
        let half = Layout::with_shape(layout.pages() / 2, layout.columns(), layout.depth())?;
        let folded = Shape { layout: half, ..self.shape };
        let mut pairs = AlignedBuf::zeroed(folded.group_bytes().max(2 * BLOCK_BYTES));
        let pairs_at_once = (pairs.len() / BLOCK_BYTES / 2) as u64;
        self.rewrite(folded, &mut |wide, group, blocks| {
            let pages = folded.pages_of(group);
            let mut saturated = false;
            let mut first = pages.start;
            while first < pages.end {
                let end = (first + pairs_at_once).min(pages.end);
                let sources: Vec<u64> = (2 * first..2 * end).collect();
                wide.compose(&sources, &mut pairs)?;
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

    /// Halves all counts, rounding down: what happened before weighs half from now on. Candidates for
    /// [`heavy`](Self::heavy) are decayed beside it, by [`SpaceSaving::decay`](crate::sketch::SpaceSaving::decay).
    ///
    /// # Accuracy
    /// An estimate becomes its half, rounded down, and so is never below half of the true count, rounded down. A lower bound
    /// may be too high by as much as rounding took from the page's weight: at most `(1 - confidence)^(-1 / depth)` for each
    /// column of the key's cell. A saturated cell stays saturated, and small cells that have merged stay merged.
    ///
    /// # Errors
    /// `ReadOnly`; what the device says. Then nothing changed.
    pub fn decay(&mut self) -> Result<()> {
        self.intake.writable()?;
        self.rewrite(self.shape, &mut |view, group, blocks| {
            let pages: Vec<u64> = view.shape.pages_of(group).collect();
            view.compose(&pages, blocks)?;
            page::halve_blocks(&mut blocks[..pages.len() * BLOCK_BYTES], view.shape);
            Ok(false)
        })?;
        self.weight /= 2;
        Ok(())
    }

    /// Forgets everything that was counted.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn clear(&mut self) -> Result<()> {
        self.intake.writable()?;
        let intake = Arc::clone(&self.intake);
        self.replace(Pages::new(self.shape), &mut intake.hold());
        (self.weight, self.saturated) = (0, false);
        Ok(())
    }

    /// Puts a new pages file of `shape` in the place of pages, logs and buffer. `compose` fills the blocks of a group and
    /// says whether a cell came to stand at its maximum.
    fn rewrite(&mut self, shape: Shape, compose: &mut Compose<'_>) -> Result<()> {
        let intake = Arc::clone(&self.intake);
        let mut held = intake.hold();
        held.settle();
        let sequence = held.next_sequence();
        let mut pages = Pages::new(shape);
        let mut blocks = AlignedBuf::zeroed(shape.group_bytes());
        let mut saturated = false;
        for group in 0..shape.groups() {
            let composed = compose(&self.view(&held), group, &mut blocks);
            let stored = composed.and_then(|full| {
                saturated |= full;
                pages.store(intake.files(), group, &mut blocks, sequence)
            });
            if let Err(error) = stored {
                pages.discard(intake.files());
                return Err(error);
            }
        }
        self.saturated |= saturated;
        self.shape = shape;
        self.replace(pages, &mut held);
        Ok(())
    }

    /// Puts `pages` in the place of pages, logs and buffers.
    fn replace(&mut self, pages: Pages, held: &mut Held<'_>) {
        self.hear(held);
        std::mem::replace(&mut self.pages, pages).discard(self.intake.files());
        held.forget(self.shape);
        (self.is_changed, self.is_table_changed) = (true, true);
    }
}

type Compose<'a> = dyn FnMut(&View<'_>, usize, &mut [u8]) -> Result<bool> + 'a;
