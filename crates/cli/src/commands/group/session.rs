//! Where groups are kept: in memory and, where that is full, in files without a name; or in a store that commits them.

use super::state::GroupState;
use super::told;
use crate::arguments::GroupedArguments;
use crate::commands::filter::scratch::Scratch;
use crate::commands::open_to_write;
use crate::failure::Failure;
use arrow_schema::{Schema, SchemaRef};
use overbank::Seed;
use overbank::aggregate::GroupsOptions;
use overbank::store::{Store, StoreOptions};
use overbank_table::{Call, SumOverflow, TableGroups, TableOptions};
use std::path::Path;

/// The name of groups in their store.
pub(crate) const NAME: &str = "groups";

/// The share of the memory that groups have; the rest is for what is read, parsed and written.
const GROUPS_SHARE: u64 = 2;
/// The share of the memory that groups are sorted in.
const SORT_SHARE: u64 = 8;

/// Places that a chunk's rows have: no chunk has more.
pub(super) const LG_CHUNK_PLACES: u32 = 20;

/// What groups are of.
pub(super) struct Definition {
    pub(super) schema: Schema,
    pub(super) by: Vec<String>,
    pub(super) calls: Vec<Call>,
    pub(super) overflow: SumOverflow,
}

impl Definition {
    /// The schema of the results.
    pub(super) fn results(&self) -> overbank_table::Result<SchemaRef> {
        TableGroups::results(&self.schema, &self.by, &self.calls, self.overflow)
    }
}

/// A store for groups.
pub(super) struct Session {
    pub(super) store: Store,
    /// What was committed, of the same command, and is gone on with or added to.
    pub(super) before: Option<GroupState>,
    /// Whether the store outlives the run.
    pub(super) is_kept: bool,
}

impl Session {
    /// Opens the store, or makes it. `command` is what is to be computed.
    pub(super) fn open(
        arguments: &GroupedArguments,
        command: &str,
        threads: usize,
    ) -> Result<Session, Failure> {
        let machine = &arguments.machine;
        let memory_bytes = usize::try_from(machine.memory).unwrap_or(usize::MAX);
        let options =
            StoreOptions::new().memory_bytes(memory_bytes).hash_kind(machine.hash.into()).threads(threads);
        let options = machine.seed.into_iter().fold(options, |options, seed| options.seed(Seed(seed.into())));
        let Some(place) = &arguments.store else {
            let store = Store::nameless(Scratch::new(arguments.spool.as_deref()).place()?, options)?;
            return Ok(Session { store, before: None, is_kept: false });
        };
        let store = open_to_write(place, options, machine)?;
        let before = if store.record(NAME).is_some() {
            Some(take_up(arguments, place, &store, command)?)
        } else if store.summaries().is_empty() {
            None
        } else {
            let place = place.display();
            return Err(Failure::Usage(format!(
                "{place} holds something else than groups; give another directory"
            )));
        };
        Ok(Session { store, before, is_kept: true })
    }

    /// The run that is gone on with.
    pub(super) fn resumed(&self, arguments: &GroupedArguments) -> Option<&GroupState> {
        self.before.as_ref().filter(|_| arguments.resume)
    }

    /// Rows that the groups have already.
    pub(super) fn rows_before(&self) -> u64 {
        self.before.as_ref().map_or(0, |state| state.run.position.rows())
    }

    /// The place of the stream's first row: behind all rows of the streams before it.
    pub(super) fn first_place(&self, arguments: &GroupedArguments) -> u64 {
        self.before.as_ref().map_or(0, |state| {
            let chunks = if arguments.append { state.run.position.chunks() } else { 0 };
            state.first_place + (chunks << LG_CHUNK_PLACES)
        })
    }

    /// The groups.
    pub(super) fn groups(
        &self,
        definition: &Definition,
        memory_bytes: u64,
        threads: usize,
    ) -> Result<TableGroups, Failure> {
        let share = |share| usize::try_from(memory_bytes / share).unwrap_or(usize::MAX);
        let groups = GroupsOptions::new().memory_bytes(share(GROUPS_SHARE)).threads(threads);
        let options = TableOptions::new()
            .groups(groups)
            .sort_bytes(share(SORT_SHARE))
            .sum_overflow(definition.overflow);
        let Definition { schema, by, calls, .. } = definition;
        let groups = if self.is_kept {
            TableGroups::stored(schema, by, calls, options, &self.store, NAME)
        } else {
            TableGroups::spilling(schema, by, calls, options, &self.store)
        };
        groups.map_err(told)
    }
}

/// What a store remembers of its groups, if the arguments allow to go on with them.
fn take_up(
    arguments: &GroupedArguments,
    place: &Path,
    store: &Store,
    command: &str,
) -> Result<GroupState, Failure> {
    let place = place.display();
    let state = GroupState::from_bytes(&store.position())?;
    if state.command != command {
        return Err(Failure::Usage(format!(
            "{place} holds groups of another command: {}; give its --by, --agg and the like, or another directory",
            state.command
        )));
    }
    let (what, remedy) = if state.run.complete {
        (
            "the groups of a whole stream",
            "--append to add more files, --resume to write them again, or another directory",
        )
    } else {
        ("a run that was interrupted", "--resume to go on with it, or another directory")
    };
    if !arguments.resume && !arguments.append {
        return Err(Failure::Usage(format!("{place} holds {what}; give {remedy}")));
    }
    if arguments.append && !state.run.complete {
        return Err(Failure::Usage(format!("{place} holds {what}; give --resume before --append")));
    }
    Ok(state)
}
