//! Entries that came one at a time, in hash order from the start: a table that is probed, and packed without a sort.
//!
//! ```text
//!   hash of an entry ─▶ home, in the order of the hashes          │ 0 │ a │ b │ 0 │ 0 │ c │ d │ e │ 0 │ … │ slack │
//!                       taken: what is less stays before it,                        ↑ home of c and d and e
//!                       what is greater moves on by a cell
//! ```
//!
//! Invariants:
//! 1. No entry stands before its home, and none behind a free cell from there on.
//! 2. Entries ascend from cell to cell: so a question ends at the first greater one, and packing is a copy.
//!
//! | three quarters full | cells |
//! |---|---|
//! | ask for an entry | 2.5, most of them in one cache line |
//! | insert | the same, and 8.5 at worst that are looked at or moved |
//!
//! Source: Amble, Knuth, Ordered Hash Tables (1974); Gonnet, Munro, The Analysis of Linear Probing Sort by the Use of a New Mathematical
//! Transform (1984).

use crate::bits::prefetch::prefetch;

/// Cells behind the last home, for what is crowded out there.
const SLACK: usize = 64;
/// Marks a cell as taken; no entry has this bit.
const TAKEN: u64 = 1;

/// Entries of a part of the hash range, left-aligned, in hash order.
#[derive(Debug)]
pub(super) struct Cells {
    cells: Box<[u64]>,
    /// The first bits of a hash, which all entries share.
    shared_bits: u32,
    len: usize,
}

impl Cells {
    /// With no memory yet, for entries that share their first `shared_bits`.
    pub(super) fn new(shared_bits: u32) -> Self {
        Cells { cells: Box::default(), shared_bits, len: 0 }
    }

    /// Bytes of `homes` homes.
    pub(super) fn memory_bytes(homes: usize) -> usize {
        (homes + SLACK) * size_of::<u64>()
    }

    /// Takes the memory for `homes` homes, if it has none.
    pub(super) fn reserve(&mut self, homes: usize) {
        if self.cells.is_empty() {
            self.cells = vec![0; homes + SLACK].into_boxed_slice();
        }
    }

    /// Entries that are in, an occurrence each.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Tells the cache that an entry will soon be looked for.
    #[inline]
    pub(super) fn prefetch(&self, entry: u64) {
        prefetch(&self.cells, self.home(entry));
    }

    /// How often an entry is in.
    #[inline]
    pub(super) fn count(&self, entry: u64) -> i64 {
        let entry = entry | TAKEN;
        let Some(cells) = self.cells.get(self.home(entry)..) else { return 0 };
        let reached = cells.iter().take_while(|&&cell| cell != 0 && cell <= entry);
        reached.filter(|&&cell| cell == entry).count() as i64
    }

    /// Adds an occurrence of an entry; false if there is no cell for it.
    #[inline]
    pub(super) fn insert(&mut self, entry: u64) -> bool {
        let entry = entry | TAKEN;
        let home = self.home(entry);
        let Some(cells) = self.cells.get_mut(home..) else { return false };
        let Some(at) = cells.iter().position(|&cell| cell == 0 || cell > entry) else { return false };
        let Some(free) = cells[at..].iter().position(|&cell| cell == 0) else { return false };
        cells.copy_within(at..at + free, at + 1);
        cells[at] = entry;
        self.len += 1;
        true
    }

    /// All entries, ascending; one that is in several times comes as often.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.cells.iter().filter(|&&cell| cell != 0).map(|&cell| cell & !TAKEN)
    }

    pub(super) fn clear(&mut self) {
        self.cells.fill(0);
        self.len = 0;
    }

    #[inline(always)]
    fn home(&self, entry: u64) -> usize {
        let homes = self.cells.len().saturating_sub(SLACK);
        ((u128::from(entry << self.shared_bits) * homes as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_those_of_a_sorted_list(
            entries in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..40, (u64::MAX - 300)..=u64::MAX], 0..300),
            homes in 1usize..200, asked in prop::collection::vec(0u64..40, 9),
        ) {
            let mut cells = Cells::new(4);
            prop_assert_eq!((cells.count(7 << 1), cells.insert(7 << 1), cells.len()), (0, false, 0));
            cells.reserve(homes);
            for _ in 0..2 {
                let mut model: Vec<u64> = Vec::new();
                for &entry in &entries {
                    let entry = entry << 1 & (u64::MAX >> 4) | 0xa << 60;
                    if cells.insert(entry) {
                        model.push(entry);
                    } else {
                        // What stands at its home or behind it goes on to the end.
                        prop_assert!(model.len() >= SLACK);
                    }
                }
                model.sort_unstable();
                prop_assert_eq!(cells.iter().collect::<Vec<u64>>(), model.clone());
                prop_assert_eq!(cells.len(), model.len());
                for entry in model.iter().copied().chain(asked.iter().map(|&entry| entry << 1 | 0xa << 60)) {
                    let count = model.iter().filter(|&&one| one == entry).count();
                    prop_assert_eq!(cells.count(entry), count as i64);
                }
                cells.clear();
            }
        }
    }
}
