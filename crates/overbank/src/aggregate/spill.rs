//! Groups go to flash where memory is full.
//!
//! ```text
//!   leaves   │ section 0     │ section 1     │ …        the section with the most pages gives them up: a frozen run in RAM, which `lsm`
//!            ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯ ▯            writes to flash in hash order. Its leaves are away from then on:
//!   backlog    ▭▭▭▭▭▭▭▭                                 records that come to them are written as they are
//!   runs       ▭▭ ▭▭▭                                    of a section, merged with each other
//! ```
//!
//! So a row is taken into a group once, and written and read once before if its leaf is away. To have all sections go to flash in turn
//! instead would make and write a group, which costs ten times as much as a record, for as many rows: with room for half of the groups,
//! half of the rows come too late for their group in either case.
//!
//! A backlog becomes a run, a leaf at a time, where it is [`FlashShares::backlog_bytes`](super::options::FlashShares) long, where questions
//! have read it as often as that is worth, and for a commit, after which all leaves are there again.
//!
//! Invariants:
//! 1. A group's parts are in its leaf and its backlog, and in the runs of a version, each part once: pages and backlogs become a frozen run
//!    under the locks of their leaves, so whoever takes the version under such a lock sees all.
//! 2. A disk that is full leaves the frozen run, and records that are to be written, where they are, to be asked and to be written later;
//!    nothing more is taken in meanwhile.
//! 3. Records on flash that cannot be read stay where they are, as those of their leaf: whoever asks that is told, commits and snapshots
//!    fail, and other leaves go on. Rows are refused once such records are longer than a run's.
//!
//! | n rows, m in RAM, f = `backlog_bytes` of all sections, B a block, T = fan-out | CPU | blocks written |
//! |---|---|---|
//! | insert | once a share of packing; log_T (n / f) times, of merging | lg_T (n / f) / B, in order, and once a record |

use super::backlog::{Backlog, BacklogFile, is_unreadable};
use super::flash::Spill;
use super::frozen::Frozen;
use super::held::HeldVersion;
use super::leaf::{GatherLimits, Leaf};
use super::pool::Loan;
use super::shared::Shared;
use super::state::Aggregate;
use super::table::GroupTable;
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::lock::{lock, write};
use crate::lsm::Input;
use crate::{Error, Result};
use std::ops::RangeInclusive;
use std::sync::{Arc, MutexGuard};

/// What the largest section must have of all blocks, this share, to be worth a run before what waits was taken into pages.
const WORTH_SHARE: usize = 32;
/// What records of leaves that are away must have of all blocks, this share, to be written rather than more pages.
const WAITING_SHARE: usize = 16;

/// What a scan reads at a time beside others where there is no room, this share of what it does else; and what it makes groups of in parts.
const CRAMPED_SHARE: usize = 4;

impl<A: Aggregate> Shared<A> {
    /// The section of a leaf.
    pub(super) fn section_of(&self, leaf: usize) -> u32 {
        let shares = &self.leaves.shares;
        (leaf >> (shares.lg_leaves - shares.lg_sections)) as u32
    }

    /// The hashes of a section, by their first 64 bits.
    pub(super) fn hashes_of(&self, section: u32) -> RangeInclusive<u64> {
        let (leaves, hasher) = (self.leaves_of(section), &self.leaves.ground.hasher);
        *hasher.range_of(leaves.start).start()..=*hasher.range_of(leaves.end - 1).end()
    }

    fn leaves_of(&self, section: u32) -> std::ops::Range<usize> {
        let shares = &self.leaves.shares;
        let lg_leaves = shares.lg_leaves - shares.lg_sections;
        (section as usize) << lg_leaves..(section as usize + 1) << lg_leaves
    }

    /// Has pages go to flash until there is room.
    ///
    /// # Errors
    /// `Full`: what was inserted is there, and can be asked; `BudgetExceeded` where memory is full of what is no page; what the device
    /// says.
    pub(super) fn spill_for_room(&self, spill: &Spill) -> Result<()> {
        let _turn = lock(&spill.turn);
        let _change = spill.gate.change();
        match self.make_room(spill) {
            // Files that merges have replaced take space as long as a snapshot has them open.
            Err(Error::Full { .. }) if spill.lose_versions() => self.make_room(spill),
            made => made,
        }
    }

    /// As [`Shared::spill_for_room`], in whose turn it is.
    fn make_room(&self, spill: &Spill) -> Result<()> {
        let pool = &self.leaves.ground.pool;
        let mut is_settled = false;
        while pool.is_exhausted() || spill.is_behind() {
            if !spill.version().frozen.is_empty() {
                // A full disk left it there.
                match self.flush(spill, 0) {
                    // What could not be read waits for its leaves again.
                    Err(error) if is_unreadable(&error) && spill.version().frozen.is_empty() => {}
                    flushed => flushed?,
                }
                continue;
            }
            if spill.is_behind() || self.bytes_to_write() >= pool.budget_bytes() / WAITING_SHARE {
                self.write_backlogs(spill)?;
                continue;
            }
            let (section, bytes) = self.largest_section();
            if bytes < pool.budget_bytes() / WORTH_SHARE && !is_settled {
                self.settle();
                is_settled = true;
                continue;
            }
            let groups = self.freeze(spill, section, false);
            if groups > 0 {
                self.flush(spill, groups)?;
            } else if self.bytes_to_write() > 0 {
                self.write_backlogs(spill)?;
            } else {
                return Err(self.no_room());
            }
        }
        Ok(())
    }

    /// Has all pages go to flash; what waits is taken into them before.
    ///
    /// # Errors
    /// As [`Shared::spill_for_room`].
    pub(super) fn spill_all(&self, spill: &Spill) -> Result<()> {
        let _turn = lock(&spill.turn);
        self.write_all(spill)
    }

    /// As [`Shared::spill_all`], in whose turn it is.
    fn write_all(&self, spill: &Spill) -> Result<()> {
        let _change = spill.gate.change();
        self.read_again()?;
        self.settle();
        for section in 0..1 << self.leaves.shares.lg_sections {
            let groups = self.freeze(spill, section, true);
            self.flush_or_give_back(spill, section, groups)?;
        }
        Ok(())
    }

    /// Has all groups go to flash, and holds the version that has them, and no row that comes later: nobody inserts meanwhile.
    ///
    /// # Errors
    /// As [`Shared::spill_for_room`].
    pub(super) fn hold_version(&self, spill: &Spill) -> Result<Arc<HeldVersion>> {
        if spill.gate.is_read_only() {
            return Ok(spill.hold(spill.version()));
        }
        let _between_batches = write(&self.batches);
        // Until the version is held, nobody else adds a run.
        let _turn = lock(&spill.turn);
        if self.has_news() || spill.backlog_bytes() > 0 || !spill.version().frozen.is_empty() {
            self.write_all(spill)?;
        }
        Ok(spill.hold(spill.version()))
    }

    /// Makes runs of all records on flash, if questions have read them often enough for that to be worth it, and there is room.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn write_what_is_asked(&self) -> Result<()> {
        let Some(spill) = self.spill.as_ref().filter(|spill| spill.take_asked()) else { return Ok(()) };
        let _turn = lock(&spill.turn);
        let _change = spill.gate.change();
        for section in 0..1 << self.leaves.shares.lg_sections {
            match self.write_readable(spill, section) {
                // What could not be written is there to be asked.
                Err(Error::Full { .. }) => {
                    self.give_backlog_back(spill, section);
                    return Ok(());
                }
                // Whoever needs what cannot be read is told.
                Err(error) if is_unreadable(&error) => {}
                written => written?,
            }
        }
        Ok(())
    }

    /// What waits on flash for a leaf, whose lock is held, for a question that costs this share of what a scan does, and has little
    /// room if it `is_cramped`.
    pub(super) fn backlog_of(
        &self,
        spill: &Spill,
        number: usize,
        leaf: &Leaf,
        (share, of): (u64, u64),
        is_cramped: bool,
    ) -> Option<Input<GroupTable>> {
        spill.note_asked(leaf.backlog()?.bytes() * share / of);
        let mut limits = self.gather_limits(spill, 0);
        if is_cramped {
            limits.bytes /= CRAMPED_SHARE;
        }
        let leaves = vec![leaf.copy_backlog()];
        Some(Input::Memory(Arc::new(Frozen::of_backlog(number, leaves, &self.leaves.ground, limits))))
    }

    /// Has a scan's loan be what it reads of runs at a time; returns how much that is.
    pub(super) fn borrow_for_scan(&self, loan: &mut Loan) -> usize {
        let spill = self.spill.as_ref().filter(|_| self.has_runs());
        spill.map_or(0, |spill| loan.set(spill.tree.table.shares.scan_bytes, CRAMPED_SHARE))
    }

    /// What may be taken to make groups of records on flash, of which there is room for some in any case and for these `bytes`.
    fn gather_limits(&self, spill: &Spill, bytes: usize) -> GatherLimits {
        let shares = &spill.tree.table.shares;
        let bytes = (shares.gather_bytes + bytes) / shares.limits.lanes;
        GatherLimits { bytes, missing_blocks: self.leaves.shares.missing_blocks_max }
    }

    /// Bytes of records that may be written.
    fn bytes_to_write(&self) -> usize {
        self.leaves.all.iter().map(|leaf| lock(leaf).bytes_to_write()).sum()
    }

    /// Writes records of leaves that are away. What is then too long becomes runs.
    ///
    /// # Errors
    /// As [`Shared::spill_for_room`]: the rest is to be written before more is taken in.
    fn write_backlogs(&self, spill: &Spill) -> Result<()> {
        spill.set_behind(true);
        let shares = &spill.tree.table.shares;
        let mut buffer = AlignedBuf::zeroed(shares.writer_blocks * BLOCK_BYTES);
        for section in 0..1 << self.leaves.shares.lg_sections {
            self.write_backlog(spill, section, &mut buffer)?;
        }
        drop(buffer);
        for section in 0..1 << self.leaves.shares.lg_sections {
            let is_long = || {
                let (bytes, list_bytes) = self.backlog_size(section);
                bytes >= shares.backlog_bytes as u64 || list_bytes >= shares.pieces_bytes
            };
            if is_long() {
                self.write_readable(spill, section)?;
                // It is, still, only of what cannot be read.
                if is_long() {
                    self.read_again()?;
                }
            }
        }
        spill.set_behind(false);
        Ok(())
    }

    fn write_backlog(&self, spill: &Spill, section: u32, buffer: &mut AlignedBuf) -> Result<()> {
        let leaves = &self.leaves.all[self.leaves_of(section)];
        let file_of = |leaf: &Leaf| leaf.backlog().map(|backlog| Arc::clone(backlog.file()));
        let mut file: Option<Arc<BacklogFile>> = leaves.iter().find_map(|leaf| file_of(&lock(leaf)));
        for leaf in leaves {
            let mut leaf = lock(leaf);
            if leaf.bytes_to_write() == 0 {
                continue;
            }
            let file = match &file {
                Some(file) => file,
                None => file.insert(BacklogFile::create(&spill.files)?),
            };
            let before = leaf.backlog().map_or(0, |backlog| backlog.bytes());
            let written = leaf.write_pending(file, buffer, &self.leaves.ground.pool);
            let after = leaf.backlog().map_or(0, |backlog| backlog.bytes());
            spill.set_backlog_bytes(spill.backlog_bytes() + after - before);
            written?;
        }
        Ok(())
    }

    /// Bytes of a section's records on flash, and those of the list of their pieces.
    fn backlog_size(&self, section: u32) -> (u64, usize) {
        self.leaves.all[self.leaves_of(section)].iter().fold((0, 0), |(bytes, list_bytes), leaf| {
            let leaf = lock(leaf);
            let of_leaf = leaf.backlog().map_or((0, 0), |backlog| (backlog.bytes(), backlog.memory_bytes()));
            (bytes + of_leaf.0, list_bytes + of_leaf.1)
        })
    }

    /// Makes a section's records on flash a run, but for those of leaves of which some cannot be read.
    ///
    /// # Errors
    /// As [`Shared::flush`].
    fn write_readable(&self, spill: &Spill, section: u32) -> Result<()> {
        let groups = self.freeze_backlog(spill, section);
        match self.flush(spill, groups) {
            Err(error) if is_unreadable(&error) => {
                // All leaves are noted of which that is so.
                if self.verify_backlogs(self.leaves_of(section)).is_ok() {
                    return Err(error);
                }
                let groups = self.freeze_backlog(spill, section);
                self.flush(spill, groups)
            }
            flushed => flushed,
        }
    }

    /// Reads all records on flash of some leaves.
    ///
    /// # Errors
    /// `Corrupt`, what the device says: the first of them, once all leaves were tried.
    pub(super) fn verify_backlogs(&self, leaves: std::ops::Range<usize>) -> Result<()> {
        let (mut verified, mut buffer) = (Ok(()), Vec::new());
        for leaf in &self.leaves.all[leaves] {
            let backlog = lock(leaf).backlog().cloned();
            if let Some(backlog) = backlog {
                verified = verified.and(backlog.verify(&mut buffer));
            }
        }
        verified
    }

    /// Reads again what could not be read of records on flash, if there is any.
    ///
    /// # Errors
    /// As [`Shared::verify_backlogs`].
    fn read_again(&self) -> Result<()> {
        self.leaves.all.iter().try_for_each(|leaf| {
            let backlog = lock(leaf).backlog().filter(|backlog| !backlog.is_readable()).cloned();
            backlog.map_or(Ok(()), |backlog| backlog.read_again())
        })
    }

    /// Makes a section's records on flash, if there are any, a frozen run, but for those of leaves of which some could not be read. Of how
    /// many groups.
    fn freeze_backlog(&self, spill: &Spill, section: u32) -> u64 {
        let mut leaves = self.lock_section(section);
        let Some(frozen) = self.take_backlog(spill, section, &mut leaves, Backlog::is_readable) else {
            return 0;
        };
        let groups = frozen.groups();
        spill.tree.state().push_frozen(None, [(frozen, section)]);
        groups
    }

    /// As [`Shared::flush`]. Where the disk is full, a section's records on flash wait for their leaves again: there may be room for more
    /// of them all the same, and no row is refused because a run of them was asked for.
    fn flush_or_give_back(&self, spill: &Spill, section: u32, groups: u64) -> Result<()> {
        let flushed = self.flush(spill, groups);
        if matches!(flushed, Err(Error::Full { .. })) {
            self.give_backlog_back(spill, section);
        }
        flushed
    }

    /// Gives a section's records on flash, which are a frozen run, back to its leaves, if these have no others.
    fn give_backlog_back(&self, spill: &Spill, section: u32) {
        let mut leaves = self.lock_section(section);
        let first = self.leaves_of(section).start;
        let is_backlog = |frozen: &Frozen, class: u32| {
            let has_room = |(number, _): (usize, &Backlog)| leaves[number - first].backlog().is_none();
            class == section && frozen.is_backlog() && frozen.backlogs().all(has_room)
        };
        let Some(frozen) = spill.tree.take_frozen(is_backlog) else { return };
        for (number, backlog) in frozen.backlogs() {
            spill.set_backlog_bytes(spill.backlog_bytes() + backlog.bytes());
            leaves[number - first].give_backlog(backlog.clone());
        }
    }

    /// Takes a section's records on flash away, those of leaves of which they are wanted, if there are any.
    fn take_backlog(
        &self,
        spill: &Spill,
        section: u32,
        leaves: &mut [MutexGuard<'_, Leaf>],
        is_wanted: impl Fn(&Backlog) -> bool,
    ) -> Option<Frozen> {
        let backlogs: Vec<Leaf> = leaves.iter_mut().map(|leaf| leaf.take_backlog_if(&is_wanted)).collect();
        let bytes: u64 = backlogs.iter().filter_map(Leaf::backlog).map(Backlog::bytes).sum();
        if bytes == 0 {
            return None;
        }
        spill.take_backlog_bytes(bytes);
        let pool = &self.leaves.ground.pool;
        let limits = self.gather_limits(spill, pool.budget_bytes().saturating_sub(pool.used_bytes()) / 2);
        Some(Frozen::of_backlog(self.leaves_of(section).start, backlogs, &self.leaves.ground, limits))
    }

    fn lock_section(&self, section: u32) -> Vec<MutexGuard<'_, Leaf>> {
        self.leaves.all[self.leaves_of(section)].iter().map(lock).collect()
    }

    /// Writes what is frozen, and does a share of the merges that is due for `groups` groups. Where records on flash cannot be read, all
    /// that are frozen wait for their leaves again.
    fn flush(&self, spill: &Spill, groups: u64) -> Result<()> {
        if let Err(error) = spill.flush() {
            if is_unreadable(&error) {
                (0..1 << self.leaves.shares.lg_sections)
                    .for_each(|section| self.give_backlog_back(spill, section));
                spill.flush()?;
            }
            return Err(error);
        }
        spill.tree.frozen_gone();
        let paced = spill.tree.pace(groups as usize, false);
        self.note_index(spill)?;
        paced
    }

    /// Takes the fences' RAM from that of the blocks.
    ///
    /// # Errors
    /// `BudgetExceeded` where they would have half of it.
    pub(super) fn note_index(&self, spill: &Spill) -> Result<()> {
        self.note_index_with(spill, 0)
    }

    /// As [`Shared::note_index`], with the fences of runs that are to be added, if that succeeds.
    pub(super) fn note_index_with(&self, spill: &Spill, added_bytes: usize) -> Result<()> {
        let (budget_bytes, available_bytes) = (self.memory_bytes, self.memory_bytes / 2);
        if spill.index_bytes() + added_bytes > available_bytes {
            spill.lose_versions();
        }
        let index_bytes = spill.index_bytes();
        let wanted_bytes = index_bytes + added_bytes;
        let is_there_room = wanted_bytes <= available_bytes;
        let taken_bytes = if is_there_room { wanted_bytes } else { index_bytes.min(available_bytes) };
        self.leaves.ground.pool.set_beside(taken_bytes);
        if is_there_room {
            return Ok(());
        }
        let what = "the index of groups on flash, which may be half of their memory,".to_owned();
        Err(Error::BudgetExceeded { what, wanted_bytes, available_bytes, budget_bytes })
    }

    /// The section whose pages take the most memory, and how much.
    fn largest_section(&self) -> (u32, usize) {
        let bytes = |section: u32| {
            self.leaves.all[self.leaves_of(section)].iter().map(|leaf| lock(leaf).page_bytes()).sum::<usize>()
        };
        let sections = (0..1u32 << self.leaves.shares.lg_sections).map(|section| (section, bytes(section)));
        sections.max_by_key(|one| one.1).unwrap_or((0, 0))
    }

    /// Makes the pages of a section a run in RAM, and its leaves away; or, for a commit, what is on flash for them too, and all there
    /// again. Of how many groups.
    fn freeze(&self, spill: &Spill, section: u32, is_commit: bool) -> u64 {
        let mut leaves = self.lock_section(section);
        spill.note_taken();
        let pages = leaves.iter_mut().map(|leaf| leaf.take_pages()).collect();
        let pages = Frozen::new(self.leaves_of(section).start, pages, &self.leaves.ground);
        let backlog = if is_commit { self.take_backlog(spill, section, &mut leaves, |_| true) } else { None };
        leaves.iter_mut().for_each(|leaf| if is_commit { leaf.call_back() } else { leaf.send_away() });
        let groups = pages.groups() + backlog.as_ref().map_or(0, Frozen::groups);
        // Nobody sees the leaves without what they had before the version has it.
        let both = std::iter::once(pages).chain(backlog).map(|frozen| (frozen, section));
        spill.tree.state().push_frozen(None, both);
        groups
    }
}
