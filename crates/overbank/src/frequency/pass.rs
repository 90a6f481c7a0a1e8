//! The pass that applies logs to the pages, in lanes side by side.
//!
//! ```text
//!   lane 0:  group 0 ─┐ read ┌──────────┐ + chunk of each log ┌──────────┐ write  ┌─ a free extent
//!            group 1  ├─────▶│ 512 pages│ ──────────────────▶ │ sealed   │───────▶│  (never one that the last
//!            group 2 ─┘      └──────────┘                     └──────────┘        └─  commit names)
//!   lane 1:  group 3 …       twice as many lanes as threads: some compute while others wait for the device
//! ```
//!
//! 1. A group's slot changes after its new extent is written whole; a log is applied to it only if its sequence is below
//!    the log's. So a pass that failed can be tried again.
//! 2. A group without updates is not touched.
//! 3. Lanes share nothing but the list of free extents: the result does not depend on their number.
//!
//! | | |
//! |---|---|
//! | block reads | 1 a page of the touched groups, and the logs |
//! | block writes | 1 a page of the touched groups |
//! | RAM | in each lane a group, a chunk of each log, and reads in flight |

use super::cursor::{Cursor, PREFETCH_BYTES, prefetch};
use super::flash::{Pages, PagesFile, Space, give_back};
use super::format::{LANES_MAX, NO_EXTENT, Slot};
use super::log::Log;
use super::page;
use super::place::Shape;
use crate::Result;
use crate::device::{AlignedBuf, BLOCK_BYTES, thread};
use crate::lock::{into_inner, lock};
use crate::store::Files;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The fewest and most blocks of a log that a lane reads at a time: 16 KiB take little longer than one block, and beyond
/// 256 KiB a device gains nothing.
const CHUNK_BLOCKS: std::ops::RangeInclusive<usize> = 4..=64;
/// Pages that all logs are applied to before the next ones: together they stay in a core's cache.
const STEP_PAGES: usize = 32;

/// How a pass goes about its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    lanes: usize,
    chunk_blocks: usize,
}

impl Plan {
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
        Plan { lanes, chunk_blocks: chunk.clamp(*CHUNK_BLOCKS.start(), *CHUNK_BLOCKS.end()) }
    }
}

/// What all lanes work on.
struct Common<'a> {
    shape: Shape,
    files: &'a Files,
    file: &'a PagesFile,
    space: Mutex<Space>,
    logs: &'a [Log],
    sequence: u64,
    chunk_blocks: usize,
    is_stopped: AtomicBool,
    is_saturated: AtomicBool,
}

impl Pages {
    /// Applies `logs` to every group that they touch, as the pass `sequence`. Says whether a cell came to stand at its
    /// maximum, even where it failed.
    pub(super) fn apply(
        &mut self,
        files: &Files,
        logs: &[Log],
        sequence: u64,
        plan: Plan,
    ) -> (bool, Result<()>) {
        self.is_synced = false;
        if let Err(error) = self.file_to_write(files) {
            return (false, Err(error));
        }
        let Pages { shape, file: Some(file), table, committed, space, .. } = self else {
            return (false, Ok(()));
        };
        let common = Common {
            shape: *shape,
            files,
            file,
            space: Mutex::new(std::mem::take(space)),
            logs,
            sequence,
            chunk_blocks: plan.chunk_blocks,
            is_stopped: AtomicBool::new(false),
            is_saturated: AtomicBool::new(false),
        };
        let groups = shape.groups().div_ceil(plan.lanes);
        let lanes = Mutex::new(table.chunks_mut(groups).zip(committed.chunks(groups)).enumerate());
        // Each thread takes lanes as long as there are any: with fewer threads than lanes, all are passed over.
        let run = || {
            let next = || lock(&lanes).next();
            while let Some((lane, (table, committed))) = next() {
                common.run(lane * groups, table, committed)?;
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
        *space = into_inner(common.space);
        space.trim();
        (common.is_saturated.into_inner(), result)
    }
}

impl Common<'_> {
    /// Passes over the groups of `table`, of which `first_group` is the first.
    fn run(&self, first_group: usize, table: &mut [Slot], committed: &[u32]) -> Result<()> {
        let result = self.pass(first_group, table, committed);
        if result.is_err() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    fn pass(&self, first_group: usize, table: &mut [Slot], committed: &[u32]) -> Result<()> {
        let shape = self.shape;
        let pages = shape.pages_of(first_group).start..shape.pages_of(first_group + table.len() - 1).end;
        let cursor = |log| Cursor::new(log, shape, pages.clone(), self.chunk_blocks);
        let mut cursors: Vec<Cursor<'_>> = self.logs.iter().map(cursor).collect();
        for cursor in &mut cursors {
            cursor.take_below(pages.start, &mut |_| {})?;
        }
        let mut blocks = AlignedBuf::zeroed(shape.group_bytes());
        for (i, slot) in table.iter_mut().enumerate() {
            if self.is_stopped.load(Ordering::Relaxed) {
                break;
            }
            let group = first_group + i;
            let end = shape.pages_of(group).end;
            prefetch(self.files, &mut cursors, end)?;
            let touches = |cursor: &Cursor<'_>| cursor.peek_page().is_some_and(|page| page < end);
            if cursors.iter().any(|cursor| touches(cursor) && slot.sequence < cursor.log.sequence) {
                self.file.load(shape, group, *slot, &mut blocks)?;
                self.add(group, *slot, &mut cursors, &mut blocks)?;
                let new = self.file.write(shape, &self.space, group, &mut blocks, self.sequence)?;
                let old = std::mem::replace(slot, new);
                if old.extent != NO_EXTENT && old.extent != committed[i] {
                    give_back(&self.space, old.extent);
                }
            } else {
                for cursor in &mut cursors {
                    cursor.take_below(end, &mut |_| {})?;
                }
            }
        }
        Ok(())
    }

    /// Adds the logs' updates of a group to its blocks.
    fn add(&self, group: usize, slot: Slot, cursors: &mut [Cursor<'_>], blocks: &mut [u8]) -> Result<()> {
        let pages = self.shape.pages_of(group);
        let mut is_saturated = false;
        for first in pages.clone().step_by(STEP_PAGES) {
            let end = (first + STEP_PAGES as u64).min(pages.end);
            let step = &mut blocks[(first - pages.start) as usize * BLOCK_BYTES..];
            for cursor in &mut *cursors {
                let is_news = slot.sequence < cursor.log.sequence;
                cursor.take_below(end, &mut |updates| {
                    if is_news {
                        is_saturated |= page::add(step, self.shape, first, updates);
                    }
                })?;
            }
        }
        if is_saturated {
            self.is_saturated.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
