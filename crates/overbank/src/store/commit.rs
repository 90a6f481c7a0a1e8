//! Commits and publishes: a record that is durable, and what follows from it.
//!
//! ```text
//!   commit    all prepare ─▶ sync directory ─▶ append record, sync ────────────────────▶ committed ─▶ remove dead files
//!                                          └▶ log too long: new manifest, sync, sync directory,
//!                                             superblock pair, sync (the commit point) ─▶
//!   publish   one makes a record that answers as its last one does, and the same follows
//! ```
//!
//! Commits and publishes take turns: whoever has the journal's lock. The lock of the state is taken to read what is there when
//! a turn begins, and to put the new catalog in its place when its record is durable; never while anything is written.
//!
//! A full disk: up to the record, the commit is called off and its new files are taken back. At the record, the reserve is
//! given back and the append tried once more; if that fails too, the half-written record is cut off. So a commit that
//! only removes works on a full disk, and its removals pay for a new reserve.

use super::attach::Token;
use super::catalog::Catalog;
use super::format::{self, ManifestRecord, NamedFile, POSITION_BYTES_MAX, SPILL_BYTES, Stored};
use super::journal::Journal;
use super::{CommitId, Core, Entry, FileId, Files, Participant, Prepared, Record, Store, Structure};
use crate::device::BLOCK_BYTES;
use crate::lock::lock;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, TryLockError, Weak};

impl Store {
    /// Makes all attached summaries and the source's `position` (at most 64 KiB) durable in one atomic step.
    ///
    /// What was taken in before it is called is in the commit; what other threads add meanwhile is in it or not, each summary by
    /// itself. Nobody but other commits waits for it.
    ///
    /// # Cost
    /// Nothing if no summary and not the position changed. Else the summaries' own writes and syncs, one write and one
    /// sync of the manifest, and one sync of the directory if there are new files.
    ///
    /// # Errors
    /// `Full`, `BudgetExceeded`, `OutOfMemory` and `InvalidOption` leave the store usable and the last commit in place; any other
    /// error poisons the store, and reopening it shows whether this commit arrived. `InvalidOption` also inside what a summary of this
    /// store calls, as the source of a profile's update: the commit would wait for that.
    pub fn commit(&self, position: &[u8]) -> Result<CommitId> {
        let core = &*self.core;
        core.writable()?;
        if position.len() > POSITION_BYTES_MAX {
            let (name, value) = ("position", format!("{} bytes", position.len()));
            return Err(Error::InvalidOption {
                name,
                value,
                why: format!("it has at most {POSITION_BYTES_MAX}"),
            });
        }
        core.files.refuse_called("commit")?;
        let mut journal = lock(&core.journal);
        // A summary that commits while it prepares would wait for this.
        let _called = core.files.caller(&core.journal).call();
        // Another thread's turn may have failed meanwhile.
        core.poison.check()?;
        let turn = core.files.begin_turn();
        let taken = core.begin_commit();
        let result = core.commit_all(&mut journal, &taken, position);
        core.poison_unless_recoverable(&result);
        drop(turn);
        core.end_commit(taken, result.is_ok());
        result
    }

    /// For a summary to commit what changes none of its answers, without the others: a merge of what is durable. It is that of the
    /// summary of this name that is open now or that this thread makes ([`Store::open_with`]), and of no later one.
    pub fn publisher(&self, name: &str) -> Publisher {
        let state = self.core.state();
        let attached = state.attached.get(name).map(|attached| attached.number);
        let number = attached.or(state.opening.get(name).map(|maker| maker.number)).unwrap_or(0);
        Publisher { core: Arc::downgrade(&self.core), name: name.to_owned(), number }
    }
}

/// Commits one summary by itself. Clones are the same; it does not keep the store open.
#[derive(Clone, Debug)]
pub struct Publisher {
    core: Weak<Core>,
    name: String,
    number: u64,
}

impl Publisher {
    /// Makes the record of `make` that of the summary, if no commit and no other publish is under way. It must answer exactly as the
    /// last committed one does. The position and all other summaries stay as they are; files that it does not name any more go.
    ///
    /// Returns whether it is durable now. `make` is called under the lock that makes commits take turns, and returns `None` where
    /// there is nothing to publish; it is not called while a commit is under way, or where the summary was never committed, was
    /// removed or closed, or the store was closed. A commit may begin as soon as the record is durable, before this returns: `make`
    /// itself notes what the record names, and its caller takes that back where it fails.
    ///
    /// # Cost
    /// What `make` writes; one write and one sync of the manifest, and one sync of the directory if there are new files.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn publish(&self, make: impl FnOnce() -> Option<Record>) -> Result<bool> {
        let Some(core) = self.core.upgrade() else { return Ok(false) };
        core.poison.check_process()?;
        if core.read_only {
            return Ok(false);
        }
        let mut journal = match core.journal.try_lock() {
            Ok(journal) => journal,
            Err(TryLockError::Poisoned(journal)) => journal.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        let _called = core.files.caller(&core.journal).call();
        core.poison.check()?;
        let Some((catalog, participant)) = core.published(&self.name, self.number) else { return Ok(false) };
        let turn = core.files.begin_turn();
        let result = core.publish_one(&mut journal, &catalog, &self.name, &*participant, make);
        core.poison_unless_recoverable(&result);
        drop(turn);
        result
    }
}

/// What a commit found when it began.
struct Taken {
    catalog: Arc<Catalog>,
    summaries: Vec<Summary>,
    /// Names that it removes.
    removed: BTreeSet<String>,
}

struct Summary {
    name: String,
    participant: Arc<dyn Participant>,
    handles: Weak<Token>,
    /// Nobody had a handle of it any more: whatever it holds is in the commit.
    was_left: bool,
}

impl Core {
    /// Notes that a commit is under way. The caller has the journal's lock.
    fn begin_commit(&self) -> Taken {
        let mut state = self.state();
        state.is_committing = true;
        let catalog = Arc::clone(&state.catalog);
        let mut removed = std::mem::take(&mut state.removed);
        removed.retain(|name| catalog.summaries.contains_key(name));
        state.removing = removed.clone();
        let summaries = state.attached.iter().map(|(name, attached)| Summary {
            name: name.clone(),
            participant: Arc::clone(&attached.participant),
            handles: attached.handles.clone(),
            was_left: attached.is_left(),
        });
        let summaries = summaries.collect();
        Taken { catalog, summaries, removed }
    }

    fn commit_all(&self, journal: &mut Journal, taken: &Taken, position: &[u8]) -> Result<CommitId> {
        let Taken { catalog, summaries, removed } = taken;
        let mut changed = BTreeMap::new();
        let mut held = Vec::new();
        for Summary { name, participant, .. } in summaries {
            held.push(participant.hold().map_err(|error| self.of_summary(name, error))?);
        }
        for Summary { name, participant, .. } in summaries {
            let prepared = participant.prepare().map_err(|error| self.of_summary(name, error))?;
            let stored = catalog.summaries.get(name).filter(|_| !removed.contains(name));
            if let Prepared::Changed(record) = prepared {
                check_record(name, &record, stored.map(Arc::as_ref), &self.files)?;
                changed.insert(name.clone(), self.stored(participant.structure(), record)?);
            } else if stored.is_none() {
                let why = "a summary that was never committed cannot be unchanged".to_owned();
                return Err(Error::InvalidOption { name: "record", value: format!("{name:?}"), why });
            }
        }
        drop(held);
        // A job that failed in the background may have left its summary half-done.
        self.poison.check()?;
        let nothing_new = changed.is_empty() && removed.is_empty() && catalog.position == position;
        if nothing_new && catalog.commit > 0 {
            return Ok(CommitId(catalog.commit));
        }
        let changed_names: BTreeSet<String> = changed.keys().cloned().collect();
        let commit = self.make_durable(journal, catalog, position, removed, changed)?;
        for Summary { name, participant, .. } in summaries {
            if changed_names.contains(name) {
                participant.committed();
            }
        }
        Ok(commit)
    }

    fn publish_one(
        &self,
        journal: &mut Journal,
        catalog: &Catalog,
        name: &str,
        participant: &dyn Participant,
        make: impl FnOnce() -> Option<Record>,
    ) -> Result<bool> {
        let Some(record) = make() else { return Ok(false) };
        check_record(name, &record, catalog.summaries.get(name).map(Arc::as_ref), &self.files)?;
        let changed = BTreeMap::from([(name.to_owned(), self.stored(participant.structure(), record)?)]);
        self.make_durable(journal, catalog, &catalog.position, &BTreeSet::new(), changed)?;
        Ok(true)
    }

    /// A summary as the manifest is to have it. A long record becomes a blob of the commit under way.
    fn stored(&self, structure: Structure, record: Record) -> Result<Arc<Stored>> {
        let bytes = format::record_bytes(&record);
        let write = |sink: &mut dyn FnMut(&[u8]) -> Result<()>| format::write_record(&record, sink);
        let spill = if bytes > SPILL_BYTES { Some(self.files.write_blob_with(bytes, write)?) } else { None };
        Ok(Arc::new(Stored { entry: Entry { structure, record }, spill }))
    }

    /// Makes a record durable, and then the state and the directory agree with it.
    fn make_durable(
        &self,
        journal: &mut Journal,
        catalog: &Catalog,
        position: &[u8],
        removed: &BTreeSet<String>,
        changed: BTreeMap<String, Arc<Stored>>,
    ) -> Result<CommitId> {
        let commit = catalog.commit + 1;
        let edit = ManifestRecord {
            is_snapshot: false,
            epoch: journal.superblock.epoch,
            commit,
            time_ns: self.device.now_ns(),
            next_file: self.files.next_file(),
            position: position.to_vec(),
            removed: removed.iter().cloned().collect(),
            changed,
        };
        self.poison.watch(self.files.sync_names())?;
        self.write_record(journal, catalog, &edit)?;
        let (named, dead) = changes(catalog, &edit);
        self.files.committed(named.into_iter());
        let mut next = catalog.clone();
        next.apply(edit);
        let mut state = self.state();
        (state.catalog, state.format_version) = (Arc::new(next), journal.superblock.version);
        drop(state);
        journal.dead.extend(dead.into_iter().map(NamedFile::Data));
        self.remove_dead(journal);
        Ok(CommitId(commit))
    }

    /// Ends a commit: names to be removed wait for the next one if it failed, and summaries without handles leave that it took in.
    fn end_commit(&self, taken: Taken, is_durable: bool) {
        let mut state = self.state();
        state.is_committing = false;
        let removing = std::mem::take(&mut state.removing);
        if !is_durable {
            state.removed.extend(removing);
        }
        let (taken_in, others): (Vec<_>, Vec<_>) =
            taken.summaries.into_iter().partition(|summary| is_durable && summary.was_left);
        let released: Vec<_> =
            taken_in.iter().map(|summary| state.release(&summary.name, &summary.handles)).collect();
        drop(state);
        drop(released);
        for Summary { name, participant, .. } in others {
            let handles =
                self.state().attached.get(&name).filter(|one| one.is_left()).map(|one| one.handles.clone());
            if let Some(handles) = handles {
                self.release(&name, &*participant, &handles);
            }
        }
    }

    /// What a publish starts from, if the summary may be published. The caller has the journal's lock.
    fn published(&self, name: &str, number: u64) -> Option<(Arc<Catalog>, Arc<dyn Participant>)> {
        let state = self.state();
        let attached = state.attached.get(name).filter(|attached| attached.number == number)?;
        let is_stored = state.record(name).is_some();
        is_stored.then(|| (Arc::clone(&state.catalog), Arc::clone(&attached.participant)))
    }

    fn poison_unless_recoverable<T>(&self, result: &Result<T>) {
        if let Err(error) = result
            && !is_recoverable(error)
        {
            self.poison.set(error.to_string());
        }
    }

    /// Lets the error of a summary that a panic left half-done say which summary of which store it is.
    fn of_summary(&self, name: &str, error: Error) -> Error {
        let Error::Poisoned { why, .. } = &error else { return error };
        self.poison.set(format!("{why}, {name:?}"));
        self.poison.check().err().unwrap_or(error)
    }
}

/// The files that `edit` names where the catalog did not, and the other way round. Only the summaries of `edit` are looked at.
fn changes(catalog: &Catalog, edit: &ManifestRecord) -> (BTreeSet<FileId>, BTreeSet<FileId>) {
    let ids = |stored: &Arc<Stored>| stored.files().map(|file| file.id).collect::<Vec<_>>();
    let touched = edit.removed.iter().chain(edit.changed.keys()).collect::<BTreeSet<_>>();
    let before = touched.into_iter().filter_map(|name| catalog.summaries.get(name)).flat_map(ids);
    let before: BTreeSet<FileId> = before.collect();
    let named: BTreeSet<FileId> = edit.changed.values().flat_map(ids).collect();
    let dead = before.difference(&named).copied().collect();
    (named, dead)
}

/// Whether a commit that failed so has left everything as it was.
fn is_recoverable(error: &Error) -> bool {
    matches!(
        error,
        Error::Full { .. }
            | Error::BudgetExceeded { .. }
            | Error::OutOfMemory { .. }
            | Error::InvalidOption { .. }
    )
}

fn check_record(name: &str, record: &Record, stored: Option<&Stored>, files: &Files) -> Result<()> {
    let refuse = |what, value: String, why: &str| {
        Err(Error::InvalidOption { name: what, value, why: format!("{why} (summary {name:?})") })
    };
    let own = stored.into_iter().flat_map(|stored| &stored.entry.record.files).map(|file| file.id);
    let own: BTreeSet<FileId> = own.collect();
    for file in &record.files {
        if !own.contains(&file.id) && !files.is_uncommitted(file.id) {
            return refuse("file", file.id.0.to_string(), "it is neither new nor this summary's own");
        }
        if !file.bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return refuse("file length", file.bytes.to_string(), "files are whole blocks");
        }
    }
    Ok(())
}
