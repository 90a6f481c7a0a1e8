//! What groups have on flash: the tree of their runs, and who may change it.

use super::held::{Held, HeldVersion};
use super::options::FlashShares;
use super::run::{RunRules, RunSegment};
use super::table::{GroupTable, GroupTree, GroupTreeState, GroupVersion};
use crate::Result;
use crate::lock::lock;
use crate::lsm::{Policy, Tree, Version};
use crate::store::{FileId, Files, Gate, Publisher, Reservation, Spawner, Store};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// So many runs of a level become one: as many are read for a key, and memory for so many is kept.
pub(super) const POLICY: Policy = Policy::Tiered { fan_out: 8 };

/// What groups have on flash.
#[derive(Debug)]
pub(super) struct Spill {
    pub(super) tree: Arc<GroupTree>,
    pub(super) gate: Gate,
    pub(super) files: Files,
    /// Held by who takes pages away, until they are on flash.
    pub(super) turn: Mutex<()>,
    /// Records were not written that should have been: the disk was full.
    is_behind: AtomicBool,
    /// Bytes of records that wait on flash.
    backlog_bytes: AtomicU64,
    /// Of those, how many were read by questions.
    asked_bytes: AtomicU64,
    /// Pages were taken away from leaves, or may have been.
    has_taken: AtomicBool,
    held: Held<HeldVersion>,
    /// Its share of the store's budget, until it is closed.
    reservation: Mutex<Option<Reservation>>,
    /// Of groups that no commit takes in: their files go with them.
    scratch: Option<Store>,
}

impl Spill {
    /// Of groups in a store, the runs of which are `state`'s; if `is_scratch`, no commit ever names them.
    pub(super) fn new(
        store: &Store,
        name: &str,
        rules: RunRules,
        shares: FlashShares,
        state: GroupTreeState,
        memory_bytes: usize,
        is_scratch: bool,
    ) -> Result<Spill> {
        let reservation = store.budget().reserve(&format!("groups {name:?}"), memory_bytes, memory_bytes)?;
        let (files, spawner): (Files, Spawner) = (store.files().clone(), store.workers().spawner());
        let table = GroupTable { rules, shares };
        let tree = Tree::new(table, (files.clone(), spawner), POLICY, shares.limits, state);
        let read_only = store.is_read_only().then(|| store.device().path());
        let gate = Gate::new("groups", name, files.clone(), read_only);
        Ok(Spill {
            tree,
            gate,
            files,
            turn: Mutex::default(),
            is_behind: AtomicBool::default(),
            backlog_bytes: AtomicU64::default(),
            asked_bytes: AtomicU64::default(),
            has_taken: AtomicBool::default(),
            held: Held::default(),
            reservation: Mutex::new(Some(reservation)),
            scratch: is_scratch.then(|| store.clone()),
        })
    }

    /// No runs.
    pub(super) fn no_runs() -> GroupTreeState {
        GroupTreeState::new((), 0, 1, Version::default())
    }

    /// Lets merges give space back between two commits, and go on while writers rest.
    pub(super) fn serve(&self, publisher: Publisher) {
        self.tree.serve(publisher);
    }

    pub(super) fn version(&self) -> Arc<GroupVersion> {
        self.tree.version()
    }

    /// Writes what is frozen.
    pub(super) fn flush(&self) -> Result<()> {
        self.tree.flush_until(|state| state.version().frozen.is_empty())
    }

    /// Holds a version for a snapshot.
    pub(super) fn hold(&self, version: Arc<GroupVersion>) -> Arc<HeldVersion> {
        let held = HeldVersion::new(version);
        self.held.push(&held);
        held
    }

    /// Gives the versions of all snapshots up; whether there were any.
    pub(super) fn lose_versions(&self) -> bool {
        self.held.all().iter().filter(|held| held.lose()).count() > 0
    }

    /// RAM of the runs' fences, and of those that a snapshot alone has.
    pub(super) fn index_bytes(&self) -> usize {
        let version = self.version();
        let mut seen: BTreeSet<FileId> = pieces_of(&version).map(|piece| piece.file_ref().id).collect();
        let mut bytes: usize = version.runs.iter().map(|run| run.size().memory_bytes).sum();
        for held in self.held.all().iter().filter_map(|held| held.version()) {
            let alone = pieces_of(&held).filter(|piece| seen.insert(piece.file_ref().id));
            bytes += alone.map(|piece| piece.memory_bytes()).sum::<usize>();
        }
        bytes
    }

    /// Bytes of records that wait on flash.
    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_backlog_bytes(&self, bytes: u64) {
        self.backlog_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes that so many of them are taken away, with their share of what questions have read.
    pub(super) fn take_backlog_bytes(&self, bytes: u64) {
        let all = self.backlog_bytes();
        self.set_backlog_bytes(all - bytes);
        let left = |asked: u64| (u128::from(asked) * u128::from(all - bytes) / u128::from(all.max(1))) as u64;
        let (relaxed, asked) = (Ordering::Relaxed, &self.asked_bytes);
        let _ = asked.fetch_update(relaxed, relaxed, |asked| Some(left(asked)));
    }

    /// Whether records were not written that should have been.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    pub(super) fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::Relaxed);
    }

    /// Whether pages of leaves were taken away.
    pub(super) fn has_taken(&self) -> bool {
        self.has_taken.load(Ordering::Relaxed)
    }

    /// Notes that they are, under the locks of the leaves.
    pub(super) fn note_taken(&self) {
        self.has_taken.store(true, Ordering::Relaxed);
    }

    /// Notes that a question reads so many of them.
    pub(super) fn note_asked(&self, bytes: u64) {
        self.asked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether questions have read as many as there are; they begin again.
    pub(super) fn take_asked(&self) -> bool {
        let bytes = self.backlog_bytes();
        bytes > 0
            && self.asked_bytes.load(Ordering::Relaxed) >= bytes
            && self.asked_bytes.swap(0, Ordering::Relaxed) >= bytes
    }

    /// Takes nothing in from now on, and gives the budget back.
    pub(super) fn close(&self) {
        self.gate.close();
        drop(lock(&self.reservation).take());
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let Some(_store) = &self.scratch else { return };
        let version = self.version();
        // What cannot be removed, the store removes when it is next opened.
        pieces_of(&version).for_each(|piece| drop(self.files.discard(piece.file_ref().id)));
    }
}

fn pieces_of(version: &GroupVersion) -> impl Iterator<Item = &Arc<RunSegment>> {
    version.runs.iter().flat_map(|run| &run.pieces)
}
