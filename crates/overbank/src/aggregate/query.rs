//! Questions: one group, and those with the greatest of anything.

use super::Groups;
use super::group::KeyState;
use super::scan::GroupScan;
use super::scratches::Scratch;
use super::shared::Shared;
use super::state::{Aggregate, State, StateMut};
use super::table::{GroupTable, inputs_of};
use crate::lock::lock;
use crate::lsm::Input;
use crate::{KeyHash, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What it costs to look for a key in records on flash, in a scan of them.
const ASKED: (u64, u64) = (1, 4);

impl<A: Aggregate> Groups<A> {
    /// The group of a key: what all rows say of it whose insertion has returned. `None` if there is none.
    ///
    /// # Cost
    /// A search in one page, and a look at all records that wait for its leaf: some tens of microseconds. It waits for the threads that
    /// insert to finish the piece that they are at, some hundred microseconds. A block read for each run that the key's section has on
    /// flash; where records of its leaf wait there, all of them are read, some milliseconds, until that has been done so often that it
    /// costs less to make runs of all such records, which a call then does.
    ///
    /// # Errors
    /// What the device says where groups are on flash; `BudgetExceeded` where records on flash became runs whose index has half of the
    /// memory; `Closed` where a store was told to close them.
    pub fn get(&self, key: &[u8]) -> Result<Option<KeyState>> {
        let shared = self.shared();
        shared.usable()?;
        shared.write_what_is_asked()?;
        let ground = &shared.leaves.ground;
        let hash = ground.hasher.hash(key);
        let number = ground.hasher.leaf(hash);
        let within = (ground.hasher.within(hash) >> 32) as u32;
        let (mut scratch, mut group) = (Scratch::new(ground.shape()), KeyState::default());
        let (is_known, runs) = shared.look(|inserters| {
            let leaf = lock(&shared.leaves.all[number]);
            let mut is_known = leaf.get(ground, within, key, &mut scratch, &mut group);
            for inserter in inserters {
                is_known |= inserter.get(&shared.leaves, hash, key, scratch.words(), &mut group, is_known);
            }
            let section = shared.section_of(number);
            let runs: Option<Vec<_>> = shared.spill.as_ref().map(|spill| {
                let backlog = shared.backlog_of(spill, number, &leaf, ASKED, false);
                inputs_of(&spill.version(), section).into_iter().chain(backlog).collect()
            });
            (is_known, runs.unwrap_or_default())
        });
        shared.get_in_runs(&runs, hash, key, &mut scratch, is_known.then_some(group))
    }

    /// The `k` groups with the greatest `rank`, the greatest first; of equal ones, those whose keys are less.
    ///
    /// # Cost
    /// A scan, and a heap of `k` groups.
    ///
    /// # Errors
    /// As [`Groups::scan`].
    pub fn top<R: Ord>(&self, k: usize, rank: impl Fn(State<'_>) -> R) -> Result<Vec<KeyState>> {
        top_of(&mut self.scan()?, k, rank)
    }
}

impl<A: Aggregate> Shared<A> {
    /// What runs say of a key, with what is known of it beside them.
    pub(super) fn get_in_runs(
        &self,
        runs: &[Input<GroupTable>],
        hash: KeyHash,
        key: &[u8],
        scratch: &mut Scratch,
        mut group: Option<KeyState>,
    ) -> Result<Option<KeyState>> {
        let ground = &self.leaves.ground;
        let mut part = KeyState::default();
        for run in runs {
            let is_there = match run {
                Input::Flash(run) => run.get(hash, key, &mut part)?,
                Input::Memory(frozen) => frozen.get(ground, hash, key, scratch, &mut part)?,
            };
            match &mut group {
                _ if !is_there => {}
                Some(KeyState { words, tail, .. }) => {
                    ground.aggregate.merge(StateMut { words, tail }, part.as_state());
                }
                None => group = Some(std::mem::take(&mut part)),
            }
        }
        Ok(group)
    }
}

/// What lends groups, one after the other.
pub(super) trait GroupSource {
    /// The next one.
    fn next_group(&mut self) -> Result<Option<&KeyState>>;
}

impl<A: Aggregate> GroupSource for GroupScan<A> {
    fn next_group(&mut self) -> Result<Option<&KeyState>> {
        GroupScan::next_group(self)
    }
}

/// See [`Groups::top`].
pub(super) fn top_of<R: Ord>(
    groups: &mut impl GroupSource,
    k: usize,
    rank: impl Fn(State<'_>) -> R,
) -> Result<Vec<KeyState>> {
    let mut heap: BinaryHeap<Reverse<(R, Reverse<KeyState>)>> = BinaryHeap::new();
    while let Some(group) = groups.next_group()? {
        let rank = rank(group.as_state());
        if heap.len() < k {
            heap.push(Reverse((rank, Reverse(group.clone()))));
        } else if let Some(mut least) = heap.peek_mut()
            && (&rank, Reverse(group)) > (&least.0.0, Reverse(&least.0.1.0))
        {
            *least = Reverse((rank, Reverse(group.clone())));
        }
    }
    Ok(heap.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(group)))| group).collect())
}
