//! A profile in a store: its lock, what a commit writes, and how it comes back.

use super::flash::Flash;
use super::format::{self, Inline};
use super::options::ProfileOptions;
use super::record::{Saved, parts_bytes, read_parts, write_parts};
use super::sketches::Sketches;
use super::totals::Totals;
use super::turns::Turns;
use super::{Measure, Parse, Profile, ProfilePlan, SHARDS};
use crate::error::missing;
use crate::frequency::FrequencyOptions;
use crate::lock::{lock, read, write};
use crate::sketch::{CountMin, DdSketch, HashId, HyperLogLog, SpaceSaving};
use crate::store::registry::{self, Kind};
use crate::store::{
    Caller, Files, Hold, Openable, Participant, Prepared, Record, Reservation, Store, Structure,
};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};

impl Store {
    /// The profile of this name: the one that is open, the stored one, or a new one. Its memory comes from the store's budget: the sketches
    /// at least, the whole plan if it is free. One with a sketch on flash has that as a summary `name/counts`, which it opens itself.
    ///
    /// # Cost
    /// Reads a stored one's sketches in RAM.
    ///
    /// # Errors
    /// `Incompatible` if something else was asked for than it has, or if a sketch was made under another seed than the store's;
    /// `InvalidOption`, `BudgetExceeded`, `OutOfMemory`; `AlreadyExists` where a new one's sketch on flash has a name that is taken;
    /// `NotFound` if there is none and the store is open read-only; `WrongKind`, `UnsupportedVersion`, `Corrupt`.
    pub fn profile(&self, name: &str, options: ProfileOptions) -> Result<Profile> {
        let summary = self.open_with(name, |stored| match stored {
            None => Summary::create(self, name, &options),
            Some(_) => Summary::load(self, name, &options),
        })?;
        // One that was open already was not made for this call.
        options.require(summary.plan.memory_bytes, summary.measure, summary.has_flash)?;
        Ok(Profile { summary })
    }
}

/// A profile whose handles share it.
#[derive(Debug)]
pub(super) struct Summary {
    name: String,
    path: PathBuf,
    files: Files,
    pub(super) plan: ProfilePlan,
    pub(super) measure: Measure,
    has_flash: bool,
    pub(super) turns: Turns,
    /// Held by who changes the profile, and by a commit while it prepares what is in RAM and what is on flash. Taken before the lock of
    /// the state.
    changes: Mutex<()>,
    state: RwLock<State>,
    /// Taken after the state's lock, or alone.
    progress: Mutex<Progress>,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct State {
    sketches: Sketches,
    /// A change began and has not ended.
    is_torn: bool,
    /// What is held of the store's budget, until the profile is closed.
    reservation: Option<Reservation>,
}

/// The totals of the commit under way, and of the last one: equal totals mean that nothing has come since.
#[derive(Debug, Default)]
struct Progress {
    prepared: Option<Totals>,
    committed: Option<Totals>,
}

impl Summary {
    fn create(store: &Store, name: &str, options: &ProfileOptions) -> Result<Self> {
        if store.is_read_only() {
            return Err(missing(registry::PROFILE.name, name));
        }
        let plan = options.plan()?;
        let flash = options.fitted_flash(&plan)?;
        let sketches = Sketches::new(plan, store.hasher(), options.chosen_measure())?;
        let mut summary = Self::assemble(store, name, sketches, None)?;
        // Last, for nothing takes it back.
        let flash = flash.map(|flash| Flash::create(store, name, flash)).transpose()?;
        summary.has_flash = flash.is_some();
        write(&summary.state).sketches.flash = flash;
        Ok(summary)
    }

    fn load(store: &Store, name: &str, options: &ProfileOptions) -> Result<Self> {
        let saved = Saved::of(store, name)?;
        let has_flash = Flash::is_in(store, name);
        options.require(saved.inline.memory_bytes, saved.inline.totals.measure, has_flash)?;
        let plan = saved.plan(store, name)?;
        // Nothing is read that the budget has no room for.
        let stored_bytes = saved.files.iter().map(|file| file.bytes).sum::<u64>();
        let stored_bytes = usize::try_from(stored_bytes).unwrap_or(usize::MAX);
        drop(store.budget().reserve(&of_profile(name), stored_bytes, stored_bytes)?);
        let flash = match options.fitted_flash(&plan)? {
            Some(wanted) => wanted,
            None => FrequencyOptions::new().writers(plan.flash_writers(options.working_threads())),
        };
        let flash = has_flash.then(|| Flash::open(store, name, flash)).transpose()?;
        let Saved { inline, files: [distinct, counts, values, heavy] } = saved;
        let files = store.files();
        let sketches = Sketches {
            plan,
            totals: inline.totals,
            distinct: HyperLogLog::from_bytes(&files.read_blob(&distinct)?)?,
            counts: files.read_blob_with(&counts, CountMin::read_from)?,
            heavy: files.read_blob_with(&heavy, read_parts)?,
            values: files.read_blob_with(&values, DdSketch::read_from)?,
            flash,
            failure: None,
        };
        sketches.validate(store)?;
        Self::assemble(store, name, sketches, Some(inline.totals))
    }

    fn assemble(store: &Store, name: &str, sketches: Sketches, committed: Option<Totals>) -> Result<Self> {
        let (plan, measure) = (sketches.plan, sketches.totals.measure);
        let least_bytes = sketches.allocated_bytes();
        // The sketch on flash takes its part itself, and who only reads has no chunks on their way.
        let plan_bytes = usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX) - plan.flash_memory_bytes;
        let wanted_bytes = if store.is_read_only() { least_bytes } else { plan_bytes };
        let reservation = store.budget().reserve(&of_profile(name), wanted_bytes, least_bytes)?;
        Ok(Self {
            name: name.to_owned(),
            path: store.device().path(),
            files: store.files().clone(),
            plan,
            measure,
            has_flash: sketches.flash.is_some(),
            turns: Turns::default(),
            changes: Mutex::new(()),
            state: RwLock::new(State { sketches, is_torn: false, reservation: Some(reservation) }),
            progress: Mutex::new(Progress { prepared: None, committed }),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Looks at the sketches, beside others who look, between two chunks.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Sketches) -> R) -> Result<R> {
        self.files.check_process()?;
        self.caller().refuse_own(registry::PROFILE.name, &self.name)?;
        let state = self.turns.wait_for(|| read(&self.state));
        self.check(&state)?;
        Ok(look(&state.sketches))
    }

    /// Changes the sketches, alone, between two chunks.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Sketches) -> Result<R>) -> Result<R> {
        self.files.writable()?;
        self.check_changer()?;
        let _changes = self.turns.wait_for(|| lock(&self.changes));
        self.change_held(change)
    }

    /// Counts the chunks that `next` yields, until it yields `None`; others come in between.
    pub(super) fn pass<P: Parse>(
        &self,
        threads: usize,
        parser: &P,
        mut next: impl FnMut() -> std::result::Result<Option<P::Chunk>, P::Error> + Send,
    ) -> std::result::Result<(), P::Error> {
        self.files.writable()?;
        self.check_changer()?;
        let caller = self.caller();
        loop {
            let (mut has_chunk, mut is_interrupted) = (false, false);
            let changes = self.turns.wait_for(|| lock(&self.changes));
            self.change_held(|sketches| {
                sketches.update(caller, threads, parser, || {
                    is_interrupted = has_chunk && self.turns.is_wanted();
                    if is_interrupted {
                        return Ok(None);
                    }
                    has_chunk = true;
                    let _called = caller.call();
                    next()
                })
            })?;
            drop(changes);
            if !is_interrupted {
                return Ok(());
            }
            self.turns.let_others();
        }
    }

    fn caller(&self) -> Caller {
        self.files.caller(self)
    }

    /// Refuses who would wait for itself: what this profile called; and with flash what anything of the store called, for a commit that
    /// waits for that may hold this profile.
    fn check_changer(&self) -> Result<()> {
        self.caller().refuse_own(registry::PROFILE.name, &self.name)?;
        if self.has_flash {
            self.files.refuse_called("update of a profile with a sketch on flash")
        } else {
            Ok(())
        }
    }

    /// The caller has `changes`.
    fn change_held<R, E: From<Error>>(
        &self,
        change: impl FnOnce(&mut Sketches) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let mut state = write(&self.state);
        self.check(&state)?;
        state.is_torn = true;
        let changed = change(&mut state.sketches);
        state.is_torn = false;
        changed
    }

    fn check(&self, state: &State) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed { name: self.name.clone() });
        }
        let why = match &state.sketches.failure {
            Some(why) => why.clone(),
            None if state.is_torn => format!("an update of {:?} panicked", self.name),
            None => return Ok(()),
        };
        Err(Error::Poisoned { path: self.path.clone(), why })
    }
}

fn of_profile(name: &str) -> String {
    format!("the profile {name:?}")
}

impl Sketches {
    /// What `update` relies on: as many shards as there are ranges, all under the store's hash.
    fn validate(&self, store: &Store) -> Result<()> {
        if self.heavy.len() != SHARDS {
            return Err(format::corrupt(0, "number of shards", SHARDS, self.heavy.len()));
        }
        if !self.counts.layout().pages().is_multiple_of(SHARDS as u64) {
            return Err(format::corrupt(
                0,
                "count-min pages",
                "a multiple of 32",
                self.counts.layout().pages(),
            ));
        }
        let ours = HashId::from(store.hasher());
        let theirs = self
            .heavy
            .iter()
            .map(SpaceSaving::hash_id)
            .chain([self.distinct.hash_id(), self.counts.hash_id()]);
        for hash_id in theirs {
            ours.require(hash_id)?;
        }
        Ok(())
    }

    pub(super) fn prepare(&self, files: &Files) -> Result<Record> {
        if let Some(flash) = &self.flash {
            flash.check()?;
        }
        let inline = Inline { totals: self.totals, memory_bytes: self.plan.memory_bytes };
        // The large sketches are streamed, so that no second copy of them is in memory.
        let parts = vec![
            files.write_blob(&self.distinct.to_bytes())?,
            files.write_blob_with(self.counts.encoded_bytes(), |sink| self.counts.write_to(sink))?,
            files.write_blob_with(self.values.encoded_bytes(), |sink| self.values.write_to(sink))?,
            files.write_blob_with(parts_bytes(&self.heavy), |sink| write_parts(&self.heavy, sink))?,
        ];
        Ok(Record { state: inline.to_bytes(), files: parts })
    }
}

impl Openable for Summary {
    const KIND: Kind = registry::PROFILE;
}

impl Participant for Summary {
    fn structure(&self) -> Structure {
        registry::PROFILE.structure()
    }

    fn hold(&self) -> Result<Hold<'_>> {
        if !self.has_flash {
            return Ok(Hold::default());
        }
        Ok(Hold::of(self.turns.wait_for(|| lock(&self.changes))))
    }

    fn prepare(&self) -> Result<Prepared> {
        self.look(|sketches| {
            if lock(&self.progress).committed == Some(sketches.totals) {
                return Ok(Prepared::Unchanged);
            }
            let record = sketches.prepare(&self.files)?;
            lock(&self.progress).prepared = Some(sketches.totals);
            Ok(Prepared::Changed(record))
        })?
    }

    fn committed(&self) {
        let mut progress = lock(&self.progress);
        progress.committed = progress.prepared.take();
    }

    fn is_changed(&self) -> bool {
        let totals = self.turns.wait_for(|| read(&self.state)).sketches.totals;
        lock(&self.progress).committed != Some(totals)
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let mut state = self.turns.wait_for(|| write(&self.state));
        state.reservation = None;
        state.sketches.flash = None;
    }
}
