//! A directory of named summaries that commits as one.
//!
//! ```text
//!   handles ─▶ summaries (participants) ──prepare──▶ data files: write, sync ─▶ sync directory ─▶ manifest record: write, sync
//!                  ▲         │ publish, one alone                                                       │ the commit point
//!                  └─────────┴───────────────────────── committed ◀────────────────────────────────────┘
//!                                                                     then: remove the files that nothing needs now
//! ```
//!
//! Invariants:
//! 1. After a crash the store is exactly the last commit or publish that returned OK, or the one in flight if its record is
//!    whole; never a mixture.
//! 2. All participants and the source's position commit in one step: one record of the manifest.
//! 3. A failed write or sync poisons the store: it takes no more writes until it is reopened, and a sync is never tried
//!    again. A full disk before the manifest record does not: the blobs of that commit are taken back, and the last commit is
//!    untouched.
//! 4. User names never become file names.
//! 5. A store belongs to the process that opened it. In a fork, what is inserted, asked, committed or waited for is
//!    [`Forked`](crate::Error::Forked), and dropping the copy writes nothing, removes nothing and unlocks nothing.
//! 6. Whoever holds a [`Store`] open for writing holds the directory's lock. A read-only store takes no lock and writes
//!    nothing; it holds its snapshot's files open, so a writer beside it cannot take them away. A refresh changes the snapshot
//!    (`snapshot.rs`), never what is open of the one before.
//! 7. Locks are taken in this order: the journal's (commits, publishes, verification and closing take turns by it), a summary's
//!    own, the state's, that of the ledger of files. The last two are held for look-ups alone, so nobody waits for a flush who
//!    does not commit.
//! 8. A file is removed when no durable record names it, none under way can, and its summary has given it up or lost it:
//!    `ledger.rs` says when.
//!
//! | | block reads | block writes | syncs |
//! |---|---|---|---|
//! | commit, nothing changed | 0 | 0 | 0 |
//! | commit | 0 | 2 a 4072 bytes of record, and the participants' own | 1 manifest, 1 directory if there are new files |
//! | publish | 0 | 2 a 4072 bytes of record | as a commit |
//! | a record beyond 16 KiB | its blocks, once, at open | its blocks, once a commit that changes it | 1 |
//! | open | superblock 4, manifest, long records, what the summaries read | 0 | 3 |
//!
//! Deviations: new files are not renamed into place. Their numbers are never reused, so a file without a record is
//! invisible, and the rename would protect nothing. A device whose cache forgets a write after a failed sync and still
//! reads it back can show a commit in flight that a later power cut takes away; with direct I/O it cannot. A long record is
//! written whole by each commit that changes it, not as a difference: 100,000 runs are 6.4 MB, which is less than one of them.

mod attach;
mod blob;
mod budget;
mod calls;
mod catalog;
mod commit;
mod files;
mod format;
mod gate;
mod journal;
mod ledger;
mod manifest;
mod open;
mod options;
mod participant;
mod poison;
pub mod registry;
mod snapshot;
mod superblock;
#[cfg(test)]
mod tests;
mod verify;
mod workers;

pub use attach::{Handle, Openable};
pub use budget::{Budget, Reservation};
pub(crate) use calls::Caller;
pub use commit::Publisher;
pub use files::Files;
pub use format::{FORMAT_VERSION, NAME_BYTES_MAX, POSITION_BYTES_MAX};
pub(crate) use gate::{Change, Gate};
pub use options::StoreOptions;
pub use participant::{CommitId, Entry, FileId, FileRef, Hold, Participant, Prepared, Record, Structure};
pub use verify::{Damage, VerifyReport};
pub use workers::{Job, Spawner, Workers};

use crate::device::{Device, LockGuard};
use crate::lock::lock;
use crate::{Error, HashKind, KeyHasher, Result, Seed};
use attach::{Attached, Maker};
use catalog::Catalog;
use format::Stored;
use journal::Journal;
use poison::Poison;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// An open store. Clones are the same store; dropping the last one closes it, and handles of summaries that outlive it write
/// nothing any more.
///
/// All methods may be called from any thread. What reads or writes blocks the thread meanwhile: from asynchronous code, call it by
/// `spawn_blocking` or its like. [`position`](Store::position), [`commit_info`](Store::commit_info),
/// [`summaries`](Store::summaries) and [`record`](Store::record) wait for nothing.
///
/// # What an open can tell
/// A crash leaves the last commit, and damage is `Corrupt`. A manifest that is shorter than when a writer last closed the store, or than
/// when it was begun, is damage too: it was cut, or is that of an older copy. Two things look like a store that is whole: an
/// older copy of all its files, and, after a crash, a manifest that was then cut after a whole record, which is how it looks
/// where the commit in flight did not arrive.
///
/// # Processes
/// A store belongs to the process that opened it. In a fork, using it or what was opened from it is
/// [`Forked`](Error::Forked), and dropping it does nothing to the store; open the store again there.
///
/// ```
/// use overbank::device::memory::MemoryDevice;
/// use overbank::store::{Store, StoreOptions};
/// use std::sync::Arc;
///
/// let device = Arc::new(MemoryDevice::new());
/// let store = Store::create_on(device.clone(), StoreOptions::new())?;
/// store.commit(b"offset=4711")?;
/// drop(store);
/// let store = Store::open_on(device, StoreOptions::new())?;
/// assert_eq!(store.position(), b"offset=4711");
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    core: Arc<Core>,
    owner: Arc<Owner>,
}

/// What the clones of a store have in common, and what closes it with the last of them.
#[derive(Debug)]
struct Owner {
    core: Arc<Core>,
    workers: Workers,
}

/// A store, open or closed: handles of summaries may outlive it.
#[derive(Debug)]
struct Core {
    device: Arc<dyn Device>,
    files: Files,
    poison: Poison,
    budget: Budget,
    options: StoreOptions,
    read_only: bool,
    hasher: KeyHasher,
    store_id: u128,
    /// Held by the commit, publish, verification or close under way. Taken before the lock of any summary, and before that of the
    /// state.
    journal: Mutex<Journal>,
    /// Held for look-ups alone: whoever has it waits for nobody.
    state: Mutex<State>,
    /// A summary was opened, or was not, or who read several records has read them.
    opened: Condvar,
    lock: Mutex<Option<Box<dyn LockGuard>>>,
}

/// What is committed, and what takes part in the next commit.
#[derive(Default)]
struct State {
    catalog: Arc<Catalog>,
    /// Of the superblock, as of the last commit.
    format_version: u32,
    attached: BTreeMap<String, Attached>,
    /// Names that a thread is making a summary for.
    opening: BTreeMap<String, Maker>,
    /// How many read several records that are to be of one commit.
    reading: usize,
    /// Names that the next commit removes, and those that the one under way does.
    removed: BTreeSet<String>,
    removing: BTreeSet<String>,
    is_committing: bool,
    /// How many summaries were attached so far.
    numbers: u64,
}

/// The last commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitInfo {
    /// Its number.
    pub commit: CommitId,
    /// When it was made, nanoseconds since 1970.
    pub time_ns: u64,
    /// The source's position that was given to it.
    pub position: Vec<u8>,
}

/// A committed summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryInfo {
    /// Its name.
    pub name: String,
    /// Its kind and version.
    pub structure: Structure,
    /// How many files it has.
    pub files: usize,
    /// Bytes of its files and its inline state.
    pub bytes: u64,
}

impl Store {
    /// The store's random 128-bit id.
    pub fn id(&self) -> u128 {
        self.core.store_id
    }

    /// The seed of its hashes.
    pub fn seed(&self) -> Seed {
        self.core.hasher.seed()
    }

    /// The version of its format: an older one is that of this build from its next commit on. Does not wait for one that is under way.
    pub fn format_version(&self) -> u32 {
        self.core.state().format_version
    }

    /// How its keys are hashed.
    pub fn hash_kind(&self) -> HashKind {
        self.core.hasher.kind()
    }

    /// Hashes keys as this store does.
    pub fn hasher(&self) -> KeyHasher {
        self.core.hasher
    }

    /// The device that it lives on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.core.device
    }

    /// The memory budget that everything opened from the store shares.
    pub fn budget(&self) -> &Budget {
        &self.core.budget
    }

    /// The background threads.
    pub fn workers(&self) -> &Workers {
        &self.owner.workers
    }

    /// How many threads a call may start for itself: as many as there are workers, and where the store is read-only and has none, as the
    /// options asked for.
    pub(crate) fn threads_of_calls(&self) -> usize {
        if self.is_read_only() { self.core.options.threads } else { self.workers().threads() }
    }

    /// The data files, for summaries that write between commits.
    pub fn files(&self) -> &Files {
        &self.core.files
    }

    /// The process that has the store open for writing now, if one does; its id is 0 where it is not known.
    ///
    /// # Errors
    /// `Io` if the lock cannot be read.
    pub fn writer(&self) -> Result<Option<u32>> {
        self.core.device.writer()
    }

    /// Whether it is open read-only.
    pub fn is_read_only(&self) -> bool {
        self.core.read_only
    }

    /// The position given to the last commit. Does not wait for one that is under way.
    pub fn position(&self) -> Vec<u8> {
        self.catalog().position.clone()
    }

    /// The last commit. Does not wait for one that is under way.
    pub fn commit_info(&self) -> CommitInfo {
        let catalog = self.catalog();
        let Catalog { commit, time_ns, position, .. } = &*catalog;
        CommitInfo { commit: CommitId(*commit), time_ns: *time_ns, position: position.clone() }
    }

    /// The committed summaries, by name. Does not wait for a commit that is under way.
    pub fn summaries(&self) -> Vec<SummaryInfo> {
        let info = |(name, stored): (&String, &Arc<Stored>)| {
            let inline_bytes = if stored.spill.is_some() { 0 } else { stored.entry.record.state.len() };
            SummaryInfo {
                name: name.clone(),
                structure: stored.entry.structure,
                files: stored.files().count(),
                bytes: inline_bytes as u64 + stored.files().map(|file| file.bytes).sum::<u64>(),
            }
        };
        self.catalog().summaries.iter().map(info).collect()
    }

    /// What the last commit holds of summary `name`; a summary recovers from it. Does not wait for a commit that is under way.
    pub fn record(&self, name: &str) -> Option<Entry> {
        let stored = self.core.state().record(name);
        stored.map(|stored| stored.entry.clone())
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.core.state().catalog)
    }

    /// Removes a summary and what it owns, a profile's sketch on flash or a window's panes; the next commit makes it so, and gives its
    /// disk space back.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.core.writable()?;
        let mut state = self.core.state();
        let names = state.owned(name);
        let mut attached = Vec::new();
        for name in &names {
            let is_stored = state.record(name).is_some();
            let was_attached = state.attached.remove(name);
            if is_stored || was_attached.is_some() && state.is_committing {
                state.removed.insert(name.clone());
            }
            attached.push(was_attached);
        }
        drop(state);
        drop(attached);
        if names.is_empty() {
            return Err(Error::NotFound { what: "summary", name: name.to_owned() });
        }
        Ok(())
    }
}

impl Core {
    fn writable(&self) -> Result<()> {
        self.poison.check_process()?;
        if self.read_only {
            return Err(Error::ReadOnly { path: self.device.path() });
        }
        self.poison.check()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Ends what the store was opened for. What outlives it writes nothing.
    fn close(&self) {
        // A commit or publish of another thread that has a clone, or had one, ends first.
        let mut journal = lock(&self.journal);
        if self.writable().is_ok() {
            // Without the mark the store is as whole, only a cut of its manifest shows less well.
            let _ = self.mark(&mut journal);
        }
        self.poison.set("the store was closed".to_owned());
        let attached = std::mem::take(&mut self.state().attached);
        drop(journal);
        drop(attached);
        drop(lock(&self.lock).take());
    }
}

impl State {
    /// What the last commit holds of a summary that is not to be removed.
    fn record(&self, name: &str) -> Option<Arc<Stored>> {
        let is_going = self.removed.contains(name) || self.removing.contains(name);
        self.catalog.summaries.get(name).filter(|_| !is_going).cloned()
    }

    /// The number of the kind of a summary that is open or stored.
    fn kind(&self, name: &str) -> Option<u16> {
        let attached = self.attached.get(name).map(|attached| attached.kind);
        attached.or_else(|| Some(self.record(name)?.entry.structure.id))
    }

    /// The names of a summary and of what it owns.
    fn owned(&self, name: &str) -> Vec<String> {
        let is_frequency = |part: &String| self.kind(part) == Some(registry::FREQUENCY.id);
        match self.kind(name) {
            Some(kind) => {
                let counts = (kind == registry::PROFILE.id).then(|| registry::counts_of(name));
                std::iter::once(name.to_owned()).chain(counts.filter(is_frequency)).collect()
            }
            // A window is nothing but its panes.
            None => (0..).map(|pane| registry::pane_of(name, pane)).take_while(is_frequency).collect(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // No job and no handle that outlives the store may write once the lock is given back.
        self.workers.finish();
        if self.core.poison.check_process().is_ok() {
            self.core.close();
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.attached.keys().collect();
        f.debug_struct("State")
            .field("catalog", &self.catalog)
            .field("attached", &names)
            .field("removed", &self.removed)
            .finish_non_exhaustive()
    }
}

fn check_name(name: &str) -> Result<()> {
    let why = match name {
        "" => "a name has at least one byte",
        _ if name.len() > NAME_BYTES_MAX => "a name has at most 255 bytes",
        _ if name.chars().any(char::is_control) => "a name has no control characters",
        _ => return Ok(()),
    };
    Err(Error::InvalidOption { name: "name", value: format!("{name:?}"), why: why.to_owned() })
}
