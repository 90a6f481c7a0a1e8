//! Runs of groups, as the room `lsm` merges them.
//!
//! Hashes are cut into sections, each of the same number of leaves. Runs of a section are merged with each other alone: so a section
//! goes to flash by itself when memory is full, while the others fill on.

use super::backlog::is_unreadable;
use super::format;
use super::frozen::{Frozen, FrozenScan};
use super::merger::{Merger, Source};
use super::options::FlashShares;
use super::run::{RunRules, RunSegment, RunWriter};
use crate::device::BLOCK_BYTES;
use crate::error::invalid;
use crate::lsm::{Input, LaneSpec, Order, Size, State, Stepped, StoredTree, Table, Tree, Version};
use crate::store::{FileRef, Files, Record};
use crate::{Error, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The runs of groups.
#[derive(Debug)]
pub(super) struct GroupTable {
    pub(super) rules: RunRules,
    pub(super) shares: FlashShares,
}

/// A merge of a lane.
#[derive(Debug)]
pub(super) struct GroupMerge {
    groups: Merger,
    writer: RunWriter,
}

pub(super) type GroupTree = Tree<GroupTable>;
pub(super) type GroupTreeState = State<GroupTable>;
pub(super) type GroupVersion = Version<GroupTable>;

/// What a group costs a step beside its bytes.
const GROUP_STEP_BYTES: usize = 16;

impl GroupTable {
    /// Groups of several runs, whose hashes are in `range`; all that is read at a time is `bytes`.
    pub(super) fn merger(
        &self,
        inputs: &[Input<Self>],
        range: &RangeInclusive<u64>,
        bytes: usize,
    ) -> Result<Merger> {
        let runs = inputs.iter().filter(|input| matches!(input, Input::Flash(_))).count();
        let piece_bytes =
            (bytes / runs.max(1) / BLOCK_BYTES).clamp(1, self.shares.piece_blocks_max) * BLOCK_BYTES;
        let sources = inputs.iter().map(|input| {
            Ok(match input {
                Input::Flash(run) => Source::Flash(Box::new(run.scan(range.clone(), piece_bytes)?)),
                Input::Memory(frozen) => Source::Memory(Box::new(FrozenScan::new(frozen, range.clone()))),
            })
        });
        Merger::new(sources.collect::<Result<_>>()?, &self.rules)
    }
}

/// All runs of a section, in RAM and on flash.
pub(super) fn inputs_of(version: &GroupVersion, section: u32) -> Vec<Input<GroupTable>> {
    let runs = version.runs.iter().filter(|run| run.class == section);
    let frozen = version.frozen.iter().filter(|one| one.class == section);
    runs.flat_map(|run| run.pieces.iter().cloned().map(Input::Flash))
        .chain(frozen.map(|one| Input::Memory(Arc::clone(&one.entries))))
        .collect()
}

impl Table for GroupTable {
    /// A section.
    type Class = u32;
    type Frozen = Frozen;
    type Segment = RunSegment;
    type Merge = GroupMerge;
    type Writes = ();

    const ORDER: Order = Order::Sums;

    fn open(&self, files: &Files, file: &FileRef, _: u32) -> Result<RunSegment> {
        RunSegment::open(files, file, &self.rules)
    }

    fn record(&self, (): &(), tree: &StoredTree<u32>) -> Record {
        Record { state: format::encode(&self.rules.id(), self.shares.lg_sections, tree), files: tree.files() }
    }

    fn hashes(segment: &RunSegment) -> RangeInclusive<u64> {
        segment.hashes()
    }

    fn clip(segment: &Arc<RunSegment>, border: u64) -> Option<Arc<RunSegment>> {
        segment.clipped(border).map(Arc::new)
    }

    fn file_ref(segment: &RunSegment) -> FileRef {
        segment.file_ref()
    }

    fn segment_size(segment: &RunSegment) -> Size {
        let (entries, file) = (segment.groups(), segment.file_ref());
        Size {
            entries,
            tombstones: 0,
            occurrences: entries,
            bytes: file.bytes,
            memory_bytes: segment.memory_bytes(),
        }
    }

    fn frozen_size(frozen: &Frozen) -> Size {
        let entries = frozen.groups();
        Size { entries, tombstones: 0, occurrences: entries, bytes: 0, memory_bytes: frozen.bytes() }
    }

    /// Records on flash that cannot be read wait for their leaves again.
    fn is_told(error: &Error) -> bool {
        is_unreadable(error)
    }

    fn begin(&self, files: &Files, inputs: &[Input<Self>], lane: &LaneSpec<u32>) -> Result<GroupMerge> {
        let groups = self.merger(inputs, &lane.range, self.shares.lane_bytes)?;
        let writer = RunWriter::new(files, &self.rules, self.shares.writer_blocks * BLOCK_BYTES);
        Ok(GroupMerge { groups, writer })
    }

    fn step(&self, merge: &mut GroupMerge, blocks: u64) -> Result<Stepped> {
        let (mut entries, mut bytes) = (0, 0);
        while bytes < blocks * BLOCK_BYTES as u64 {
            if !merge.groups.advance()? {
                return Ok(Stepped { entries, has_more: false });
            }
            if let Some((hash, key, state)) = merge.groups.group() {
                merge.writer.push(hash, key, state)?;
                bytes += (key.len() + state.words.len() + state.tail.len() + GROUP_STEP_BYTES) as u64;
                entries += 1;
            }
        }
        Ok(Stepped { entries, has_more: true })
    }

    fn finish(&self, _: &Files, merge: GroupMerge, _: u32) -> Result<Option<RunSegment>> {
        merge.writer.finish()
    }

    /// Questions ask each: there is but one of a section, as long as it takes to write it.
    fn join(&self, inputs: &[Arc<Frozen>], _: u32) -> Result<Frozen> {
        invalid("runs in RAM", inputs.len(), "groups are not joined there: flush them")
    }
}
