//! The smallest table where the newest entry wins: keys and values of 64 bits, a key being its own hash.

use crate::Result;
use crate::bytes::ByteReader;
use crate::lsm::{Input, LaneSpec, Order, Size, Stepped, StoredTree, Table};
use crate::segment::{Scan, Segment, SegmentKind, SegmentWriter};
use crate::store::{FileRef, Files, Record, Structure};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A key and its value, `None` where it was deleted.
pub(super) type Entry = (u64, Option<u64>);

pub(super) const STRUCTURE: Structure = Structure { id: 900, version: 1 };
/// Entries of a block: few, so that small tables have long runs.
pub(super) const BLOCK_ENTRIES: usize = 8;
const ENTRY_BYTES: usize = 17;

#[derive(Debug)]
pub(super) struct KvTable {
    pub(super) kind: SegmentKind,
}

/// A frozen memtable.
#[derive(Debug)]
pub(super) struct Batch(pub(super) Vec<Entry>);

/// A segment, seen from a key on.
#[derive(Debug)]
pub(super) struct KvSegment {
    segment: Arc<Segment>,
    first: u64,
}

#[derive(Debug)]
pub(super) struct KvMerge {
    /// The oldest first.
    cursors: Vec<Cursor>,
    writer: Option<SegmentWriter>,
    block: Vec<Entry>,
    deletions: u64,
    is_oldest: bool,
}

#[derive(Debug)]
struct Cursor {
    source: Source,
    range: RangeInclusive<u64>,
    ready: VecDeque<Entry>,
}

#[derive(Debug)]
enum Source {
    Flash(Box<Scan>),
    Memory { batch: Arc<Batch>, next: usize },
}

impl Table for KvTable {
    type Class = ();
    type Frozen = Batch;
    type Segment = KvSegment;
    type Merge = KvMerge;
    type Writes = ();

    const ORDER: Order = Order::NewestWins;

    fn open(&self, files: &Files, file: &FileRef, (): ()) -> Result<KvSegment> {
        Ok(KvSegment { segment: Arc::new(Segment::open(files, file, self.kind)?), first: 0 })
    }

    fn record(&self, (): &(), tree: &StoredTree<()>) -> Record {
        let mut state = Vec::new();
        tree.encode(&mut state, |(), _| {});
        Record { state, files: tree.files() }
    }

    fn hashes(segment: &KvSegment) -> RangeInclusive<u64> {
        let (first, last) = segment.segment.hash_range().unwrap_or((1, 0));
        first.max(segment.first)..=last
    }

    fn clip(segment: &Arc<KvSegment>, border: u64) -> Option<Arc<KvSegment>> {
        let first = border.max(segment.first);
        let clipped = KvSegment { segment: Arc::clone(&segment.segment), first };
        (border <= *Self::hashes(segment).end()).then(|| Arc::new(clipped))
    }

    fn file_ref(segment: &KvSegment) -> FileRef {
        segment.segment.file_ref()
    }

    fn segment_size(segment: &KvSegment) -> Size {
        let segment = &segment.segment;
        let tombstones = ByteReader::new(segment.meta()).u64().unwrap_or(0);
        let entries = segment.entries();
        let (bytes, memory_bytes) = (segment.file_ref().bytes, segment.memory_bytes());
        Size { entries, tombstones, occurrences: entries - tombstones, bytes, memory_bytes }
    }

    fn frozen_size(batch: &Batch) -> Size {
        let entries = batch.0.len() as u64;
        Size { entries, memory_bytes: batch.0.len() * ENTRY_BYTES, ..Size::default() }
    }

    fn begin(&self, files: &Files, inputs: &[Input<Self>], lane: &LaneSpec<()>) -> Result<KvMerge> {
        let cursors = inputs.iter().map(|input| Cursor::new(input, &lane.range));
        Ok(KvMerge {
            cursors: cursors.collect::<Result<_>>()?,
            writer: Some(SegmentWriter::create(files, self.kind)?),
            block: Vec::new(),
            deletions: 0,
            is_oldest: lane.is_oldest,
        })
    }

    fn step(&self, merge: &mut KvMerge, blocks: u64) -> Result<Stepped> {
        // A step has a few entries, so that small tables have many steps.
        let most = (blocks / 2) as usize;
        for entries in 0..most as u64 {
            if !merge.next()? {
                return Ok(Stepped { entries, has_more: false });
            }
        }
        Ok(Stepped { entries: most as u64, has_more: true })
    }

    fn finish(&self, files: &Files, mut merge: KvMerge, (): ()) -> Result<Option<KvSegment>> {
        merge.cut(1)?;
        let Some(writer) = merge.writer.take().filter(|writer| writer.blocks() > 0) else { return Ok(None) };
        let info = writer.finish(&merge.deletions.to_le_bytes())?;
        self.open(files, &info.file, ()).map(Some).inspect_err(|_| drop(files.discard(info.file.id)))
    }

    fn join(&self, inputs: &[Arc<Batch>], (): ()) -> Result<Batch> {
        let joined: BTreeMap<u64, Option<u64>> =
            inputs.iter().flat_map(|batch| batch.0.iter().copied()).collect();
        Ok(Batch(joined.into_iter().collect()))
    }
}

impl KvMerge {
    /// Merges the next key; false if there is none.
    fn next(&mut self) -> Result<bool> {
        let mut least = None;
        for cursor in &mut self.cursors {
            if let Some((key, _)) = cursor.peek()? {
                least = Some(least.map_or(key, |least: u64| least.min(key)));
            }
        }
        let Some(key) = least else { return Ok(false) };
        let mut newest = None;
        for cursor in &mut self.cursors {
            if let Some((_, value)) = cursor.peek()?.filter(|entry| entry.0 == key) {
                newest = Some(value);
                cursor.ready.pop_front();
            }
        }
        match newest {
            Some(None) if self.is_oldest => {}
            Some(value) => self.block.push((key, value)),
            None => {}
        }
        self.cut(BLOCK_ENTRIES)?;
        Ok(true)
    }

    /// Writes a block if at least so many entries wait.
    fn cut(&mut self, least: usize) -> Result<()> {
        let (Some(writer), Some(first), Some(last)) =
            (&mut self.writer, self.block.first(), self.block.last())
        else {
            return Ok(());
        };
        if self.block.len() < least {
            return Ok(());
        }
        let mut body = (self.block.len() as u64).to_le_bytes().to_vec();
        for (key, value) in &self.block {
            body.extend(key.to_le_bytes());
            body.push(u8::from(value.is_some()));
            body.extend(value.unwrap_or(0).to_le_bytes());
        }
        self.deletions += self.block.iter().filter(|entry| entry.1.is_none()).count() as u64;
        writer.push_block(first.0, last.0, self.block.len() as u64, &body)?;
        self.block.clear();
        Ok(())
    }
}

impl Cursor {
    fn new(input: &Input<KvTable>, range: &RangeInclusive<u64>) -> Result<Self> {
        let (source, first) = match input {
            Input::Flash(segment) => {
                let first = segment.first.max(*range.start());
                let scan = segment.segment.scan_pieces(segment.blocks(first..=*range.end()), 4096, false)?;
                (Source::Flash(Box::new(scan)), first)
            }
            Input::Memory(batch) => (Source::Memory { batch: Arc::clone(batch), next: 0 }, *range.start()),
        };
        Ok(Cursor { source, range: first..=*range.end(), ready: VecDeque::new() })
    }

    fn peek(&mut self) -> Result<Option<Entry>> {
        while self.ready.is_empty() {
            match &mut self.source {
                Source::Flash(scan) => match scan.next_block()? {
                    Some((_, body)) => self.ready.extend(decode(body)?),
                    None => return Ok(None),
                },
                Source::Memory { batch, next } => match batch.0.get(*next) {
                    Some(entry) => {
                        self.ready.push_back(*entry);
                        *next += 1;
                    }
                    None => return Ok(None),
                },
            }
            self.ready.retain(|entry| self.range.contains(&entry.0));
        }
        Ok(self.ready.front().copied())
    }
}

impl KvSegment {
    /// The blocks that may have keys of a range.
    fn blocks(&self, range: RangeInclusive<u64>) -> std::ops::Range<u64> {
        let Some((first, last)) = self.segment.hash_range() else { return 0..0 };
        let (from, to) = ((*range.start()).max(first), (*range.end()).min(last));
        if from > to { 0..0 } else { self.segment.find(from).start..self.segment.find(to).end }
    }

    /// What it says of a key.
    pub(super) fn get(&self, key: u64) -> Result<Option<Option<u64>>> {
        let entries = self.entries(key..=key)?;
        Ok(entries.first().map(|entry| entry.1))
    }

    /// Its entries in a range.
    pub(super) fn entries(&self, range: RangeInclusive<u64>) -> Result<Vec<Entry>> {
        let range = (*range.start()).max(self.first)..=*range.end();
        let mut scan = self.segment.scan_pieces(self.blocks(range.clone()), 4096, false)?;
        let mut found = Vec::new();
        while let Some((_, body)) = scan.next_block()? {
            found.extend(decode(body)?.into_iter().filter(|entry| range.contains(&entry.0)));
        }
        Ok(found)
    }
}

fn decode(body: &[u8]) -> Result<Vec<Entry>> {
    let mut fields = ByteReader::new(body);
    let count = fields.u64()?;
    (0..count)
        .map(|_| {
            let (key, has_value, value) = (fields.u64()?, fields.u8()?, fields.u64()?);
            Ok((key, (has_value == 1).then_some(value)))
        })
        .collect()
}
