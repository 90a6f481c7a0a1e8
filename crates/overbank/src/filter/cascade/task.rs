//! A merge that is due or under way, cut into lanes by hash range: one thread takes a lane for a step.
//!
//! ```text
//!   Waiting ─▶ Going ─▶ Ended ─▶ Done      Away while a thread has it
//! ```

use super::levels::Age;
use crate::filter::run::{FingerprintSegment, Merge, RunKind};
use crate::store::FileId;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A merge, in lanes.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) is_flush: bool,
    pub(super) packed: Vec<u64>,
    pub(super) runs: Vec<u64>,
    pub(super) kind: RunKind,
    pub(super) pane: u64,
    pub(super) age: Age,
    pub(super) is_oldest: bool,
    /// Keys to be merged.
    pub(super) keys: u64,
    pub(super) lanes: Vec<Lane>,
}

/// A range of a task's hashes.
#[derive(Debug)]
pub(super) enum Lane {
    Waiting(RangeInclusive<u64>),
    Going(Box<Merge>),
    /// All is merged; the last blocks and a sync are missing.
    Ended(Box<Merge>),
    /// A thread has it.
    Away,
    /// `None` where nothing was left.
    Done(Option<Arc<FingerprintSegment>>),
}

impl Task {
    pub(super) fn has_begun(&self) -> bool {
        self.lanes.iter().any(|lane| !matches!(lane, Lane::Waiting(_)))
    }

    pub(super) fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| matches!(lane, Lane::Done(_)))
    }

    /// What its lanes have made.
    pub(super) fn into_pieces(self) -> impl Iterator<Item = Arc<FingerprintSegment>> {
        self.lanes.into_iter().filter_map(|lane| if let Lane::Done(piece) = lane { piece } else { None })
    }
}

impl Lane {
    pub(super) fn can_go(&self, may_end: bool) -> bool {
        match self {
            Lane::Waiting(_) | Lane::Going(_) => true,
            Lane::Ended(_) => may_end,
            Lane::Away | Lane::Done(_) => false,
        }
    }

    /// The file that it has made; one that is not done removes its file when it is dropped.
    pub(super) fn file(&self) -> Option<FileId> {
        if let Lane::Done(Some(piece)) = self { Some(piece.file_ref().id) } else { None }
    }
}

/// The whole range of fingerprints, in equal parts.
pub(super) fn ranges(bits: u32, parts: u64) -> impl Iterator<Item = RangeInclusive<u64>> {
    let end = 1u128 << bits;
    let border = move |part: u64| end * u128::from(part) / u128::from(parts);
    (0..parts).map(move |part| border(part) as u64..=(border(part + 1) - 1) as u64)
}
