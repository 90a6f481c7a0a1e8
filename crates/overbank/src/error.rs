//! The one error type. Each variant carries the facts; `Display` is a sentence with the numbers and the remedy.

use std::path::{Path, PathBuf};

/// The result of everything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, with the facts as fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "write", "sync", "open".
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// The process has as many files open as it may.
    #[error(
        "cannot {op} {}: this process may have {files_max} files open, and a store has each of its own; raise the limit (ulimit -n)",
        path.display()
    )]
    TooManyFiles {
        /// What was tried, as a verb.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// How many may be open at once.
        files_max: u64,
    },

    /// No space is left on the device, or a quota is reached. What was committed, if anything was, is whole.
    #[error(
        "{} is full: {needed_bytes} more bytes do not fit; free some space and run again; what was committed before is whole",
        path.display()
    )]
    Full {
        /// The file that could not grow.
        path: PathBuf,
        /// How many bytes were asked for.
        needed_bytes: u64,
    },

    /// Stored bytes are not what was written: damage, or not our file.
    #[error("{} at byte {at}: {what} should be {expected} but is {found}; {}", damaged(path), restore(path))]
    Corrupt {
        /// The file; empty where bytes were handed in, from wherever the caller keeps them.
        path: PathBuf,
        /// Byte offset of the damage in the file (or in the serialized bytes).
        at: u64,
        /// The field or block.
        what: &'static str,
        /// What it should hold.
        expected: String,
        /// What it holds.
        found: String,
    },

    /// Written by another version of the format.
    #[error(
        "{what} has format version {found}; this build reads version {supported}: use a matching release of overbank"
    )]
    UnsupportedVersion {
        /// What was being read.
        what: String,
        /// The version in its header.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },

    /// The directory exists but holds no store.
    #[error("{} is not a store: {why}", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        why: String,
    },

    /// The store is open for writing: in another process, or in this one.
    #[error("{} is {}", path.display(), locked(*pid))]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// The process that holds the lock, perhaps this one; 0 where unknown.
        pid: u32,
    },

    /// No such summary, or no such file.
    #[error("there is no {what} named {name:?}; check the name")]
    NotFound {
        /// What kind of thing was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },

    /// Something of that name exists already.
    #[error("there is already a {what} named {name:?}")]
    AlreadyExists {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },

    /// An option is out of its range.
    #[error("{name} cannot be {value}: {why}")]
    InvalidOption {
        /// The option's name.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The range, and the remedy.
        why: String,
    },

    /// Two summaries differ in seed, hash kind or shape.
    #[error(
        "these summaries cannot be combined: {what} is {expected} in one and {found} in the other; build both with the same \
         options and seed"
    )]
    Incompatible {
        /// What differs.
        what: &'static str,
        /// Here.
        expected: String,
        /// There.
        found: String,
    },

    /// A summary of another kind than was asked for.
    #[error("{name:?} is a {found}, not a {expected}; open it as what it is, or choose another name")]
    WrongKind {
        /// Its name.
        name: String,
        /// The kind that was asked for.
        expected: &'static str,
        /// The kind that it is.
        found: String,
    },

    /// The summary was closed while this handle of it was kept.
    #[error("{name:?} was closed; open it again")]
    Closed {
        /// Its name.
        name: String,
    },

    /// A structure of fixed capacity holds all that it may.
    #[error("{what} holds {held} keys of at most {capacity}, and {wanted} more do not fit; {remedy}")]
    CapacityExceeded {
        /// The structure.
        what: &'static str,
        /// How many it holds.
        held: u64,
        /// How many should go in.
        wanted: u64,
        /// How many it takes.
        capacity: u64,
        /// What to do.
        remedy: &'static str,
    },

    /// The memory budget does not hold what was asked for.
    #[error(
        "{what} needs at least {wanted_bytes} bytes but only {available_bytes} of the memory budget of {budget_bytes} are free; raise the \
         budget or ask for less"
    )]
    BudgetExceeded {
        /// Who asked.
        what: String,
        /// The least it can live with.
        wanted_bytes: usize,
        /// What is free.
        available_bytes: usize,
        /// The whole budget.
        budget_bytes: usize,
    },

    /// The system gives this process no more memory, whatever the budget allows.
    #[error(
        "{what} needs {wanted_bytes} bytes, and the system gives this process no such block; lower the memory budget, or raise the \
         limit (ulimit -v)"
    )]
    OutOfMemory {
        /// Who asked.
        what: String,
        /// The block that was asked for.
        wanted_bytes: usize,
    },

    /// An earlier write or sync failed, so nothing more is written until the store is reopened.
    #[error("{} takes no more writes since this failed: {why}; reopen the store, it holds the last commit", path.display())]
    Poisoned {
        /// The store's directory.
        path: PathBuf,
        /// The first failure.
        why: String,
    },

    /// A thread that worked for a structure failed, so that what was inserted is not all there any more.
    #[error(
        "{what} takes no more rows and gives no answers, since one of its threads failed: {why}; make a new one"
    )]
    WorkerFailed {
        /// The structure.
        what: &'static str,
        /// What the thread met first.
        why: String,
    },

    /// The handle was opened by another process, of which this one is a fork. Nothing was read or written through it.
    #[error("{} was opened by process {opened_by}, and this is process {pid}, a fork of it; open it again in this one", path.display())]
    Forked {
        /// The store's directory, or a file of it.
        path: PathBuf,
        /// The process that opened it.
        opened_by: u32,
        /// This process.
        pid: u32,
    },

    /// A summary was opened read-only, and its writer has since written over what that commit had on the device.
    #[error(
        "commit {held} of {} cannot be asked any more: its writer has gone on to commit {newest}, and over it; refresh the store and open \
         the summary again",
        path.display()
    )]
    Outdated {
        /// The store's directory.
        path: PathBuf,
        /// The commit that the summary was opened from.
        held: u64,
        /// The store's last commit.
        newest: u64,
    },

    /// A store that was opened read-only was asked to write.
    #[error("{} is open read-only and cannot be changed; open it for writing", path.display())]
    ReadOnly {
        /// The store's directory.
        path: PathBuf,
    },
}

/// Refuses an option; `why` ends in what to choose instead.
#[cold]
pub(crate) fn invalid<T>(
    name: &'static str,
    value: impl ToString,
    why: impl Into<String>,
) -> crate::Result<T> {
    Err(Error::InvalidOption { name, value: value.to_string(), why: why.into() })
}

fn locked(pid: u32) -> String {
    let remedy = "or open the store read-only";
    match pid {
        0 => format!("being written by another process; wait for it, {remedy}"),
        pid if pid == std::process::id() => {
            format!("open for writing in this process already; use a clone of that store, {remedy}")
        }
        pid => format!("being written by another process (pid {pid}); wait for it, {remedy}"),
    }
}

fn damaged(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => "the bytes are damaged or cut off".to_owned(),
        false => format!("{} is damaged", path.display()),
    }
}

fn restore(path: &Path) -> &'static str {
    match path.as_os_str().is_empty() {
        true => "give all bytes as they were written, or take them from another copy",
        false => "restore the store from a copy",
    }
}

impl Error {
    /// Says which file the bytes come from, where whoever decoded them did not know.
    pub(crate) fn in_file(self, file: &Path) -> Self {
        self.in_file_from(file, 0)
    }

    /// Says which file the bytes come from, and that the decoded ones begin at its byte `origin`, where whoever decoded them knew
    /// neither.
    pub(crate) fn in_file_from(self, file: &Path, origin: u64) -> Self {
        match self {
            Error::Corrupt { path, at, what, expected, found } if path.as_os_str().is_empty() => {
                Error::Corrupt {
                    path: file.to_path_buf(),
                    at: origin.saturating_add(at),
                    what,
                    expected,
                    found,
                }
            }
            error => error,
        }
    }
}

/// The error for bytes of a file that cannot be what was written. `at` counts from the file's start.
#[cold]
pub(crate) fn corrupt(
    path: &Path,
    at: u64,
    what: &'static str,
    expected: impl ToString,
    found: impl ToString,
) -> Error {
    Error::Corrupt {
        path: path.to_path_buf(),
        at,
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

/// The error for encoded bytes that no encoder wrote. `at` counts from the start of the encoded form; who read it from a file
/// knows which ([`Error::in_file`]).
#[cold]
pub(crate) fn corrupt_bytes(
    at: usize,
    what: &'static str,
    expected: impl ToString,
    found: impl ToString,
) -> Error {
    corrupt(Path::new(""), at as u64, what, expected, found)
}

/// The error for a thing of this kind that is not there.
#[cold]
pub(crate) fn missing(what: &'static str, name: impl Into<String>) -> Error {
    Error::NotFound { what, name: name.into() }
}
