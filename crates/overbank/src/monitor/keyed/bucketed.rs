//! What workers, the aggregator and queries of a sketch of slots have together: two halves of each, and the epochs that are over.
//!
//! Epochs are those of [`Shared`], whose counters are the sketch's light part, if it has one.

use super::blocks::Blocks;
use super::key::{Hashed, Key};
use super::monitored::Monitored;
use super::post::{Claim, Post};
use super::shared::Shared;
use super::table::Table;
use std::ops::Range;
use std::sync::Arc;

/// What differs between sketches of slots.
pub(super) trait Bucketed: Sized + std::fmt::Debug + Send + Sync + 'static {
    /// The key of a flow.
    type Key: Key;
    /// Counters beside the slots.
    type Light: Monitored<Key = ()> + std::fmt::Debug;
    /// What the aggregator alone has.
    type Own: std::fmt::Debug + Send;
    /// Whether an epoch's slots are to be [concluded](Self::conclude).
    const CONCLUDES: bool = false;

    /// How many blocks of slots there are.
    fn blocks(&self) -> usize;

    /// How many slots a block has.
    fn block_slots(&self) -> usize;

    /// The counters beside them.
    fn light(&self) -> Self::Light;

    /// Applies message `number` of a worker, to a block of either half.
    fn apply(
        all: &All<Self>,
        own: &mut Self::Own,
        from: (usize, u64),
        block: usize,
        claim: Claim<Hashed<Self::Key>>,
    );

    /// Counts what a worker left in a block, of those of a half, of an epoch that is over, where it is kept.
    fn adopt(all: &All<Self>, own: &mut Self::Own, epoch: u64, block: usize, claim: Claim<Hashed<Self::Key>>);

    /// Says of the flows of a block, of those of a half, what only the workers' slots tell, when all that these left is counted.
    fn conclude(_all: &All<Self>, _own: &mut Self::Own, _epoch: u64, _block: usize) {}

    /// Clears what there is besides slots and counters, as much of it as goes with these blocks of an epoch's half.
    fn clear(_all: &All<Self>, _epoch: u64, _blocks: Range<usize>) {}
}

#[derive(Debug)]
pub(super) struct All<S: Bucketed> {
    pub(super) sketch: S,
    pub(super) base: Shared<S::Light>,
    pub(super) posts: Box<[Post]>,
    pub(super) table: Table,
    /// Beside that of the base, by the same places.
    pub(super) archive: Box<[Blocks]>,
}

impl<S: Bucketed> All<S> {
    pub(super) fn new(sketch: S, workers: usize, lg_slots: u32, kept: usize) -> Arc<Self> {
        let (blocks, block_slots) = (sketch.blocks(), sketch.block_slots());
        let light_ring = if sketch.light().cells() > 0 { lg_slots } else { 1 };
        Arc::new(Self {
            base: Shared::new(sketch.light(), workers, light_ring, 0, kept),
            posts: (0..workers)
                .map(|_| Post::new::<Hashed<S::Key>>(2 * blocks, block_slots, lg_slots))
                .collect(),
            table: Table::new::<Hashed<S::Key>>(2 * blocks, block_slots, workers),
            archive: (0..kept).map(|_| Blocks::new(blocks, block_slots, Hashed::<S::Key>::WORDS)).collect(),
            sketch,
        })
    }

    /// The first block of an epoch's half.
    #[inline]
    pub(super) fn first_block(&self, epoch: u64) -> usize {
        (epoch % 2) as usize * self.sketch.blocks()
    }

    /// The live epoch that a block, of those of both halves, is of.
    pub(super) fn epoch_of(&self, block: usize) -> u64 {
        let (epoch, _) = self.base.control();
        let is_current = block / self.sketch.blocks() == (epoch % 2) as usize;
        if is_current { epoch } else { epoch - 1 }
    }

    /// Of `count` things those that go with these blocks of a half.
    pub(super) fn share(&self, blocks: &Range<usize>, count: usize) -> Range<usize> {
        let share = count.div_ceil(self.sketch.blocks());
        (blocks.start * share).min(count)..(blocks.end * share).min(count)
    }

    /// Where an epoch that is over is kept.
    pub(super) fn place(&self, epoch: u64) -> usize {
        (epoch % self.archive.len() as u64) as usize
    }

    /// What these slots of a block hold in an epoch in all, as if one sketch had seen all its traffic; `None` where the epoch is not kept
    /// any more, or has not begun.
    pub(super) fn block(
        &self,
        epoch: u64,
        block: usize,
        wanted: &[u32],
    ) -> Option<Vec<(u64, Hashed<S::Key>)>> {
        self.whole(epoch, block..block + 1, wanted)
    }

    /// What all slots hold in an epoch; likewise.
    pub(super) fn slots(&self, epoch: u64) -> Option<Vec<(u64, Hashed<S::Key>)>> {
        let wanted: Vec<u32> = (0..self.sketch.block_slots() as u32).collect();
        self.whole(epoch, 0..self.sketch.blocks(), &wanted)
    }

    fn whole(&self, epoch: u64, blocks: Range<usize>, wanted: &[u32]) -> Option<Vec<(u64, Hashed<S::Key>)>> {
        let live = || {
            let (mut all, mut held, first) = (Vec::new(), Vec::new(), self.first_block(epoch));
            for block in blocks.clone() {
                self.table.read(&self.posts, first + block, wanted, &mut held, || ());
                all.append(&mut held);
            }
            all
        };
        let kept = || {
            let archive = &self.archive[self.place(epoch)];
            let mut all = Vec::new();
            for block in blocks.clone() {
                archive.read(block, wanted, &mut all, || ());
            }
            all
        };
        self.base.while_live(epoch, live).or_else(|| self.base.archived(epoch, |_| kept()))
    }
}

/// Flows with what they weigh together, heaviest first; equal ones in the order of their hashes.
pub(super) fn summed<K: Key>(mut flows: Vec<(u64, Hashed<K>)>) -> Vec<(u64, Hashed<K>)> {
    flows.sort_unstable_by_key(|flow| flow.1.hash);
    flows.dedup_by(|next, flow| {
        let is_same = next.1.hash == flow.1.hash;
        if is_same {
            flow.0 = flow.0.saturating_add(next.0);
        }
        is_same
    });
    flows.sort_unstable_by_key(|flow| (std::cmp::Reverse(flow.0), flow.1.hash));
    flows
}

/// Looks at each of the epochs `first..=last`; `None` where there is none, or one of them is not there.
pub(super) fn over(first: u64, last: u64, mut look: impl FnMut(u64) -> Option<()>) -> Option<()> {
    let mut epochs = first..=last;
    (!epochs.is_empty()).then_some(())?;
    epochs.try_for_each(&mut look)
}

/// No counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoLight;

impl Monitored for NoLight {
    type Element = ();
    type Key = ();
    type Rule = super::rule::Sum;
    const SHOWS_KEYS: bool = false;

    fn cells(&self) -> usize {
        0
    }

    fn weight(&self, (): ()) -> u64 {
        0
    }

    fn visit(&self, (): (), _: impl FnMut(usize, u64)) {}

    fn key(&self, (): ()) {}
}
