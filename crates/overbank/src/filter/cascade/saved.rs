//! A cascade filter in its store: what a commit names, and how it comes back.
//!
//! A commit flushes what is in RAM to a run, however short, and names all runs. Merges go on beside it: what they replace stays
//! until a commit that does not name it.

use super::board::{Board, Era};
use super::format::{RunState, State, VERSION};
use super::levels::Run;
use super::options::FilterOptions;
use super::shared::{FLUSH, Shared, Shares};
use super::{Filter, Maplet, MapletOptions};
use crate::error::invalid;
use crate::filter::run::{FingerprintSegment, RunKind, Sign};
use crate::store::{
    CommitId, Entry, FileId, FileRef, Files, Participant, Prepared, Record, Reservation, Store, Structure,
};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Cascade filters own this number among the structures of a store.
const STRUCTURE: Structure = Structure { id: 19, version: VERSION };
/// The most lanes of a merge.
const LANES_MAX: usize = 8;
/// RAM of a lane's writer, and of each run that it reads.
const WRITER_BYTES: usize = 9 << 18;
const CURSOR_BYTES: usize = 5 << 16;
/// The most merges that are open at a time, and how much memory a filter has for each.
const MERGES_MAX: usize = 3;
const MERGE_MEMORY_BYTES: usize = 16 << 20;
/// A filter has a lane for so much memory: twice what all open merges and a flush take for one.
const LANE_BYTES: usize = 48 << 20;
/// RAM of a flush's lane beside: the windows of a hundred packed runs, and their sort.
const FLUSH_BYTES: usize = 4 << 20;

/// A filter or maplet, whose handles share it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) shared: Arc<Shared>,
    _reservation: Reservation,
}

impl Store {
    /// The filter of this name: the one that is open, the stored one, or a new one. Its RAM comes from the store's budget. In a store
    /// that is open read-only it can be asked only.
    ///
    /// # Errors
    /// `InvalidOption`, `BudgetExceeded`; `WrongKind` if something else has this name; `Incompatible` if something else was asked for
    /// than the stored one has; `UnsupportedVersion`, `Corrupt`; `NotFound` if there is none and the store is open read-only.
    pub fn filter(&self, name: &str, options: FilterOptions) -> Result<Filter> {
        open(self, name, options, false)
    }

    /// The maplet of this name, as [`Store::filter`].
    ///
    /// # Errors
    /// As there.
    pub fn maplet(&self, name: &str, options: MapletOptions) -> Result<Maplet> {
        Ok(Maplet { filter: open(self, name, options.filter, true)? })
    }
}

impl Filter {
    /// The options of the filter of this name at the store's last commit, without opening it; memory and writers are those that it
    /// was last written with.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `UnsupportedVersion`, `Corrupt`.
    pub fn stored_options(store: &Store, name: &str) -> Result<FilterOptions> {
        let entry = store.record(name);
        let entry = entry.ok_or_else(|| Error::NotFound { what: "filter", name: name.to_owned() })?;
        let options = decode(name, &entry)?.options;
        check_kind(name, &options, false)?;
        Ok(options)
    }
}

fn open(store: &Store, name: &str, options: FilterOptions, is_maplet: bool) -> Result<Filter> {
    let core = Arc::new(match store.record(name) {
        None => Core::create(store, name, options, is_maplet)?,
        Some(entry) => Core::recover(store, name, options, &entry, is_maplet)?,
    });
    store.attach(name, Arc::new(Mutex::new(Attached(Arc::clone(&core)))))?;
    let filter = Filter { core };
    // One that was open already is not what was made for this call.
    let found = filter.options();
    check_kind(name, &found, is_maplet)?;
    options.with_shape_of(&found)?;
    Ok(filter)
}

impl Core {
    fn create(store: &Store, name: &str, options: FilterOptions, is_maplet: bool) -> Result<Self> {
        if store.is_read_only() {
            return Err(Error::NotFound { what: "filter", name: name.to_owned() });
        }
        if is_maplet && options.value_bits == 0 {
            let why = "a new maplet is told how many bits its values have, 1 to 16";
            return invalid("value_bits", 0, why);
        }
        options.check()?;
        let era = Era { number: 0, generation: 0, pane: 0 };
        let mut board = Board::new(era, 0, options.writers, Vec::new());
        board.is_changed = true;
        Self::assemble(store, name, options, board)
    }

    fn recover(
        store: &Store,
        name: &str,
        options: FilterOptions,
        entry: &Entry,
        is_maplet: bool,
    ) -> Result<Self> {
        let state = decode(name, entry)?;
        check_kind(name, &state.options, is_maplet)?;
        let options = options.with_shape_of(&state.options)?;
        if store.is_read_only() {
            options.check_for_reading()?
        } else {
            options.check()?
        }
        let board = recovered(store.files(), kind_of(store), name, &options, &state, &entry.record.files)?;
        Self::assemble(store, name, options, board)
    }

    fn assemble(store: &Store, name: &str, options: FilterOptions, board: Board) -> Result<Self> {
        let what = if options.value_bits > 0 { "maplet" } else { "filter" };
        let bytes = options.memory_bytes;
        let reservation = store.budget().reserve(&format!("{what} {name:?}"), bytes, bytes)?;
        let read_only = store.is_read_only().then(|| store.device().path());
        let spawner = store.workers().spawner();
        let shares = shares(&options, spawner.threads());
        let parts = (store.files().clone(), store.hasher(), kind_of(store), spawner);
        let shared = Shared::new(options, parts, read_only, shares, board);
        Ok(Core { shared, _reservation: reservation })
    }
}

/// What a commit holds of a filter.
fn recovered(
    files: &Files,
    kind: RunKind,
    name: &str,
    options: &FilterOptions,
    state: &State,
    named: &[FileRef],
) -> Result<Board> {
    let stored: usize = state.runs.iter().map(|run| run.pieces).sum();
    if stored != named.len() {
        let (expected, found) = (stored.to_string(), named.len().to_string());
        return Err(Error::Corrupt { path: name.into(), at: 0, what: "number of files", expected, found });
    }
    let mut named = named.iter();
    let mut runs = Vec::new();
    for (id, run) in (0..).zip(&state.runs) {
        let kind = RunKind { fingerprint_bits: run.bits, ..kind };
        let pieces = named
            .by_ref()
            .take(run.pieces)
            .map(|file| Ok(Arc::new(FingerprintSegment::open(files, file, kind)?)));
        let pieces = pieces.collect::<Result<Vec<_>>>()?;
        let RunState { level, bits, pane, age, .. } = *run;
        runs.push(Run { id, pieces, level, bits, pane, age, is_busy: false });
    }
    let era = Era { number: 0, generation: state.generation, pane: state.pane };
    let mut board = Board::new(era, state.logs, options.writers, runs);
    board.reach_longest(options);
    Ok(board)
}

/// A filter has no values, a maplet has.
fn check_kind(name: &str, options: &FilterOptions, is_maplet: bool) -> Result<()> {
    if is_maplet == (options.value_bits > 0) {
        return Ok(());
    }
    let shown = |is_maplet: bool| if is_maplet { "a maplet" } else { "a filter" }.to_owned();
    let (expected, found) = (shown(is_maplet), format!("{name:?} is {}", shown(!is_maplet)));
    Err(Error::Incompatible { what: "the kind of a summary", expected, found })
}

/// How a filter divides its memory, beside `threads` background threads.
pub(super) fn shares(options: &FilterOptions, threads: usize) -> Shares {
    // A lane more is a thread more at a merge; packed runs are to have half of the memory all the same.
    let threads = (threads + options.writers.min(2)).min(LANES_MAX);
    let lanes = threads.min(options.memory_bytes / LANE_BYTES).max(1);
    // Reads in flight of lookups, and what they are sorted in.
    let lookups = options.memory_bytes / 8;
    let merge = WRITER_BYTES + options.policy.fan_out() as usize * CURSOR_BYTES;
    let merges = (options.memory_bytes / MERGE_MEMORY_BYTES).clamp(1, MERGES_MAX);
    let merging = lanes * (merges * merge + WRITER_BYTES + FLUSH_BYTES);
    let logs = options.writers * options.log_bytes();
    let packed_bytes =
        options.memory_bytes.saturating_sub(lookups + merging + logs).max(options.memory_bytes / 4);
    let flush_keys = (packed_bytes / FLUSH.1 * FLUSH.0 / options.packed_log_bytes() * options.log_keys())
        .max(options.log_keys()) as u64;
    Shares { packed_bytes, flush_keys, lanes, merges }
}

/// A filter in its store's commits.
struct Attached(Arc<Core>);

impl Participant for Attached {
    fn structure(&self) -> Structure {
        STRUCTURE
    }

    fn prepare(&mut self, _: &Files, _: CommitId) -> Result<Prepared> {
        // What a commit that failed would have named, and was replaced since, is not needed.
        self.0.shared.discard(self.0.shared.forget_prepared())?;
        if !self.0.shared.board().is_changed {
            return Ok(Prepared::Unchanged);
        }
        self.0.shared.flush()?;
        let mut board = self.0.shared.board();
        let files: Vec<FileRef> =
            board.runs.iter().flat_map(|run| &run.pieces).map(|piece| piece.file_ref()).collect();
        let named: BTreeSet<FileId> = files.iter().map(|file| file.id).collect();
        board.prepared = named;
        board.is_prepared = true;
        // Other writers may have begun logs since theirs were packed.
        board.is_changed = board.has_entries_in_memory();
        let state = State {
            options: self.0.shared.options,
            logs: board.logs,
            generation: board.era.generation,
            pane: board.era.pane,
            runs: (board.runs.iter())
                .map(|run| {
                    let Run { level, bits, pane, age, .. } = *run;
                    RunState { level, bits, pieces: run.pieces.len(), pane, age }
                })
                .collect(),
        };
        Ok(Prepared::Changed(Record { state: state.encode(), files }))
    }

    fn committed(&mut self, _: CommitId) {
        let mut board = self.0.shared.board();
        board.committed = board.prepared.clone();
        board.is_prepared = false;
        // They are the store's to remove now, with the next commit.
        board.replaced.clear();
    }
}

impl Shared {
    /// Gives the files up that only a commit which failed would have named, and that were replaced since.
    fn forget_prepared(&self) -> Vec<FileId> {
        let mut board = self.board();
        if std::mem::take(&mut board.is_prepared) {
            board.prepared = board.committed.clone();
            board.is_changed = true;
        }
        std::mem::take(&mut board.replaced)
    }
}

fn kind_of(store: &Store) -> RunKind {
    RunKind {
        fingerprint_bits: 1,
        seed_fingerprint: store.seed().fingerprint(),
        hash_kind: store.hash_kind(),
        sign: Sign::Insertions,
    }
}

fn decode(name: &str, entry: &Entry) -> Result<State> {
    entry.require(STRUCTURE, format!("filter {name:?}"))?;
    State::decode(&entry.record.state).map_err(|error| error.in_file(Path::new(name)))
}
