//! A merge that is due or under way, cut into lanes by hash range: one thread takes a lane for a step. (The field calls a lane a
//! subcompaction.)
//!
//! ```text
//!   Waiting ─▶ Open ─▶ Merged ─▶ Done ─▶ Published      Taken while a thread has it
//!
//!   hashes   0 ├ Published ┼ Published ┼ Open ┼ Done ┼ Taken ┼ Waiting ┼ … ┤
//!                                      ▲ border
//! ```
//!
//! Lanes are taken and published in hash order, so one border tells what of the inputs is replaced. At most a few are open at a time,
//! for each holds memory; there may be more of them, so that space is given back while a long merge goes on. What is done is published
//! when that gives a piece of an input back, with a commit, and at the end: until then it can be taken back for a flush that needs its
//! room.

use super::Table;
use super::run::Span;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A merge, in lanes.
#[derive(Debug)]
pub(crate) struct MergeJob<T: Table> {
    pub(crate) id: u64,
    /// Its inputs are in RAM. It publishes all lanes at once.
    pub(crate) is_flush: bool,
    /// It is not due: it goes on while writers rest and no other merge is there.
    pub(crate) is_restful: bool,
    /// Runs in RAM or on flash, by id.
    pub(crate) inputs: Vec<u64>,
    /// The run of what is published, if something is.
    pub(crate) output: Option<u64>,
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
    /// What it made is in the version.
    Published,
}

impl<T: Table> MergeJob<T> {
    pub(crate) fn has_begun(&self) -> bool {
        self.lanes.iter().any(|lane| !matches!(lane.stage, Stage::Waiting))
    }

    /// Takes the merges of its open lanes, which begin anew when the job goes on; those that threads have aside.
    pub(crate) fn close_lanes(&mut self) -> impl Iterator<Item = Stage<T>> {
        let open =
            self.lanes.iter_mut().filter(|lane| matches!(lane.stage, Stage::Open(_) | Stage::Merged(_)));
        open.map(|lane| std::mem::replace(&mut lane.stage, Stage::Waiting))
    }

    /// Lanes that threads have.
    pub(crate) fn taken(&self) -> usize {
        self.lanes.iter().filter(|lane| matches!(lane.stage, Stage::Taken)).count()
    }

    /// The lanes that a thread can go on with; ending one syncs a file, which `may_end` allows. At most `open_max` are open at a time.
    pub(crate) fn lanes_to_take(&self, open_max: usize, may_end: bool) -> impl Iterator<Item = usize> {
        let is_open =
            |lane: &&Lane<T>| matches!(lane.stage, Stage::Open(_) | Stage::Merged(_) | Stage::Taken);
        let mut room = open_max.saturating_sub(self.lanes.iter().filter(is_open).count());
        let can_go = move |(at, lane): (usize, &Lane<T>)| {
            let can_go = match lane.stage {
                Stage::Waiting if room > 0 => {
                    room -= 1;
                    true
                }
                Stage::Open(_) => true,
                Stage::Merged(_) => may_end,
                _ => false,
            };
            can_go.then_some(at)
        };
        self.lanes.iter().enumerate().filter_map(can_go)
    }

    /// Whether a merge has done what is not published yet.
    pub(crate) fn has_news(&self) -> bool {
        let first = self.lanes.iter().find(|lane| !matches!(lane.stage, Stage::Published));
        !self.is_flush && first.is_some_and(|lane| matches!(lane.stage, Stage::Done(_)))
    }

    /// Takes what the lanes up to the first that is not done have made, to publish it.
    pub(crate) fn take_done(&mut self) -> Vec<Arc<T::Segment>> {
        let mut pieces = Vec::new();
        for lane in &mut self.lanes {
            match std::mem::replace(&mut lane.stage, Stage::Published) {
                Stage::Done(piece) => pieces.extend(piece),
                Stage::Published => {}
                open => {
                    lane.stage = open;
                    break;
                }
            }
        }
        pieces
    }

    /// The first hash of the lanes that are not done; `None` if all are.
    pub(crate) fn border(&self) -> Option<u64> {
        let open = self.lanes.iter().find(|lane| !matches!(lane.stage, Stage::Published | Stage::Done(_)));
        open.map(|lane| *lane.range.start())
    }

    /// What its lanes have made and is not published.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Arc<T::Segment>> {
        self.lanes.into_iter().filter_map(|lane| lane.stage.into_piece())
    }
}

impl<T: Table> Stage<T> {
    /// The segment that it has made. A stage that is not done removes its file when it is dropped.
    pub(crate) fn into_piece(self) -> Option<Arc<T::Segment>> {
        if let Stage::Done(piece) = self { piece } else { None }
    }
}

/// Borders stand where the last so many bits of a hash are 0, so that entries of a key whose hashes differ there are on one side.
const BORDER_BITS: u32 = 52;

/// All hashes from `border` on, in about equal parts.
pub(crate) fn lanes<T: Table>(border: u64, parts: u64) -> Vec<Lane<T>> {
    let hashes = (1u128 << 64) - u128::from(border);
    let start = |part: u64| {
        let start = u128::from(border) + hashes * u128::from(part) / u128::from(parts);
        start >> BORDER_BITS << BORDER_BITS
    };
    let parts = (0..parts).map(|part| (start(part), start(part + 1)));
    parts
        .filter(|(start, end)| start < end)
        .map(|(start, end)| Lane { range: start as u64..=(end - 1) as u64, stage: Stage::Waiting })
        .collect()
}
