//! Runs of items, as the room `lsm` merges them.

use super::format;
use super::frozen::{Frozen, FrozenMerger, FrozenScan};
use super::item::Item;
use super::merger::{Merger, ScanOptions, Source};
use super::options::{CURSOR_BYTES, CURSOR_BYTES_MIN, DictionaryOptions, FAN_OUT, Shares};
use super::rules::Rules;
use super::run::{Counts, Expected, RunSegment, RunShape, RunWriter};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::device::give_back_freed;
use crate::device::pool::BufferPool;
use crate::lsm::{
    Choice, Input, LaneSpec, Limits, Order, Run, Shape, Size, State, Stepped, StoredTree, Table, Tree,
    Version,
};
use crate::store::{FileRef, Files, Record};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most that is read at a time of an input of a merge.
const CURSOR_BYTES_MAX: usize = 2 << 20;
/// Bits a key of what stands before a run that is not the oldest: of 100 keys that are not in it one reads it.
const FRONT_BITS: u32 = 10;
/// What is newer than the oldest run is merged into it when it is this share of it.
const WHOLE_SHARE: u64 = 5;

/// The runs of a dictionary.
#[derive(Debug)]
pub(super) struct ItemTable {
    pub(super) options: DictionaryOptions,
    pub(super) rules: Rules,
    shares: Shares,
    /// Bytes of the longest item that any run may have.
    longest_item: Arc<AtomicUsize>,
    /// RAM of frozen runs that merges have meanwhile: those at the end of a load, when nothing else is there.
    lent_bytes: Arc<AtomicUsize>,
    /// What merges read into.
    pool: Arc<BufferPool>,
    /// A load of an empty dictionary is under way: what it flushes is soon merged to the oldest run, and gets no fronts.
    pub(super) is_first_load: AtomicBool,
}

/// What the table notes under the tree's lock.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    /// Loads that are under way: merges wait for their end.
    pub(super) loads: u32,
    /// How many runs one merge may read follows from these.
    options: DictionaryOptions,
    shares: Shares,
    longest_item: Arc<AtomicUsize>,
    lent_bytes: Arc<AtomicUsize>,
}

/// A merge of a lane.
#[derive(Debug)]
pub(super) struct ItemMerge {
    items: Merged,
    writer: RunWriter,
}

/// The items that a merge writes.
#[derive(Debug)]
enum Merged {
    /// Of runs in RAM.
    Memory(FrozenMerger),
    Any(Merger),
}

impl Merged {
    #[inline]
    fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        match self {
            Merged::Memory(merger) => Ok(merger.next_item()),
            Merged::Any(merger) => merger.next_item(),
        }
    }

    fn finish(self) {
        match self {
            Merged::Memory(merger) => merger.finish(),
            Merged::Any(merger) => merger.finish(),
        }
    }
}

pub(super) type ItemTree = Tree<ItemTable>;
pub(super) type ItemState = State<ItemTable>;
pub(super) type ItemVersion = Version<ItemTable>;
pub(super) type ItemRun = Run<ItemTable>;

impl ItemTable {
    /// Of a dictionary none of whose items is longer than `longest_item` bytes by now.
    pub(super) fn new(options: DictionaryOptions, rules: Rules, shares: Shares, longest_item: usize) -> Self {
        let is_first_load = AtomicBool::new(false);
        let longest_item = Arc::new(AtomicUsize::new(longest_item));
        let lent_bytes = Arc::new(AtomicUsize::new(0));
        ItemTable { options, rules, shares, longest_item, lent_bytes, pool: Arc::default(), is_first_load }
    }

    /// What is noted of writes, none of which has begun.
    pub(super) fn writes(&self) -> Writes {
        let longest_item = Arc::clone(&self.longest_item);
        let lent_bytes = Arc::clone(&self.lent_bytes);
        Writes { loads: 0, options: self.options, shares: self.shares, longest_item, lent_bytes }
    }

    /// Lends the merges that begin from now on what frozen runs could take, where there are none.
    pub(super) fn lend(&self, state: &ItemState) {
        let is_idle = state.writes.loads == 0 && state.version().frozen.is_empty();
        let lent = if is_idle { self.shares.lendable_bytes() } else { 0 };
        if lent > 0 {
            self.pool.clear();
            give_back_freed();
        }
        self.lent_bytes.store(lent, Ordering::Relaxed);
    }

    /// Takes that back: the merges are done.
    pub(super) fn take_back(&self) {
        self.lent_bytes.store(0, Ordering::Relaxed);
        self.pool.clear();
    }

    /// Notes that items of so many bytes come.
    pub(super) fn note_item_bytes(&self, bytes: usize) {
        if bytes > self.longest_item.load(Ordering::Relaxed) {
            self.longest_item.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// How a run is written; the oldest one has no front, for most keys that are asked for are in it.
    pub(super) fn run_shape(&self, is_oldest: bool) -> RunShape {
        let has_front = !is_oldest && !self.is_first_load.load(Ordering::Relaxed);
        let shape = self.options.shape;
        RunShape {
            page_blocks: shape.page_blocks,
            compression: shape.compression,
            front_bits: has_front.then_some(FRONT_BITS),
            has_ranks: shape.has_ranks && is_oldest,
        }
    }
}

impl ItemTable {
    /// Items of inputs some of which are on flash.
    fn merger(&self, inputs: &[Input<Self>], lane: &LaneSpec<()>) -> Result<Merger> {
        // Few inputs have what many would have: longer reads are faster.
        let shares = self.shares.with_lent(self.extra_bytes());
        let mut share = shares.lane_bytes / inputs.len().max(1);
        if share < CURSOR_BYTES {
            let longest_item = self.longest_item.load(Ordering::Relaxed);
            share = share.saturating_sub(self.options.inputs_of(&shares, longest_item).0);
        }
        let piece_bytes =
            (share / (2 * BLOCK_BYTES) * 2 * BLOCK_BYTES).clamp(CURSOR_BYTES_MIN, CURSOR_BYTES_MAX);
        // A thread for each that reads on: of few, and long enough to be worth it.
        let is_ahead = lane.is_behind && piece_bytes > CURSOR_BYTES;
        let piece_bytes = if is_ahead { piece_bytes / 2 } else { piece_bytes };
        if !is_ahead && !self.pool.has(piece_bytes) {
            // What flushes and other merges freed is not to stand beside the many buffers that are made now; where few are, threads have
            // them, and none comes from the pool.
            self.pool.clear();
            give_back_freed();
        }
        let how = ScanOptions { piece_bytes, is_ahead, pool: Some(Arc::clone(&self.pool)) };
        let sources = inputs.iter().map(|input| match input {
            Input::Flash(segment) => Source::pieces([Arc::clone(segment)], &lane.range, how.clone()),
            Input::Memory(frozen) => Source::Frozen(FrozenScan::new(frozen, &lane.range)),
        });
        Merger::new(sources.collect(), &self.rules, lane.is_oldest)
    }
}

/// The merge that is due: `runs` are all there are, the oldest first.
///
/// 1. What is newer than the oldest run is merged into it when it is a fifth of it: the paper's sequential merge.
/// 2. Before that, runs of about the same length, four or more, become one: those behind a run that together are as long as it.
/// 3. While something is loaded, only more than twice as many runs as one merge reads become fewer: the end of the load merges all of them
///    at once, or so few before that all others then are one merge.
fn merge_due(writes: &Writes, runs: &[Shape<()>]) -> Option<Choice<()>> {
    let first_idle = runs.iter().rposition(|run| run.is_busy).map_or(0, |busy| busy + 1);
    let idle = &runs[first_idle..];
    let longest_item = writes.longest_item.load(Ordering::Relaxed);
    let shares = writes.shares.with_lent(writes.lent_bytes.load(Ordering::Relaxed));
    let most = writes.options.inputs_of(&shares, longest_item).1.max(FAN_OUT);
    let newest = |count: usize| {
        let newest = &idle[idle.len() - count..];
        // Of too many, as many as are needed for one merge of the others and what these become: neighbours, the shortest there are.
        let now = if count > most { (count - most + 1).min(most) } else { count };
        let inputs =
            newest.windows(now).min_by_key(|inputs| inputs.iter().map(|run| run.bytes).sum::<u64>())?;
        Some(Choice { inputs: inputs.iter().map(|run| run.id).collect(), class: () })
    };
    if writes.loads > 0 {
        let flushed = idle.last()?.bytes;
        let alike = idle.iter().rev().take_while(|run| run.bytes / 2 <= flushed).count();
        return if alike >= 2 * most { newest(most) } else { None };
    }
    let behind = |at: usize| idle[at + 1..].iter().map(|run| run.bytes).sum::<u64>();
    let is_due = |at: &usize| {
        let (runs_behind, bytes) = (idle.len() - at - 1, behind(*at));
        let is_whole = first_idle == 0 && *at == 0 && runs_behind > 0 && bytes >= idle[0].bytes / WHOLE_SHARE;
        is_whole || (runs_behind >= FAN_OUT - 1 && bytes >= idle[*at].bytes)
    };
    let from = (0..idle.len()).find(is_due)?;
    newest(idle.len() - from)
}

impl Table for ItemTable {
    type Class = ();
    type Frozen = Frozen;
    type Segment = RunSegment;
    type Merge = ItemMerge;
    type Writes = Writes;

    const ORDER: Order = Order::NewestWins;
    const BY_LENGTH: bool = false;

    fn open(&self, files: &Files, file: &FileRef, (): ()) -> Result<RunSegment> {
        RunSegment::open(files, file, self.rules.hasher)
    }

    fn record(&self, _: &Writes, tree: &StoredTree<()>) -> Record {
        Record { state: format::encode(&self.options, tree), files: tree.files() }
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
        let counts = segment.counts();
        Size {
            entries: counts.items,
            tombstones: counts.tombstones,
            occurrences: counts.items - counts.tombstones,
            bytes: segment.file_ref().bytes,
            memory_bytes: segment.memory_bytes(),
        }
    }

    fn frozen_size(frozen: &Frozen) -> Size {
        let (entries, tombstones) = (frozen.len(), frozen.tombstones());
        let occurrences = entries - tombstones;
        Size { entries, tombstones, occurrences, bytes: 0, memory_bytes: frozen.memory_bytes() }
    }

    /// What fits the memory is written once: a load waits for the last byte of it. What does not is flushed while the rest comes.
    fn flush_share(&self, has_runs: bool) -> (usize, usize) {
        if !has_runs && self.is_first_load.load(Ordering::Relaxed) { (1, 1) } else { Limits::FLUSH }
    }

    fn extra_bytes(&self) -> usize {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    fn begin(&self, files: &Files, inputs: &[Input<Self>], lane: &LaneSpec<()>) -> Result<ItemMerge> {
        let expected = inputs.iter().map(|input| match input {
            Input::Flash(segment) => expected_of(segment, &lane.range),
            Input::Memory(frozen) => frozen.expected(&lane.range),
        });
        let expected = expected.fold(Expected::default(), |sum, one| sum + one);
        let frozen: Vec<Arc<Frozen>> = (inputs.iter())
            .filter_map(
                |input| if let Input::Memory(frozen) = input { Some(Arc::clone(frozen)) } else { None },
            )
            .collect();
        let items = if frozen.len() == inputs.len() {
            Merged::Memory(FrozenMerger::new(frozen, &self.rules, &lane.range, lane.is_oldest))
        } else {
            Merged::Any(self.merger(inputs, lane)?)
        };
        let shape = self.run_shape(lane.is_oldest);
        let range = lane.range.clone();
        let writer = RunWriter::create(files, self.rules.hasher, shape, range, expected, lane.is_behind)?;
        Ok(ItemMerge { items, writer })
    }

    fn step(&self, merge: &mut ItemMerge, blocks: u64) -> Result<Stepped> {
        let (mut entries, mut bytes) = (0, 0);
        while bytes < blocks * 4096 {
            let Some(item) = merge.items.next_item()? else {
                return Ok(Stepped { entries, has_more: false });
            };
            merge.writer.push(item)?;
            bytes += (item.key.len() + item.value.bytes().len() + ITEM_STEP_BYTES) as u64;
            entries += 1;
        }
        Ok(Stepped { entries, has_more: true })
    }

    fn finish(&self, _: &Files, merge: ItemMerge, (): ()) -> Result<Option<RunSegment>> {
        let ItemMerge { items, writer } = merge;
        let segment = writer.finish()?;
        items.finish();
        Ok(segment)
    }

    fn join(&self, inputs: &[Arc<Frozen>], (): ()) -> Result<Frozen> {
        let mut merger = FrozenMerger::new(inputs.to_vec(), &self.rules, &(0..=u64::MAX), false);
        let joined = Frozen::joined(&self.rules, &mut merger);
        merger.finish();
        Ok(joined)
    }

    fn wanted(writes: &Writes, runs: &[Shape<()>]) -> Option<Choice<()>> {
        merge_due(writes, runs)
    }

    /// Only values, ranks if they are asked for, and no front.
    fn is_whole(&self, segment: &RunSegment) -> bool {
        let Counts { if_absent, operands, tombstones, .. } = segment.counts();
        let has_ranks = segment.has_ranks() || !self.options.shape.has_ranks;
        if_absent + operands + tombstones == 0 && has_ranks && !segment.has_front()
    }
}

/// What an item costs a step beside its bytes.
const ITEM_STEP_BYTES: usize = 16;

/// How many items, of how many bytes, a run on flash has in a range of hashes, about.
pub(super) fn expected_of(segment: &RunSegment, range: &RangeInclusive<u64>) -> Expected {
    let seen = segment.hashes();
    let (first, last) = ((*seen.start()).max(*range.start()), (*seen.end()).min(*range.end()));
    if first > last {
        return Expected::default();
    }
    let share = ((last - first) as f64 + 1.0) / ((seen.end() - seen.start()) as f64 + 1.0);
    let Counts { items, key_bytes, value_bytes, .. } = segment.counts();
    let part = |all: u64| (all as f64 * share).ceil() as u64;
    Expected { items: part(items), bytes: part(key_bytes + value_bytes) }
}
