//! Groups in their store: what a commit names, and how they come back.
//!
//! A commit has all pages go to flash, and names all runs. Merges go on beside it: what they replace stays until a record that does not
//! name it.

use super::Groups;
use super::flash::Spill;
use super::format;
use super::group::GroupHasher;
use super::leaf::Ground;
use super::options::{FlashShares, GroupsOptions, Shares};
use super::run::{AggregateId, RunRules};
use super::shared::Shared;
use super::state::Aggregate;
use super::table::{GroupTable, GroupTreeState};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::lock::lock;
use crate::store::registry::{self, Kind};
use crate::store::{Entry, Openable, Participant, Prepared, Record, Store, Structure};
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Groups that a commit takes in, whatever is computed of them.
trait Kept: Send + Sync {
    /// Has all groups go to flash, and says what a commit names; `None` if nothing has changed.
    fn prepare(&self) -> Result<Option<Record>>;
    fn committed(&self);
    fn is_changed(&self) -> bool;
    fn close(&self);
}

/// Groups in a store, whose handles share them.
pub(super) struct Core {
    kept: Arc<dyn Kept>,
    /// The same, to be taken for what they are.
    shared: Arc<dyn Any + Send + Sync>,
    aggregate: AggregateId,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl Store {
    /// The groups of this name: those that are open, the stored ones, or new ones. Their memory comes from the store's budget; what does
    /// not fit it goes to flash. Keys are hashed as the store does. In a store that is open read-only they can be asked only.
    ///
    /// # Errors
    /// `InvalidOption` for options out of their range and an aggregate of too many words, `BudgetExceeded`; `WrongKind` if something else
    /// has this name; `Incompatible` if they are of another aggregate, by its name and shape; `UnsupportedVersion`, `Corrupt`;
    /// `NotFound` if there are none and the store is open read-only.
    ///
    /// ```
    /// use overbank::aggregate::{Count, GroupsOptions};
    /// use overbank::store::{Store, StoreOptions};
    ///
    /// let store = Store::in_memory(StoreOptions::new())?;
    /// let words = store.groups("words", Count, GroupsOptions::new())?;
    /// words.insert_many(&["to", "be", "or", "not", "to", "be"], &[])?;
    /// store.commit(b"line 1")?;
    /// assert_eq!(words.get(b"be")?.map(|group| group.words[0]), Some(2));
    /// # Ok::<(), overbank::Error>(())
    /// ```
    pub fn groups<A: Aggregate>(
        &self,
        name: &str,
        aggregate: A,
        options: GroupsOptions,
    ) -> Result<Groups<A>> {
        let shares = options.spilling_shares()?;
        let flash = options.flash_shares(self.workers().spawner().threads());
        let hasher = GroupHasher::new(self.hasher(), shares.lg_leaves);
        open(self, name, aggregate, &options, Setup { hasher, shares, flash })
    }
}

impl<A: Aggregate> Groups<A> {
    /// Groups that go to flash where memory is full: to files of `scratch`, which are gone with the groups. Their memory comes from its
    /// budget, and its seed hashes their keys.
    ///
    /// # Errors
    /// As [`Groups::new`]; `BudgetExceeded`; `ReadOnly`.
    pub fn spilling(aggregate: A, options: GroupsOptions, scratch: &Store) -> Result<Groups<A>> {
        let shares = options.spilling_shares()?;
        let flash = options.flash_shares(scratch.workers().spawner().threads());
        let hasher = GroupHasher::new(scratch.hasher(), shares.lg_leaves);
        spilling(scratch, aggregate, &options, Setup { hasher, shares, flash })
    }

    /// Reads everything on flash and checks it: each entry of runs, their order, their number; and records that wait for their leaves.
    ///
    /// # Cost
    /// Each block once, in order. Nothing goes to flash meanwhile that waits for room.
    ///
    /// # Errors
    /// `Corrupt` at the first damage, with its file and place; what the device says.
    pub fn verify(&self) -> Result<()> {
        let shared = self.shared();
        shared.usable()?;
        let Some(spill) = &shared.spill else { return Ok(()) };
        // Whoever has records go from leaves to a run, or back, waits.
        let turn = lock(&spill.turn);
        shared.verify_backlogs(0..shared.leaves.all.len())?;
        let version = spill.version();
        let frozen = version.frozen.iter().flat_map(|one| one.entries.backlogs());
        let mut buffer = Vec::new();
        frozen.map(|(_, backlog)| backlog).try_for_each(|backlog| backlog.verify(&mut buffer))?;
        drop((turn, buffer));
        let mut pieces = version.runs.iter().flat_map(|run| &run.pieces);
        pieces.try_for_each(|piece| {
            piece.verify(spill.tree.table.shares.scan_bytes.next_multiple_of(BLOCK_BYTES))
        })
    }
}

/// What follows from the store and the options; tests have few and small leaves, and hashes that meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) hasher: GroupHasher,
    pub(super) shares: Shares,
    pub(super) flash: FlashShares,
}

pub(super) fn spilling<A: Aggregate>(
    scratch: &Store,
    aggregate: A,
    options: &GroupsOptions,
    setup: Setup,
) -> Result<Groups<A>> {
    let Setup { hasher, shares, flash } = setup;
    let ground = Ground::new(Arc::new(aggregate), hasher, &shares)?;
    let rules = RunRules::new(ground.aggregate.clone(), hasher);
    let memory_bytes = options.chosen_memory_bytes();
    let spill = Spill::new(scratch, "scratch", rules, flash, Spill::no_runs(), memory_bytes, true)?;
    spill.gate.writable()?;
    Ok(Groups { shared: Shared::new(ground, options, shares, Some(spill)), handle: None })
}

pub(super) fn open<A: Aggregate>(
    store: &Store,
    name: &str,
    aggregate: A,
    options: &GroupsOptions,
    setup: Setup,
) -> Result<Groups<A>> {
    let aggregate = Arc::new(aggregate);
    let asked_for = AggregateId::of(&*aggregate);
    let handle =
        store.open_with(name, |stored| Core::open(store, name, aggregate, options, setup, stored))?;
    // Those that were open already were not made for this call.
    handle.aggregate.require(&asked_for)?;
    match Arc::clone(&handle.shared).downcast::<Shared<A>>() {
        Ok(shared) => Ok(Groups { shared, handle: Some(handle) }),
        Err(_) => Err(crate::Error::Incompatible {
            what: "the type of the aggregate of open groups",
            expected: "the one that they were opened with".to_owned(),
            found: std::any::type_name::<A>().to_owned(),
        }),
    }
}

impl Openable for Core {
    const KIND: Kind = registry::GROUPS;
}

impl Core {
    fn open<A: Aggregate>(
        store: &Store,
        name: &str,
        aggregate: Arc<A>,
        options: &GroupsOptions,
        setup: Setup,
        stored: Option<&Entry>,
    ) -> Result<Core> {
        let Setup { mut hasher, mut shares, mut flash } = setup;
        let id = AggregateId::of(&*aggregate);
        let decoded = match stored {
            None if store.is_read_only() => return Err(crate::error::missing("groups", name)),
            None => None,
            Some(entry) => {
                entry.require(name, registry::GROUPS)?;
                let decoded = format::decode(&entry.record.state, &entry.record.files);
                let (found, lg_sections, tree) = decoded.map_err(|error| error.in_file(Path::new(name)))?;
                found.require(&id)?;
                (shares.lg_sections, flash.lg_sections) = (lg_sections, lg_sections);
                shares.lg_leaves = shares.lg_leaves.max(lg_sections);
                hasher.lg_leaves = shares.lg_leaves;
                Some(tree)
            }
        };
        let ground = Ground::new(aggregate, hasher, &shares)?;
        let rules = RunRules::new(ground.aggregate.clone(), hasher);
        let state = match decoded {
            None => {
                let mut state = Spill::no_runs();
                state.is_changed = true;
                state
            }
            Some(tree) => {
                let table = GroupTable { rules: rules.clone(), shares: flash };
                let version = tree.open(&table, store.files(), name)?;
                let mut state = GroupTreeState::new((), tree.memtables, 1, version);
                state.note_committed(tree, ());
                state
            }
        };
        let memory_bytes = options.chosen_memory_bytes();
        let spill = Spill::new(store, name, rules, flash, state, memory_bytes, false)?;
        if !store.is_read_only() {
            spill.serve(store.publisher(name));
        }
        let shared = Shared::new(ground, options, shares, Some(spill));
        if let Some(spill) = &shared.spill {
            shared.note_index(spill)?;
        }
        Ok(Core { kept: shared.clone(), shared, aggregate: id })
    }
}

impl<A: Aggregate> Kept for Shared<A> {
    fn prepare(&self) -> Result<Option<Record>> {
        let Some(spill) = &self.spill else { return Ok(None) };
        spill.gate.check_whole()?;
        if !self.is_changed() {
            return Ok(None);
        }
        self.spill_all(spill)?;
        Ok(Some(spill.tree.prepare()))
    }

    fn committed(&self) {
        if let Some(spill) = &self.spill {
            spill.tree.committed();
        }
    }

    fn is_changed(&self) -> bool {
        self.has_news() || self.spill.as_ref().is_some_and(|spill| spill.tree.is_changed())
    }

    fn close(&self) {
        if let Some(spill) = &self.spill {
            spill.close();
        }
    }
}

impl Participant for Core {
    fn structure(&self) -> Structure {
        registry::GROUPS.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        Ok(self.kept.prepare()?.map_or(Prepared::Unchanged, Prepared::Changed))
    }

    fn committed(&self) {
        self.kept.committed();
    }

    fn is_changed(&self) -> bool {
        self.kept.is_changed()
    }

    fn close(&self) {
        self.kept.close();
    }
}
