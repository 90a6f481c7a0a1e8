//! A directory for files that must not outlive the command, however it ends: at its end, on an error, on Ctrl-C.
//!
//! Rows that wait are in files without a name, which the system removes even after SIGKILL; a store's files have names.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where scratch files go, and the directory made there.
pub(crate) struct Scratch {
    place: PathBuf,
    made: Option<TempDir>,
    interrupt: Interrupt,
}

impl Scratch {
    /// Scratch files in `place`; by default where temporary files may be large: `/tmp` is often in RAM.
    pub(crate) fn new(place: Option<&Path>, interrupt: &Interrupt) -> Self {
        let place = place.map_or_else(default_place, Path::to_owned);
        Self { place, made: None, interrupt: interrupt.clone() }
    }

    /// Makes a directory.
    pub(crate) fn make(&mut self) -> Result<&Path, Failure> {
        let directory = tempfile::Builder::new()
            .prefix("overbank-")
            .tempdir_in(&self.place)
            .map_err(|error| unusable(&self.place, &error))?;
        self.interrupt.removes(directory.path());
        Ok(self.made.insert(directory).path())
    }

    /// A file without a name in the scratch directory.
    pub(crate) fn file(&self) -> Result<File, Failure> {
        let place = self.made.as_ref().map_or(self.place.as_path(), TempDir::path);
        tempfile::tempfile_in(place).map_err(|error| unusable(place, &error))
    }

    pub(crate) fn place(&self) -> &Path {
        &self.place
    }
}

fn default_place() -> PathBuf {
    let given = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|place| !place.as_os_str().is_empty());
    given.unwrap_or_else(|| {
        let large = PathBuf::from("/var/tmp");
        if large.is_dir() { large } else { std::env::temp_dir() }
    })
}

/// What keeps scratch files from being used, and what helps.
pub(crate) fn unusable(place: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!(
        "cannot keep scratch files in {}: {error}; free some space there, or name another directory with --spool",
        place.display()
    ))
}
