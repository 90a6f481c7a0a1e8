//! A frequency sketch in its store: what a commit writes, and how it comes back.
//!
//! A commit turns the buffers into logs (or applies them, where no chunk may be pending), syncs what is new, and names the
//! table of groups, the pages file and the logs. Whether the record arrives or not, the sketch in RAM is right: what was
//! written for it is pinned until the next commit is prepared, and not written over. Between the two, writers and passes go on.

use super::Frequency;
use super::commitment::{Commitment, Upkeep};
use super::flash::{PagesFile, live_blocks};
use super::format::{self, OLDEST_VERSION, State, VERSION};
use super::log::Log;
use super::memory::Buffer;
use super::options::FrequencyOptions;
use super::pass::PassPlan;
use super::rounds::{ROUNDS_BYTES, round_pages};
use super::shape::Shape;
use super::sketch::{Memory, Parts, Sketch};
use super::table::Table;
use super::writer::WRITER_BYTES;
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::error::{corrupt, invalid, missing};
use crate::lock::lock;
use crate::store::{
    Entry, FileId, FileRef, Openable, Participant, Prepared, Record, Store, Structure, registry,
};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const _: () = assert!(VERSION == registry::FREQUENCY.version, "the registry says what is written");

impl Store {
    /// The frequency sketch of this name: the stored one, or a new one.
    ///
    /// # Errors
    /// `Incompatible` if the stored one has another shape than was set, or the name is that of another kind of summary; for a new one
    /// `InvalidOption`, `ReadOnly`; `BudgetExceeded`; for a stored one `UnsupportedVersion`, `Corrupt`.
    pub fn frequency(&self, name: &str, options: FrequencyOptions) -> Result<Frequency> {
        Frequency::open_or_create(self, name, options, Role::default())
    }
}

/// What a sketch is opened as: by itself, or as one of a window's panes.
#[derive(Clone, Default)]
pub(super) struct Role {
    /// How many panes the window has.
    pub(super) panes: Option<usize>,
    /// RAM that they use in turn, where it is reserved already.
    pub(super) memory: Option<Arc<Memory>>,
}

impl Frequency {
    /// As [`Store::frequency`].
    pub(super) fn open_or_create(
        store: &Store,
        name: &str,
        options: FrequencyOptions,
        role: Role,
    ) -> Result<Self> {
        let sketch = store.open_with(name, |stored| match stored {
            Some(entry) => Sketch::open(store, name, entry, &options, role),
            None => Sketch::create(store, name, &options, role),
        })?;
        // One that was open already may be of another shape.
        options.require(sketch.shape())?;
        Ok(Frequency { sketch })
    }

    /// Options of a sketch that the stored one can be merged with.
    pub(crate) fn options_in(store: &Store, name: &str) -> Result<FrequencyOptions> {
        let entry = store.record(name);
        let entry = entry.ok_or_else(|| missing("frequency sketch", name))?;
        let state = decode(name, &entry)?;
        let memory_bytes = usize::try_from(state.memory_bytes).unwrap_or(usize::MAX);
        Ok(FrequencyOptions::of(state.shape, state.pending as usize, memory_bytes))
    }
}

impl Sketch {
    fn create(store: &Store, name: &str, options: &FrequencyOptions, role: Role) -> Result<Self> {
        if store.is_read_only() {
            return Err(missing("frequency sketch", name));
        }
        let shape = options.to_shape()?;
        let table = Table::new(shape, options.writer_slots());
        let settings = (options.chunks(), options.memory());
        Self::assemble(store, name, options, settings, table, (0, false, Upkeep::default()), role)
    }

    fn open(
        store: &Store,
        name: &str,
        entry: &Entry,
        options: &FrequencyOptions,
        role: Role,
    ) -> Result<Self> {
        let state = decode(name, entry)?;
        options.require(state.shape)?;
        let (files, shape) = (store.files(), state.shape);
        let has_pages = usize::from(state.extents > 0);
        let stored = &entry.record.files;
        if stored.len() != 1 + has_pages + state.logs.len() {
            let expected = (1 + has_pages + state.logs.len()).to_string();
            return Err(corrupt(Path::new(name), 0, "number of files", expected, stored.len().to_string()));
        }
        let pages_ref = (has_pages == 1).then(|| stored[1]);
        let pages_bytes = u64::from(state.extents) * shape.group_bytes() as u64;
        if pages_ref.is_some_and(|file| file.bytes != pages_bytes || !file.is_in_place()) {
            return Err(corrupt(
                Path::new(name),
                0,
                "bytes of the pages",
                pages_bytes.to_string(),
                "others".to_owned(),
            ));
        }
        let open = |file: FileRef| PagesFile::open(files, shape, &file, state.extents);
        let file = pages_ref.map(open).transpose()?;
        let places = format::decode_table(&files.read_blob(&stored[0])?, &state, &files.path(stored[0].id))?;
        let logs = state.logs.iter().zip(&stored[1 + has_pages..]);
        let hash_id = store.hasher().into();
        let logs =
            logs.map(|(&sequence, file)| Ok(Arc::new(Log::open(files, (shape, hash_id), *file, sequence)?)));
        let mut table = Table::new(shape, options.writer_slots());
        table.logs = Arc::new(logs.collect::<Result<Vec<_>>>()?);
        (table.weight, table.epoch) = (state.weight, state.epoch);
        table.places = places;
        table.file = file;
        if let Some(file) = &table.file {
            file.hold_all(&table.places);
        }
        let committed = Commitment::new(&table, stored[0]);
        table.committed_edit = committed.edit;
        let upkeep = Upkeep { committed: Some(committed), prepared: None };
        let stored_bytes = usize::try_from(state.memory_bytes).unwrap_or(usize::MAX);
        let settings =
            (options.pending.unwrap_or(state.pending as usize), options.memory_bytes.unwrap_or(stored_bytes));
        Self::assemble(store, name, options, settings, table, (state.sequence, state.saturated, upkeep), role)
    }

    fn assemble(
        store: &Store,
        name: &str,
        options: &FrequencyOptions,
        (pending, memory_bytes): (usize, usize),
        table: Table,
        (sequence, saturated, upkeep): (u64, bool, Upkeep),
        role: Role,
    ) -> Result<Self> {
        let (shape, writers) = (table.shape, options.writer_slots());
        let most_logs = pending.max(table.logs.len());
        // Who only reads has no buffers and makes no passes.
        let reader_bytes = store.is_read_only().then(|| 2 * round_pages(shape) * BLOCK_BYTES);
        let memory_bytes = match reader_bytes {
            Some(reader_bytes) => options.memory_bytes.unwrap_or(reader_bytes),
            None => memory_bytes,
        };
        let least_bytes =
            reader_bytes.map_or_else(|| least_bytes(shape, most_logs, writers), |_| ROUNDS_BYTES);
        if memory_bytes < least_bytes {
            let why = format!("groups, readers and buffers need at least {least_bytes}");
            return invalid("memory_bytes", memory_bytes, why);
        }
        let what = format!("frequency sketch {name:?}");
        let memory = match role.memory {
            Some(shared) => shared,
            None => Arc::new(Memory::new(store.budget().reserve(&what, memory_bytes, least_bytes)?)),
        };
        let granted_bytes = memory.bytes();
        let buffer_bytes =
            reader_bytes.map_or_else(|| buffer_bytes(shape, granted_bytes, most_logs, writers), |_| 0);
        let parts = Parts {
            name: name.to_owned(),
            panes: role.panes,
            hash_id: store.hasher().into(),
            files: store.files().clone(),
            read_only: store.is_read_only().then(|| (store.device().path(), store.commit_info().commit)),
            threads: store.threads_of_calls(),
            pending,
            memory_bytes,
            pass_bytes: pass_bytes(shape, granted_bytes, most_logs, writers),
            buffers: (0..writers).map(|_| Buffer::new(buffer_bytes)).collect(),
            memory,
        };
        Ok(Sketch::new(parts, table, sequence, saturated, upkeep))
    }
}

impl Openable for Sketch {
    const KIND: registry::Kind = registry::FREQUENCY;
}

impl Participant for Sketch {
    fn structure(&self) -> Structure {
        registry::FREQUENCY.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let mut upkeep = lock(&self.upkeep);
        // The commit that it was for has failed.
        upkeep.prepared = None;
        if !self.is_changed() {
            return Ok(Prepared::Unchanged);
        }
        self.flush_or_apply()?;
        let (mut state, file, logs, places, commitment) = {
            let table = lock(&self.table);
            let state = State {
                shape: table.shape,
                saturated: self.saturated.load(Ordering::Relaxed),
                pending: self.pending as u32,
                sequence: 0,
                extents: 0,
                epoch: table.epoch,
                weight: table.weight,
                memory_bytes: self.memory_bytes as u64,
                logs: table.logs.iter().map(|log| log.sequence).collect(),
            };
            // Its table file is named below.
            let none = FileRef { id: FileId(0), bytes: 0, xxh3: 0 };
            let commitment = Commitment::new(&table, none);
            let is_known = upkeep.committed.as_ref().filter(|c| c.places_edit == table.places_edit);
            let places = match is_known {
                Some(committed) => Err(committed.table),
                None => Ok(format::encode_table(&table.places)),
            };
            (state, table.file.clone(), Arc::clone(&table.logs), places, commitment)
        };
        // No pass can come in between, and what writers log from now on is not named.
        state.sequence = self.sequence.load(Ordering::Relaxed);
        let pages = file.as_ref().and_then(|file| file.file_ref());
        state.extents = file.as_ref().map_or(0, |file| file.extents());
        if let Some(file) = &file {
            file.sync()?;
        }
        logs.iter().try_for_each(|log| log.sync())?;
        let table = match places {
            Ok(bytes) => self.files.write_blob(&bytes)?,
            Err(known) => known,
        };
        upkeep.prepared = Some(Commitment { table, ..commitment });
        let mut named = vec![table];
        named.extend(pages);
        named.extend(logs.iter().map(|log| log.file_ref()));
        Ok(Prepared::Changed(Record { state: state.encode(), files: named }))
    }

    fn committed(&self) {
        let mut upkeep = lock(&self.upkeep);
        if let Some(prepared) = upkeep.prepared.take() {
            lock(&self.table).committed_edit = prepared.edit;
            upkeep.committed = Some(prepared);
        }
    }

    fn whole(&self) -> Option<&str> {
        self.panes.and_then(|_| self.name().rsplit_once('/')).map(|(window, _)| window)
    }

    fn is_changed(&self) -> bool {
        let table = lock(&self.table);
        let is_committed = table.edit == table.committed_edit;
        drop(table);
        !is_committed || self.has_waiting()
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.memory.give_back();
    }

    fn live_blocks(&self, _: &FileRef) -> Option<Vec<Range<u64>>> {
        let upkeep = lock(&self.upkeep);
        let pin = upkeep.committed.as_ref().and_then(|committed| committed.pin.as_ref());
        Some(pin.map_or(Vec::new(), |pin| live_blocks(pin.file.shape(), &pin.extents)))
    }
}

/// RAM of each writer's buffer: what the writers of logs leave, and what passes or changes of the whole (two groups), of which one
/// happens at a time, and estimates beside them (two long rounds) need. The buffers keep their memory: an allocator that gets it back
/// in one place and hands it out in another holds it twice.
pub(super) fn buffer_bytes(shape: Shape, memory_bytes: usize, pending: usize, writers: usize) -> usize {
    let rest = common_bytes(shape, memory_bytes, pending, writers) + writers * WRITER_BYTES;
    memory_bytes.saturating_sub(rest) / writers
}

/// RAM beside the buffers and the writers of logs: a third, where the buffers of many writers leave so much.
fn common_bytes(shape: Shape, memory_bytes: usize, pending: usize, writers: usize) -> usize {
    let of_writers = writers * (WRITER_BYTES + Buffer::least_bytes());
    let left = memory_bytes.saturating_sub(of_writers);
    (memory_bytes / 3).min(left).max(least_common_bytes(shape, pending, writers))
}

/// RAM of a pass: what is left when estimates have theirs, where that is enough.
fn pass_bytes(shape: Shape, memory_bytes: usize, pending: usize, writers: usize) -> usize {
    let rounds_bytes = 2 * round_pages(shape) * BLOCK_BYTES;
    let bytes = common_bytes(shape, memory_bytes, pending, writers).saturating_sub(rounds_bytes);
    bytes.max(PassPlan::least_bytes(shape, pending + writers))
}

fn least_common_bytes(shape: Shape, pending: usize, writers: usize) -> usize {
    let others = (2 * shape.group_bytes()).max(ROUNDS_BYTES);
    others.max(PassPlan::least_bytes(shape, pending + writers))
}

/// The least RAM of a sketch.
pub(super) fn least_bytes(shape: Shape, pending: usize, writers: usize) -> usize {
    least_common_bytes(shape, pending, writers) + writers * (WRITER_BYTES + Buffer::least_bytes())
}

fn decode(name: &str, entry: &Entry) -> Result<State> {
    entry.require_since(name, registry::FREQUENCY, OLDEST_VERSION)?;
    State::decode(&entry.record.state).map_err(|error| error.in_file(Path::new(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_writer_has_a_buffer_of_some_use_whatever_the_memory() {
        for writers in [1, 2, 16, 300, 512, 1024] {
            for pending in [0, 16, 1024] {
                let shape = FrequencyOptions::new().bytes(64 << 12, 5).to_shape().unwrap();
                let least = least_bytes(shape, pending, writers);
                for memory_bytes in [least, least + 1, least + 4096, 3 * least / 2, 3 * least, 1 << 40] {
                    let buffer = buffer_bytes(shape, memory_bytes, pending, writers);
                    assert!(
                        buffer >= Buffer::least_bytes(),
                        "{buffer} of {memory_bytes} for {writers} writers"
                    );
                    let all = writers * (buffer + WRITER_BYTES);
                    assert!(all + pass_bytes(shape, memory_bytes, pending, writers) <= memory_bytes);
                }
            }
        }
    }
}
