//! Three summaries, one for each way to be stored: a blob written anew, pages written in place with shadow slots, and
//! immutable layers that merges replace between commits.

use overbank::device::block::{self, BODY_BYTES, Seal};
use overbank::device::{BLOCK_BYTES, DeviceFile};
use overbank::store::{Entry, FileId, FileRef, Files, Participant, Prepared, Record, Structure, Workers};
use overbank::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A summary under one lock, and where it writes.
pub(crate) struct Locked<T> {
    pub(crate) summary: Mutex<T>,
    files: Files,
}

impl<T> Locked<T> {
    pub(crate) fn new(summary: T, files: &Files) -> Arc<Self> {
        Arc::new(Locked { summary: Mutex::new(summary), files: files.clone() })
    }
}

/// What a summary does in a commit, under its lock.
pub(crate) trait Summary: Send {
    const ID: u16;
    fn prepare(&mut self, files: &Files) -> Result<Prepared>;
    fn committed(&mut self);
    fn live_blocks(&self) -> Option<Vec<Range<u64>>> {
        None
    }
}

impl<T: Summary> Participant for Locked<T> {
    fn structure(&self) -> Structure {
        Structure { id: T::ID, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        self.summary.lock().unwrap().prepare(&self.files)
    }

    fn committed(&self) {
        self.summary.lock().unwrap().committed();
    }

    fn live_blocks(&self, _: &FileRef) -> Option<Vec<Range<u64>>> {
        self.summary.lock().unwrap().live_blocks()
    }
}

pub(crate) fn defect(what: &'static str) -> Error {
    Error::Corrupt { path: "test".into(), at: 0, what, expected: "whole".into(), found: "damaged".into() }
}

pub(crate) fn numbers(bytes: &[u8]) -> Result<Vec<u64>> {
    let (words, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(defect("numbers"));
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

pub(crate) fn bytes(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Counts by key; a new blob a commit.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) counts: BTreeMap<u64, u64>,
    pub(crate) changed: bool,
}

impl Counters {
    pub(crate) fn recover(entry: &Entry, files: &Files) -> Result<Self> {
        let file = entry.record.files.first().ok_or(defect("counters"))?;
        let pairs = numbers(&files.read_blob(file)?)?;
        Ok(Counters { counts: pairs.chunks_exact(2).map(|p| (p[0], p[1])).collect(), changed: false })
    }
}

impl Summary for Counters {
    const ID: u16 = 1001;

    fn prepare(&mut self, files: &Files) -> Result<Prepared> {
        if !self.changed {
            return Ok(Prepared::Unchanged);
        }
        let blob = files.write_blob(&bytes(self.counts.iter().flat_map(|(&k, &v)| [k, v])))?;
        Ok(Prepared::Changed(Record { state: Vec::new(), files: vec![blob] }))
    }

    fn committed(&mut self) {
        self.changed = false;
    }
}

pub(crate) const PAGES: usize = 3;

/// A few numbers, one a page. Page p lives in slot 2p or 2p + 1 of a file that is written in place; the commit's state
/// says which sequence number it has, and the other slot is the shadow.
#[derive(Default)]
pub(crate) struct Pages {
    pub(crate) values: [u64; PAGES],
    pub(crate) dirty: BTreeSet<usize>,
    live: [(u64, u64); PAGES],
    prepared: [(u64, u64); PAGES],
    /// Of the last prepare.
    sequence: u64,
    file: Option<(FileId, Arc<dyn DeviceFile>)>,
}

const PAGES_BYTES: u64 = (2 * PAGES * BLOCK_BYTES) as u64;

impl Pages {
    pub(crate) fn recover(entry: &Entry, files: &Files) -> Result<Self> {
        let file_ref = entry.record.files.first().ok_or(defect("pages"))?;
        let sequences = numbers(&entry.record.state)?;
        let file = files.open(file_ref)?;
        let mut pages = Pages { file: Some((file_ref.id, Arc::clone(&file))), ..Pages::default() };
        pages.sequence = sequences.iter().copied().max().unwrap_or(0);
        let mut slots = vec![0; 2 * BLOCK_BYTES];
        for page in 0..PAGES {
            let sequence = *sequences.get(page).ok_or(defect("pages"))?;
            file.read((2 * page * BLOCK_BYTES) as u64, &mut slots)?;
            let slot = slots.chunks_exact(BLOCK_BYTES).enumerate().find(|(i, slot)| {
                let seal = block::valid(slot, files.owner(file_ref.id), (2 * page + i) as u64);
                seal.is_some_and(|seal| seal.sequence == sequence)
            });
            let (i, slot) = slot.ok_or(defect("page"))?;
            pages.live[page] = ((2 * page + i) as u64, sequence);
            pages.values[page] = *numbers(&slot[..8])?.first().ok_or(defect("page"))?;
        }
        Ok(pages)
    }

    pub(crate) fn set(&mut self, page: usize, value: u64) {
        self.values[page] = value;
        self.dirty.insert(page);
    }
}

impl Summary for Pages {
    const ID: u16 = 1002;

    fn prepare(&mut self, files: &Files) -> Result<Prepared> {
        let is_new = self.file.is_none() || self.live == [(0, 0); PAGES];
        if self.dirty.is_empty() && !is_new {
            return Ok(Prepared::Unchanged);
        }
        if is_new {
            if self.file.is_none() {
                self.file = Some(files.create()?);
            }
            self.dirty = (0..PAGES).collect();
        }
        let (id, file) = self.file.as_ref().ok_or(defect("pages"))?;
        if is_new {
            file.set_len(PAGES_BYTES)?;
        }
        self.sequence += 1;
        self.prepared = self.live;
        for &page in &self.dirty {
            let (live, sequence) = self.live[page];
            let first = 2 * page as u64;
            let shadow = if sequence == 0 || live == first + 1 { first } else { first + 1 };
            let mut block = vec![0x5a; BLOCK_BYTES];
            block[..8].copy_from_slice(&self.values[page].to_le_bytes());
            block[8..BODY_BYTES].fill(self.values[page] as u8);
            block::seal(&mut block, files.owner(*id), shadow, Seal { tag: 0, sequence: self.sequence });
            file.write(shadow * BLOCK_BYTES as u64, &block)?;
            self.prepared[page] = (shadow, self.sequence);
        }
        file.sync()?;
        let state = bytes(self.prepared.iter().map(|&(_, sequence)| sequence));
        Ok(Prepared::Changed(Record { state, files: vec![FileRef { id: *id, bytes: PAGES_BYTES, xxh3: 0 }] }))
    }

    fn committed(&mut self) {
        self.live = self.prepared;
        self.dirty.clear();
    }

    fn live_blocks(&self) -> Option<Vec<Range<u64>>> {
        Some(self.live.iter().map(|&(slot, _)| slot..slot + 1).collect())
    }
}

/// A set of keys: a buffer, and layers that a merge in the background makes one.
#[derive(Default)]
pub(crate) struct Layers {
    buffer: BTreeSet<u64>,
    layers: Vec<(FileRef, BTreeSet<u64>)>,
    committed: Vec<FileRef>,
    prepared: Vec<FileRef>,
}

impl Layers {
    pub(crate) fn recover(entry: &Entry, files: &Files) -> Result<Self> {
        let committed = entry.record.files.clone();
        let layer = |file: &FileRef| Ok((*file, numbers(&files.read_blob(file)?)?.into_iter().collect()));
        let layers = committed.iter().map(layer).collect::<Result<_>>()?;
        Ok(Layers { layers, prepared: committed.clone(), committed, ..Layers::default() })
    }

    pub(crate) fn keys(&self) -> BTreeSet<u64> {
        self.layers.iter().flat_map(|(_, keys)| keys).chain(&self.buffer).copied().collect()
    }

    pub(crate) fn insert(&mut self, key: u64) {
        self.buffer.insert(key);
    }

    /// Moves the buffer to a layer of its own, between commits.
    pub(crate) fn flush(&mut self, files: &Files) -> Result<()> {
        if !self.buffer.is_empty() {
            let file = files.write_blob(&bytes(self.buffer.iter().copied()))?;
            self.layers.push((file, std::mem::take(&mut self.buffer)));
        }
        Ok(())
    }

    /// Merges all layers into one on a worker; a full disk leaves them as they are.
    pub(crate) fn merge(&mut self, files: &Files, workers: &Workers) -> Result<()> {
        let all: BTreeSet<u64> = self.layers.iter().flat_map(|(_, keys)| keys).copied().collect();
        let merged = Arc::new(Mutex::new(None));
        let (slot, content, job_files) = (Arc::clone(&merged), bytes(all.iter().copied()), files.clone());
        let job = workers.spawn(move || match job_files.write_blob(&content) {
            Err(Error::Full { .. }) => Ok(()),
            file => {
                *slot.lock().unwrap() = Some(file?);
                Ok(())
            }
        });
        job.wait()?;
        let Some(file) = merged.lock().unwrap().take() else { return Ok(()) };
        for (old, _) in std::mem::replace(&mut self.layers, vec![(file, all)]) {
            files.retire(old.id);
        }
        Ok(())
    }
}

impl Summary for Layers {
    const ID: u16 = 1003;

    fn prepare(&mut self, files: &Files) -> Result<Prepared> {
        let mut refs: Vec<FileRef> = self.layers.iter().map(|(file, _)| *file).collect();
        if self.buffer.is_empty() && refs == self.committed && !refs.is_empty() {
            return Ok(Prepared::Unchanged);
        }
        // The buffer's file exists for this commit only: it becomes a layer when the commit succeeds.
        if !self.buffer.is_empty() {
            refs.push(files.write_blob(&bytes(self.buffer.iter().copied()))?);
        }
        self.prepared = refs.clone();
        Ok(Prepared::Changed(Record { state: Vec::new(), files: refs }))
    }

    fn committed(&mut self) {
        self.committed = self.prepared.clone();
        if let Some(file) = self.committed.last().filter(|_| !self.buffer.is_empty()) {
            self.layers.push((*file, std::mem::take(&mut self.buffer)));
        }
    }
}
