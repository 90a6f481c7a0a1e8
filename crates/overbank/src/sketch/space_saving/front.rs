//! Which slot has the least count: the front of the order by (count, slot), listed ahead.
//!
//! ```text
//!   slots by (count, slot):   ├─ listed, ascending ──┤limit├──────── all others, unordered ────────┤
//!                              ▲ next                    ▲
//!   a slot at the front that rose: beyond the limit ─────┘ forgotten until the next pass over all counts
//!                                  not beyond it ──▶ risen, a heap, mostly empty
//! ```
//!
//! 1. An entry is (a count that the slot once had, slot), so a lower bound of (count, slot).
//! 2. Every slot whose (count, slot) is not above `limit` has one entry, in `listed` from `next` on or in `risen`.
//! 3. Hence the least of both, once exact, is the least (count, slot) of all.
//!
//! Cost: entries are passed by because their slot rose, so each is paid for by an update. A pass over all counts costs
//! O(capacity) and finds O(capacity) entries: `settle` is O(1) amortised where many slots share the least count, as
//! with weights of 1, and O(log capacity) amortised for any weights.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// `count << 32 | slot`: compares as the pair.
type Entry = u128;

/// A pass lists at most one slot in so many: 2 bytes a slot, and 2 more for `risen`.
const SLOTS_PER_ENTRY: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Front {
    /// Ascending from `next` to `end`.
    listed: Box<[Entry]>,
    next: usize,
    end: usize,
    risen: BinaryHeap<Reverse<Entry>>,
    limit: Entry,
    /// Whether `limit` was reached in the middle of the slots of one count, in which the next pass may go on.
    in_level: bool,
}

impl Front {
    pub(super) fn new(capacity: usize) -> Self {
        let len = Self::len_for(capacity);
        Self {
            listed: vec![0; len].into_boxed_slice(),
            next: 0,
            end: 0,
            risen: BinaryHeap::with_capacity(len),
            limit: 0,
            in_level: false,
        }
    }

    pub(super) fn memory_bytes_for(capacity: usize) -> usize {
        2 * Self::len_for(capacity) * size_of::<Entry>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.listed.len() + self.risen.capacity()) * size_of::<Entry>()
    }

    /// The slot of the least (count, slot). `counts` are the true counts by slot: at least one, and between two calls
    /// none fell.
    #[inline]
    pub(super) fn settle(&mut self, counts: &[u64]) -> usize {
        if self.risen.is_empty() {
            while let Some(&entry) = self.listed[..self.end].get(self.next) {
                let slot = slot_of(entry);
                let now = entry_of(counts[slot], slot);
                if now == entry {
                    return slot;
                }
                self.next += 1;
                if now <= self.limit {
                    self.risen.push(Reverse(now));
                    break;
                }
            }
        }
        self.settle_all(counts)
    }

    #[cold]
    fn settle_all(&mut self, counts: &[u64]) -> usize {
        loop {
            let first_listed = self.listed[..self.end].get(self.next).copied();
            let entry = match (first_listed, self.risen.peek()) {
                (None, None) => {
                    self.refill(counts);
                    continue;
                }
                (Some(listed), Some(&Reverse(risen))) => listed.min(risen),
                (Some(entry), None) | (None, Some(&Reverse(entry))) => entry,
            };
            let slot = slot_of(entry);
            let now = entry_of(counts[slot], slot);
            if now == entry {
                return slot;
            }
            if first_listed == Some(entry) {
                self.next += 1;
            } else {
                self.risen.pop();
            }
            if now <= self.limit {
                if self.risen.len() == self.listed.len() {
                    self.refill(counts);
                } else {
                    self.risen.push(Reverse(now));
                }
            }
        }
    }

    /// Lists the front anew.
    fn refill(&mut self, counts: &[u64]) {
        self.risen.clear();
        if self.in_level {
            self.list_level(counts, (self.limit >> 32) as u64, slot_of(self.limit) + 1);
            if self.end > 0 {
                return;
            }
        }
        let least = counts.iter().copied().min().unwrap_or(0);
        self.list_level(counts, least, 0);
        if self.end < self.listed.len() / 2 {
            self.list_least(counts);
        }
    }

    /// Lists the slots of this count, from slot `from` on; without a branch for each slot, which
    /// would be mispredicted.
    fn list_level(&mut self, counts: &[u64], count: u64, from: usize) {
        (self.next, self.end, self.in_level) = (0, 0, false);
        self.limit = entry_of(count, u32::MAX as usize);
        for (slot, &other) in counts.iter().enumerate().skip(from) {
            let Some(place) = self.listed.get_mut(self.end) else {
                self.limit = self.listed[self.end - 1];
                self.in_level = true;
                return;
            };
            *place = entry_of(count, slot);
            self.end += usize::from(other == count);
        }
    }

    /// Lists the least entries, at least half as many as there is room for: whenever the room is full, the greater
    /// half is dropped and the limit lowered.
    fn list_least(&mut self, counts: &[u64]) {
        (self.next, self.end, self.in_level) = (0, 0, false);
        self.limit = Entry::MAX;
        let half = self.listed.len() / 2;
        for (slot, &count) in counts.iter().enumerate() {
            let entry = entry_of(count, slot);
            if entry > self.limit {
                continue;
            }
            if self.end == self.listed.len() {
                self.limit = *self.listed.select_nth_unstable(half - 1).1;
                self.end = half;
                if entry > self.limit {
                    continue;
                }
            }
            self.listed[self.end] = entry;
            self.end += 1;
        }
        self.listed[..self.end].sort_unstable();
    }

    fn len_for(capacity: usize) -> usize {
        (capacity / SLOTS_PER_ENTRY).max(2)
    }
}

#[inline]
fn entry_of(count: u64, slot: usize) -> Entry {
    u128::from(count) << 32 | slot as u128
}

#[inline]
fn slot_of(entry: Entry) -> usize {
    entry as u32 as usize
}
