//! One key at a time, as a crawler or a server asks: no allocation, no sort, and in RAM one lock.
//!
//! ```text
//!   shard's lock ─▶ its cells ─▶ memtables with entries, if any, locked ─▶ runs in RAM: front, then a block ─▶ flash, if there is: held
//!                     └───────── not there: put into the cells under the same lock ◀─┘                       └─▶ not there: inserted
//! ```
//!
//! Each entry is seen in one place: cells and memtables are frozen under their locks, which are held until the version is known. A
//! version changes seldom, so a shard keeps the one that it last saw, and asks but for its number.

use super::cells::Cells;
use super::class::WriteClass;
use super::query::has_late_removals;
use super::shards::{Open, ShardState, Shards};
use super::shared::Shared;
use super::table::{FilterRun, FilterVersion, FrozenView};
use crate::Result;
use crate::filter::run::{FingerprintSegment, PackedRun, RunKind, Sign, count_many};
use crate::lock::try_lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// So many single keys of a shard pay together for the work that they make.
const PAID_TOGETHER: usize = 1 << 8;
/// The share of a shard's homes that entries take at most. All shards together have a home for each word of a memtable, which is half of
/// the memory of one.
const LOAD: (usize, usize) = (3, 4);
/// A shard that takes fewer entries is not worth the freezes; nor are fingerprints that hardly tell shards apart.
const SHARD_ENTRIES_MIN: u64 = 256;
const FINGERPRINT_BITS_MIN: u32 = 12;

type FilterShards = Shards<WriteClass, FrozenView>;
type OwnShard = ShardState<WriteClass, FrozenView>;

/// What RAM has of a key.
struct Found {
    /// Its counts in cells, memtables and packed runs.
    sum: i64,
    /// The version whose runs on flash have to be asked, if there are.
    on_flash: Option<Arc<FilterVersion>>,
    /// Whether packed runs came that are to be made ready.
    has_news: bool,
}

impl Shared {
    /// The sum of a key's counts over the whole filter. If only its `presence` is of interest, what is in RAM is not looked for on
    /// flash.
    pub(super) fn sum(&self, prefix: u64, presence: bool) -> Result<i64> {
        self.usable()?;
        let mut own = self.shards().of_key(prefix).lock();
        let found = self.in_ram(&mut own, prefix, presence)?;
        drop(own);
        if found.has_news {
            self.tend_frozen()?;
        }
        match found.on_flash {
            Some(version) => self.with_flash(prefix, found.sum, &version),
            None => Ok(found.sum),
        }
    }

    /// Inserts a key that is not there; whether it was not.
    pub(super) fn insert_one_if_absent(self: &Arc<Self>, prefix: u64) -> Result<bool> {
        self.writable()?;
        self.tree.note_writer();
        let shard = self.shards().of_key(prefix);
        let mut own = shard.lock_released();
        let found = self.in_ram(&mut own, prefix, true)?;
        if found.on_flash.is_none() && !found.has_news {
            if found.sum > 0 {
                return Ok(false);
            }
            if let Some(entries) = self.put(&mut own, prefix) {
                drop(own);
                self.pay(entries)?;
                return Ok(true);
            }
        }
        let _held = shard.hold(own);
        if found.has_news {
            self.tend_frozen()?;
        }
        let sum = match found.on_flash {
            Some(version) => self.with_flash(prefix, found.sum, &version)?,
            None => found.sum,
        };
        if sum <= 0 {
            self.insert_one(prefix)?;
        }
        Ok(sum <= 0)
    }

    fn shards(&self) -> &FilterShards {
        &self.tree.table.shards
    }

    /// Puts a key into the cells of its shard, whose lock is held; how many these have then, or `None` if they take it not.
    #[inline]
    fn put(&self, own: &mut OwnShard, prefix: u64) -> Option<usize> {
        let _change = self.change();
        own.insert(prefix, |class| class.revision == self.revision())
    }

    /// Pays for an entry, the last of so many in its shard.
    fn pay(self: &Arc<Self>, entries: usize) -> Result<()> {
        if entries.is_multiple_of(PAID_TOGETHER) { self.tree.pace(PAID_TOGETHER, false) } else { Ok(()) }
    }

    /// Inserts a key, whose shard the caller holds.
    fn insert_one(self: &Arc<Self>, prefix: u64) -> Result<()> {
        loop {
            let entries = self.put(&mut self.shards().of_key(prefix).lock(), prefix);
            if let Some(entries) = entries {
                return self.pay(entries);
            }
            if !self.open_cells()? {
                // Near the end of a generation, and where there are few keys: as many of them.
                return self.add(std::iter::once((prefix, 0)), false);
            }
        }
    }

    /// Opens the cells of all shards for new entries; those in full or outdated ones are packed. False if they are not to have any.
    fn open_cells(self: &Arc<Self>) -> Result<bool> {
        self.make_room()?;
        let _change = self.change();
        let mut shards = self.shards().lock_all();
        let is_good = |open: &Open<WriteClass>| !open.is_full && open.class.revision == self.revision();
        if shards.iter().all(|shard| shard.open.as_ref().is_some_and(is_good)) {
            // Somebody else was here.
            return Ok(true);
        }
        self.freeze_cells(&mut shards)?;
        let mut state = self.state();
        let class = state.writes;
        // Whatever the writers' memtables take beside, the generation has room for it.
        let beside = (self.slots.len() * self.options.memtable_keys()) as u64;
        let left = state.left(&self.options).saturating_sub(beside) / FilterShards::COUNT as u64;
        let limit = left.min(self.shards_limit() / FilterShards::COUNT as u64);
        if limit < SHARD_ENTRIES_MIN || self.options.bits(class.generation) < FINGERPRINT_BITS_MIN {
            return Ok(false);
        }
        state.begin_memtable(self.slots.len());
        self.shards().note_open(true);
        drop(state);
        let mask = self.place(class).mask;
        let homes = self.homes();
        for shard in &mut shards {
            shard.cells.reserve(homes);
            shard.open = Some(Open { class, mask, limit: limit as usize, is_full: false });
        }
        self.tree.table.note_single(FilterShards::COUNT * Cells::memory_bytes(homes));
        Ok(true)
    }

    /// Homes of a shard's cells.
    fn homes(&self) -> usize {
        self.options.memtable_keys() / FilterShards::COUNT
    }

    /// The most entries in the cells of all shards.
    pub(super) fn shards_limit(&self) -> u64 {
        (self.homes() / LOAD.1 * LOAD.0 * FilterShards::COUNT) as u64
    }

    /// Packs what came one key at a time.
    pub(super) fn freeze_shards(self: &Arc<Self>) -> Result<()> {
        if self.shards().is_open() { self.freeze_cells(&mut self.shards().lock_all()) } else { Ok(()) }
    }

    /// Packs the cells of all shards, and closes them.
    fn freeze_cells(self: &Arc<Self>, shards: &mut [MutexGuard<'_, OwnShard>]) -> Result<()> {
        let Some(Open { class, .. }) = shards.iter().find_map(|shard| shard.open) else { return Ok(()) };
        let kind = RunKind { fingerprint_bits: self.entry_bits(class), ..self.kind };
        let entries = shards.iter().flat_map(|shard| shard.cells.iter());
        let packed =
            PackedRun::of_ascending(kind, entries.map(|entry| entry >> (64 - kind.fingerprint_bits)))?;
        self.tree.table.tend_frozen(&packed)?;
        let mut state = self.state();
        state.add_packed(Some(self.slots.len()), [packed], class, &self.options);
        self.note_class(&state);
        self.tree.schedule(&mut state);
        drop(state);
        for shard in shards {
            shard.cells.clear();
            shard.open = None;
        }
        self.shards().note_open(false);
        Ok(())
    }

    /// What RAM has of a key of the shard whose lock is held.
    #[inline]
    fn in_ram(&self, own: &mut OwnShard, prefix: u64, presence: bool) -> Result<Found> {
        if self.filled.load(Ordering::Acquire) == 0 {
            return self.beside_memtables(own, 0, prefix, presence);
        }
        let mut slots = self.lock_filled();
        let mut sum = 0;
        for slot in slots.iter_mut().filter(|slot| !slot.memtable.is_empty()) {
            let place = self.place(slot.class);
            sum += slot.memtable.count(prefix, place);
        }
        self.beside_memtables(own, sum, prefix, presence)
    }

    /// Adds what cells and packed runs have of a key to `sum`; the memtables that it is from are locked.
    #[inline]
    fn beside_memtables(&self, own: &mut OwnShard, sum: i64, prefix: u64, presence: bool) -> Result<Found> {
        if own.view.as_ref().is_none_or(|view| view.edit != self.tree.edits()) {
            self.look_anew(own);
        }
        let Some(view) = &own.view else {
            return Ok(Found { sum: sum + own.count(prefix), on_flash: None, has_news: false });
        };
        let frozen = &view.version.frozen;
        // All misses of the cache are under way before the first one is waited for.
        frozen.iter().for_each(|packed| packed.entries.prefetch(prefix));
        own.prefetch(prefix);
        // Most of what is known is in the oldest runs; the cells, which are asked last, have it least. Where removals may take off what is
        // there, all of it counts.
        let is_enough = |sum: i64| presence && sum > 0 && !view.removes && !view.has_late_removals;
        let mut sum = sum;
        for packed in frozen {
            if is_enough(sum) {
                break;
            }
            sum = sum.saturating_add(packed.entries.count(prefix)?);
        }
        if !is_enough(sum) {
            sum = sum.saturating_add(own.count(prefix));
        }
        let has_runs = !view.version.runs.is_empty();
        let is_sure = presence && sum > 0 && !view.has_late_removals;
        let on_flash = (has_runs && !is_sure).then(|| Arc::clone(&view.version));
        Ok(Found { sum, on_flash, has_news: view.has_news })
    }

    /// Has a shard see the present version.
    #[cold]
    fn look_anew(&self, own: &mut OwnShard) {
        let state = self.state();
        let version = Arc::clone(state.version());
        own.view = Some(FrozenView {
            edit: state.edits(),
            removes: version.frozen.iter().any(|packed| packed.class.sign == Sign::Removals),
            has_late_removals: !version.runs.is_empty() && has_late_removals(&state),
            has_news: state.memtables != self.tended_memtables.load(Ordering::Relaxed),
            version,
        });
    }

    /// The sum of what RAM has of a key, and the runs on flash of a version.
    fn with_flash(&self, prefix: u64, sum: i64, version: &FilterVersion) -> Result<i64> {
        self.tend_fronts(version);
        // Pieces follow each other in hash order: one of a run may have the key.
        let piece_of = |run: &'_ FilterRun| run.pieces.partition_point(|piece| piece.ends_before(prefix));
        let pieces = version.runs.iter().filter_map(|run| run.pieces.get(piece_of(run)));
        let runs: Vec<&FingerprintSegment> = pieces.map(|piece| &**piece).collect();
        let mut sum = [sum];
        count_many(&self.files, &runs, &[prefix], runs.len(), &mut sum)?;
        Ok(sum[0])
    }

    /// Makes runs in RAM ready for single questions: joins them until there are few of each length, and gives those fronts that have
    /// none, as far as there is room. Nobody waits for another one who does.
    #[cold]
    fn tend_frozen(&self) -> Result<()> {
        let Some(_tending) = try_lock(&self.tending) else { return Ok(()) };
        let memtables = self.state().memtables;
        self.tree.join_frozen()?;
        let state = self.state();
        let (version, mut room) = (Arc::clone(state.version()), self.tree.frozen_room(&state));
        drop(state);
        room = room.saturating_sub(version.frozen_bytes);
        for packed in version.frozen.iter().filter(|packed| !packed.entries.has_front()) {
            let bytes = self.tree.table.front_bytes(packed.entries.fingerprints() as usize);
            if bytes > room {
                break;
            }
            room -= bytes;
            self.tree.table.tend_frozen(&packed.entries)?;
        }
        self.tended_memtables.store(memtables, Ordering::Relaxed);
        // Sizes, and the views of all shards, follow.
        self.state().count_anew();
        Ok(())
    }
}
