//! All groups of a finalized tree, in hash order.

use super::super::group::KeyState;
use super::super::state::Aggregate;
use super::fragment::Fragment;
use super::object::Object;
use super::run::Run;
use super::workers::{Desk, Workers};
use crate::Result;
use std::sync::Arc;

/// Goes through the groups of a moment, a leaf at a time; rows may come in meanwhile.
#[derive(Debug)]
pub struct BufferTreeScan<A: Aggregate> {
    workers: Arc<Workers<A>>,
    /// Leaves' fragments, the next one last.
    fragments: Vec<Arc<Fragment>>,
    run: Run,
    desk: Desk,
    at: usize,
    group: KeyState,
}

impl<A: Aggregate> BufferTreeScan<A> {
    pub(super) fn new(workers: Arc<Workers<A>>, mut fragments: Vec<Arc<Fragment>>) -> Self {
        fragments.reverse();
        let (run, desk) = (Run::new(&workers.shared.held), Desk::new(&workers.shared.held));
        let words = vec![0; workers.shared.shape.state_words];
        let group = KeyState { words, ..KeyState::default() };
        BufferTreeScan { workers, fragments, run, desk, at: 0, group }
    }

    /// The next group, in the order of 32 bits of the hash, and of keys where these are equal.
    ///
    /// # Errors
    /// `Corrupt` where a codec does not give back what it compressed; `OutOfMemory`.
    pub fn next_group(&mut self) -> Result<Option<&KeyState>> {
        let shared = &self.workers.shared;
        while self.at == self.run.len() {
            let Some(fragment) = self.fragments.pop() else { return Ok(None) };
            self.run.clear();
            self.at = 0;
            shared.compressor.decode(&fragment.bytes, &mut self.run, &mut self.desk.scratch)?;
        }
        let object = Object::read(self.run.object(self.at))?;
        let tail = object.state(shared.shape, &mut self.group.words)?;
        self.group.key.clear();
        self.group.key.extend_from_slice(object.key);
        self.group.tail.clear();
        self.group.tail.extend_from_slice(tail);
        self.at += 1;
        Ok(Some(&self.group))
    }
}
