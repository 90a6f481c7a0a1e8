//! A thread's part of the way into groups: the states of keys that come again soon, and one open chunk of records a leaf.

use super::front::{Evicted, Front, Taken};
use super::group::KeyState;
use super::leaf::{Leaf, WAITING_MAX, get_from, merge_into};
use super::leaves::Leaves;
use super::options::Shares;
use super::pool::BLOCK_BYTES;
use super::record::{Chunk, Content};
use super::state::{Aggregate, Row, State};
use crate::KeyHash;
use crate::lock::lock;

/// What one thread at a time inserts by.
#[derive(Debug)]
pub(super) struct Inserter {
    front: Front,
    open: Vec<Chunk>,
}

impl Inserter {
    pub(super) fn new<A: Aggregate>(leaves: &Leaves<A>) -> Inserter {
        let open = leaves.all.iter().map(|_| Chunk::new(Box::default())).collect();
        Inserter { front: Front::new(leaves.ground.shape(), leaves.shares.front_bytes), open }
    }

    /// Bytes beside those of the pool.
    pub(super) fn memory_bytes(&self) -> usize {
        self.open.capacity() * size_of::<Chunk>() + self.front.memory_bytes()
    }

    /// Adds what it has of a key to `group`, which is that of the key if `is_known`; whether there was anything.
    pub(super) fn get<A: Aggregate>(
        &self,
        leaves: &Leaves<A>,
        hash: KeyHash,
        key: &[u8],
        words: &mut [u64],
        group: &mut KeyState,
        is_known: bool,
    ) -> bool {
        let ground = &leaves.ground;
        let open = &self.open[ground.hasher.leaf(hash)];
        let within = (ground.hasher.within(hash) >> 32) as u32;
        let is_recorded = get_from(open, ground, within, key, words, group, is_known);
        let Some(words) = self.front.get(hash, key) else { return is_recorded };
        merge_into(ground, group, key, State { words, tail: &[] }, is_known || is_recorded);
        true
    }

    /// Whether there is anything that a leaf was not given yet.
    pub(super) fn has_records(&self) -> bool {
        !self.front.is_empty() || self.open.iter().any(|chunk| chunk.used > 0)
    }

    /// Schedules a row.
    #[inline]
    pub(super) fn insert<A: Aggregate>(&mut self, leaves: &Leaves<A>, key: &[u8], row: Row<'_>) {
        let ground = &leaves.ground;
        let hash = ground.hasher.hash(key);
        match self.front.take(ground, hash, key, row) {
            Taken::No => self.push(leaves, hash, Content::of_row(key, row)),
            Taken::Whole => {}
            Taken::InPlaceOf(other) => self.push_evicted(leaves, &other),
        }
    }

    /// Schedules a state of a group.
    pub(super) fn insert_state<A: Aggregate>(&mut self, leaves: &Leaves<A>, key: &[u8], state: State<'_>) {
        self.push(leaves, leaves.ground.hasher.hash(key), Content::of_state(key, state));
    }

    #[inline(never)]
    fn push_evicted<A: Aggregate>(&mut self, leaves: &Leaves<A>, state: &Evicted) {
        let content = Content::of_state(state.key(), State { words: state.words(), tail: &[] });
        self.push(leaves, state.hash(), content);
    }

    #[inline(always)]
    fn push<A: Aggregate>(&mut self, leaves: &Leaves<A>, hash: KeyHash, content: Content<'_>) {
        let ground = &leaves.ground;
        let leaf = ground.hasher.leaf(hash);
        let bytes = content.record_bytes(ground.shape().has_tail);
        if !self.open[leaf].has_room(bytes) {
            let next = Chunk::new(ground.pool.take_for(bytes.max(BLOCK_BYTES)));
            self.hand_over(leaves, leaf, next);
        }
        let hash = (ground.hasher.within(hash) >> 32) as u32;
        self.open[leaf].push(hash, content, ground.shape().has_tail);
    }

    /// Gives a leaf the records that it was not given yet, and has it work where enough have come together.
    fn hand_over<A: Aggregate>(&mut self, leaves: &Leaves<A>, number: usize, next: Chunk) {
        let full = std::mem::replace(&mut self.open[number], next);
        if full.used == 0 {
            leaves.ground.pool.give(full.block);
            return;
        }
        let mut leaf = lock(&leaves.all[number]);
        leaf.push(full);
        Self::work(leaves, &mut leaf);
    }

    fn work<A: Aggregate>(leaves: &Leaves<A>, leaf: &mut Leaf) {
        let Shares { missing_blocks_max, spills, .. } = leaves.shares;
        if leaf.is_away() && leaf.pending() < WAITING_MAX {
            return;
        }
        let pool = &leaves.ground.pool;
        let (pending_blocks, missing_blocks) = if pool.is_roomy() {
            (leaves.shares.pending_blocks_roomy, leaves.shares.missing_blocks_roomy)
        } else {
            (leaves.shares.pending_blocks, leaves.shares.missing_blocks)
        };
        // Where pages go to flash, that is what makes room: a leaf is not rewritten for each chunk meanwhile.
        let is_exhausted = pool.is_exhausted() && !spills;
        if leaf.pending() >= pending_blocks.min(WAITING_MAX) || is_exhausted {
            leaf.apply(&leaves.ground, &mut leaves.ground.scratches.take());
        }
        // As long as there is memory for it, a leaf is rewritten for a fourth of its pages, so that each group is a few times in all.
        let spare_blocks = if pool.is_half_free() { (leaf.pages() / 4).min(missing_blocks_max) } else { 0 };
        let is_due = leaf.misses() >= missing_blocks.max(spare_blocks).min(WAITING_MAX);
        if is_due || is_exhausted && leaf.misses() > 0 {
            leaf.compact(&leaves.ground, &mut leaves.ground.scratches.take());
        }
    }

    /// Gives the leaves all records that they were not given yet.
    pub(super) fn hand_over_all<A: Aggregate>(&mut self, leaves: &Leaves<A>) {
        let mut slot = 0;
        while let Some((state, next)) = self.front.take_next(slot) {
            self.push_evicted(leaves, &state);
            slot = next;
        }
        for leaf in 0..self.open.len() {
            self.hand_over(leaves, leaf, Chunk::new(Box::default()));
        }
    }
}
