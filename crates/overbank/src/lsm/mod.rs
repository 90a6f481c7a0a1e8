//! Sorted immutable runs that are merged in the background: what a structure beyond RAM is made of.
//!
//! ```text
//!   memtable ─freeze─▶ frozen runs in RAM ─flush, a job─▶ runs on flash ─merges, jobs─▶ longer runs
//!                                       a job is cut into lanes, by hash range: a thread takes a lane for a step
//! ```
//!
//! * `run`: a run, its pieces, its age. `version`: all runs of a moment. `picker`: which merges are due. `job`: a merge, cut into lanes.
//!   `state`: version and jobs under one lock; `begin`: which jobs begin; `lanes`: how they go on and end. `limits`: what all of it may
//!   take. `scheduler`: who works on jobs; `waits`: what callers wait for; `pace`: what an inserted key owes. `frozen`, `joining`: runs in
//!   RAM joined for readers. `commit`, `durable`, `format`: what a commit names, and how space comes back without one.
//!
//! What the entries are, how runs are written and read, and which of them belong together, the [`Table`] says.
//!
//! Invariants:
//! 1. A look at a [`Version`] sees each entry exactly once: what a lane of a job made takes the place of what the job's inputs have in
//!    its range, in one change.
//! 2. Where the newest entry wins, only neighbours in age are merged.
//! 3. An insert waits for no merge: it does a share of the work that is due, a step of some milliseconds at a time.
//! 4. A job that finds the disk full, fails or is cut off keeps what it published, and goes on from there, also after a restart.
//! 5. A merge of much of the tree takes little flash beside: its inputs are given back in pieces while it goes on. Pieces that the last
//!    commit names go with a record of their own between two commits, if all inputs are durable, else with the next commit.
//!
//! | n entries, m in RAM, fan-out T, L = log_T(n / m) levels | entries written | runs |
//! |---|---|---|
//! | tiered | L n | (T - 1) L |
//! | lazy-levelled | (L - 1 + T / 2) n | 1 + (T - 1) (L - 1) |
//!
//! Source: O'Neil et al., The Log-Structured Merge-Tree (1996); Dayan, Idreos, Dostoevsky (2018), for lazy levelling. Deviations: levels
//! are by the length of runs, not by number of merges; merges are deamortized; lanes are published in hash order, each alone, so that one
//! border is all there is to know of a merge that is half done (RocksDB's subcompactions are published together, when all are done).

mod begin;
mod commit;
mod durable;
mod format;
mod frozen;
mod job;
mod joining;
mod lanes;
mod limits;
mod pace;
mod picker;
mod run;
mod scheduler;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod version;
mod waits;

pub(crate) use format::{StoredRun, StoredTree};
pub(crate) use limits::Limits;
pub use picker::Policy;
pub(crate) use picker::{Choice, Shape, idle_groups, level_of};
pub(crate) use run::{Run, Size, Span};
pub(crate) use scheduler::Tree;
pub(crate) use state::State;
#[cfg(test)]
pub(crate) use version::Merging;
pub(crate) use version::Version;

use crate::store::{FileRef, Files, Record};
use crate::{Error, Result};
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// How entries of one key in several runs are understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// They add up, so any runs may be merged.
    Sums,
    /// The newest one counts, so only neighbours in age are merged. Memtables are then frozen one after the other.
    NewestWins,
}

/// What the runs of a [`Tree`] hold.
pub(crate) trait Table: Debug + Send + Sync + Sized + 'static {
    /// What may be merged with what: runs of one class, unless the table says more in [`Table::wanted`] and [`Table::whole_class`].
    type Class: Copy + Ord + Debug + Send + Sync;
    /// A frozen memtable: sorted entries in RAM.
    type Frozen: Debug + Send + Sync;
    /// A file of sorted entries. It stays readable after its file is removed.
    type Segment: Debug + Send + Sync;
    /// A merge under way. Dropped, it removes its file.
    type Merge: Debug + Send;
    /// What the table notes of new entries under the tree's lock: their class, for one.
    type Writes: Clone + Debug + Send;

    /// How entries of one key are understood.
    const ORDER: Order;
    /// Whether merges are also due by the length of runs, beside those of [`Table::wanted`].
    const BY_LENGTH: bool = true;

    /// Opens a committed segment.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    fn open(&self, files: &Files, file: &FileRef, class: Self::Class) -> Result<Self::Segment>;

    /// What a commit keeps of a tree with these runs and notes.
    fn record(&self, writes: &Self::Writes, tree: &StoredTree<Self::Class>) -> Record;

    /// The first and last hash that a segment, as far as it is visible, may have.
    fn hashes(segment: &Self::Segment) -> RangeInclusive<u64>;

    /// The segment as it is seen from a hash on: whoever asks or merges it finds nothing below. `None` if there is nothing from there
    /// on.
    fn clip(segment: &Arc<Self::Segment>, border: u64) -> Option<Arc<Self::Segment>>;

    /// The file of a segment.
    fn file_ref(segment: &Self::Segment) -> FileRef;

    /// What a segment's file holds and takes, whatever is visible of it.
    fn segment_size(segment: &Self::Segment) -> Size;

    /// What a frozen run holds and takes.
    fn frozen_size(frozen: &Self::Frozen) -> Size;

    /// RAM that the table takes beside its runs and what merges are known to need: so much less is there for frozen runs.
    fn extra_bytes(&self) -> usize {
        0
    }

    /// The share of the frozen runs' room at which a flush begins; whether there are runs on flash yet.
    fn flush_share(&self, has_runs: bool) -> (usize, usize) {
        let _ = has_runs;
        Limits::FLUSH
    }

    /// Whether a flush that fails so is told to whoever waits for it, and not to the store: its frozen runs are as they were, and the table
    /// may have another way to go on.
    fn is_told(error: &Error) -> bool {
        let _ = error;
        false
    }

    /// Frozen runs have gone to flash or were joined: versions before the `edit`-th, if the table keeps one, keep RAM that is needed.
    fn frozen_gone(&self, edit: u64) {
        let _ = edit;
    }

    /// Begins to merge what `inputs`, the oldest first, have in the lane's range.
    ///
    /// # Errors
    /// What the device says; `Incompatible` for inputs that are no match.
    fn begin(
        &self,
        files: &Files,
        inputs: &[Input<Self>],
        lane: &LaneSpec<Self::Class>,
    ) -> Result<Self::Merge>;

    /// Merges until about so many blocks were read.
    ///
    /// # Errors
    /// `Full`, `Corrupt`, `Io`: the merge is of no use then, its inputs are as they were.
    fn step(&self, merge: &mut Self::Merge, blocks: u64) -> Result<Stepped>;

    /// Ends a merge that has no more to read: syncs its file. `None` where nothing was left, and no file.
    ///
    /// # Errors
    /// As [`Table::step`].
    fn finish(&self, files: &Files, merge: Self::Merge, class: Self::Class) -> Result<Option<Self::Segment>>;

    /// Joins frozen runs of a class, the oldest first, for those who look keys up.
    ///
    /// # Errors
    /// `Incompatible` for inputs that are no match.
    fn join(&self, inputs: &[Arc<Self::Frozen>], class: Self::Class) -> Result<Self::Frozen>;

    /// A merge that the table wants before those that are due by the length of runs, perhaps of several classes: `runs` are all that
    /// there are, the oldest first. Those that are busy must not be chosen.
    fn wanted(writes: &Self::Writes, runs: &[Shape<Self::Class>]) -> Option<Choice<Self::Class>> {
        let _ = (writes, runs);
        None
    }

    /// The class that runs of this class come to when everything that may be merged is: classes with the same one are then merged
    /// together.
    fn whole_class(class: Self::Class) -> Self::Class {
        class
    }

    /// Whether a segment is what a merge with nothing older makes: where everything is merged, one that is not is merged though it is
    /// alone.
    fn is_whole(&self, segment: &Self::Segment) -> bool {
        let _ = segment;
        true
    }
}

/// What a lane merges.
#[derive(Clone, Debug)]
pub(crate) struct LaneSpec<C> {
    /// The class of what it makes.
    pub(crate) class: C,
    /// Its range of hashes, by their first 64 bits: an entry is in it whose least hash is.
    pub(crate) range: RangeInclusive<u64>,
    /// Whether nothing is older than what is merged: tombstones have nothing left to take.
    pub(crate) is_oldest: bool,
    /// Whether a thread may write behind it.
    pub(crate) is_behind: bool,
}

/// What a merge reads.
#[derive(Debug)]
pub(crate) enum Input<T: Table> {
    /// A file on flash.
    Flash(Arc<T::Segment>),
    /// A frozen run in RAM.
    Memory(Arc<T::Frozen>),
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stepped {
    /// Entries that were merged.
    pub(crate) entries: u64,
    pub(crate) has_more: bool,
}
