//! Runs of fingerprints, as the room `lsm` merges them.

use super::format;
use super::options::FilterOptions;
use super::write_class::WriteClass;
use crate::Result;
use crate::filter::run::{FingerprintSegment, Merge, MergeOptions, PackedRun, RunKind, Source};
use crate::lsm::{
    Choice, Input, LaneSpec, Order, Shape, Size, State, Stepped, StoredTree, Table, Tree, Version,
    idle_groups,
};
use crate::store::{FileRef, Files, Record};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The runs of a cascade filter.
#[derive(Debug)]
pub(super) struct FingerprintTable {
    pub(super) options: FilterOptions,
    /// The kind of all runs, but for the length of fingerprints.
    pub(super) kind: RunKind,
}

/// What is merged with what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RunClass {
    /// Bits of the fingerprints, values among them.
    pub(super) bits: u32,
    /// The pane that they came in, 0 where nothing is forgotten.
    pub(super) pane: u64,
}

pub(super) type FilterTree = Tree<FingerprintTable>;
pub(super) type FilterState = State<FingerprintTable>;
pub(super) type FilterVersion = Version<FingerprintTable>;

impl FingerprintTable {
    pub(super) fn kind_of(&self, class: RunClass) -> RunKind {
        RunKind { fingerprint_bits: class.bits, ..self.kind }
    }
}

impl RunClass {
    /// The fingerprints that stand in a range of hashes, each at the least hash that it has.
    fn fingerprints(self, hashes: &RangeInclusive<u64>) -> RangeInclusive<u64> {
        let shift = 64 - self.bits;
        hashes.start().div_ceil(1 << shift)..=hashes.end() >> shift
    }
}

impl Table for FingerprintTable {
    type Class = RunClass;
    type Frozen = PackedRun;
    type Segment = FingerprintSegment;
    type Merge = Merge;
    type Writes = WriteClass;

    const ORDER: Order = Order::Sums;

    fn open(&self, files: &Files, file: &FileRef, class: RunClass) -> Result<FingerprintSegment> {
        FingerprintSegment::open(files, file, self.kind_of(class))
    }

    fn record(&self, writes: &WriteClass, tree: &StoredTree<RunClass>) -> Record {
        Record { state: format::encode(&self.options, writes, tree), files: tree.files() }
    }

    fn hashes(segment: &FingerprintSegment) -> RangeInclusive<u64> {
        segment.hashes()
    }

    fn clip(segment: &Arc<FingerprintSegment>, border: u64) -> Option<Arc<FingerprintSegment>> {
        segment.clipped(border).map(Arc::new)
    }

    fn file_ref(segment: &FingerprintSegment) -> FileRef {
        segment.file_ref()
    }

    fn segment_size(segment: &FingerprintSegment) -> Size {
        Size {
            entries: segment.fingerprints(),
            tombstones: segment.tombstones(),
            occurrences: segment.occurrences(),
            bytes: segment.file_ref().bytes,
            memory_bytes: segment.memory_bytes(),
        }
    }

    fn frozen_size(frozen: &PackedRun) -> Size {
        Size {
            entries: frozen.fingerprints(),
            tombstones: frozen.tombstones(),
            occurrences: frozen.occurrences(),
            bytes: 0,
            memory_bytes: frozen.memory_bytes(),
        }
    }

    fn begin(&self, files: &Files, inputs: &[Input<Self>], lane: &LaneSpec<RunClass>) -> Result<Merge> {
        let LaneSpec { class, is_oldest, is_behind, .. } = *lane;
        let options = MergeOptions { is_oldest, is_ahead: false, is_behind };
        let sources: Vec<Source<'_>> = (inputs.iter())
            .map(|input| match input {
                Input::Flash(segment) => Source::Flash(segment),
                Input::Memory(packed) => Source::Memory(Arc::clone(packed)),
            })
            .collect();
        Merge::new(files, self.kind_of(class), &sources, class.fingerprints(&lane.range), options)
    }

    fn step(&self, merge: &mut Merge, blocks: u64) -> Result<Stepped> {
        let before = merge.progress().fingerprints;
        let has_more = merge.step(blocks)?;
        Ok(Stepped { entries: merge.progress().fingerprints - before, has_more })
    }

    fn finish(&self, files: &Files, merge: Merge, class: RunClass) -> Result<Option<FingerprintSegment>> {
        let info = merge.finish()?;
        if info.fingerprints == 0 {
            files.discard(info.file.id)?;
            return Ok(None);
        }
        let segment = FingerprintSegment::open(files, &info.file, self.kind_of(class));
        segment.map(Some).inspect_err(|_| drop(files.discard(info.file.id)))
    }

    fn join(&self, inputs: &[Arc<PackedRun>], class: RunClass) -> Result<PackedRun> {
        PackedRun::merge(self.kind_of(class), inputs)
    }

    /// Panes before the present one get no more entries: each becomes one run.
    fn wanted(writes: &WriteClass, runs: &[Shape<RunClass>]) -> Option<Choice<RunClass>> {
        let is_closed = |run: &Shape<RunClass>| (run.class.pane < writes.pane).then_some(run.class);
        idle_groups(runs, is_closed).into_iter().next()
    }
}
