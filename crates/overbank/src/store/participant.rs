//! What a summary brings to a commit: a small record, and the files it names.

use super::registry::{self, Kind};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::MutexGuard;

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
    /// State, of any length. A record that takes more than 16 KiB with its files (32 bytes each) is written to a file of its
    /// own at each commit that changes it.
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
    /// Refuses a summary of another kind than this number's; `name` is that of the summary.
    ///
    /// # Errors
    /// `WrongKind`.
    pub(crate) fn require_kind(&self, name: &str, id: u16) -> Result<()> {
        if self.structure.id == id {
            return Ok(());
        }
        Err(wrong_kind(name, id, self.structure.id))
    }

    /// Refuses a summary of another kind than `kind`, or of another version of it; `name` is that of the summary.
    ///
    /// # Errors
    /// `WrongKind`, `UnsupportedVersion`.
    pub fn require(&self, name: &str, kind: Kind) -> Result<()> {
        self.require_since(name, kind, kind.version)
    }

    /// As [`Entry::require`], where versions from `oldest` on are read.
    ///
    /// # Errors
    /// As there.
    pub fn require_since(&self, name: &str, kind: Kind, oldest: u16) -> Result<()> {
        self.require_kind(name, kind.id)?;
        if !(oldest..=kind.version).contains(&self.structure.version) {
            let (found, supported) = (self.structure.version.into(), kind.version.into());
            return Err(Error::UnsupportedVersion {
                what: format!("{} {name:?}", kind.name),
                found,
                supported,
            });
        }
        Ok(())
    }
}

/// The error where `name` is another kind of summary than was asked for, both by their numbers.
pub(super) fn wrong_kind(name: &str, expected: u16, found: u16) -> Error {
    let expected = registry::name_of(expected).unwrap_or("summary of another kind");
    let unknown = || format!("summary of kind {found}, which this build does not know");
    let found = registry::name_of(found).map_or_else(unknown, str::to_owned);
    Error::WrongKind { name: name.to_owned(), expected, found }
}

/// What [`Participant::prepare`] answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// Nothing has changed since the last commit: it costs nothing.
    Unchanged,
    /// This is to be committed.
    Changed(Record),
}

/// A summary that commits together with the others of its store. Its locks are its own: all of this may be called while other
/// threads use it.
///
/// The duties, in the order of a commit:
/// 1. `prepare` writes everything that the record needs and syncs those files: what was taken in before the commit began is in
///    it, what is taken in meanwhile is in it or not. It must not touch a block that the last commit needs: it writes new files,
///    or shadow places of a file that is written in place. No lock of the store but the one that makes commits take turns is
///    held meanwhile.
/// 2. It may be called again without `committed` in between: the commit failed. The blobs that `prepare` wrote are then gone;
///    other files are still there.
/// 3. `committed` says that the record is durable. Between the two, what the record names must stay as it is: the summary may
///    replace it, but not write over it.
///
/// A file that it does not need any more it gives up by [`Files::retire`](super::Files::retire), whatever names the file.
pub trait Participant: Send + Sync {
    /// Its kind and the version of its bytes.
    fn structure(&self) -> Structure;

    /// Keeps it as it is until what is returned drops. A commit asks all for it before the first `prepare`, and drops it behind the last:
    /// for what is kept as several summaries, which must be of one moment. Waits for no commit.
    ///
    /// # Errors
    /// As `prepare`.
    fn hold(&self) -> Result<Hold<'_>> {
        Ok(Hold::default())
    }

    /// Makes a commit possible.
    ///
    /// # Errors
    /// `Full`, `BudgetExceeded`, `OutOfMemory` and `InvalidOption` call the commit off and leave the store usable; any other
    /// error poisons it.
    fn prepare(&self) -> Result<Prepared>;

    /// The record of the last `prepare` is durable. Not called for those that were unchanged.
    fn committed(&self);

    /// Whether it holds anything that no durable record does. A handle that is dropped gives its summary up at once if not,
    /// else with the commit that takes it in. May say so where it does not know.
    fn is_changed(&self) -> bool {
        true
    }

    /// What it is a part of that people open by one name, if it is: the pane of a window, of the window. It is closed with that.
    fn whole(&self) -> Option<&str> {
        None
    }

    /// It takes part in no commit any more, whoever still has a handle: gives its budget back, and takes nothing in from now on.
    fn close(&self) {}

    /// Which blocks of a file written in place the last commit needs, so that `verify` can tell damage from a shadow
    /// place that a crash tore. `None`: not known, the file's blocks are counted as unchecked.
    fn live_blocks(&self, file: &FileRef) -> Option<Vec<Range<u64>>> {
        let _ = file;
        None
    }
}

/// What keeps a summary as it is while a commit prepares it: a lock of its own, or nothing.
#[derive(Debug, Default)]
pub struct Hold<'a>(Option<MutexGuard<'a, ()>>);

impl<'a> Hold<'a> {
    /// Until this lock is given back.
    pub fn of(lock: MutexGuard<'a, ()>) -> Self {
        Hold(Some(lock))
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
