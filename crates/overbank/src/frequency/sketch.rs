//! A sketch as its handles share it: what it is made of. What it does stands in the files that have its parts.
//!
//! ```text
//!   Sketch ─┬─ slots     buffers of updates, one thread at a time in each       slots.rs ◀─ intake.rs
//!           ├─ table     what is on flash, under a short lock                   table.rs ◀─ query.rs, rounds.rs, estimates.rs
//!           └─ upkeep    one pass, commit or change of the whole at a time      commitment.rs ◀─ upkeep.rs, pass.rs, saved.rs, scan.rs
//! ```

use super::commitment::Upkeep;
use super::flash::PagesFile;
use super::memory::Buffer;
use super::shape::Shape;
use super::slots::WriterSlot;
use super::table::Table;
use crate::error::{invalid, missing};
use crate::lock::{lock, read};
use crate::sketch::HashId;
use crate::store::{CommitId, Files, Reservation};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Sketches are numbered as they are opened: two that are merged are locked in the order of their numbers.
static SKETCHES: AtomicU64 = AtomicU64::new(0);

/// The state behind every handle of one sketch.
#[derive(Debug)]
pub(crate) struct Sketch {
    name: String,
    /// Of how many panes the window has for which it was opened; `None` where it was not.
    pub(super) panes: Option<usize>,
    /// Its place in the order of locks.
    pub(super) number: u64,
    pub(super) hash_id: HashId,
    pub(super) files: Files,
    /// Where the store is, if it cannot be written, and the commit that this is of.
    read_only: Option<(PathBuf, CommitId)>,
    /// Logs are written while the next part of them is composed.
    pub(super) write_behind: bool,
    pub(super) pending: usize,
    /// Most lanes of a pass.
    pub(super) lanes_max: AtomicUsize,
    /// What the options asked for.
    pub(super) memory_bytes: usize,
    /// RAM of a pass, for all its lanes.
    pub(super) pass_bytes: usize,
    /// The last sequence that was drawn.
    pub(super) sequence: AtomicU64,
    /// Logs, those counted that are being written by themselves.
    pub(super) log_count: AtomicUsize,
    /// Whether the store has closed it, and its memory is given back.
    pub(super) is_closed: AtomicBool,
    /// Whether a pass or an estimate has seen a cell that stands at its maximum.
    pub(super) saturated: AtomicBool,
    pub(super) slots: Vec<WriterSlot>,
    pub(super) table: Mutex<Table>,
    pub(super) upkeep: Mutex<Upkeep>,
    /// Of the first pane of a window: writers to the newest pane hold it for reading, and who moves the window on for writing.
    pub(super) window: RwLock<()>,
    /// Of its own, or of the window that it is a pane of.
    pub(super) memory: Arc<Memory>,
}

/// The RAM of a sketch, or of a window's panes, which use it in turn.
#[derive(Debug)]
pub(super) struct Memory {
    reservation: Mutex<Option<Reservation>>,
    /// Whoever has it may hold two long rounds of pages; others that ask at the same time hold short ones.
    pub(super) long_rounds: Mutex<()>,
}

impl Memory {
    pub(super) fn new(reservation: Reservation) -> Self {
        Memory { reservation: Mutex::new(Some(reservation)), long_rounds: Mutex::new(()) }
    }

    /// How much it is; 0 once it was given back.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.reservation).as_ref().map_or(0, Reservation::bytes)
    }

    pub(super) fn give_back(&self) {
        *lock(&self.reservation) = None;
    }
}

/// What a sketch is made of, beside its table.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) panes: Option<usize>,
    pub(super) hash_id: HashId,
    pub(super) files: Files,
    pub(super) read_only: Option<(PathBuf, CommitId)>,
    pub(super) threads: usize,
    pub(super) pending: usize,
    pub(super) memory_bytes: usize,
    pub(super) pass_bytes: usize,
    pub(super) buffers: Vec<Buffer>,
    pub(super) memory: Arc<Memory>,
}

impl Sketch {
    pub(super) fn new(parts: Parts, table: Table, sequence: u64, saturated: bool, upkeep: Upkeep) -> Self {
        let Parts {
            name,
            panes,
            hash_id,
            files,
            read_only,
            threads,
            pending,
            memory_bytes,
            pass_bytes,
            buffers,
            memory,
        } = parts;
        let slot = |buffer| WriterSlot::new(table.shape, buffer);
        Sketch {
            name,
            panes,
            is_closed: AtomicBool::new(false),
            number: SKETCHES.fetch_add(1, Ordering::Relaxed),
            hash_id,
            files,
            read_only,
            write_behind: threads > 0,
            pending,
            lanes_max: AtomicUsize::new(if threads == 0 { 1 } else { 2 * (threads + 1) }),
            memory_bytes,
            pass_bytes,
            sequence: AtomicU64::new(sequence),
            log_count: AtomicUsize::new(table.logs.len()),
            saturated: AtomicBool::new(saturated),
            slots: buffers.into_iter().map(slot).collect(),
            table: Mutex::new(table),
            upkeep: Mutex::new(upkeep),
            window: RwLock::new(()),
            memory,
        }
    }

    pub(super) fn shape(&self) -> Shape {
        lock(&self.table).shape
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Refuses all that is asked in a fork, and after the store has closed the sketch.
    pub(super) fn usable(&self) -> Result<()> {
        self.files.check_process()?;
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(missing("open summary", &self.name));
        }
        Ok(())
    }

    pub(super) fn writable(&self) -> Result<()> {
        self.usable()?;
        match &self.read_only {
            Some((path, _)) => Err(Error::ReadOnly { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Says of damage whether it is none: a writer has written over what this snapshot had.
    pub(super) fn outdated(&self, error: Error) -> Error {
        match self.read_only {
            Some((_, held)) => self.files.outdated(held, error),
            None => error,
        }
    }

    pub(super) fn require_plain(&self, operation: &'static str) -> Result<()> {
        if self.shape().is_conservative {
            return invalid("mode", "conservative", format!("cells raised so do not {operation}"));
        }
        Ok(())
    }

    pub(super) fn note_saturated(&self, is_full: bool) {
        if is_full {
            self.saturated.store(true, Ordering::Relaxed);
        }
    }

    /// How many updates of weight 1 a slot's buffer holds.
    pub(super) fn buffer_updates(&self) -> usize {
        read(&self.slots[0].waiting).buffer.capacity()
    }

    /// How many logs wait to be applied.
    pub(super) fn pending_chunks(&self) -> usize {
        lock(&self.table).logs.len()
    }

    /// The file of the pages, made if there is none. Upkeep's lock is held.
    pub(super) fn file_to_write(&self) -> Result<Arc<PagesFile>> {
        let (shape, file) = {
            let table = lock(&self.table);
            (table.shape, table.file.clone())
        };
        if let Some(file) = file {
            return Ok(file);
        }
        let file = PagesFile::create(&self.files, shape)?;
        lock(&self.table).file = Some(Arc::clone(&file));
        Ok(file)
    }

    #[cfg(test)]
    pub(super) fn logs(&self) -> Arc<Vec<Arc<super::log::Log>>> {
        Arc::clone(&lock(&self.table).logs)
    }

    #[cfg(test)]
    pub(super) fn extents(&self) -> u32 {
        lock(&self.table).file.as_ref().map_or(0, |file| file.extents())
    }
}
