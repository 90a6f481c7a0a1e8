//! Who may still use an open structure: not a fork, nobody after it was closed, and no commit after a thread panicked inside it.

use super::Files;
use crate::device::Process;
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What every call to an open structure passes first.
#[derive(Debug)]
pub(crate) struct Gate {
    /// What the structure is, and its name.
    what: &'static str,
    name: String,
    files: Files,
    /// The process that opened the store.
    process: Process,
    /// Where the store is, if it is open read-only.
    read_only: Option<PathBuf>,
    /// The store was told to close the structure.
    is_closed: AtomicBool,
    /// A thread panicked while it changed the structure.
    is_broken: AtomicBool,
}

/// A change under way: dropped by a panic, it leaves a structure that is not to be committed.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    gate: &'a Gate,
    was_panicking: bool,
}

impl Gate {
    /// Of the structure of this name; `read_only` says where the store is, if it is open so.
    pub(crate) fn new(what: &'static str, name: &str, files: Files, read_only: Option<PathBuf>) -> Self {
        Gate {
            what,
            name: name.to_owned(),
            files,
            process: Process::current(),
            read_only,
            is_closed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.is_some()
    }

    /// Refuses those who go on with a structure that is closed, or in a fork.
    #[inline]
    pub(crate) fn usable(&self) -> Result<()> {
        // As the files say it, where it has to be said.
        if !self.process.is_current() {
            self.files.check_process()?;
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed { name: self.name.clone() });
        }
        Ok(())
    }

    /// As [`Gate::usable`], and refuses where nothing may be written.
    #[inline]
    pub(crate) fn writable(&self) -> Result<()> {
        self.usable()?;
        match &self.read_only {
            Some(path) => Err(Error::ReadOnly { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Refuses to commit what a panic may have left half-done.
    pub(crate) fn check_whole(&self) -> Result<()> {
        if self.is_broken.load(Ordering::Relaxed) {
            let why = format!("a thread panicked while it changed the {} {:?}", self.what, self.name);
            return Err(Error::Poisoned { path: self.name.clone().into(), why });
        }
        Ok(())
    }

    /// From now on everything is refused.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Notes, when it is dropped by a panic, that the structure is not to be committed.
    pub(crate) fn change(&self) -> Change<'_> {
        Change { gate: self, was_panicking: std::thread::panicking() }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.gate.is_broken.store(true, Ordering::Relaxed);
        }
    }
}
