//! Whether a store may be used: by the process that opened it, and written until the first failed write or sync.
//!
//! Invariant: once set it stays, and it keeps the first reason.

use crate::device::Process;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A flag with a reason. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Poison {
    path: Arc<Path>,
    owner: Process,
    why: Arc<OnceLock<String>>,
}

impl Poison {
    pub(super) fn new(path: PathBuf) -> Self {
        Poison { path: path.into(), owner: Process::current(), why: Arc::default() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.to_path_buf()
    }

    pub(super) fn set(&self, why: String) {
        // Only the first reason is the cause.
        let _ = self.why.set(why);
    }

    /// Sets it if `result` failed.
    pub(super) fn watch<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.set(error.to_string()))
    }

    /// `Forked` in any other process than the one that opened the store.
    pub(super) fn check_process(&self) -> Result<()> {
        self.owner.require_current(&self.path)
    }

    /// `Poisoned` if it is set, `Forked` as above.
    pub(super) fn check(&self) -> Result<()> {
        self.check_process()?;
        match self.why.get() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned { path: self.path(), why: why.clone() }),
        }
    }
}
