//! The order in which chunks get at a shard: each in its turn, or none once the stream has stopped.

use std::sync::{Condvar, Mutex, MutexGuard};

/// A shard's state with the number of the chunk that may touch it next.
pub(super) struct Gate<S> {
    state: Mutex<(u64, S)>,
    turned: Condvar,
}

/// The turn that no chunk has: the stream ended early.
const STOPPED: u64 = u64::MAX;

impl<S> Gate<S> {
    /// Chunk 0 may go first.
    pub(super) fn new(state: S) -> Self {
        Self { state: Mutex::new((0, state)), turned: Condvar::new() }
    }
}

/// One chunk's walk through the gates. Dropped before its end, it stops every later chunk at the gates it did not pass.
pub(super) struct Turn<'a, S> {
    gates: &'a [Gate<S>],
    number: u64,
    reached: usize,
}

impl<'a, S> Turn<'a, S> {
    /// The walk of chunk `number`, before the first gate.
    pub(super) fn new(gates: &'a [Gate<S>], number: u64) -> Self {
        Self { gates, number, reached: 0 }
    }

    /// Calls `visit` for every shard as its turn comes; false if an earlier chunk stopped the stream.
    pub(super) fn take_each(&mut self, mut visit: impl FnMut(usize, &mut S)) -> bool {
        while self.reached < self.gates.len() {
            let gate = &self.gates[self.reached];
            let Some(mut guard) = self.wait(gate) else { return false };
            visit(self.reached, &mut guard.1);
            guard.0 = self.number + 1;
            drop(guard);
            gate.turned.notify_all();
            self.reached += 1;
        }
        true
    }

    /// Waits for this chunk's turn; `None` once the stream has stopped.
    fn wait<'g>(&self, gate: &'g Gate<S>) -> Option<MutexGuard<'g, (u64, S)>> {
        let guard = gate.state.lock().ok()?;
        let guard =
            gate.turned.wait_while(guard, |(turn, _)| *turn != self.number && *turn != STOPPED).ok()?;
        (guard.0 != STOPPED).then_some(guard)
    }
}

impl<S> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        for gate in &self.gates[self.reached..] {
            // A poisoned gate stops its visitors by itself; those that wait on it must be woken.
            if let Some(mut guard) = self.wait(gate) {
                guard.0 = STOPPED;
            }
            gate.turned.notify_all();
        }
    }
}
