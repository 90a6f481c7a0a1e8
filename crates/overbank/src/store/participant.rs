//! What a summary brings to a commit: a small record, and the files it names.

use super::Files;
use crate::{Error, Result};
use std::ops::Range;

/// Number of a file in its store. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u64);

/// Number of a commit; each is one more than the one before. 0 is the empty store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommitId(pub u64);

/// Which kind of summary it is, and the version of its own bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Structure {
    /// The kind; each structure owns one number for ever.
    pub id: u16,
    /// The version of its state and files.
    pub version: u16,
}

/// A committed file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileRef {
    /// Its number.
    pub id: FileId,
    /// Its committed length in bytes, whole blocks. A file written in place may be longer.
    pub bytes: u64,
    /// XXH3-128 over the whole file, blocks with their trailers; 0 where the file is written in place.
    pub xxh3: u128,
}

impl FileRef {
    /// Whether its blocks change after the commit, which rules out a whole-file hash.
    pub fn is_in_place(&self) -> bool {
        self.xxh3 == 0
    }
}

/// What the manifest keeps of one summary.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Record {
    /// Inline state, at most [`STATE_BYTES_MAX`](super::STATE_BYTES_MAX) bytes.
    pub state: Vec<u8>,
    /// The files it needs; they belong to this summary alone.
    pub files: Vec<FileRef>,
}

/// A summary in the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its kind and version.
    pub structure: Structure,
    /// Its committed record.
    pub record: Record,
}

impl Entry {
    /// Refuses a summary of another kind than `structure`, or of another version of it; `what` is it, with its name.
    ///
    /// # Errors
    /// `Incompatible`, `UnsupportedVersion`.
    pub(crate) fn require(&self, structure: Structure, what: String) -> Result<()> {
        if self.structure.id != structure.id {
            let (expected, found) = (structure.id.to_string(), self.structure.id.to_string());
            return Err(Error::Incompatible { what: "structure id", expected, found });
        }
        if self.structure.version != structure.version {
            let (found, supported) = (self.structure.version.into(), structure.version.into());
            return Err(Error::UnsupportedVersion { what, found, supported });
        }
        Ok(())
    }
}

/// What [`Participant::prepare`] answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// Nothing has changed since the last commit: it costs nothing.
    Unchanged,
    /// This is to be committed.
    Changed(Record),
}

/// A summary that commits together with the others of its store.
///
/// The duties, in the order of a commit:
/// 1. `prepare` writes everything that the record needs and syncs those files. It must not touch a block that the last
///    commit needs: it writes new files, or shadow places of a file that is written in place.
/// 2. It may be called again without `committed` in between: the commit failed. Files that it created through the
///    `files` it was given are then gone; those created earlier (by a merge) are still there.
/// 3. `committed` says that the record is durable. What it does not name any more may be forgotten.
pub trait Participant: Send {
    /// Its kind and the version of its bytes.
    fn structure(&self) -> Structure;

    /// Makes commit `commit` possible.
    ///
    /// # Errors
    /// `Full`, `BudgetExceeded`, `OutOfMemory` and `InvalidOption` call the commit off and leave the store usable; any other
    /// error poisons it.
    fn prepare(&mut self, files: &Files, commit: CommitId) -> Result<Prepared>;

    /// The record of the last `prepare` is durable. Not called for those that were unchanged.
    fn committed(&mut self, commit: CommitId);

    /// Which blocks of a file written in place the last commit needs, so that `verify` can tell damage from a shadow
    /// place that a crash tore. `None`: not known, the file's blocks are counted as unchecked.
    fn live_blocks(&self, file: &FileRef) -> Option<Vec<Range<u64>>> {
        let _ = file;
        None
    }
}
