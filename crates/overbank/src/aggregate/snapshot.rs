//! Groups as they were at one moment, asked while rows come in.

use super::Groups;
use super::group::KeyState;
use super::held::HeldVersion;
use super::leaf::{Leaf, Moment, no_room};
use super::merger::Merger;
use super::pool::Loan;
use super::query::{GroupSource, top_of};
use super::scratches::Scratch;
use super::shared::Shared;
use super::state::{Aggregate, State};
use super::table::{GroupVersion, inputs_of};
use crate::Result;
use crate::lock::{lock, write};
use std::sync::Arc;

impl<A: Aggregate> Groups<A> {
    /// The groups as they are now, to be asked while rows come in: those of all calls that inserted rows and returned before, and of none
    /// that begins after. The rows of one call are in it all or not at all, if that call succeeds; what [`Groups::merge_from`] adds comes
    /// in by pieces, where it does not go to flash.
    ///
    /// There may be any number of snapshots at once. As long as one is there, a leaf that takes rows into its pages has these copied
    /// first, in the compressed form, for all snapshots that see the same of it. Copies have what is left of the memory, and are given back
    /// with the last snapshot that has them. No row is refused or waits for their sake: where the memory is full, the snapshots that need
    /// it end with an error. Groups that go to flash have no such copies: all of them are written for a snapshot, and what it reads stays
    /// until the disk is full.
    ///
    /// # Cost
    /// Waits for the calls that insert to return, and has others wait until it has given their rows to the leaves, some hundred
    /// microseconds a thread. Where groups go to flash, what is in memory is written, as by a commit, and others wait for that.
    ///
    /// # Errors
    /// `BudgetExceeded` where there are 16 others and no room for some 50 bytes a leaf; as [`Groups::get`]; where groups go to flash
    /// also what a commit says: the rows are in the groups all the same.
    ///
    /// ```
    /// use overbank::aggregate::{Count, Groups, GroupsOptions};
    ///
    /// let words = Groups::new(Count, GroupsOptions::new())?;
    /// words.insert_many(&["to", "be", "or", "not"], &[])?;
    /// let before = words.snapshot()?;
    /// words.insert_many(&["to", "be"], &[])?;
    /// assert_eq!(before.get(b"to")?.map(|group| group.words[0]), Some(1));
    /// let mut scan = before.into_scan();
    /// while let Some(group) = scan.next_group()? {
    ///     words.insert_many(&[&group.key], &[])?;
    ///     assert_eq!(group.words, [1]);
    /// }
    /// assert_eq!(words.get(b"to")?.map(|group| group.words[0]), Some(3));
    /// # Ok::<(), overbank::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<GroupsSnapshot<A>> {
        let shared = Arc::clone(self.shared());
        shared.usable()?;
        let view = match &shared.spill {
            Some(spill) => View::Flash(shared.hold_version(spill)?),
            None => View::Memory(shared.pin_moment()?),
        };
        Ok(GroupsSnapshot { view: Arc::new(view), shared })
    }
}

/// Where the groups of the moment are.
#[derive(Debug)]
enum View {
    Memory(Arc<Moment>),
    Flash(Arc<HeldVersion>),
}

/// Groups as they were at one moment: see [`Groups::snapshot`]. Its clones are of the same moment.
///
/// Each call has the error that the moment was lost, `BudgetExceeded`, once there is no room for it.
#[derive(Debug)]
pub struct GroupsSnapshot<A: Aggregate> {
    shared: Arc<Shared<A>>,
    view: Arc<View>,
}

impl<A: Aggregate> Clone for GroupsSnapshot<A> {
    fn clone(&self) -> Self {
        GroupsSnapshot { shared: Arc::clone(&self.shared), view: Arc::clone(&self.view) }
    }
}

impl<A: Aggregate> GroupsSnapshot<A> {
    /// The group of a key at the moment; `None` if there was none.
    ///
    /// # Cost
    /// As [`Groups::get`], but that it waits for no thread that inserts.
    ///
    /// # Errors
    /// As [`Groups::get`]; `BudgetExceeded` where the moment was lost.
    pub fn get(&self, key: &[u8]) -> Result<Option<KeyState>> {
        self.shared.usable()?;
        let ground = &self.shared.leaves.ground;
        let (mut scratch, mut group) = (Scratch::new(ground.shape()), KeyState::default());
        let hash = ground.hasher.hash(key);
        let number = ground.hasher.leaf(hash);
        let moment = match &*self.view {
            View::Flash(held) => {
                let inputs = inputs_of(&*self.shared.version_of(held)?, self.shared.section_of(number));
                return self.shared.get_in_runs(&inputs, hash, key, &mut scratch, None);
            }
            View::Memory(moment) => moment,
        };
        let within = (ground.hasher.within(hash) >> 32) as u32;
        let leaf = lock(&self.shared.leaves.all[number]);
        let is_known = match moment.copy(number)? {
            Some(copy) => copy.leaf().get(ground, within, key, &mut scratch, &mut group),
            None => leaf.get_pinned(moment, ground, (within, key), &mut scratch, &mut group),
        };
        Ok(is_known.then_some(group))
    }

    /// How many groups there were.
    ///
    /// # Cost
    /// Takes what waited at the moment into the groups; a scan, where groups go to flash.
    ///
    /// # Errors
    /// As [`GroupsSnapshot::get`].
    pub fn count(&self) -> Result<u64> {
        self.shared.usable()?;
        let mut groups = 0;
        let View::Memory(moment) = &*self.view else {
            let mut scan = self.scan();
            while scan.next_group()?.is_some() {
                groups += 1;
            }
            return Ok(groups);
        };
        for number in 0..self.shared.leaves.all.len() {
            groups += self.shared.look_at_moment(moment, number, true, |leaf| leaf.groups() as u64)?;
        }
        Ok(groups)
    }

    /// As [`Groups::top`], of the moment.
    ///
    /// # Errors
    /// As [`GroupsSnapshot::get`].
    pub fn top<R: Ord>(&self, k: usize, rank: impl Fn(State<'_>) -> R) -> Result<Vec<KeyState>> {
        top_of(&mut self.scan(), k, rank)
    }

    /// Goes through all groups of the moment in hash order.
    ///
    /// # Cost
    /// As [`Groups::scan`].
    pub fn scan(&self) -> GroupsSnapshotScan<A> {
        self.clone().scan_from(false)
    }

    /// As [`GroupsSnapshot::scan`], of a snapshot that is not asked for anything else: what was read takes no memory from then on, unless
    /// the snapshot has clones.
    pub fn into_scan(self) -> GroupsSnapshotScan<A> {
        let is_last = Arc::strong_count(&self.view) == 1;
        self.scan_from(is_last)
    }

    fn scan_from(self, is_last: bool) -> GroupsSnapshotScan<A> {
        GroupsSnapshotScan {
            loan: Loan::new(&self.shared.leaves.ground.pool),
            snapshot: self,
            is_last,
            next: 0,
            pages: 0,
            is_read: true,
            groups: Vec::new(),
            at: 0,
            runs: None,
            is_anew: false,
            last: KeyState::default(),
            is_begun: false,
        }
    }
}

/// All groups of a moment in hash order. It lends each until the next call.
#[derive(Debug)]
pub struct GroupsSnapshotScan<A: Aggregate> {
    snapshot: GroupsSnapshot<A>,
    /// Nobody else asks the snapshot.
    is_last: bool,
    /// The leaf that comes next, or the section where groups are on flash; the one before is being read.
    next: usize,
    /// Pages of the leaf that were decoded, and whether these are all.
    pages: usize,
    is_read: bool,
    /// Those of the page, and how many were lent.
    groups: Vec<KeyState>,
    at: usize,
    /// For what is read of runs at a time.
    loan: Loan,
    /// Those of the section; whether these are read anew, and some of them were lent before.
    runs: Option<Merger>,
    is_anew: bool,
    /// The group that was lent last, once one was.
    last: KeyState,
    is_begun: bool,
}

impl<A: Aggregate> GroupsSnapshotScan<A> {
    /// The next group; `None` at the end.
    ///
    /// # Errors
    /// As [`GroupsSnapshot::get`]. The next call tries again to go on behind the last group.
    pub fn next_group(&mut self) -> Result<Option<&KeyState>> {
        while !self.take_next()? {
            let view = Arc::clone(&self.snapshot.view);
            let goes_on = match &*view {
                View::Memory(moment) => self.next_page(moment)?,
                View::Flash(held) => self.next_section(held)?,
            };
            if !goes_on {
                return Ok(None);
            }
        }
        Ok(Some(&self.last))
    }

    /// Makes the next group of the page or the section the last one, if there is one.
    #[inline]
    fn take_next(&mut self) -> Result<bool> {
        if let Some(group) = self.groups.get_mut(self.at) {
            std::mem::swap(&mut self.last, group);
            self.at += 1;
            return Ok(true);
        }
        let Some(runs) = &mut self.runs else { return Ok(false) };
        loop {
            match runs.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    // The section is read again: without what is behind here, sums are short.
                    (self.runs, self.next, self.is_anew) = (None, self.next - 1, self.is_begun);
                    return Err(error);
                }
            }
            let Some((hash, key, state)) = runs.group() else { continue };
            let last = &self.last.key[..];
            let hasher = &self.snapshot.shared.leaves.ground.hasher;
            if self.is_anew && (hash, key) <= (hasher.hash(last), last) {
                continue;
            }
            self.last.set(key, state);
            (self.is_anew, self.is_begun) = (false, true);
            return Ok(true);
        }
    }

    /// Decodes the next page, of this leaf or the next one; `false` at the end.
    fn next_page(&mut self, moment: &Arc<Moment>) -> Result<bool> {
        let shared = &self.snapshot.shared;
        if self.is_read {
            if self.next == shared.leaves.all.len() {
                return Ok(false);
            }
            (self.next, self.pages, self.is_read) = (self.next + 1, 0, false);
        }
        let number = self.next - 1;
        self.groups.clear();
        self.at = 0;
        let shape = shared.leaves.ground.shape();
        let read = |leaf: &Leaf| leaf.read_page(self.pages, shape, &mut self.groups);
        self.is_read = !shared.look_at_moment(moment, number, self.pages == 0, read)?;
        self.pages += 1;
        if self.is_read && self.is_last {
            lock(&shared.leaves.all[number]).unpin(moment);
            moment.let_go(number);
        }
        Ok(true)
    }

    /// Goes to the next section; `false` at the end.
    fn next_section(&mut self, held: &HeldVersion) -> Result<bool> {
        let shared = &self.snapshot.shared;
        let Some(spill) =
            shared.spill.as_ref().filter(|_| self.next >> shared.leaves.shares.lg_sections == 0)
        else {
            return Ok(false);
        };
        self.runs = None;
        let section = self.next as u32;
        let piece_bytes = shared.borrow_for_scan(&mut self.loan);
        let inputs = inputs_of(&*shared.version_of(held)?, section);
        let (table, range) = (&spill.tree.table, shared.hashes_of(section));
        self.runs = Some(table.merger(&inputs, &range, piece_bytes)?);
        self.next += 1;
        Ok(true)
    }
}

impl<A: Aggregate> GroupSource for GroupsSnapshotScan<A> {
    fn next_group(&mut self) -> Result<Option<&KeyState>> {
        GroupsSnapshotScan::next_group(self)
    }
}

impl<A: Aggregate> Shared<A> {
    /// Has all leaves be pinned to what they are now.
    fn pin_moment(&self) -> Result<Arc<Moment>> {
        let _between_batches = write(&self.batches);
        let (leaves, others) = (self.leaves.all.len(), self.moments.all().len());
        let moment = Moment::new(leaves, others, &self.leaves.ground.pool)?;
        self.hand_over();
        self.leaves.all.iter().enumerate().for_each(|(number, leaf)| lock(leaf).pin(&moment, number));
        self.moments.push(&moment);
        Ok(moment)
    }

    /// Calls `look` with a leaf of which only the pages count, as they were at a moment; if it is to be `begun`, with what waited then.
    fn look_at_moment<T>(
        &self,
        moment: &Arc<Moment>,
        number: usize,
        begun: bool,
        look: impl FnOnce(&Leaf) -> T,
    ) -> Result<T> {
        let mut leaf = lock(&self.leaves.all[number]);
        if begun && leaf.is_pinned(moment) {
            leaf.settle_moment(moment, &self.leaves.ground, &mut self.leaves.ground.scratches.take());
        }
        Ok(match moment.copy(number)? {
            Some(copy) => look(copy.leaf()),
            None => look(&leaf),
        })
    }

    /// The version of a moment.
    fn version_of(&self, held: &HeldVersion) -> Result<Arc<GroupVersion>> {
        held.version().ok_or_else(|| no_room(&self.leaves.ground.pool, 0))
    }
}
