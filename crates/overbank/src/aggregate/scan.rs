//! All groups in hash order: what leaves hold and what runs do, as one.

use super::Groups;
use super::group::KeyState;
use super::leaf::Leaf;
use super::merger::Merger;
use super::pool::Loan;
use super::shared::Shared;
use super::state::{Aggregate, StateMut};
use super::table::{GroupTable, inputs_of};
use crate::lock::lock;
use crate::lsm::Input;
use crate::{KeyHash, Result};
use std::cmp::Ordering;
use std::sync::Arc;

impl<A: Aggregate> Groups<A> {
    /// Goes through all groups in hash order: those of all rows whose insertion returned before, with what comes in meanwhile or
    /// without. [`Groups::snapshot`] has the groups of one moment.
    ///
    /// # Cost
    /// Takes the records that wait into the groups, a leaf at a time, and holds one page decoded, and of each run on flash what is read of
    /// it at a time, which is part of the memory of the options: there is less for rows that come in meanwhile, and scans beside others
    /// read less at a time where there is little. Records that wait on flash become
    /// groups a leaf at a time; if that was done before, all are made a run first.
    ///
    /// # Errors
    /// As [`Groups::get`].
    pub fn scan(&self) -> Result<GroupScan<A>> {
        let shared = Arc::clone(self.shared());
        shared.usable()?;
        shared.write_what_is_asked()?;
        shared.hand_over();
        Ok(GroupScan {
            loan: Loan::new(&shared.leaves.ground.pool),
            piece_bytes: 0,
            shared,
            leaf: 0,
            page: None,
            is_read: true,
            taken: None,
            groups: Vec::new(),
            at: 0,
            runs: None,
            has_run_group: false,
            is_begun: false,
            last: KeyState::default(),
        })
    }
}

/// All groups in hash order. It lends each until the next call.
#[derive(Debug)]
pub struct GroupScan<A: Aggregate> {
    shared: Arc<Shared<A>>,
    /// What is read of runs at a time, of all together, and the loan for it.
    piece_bytes: usize,
    loan: Loan,
    /// The leaf that comes next; the one before is being read.
    leaf: usize,
    /// The page that was decoded last, and how often its leaf had been rewritten; `None` before the first of a leaf.
    page: Option<(usize, u64)>,
    /// All pages of the leaf were decoded.
    is_read: bool,
    /// How often the leaf's pages had been taken away when its runs were opened; `None` where that failed.
    taken: Option<u64>,
    /// Those of the page, and how many were lent.
    groups: Vec<KeyState>,
    at: usize,
    /// What runs have in the leaf's range; whether it stands at a group that was not lent.
    runs: Option<Merger>,
    has_run_group: bool,
    /// The group that was lent last, if any of this leaf.
    last: KeyState,
    is_begun: bool,
}

/// Where the next group comes from.
enum From {
    Leaf,
    Runs,
    Both,
}

impl<A: Aggregate> GroupScan<A> {
    /// The next group; `None` at the end.
    ///
    /// # Errors
    /// As [`Groups::get`]. The next call tries again to go on behind the last group.
    pub fn next_group(&mut self) -> Result<Option<&KeyState>> {
        loop {
            if self.at == self.groups.len() && !self.is_read {
                self.next_page()?;
                continue;
            }
            let Some(from) = self.next_from() else {
                if self.leaf == self.shared.leaves.all.len() {
                    return Ok(None);
                }
                self.begin_leaf()?;
                continue;
            };
            self.take(from);
            return Ok(Some(&self.last));
        }
    }

    /// Where the least group is.
    fn next_from(&self) -> Option<From> {
        let in_leaf = self.groups.get(self.at);
        let in_runs = self.runs.as_ref().filter(|_| self.has_run_group).and_then(Merger::group);
        Some(match (in_leaf, in_runs) {
            (None, None) => return None,
            (Some(_), None) => From::Leaf,
            (None, Some(_)) => From::Runs,
            (Some(group), Some((hash, key, _))) => match self.order(group).cmp(&(hash, key)) {
                Ordering::Less => From::Leaf,
                Ordering::Equal => From::Both,
                Ordering::Greater => From::Runs,
            },
        })
    }

    /// Makes the next group the last one.
    fn take(&mut self, from: From) {
        self.is_begun = true;
        if !matches!(from, From::Runs) {
            std::mem::swap(&mut self.last, &mut self.groups[self.at]);
            self.at += 1;
        }
        if matches!(from, From::Leaf) {
            return;
        }
        let Some(runs) = &mut self.runs else { return };
        if let Some((_, key, state)) = runs.group() {
            if matches!(from, From::Both) {
                let KeyState { words, tail, .. } = &mut self.last;
                self.shared.leaves.ground.aggregate.merge(StateMut { words, tail }, state);
            } else {
                self.last.set(key, state);
            }
        }
        match runs.advance() {
            Ok(has_group) => self.has_run_group = has_group,
            // This group is whole. The error is that of the next call, which comes to the same place.
            Err(_) => self.begin_again(),
        }
    }

    /// Has what is behind the last group of the leaf be read again: what runs have there is not known, and without that sums are short.
    fn begin_again(&mut self) {
        (self.runs, self.has_run_group) = (None, false);
        (self.page, self.is_read, self.taken) = (None, false, None);
        self.groups.clear();
        self.at = 0;
    }

    fn order<'g>(&self, group: &'g KeyState) -> (KeyHash, &'g [u8]) {
        (self.shared.leaves.ground.hasher.hash(&group.key), &group.key)
    }

    /// Goes to the next leaf, and takes what waits for it into its pages.
    fn begin_leaf(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        self.runs = None;
        self.piece_bytes = shared.borrow_for_scan(&mut self.loan);
        let mut leaf = lock(&shared.leaves.all[self.leaf]);
        self.leaf += 1;
        leaf.settle(&shared.leaves.ground, &mut shared.leaves.ground.scratches.take());
        (self.page, self.is_read, self.is_begun) = (None, false, false);
        let inputs = self.inputs(&leaf);
        drop(leaf);
        self.open_runs(&inputs)
    }

    /// The runs that have what the leaf has not, whose lock is held.
    fn inputs(&mut self, leaf: &Leaf) -> Vec<Input<GroupTable>> {
        self.taken = Some(leaf.taken());
        let number = self.leaf - 1;
        let section = self.shared.section_of(number);
        self.shared.spill.as_ref().map_or_else(Vec::new, |spill| {
            let is_cramped = self.piece_bytes < spill.tree.table.shares.scan_bytes;
            let backlog = self.shared.backlog_of(spill, number, leaf, (1, 1), is_cramped);
            inputs_of(&spill.version(), section).into_iter().chain(backlog).collect()
        })
    }

    /// Reads from now on what runs have behind the last group.
    fn open_runs(&mut self, inputs: &[Input<GroupTable>]) -> Result<()> {
        let opened = self.try_open_runs(inputs);
        if opened.is_err() {
            self.begin_again();
        }
        opened
    }

    fn try_open_runs(&mut self, inputs: &[Input<GroupTable>]) -> Result<()> {
        (self.runs, self.has_run_group) = (None, false);
        let Some(spill) = self.shared.spill.as_ref().filter(|_| !inputs.is_empty()) else { return Ok(()) };
        let table = &spill.tree.table;
        let mut range = self.shared.leaves.ground.hasher.range_of(self.leaf - 1);
        if self.is_begun {
            range = self.order(&self.last).0.high()..=*range.end();
        }
        let mut runs = table.merger(inputs, &range, self.piece_bytes)?;
        let mut has_group = runs.advance()?;
        let is_lent =
            |runs: &Merger| runs.group().is_some_and(|(hash, key, _)| (hash, key) <= self.order(&self.last));
        while self.is_begun && has_group && is_lent(&runs) {
            has_group = runs.advance()?;
        }
        (self.runs, self.has_run_group) = (Some(runs), has_group);
        Ok(())
    }

    /// Decodes the next page of the leaf, if there is one.
    fn next_page(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let ground = &shared.leaves.ground;
        let leaf = lock(&shared.leaves.all[self.leaf - 1]);
        self.groups.clear();
        self.at = 0;
        // Its pages may be in a run now.
        let inputs = (Some(leaf.taken()) != self.taken).then(|| self.inputs(&leaf));
        let next = match self.page {
            Some((page, rewritten)) if rewritten == leaf.rewritten() => page + 1,
            _ if self.is_begun => leaf.first_page_of(ground.hasher.within(self.order(&self.last).0)),
            _ => 0,
        };
        self.is_read = !leaf.read_page(next, ground.shape(), &mut self.groups);
        self.page = Some((next, leaf.rewritten()));
        drop(leaf);
        if self.is_begun {
            let last = self.order(&self.last);
            self.at = self.groups.partition_point(|group| self.order(group) <= last);
        }
        inputs.map_or(Ok(()), |inputs| self.open_runs(&inputs))
    }
}
