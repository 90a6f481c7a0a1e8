//! Which slot has the least count: a 4-ary heap whose entries may lag behind.
//!
//! 1. An entry is (a count that the slot once had, slot), so a lower bound of (count, slot).
//! 2. No entry is below its parent: the least entry is at the top.
//! 3. Once the top entry is exact, it is the least (count, slot) of all: the others are not below their own
//!    entries, which are not below the top.
//!
//! Cost: each entry brought up to date was made stale by an update before, so `settle` is amortised
//! O(log capacity) an update. Four children share one cache line.

/// `count << 32 | slot`: compares as the pair.
type Entry = u128;

const ARITY: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct LazyHeap {
    entries: Vec<Entry>,
}

impl LazyHeap {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity) }
    }

    pub(super) fn push(&mut self, count: u64, slot: usize) {
        self.entries.push(entry_of(count, slot));
        let mut child = self.entries.len() - 1;
        while child > 0 {
            let parent = (child - 1) / ARITY;
            if self.entries[parent] <= self.entries[child] {
                return;
            }
            self.entries.swap(parent, child);
            child = parent;
        }
    }

    /// The slot of the least (count, slot). `counts` are the true counts by slot.
    #[inline]
    pub(super) fn settle(&mut self, counts: &[u64]) -> usize {
        loop {
            let top = self.entries[0];
            let slot = top as u32 as usize;
            let entry = entry_of(counts[slot], slot);
            if entry == top {
                return slot;
            }
            sift_down(&mut self.entries, entry);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

/// Replaces the top by `entry` and lets it sink to its place.
#[inline]
fn sift_down(entries: &mut [Entry], entry: Entry) {
    let mut at = 0;
    loop {
        let first = ARITY * at + 1;
        let (child, least) = match entries.get(first..first + ARITY) {
            Some(&[a, b, c, d]) => {
                let (i, x) = if b < a { (1, b) } else { (0, a) };
                let (j, y) = if d < c { (3, d) } else { (2, c) };
                if y < x { (first + j, y) } else { (first + i, x) }
            }
            _ => {
                let rest = entries.get(first..).unwrap_or(&[]);
                match rest.iter().enumerate().min_by_key(|&(_, &entry)| entry) {
                    Some((i, &least)) => (first + i, least),
                    None => break,
                }
            }
        };
        if entry <= least {
            break;
        }
        entries[at] = least;
        at = child;
    }
    entries[at] = entry;
}

#[inline]
fn entry_of(count: u64, slot: usize) -> Entry {
    u128::from(count) << 32 | slot as u128
}
