//! The newest entries, not yet packed: words in RAM, sorted when they are asked for or when the log is full.
//!
//! ```text
//!   words   │ stretch, sorted │ stretch │ st. │ tail, in order of arrival
//!                               each less than a quarter of the one before
//! ```
//!
//! A word is an entry's fingerprint on the left, and in its last bit whether it is a removal.
//!
//! Invariants:
//! 1. Inserting never sorts. Asking sorts the tail once it is long, and joins stretches so that there are few: an insert that is
//!    asked for costs O(log n) copies.

use super::options::CascadeOptions;
use crate::Result;
use crate::batch::{Sorter, merge_two};
use crate::filter::run::{PackedRun, RunKind, Sign};

/// Words that are looked at one by one rather than sorted.
const TAIL_WORDS: usize = 32;

/// A writer's log.
#[derive(Debug)]
pub(super) struct Memtable {
    words: Vec<u64>,
    scratch: Vec<u64>,
    sorter: Sorter<u64>,
    /// Where sorted stretches end.
    ends: Vec<usize>,
    removals: usize,
    capacity: usize,
    /// It is full then.
    limit: usize,
}

/// Where the parts of an entry lie in its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryLayout {
    /// The bits of a key's hash that its fingerprint keeps, on the left.
    pub(super) mask: u64,
    /// How far to the left a value stands, behind the fingerprint.
    pub(super) value_shift: u32,
}

impl Memtable {
    pub(super) fn new(options: &CascadeOptions) -> Self {
        let capacity = options.log_keys();
        Memtable {
            words: Vec::with_capacity(capacity),
            scratch: Vec::with_capacity(capacity),
            sorter: Sorter::new(),
            ends: Vec::new(),
            removals: 0,
            capacity,
            limit: capacity,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.words.len() >= self.limit
    }

    /// Lets it be full with `limit` words, if that is fewer than there is room for.
    pub(super) fn begin(&mut self, limit: u64) {
        self.limit = usize::try_from(limit).unwrap_or(usize::MAX).clamp(1, self.capacity);
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Takes as many entries, a key's hash and a value each, as there is room for, and returns how many.
    pub(super) fn push(
        &mut self,
        entries: impl ExactSizeIterator<Item = (u64, u64)>,
        place: EntryLayout,
        is_removal: bool,
    ) -> usize {
        let taken = entries.len().min(self.limit.saturating_sub(self.words.len()));
        let word = |(prefix, value): (u64, u64)| {
            (prefix & place.mask) | (value << place.value_shift) | u64::from(is_removal)
        };
        self.words.extend(entries.take(taken).map(word));
        self.removals += if is_removal { taken } else { 0 };
        taken
    }

    /// Adds the counts of ascending entries, on the left of their words, to `counts`.
    pub(super) fn count_many(&mut self, entries: &[u64], counts: &mut [i64]) {
        self.settle();
        let mut start = 0;
        for &end in &self.ends {
            count_sorted(&self.words[start..end], entries, counts);
            start = end;
        }
        for &word in &self.words[start..] {
            let (entry, count) = if word & 1 == 0 { (word, 1) } else { (word & !1, -1) };
            let first = entries.partition_point(|&other| other < entry);
            let equal = entries[first..].iter().take_while(|&&other| other == entry).count();
            counts[first..first + equal].iter_mut().for_each(|sum| *sum += count);
        }
    }

    /// Tells `each` the value of every entry of a key, and 1 or −1; `key` is its fingerprint on the left.
    pub(super) fn each_value(&mut self, key: u64, place: EntryLayout, mut each: impl FnMut(u64, i64)) {
        self.settle();
        let mut tell = |word: u64| {
            each((word & !place.mask & !1) >> place.value_shift, if word & 1 == 0 { 1 } else { -1 });
        };
        let mut start = 0;
        for &end in &self.ends {
            let stretch = &self.words[start..end];
            let from = stretch.partition_point(|&word| word < key);
            stretch[from..].iter().take_while(|&&word| word & place.mask == key).for_each(|&word| tell(word));
            start = end;
        }
        self.words[start..].iter().filter(|&&word| word & place.mask == key).for_each(|&word| tell(word));
    }

    /// Sorts a long tail, and joins stretches.
    fn settle(&mut self) {
        let sorted = self.ends.last().copied().unwrap_or(0);
        if self.words.len() - sorted <= TAIL_WORDS {
            return;
        }
        let mut start = sorted;
        self.sort_from(start);
        self.ends.push(self.words.len());
        while let [.., before, _] = self.ends[..] {
            let (from, end) =
                (self.ends.len().checked_sub(3).map_or(0, |at| self.ends[at]), self.words.len());
            if before - from >= 4 * (end - start) {
                break;
            }
            self.scratch.resize(end - from, 0);
            merge_two(&self.words[from..before], &self.words[before..], &mut self.scratch);
            self.words[from..].copy_from_slice(&self.scratch);
            self.ends.pop();
            self.ends.pop();
            self.ends.push(end);
            start = from;
        }
    }

    fn sort_from(&mut self, start: usize) {
        let words = &mut self.words[start..];
        self.scratch.resize(words.len().max(self.scratch.len()), 0);
        self.sorter.sort_within(words, &mut self.scratch);
    }

    /// Packs all entries, of `kind`, to a run of insertions and one of removals, either of which may be empty, and is empty then. What
    /// was inserted and removed again here is in neither.
    pub(super) fn freeze(&mut self, kind: RunKind) -> Result<[PackedRun; 2]> {
        self.sort_from(0);
        let shift = 64 - kind.fingerprint_bits;
        self.scratch.clear();
        if self.removals == 0 {
            self.words.iter_mut().for_each(|word| *word >>= shift);
        } else {
            take_removals(&mut self.words, shift, &mut self.scratch);
        }
        let removals = RunKind { sign: Sign::Removals, ..kind };
        let inserted = PackedRun::new(kind, &self.words);
        let removed = PackedRun::new(removals, &self.scratch);
        self.clear();
        Ok([inserted?, removed?])
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
        self.removals = 0;
    }
}

/// Makes of sorted words the fingerprints that were inserted, and appends those that were removed to `removed`. A removal takes the
/// insertion before it, if that is of the same fingerprint: insertions of one come before its removals.
fn take_removals(words: &mut Vec<u64>, shift: u32, removed: &mut Vec<u64>) {
    let mut kept = 0;
    for at in 0..words.len() {
        let (fingerprint, is_removal) = (words[at] >> shift, words[at] & 1 == 1);
        if !is_removal {
            words[kept] = fingerprint;
            kept += 1;
        } else if kept > 0 && words[kept - 1] == fingerprint {
            kept -= 1;
        } else {
            removed.push(fingerprint);
        }
    }
    words.truncate(kept);
}

fn count_sorted(words: &[u64], entries: &[u64], counts: &mut [i64]) {
    let mut from = 0;
    for (&entry, sum) in entries.iter().zip(counts) {
        from += words[from..].partition_point(|&word| word < entry);
        if words.get(from).is_none_or(|word| word & !1 != entry) {
            continue;
        }
        // A key may be there, and be asked for, any number of times: its words are not gone through.
        let inserts = words[from..].partition_point(|&word| word <= entry);
        let removals = words[from + inserts..].partition_point(|&word| word <= entry | 1);
        *sum += inserts as i64 - removals as i64;
    }
}
