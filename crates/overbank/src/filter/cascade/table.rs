//! Runs of fingerprints, as the room `lsm` merges them.

use super::class::{RunClass, WriteClass};
use super::format;
use super::fronts::Fronts;
use super::options::FilterOptions;
use super::shards::Shards;
use crate::Result;
use crate::filter::run::{
    FingerprintSegment, FrontShape, Merge, MergeOptions, PackedRun, RunKind, Sign, Source,
};
use crate::lsm::{
    Choice, Input, LaneSpec, Order, Run, Shape, Size, State, Stepped, StoredTree, Table, Tree, Version,
    idle_groups,
};
use crate::store::{FileRef, Files, Record};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The runs of a cascade filter.
#[derive(Debug)]
pub(super) struct FingerprintTable {
    pub(super) options: FilterOptions,
    /// The kind of all runs, but for the length of fingerprints.
    pub(super) kind: RunKind,
    /// What lookups ask before they read a run.
    pub(super) fronts: Fronts,
    /// Who inserts which keys unless they are there, and what came one key at a time.
    pub(super) shards: Shards<WriteClass, FrozenView>,
    /// RAM of the cells in the shards; 0 until a key comes by itself, and then runs in RAM get fronts.
    cells_bytes: AtomicUsize,
}

/// The version as single questions see it, until there is another.
#[derive(Debug)]
pub(super) struct FrozenView {
    /// Which edit of the tree made the version.
    pub(super) edit: u64,
    pub(super) version: Arc<FilterVersion>,
    /// Runs in RAM have removals.
    pub(super) removes: bool,
    /// Removals on flash may be of insertions that are in RAM.
    pub(super) has_late_removals: bool,
    /// Runs in RAM came that are not ready for single questions.
    pub(super) has_news: bool,
}

/// Fronts of runs in RAM: of 40 keys that are not in a run one is looked for in it. Each bit more is 4 % fewer keys in RAM.
const FROZEN_FRONT: FrontShape = FrontShape { bits_a_key: 8, value_bits: 0 };

pub(super) type FilterTree = Tree<FingerprintTable>;
pub(super) type FilterState = State<FingerprintTable>;
pub(super) type FilterVersion = Version<FingerprintTable>;
pub(super) type FilterRun = Run<FingerprintTable>;

impl FingerprintTable {
    pub(super) fn new(options: FilterOptions, kind: RunKind, fronts: Fronts) -> Self {
        let (shards, cells_bytes) = (Shards::new(), AtomicUsize::new(0));
        FingerprintTable { options, kind, fronts, shards, cells_bytes }
    }

    /// RAM of the cells in the shards.
    pub(super) fn cells_bytes(&self) -> usize {
        self.cells_bytes.load(Ordering::Relaxed)
    }

    /// Whether keys come one at a time: runs in RAM have fronts then.
    pub(super) fn asks_singly(&self) -> bool {
        self.cells_bytes() > 0
    }

    /// Notes that keys come one at a time.
    pub(super) fn note_single(&self, cells_bytes: usize) {
        self.cells_bytes.store(cells_bytes, Ordering::Relaxed);
    }

    /// RAM of the front of a run in RAM, if it is to have one.
    pub(super) fn front_bytes(&self, keys: usize) -> usize {
        if self.asks_singly() { keys * FROZEN_FRONT.bits_a_key as usize / 8 } else { 0 }
    }

    /// Gives a run in RAM its front, if it is to have one.
    pub(super) fn tend_frozen(&self, packed: &PackedRun) -> Result<()> {
        if self.asks_singly() { packed.make_front(FROZEN_FRONT) } else { Ok(()) }
    }

    pub(super) fn kind_of(&self, class: RunClass) -> RunKind {
        RunKind { fingerprint_bits: class.bits, sign: class.sign, ..self.kind }
    }
}

/// Removals are merged with insertions once they are as many as a third of them. Each such merge then costs a removal four entries read
/// and two written, and what was removed takes at most a quarter of the flash, and as much for the removals.
const REMOVALS_SHARE: u64 = 3;

/// The merge in which insertions and removals annihilate, if it is due: of all runs of a length and pane up to an age, so that hardly a
/// removal is left that finds nothing to take. Runs that are being merged bound the age; it must have most of the entries.
fn annihilation(runs: &[Shape<RunClass>]) -> Option<Choice<RunClass>> {
    let removals = runs.iter().filter(|run| run.class.sign == Sign::Removals);
    let mut wholes: Vec<RunClass> = removals.map(|run| FingerprintTable::whole_class(run.class)).collect();
    wholes.dedup();
    wholes.into_iter().find_map(|class| {
        let of_it = || runs.iter().filter(|run| FingerprintTable::whole_class(run.class) == class);
        let busy_from = of_it().filter(|run| run.is_busy).map(|run| run.span.oldest).min();
        let old = || of_it().filter(|run| busy_from.is_none_or(|busy| run.span.newest < busy));
        let entries = |all: &mut dyn Iterator<Item = &Shape<RunClass>>, sign: Sign| -> u64 {
            all.filter(|run| run.class.sign == sign).map(|run| run.entries).sum()
        };
        let (inserted, removed) =
            (entries(&mut old(), Sign::Insertions), entries(&mut old(), Sign::Removals));
        let is_most = 2 * inserted >= entries(&mut of_it(), Sign::Insertions);
        let is_due = removed > 0 && inserted > 0 && is_most && removed >= inserted / REMOVALS_SHARE;
        is_due.then(|| Choice { inputs: old().map(|run| run.id).collect(), class })
    })
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
            memory_bytes: segment.memory_bytes() + segment.front_bytes(),
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

    fn extra_bytes(&self) -> usize {
        self.fronts.filled_bytes() + self.cells_bytes()
    }

    fn frozen_gone(&self, edit: u64) {
        self.shards.forget_views(|view| view.edit == edit);
    }

    fn begin(&self, files: &Files, inputs: &[Input<Self>], lane: &LaneSpec<RunClass>) -> Result<Merge> {
        let LaneSpec { class, is_oldest, is_behind, .. } = *lane;
        let options = MergeOptions { is_oldest, is_ahead: false, is_behind, front: self.fronts.order() };
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

    fn finish(&self, files: &Files, merge: Merge, _: RunClass) -> Result<Option<FingerprintSegment>> {
        merge.finish_run(files)
    }

    fn join(&self, inputs: &[Arc<PackedRun>], class: RunClass) -> Result<PackedRun> {
        let joined = PackedRun::merge(self.kind_of(class), inputs)?;
        self.tend_frozen(&joined)?;
        Ok(joined)
    }

    /// Panes before the present one get no more entries: each becomes one run. Removals that have become many meet what they take.
    fn wanted(writes: &WriteClass, runs: &[Shape<RunClass>]) -> Option<Choice<RunClass>> {
        let is_closed = |run: &Shape<RunClass>| (run.class.pane < writes.pane).then_some(run.class);
        idle_groups(runs, is_closed).into_iter().next().or_else(|| annihilation(runs))
    }

    /// In the end removals have met all insertions.
    fn whole_class(class: RunClass) -> RunClass {
        RunClass { sign: Sign::Insertions, ..class }
    }
}
