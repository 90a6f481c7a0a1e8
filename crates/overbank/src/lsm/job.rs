//! A merge that is due or under way, cut into lanes by hash range: one thread takes a lane for a step. (The field calls a lane a
//! subcompaction.)
//!
//! ```text
//!   Waiting ─▶ Open ─▶ Merged ─▶ Done      Taken while a thread has it
//! ```

use super::Table;
use super::run::Span;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A merge, in lanes.
#[derive(Debug)]
pub(crate) struct MergeJob<T: Table> {
    pub(crate) id: u64,
    /// Its inputs are in RAM.
    pub(crate) is_flush: bool,
    /// Runs in RAM or on flash, by id.
    pub(crate) inputs: Vec<u64>,
    /// The class of what it makes.
    pub(crate) class: T::Class,
    /// The age of what it makes.
    pub(crate) span: Span,
    /// Nothing is older than its inputs.
    pub(crate) is_oldest: bool,
    /// Entries to be merged.
    pub(crate) entries: u64,
    /// In hash order.
    pub(crate) lanes: Vec<Lane<T>>,
}

/// A range of a job's hashes.
#[derive(Debug)]
pub(crate) struct Lane<T: Table> {
    pub(crate) range: RangeInclusive<u64>,
    pub(crate) stage: Stage<T>,
}

/// How far a lane is.
#[derive(Debug)]
pub(crate) enum Stage<T: Table> {
    Waiting,
    Open(Box<T::Merge>),
    /// All is merged; the last blocks and a sync are missing.
    Merged(Box<T::Merge>),
    /// A thread has it.
    Taken,
    /// `None` where nothing was left.
    Done(Option<Arc<T::Segment>>),
}

impl<T: Table> MergeJob<T> {
    pub(crate) fn has_begun(&self) -> bool {
        self.lanes.iter().any(|lane| !matches!(lane.stage, Stage::Waiting))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| matches!(lane.stage, Stage::Done(_)))
    }

    /// Lanes that threads have.
    pub(crate) fn taken(&self) -> usize {
        self.lanes.iter().filter(|lane| matches!(lane.stage, Stage::Taken)).count()
    }

    /// What its lanes have made.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Arc<T::Segment>> {
        self.lanes.into_iter().filter_map(|lane| lane.stage.into_piece())
    }
}

impl<T: Table> Stage<T> {
    /// Whether a thread can go on with it; ending a lane syncs a file, which `may_end` allows.
    pub(crate) fn can_go(&self, may_end: bool) -> bool {
        match self {
            Stage::Waiting | Stage::Open(_) => true,
            Stage::Merged(_) => may_end,
            Stage::Taken | Stage::Done(_) => false,
        }
    }

    /// The segment that it has made. A stage that is not done removes its file when it is dropped.
    pub(crate) fn into_piece(self) -> Option<Arc<T::Segment>> {
        if let Stage::Done(piece) = self { piece } else { None }
    }
}

/// All hashes, in equal parts.
pub(crate) fn lanes<T: Table>(parts: u64) -> Vec<Lane<T>> {
    let border = |part: u64| (u128::from(part) << 64) / u128::from(parts);
    (0..parts)
        .map(|part| Lane {
            range: border(part) as u64..=(border(part + 1) - 1) as u64,
            stage: Stage::Waiting,
        })
        .collect()
}
