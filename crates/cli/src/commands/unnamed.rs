//! A store that is made beside its place and gets its name when it is whole: an error or a signal leaves nothing behind, and what a run
//! that was killed left is removed by the next one.
//!
//! Its directory is locked before anything is put into it. So one that holds something, or has been there for long, and that nobody has
//! locked is nobody's any more.

use crate::announce;
use crate::failure::{Failure, say};
use crate::interrupt::Interrupt;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// How long a signal waits at most until it is seen.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);

/// What the names of directories begin with whose stores have none yet.
const PREFIX: &str = ".overbank-merge-";

/// A directory that was made so long ago is locked, if it has an owner.
const SURELY_LOCKED: Duration = Duration::from_secs(3600);

/// A directory on the file system of the place whose name it is to have; it is removed unless it gets that.
pub(super) struct Unnamed<'p> {
    directory: TempDir,
    place: &'p Path,
    watch: Watch,
    /// Its lock goes with the process.
    _own: File,
}

impl<'p> Unnamed<'p> {
    pub(super) fn beside(place: &'p Path, interrupt: Interrupt) -> Result<Self, Failure> {
        sweep(parent(place));
        let mode = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix(PREFIX).permissions(mode).tempdir_in(parent(place));
        let locked = made.and_then(|directory| {
            let own = File::open(directory.path())?;
            // Where a file system has no locks, nothing is swept either.
            let _ = flock(&own, FlockOperation::LockExclusive);
            Ok((directory, own))
        });
        let (directory, own) = locked.map_err(|error| {
            Failure::Usage(format!("cannot make {}: {error}; name another directory", place.display()))
        })?;
        let watch = Watch::start(interrupt, Some(directory.path().to_owned()));
        announce::at("made");
        Ok(Self { directory, place, watch, _own: own })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Gives it its name, for good.
    pub(super) fn name(self) -> Result<(), Failure> {
        self.watch.end();
        let named = std::fs::rename(self.directory.path(), self.place)
            .and_then(|()| File::open(parent(self.place))?.sync_all());
        if let Err(error) = named {
            return Err(Failure::Usage(format!(
                "cannot name the new store {}: {error}; name another directory",
                self.place.display()
            )));
        }
        // Nothing has its old name any more.
        let _ = self.directory.keep();
        Ok(())
    }
}

/// Removes what merges left in `place` that were killed. What cannot be removed is said, and stays.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    let names =
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    for left in names.map(|entry| entry.path()).filter(|path| is_left(path)) {
        match std::fs::remove_dir_all(&left) {
            Ok(()) => say(format_args!("removed {}, which a merge that was killed left", left.display())),
            Err(error) => {
                say(format_args!(
                    "cannot remove {}, which a merge that was killed left: {error}",
                    left.display()
                ));
            }
        }
    }
}

/// Whether nobody makes a store in a directory any more.
fn is_left(path: &Path) -> bool {
    let Some(metadata) = std::fs::symlink_metadata(path).ok().filter(Metadata::is_dir) else { return false };
    let is_old =
        metadata.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > SURELY_LOCKED);
    let holds_something = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    // One that is new and empty may be locked by its owner in a moment.
    let directory = if is_old || holds_something() { File::open(path) } else { return false };
    directory.is_ok_and(|directory| flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// The directory that a path lies in.
pub(super) fn parent(place: &Path) -> &Path {
    place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Ends the process at a signal: a store is then as at its last commit, and an unfinished one is removed.
pub(super) struct Watch {
    is_over: Arc<Mutex<bool>>,
}

impl Watch {
    pub(super) fn start(interrupt: Interrupt, unfinished: Option<PathBuf>) -> Self {
        let is_over = Arc::new(Mutex::new(false));
        let watched = Arc::clone(&is_over);
        let watch = move || {
            loop {
                // Held to the end of the process: nothing is named any more.
                let is_over = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_over {
                    return;
                }
                if interrupt.is_raised() {
                    give_up(unfinished.as_deref());
                }
                drop(is_over);
                std::thread::sleep(SIGNAL_PERIOD);
            }
        };
        // Where the system gives no thread, the second signal ends the process.
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
        Self { is_over }
    }

    /// From here on, a signal comes too late.
    pub(super) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Drop for Watch {
    /// Once a signal was seen, the process ends by it, and not by an error over files that are being removed.
    fn drop(&mut self) {
        self.end();
    }
}

fn give_up(unfinished: Option<&Path>) -> ! {
    // The merge may still make files there; a few rounds outrun it.
    if let Some(directory) = unfinished {
        for _ in 0..1024 {
            if std::fs::remove_dir_all(directory).is_ok() || !directory.exists() {
                break;
            }
            std::thread::yield_now();
        }
    }
    let failure = Failure::Interrupted("interrupted; nothing was changed".to_owned());
    failure.say();
    std::process::exit(failure.exit_code().into());
}
