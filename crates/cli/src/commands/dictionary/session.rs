//! The store of a command that changes a dictionary.
//!
//! ```text
//!   --memory ┬─ 1/8     chunks on their way      text and what goes with keys, for all threads together
//!            ├─ 5/8     the dictionary           its memtables, indexes, merges; 16 MiB at least
//!            └─ 1/4     the rest                 windows of compressed inputs, buffers of files, blocks between others
//! ```

use super::NAME;
use super::open::{bytes, no_dictionary};
use super::state::{DictionaryState, Job};
use crate::arguments::{CompressionName, MachineArguments, MergeName, PairArguments, ShapeArguments};
use crate::commands::filter::session::check_memory;
use crate::commands::open_to_write;
use crate::failure::Failure;
use crate::run_state::RunState;
use crate::stream_fields::StreamFields;
use overbank::Seed;
use overbank::dictionary::{Compression, Dictionary, DictionaryOptions, MergeOperator, Numbers};
use overbank::store::{Store, StoreOptions};
use overbank_ingest::{KeyForm, Payload};
use std::path::Path;

/// The least of a dictionary that is written.
const DICTIONARY_BYTES_MIN: u64 = 16 << 20;

/// What a command asks of the store whose dictionary it changes.
pub(super) struct Wanted<'a> {
    pub(super) store: &'a Path,
    pub(super) machine: &'a MachineArguments,
    pub(super) options: DictionaryOptions,
    pub(super) fields: StreamFields,
    pub(super) job: Job,
    pub(super) resume: bool,
    pub(super) append: bool,
}

/// A store with its dictionary.
pub(super) struct Session {
    pub(super) store: Store,
    pub(super) dictionary: Dictionary,
    /// The run that is gone on with.
    pub(super) resumed: Option<RunState>,
    pub(super) job: Job,
}

impl Session {
    /// Opens the store, or makes it for a build.
    pub(super) fn open(wanted: Wanted<'_>, threads: usize) -> Result<Self, Failure> {
        let Wanted { store: place, machine, job, .. } = wanted;
        let mut options = StoreOptions::new()
            .memory_bytes(bytes(machine.memory))
            .hash_kind(machine.hash.into())
            .threads(threads);
        if let Some(seed) = machine.seed {
            options = options.seed(Seed(u128::from(seed)));
        }
        let store = match job {
            Job::Build => open_to_write(place, options, machine)?,
            Job::Update | Job::Delete => Store::open(place, options)?,
        };
        let resumed = if store.record(NAME).is_some() {
            take_up(&wanted, &store)?
        } else if job != Job::Build {
            return Err(no_dictionary(place));
        } else if !store.summaries().is_empty() {
            return Err(Failure::Usage(format!(
                "{} holds other summaries and no dictionary; give another directory",
                place.display()
            )));
        } else {
            wanted.fields.adopt(&store, place)?;
            None
        };
        let dictionary = store.dictionary(NAME, wanted.options)?;
        Ok(Self { store, dictionary, resumed, job })
    }
}

/// The run to go on with, if the arguments allow to change the dictionary of a store.
fn take_up(wanted: &Wanted<'_>, store: &Store) -> Result<Option<RunState>, Failure> {
    let place = wanted.store.display();
    let position = store.position();
    // What was put together from other stores had no stream.
    let state = if position.is_empty() { None } else { Some(DictionaryState::from_bytes(&position)?) };
    let interrupted = state.as_ref().filter(|state| !state.run.complete);
    if let Some(other) = interrupted.map(|state| state.job).filter(|job| *job != wanted.job && !wanted.append)
    {
        return Err(Failure::Usage(format!(
            "{place} remembers an interrupted run of `overbank {}`; give that command again with --resume, or --append to \
             `dict update` or `dict delete` to leave it at that",
            other.shown()
        )));
    }
    match (wanted.job, interrupted) {
        (_, Some(_)) if !wanted.resume && !wanted.append => {
            return Err(Failure::Usage(format!(
                "{place} remembers a run that was interrupted; give --resume to go on with it, or another directory"
            )));
        }
        (Job::Build, None) if !wanted.resume => {
            return Err(Failure::Usage(format!(
                "{place} already holds a dictionary; add to it with `overbank dict update`, or give another directory"
            )));
        }
        _ => {}
    }
    if let Some(stored) = StreamFields::of(store)? {
        // Keys as a whole are the rows of a list, or come from another dictionary.
        let (was, is) = (stored.len().max(1), wanted.fields.len().max(1));
        if was != is && (was == 1 || wanted.fields.len() > 0) {
            return Err(Failure::Usage(format!(
                "{place} holds keys made with {}, and keys made with {} would mean something else; give as many fields, or another \
                 directory",
                stored.shown_key(),
                wanted.fields.shown_key()
            )));
        }
    }
    // A run that was whole is gone on with behind its end.
    let is_own = state.as_ref().is_some_and(|state| state.job == wanted.job);
    Ok(state.filter(|_| wanted.resume && is_own).map(|state| state.run))
}

/// The fields that make the keys.
pub(super) fn fields(input: &crate::arguments::InputArguments) -> Result<StreamFields, Failure> {
    if input.key_form() == KeyForm::Numbers {
        return Err(Failure::Usage(
            "--integers is for stores that keep hashes alone; a dictionary keeps keys as their text, so leave it away".to_owned(),
        ));
    }
    Ok(StreamFields::new(input, None, None))
}

/// What goes with a key.
pub(super) fn payload(rows: &PairArguments) -> Payload {
    match (rows.value_row, rows.values()) {
        (true, _) => Payload::Row,
        (false, fields) if fields.is_empty() => Payload::Natural,
        (false, fields) => Payload::Fields(fields),
    }
}

/// The options of a dictionary that has its share of `memory_bytes`.
pub(super) fn options(memory_bytes: u64) -> Result<DictionaryOptions, Failure> {
    check_memory(memory_bytes)?;
    Ok(DictionaryOptions::new().memory_bytes(bytes((memory_bytes / 8 * 5).max(DICTIONARY_BYTES_MIN))))
}

/// These options with files like `shape`.
pub(super) fn shaped(options: DictionaryOptions, shape: &ShapeArguments) -> DictionaryOptions {
    let compression = match shape.compression {
        CompressionName::None => Compression::None,
        CompressionName::Lz4 => Compression::Lz4,
        CompressionName::Zstd => Compression::Zstd,
    };
    options.page_bytes(shape.page).compression(compression).ranks(shape.ranks)
}

/// The operator of a name.
pub(super) fn operator(name: MergeName) -> MergeOperator {
    match name {
        MergeName::Append => MergeOperator::Append,
        MergeName::Sum => MergeOperator::Sum(Numbers::Text),
        MergeName::Max => MergeOperator::Max(Numbers::Text),
        MergeName::Min => MergeOperator::Min(Numbers::Text),
        MergeName::SumBinary => MergeOperator::Sum(Numbers::Binary),
        MergeName::MaxBinary => MergeOperator::Max(Numbers::Binary),
        MergeName::MinBinary => MergeOperator::Min(Numbers::Binary),
    }
}
