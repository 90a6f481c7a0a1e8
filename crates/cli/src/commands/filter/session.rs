//! The store of a command that fills a filter: kept in a directory, or a scratch one that vanishes with the command.
//!
//! ```text
//!   --memory ┬─ 1/4    chunks on their way      text, hashes and row lists, for all threads together
//!            ├─ 7/16   the filter               its buffer, packed runs, fences, merges
//!            ├─ 1/4    keys that wait           to be asked for together
//!            └─ 1/16   rows that wait           before they go to a file, and all else
//! ```

use super::NAME;
use super::scratch::Scratch;
use crate::arguments::{FilterArguments, MachineArguments, PANES};
use crate::failure::Failure;
use crate::run_state::{FilterState, Window, WindowKind};
use crate::{process, units};
use overbank::Seed;
use overbank::filter::cascade::{CascadeFilter, CascadeOptions};
use overbank::store::{Store, StoreOptions};
use overbank_ingest::Position;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys that a filter expects unless told otherwise.
const KEYS: u64 = 1_000_000_000;
/// The share of new keys that it may take for seen ones unless told otherwise.
const ERROR: f64 = 1e-6;
/// Two rates are the same if they were typed the same way.
const SAME_RATE: f64 = 1e-9;

/// What a command asks of the store that it fills.
pub(crate) struct Wanted<'a> {
    /// The directory that is kept; without one, a scratch directory.
    pub(crate) store: Option<&'a Path>,
    pub(crate) filter: &'a FilterArguments,
    pub(crate) machine: &'a MachineArguments,
    /// A window, if one was given.
    pub(crate) window: Option<Window>,
    pub(crate) resume: bool,
    pub(crate) append: bool,
}

/// A store with its filter.
pub(crate) struct Session {
    pub(crate) store: Store,
    filter: Arc<Mutex<CascadeFilter>>,
    /// The state of the run that is gone on with.
    pub(crate) resumed: Option<FilterState>,
    pub(crate) window: Window,
    /// Whether the store outlives the run.
    pub(crate) kept: bool,
}

impl Session {
    /// Opens or makes the store; without a directory, in `scratch`.
    pub(crate) fn open(wanted: &Wanted<'_>, threads: usize, scratch: &mut Scratch) -> Result<Self, Failure> {
        let machine = wanted.machine;
        process::check_memory(machine.memory)?;
        let options = options(wanted.filter, machine.memory, wanted.window);
        // Refused before there is a store.
        options.plan(options.keys, threads)?;
        let mut store_options = StoreOptions::new()
            .memory_bytes(bytes(machine.memory))
            .hash_kind(machine.hash.into())
            .threads(threads);
        if let Some(seed) = machine.seed {
            store_options = store_options.seed(Seed(u128::from(seed)));
        }
        let store = match wanted.store {
            Some(directory) => Store::open_or_create(directory, store_options)?,
            None => Store::create(scratch.make()?, store_options)?,
        };
        let position = store.position();
        let state = if position.is_empty() { None } else { Some(FilterState::from_bytes(&position)?) };
        if store.record(NAME).is_none() && !store.summaries().is_empty() {
            return Err(Failure::Usage(format!(
                "{} holds other summaries and no filter; give another directory",
                wanted.store.unwrap_or(Path::new("the store")).display()
            )));
        }
        let filter = store.cascade(NAME, options)?;
        let mut session = Self {
            store,
            filter,
            resumed: None,
            window: wanted.window.unwrap_or_default(),
            kept: wanted.store.is_some(),
        };
        if let Some(directory) = wanted.store {
            session.take_up(wanted, state, directory)?;
        }
        Ok(session)
    }

    /// Goes on with what a store holds, if the arguments allow it.
    fn take_up(
        &mut self,
        wanted: &Wanted<'_>,
        state: Option<FilterState>,
        directory: &Path,
    ) -> Result<(), Failure> {
        let stored = self.filter().report().options;
        let place = directory.display();
        let differs = |what: &str, was: &str, is: &str| {
            Err(Failure::Usage(format!(
                "{place} was made with {what} {was}, not {is}; leave it away, or give another directory"
            )))
        };
        if let Some(error) = wanted.filter.error
            && (error / stored.false_positive_rate - 1.0).abs() > SAME_RATE
        {
            return differs("--error", &stored.false_positive_rate.to_string(), &error.to_string());
        }
        let Some(state) = state else { return Ok(()) };
        if let Some(window) = wanted.window
            && (window.kind, window.length) != (state.window.kind, state.window.length)
        {
            return differs("a window of", &shown(state.window), &shown(window));
        }
        self.window = state.window;
        if state.run.complete || wanted.append {
            return Ok(());
        }
        if !wanted.resume {
            return Err(Failure::Usage(format!(
                "{place} remembers a run that was interrupted; give --resume to go on with it, --append to leave it at that, or \
                 another directory"
            )));
        }
        self.resumed = Some(state);
        Ok(())
    }

    pub(crate) fn filter(&self) -> MutexGuard<'_, CascadeFilter> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the reader of the run that is gone on with stood.
    pub(crate) fn resume_at(&self) -> Option<&Position> {
        self.resumed.as_ref().map(|state| &state.run.position)
    }
}

/// The options of a new filter that has `memory_bytes` to share with its command.
pub(crate) fn options(
    arguments: &FilterArguments,
    memory_bytes: u64,
    window: Option<Window>,
) -> CascadeOptions {
    CascadeOptions {
        memory_bytes: bytes(memory_bytes / 16 * 7),
        keys: arguments.keys.unwrap_or(KEYS),
        false_positive_rate: arguments.error.unwrap_or(ERROR),
        panes: if window.is_some() { PANES } else { 0 },
        ..CascadeOptions::default()
    }
}

/// The share of keys that wait.
pub(crate) fn waiting_bytes(memory_bytes: u64) -> usize {
    bytes(memory_bytes / 4)
}

/// The share of rows that wait in RAM.
pub(crate) fn spool_bytes(memory_bytes: u64) -> usize {
    bytes(memory_bytes / 32)
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn shown(window: Window) -> String {
    match window.kind {
        WindowKind::None => "no end".to_owned(),
        WindowKind::Rows => format!("{} rows", units::count(window.length)),
        WindowKind::Nanoseconds => units::seconds(window.length as f64 / 1e9),
    }
}
