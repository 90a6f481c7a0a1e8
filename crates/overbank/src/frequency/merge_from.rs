//! Merges: one sketch takes what another counted, in one sequential pass over both.
//!
//! ```text
//!   ours:    pages + logs + buffers ─┐
//!                                    ├─ group by group ──▶ sums ──▶ new pages file, which takes the place of ours
//!   theirs:  pages + logs + buffers ─┘                              theirs stays as it is
//! ```
//!
//! Both sketches' turns are held, so that what is added up is one state of each; estimates of both go on. Two sketches are locked in the
//! order of their numbers: merges of the same two in either direction, in two threads, wait for each other and no longer.

use super::page;
use super::sketch::Sketch;
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::lock::lock;
use crate::{Error, Result};
use std::sync::atomic::Ordering;

impl Sketch {
    /// Adds what `other` counted.
    pub(super) fn merge(&self, other: &Sketch) -> Result<()> {
        self.writable()?;
        self.require_plain("add up")?;
        self.hash_id.require(other.hash_id)?;
        let theirs_first = other.number < self.number;
        let hold_theirs = |is_now: bool| (is_now && other.number != self.number).then(|| other.hold_still());
        let _theirs_before = hold_theirs(theirs_first);
        let upkeep = lock(&self.upkeep);
        let still = self.hold_still();
        let _theirs_behind = hold_theirs(!theirs_first);
        let (ours, theirs) = (self.view(), other.view());
        if ours.shape != theirs.shape {
            let (expected, found) = (format!("{:?}", ours.shape), format!("{:?}", theirs.shape));
            return Err(Error::Incompatible { what: "the shape", expected, found });
        }
        if other.is_blank() {
            self.note_saturated(other.saturated.load(Ordering::Relaxed));
            return Ok(());
        }
        let weight = other.exact_weight();
        let mut more = AlignedBuf::zeroed(ours.shape.group_bytes());
        self.rewrite(
            &upkeep,
            &still,
            ours.shape,
            |ours| ours.saturating_add(weight),
            &mut |ours, group, blocks| {
                let pages: Vec<u64> = ours.shape.pages_of(group).collect();
                ours.compose_still(&pages, blocks)?;
                theirs.compose_still(&pages, &mut more)?;
                let bytes = pages.len() * BLOCK_BYTES;
                Ok(page::add_blocks(&mut blocks[..bytes], &more[..bytes], ours.shape))
            },
        )?;
        self.note_saturated(other.saturated.load(Ordering::Relaxed));
        Ok(())
    }

    /// Whether it holds no page, no log and no update; its turns are held. Such is the sketch of a profile whose keys are all heavy, and
    /// sums with it would write all pages for nothing.
    fn is_blank(&self) -> bool {
        let has_waiting = self.has_waiting();
        let table = lock(&self.table);
        !has_waiting && table.logs.is_empty() && table.file.is_none()
    }
}
