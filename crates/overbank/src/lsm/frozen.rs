//! Joins frozen runs where there are many, so that lookups need not go through each: those who insert and never ask do not pay for it.

use super::run::{FrozenRun, Span};
use super::scheduler::Tree;
use super::state::State;
use super::{Order, Table};
use crate::Result;
use std::sync::Arc;

/// So many frozen runs of about the same length are joined when somebody looks keys up in them.
const JOIN_FAN_OUT: usize = 4;

impl<T: Table> Tree<T> {
    /// Joins frozen runs until there are few of each length.
    ///
    /// # Errors
    /// As [`Table::join`]; what was to be joined is as it was.
    pub(crate) fn join_frozen(&self) -> Result<()> {
        loop {
            let mut state = self.state();
            let Some(inputs) = state.pick_join(self.limits.frozen_bytes / 8) else { return Ok(()) };
            drop(state);
            let ids: Vec<u64> = inputs.iter().map(|one| one.id).collect();
            let runs: Vec<Arc<T::Frozen>> = inputs.iter().map(|one| Arc::clone(&one.entries)).collect();
            let held = Held { tree: self, ids: &ids };
            let joined = self.table.join(&runs, inputs[0].class)?;
            let mut state = self.state();
            // A class that was dropped meanwhile does not come back.
            let is_there = state.version().frozen.iter().any(|one| ids.contains(&one.id));
            if let Some(span) = Span::joined(inputs.iter().map(|one| one.span)).filter(|_| is_there) {
                state.put_frozen(joined, inputs[0].class, span, ids.clone());
            }
            drop(state);
            drop(held);
            self.frozen_gone();
        }
    }
}

/// Frozen runs that a thread joins. Nobody is to wait for them when it ended, however that was.
struct Held<'a, T: Table> {
    tree: &'a Tree<T>,
    ids: &'a [u64],
}

impl<T: Table> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.tree.state().joining.end(self.ids);
        self.tree.tell_all();
    }
}

impl<T: Table> State<T> {
    /// Picks frozen runs of a class to be joined, the oldest first, and marks them.
    fn pick_join(&mut self, bytes_max: usize) -> Option<Vec<FrozenRun<T>>> {
        let length = |one: &FrozenRun<T>| one.size().memory_bytes.max(1).ilog2() / JOIN_FAN_OUT.ilog2();
        let mut groups: Vec<Vec<&FrozenRun<T>>> = Vec::new();
        let is_idle = |one: &FrozenRun<T>| !self.is_busy(one.id);
        let alike = |a: &FrozenRun<T>, b: &FrozenRun<T>| a.class == b.class && length(a) == length(b);
        match T::ORDER {
            Order::Sums => {
                let mut idle: Vec<_> = self.version().frozen.iter().filter(|one| is_idle(one)).collect();
                idle.sort_by_key(|one| (one.class, length(one)));
                groups.extend(idle.chunk_by(|a, b| alike(a, b)).map(<[_]>::to_vec));
            }
            Order::NewestWins => {
                let all: Vec<_> = self.version().frozen.iter().collect();
                let joins = |a: &&FrozenRun<T>, b: &&FrozenRun<T>| alike(a, b) && is_idle(a) && is_idle(b);
                groups.extend(all.chunk_by(joins).filter(|group| is_idle(group[0])).map(<[_]>::to_vec));
            }
        }
        let bytes = |group: &[&FrozenRun<T>]| group.iter().map(|one| one.size().memory_bytes).sum::<usize>();
        let picked: Vec<FrozenRun<T>> = (groups.iter())
            .find(|group| group.len() >= JOIN_FAN_OUT && bytes(group) <= bytes_max)?
            .iter()
            .map(|&one| one.clone())
            .collect();
        self.joining.begin(picked.iter().map(|one| one.id));
        Some(picked)
    }
}
