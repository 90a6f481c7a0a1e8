//! The store of a pass: made anew, or taken up again if the arguments allow it.

use super::PROFILE;
use super::job::{Demand, Flash, Job};
use crate::failure::Failure;
use crate::run_state::RunState;
use crate::stream_fields::StreamFields;
use crate::units;
use overbank::Seed;
use overbank::profile::{Measure, Profile, ProfileOptions};
use overbank::store::{Store, StoreOptions};
use std::path::Path;

/// A store with its profile: on disk with `--store`, else in memory for this run alone.
pub(super) struct Session {
    pub(super) store: Store,
    pub(super) profile: Profile,
    /// The run that is gone on with.
    pub(super) resumed: Option<RunState>,
    /// Whether the store outlives the run.
    pub(super) kept: bool,
}

impl Session {
    pub(super) fn open(job: &Job<'_>, threads: usize) -> Result<Self, Failure> {
        let arguments = job.arguments;
        let memory_bytes = usize::try_from(arguments.machine.memory).unwrap_or(usize::MAX);
        let mut options = StoreOptions::new()
            .memory_bytes(memory_bytes)
            .hash_kind(arguments.machine.hash.into())
            .threads(0);
        if let Some(seed) = arguments.machine.seed {
            options = options.seed(Seed(u128::from(seed)));
        }
        let store = match &arguments.store {
            Some(directory) => super::open_to_write(directory, options, &arguments.machine)?,
            None => Store::in_memory(options)?,
        };
        if !super::has_profile(&store) && !store.summaries().is_empty() {
            return Err(Failure::Usage(format!(
                "{} holds something else than a profile; give another directory",
                arguments.store.as_deref().unwrap_or(Path::new("the store")).display()
            )));
        }
        let (profile, resumed) = if super::has_profile(&store) {
            Self::recover(job, &store, threads)?
        } else {
            let measure = if job.value.is_some() { Measure::Value } else { Measure::KeyLength };
            let options = ProfileOptions::new().memory_bytes(arguments.machine.memory).measure(measure);
            let options =
                job.flash.iter().fold(options, |options, flash| options.flash(flash.options.clone()));
            (store.profile(PROFILE, options.threads(threads))?, None)
        };
        // A run that is gone on with has its reader compare all that it was asked for.
        if let Some(directory) = arguments.store.as_ref().filter(|_| resumed.is_none()) {
            let weight = arguments.weight.as_ref();
            StreamFields::new(&arguments.input, weight, job.value).adopt(&store, directory)?;
        }
        Ok(Self { store, profile, resumed, kept: arguments.store.is_some() })
    }

    /// The profile of a store that has one, and the run to go on with, if the arguments allow to go on with it.
    fn recover(job: &Job<'_>, store: &Store, threads: usize) -> Result<(Profile, Option<RunState>), Failure> {
        let arguments = job.arguments;
        let directory = arguments.store.as_deref().unwrap_or(Path::new("the store")).display();
        let position = store.position();
        if position.is_empty() && !arguments.append {
            return Err(Failure::Usage(format!(
                "{directory} was merged from other stores and has no stream to go on with; give --append to add files, or \
                 another directory"
            )));
        }
        // What was merged is complete, and has no place in a stream.
        let state = if position.is_empty() { None } else { Some(RunState::from_bytes(&position)?) };
        let is_complete = state.as_ref().is_none_or(|state| state.complete);
        let needed = ProfileOptions::stored(store, PROFILE)?.chosen_memory_bytes();
        if needed > arguments.machine.memory {
            return Err(Failure::Usage(format!(
                "{directory} was made with --memory {}; give at least as much",
                units::bytes(needed)
            )));
        }
        let profile = store.profile(PROFILE, ProfileOptions::new().threads(threads))?;
        let rows = units::count(profile.rows()?);
        let (what, remedy) = if is_complete {
            ("the whole profile of a stream", "--append to add more files, or another directory")
        } else {
            ("a profile that was interrupted", "--resume to go on with it, or another directory")
        };
        if !arguments.resume && !arguments.append {
            return Err(Failure::Usage(format!(
                "{directory} already holds {what}, {rows} rows; give {remedy}"
            )));
        }
        if arguments.append && !is_complete {
            return Err(Failure::Usage(format!(
                "{directory} holds {what}, {rows} rows; give --resume before --append"
            )));
        }
        let measures_value = profile.measure() == Measure::Value;
        if measures_value != job.value.is_some() {
            let (was, remedy) =
                if measures_value { ("with", "give it") } else { ("without", "leave it away") };
            return Err(Failure::Usage(format!("{directory} was made {was} --value; {remedy} again")));
        }
        if let Some(flash) = &job.flash {
            same_sketch(&profile, flash, &directory.to_string())?;
        }
        Ok((profile, state.filter(|_| arguments.resume)))
    }
}

/// Refuses a store that has no sketch on flash, or another one than was asked for.
fn same_sketch(profile: &Profile, wanted: &Flash, directory: &str) -> Result<(), Failure> {
    if wanted.demand == Demand::Nothing {
        return Ok(());
    }
    let Some(stored) = profile.flash()? else {
        return Err(Failure::Usage(format!(
            "{directory} was made without a sketch on flash, and counts from before cannot be added; \
             give another directory, or use profile without --flash"
        )));
    };
    if wanted.cell_bits.is_some_and(|bits| bits != stored.cell_bits) {
        return Err(Failure::Usage(format!(
            "{directory} was made with --cell-bits {}; leave it away, or give another directory",
            stored.cell_bits
        )));
    }
    if wanted.is_conservative && !stored.is_conservative {
        return Err(Failure::Usage(format!(
            "{directory} was made without --conservative; leave it away, or give another directory"
        )));
    }
    let (had, asked) = (stored.layout, wanted.options.layout()?);
    if wanted.demand == Demand::SameSize && had != asked {
        return Err(Failure::Usage(format!(
            "{directory} was made with a sketch of {} columns and {} rows, not {} and {}; leave its size away, or give \
             another directory",
            units::count(had.width()),
            had.depth(),
            units::count(asked.width()),
            asked.depth()
        )));
    }
    Ok(())
}
