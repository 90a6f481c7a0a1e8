//! Stores that are open read-only: a snapshot of the last commit beside a writer, and the step to a newer one.
//!
//! ```text
//!   writer      commit 7 ──────── commit 8 ───── publish 9 ──────── commit 10 ─▶
//!   reader      open: 7           │ refresh: 8                      │ refresh: 10
//!   handles     seen of 7 ────────┼──────────────────────▶ dropped  │
//!                                 └ seen of 8, opened anew ─────────┼──────────▶
//! ```
//!
//! Invariants:
//! 1. A snapshot is one commit, and all its files are open: a writer beside it may remove their names.
//! 2. A handle is of the commit that it was opened from for as long as it lives. So two answers of one handle never differ, and several
//!    handles that were opened between two refreshes answer of one commit together.
//! 3. A refresh moves what the store says of itself (position, summaries) and what is opened from then on, in one step. It waits for
//!    opens under way: none sees two commits.
//! 4. What is open and is the same in the newer commit stays open, and opening it again gives the same.
//!
//! | | block reads | files open |
//! |---|---|---|
//! | `open_read_only` | superblock 4, manifest, long records | each file that the commit names |
//! | `refresh`, nothing new | superblock 4 | – |
//! | `refresh` | superblock 4, manifest, long records | those that are new; the others are closed with the handles that use them |
//!
//! Handles that moved by themselves were rejected: between two calls of a question an answer would change, and a refresh would read and
//! hold all that is open a second time, and could fail for one of them when the others have moved.
//!
//! A file descriptor for each file is what it takes: a name that is gone cannot be opened, and a reader that told the writer what it
//! still needs would have to write, and to be waited for when it hangs.

use super::catalog::Catalog;
use super::files::Pins;
use super::format::{self, Stored, Superblock};
use super::open::{OpenLog, Opened, check_options, open_committed, open_manifest, whole_catalog};
use super::{CommitId, Core, Files, State, Store, StoreOptions, manifest};
use crate::device::{Access, Device, FileDevice};
use crate::error::invalid;
use crate::lock::{lock, wait_while};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// How often a snapshot is begun again when a writer commits under it. Each try loses only to a whole rotation or removal in between,
/// so a handful would do.
const TRIES: usize = 32;

/// A commit with all that it needs, open.
struct Snapshot {
    superblock: Superblock,
    catalog: Catalog,
    log: OpenLog,
    pins: Pins,
}

impl Store {
    /// Opens a snapshot of the store in the directory `path`, beside a writer if there is one; writes nothing.
    ///
    /// # Errors
    /// As [`Store::open_read_only_on`].
    pub fn open_read_only(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Store::open_read_only_on(Arc::new(FileDevice::open(path, options.file)?), options)
    }

    /// Opens a snapshot of the last commit beside a writer, without a lock; writes nothing. [`Store::refresh`] moves it on.
    ///
    /// # Cost
    /// A file descriptor for each file of the commit.
    ///
    /// # Errors
    /// As [`Store::open_on`], less `Locked`; `Corrupt` also if a writer commits faster than the files can be opened.
    pub fn open_read_only_on(device: Arc<dyn Device>, options: StoreOptions) -> Result<Store> {
        let Snapshot { superblock, catalog, log, pins } = Snapshot::read(&device, &options, &Pins::new())?;
        Store::assemble(device, options, superblock, catalog, log, Opened::ToRead { pins })
    }

    /// Moves a store that is open read-only to the newest commit, and says whether there was a newer one. A publish is one, too, which
    /// changes no answer; [`Store::position`] tells whether the source has moved.
    ///
    /// What the store says of itself is of the newer commit from now on, and so is what is opened. **A handle keeps the commit that it
    /// was opened from**, and the memory and files that it takes: drop it and open it again by its name. What the newer commit has not
    /// changed is still open then, and costs nothing. Who keeps the older handle while it opens the newer one needs memory for both.
    ///
    /// A sketch on flash ([`Frequency`](crate::Frequency)) of an older commit answers until the writer writes over what that commit had:
    /// then it is [`Outdated`](Error::Outdated).
    ///
    /// A store that is open for writing is at its newest commit: nothing happens, and the answer is false.
    ///
    /// ```
    /// use overbank::{FilterOptions, Store, StoreOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let writer = Store::create(folder.path().join("crawl"), StoreOptions::new())?;
    /// let seen = writer.filter("seen", FilterOptions::new())?;
    /// writer.commit(b"0")?;
    ///
    /// let reader = Store::open_read_only(folder.path().join("crawl"), StoreOptions::new())?;
    /// let mut asked = reader.filter("seen", FilterOptions::new())?;
    /// seen.insert_keys(&["a"])?;
    /// writer.commit(b"1")?;
    /// assert_eq!(asked.contains_keys(&["a"])?, [false]);
    /// if reader.refresh()? {
    ///     asked = reader.filter("seen", FilterOptions::new())?;
    /// }
    /// assert_eq!(asked.contains_keys(&["a"])?, [true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cost
    /// Where nothing is new, one read of the superblock. Else the manifest is read, and the files are opened that are new. Waits for opens
    /// under way.
    ///
    /// # Errors
    /// `NotAStore` if another store has taken its place; `InvalidOption` in what [`Store::open_with`] calls, for which it would wait; as
    /// [`Store::open_read_only_on`]. The store then stays where it was.
    pub fn refresh(&self) -> Result<bool> {
        let core = &*self.core;
        core.poison.check()?;
        if !core.read_only {
            return Ok(false);
        }
        if core.state().is_making(None) {
            return invalid(
                "refresh",
                "used inside an open of this store",
                "it waits for that; do it behind it",
            );
        }
        let mut journal = lock(&core.journal);
        core.poison.check()?;
        let superblock = Superblock::read(&*core.device)?;
        if superblock.store_id != core.store_id {
            let why = "another store has taken its place; open that one".to_owned();
            return Err(Error::NotAStore { path: core.device.path(), why });
        }
        // A log grows by its records alone, and a new one is named by another superblock.
        if superblock == journal.superblock && journal.manifest.len_bytes()? == journal.log_bytes {
            return Ok(false);
        }
        let Snapshot { superblock, catalog, log, pins } =
            Snapshot::read(&core.device, &core.options, &core.files.pins())?;
        journal.superblock = superblock;
        journal.manifest = log.manifest;
        (journal.log_bytes, journal.snapshot_bytes) = (log.log_bytes, log.snapshot_bytes);
        core.state().format_version = superblock.version;
        Ok(core.move_to(catalog, pins))
    }

    /// Keeps the store at its commit until what is returned drops: for who reads several records, which are to be of one.
    pub(crate) fn stay(&self) -> Stay<'_> {
        self.core.state().reading += 1;
        Stay { core: &self.core }
    }
}

/// Keeps a store at its commit.
pub(crate) struct Stay<'a> {
    core: &'a Core,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.core.state().reading -= 1;
        self.core.opened.notify_all();
    }
}

impl Core {
    /// Makes another commit the one that is open; false if it is the one already. The caller has the journal's lock.
    fn move_to(&self, catalog: Catalog, pins: Pins) -> bool {
        let is_busy = |state: &mut State| state.reading > 0 || !state.opening.is_empty();
        let mut state = wait_while(&self.opened, self.state(), is_busy);
        let held = Arc::clone(&state.catalog);
        if (held.commit, held.time_ns) == (catalog.commit, catalog.time_ns) {
            return false;
        }
        let attached = std::mem::take(&mut state.attached);
        let (same, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            attached.into_iter().partition(|(name, _)| is_same(name, &held, &catalog));
        state.attached = same;
        state.catalog = Arc::new(catalog);
        self.files.repin(pins);
        drop(state);
        // Their handles keep them; without handles they end here, and outside of the lock.
        drop(others);
        true
    }
}

/// Whether a summary is the same in both commits, and with it what is named as a part of it.
fn is_same(name: &str, old: &Catalog, new: &Catalog) -> bool {
    parts(name, old).eq(parts(name, new))
}

fn parts<'c>(name: &'c str, catalog: &'c Catalog) -> impl Iterator<Item = (&'c String, &'c Arc<Stored>)> {
    let alike =
        catalog.summaries.range(name.to_owned()..).take_while(move |(other, _)| other.starts_with(name));
    alike.filter(move |(other, _)| other[name.len()..].is_empty() || other[name.len()..].starts_with('/'))
}

impl Files {
    /// Says of damage to a file written in place, which a summary found that was opened read-only from commit `held`, whether it is
    /// none: the writer has written over what that commit had since, as it may once there is a newer one.
    pub(crate) fn outdated(&self, held: CommitId, error: Error) -> Error {
        let Some(device) = self.device_to_read() else { return error };
        if !matches!(error, Error::Corrupt { .. }) {
            return error;
        }
        match newest(device) {
            Ok(newest) if newest > held => {
                Error::Outdated { path: device.path(), held: held.0, newest: newest.0 }
            }
            _ => error,
        }
    }
}

/// The number of the last commit.
fn newest(device: &dyn Device) -> Result<CommitId> {
    let superblock = Superblock::read(device)?;
    let file = open_manifest(device, &superblock, Access::Read)?;
    let log = manifest::read(&*file, &superblock, &device.path().join(file.name()))?;
    Ok(CommitId(log.records.last().map_or(0, |record| record.commit)))
}

impl Snapshot {
    /// The last commit. Files of `held` are not opened a second time.
    fn read(device: &Arc<dyn Device>, options: &StoreOptions, held: &Pins) -> Result<Self> {
        let mut tries = 0;
        loop {
            tries += 1;
            match Snapshot::try_read(device, options, held) {
                // A manifest or data file that vanished, or a log read while it grew: the writer has moved on.
                Err(Error::Corrupt { .. }) if tries < TRIES => {}
                result => return result,
            }
        }
    }

    fn try_read(device: &Arc<dyn Device>, options: &StoreOptions, held: &Pins) -> Result<Self> {
        let superblock = Superblock::read(&**device)?;
        check_options(&superblock, options)?;
        let file = open_manifest(&**device, &superblock, Access::Read)?;
        let path = device.path().join(file.name());
        let log = manifest::read(&*file, &superblock, &path)?;
        let open_log =
            OpenLog { manifest: file, log_bytes: log.valid_bytes, snapshot_bytes: log.snapshot_bytes };
        let catalog = whole_catalog(device, &superblock, log.records)?;
        let open = |id| match held.get(&id) {
            Some(file) => Ok((id, Arc::clone(file))),
            None => Ok((id, open_committed(&**device, &format::data_name(id), Access::Read)?)),
        };
        let pins = catalog.files().map(|file| open(file.id)).collect::<Result<Pins>>()?;
        Ok(Snapshot { superblock, catalog, log: open_log, pins })
    }
}
