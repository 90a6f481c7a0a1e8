//! The pass that applies logs to the pages, in lanes side by side.
//!
//! ```text
//!   lane 0:  group 0 ─┐ read ┌──────────┐ + chunk of each log ┌──────────┐ write  ┌─ a free extent
//!            group 1  ├─────▶│ 512 pages│ ──────────────────▶ │ sealed   │───────▶│  (never one that the last
//!            group 2 ─┘      └──────────┘                     └──────────┘        └─  commit names)
//!   lane 1:  group 3 …       twice as many lanes as threads: some compute while others wait for the device
//! ```
//!
//! 1. A group's place changes after its new extent is written whole; a log is applied to it only if its sequence is below
//!    the log's. So a pass that failed can be tried again, and an estimate may come at any time.
//! 2. A group without updates is not touched.
//! 3. Lanes share nothing but the table and the list of free extents, each under its short lock: the result does not depend on their
//!    number.
//! 4. Upkeep's lock is held, and no other.
//!
//! | | |
//! |---|---|
//! | block reads | 1 a page of the touched groups, and the logs |
//! | block writes | 1 a page of the touched groups |
//! | RAM | in each lane a group, a chunk of each log, and reads in flight |

use super::cursor::{Cursor, PREFETCH_BYTES, prefetch};
use super::flash::PagesFile;
use super::format::{GroupPlace, LANES_MAX};
use super::log::Log;
use super::page;
use super::shape::Shape;
use super::sketch::Sketch;
use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES, thread};
use crate::lock::lock;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The fewest and most blocks of a log that a lane reads at a time: 16 KiB take little longer than one block, and beyond
/// 256 KiB a device gains nothing.
const CHUNK_BLOCKS: std::ops::RangeInclusive<usize> = 4..=64;
/// Pages that all logs are applied to before the next ones: together they stay in a core's cache.
const STEP_PAGES: usize = 32;

/// How a pass goes about its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PassPlan {
    lanes: usize,
    chunk_blocks: usize,
}

impl PassPlan {
    /// The least RAM of a pass over `logs` logs.
    pub(super) fn least_bytes(shape: Shape, logs: usize) -> usize {
        shape.group_bytes() + PREFETCH_BYTES + logs * Cursor::memory_bytes(*CHUNK_BLOCKS.start())
    }

    /// The most lanes up to `lanes_max` that `memory_bytes` allow, and the longest chunks.
    pub(super) fn new(shape: Shape, logs: usize, lanes_max: usize, memory_bytes: usize) -> Self {
        let lanes = memory_bytes / Self::least_bytes(shape, logs);
        let lanes = lanes.clamp(1, lanes_max.clamp(1, LANES_MAX)).min(shape.groups());
        let lane_bytes = (memory_bytes / lanes).saturating_sub(shape.group_bytes() + PREFETCH_BYTES);
        let chunk = (lane_bytes / logs.max(1)).saturating_sub(Cursor::memory_bytes(0)) / BLOCK_BYTES;
        PassPlan { lanes, chunk_blocks: chunk.clamp(*CHUNK_BLOCKS.start(), *CHUNK_BLOCKS.end()) }
    }
}

/// What all lanes work on.
struct Lanes<'a> {
    sketch: &'a Sketch,
    shape: Shape,
    file: &'a PagesFile,
    logs: &'a [Arc<Log>],
    sequence: u64,
    chunk_blocks: usize,
    is_stopped: AtomicBool,
}

impl Sketch {
    /// Applies `logs` to every group that they touch, as the pass `sequence`. Upkeep's lock is held.
    pub(super) fn pass_over_groups(&self, logs: &[Arc<Log>], sequence: u64) -> Result<()> {
        let shape = self.shape();
        let lanes_max = self.lanes_max.load(Ordering::Relaxed);
        let plan = PassPlan::new(shape, logs.len(), lanes_max, self.pass_bytes);
        let file = self.file_to_write()?;
        let lanes = Lanes {
            sketch: self,
            shape,
            file: &file,
            logs,
            sequence,
            chunk_blocks: plan.chunk_blocks,
            is_stopped: AtomicBool::new(false),
        };
        let groups = shape.groups().div_ceil(plan.lanes);
        let parts =
            (0..shape.groups()).step_by(groups).map(|first| first..(first + groups).min(shape.groups()));
        let parts = Mutex::new(parts);
        // Each thread takes lanes as long as there are any: with fewer threads than lanes, all are passed over.
        let run = || {
            let next = || lock(&parts).next();
            while let Some(groups) = next() {
                lanes.run(groups)?;
            }
            Ok(())
        };
        let result = std::thread::scope(|scope| {
            let start = |_| thread::start_scoped(scope, "overbank-pass", run).ok();
            let others: Vec<_> = (1..plan.lanes).map_while(start).collect();
            let own = run();
            others.into_iter().fold(own, |result, thread| match thread.join() {
                Ok(of_lanes) => result.and(of_lanes),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        });
        file.trim();
        result
    }
}

impl Lanes<'_> {
    /// Passes over a lane's groups; the other lanes stop if that fails.
    fn run(&self, groups: Range<usize>) -> Result<()> {
        let result = self.pass(groups);
        if result.is_err() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    fn pass(&self, groups: Range<usize>) -> Result<()> {
        let shape = self.shape;
        let pages = shape.pages_of(groups.start).start..shape.pages_of(groups.end - 1).end;
        let cursor = |log| Cursor::new(log, shape, pages.clone(), self.chunk_blocks);
        let mut cursors: Vec<Cursor<'_>> = self.logs.iter().map(|log| cursor(log)).collect();
        // What lies before the lane's first page is in the same blocks as what follows: read together, a log by itself would cost a
        // wait each.
        prefetch(&self.sketch.files, &mut cursors, shape.pages_of(groups.start).end)?;
        for cursor in &mut cursors {
            cursor.take_below(pages.start, &mut |_| {})?;
        }
        let mut blocks = AlignedBuf::zeroed(shape.group_bytes());
        for group in groups {
            if self.is_stopped.load(Ordering::Relaxed) {
                break;
            }
            let end = shape.pages_of(group).end;
            // Only whoever has upkeep's lock changes places, so it stays as it is here.
            let place = lock(&self.sketch.table).places[group];
            prefetch(&self.sketch.files, &mut cursors, end)?;
            let touches = |cursor: &Cursor<'_>| place.sequence < cursor.log.sequence && cursor.has_below(end);
            if cursors.iter().any(touches) {
                self.file.load(group, place, &mut blocks)?;
                self.add(group, place, &mut cursors, &mut blocks)?;
                let new = self.file.write(group, &mut blocks, self.sequence)?;
                lock(&self.sketch.table).set_place(group, new);
            } else {
                for cursor in &mut cursors {
                    cursor.take_below(end, &mut |_| {})?;
                }
            }
        }
        Ok(())
    }

    /// Adds the logs' updates of a group to its blocks.
    fn add(
        &self,
        group: usize,
        place: GroupPlace,
        cursors: &mut [Cursor<'_>],
        blocks: &mut [u8],
    ) -> Result<()> {
        let pages = self.shape.pages_of(group);
        let mut is_saturated = false;
        for first in pages.clone().step_by(STEP_PAGES) {
            let end = (first + STEP_PAGES as u64).min(pages.end);
            // Chunks that are shorter than what a log has of a group run out at about the same page: they are filled again together.
            prefetch(&self.sketch.files, cursors, end)?;
            let step = &mut blocks[(first - pages.start) as usize * BLOCK_BYTES..];
            for cursor in &mut *cursors {
                let is_news = place.sequence < cursor.log.sequence;
                cursor.take_below(end, &mut |updates| {
                    if is_news {
                        is_saturated |= page::add(step, self.shape, first, updates);
                    }
                })?;
            }
        }
        self.sketch.note_saturated(is_saturated);
        Ok(())
    }
}
