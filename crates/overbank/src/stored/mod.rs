//! Sketches of RAM, kept in a store: opened by name, shared by threads, committed with everything else.
//!
//! ```text
//!   store.sketch(name, make) ─┬─ open already: the same sketch ─┐
//!                             ├─ stored: its bytes, read back   ├─▶ Stored<S> ── update, with, merge, snapshot
//!                             └─ neither: what `make` makes    ─┘        └─ a commit writes its bytes to a new file, if it changed
//! ```
//!
//! Invariants:
//! 1. What is stored is the sketch's stable bytes, as `to_bytes` has them: a sketch can leave a store and come back.
//! 2. A commit holds a sketch as it was at one moment between the commit's begin and its end, never half an update.
//! 3. What a thread that panicked left half-done is neither answered from nor committed.
//! 4. The budget is charged with the sketch's memory, twice where a commit cannot do without a copy of its bytes. A sketch that an update
//!    made grow beyond what is free takes no further update.
//!
//! | operation | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | `update`, `with` | one lock, and what the sketch takes | 0 | 0 | – |
//! | a commit, changed | its bytes | 0 | bytes / 4080 | a copy of the bytes; 256 KiB for sketches of more than 1 MiB that are
//! written in pieces |
//! | a commit, unchanged | 0 | 0 | 0 | 0 |
//! | open | its bytes | bytes / 4080 | 0 | the sketch |

mod sketches;
#[cfg(test)]
mod tests;

pub use sketches::Sketch;

use crate::error::{corrupt, missing};
use crate::lock::{lock, read, write};
use crate::store::registry::Kind;
use crate::store::{
    Budget, Entry, Files, Handle, Openable, Participant, Prepared, Record, Reservation, Store, Structure,
};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::{Mutex, RwLock};

/// Sketches whose bytes are no longer are copied by a commit, so that updates go on while the device writes; longer ones are written in
/// pieces, and their updates wait.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// A sketch of RAM that is open in a store; [`Store::sketch`] opens it. Clones share it, and any thread may use them.
///
/// Dropping the last clone gives its memory back to the store's budget: at once if everything is committed, else with the next
/// commit, so that nothing is lost.
///
/// # Blocking
/// [`update`](Stored::update) waits for other updates, and while a commit writes a sketch of more than 1 MiB; [`with`](Stored::with)
/// waits for updates only. Nothing but the store's `commit` and [`Store::sketch`] blocks on the device: from asynchronous code call those
/// by `spawn_blocking`. What is done inside `update` and `with` should be short; the same sketch, and the store's `commit`, `close` and
/// `verify`, are refused there, for each would wait for the other.
///
/// ```
/// use overbank::sketch::HyperLogLog;
/// use overbank::store::{Store, StoreOptions};
///
/// let folder = tempfile::tempdir()?;
/// let store = Store::create(folder.path().join("keys"), StoreOptions::new())?;
/// let hasher = store.hasher();
/// let users = store.sketch("users", || HyperLogLog::new(14, hasher))?;
/// std::thread::scope(|scope| {
///     for thread in 0..4u64 {
///         let users = users.clone();
///         let keys: Vec<_> = (0..1000).map(|key| hasher.hash_u64(1000 * thread + key)).collect();
///         scope.spawn(move || users.update(|sketch| sketch.update_batch(&keys)));
///     }
/// });
/// store.commit(b"")?;
/// assert_eq!(users.with(|sketch| (sketch.estimate() / 4000.0 - 1.0).abs() < 0.03)?, true);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stored<S: Sketch> {
    summary: Handle<Summary<S>>,
}

impl<S: Sketch> Clone for Stored<S> {
    fn clone(&self) -> Self {
        Self { summary: self.summary.clone() }
    }
}

impl<S: Sketch> Stored<S> {
    /// Changes the sketch, alone; returns what `change` does. Keep its shape: another one is refused at the next open.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, `Forked`; `Poisoned` once the store takes no more writes, or after a panic in a change of this sketch;
    /// `BudgetExceeded` where an earlier change made the sketch grow beyond what the budget has: then nothing was changed. `InvalidOption`
    /// inside an `update` or `with` of the same sketch.
    pub fn update<R>(&self, change: impl FnOnce(&mut S) -> R) -> Result<R> {
        let summary = &*self.summary;
        summary.files.writable()?;
        let caller = summary.files.caller(summary);
        caller.refuse_own(S::KIND.name, &summary.name)?;
        let mut state = write(&summary.state);
        state.check(summary)?;
        state.charge()?;
        state.revision += 1;
        state.is_torn = true;
        let _called = caller.call();
        let changed = change(&mut state.sketch);
        state.is_torn = false;
        Ok(changed)
    }

    /// Looks at the sketch, beside others who look.
    ///
    /// # Errors
    /// `Closed`, `Forked`, and `Poisoned` after a panic in a change; `InvalidOption` inside an `update` or `with` of the same sketch.
    pub fn with<R>(&self, look: impl FnOnce(&S) -> R) -> Result<R> {
        let summary = &*self.summary;
        summary.files.check_process()?;
        let caller = summary.files.caller(summary);
        caller.refuse_own(S::KIND.name, &summary.name)?;
        let state = read(&summary.state);
        state.check(summary)?;
        let _called = caller.call();
        Ok(look(&state.sketch))
    }

    /// Adds what another sketch counted.
    ///
    /// # Errors
    /// `Incompatible` if kind of hash, seed or shape differ; what the sketch's own `merge` says; as [`Stored::update`].
    pub fn merge(&self, other: &S) -> Result<()> {
        self.update(|sketch| sketch.merge_with(other))?
    }

    /// A copy of the sketch as it is now, in memory of the caller's.
    ///
    /// # Errors
    /// As [`Stored::with`].
    pub fn snapshot(&self) -> Result<S> {
        self.with(S::clone)
    }
}

impl Store {
    /// The sketch of this name: the one that is open in this process or stored here, or what `make` makes of nothing.
    ///
    /// `make` says what shape is wanted, and is called in any case. A sketch for keys that other structures of the store see, too, is
    /// made with [`Store::hasher`].
    ///
    /// # Cost
    /// Reads the sketch. Where one is stored, the one that `make` makes is dropped before that.
    ///
    /// # Errors
    /// What `make` returns. `Incompatible` if the one that is open or stored has another shape, hash or seed; `WrongKind` if it is another
    /// kind of summary; `NotFound` if there is none and the store is read-only; `BudgetExceeded`; `Corrupt`; as [`Store::open_with`].
    pub fn sketch<S: Sketch>(&self, name: &str, make: impl FnOnce() -> Result<S>) -> Result<Stored<S>> {
        let mut make = Some(make);
        let mut made = || make.take().map(|make| make());
        let opened = self.open_summary(name, |stored| match stored {
            None if self.is_read_only() => Err(missing(S::KIND.name, name)),
            None => {
                let sketch = made().ok_or_else(|| missing(S::KIND.name, name))??;
                Summary::new(self, name, sketch, None)
            }
            Some(entry) => {
                let wanted = made().transpose()?.map(|sketch| sketch.shape());
                let summary: Summary<S> = Summary::load(self, name, entry)?;
                wanted.map_or(Ok(()), |wanted| wanted.require(&read(&summary.state).sketch.shape()))?;
                Ok(summary)
            }
        })?;
        if let Some(wanted) = made() {
            wanted?.shape().require(&opened.with(S::shape)?)?;
        }
        Ok(opened)
    }

    /// The sketch of this name, of whatever shape it is stored or open.
    ///
    /// # Errors
    /// `NotFound` if there is none; else as [`Store::sketch`].
    pub fn open_sketch<S: Sketch>(&self, name: &str) -> Result<Stored<S>> {
        self.open_summary(name, |stored| match stored {
            None => Err(missing(S::KIND.name, name)),
            Some(entry) => Summary::load(self, name, entry),
        })
    }

    fn open_summary<S: Sketch>(
        &self,
        name: &str,
        make: impl FnOnce(Option<&Entry>) -> Result<Summary<S>>,
    ) -> Result<Stored<S>> {
        let opened = self.open_with(name, make).map_err(|error| match error {
            // The same kind of sketch with other counters, which is another type here.
            Error::WrongKind { expected, found, .. } if expected == found => Error::Incompatible {
                what: "the type of the sketch",
                expected: std::any::type_name::<S>().to_owned(),
                found: format!("that of the {found} that is open"),
            },
            error => error,
        });
        Ok(Stored { summary: opened? })
    }
}

/// A sketch, and what commits know of it.
#[derive(Debug)]
struct Summary<S> {
    name: String,
    path: PathBuf,
    files: Files,
    budget: Budget,
    state: RwLock<State<S>>,
    /// Taken after the state's lock, or alone.
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct State<S> {
    sketch: S,
    /// Counts the changes.
    revision: u64,
    /// A change began and has not ended.
    is_torn: bool,
    /// What is held of the store's budget; `None` once the sketch is closed.
    reservation: Option<Reservation>,
}

/// The revisions that the commit under way, and the last one, hold.
#[derive(Debug, Default)]
struct Progress {
    prepared: Option<u64>,
    committed: Option<u64>,
}

impl<S: Sketch> Summary<S> {
    fn new(store: &Store, name: &str, sketch: S, committed: Option<u64>) -> Result<Self> {
        let bytes = sketch.charged_bytes();
        let what = format!("the {} {name:?}", S::KIND.name);
        let reservation = Some(store.budget().reserve(&what, bytes, bytes)?);
        let state = State { sketch, revision: 0, is_torn: false, reservation };
        Ok(Self {
            name: name.to_owned(),
            path: store.device().path(),
            files: store.files().clone(),
            budget: store.budget().clone(),
            state: RwLock::new(state),
            progress: Mutex::new(Progress { prepared: None, committed }),
        })
    }

    fn load(store: &Store, name: &str, entry: &Entry) -> Result<Self> {
        entry.require(name, S::KIND)?;
        let [file] = entry.record.files[..] else {
            let (path, found) = (store.device().path(), entry.record.files.len());
            return Err(corrupt(&path, 0, "the number of a sketch's files", 1, found));
        };
        // Nothing is read that the budget has no room for.
        let what = format!("the {} {name:?}", S::KIND.name);
        let stored_bytes = usize::try_from(file.bytes).unwrap_or(usize::MAX);
        drop(store.budget().reserve(&what, stored_bytes, stored_bytes)?);
        let sketch = store.files().read_blob_with(&file, S::read)?;
        Self::new(store, name, sketch, Some(0))
    }
}

impl<S: Sketch> State<S> {
    fn check(&self, summary: &Summary<S>) -> Result<()> {
        if self.reservation.is_none() {
            return Err(Error::Closed { name: summary.name.clone() });
        }
        if self.is_torn {
            let why = format!("a change of {:?} panicked", summary.name);
            return Err(Error::Poisoned { path: summary.path.clone(), why });
        }
        Ok(())
    }

    /// Charges the budget with what earlier changes made the sketch grow by.
    fn charge(&mut self) -> Result<()> {
        let Some(held) = self.reservation.as_mut().filter(|_| S::GROWS) else { return Ok(()) };
        let bytes = self.sketch.charged_bytes();
        if held.bytes() < bytes { held.resize(bytes, bytes).map(drop) } else { Ok(()) }
    }
}

impl<S: Sketch> Summary<S> {
    /// All bytes of a sketch that is not written in pieces, or that is short while the budget has room for them.
    fn copy(&self, sketch: &S) -> Option<(Vec<u8>, Option<Reservation>)> {
        if !S::IS_STREAMED {
            return Some((sketch.bytes(), None));
        }
        let bytes = sketch.bytes_len();
        let room = || self.budget.reserve("a copy of a sketch", bytes, bytes).ok();
        let room = if bytes <= COPIED_BYTES_MAX { room() } else { None };
        room.map(|room| (sketch.bytes(), Some(room)))
    }
}

impl<S: Sketch> Openable for Summary<S> {
    const KIND: Kind = S::KIND;
}

impl<S: Sketch> Participant for Summary<S> {
    fn structure(&self) -> Structure {
        S::KIND.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let state = read(&self.state);
        state.check(self)?;
        let revision = state.revision;
        if lock(&self.progress).committed == Some(revision) {
            return Ok(Prepared::Unchanged);
        }
        let file = match self.copy(&state.sketch) {
            Some((bytes, _room)) => {
                drop(state);
                self.files.write_blob(&bytes)?
            }
            None => self.files.write_blob_with(state.sketch.bytes_len(), |sink| state.sketch.write(sink))?,
        };
        lock(&self.progress).prepared = Some(revision);
        Ok(Prepared::Changed(Record { state: Vec::new(), files: vec![file] }))
    }

    fn committed(&self) {
        let mut progress = lock(&self.progress);
        progress.committed = progress.prepared.take();
    }

    fn is_changed(&self) -> bool {
        let revision = read(&self.state).revision;
        lock(&self.progress).committed != Some(revision)
    }

    fn close(&self) {
        write(&self.state).reservation = None;
    }
}
