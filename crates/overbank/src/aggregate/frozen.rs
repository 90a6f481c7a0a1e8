//! What was taken away from leaves, until it is on flash in order: their pages, or the records that wait there.

use super::backlog::Backlog;
use super::group::{GroupHasher, KeyState};
use super::leaf::{Gather, GatherLimits, Ground, HashPart, Leaf};
use super::page::EntryCursor;
use super::pool::Pool;
use super::scratches::Scratch;
use super::state::{Aggregate, Shape};
use crate::{KeyHash, Result};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Some leaves that follow each other, for which nothing waits in memory. Dropped, it gives their memory back.
pub(super) struct Frozen {
    /// The number of the first one.
    first_leaf: usize,
    leaves: Vec<Leaf>,
    /// Who makes groups of what waits on flash for them, if they are no pages.
    gather: Option<(Arc<dyn Gather>, GatherLimits)>,
    pool: Arc<Pool>,
    shape: Shape,
    hasher: GroupHasher,
    groups: u64,
    bytes: usize,
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frozen { first_leaf, groups, bytes, .. } = self;
        f.debug_struct("Frozen")
            .field("first_leaf", first_leaf)
            .field("groups", groups)
            .field("bytes", bytes)
            .field("is_backlog", &self.is_backlog())
            .finish_non_exhaustive()
    }
}

impl Frozen {
    /// Pages of leaves from number `first_leaf` on.
    pub(super) fn new<A: Aggregate>(first_leaf: usize, leaves: Vec<Leaf>, ground: &Ground<A>) -> Frozen {
        let groups = leaves.iter().map(|leaf| leaf.groups() as u64).sum();
        let bytes = leaves.iter().map(Leaf::page_bytes).sum();
        let (shape, hasher) = (ground.shape(), ground.hasher);
        let pool = Arc::clone(&ground.pool);
        Frozen { first_leaf, leaves, gather: None, pool, shape, hasher, groups, bytes }
    }

    /// What waits on flash for leaves from number `first_leaf` on. Who goes through it has the groups of a leaf in memory, or of a part of
    /// one, by `limits`.
    pub(super) fn of_backlog<A: Aggregate>(
        first_leaf: usize,
        leaves: Vec<Leaf>,
        ground: &Arc<Ground<A>>,
        limits: GatherLimits,
    ) -> Frozen {
        let backlogs = || leaves.iter().filter_map(Leaf::backlog);
        let (groups, bytes) =
            (backlogs().map(Backlog::records).sum(), backlogs().map(Backlog::memory_bytes).sum());
        let gather: Arc<dyn Gather> = Arc::<Ground<A>>::clone(ground);
        let mut frozen = Frozen::new(first_leaf, leaves, ground);
        (frozen.gather, frozen.groups, frozen.bytes) = (Some((gather, limits)), groups, bytes);
        frozen
    }

    /// How many groups there are; of records, about how many these are.
    pub(super) fn groups(&self) -> u64 {
        self.groups
    }

    /// Whether it is of what waits on flash.
    pub(super) fn is_backlog(&self) -> bool {
        self.gather.is_some()
    }

    /// What waits on flash for its leaves, by their numbers.
    pub(super) fn backlogs(&self) -> impl Iterator<Item = (usize, &Backlog)> {
        let leaves = self.leaves.iter().enumerate();
        leaves.filter_map(|(at, leaf)| Some((self.first_leaf + at, leaf.backlog()?)))
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The group of a key; whether it has one.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(super) fn get<A: Aggregate>(
        &self,
        ground: &Ground<A>,
        hash: KeyHash,
        key: &[u8],
        scratch: &mut Scratch,
        into: &mut KeyState,
    ) -> Result<bool> {
        let leaf = self.hasher.leaf(hash).checked_sub(self.first_leaf).and_then(|at| self.leaves.get(at));
        let within = (self.hasher.within(hash) >> 32) as u32;
        match leaf {
            Some(leaf) if self.gather.is_some() => leaf.get_backlog(ground, within, key, scratch, into),
            Some(leaf) => Ok(leaf.get(ground, within, key, scratch, into)),
            None => Ok(false),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.leaves.iter_mut().for_each(|leaf| leaf.drop_pages(&self.pool));
    }
}

/// A place in what was taken away.
#[derive(Debug)]
pub(super) struct FrozenScan {
    frozen: Arc<Frozen>,
    range: RangeInclusive<u64>,
    leaf: usize,
    page: usize,
    cursor: EntryCursor,
    gathered: Option<Box<Gathered>>,
    /// Of the group that it stands at.
    pub(super) hash: KeyHash,
    pub(super) group: KeyState,
    read: Vec<u8>,
}

/// Groups of records that wait on flash.
#[derive(Debug)]
struct Gathered {
    part: HashPart,
    /// Those of the part, if it is not to be gathered first.
    leaf: Option<Leaf>,
}

impl FrozenScan {
    /// Of the groups whose hashes, by their first 64 bits, are in `range`.
    pub(super) fn new(frozen: &Arc<Frozen>, range: RangeInclusive<u64>) -> FrozenScan {
        let first = KeyHash(u128::from(*range.start()) << 64);
        let number = frozen.hasher.leaf(first);
        let leaf = number.saturating_sub(frozen.first_leaf);
        // A leaf that the range begins in is entered where it does.
        let inside = frozen.leaves.get(leaf).filter(|_| number >= frozen.first_leaf);
        let page = inside.map_or(0, |leaf| leaf.first_page_of(frozen.hasher.within(first)));
        let gathered = frozen
            .gather
            .as_ref()
            .map(|(gather, _)| Box::new(Gathered { part: gather.first_part(), leaf: None }));
        FrozenScan {
            frozen: Arc::clone(frozen),
            range,
            leaf,
            page,
            cursor: EntryCursor::default(),
            gathered,
            hash: KeyHash::default(),
            group: KeyState::default(),
            read: Vec::new(),
        }
    }

    /// Goes to the next group; whether there is one.
    ///
    /// # Errors
    /// `Corrupt`; what the device says. The scan is then of no use.
    pub(super) fn advance(&mut self) -> Result<bool> {
        while let Some(leaf) = self.frozen.leaves.get(self.leaf) {
            let leaf = match &self.gathered {
                None => leaf,
                Some(gathered) => match &gathered.leaf {
                    Some(leaf) => leaf,
                    None => {
                        self.gather()?;
                        continue;
                    }
                },
            };
            let Some(page) = leaf.page(self.page, self.frozen.shape) else {
                self.end_leaf();
                continue;
            };
            if !self.cursor.next(page, leaf.alphabet(), &mut self.group) {
                (self.page, self.cursor) = (self.page + 1, EntryCursor::default());
                continue;
            }
            leaf.decode(&mut self.group.key, &mut self.read);
            self.hash = self.frozen.hasher.hash(&self.group.key);
            if self.hash.high() > *self.range.end() {
                self.leaf = usize::MAX;
            } else if self.hash.high() >= *self.range.start() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes groups of what waits for the leaf, or of a part of it.
    fn gather(&mut self) -> Result<()> {
        let (Some((gather, limits)), Some(gathered)) = (&self.frozen.gather, &mut self.gathered) else {
            return Ok(());
        };
        let Gathered { part, leaf } = &mut **gathered;
        while leaf.is_none() {
            *leaf = gather.gather(&self.frozen.leaves[self.leaf], *part, *limits)?;
            if leaf.is_none() {
                *part = part.half();
            }
        }
        Ok(())
    }

    /// Goes to the next leaf, or part of it.
    fn end_leaf(&mut self) {
        (self.page, self.cursor) = (0, EntryCursor::default());
        if let Some(gathered) = &mut self.gathered {
            gathered.give_back(&self.frozen.pool);
            let (next, first) = gathered.part.next();
            gathered.part = next.unwrap_or(first);
            if next.is_some() {
                return;
            }
        }
        self.leaf += 1;
    }
}

impl Gathered {
    fn give_back(&mut self, pool: &Pool) {
        if let Some(mut leaf) = self.leaf.take() {
            leaf.drop_pages(pool);
        }
    }
}

impl Drop for FrozenScan {
    fn drop(&mut self) {
        if let Some(gathered) = &mut self.gathered {
            gathered.give_back(&self.frozen.pool);
        }
    }
}
