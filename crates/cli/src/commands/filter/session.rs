//! The store of a command that fills a filter: kept in a directory, or a scratch one that vanishes with the command.
//!
//! ```text
//!   --memory ┬─ 1/8    chunks on their way      text, hashes and row lists, for all threads together
//!            ├─ 3/8    the filter               its buffer, packed runs, fences, merges; 16 MiB at least
//!            ├─ 1/4    keys that wait           to be asked for together
//!            ├─ 1/32   rows that wait           before they go to a file
//!            └─ 7/32   the rest                 windows of compressed inputs, buffers of files, blocks between others
//! ```

use super::NAME;
use super::scratch::Scratch;
use crate::arguments::{FilterArguments, InputArguments, MachineArguments, PANES};
use crate::commands::stream::working_threads;
use crate::commands::{input, open_to_write};
use crate::failure::Failure;
use crate::run_state::{FilterState, Job, RunState, Window, WindowKind};
use crate::stream_fields::StreamFields;
use crate::{process, units};
use overbank::Seed;
use overbank::filter::cascade::{Filter, FilterOptions};
use overbank::profile::ProfilePlan;
use overbank::store::{Store, StoreOptions};
use overbank_ingest::Options;
use std::path::Path;

/// Keys that a filter expects unless told otherwise.
const KEYS: u64 = 1_000_000_000;
/// The share of new keys that it may take for seen ones unless told otherwise.
const ERROR: f64 = 1e-6;
/// The least of all memory: less leaves nothing for chunks beside the least of the shares.
pub(crate) const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The least of the filter's share.
const FILTER_BYTES_MIN: usize = 16 << 20;

/// What a command asks of the store that it fills.
pub(crate) struct Wanted<'a> {
    /// The directory that is kept; without one, a scratch directory.
    pub(crate) store: Option<&'a Path>,
    pub(crate) filter: &'a FilterArguments,
    /// What is the key.
    pub(crate) input: &'a InputArguments,
    pub(crate) machine: &'a MachineArguments,
    /// A window, if one was given.
    pub(crate) window: Option<Window>,
    pub(crate) resume: bool,
    pub(crate) append: bool,
    pub(crate) job: Job,
}

/// A store with its filter.
pub(crate) struct Session {
    pub(crate) store: Store,
    filter: Filter,
    /// The state of the run that is gone on with.
    pub(crate) resumed: Option<FilterState>,
    pub(crate) job: Job,
    pub(crate) window: Window,
    /// Whether the store outlives the run.
    pub(crate) kept: bool,
}

impl Session {
    /// Opens or makes the store; without a directory, in `scratch`. The options were checked by [`check_options`].
    pub(crate) fn open(wanted: &Wanted<'_>, threads: usize, scratch: &Scratch) -> Result<Self, Failure> {
        let machine = wanted.machine;
        let mut options = options(wanted.filter, machine.memory, wanted.window)?;
        let mut store_options = StoreOptions::new()
            .memory_bytes(bytes(machine.memory))
            .hash_kind(machine.hash.into())
            .threads(threads);
        if let Some(seed) = machine.seed {
            store_options = store_options.seed(Seed(u128::from(seed)));
        }
        let store = match wanted.store {
            Some(directory) => open_to_write(directory, store_options, machine)?,
            None => Store::nameless(scratch.place()?, store_options)?,
        };
        if store.record(NAME).is_none() && !store.summaries().is_empty() {
            return Err(Failure::Usage(format!(
                "{} holds other summaries and no filter; give another directory",
                wanted.store.unwrap_or(Path::new("the store")).display()
            )));
        }
        let position = store.position();
        let state = if position.is_empty() { None } else { Some(FilterState::from_bytes(&position)?) };
        let (mut window, mut resumed) = (wanted.window.unwrap_or_default(), None);
        if let Some(directory) = wanted.store
            && store.record(NAME).is_some()
        {
            let stored = Filter::stored_options(&store, NAME)?;
            (window, resumed) = take_up(wanted, &stored, state, &directory.display().to_string())?;
            options = stored.writers(1).memory_bytes(options.chosen_memory_bytes());
        }
        // A run that is gone on with has its reader compare all that it was asked for.
        if let Some(directory) = wanted.store.filter(|_| resumed.is_none()) {
            StreamFields::new(wanted.input, None, None).adopt(&store, directory)?;
        }
        let filter = store.filter(NAME, options)?;
        Ok(Self { store, filter, resumed, job: wanted.job, window, kept: wanted.store.is_some() })
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The run that is gone on with.
    pub(crate) fn resumed_run(&self) -> Option<&RunState> {
        self.resumed.as_ref().map(|state| &state.run)
    }
}

/// Refuses what no filter can be, before anything is opened or made.
pub(crate) fn check_options(
    arguments: &FilterArguments,
    memory_bytes: u64,
    window: Option<Window>,
    threads: usize,
) -> Result<(), Failure> {
    let options = options(arguments, memory_bytes, window)?;
    options.plan(options.expected_keys(), threads)?;
    Ok(())
}

/// The window of a store, and the run to go on with, if the arguments allow to go on with them.
fn take_up(
    wanted: &Wanted<'_>,
    stored: &FilterOptions,
    state: Option<FilterState>,
    place: &str,
) -> Result<(Window, Option<FilterState>), Failure> {
    let differs = |what: &str, was: &str, is: &str| {
        Err(Failure::Usage(format!(
            "{place} was made with {what} {was}, not {is}; leave it away, or give another directory"
        )))
    };
    if let Some(error) = wanted.filter.error.filter(|error| *error != stored.rate()) {
        return differs("--error", &stored.rate().to_string(), &error.to_string());
    }
    let window = state.as_ref().map_or_else(Window::default, |state| state.window);
    if let Some(asked) =
        wanted.window.filter(|asked| (asked.kind, asked.length) != (window.kind, window.length))
    {
        return differs("a window of", &shown(window), &shown(asked));
    }
    if state.as_ref().is_some_and(|state| !state.run.complete) && !wanted.resume && !wanted.append {
        return Err(Failure::Usage(format!(
            "{place} remembers a run that was interrupted; give --resume to go on with it, --append to leave it at that, or \
             another directory"
        )));
    }
    let interrupted = state.as_ref().filter(|state| wanted.resume && !state.run.complete);
    if let Some(job) =
        interrupted.map(|state| state.job).filter(|job| ![Job::Unknown, wanted.job].contains(job))
    {
        return Err(Failure::Usage(format!(
            "{place} remembers an interrupted run of a command that {}, so this one, which {}, cannot go on with it; give the \
             same command again, or another directory",
            job.shown(),
            wanted.job.shown()
        )));
    }
    // A run that was whole is gone on with behind its end.
    Ok((window, state.filter(|_| wanted.resume)))
}

/// The options of a new filter that has a part of `memory_bytes`.
pub(crate) fn options(
    arguments: &FilterArguments,
    memory_bytes: u64,
    window: Option<Window>,
) -> Result<FilterOptions, Failure> {
    check_memory(memory_bytes)?;
    Ok(FilterOptions::new()
        .memory_bytes(filter_bytes(memory_bytes))
        .keys(arguments.keys.unwrap_or(KEYS))
        .false_positive_rate(arguments.error.unwrap_or(ERROR))
        .panes(if window.is_some() { PANES } else { 0 }))
}

/// Refuses memory that is too little for its shares, or more than the machine has.
pub(crate) fn check_memory(memory_bytes: u64) -> Result<(), Failure> {
    check_memory_of(memory_bytes, MEMORY_BYTES_MIN)
}

/// As [`check_memory`], of a store that needs so much, with the rows before it.
fn check_memory_of(memory_bytes: u64, least_bytes: u64) -> Result<(), Failure> {
    if memory_bytes < least_bytes {
        return Err(Failure::Usage(format!(
            "--memory cannot be {}: a store and the rows before it need {}",
            units::bytes(memory_bytes),
            units::bytes(least_bytes)
        )));
    }
    process::check_memory(memory_bytes)
}

/// Chunks as a profile of half the memory has them, rows and windows as one of all of it; and how many threads work on them. What is done
/// with the rows needs so many bytes at least.
pub(crate) fn fit_chunks(
    options: &mut Options,
    machine: &MachineArguments,
    least_bytes: u64,
) -> Result<usize, Failure> {
    check_memory_of(machine.memory, least_bytes)?;
    let [all, half] = [1, 2].map(|parts| ProfilePlan::for_memory(machine.memory / parts));
    let (all, half) = (all?, half?);
    let threads = working_threads(machine, &half);
    input::fit_chunks(options, &all, threads);
    (options.chunk_bytes, options.chunk_lines) = (half.chunk_bytes(threads), half.chunk_rows(threads));
    Ok(threads)
}

/// The share of the filter.
pub(crate) fn filter_bytes(memory_bytes: u64) -> usize {
    bytes(memory_bytes / 8 * 3).max(FILTER_BYTES_MIN)
}

/// The share of keys that wait: the more there are, the fewer sweeps over flash answer them. Where there is enough for the parser's least,
/// it is as large as the filter's.
pub(crate) fn waiting_bytes(memory_bytes: u64) -> usize {
    const AMPLE_BYTES: u64 = 128 << 20;
    bytes(memory_bytes / 4 + memory_bytes.saturating_sub(AMPLE_BYTES) / 4)
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
