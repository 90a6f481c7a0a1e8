//! The aggregator's slots, and how queries put them together with those of the workers.
//!
//! 1. The aggregator alone writes. A message is applied by one [`Blocks::change`], of which it is part that it counts as applied.
//! 2. A read finds a block of the table at one moment, then that of each worker at one of its own, and of the messages those that the table
//!    had not by then. A flow has its slots, wherever they are, in the block of one number: so what it weighs is found once.
//! 3. A read repeats only if its block was changed meanwhile, or as many messages of one worker passed as its ring has slots.

use super::blocks::{Blocks, Moment};
use super::key::Key;
use super::post::Post;
use super::ring::Padded;
use super::sync::{AtomicU64, Ordering, spin_loop};
use super::tally::WORKERS_MAX;

/// What the aggregator and queries share.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) blocks: Blocks,
    /// Of each worker, how many messages are applied.
    applied: Padded<Box<[AtomicU64]>>,
}

impl Table {
    /// Free slots.
    pub(super) fn new<F: Key>(blocks: usize, block_slots: usize, workers: usize) -> Self {
        let applied = (0..workers).map(|_| AtomicU64::new(0)).collect();
        Self { blocks: Blocks::new(blocks, block_slots, F::WORDS), applied: Padded(applied) }
    }

    /// Applies message `number` of a worker, of which `meanwhile` is part: the slot's count becomes `count`, and the slot that of `taker`
    /// if there is one.
    #[inline]
    pub(super) fn apply<F: Key>(
        &self,
        worker: usize,
        number: u64,
        (block, slot): (usize, usize),
        count: u64,
        taker: Option<F>,
        meanwhile: impl FnOnce(),
    ) {
        let moment = Moment { source: worker, number: number + 1 };
        self.blocks.change(block, slot, count, taker, moment, || {
            meanwhile();
            self.applied.0[worker].store(number + 1, Ordering::Release);
        });
    }

    /// What these slots of a block hold in all, as if one sketch had seen all traffic: `held` is cleared, and the aggregator's come first.
    /// Returns what `now` said in the moment of these, if one of the block's was being changed.
    pub(super) fn read<F: Key, T>(
        &self,
        posts: &[Post],
        block: usize,
        wanted: &[u32],
        held: &mut Vec<(u64, F)>,
        mut now: impl FnMut() -> T,
    ) -> Option<T> {
        let mut numbers = [0; WORKERS_MAX];
        let numbers = &mut numbers[..posts.len()];
        loop {
            held.clear();
            let (said, moment) = self.blocks.read(block, wanted, held, || {
                for (number, applied) in numbers.iter_mut().zip(&self.applied.0) {
                    // Acquires, for the worker's sequence must not seem older than what was applied of it.
                    *number = applied.load(Ordering::Acquire);
                }
                now()
            });
            let is_changing = moment != Moment::NONE;
            if is_changing && let Some(number) = numbers.get_mut(moment.source) {
                *number = moment.number;
            }
            if posts.iter().zip(&*numbers).all(|(post, &applied)| post.read(block, wanted, applied, held)) {
                return is_changing.then_some(said);
            }
            spin_loop();
        }
    }
}
