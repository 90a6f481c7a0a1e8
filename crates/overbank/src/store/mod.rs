//! A directory of named summaries that commits as one.
//!
//! ```text
//!   summaries (participants) ──prepare──▶ data files: write, sync ─▶ sync directory ─▶ manifest record: write, sync
//!        ▲                                                                                  │ the commit point
//!        └───────────────────────────────── committed ◀─────────────────────────────────────┘
//!                                                                     then: remove the files that nothing needs now
//! ```
//!
//! Invariants:
//! 1. After a crash the store is exactly the last commit whose `commit` returned OK, or the one in flight if its record is
//!    whole; never a mixture.
//! 2. All participants and the source's position commit in one step: one record of the manifest.
//! 3. A failed write or sync poisons the store: it takes no more writes until it is reopened, and a sync is never tried
//!    again. A full disk before the manifest record does not: new files are taken back, and the last commit is untouched.
//! 4. User names never become file names.
//! 5. A store belongs to the process that opened it. In a fork, what is inserted, asked, committed or waited for is
//!    [`Forked`](crate::Error::Forked), and dropping the copy writes nothing, removes nothing and unlocks nothing.
//! 6. Whoever holds a [`Store`] open for writing holds the directory's lock. A read-only store takes no lock and writes
//!    nothing; it holds its snapshot's files open, so a writer beside it cannot take them away.
//!
//! | | block reads | block writes | syncs |
//! |---|---|---|---|
//! | commit, nothing changed | 0 | 0 | 0 |
//! | commit | 0 | 2 a 4072 bytes of record, and the participants' own | 1 manifest, 1 directory if there are new files |
//! | open | superblock 4, manifest, what the summaries read | 0 | 3 |
//!
//! Deviations: new files are not renamed into place. Their numbers are never reused, so a file without a record is
//! invisible, and the rename would protect nothing. A device whose cache forgets a write after a failed sync and still
//! reads it back can show a commit in flight that a later power cut takes away; with direct I/O it cannot.

mod blob;
mod budget;
mod catalog;
mod commit;
mod files;
mod format;
mod manifest;
mod open;
mod options;
mod participant;
mod poison;
mod superblock;
#[cfg(test)]
mod tests;
mod verify;
mod workers;

pub use budget::{Budget, Reservation};
pub use files::Files;
pub use format::{FORMAT_VERSION, NAME_BYTES_MAX, POSITION_BYTES_MAX, STATE_BYTES_MAX};
pub use options::StoreOptions;
pub use participant::{CommitId, Entry, FileId, FileRef, Participant, Prepared, Record, Structure};
pub use verify::{Damage, VerifyReport};
pub use workers::{Job, Spawner, Workers};

use crate::device::{Device, DeviceFile, LockGuard};
use crate::lock::lock;
use crate::{Error, HashKind, KeyHasher, Result, Seed};
use catalog::Catalog;
use format::{NamedFile, Superblock};
use poison::Poison;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// An open store.
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
#[derive(Debug)]
pub struct Store {
    device: Arc<dyn Device>,
    files: Files,
    poison: Poison,
    budget: Budget,
    options: StoreOptions,
    read_only: bool,
    hasher: KeyHasher,
    store_id: u128,
    state: Mutex<State>,
    workers: Workers,
    _lock: Option<Box<dyn LockGuard>>,
}

/// What changes from commit to commit.
struct State {
    catalog: Catalog,
    superblock: Superblock,
    manifest: Arc<dyn DeviceFile>,
    log_bytes: u64,
    snapshot_bytes: u64,
    participants: BTreeMap<String, Arc<Mutex<dyn Participant>>>,
    removed: BTreeSet<String>,
    /// Files that nothing needs any more and that could not be removed yet.
    dead: Vec<NamedFile>,
    has_reserve: bool,
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
        self.store_id
    }

    /// The seed of its hashes.
    pub fn seed(&self) -> Seed {
        self.hasher.seed()
    }

    /// How its keys are hashed.
    pub fn hash_kind(&self) -> HashKind {
        self.hasher.kind()
    }

    /// Hashes keys as this store does.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The device that it lives on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The memory budget that everything opened from the store shares.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The background threads.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The data files, for summaries that write between commits.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The process that has the store open for writing now, if one does; its id is 0 where it is not known.
    ///
    /// # Errors
    /// `Io` if the lock cannot be read.
    pub fn writer(&self) -> Result<Option<u32>> {
        self.device.writer()
    }

    /// Whether it is open read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The position given to the last commit.
    pub fn position(&self) -> Vec<u8> {
        self.state().catalog.position.clone()
    }

    /// The last commit.
    pub fn commit_info(&self) -> CommitInfo {
        let state = self.state();
        let Catalog { commit, time_ns, position, .. } = &state.catalog;
        CommitInfo { commit: CommitId(*commit), time_ns: *time_ns, position: position.clone() }
    }

    /// The committed summaries, by name.
    pub fn summaries(&self) -> Vec<SummaryInfo> {
        let info = |(name, entry): (&String, &Entry)| SummaryInfo {
            name: name.clone(),
            structure: entry.structure,
            files: entry.record.files.len(),
            bytes: entry.record.state.len() as u64 + entry.record.files.iter().map(|f| f.bytes).sum::<u64>(),
        };
        self.state().catalog.summaries.iter().map(info).collect()
    }

    /// What the last commit holds of summary `name`; a summary recovers from it.
    pub fn record(&self, name: &str) -> Option<Entry> {
        let state = self.state();
        if state.removed.contains(name) {
            return None;
        }
        state.catalog.summaries.get(name).cloned()
    }

    /// Takes a summary into the commits under `name`: a new one, or one that was recovered from [`Store::record`]. In a store
    /// that is open read-only, which commits nothing, it vouches for its blocks to [`Store::verify`].
    ///
    /// # Errors
    /// `InvalidOption` for an empty name, a name over 255 bytes or with control characters; `AlreadyExists` if
    /// something is attached under it; `Incompatible` if another kind of summary is stored under it.
    pub fn attach(&self, name: &str, participant: Arc<Mutex<dyn Participant>>) -> Result<()> {
        self.poison.check()?;
        check_name(name)?;
        let structure = lock(&participant).structure();
        let mut state = self.state();
        if state.participants.contains_key(name) {
            return Err(Error::AlreadyExists { what: "summary", name: name.to_owned() });
        }
        let stored = state.catalog.summaries.get(name).filter(|_| !state.removed.contains(name));
        if let Some(entry) = stored.filter(|entry| entry.structure.id != structure.id) {
            let (expected, found) = (entry.structure.id.to_string(), structure.id.to_string());
            return Err(Error::Incompatible { what: "structure id", expected, found });
        }
        state.participants.insert(name.to_owned(), participant);
        Ok(())
    }

    /// Removes a summary; the next commit makes it so, and gives its disk space back.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.writable()?;
        let mut state = self.state();
        let attached = state.participants.remove(name).is_some();
        let stored = state.catalog.summaries.contains_key(name) && state.removed.insert(name.to_owned());
        if attached || stored {
            return Ok(());
        }
        Err(Error::NotFound { what: "summary", name: name.to_owned() })
    }

    fn writable(&self) -> Result<()> {
        self.poison.check_process()?;
        if self.read_only {
            return Err(Error::ReadOnly { path: self.device.path() });
        }
        self.poison.check()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in a participant's own code cannot leave the state half-changed: it changes after the last call out.
        lock(&self.state)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // No job and no handle that outlives the store may write once the lock is given back.
        self.workers.finish();
        if self.poison.check_process().is_err() {
            return;
        }
        if self.writable().is_ok() {
            // Without the mark the store is as whole, only a cut of its manifest shows less well.
            let _ = self.mark(&mut self.state());
        }
        self.poison.set("the store was closed".to_owned());
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.participants.keys().collect();
        f.debug_struct("State")
            .field("catalog", &self.catalog)
            .field("superblock", &self.superblock)
            .field("log_bytes", &self.log_bytes)
            .field("participants", &names)
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
