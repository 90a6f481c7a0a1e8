//! The bins of one sign: a count for each rank, in blocks of 64 that are there only where values are.
//!
//! ```text
//!   rank     0 … 63     64 … 127    128 … 191     …      a block: nothing │ 64 counts of 32 bits │ 64 of 128 bits
//!   blocks │ counts  │ nothing   │ wide counts │  …      first = the number of the first block
//! ```
//!
//! 1. A count is exact: a block whose counts outgrow 32 bits becomes wide, and 2^128 is more than any stream has.
//! 2. What is counted depends on the multiset of (rank, count) alone. That a block is wide does not show.
//!
//! Cost: O(1) an update, O(blocks spanned) where it is lower or higher than all before; 256 bytes a block, 16 bytes for one
//! that is spanned.

use std::collections::VecDeque;

const LG_BLOCK: u32 = 6;
const BLOCK: usize = 1 << LG_BLOCK;

#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    first: i32,
    blocks: VecDeque<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Nothing,
    Narrow(Box<[u32; BLOCK]>),
    Wide(Box<[u128; BLOCK]>),
}

impl Bins {
    #[inline]
    pub(super) fn add(&mut self, rank: i32, count: u128) {
        let offset = (rank >> LG_BLOCK).wrapping_sub(self.first);
        let at = rank as usize % BLOCK;
        if let Some(Block::Narrow(counts)) = usize::try_from(offset).ok().and_then(|i| self.blocks.get_mut(i))
            && let Some(sum) = u32::try_from(count).ok().and_then(|count| counts[at].checked_add(count))
        {
            counts[at] = sum;
            return;
        }
        self.add_anew(rank, count);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(rank, count)| self.add(rank, count));
    }

    /// (rank, count) of each bin in use, lowest rank first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, u128)> + '_ {
        self.blocks.iter().zip(self.first..).flat_map(|(block, number)| {
            // A block that is not there is passed by in one step.
            let counts = if matches!(block, Block::Nothing) { 0..0 } else { 0..BLOCK };
            let first_rank = number << LG_BLOCK;
            let bin = move |at: usize| (first_rank + at as i32, block.get(at));
            counts.map(bin).filter(|&(_, count)| count > 0)
        })
    }

    /// What the bins hold now.
    pub(super) fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(Block::memory_bytes).sum::<usize>();
        self.blocks.capacity() * size_of::<Block>() + blocks
    }

    /// What bins of the ranks `lowest..=highest` take at most, but for counts of 32 bits and more.
    pub(super) fn memory_bytes_max(lowest: i32, highest: i32) -> usize {
        let blocks = ((highest >> LG_BLOCK) - (lowest >> LG_BLOCK) + 1) as usize;
        blocks.next_power_of_two() * size_of::<Block>() + blocks * size_of::<[u32; BLOCK]>()
    }

    /// Adds where there is no block yet, or none that holds the sum.
    #[cold]
    fn add_anew(&mut self, rank: i32, count: u128) {
        if count == 0 {
            return;
        }
        let number = rank >> LG_BLOCK;
        if self.blocks.is_empty() {
            self.first = number;
        }
        while self.first > number {
            self.blocks.push_front(Block::Nothing);
            self.first -= 1;
        }
        let i = (number - self.first) as usize;
        if i >= self.blocks.len() {
            self.blocks.resize(i + 1, Block::Nothing);
        }
        self.blocks[i].add(rank as usize % BLOCK, count);
    }
}

impl Block {
    fn get(&self, at: usize) -> u128 {
        match self {
            Block::Nothing => 0,
            Block::Narrow(counts) => counts[at].into(),
            Block::Wide(counts) => counts[at],
        }
    }

    fn add(&mut self, at: usize, count: u128) {
        let sum = self.get(at).saturating_add(count);
        if !matches!(self, Block::Wide(_)) && sum > u32::MAX.into() {
            *self = Block::Wide(Box::new(std::array::from_fn(|at| self.get(at))));
        } else if matches!(self, Block::Nothing) {
            *self = Block::Narrow(Box::new([0; BLOCK]));
        }
        match self {
            Block::Nothing => {}
            Block::Narrow(counts) => counts[at] = sum as u32,
            Block::Wide(counts) => counts[at] = sum,
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Block::Nothing => 0,
            Block::Narrow(counts) => size_of_val(&**counts),
            Block::Wide(counts) => size_of_val(&**counts),
        }
    }
}
