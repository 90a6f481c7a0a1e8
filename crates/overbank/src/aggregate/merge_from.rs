//! Two stores' groups made one: everything of another handle added.

use super::Groups;
use super::flash::{POLICY, Spill};
use super::run::{AggregateId, RunSegment, RunWriter};
use super::state::Aggregate;
use crate::device::BLOCK_BYTES;
use crate::error::invalid;
use crate::lock::{lock, read};
use crate::lsm::level_of;
use crate::{Error, Result};
use std::sync::Arc;

impl<A: Aggregate> Groups<A> {
    /// Adds all groups of `other`, of the same aggregate and seed, in this store or another: states of equal keys are merged.
    ///
    /// # Cost
    /// A scan of `other`. Where these groups are in a store it writes them once, in order, as runs of their own; else it inserts them.
    ///
    /// # Errors
    /// `Incompatible` for another aggregate, by its name and shape, or another seed or hash function; `InvalidOption` for these groups
    /// themselves; as [`Groups::insert_many`]; `BudgetExceeded` where the index of all groups on flash would have half of the memory. What
    /// was added before an error is not in where it goes to flash; else it is.
    pub fn merge_from(&self, other: &Groups<A>) -> Result<()> {
        let shared = self.shared();
        shared.writable()?;
        if Arc::ptr_eq(shared, other.shared()) {
            return invalid("groups", "themselves", "give other ones: each state would be counted twice");
        }
        AggregateId::of(self.aggregate()).require(&AggregateId::of(other.aggregate()))?;
        crate::sketch::HashId::from(self.hasher()).require(other.hasher().into())?;
        let Some(spill) = &shared.spill else { return self.insert_states(other) };
        let _change = spill.gate.change();
        let mut runs = Vec::new();
        let give_up = |runs: &[(u32, RunSegment)], error| {
            spill.tree.retire(runs.iter().map(|(_, run)| run.file_ref().id).collect());
            Err(error)
        };
        if let Err(error) = self.write_runs(other, spill, &mut runs) {
            return give_up(&runs, error);
        }
        let _turn = lock(&spill.turn);
        // Before the runs are in: whoever is told of an error may try again.
        let index_bytes = runs.iter().map(|(_, run)| run.memory_bytes()).sum();
        if let Err(error) = shared.note_index_with(spill, index_bytes) {
            return give_up(&runs, error);
        }
        let mut state = spill.tree.state();
        for (section, run) in runs {
            let level = level_of(run.groups(), spill.tree.limits.flush_entries, POLICY);
            state.push_run([run], section, level);
        }
        spill.tree.schedule(&mut state);
        Ok(())
    }

    /// Writes the groups of `other`, a run for each section that has some.
    fn write_runs(&self, other: &Groups<A>, spill: &Spill, runs: &mut Vec<(u32, RunSegment)>) -> Result<()> {
        let table = &spill.tree.table;
        let hasher = self.shared().leaves.ground.hasher;
        let mut scan = other.scan()?;
        let mut writer: Option<(u32, RunWriter)> = None;
        while let Some(group) = scan.next_group()? {
            let hash = hasher.hash(&group.key);
            let section = self.shared().section_of(hasher.leaf(hash));
            let (_, writer) = match &mut writer {
                Some(open) if open.0 == section => open,
                open => {
                    if let Some((section, full)) = open.take() {
                        runs.extend(full.finish()?.map(|run| (section, run)));
                    }
                    let piece_bytes = table.shares.writer_blocks * BLOCK_BYTES;
                    open.insert((section, RunWriter::new(&spill.files, &table.rules, piece_bytes)))
                }
            };
            writer.push(hash, &group.key, group.as_state())?;
        }
        if let Some((section, last)) = writer {
            runs.extend(last.finish()?.map(|run| (section, run)));
        }
        Ok(())
    }

    /// Inserts the groups of `other` as states.
    fn insert_states(&self, other: &Groups<A>) -> Result<()> {
        let shared = self.shared();
        let (mut scan, mut is_over) = (other.scan()?, false);
        while !is_over {
            let _batch = read(&shared.batches);
            shared.require_room()?;
            let (mut rows, mut result) = (0, Ok(()));
            shared.with_inserter(|inserter| {
                while rows < STATES && !is_over && result.is_ok() {
                    match scan.next_group() {
                        Ok(Some(group)) => {
                            inserter.insert_state(&shared.leaves, &group.key, group.as_state())
                        }
                        Ok(None) => is_over = true,
                        Err(error) => result = Err::<(), Error>(error),
                    }
                    rows += 1;
                }
            });
            result?;
        }
        Ok(())
    }
}

/// States that are inserted before another thread gets a chance to ask.
const STATES: usize = 256;
