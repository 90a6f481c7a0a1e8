//! A frequency sketch in its store: what a commit writes, and how it comes back.
//!
//! A commit turns the buffer into a log (or applies it, where no chunk may be pending), syncs what is new, and names the
//! table of groups, the pages file and the logs. Whether the record arrives or not, the sketch in RAM is right: what was
//! written for it is not named, and not written over.

use super::flash::Pages;
use super::format::{self, State};
use super::intake::Intake;
use super::log::Log;
use super::memory::Buffer;
use super::options::FrequencyOptions;
use super::place::Shape;
use super::rounds::ROUNDS_BYTES;
use super::writer::WRITER_BYTES;
use super::{Frequency, pass};
use crate::error::invalid;
use crate::lock::lock;
use crate::store::{
    Entry, FileRef, Participant, Prepared, Record, Reservation, Store, Structure, lock_whole, registry,
};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// More logs than this do not fit the inline state with room to spare.
const PENDING_MAX: usize = 1024;

impl Store {
    /// The frequency sketch of this name: the stored one, or a new one.
    ///
    /// # Errors
    /// As [`Frequency::open`] and [`Frequency::create`]; `Incompatible` if the stored one has another shape.
    pub fn frequency(&self, name: &str, options: FrequencyOptions) -> Result<Arc<Mutex<Frequency>>> {
        Frequency::open_or_create(self, name, options, None)
    }
}

/// RAM that several sketches use in turn, where they have none of their own.
pub(super) type Shared = Option<Arc<Reservation>>;

impl Frequency {
    /// A new, empty sketch that takes part in the store's commits. Its RAM comes from the store's budget.
    ///
    /// # Errors
    /// `InvalidOption`, `BudgetExceeded`, `AlreadyExists`, `ReadOnly`.
    pub fn create(store: &Store, name: &str, options: FrequencyOptions) -> Result<Arc<Mutex<Self>>> {
        Self::create_with(store, name, options, None)
    }

    /// As [`Store::frequency`].
    pub(super) fn open_or_create(
        store: &Store,
        name: &str,
        options: FrequencyOptions,
        memory: Shared,
    ) -> Result<Arc<Mutex<Self>>> {
        let Some(entry) = store.record(name) else {
            return Self::create_with(store, name, options, memory);
        };
        let (expected, found) = (options.to_shape()?, decode(name, &entry)?.shape);
        if expected != found {
            let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
            return Err(Error::Incompatible { what: "the shape", expected, found });
        }
        Self::open_with(store, name, options.writers, memory)
    }

    fn create_with(
        store: &Store,
        name: &str,
        options: FrequencyOptions,
        memory: Shared,
    ) -> Result<Arc<Mutex<Self>>> {
        if store.record(name).is_some() {
            return Err(Error::AlreadyExists { what: "summary", name: name.to_owned() });
        }
        if options.pending > PENDING_MAX {
            return invalid("pending", options.pending, "choose at most 1024 chunks");
        }
        let shape = options.to_shape()?;
        let empty = State {
            shape,
            saturated: false,
            pending: options.pending as u32,
            sequence: 0,
            extents: 0,
            epoch: 0,
            weight: 0,
            memory_bytes: options.memory_bytes as u64,
            logs: Vec::new(),
        };
        let none = (Pages::new(shape), Vec::new());
        let mut sketch = Self::assemble(store, name, empty, none, (options.writers, memory))?;
        sketch.is_changed = true;
        sketch.is_table_changed = true;
        sketch.attach(store, name)
    }

    /// The sketch of this name at the store's last commit; in a store that is open read-only it can be asked only.
    ///
    /// # Errors
    /// `NotFound`, `Incompatible` if it is another kind of summary, `UnsupportedVersion`, `Corrupt`, `BudgetExceeded`.
    pub fn open(store: &Store, name: &str) -> Result<Arc<Mutex<Self>>> {
        Self::open_for(store, name, 1)
    }

    /// Options of a sketch that the stored one can be merged with.
    pub(crate) fn options_in(store: &Store, name: &str) -> Result<FrequencyOptions> {
        let entry = store.record(name);
        let entry =
            entry.ok_or_else(|| Error::NotFound { what: "frequency sketch", name: name.to_owned() })?;
        let state = decode(name, &entry)?;
        let memory_bytes = usize::try_from(state.memory_bytes).unwrap_or(usize::MAX);
        Ok(FrequencyOptions::of(state.shape, state.pending as usize, memory_bytes))
    }

    pub(crate) fn open_for(store: &Store, name: &str, writers: usize) -> Result<Arc<Mutex<Self>>> {
        Self::open_with(store, name, writers, None)
    }

    fn open_with(store: &Store, name: &str, writers: usize, memory: Shared) -> Result<Arc<Mutex<Self>>> {
        let entry = store
            .record(name)
            .ok_or_else(|| Error::NotFound { what: "frequency sketch", name: name.to_owned() })?;
        let state = decode(name, &entry)?;
        let files = store.files();
        let has_pages = usize::from(state.extents > 0);
        let stored = &entry.record.files;
        if stored.len() != 1 + has_pages + state.logs.len() {
            let expected = (1 + has_pages + state.logs.len()).to_string();
            return Err(corrupt(name, "number of files", expected, stored.len().to_string()));
        }
        let table = format::decode_table(&files.read_blob(&stored[0])?, &state, files.path(stored[0].id))?;
        let pages_ref = (has_pages == 1).then(|| stored[1]);
        let pages_bytes = state.extents.saturating_mul(state.shape.group_bytes() as u64);
        if pages_ref.is_some_and(|file| file.bytes != pages_bytes || !file.is_in_place()) {
            return Err(corrupt(name, "bytes of the pages", pages_bytes.to_string(), "others".to_owned()));
        }
        let pages = Pages::open(files, state.shape, pages_ref, table, state.extents as u32)?;
        let logs = state.logs.iter().zip(&stored[1 + has_pages..]);
        let logs = logs
            .map(|(&(sequence, blocks), file)| Log::open(files, state.shape, *file, sequence, blocks))
            .collect::<Result<_>>()?;
        let mut sketch = Self::assemble(store, name, state, (pages, logs), (writers, memory))?;
        sketch.table = Some(stored[0]);
        sketch.attach(store, name)
    }

    fn assemble(
        store: &Store,
        name: &str,
        state: State,
        (pages, logs): (Pages, Vec<Log>),
        (writers, memory): (usize, Shared),
    ) -> Result<Self> {
        let shape = state.shape;
        let pending = state.pending as usize;
        let wanted_bytes = usize::try_from(state.memory_bytes).unwrap_or(usize::MAX);
        let most_logs = pending.max(logs.len());
        let least_bytes = least_bytes(shape, most_logs, writers);
        if wanted_bytes < least_bytes {
            let why = format!("groups, readers and buffers need at least {least_bytes}");
            return invalid("memory_bytes", wanted_bytes, why);
        }
        let what = format!("frequency sketch {name:?}");
        let reservation = match memory {
            Some(shared) => shared,
            None => Arc::new(store.budget().reserve(&what, wanted_bytes, least_bytes)?),
        };
        let buffer_bytes = buffer_bytes(shape, reservation.bytes(), most_logs, writers);
        let threads = store.workers().threads();
        let intake = Intake::new(
            shape,
            store.files().clone(),
            (0..writers).map(|_| Buffer::new(buffer_bytes)),
            (logs, pending, state.sequence),
            (store.is_read_only().then(|| store.device().path()), threads > 0),
        );
        Ok(Self {
            shape,
            hash_id: store.hasher().into(),
            intake: Arc::new(intake),
            pages,
            lanes_max: if threads == 0 { 1 } else { 2 * (threads + 1) },
            writers_given: 0,
            epoch: state.epoch,
            weight: state.weight,
            saturated: state.saturated,
            is_changed: false,
            table: None,
            prepared_table: None,
            is_table_changed: false,
            memory_bytes: wanted_bytes,
            pass_bytes: pass_bytes(shape, reservation.bytes(), most_logs, writers),
            _reservation: reservation,
        })
    }

    fn attach(self, store: &Store, name: &str) -> Result<Arc<Mutex<Self>>> {
        let is_read_only = store.is_read_only();
        let shared = Arc::new(Mutex::new(self));
        match store.attach(name, Arc::clone(&shared) as Arc<dyn Participant>) {
            // Any number of readers may ask; one of them is enough to vouch for the blocks.
            Err(Error::AlreadyExists { .. }) if is_read_only => Ok(shared),
            attached => attached.map(|()| shared),
        }
    }
}

impl Participant for Mutex<Frequency> {
    fn structure(&self) -> Structure {
        registry::FREQUENCY.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        lock_whole(self)?.prepare()
    }

    fn committed(&self) {
        lock(self).committed();
    }

    fn is_changed(&self) -> bool {
        lock(self).is_uncommitted()
    }

    fn live_blocks(&self, _: &FileRef) -> Option<Vec<Range<u64>>> {
        Some(lock(self).pages.live_blocks())
    }
}

impl Frequency {
    fn prepare(&mut self) -> Result<Prepared> {
        let intake = Arc::clone(&self.intake);
        let files = intake.files();
        let mut held = intake.hold();
        self.hear(&mut held);
        if self.prepared_table.take().is_some() {
            // That commit failed, so what was new to it is still.
            self.pages.call_off();
            (self.is_changed, self.is_table_changed) = (true, true);
        }
        if !self.is_changed {
            return Ok(Prepared::Unchanged);
        }
        self.move_on(&mut held)?;
        self.pages.sync()?;
        for log in held.logs.iter_mut().filter(|log| !log.is_synced) {
            log.file.sync()?;
            log.is_synced = true;
        }
        let table = match self.table.filter(|_| !self.is_table_changed) {
            Some(table) => table,
            None => files.write_blob(&format::encode_table(self.pages.table()))?,
        };
        self.prepared_table = Some(table);
        let state = State {
            shape: self.shape,
            saturated: self.saturated,
            pending: intake.pending() as u32,
            sequence: intake.sequence(),
            extents: self.pages.extents().into(),
            epoch: self.epoch,
            weight: self.weight,
            memory_bytes: self.memory_bytes as u64,
            logs: held.logs.iter().map(|log| (log.sequence, log.blocks())).collect(),
        };
        let mut named = vec![table];
        named.extend(self.pages.file_ref());
        named.extend(held.logs.iter().map(|log| log.file_ref));
        // What changes from here on is not in this commit.
        self.pages.prepare();
        (self.is_changed, self.is_table_changed) = (false, false);
        Ok(Prepared::Changed(Record { state: state.encode(), files: named }))
    }

    fn committed(&mut self) {
        self.table = self.prepared_table.take();
        self.pages.committed();
    }

    /// Whether there is anything that no durable record has.
    fn is_uncommitted(&mut self) -> bool {
        let intake = Arc::clone(&self.intake);
        self.hear(&mut intake.hold());
        self.is_changed || self.prepared_table.is_some()
    }
}

/// RAM of each writer's buffer: what the writers of logs leave, and what passes, merges (two groups) and estimates (two
/// rounds) need, of which one happens at a time. The buffers keep their memory: an allocator that gets it back in one
/// place and hands it out in another holds it twice.
pub(super) fn buffer_bytes(shape: Shape, memory_bytes: usize, pending: usize, writers: usize) -> usize {
    let rest = pass_bytes(shape, memory_bytes, pending, writers) + writers * WRITER_BYTES;
    memory_bytes.saturating_sub(rest) / writers
}

/// RAM beside the buffers and the writers of logs.
fn pass_bytes(shape: Shape, memory_bytes: usize, pending: usize, writers: usize) -> usize {
    (memory_bytes / 3).max(least_pass_bytes(shape, pending, writers))
}

fn least_pass_bytes(shape: Shape, pending: usize, writers: usize) -> usize {
    let others = (2 * shape.group_bytes()).max(ROUNDS_BYTES);
    others.max(pass::Plan::least_bytes(shape, pending + writers))
}

fn least_bytes(shape: Shape, pending: usize, writers: usize) -> usize {
    least_pass_bytes(shape, pending, writers) + writers * (WRITER_BYTES + Buffer::least_bytes())
}

fn decode(name: &str, entry: &Entry) -> Result<State> {
    entry.require(name, registry::FREQUENCY)?;
    State::decode(&entry.record.state)
}

fn corrupt(name: &str, what: &'static str, expected: String, found: String) -> Error {
    Error::Corrupt { path: name.into(), at: 0, what, expected, found }
}
