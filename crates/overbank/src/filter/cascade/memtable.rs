//! The newest entries, not yet packed: words in RAM in order of arrival, and a hash index of them for those who ask.
//!
//! ```text
//!   words     │ w0 │ w1 │ w2 │ w3 │ …                   in order of arrival; sorted once, when they are packed
//!   index     │ c0 │ c1 │ c2 │ c3 │ …                   cell i: the head of chain i, and of word i its link and count
//!               └ the memory that the sort needs as scratch, and nobody else needs before
//! ```
//!
//! A word is an entry's fingerprint on the left, and in its last bit whether it is a removal.
//!
//! Invariants:
//! 1. Inserting neither sorts nor indexes: the first question indexes all words, each later one those that came since.
//! 2. In a filter, a chain has each fingerprint once, and counts its words: a key that comes again and again makes no chain longer. In a
//!    maplet it has a word for each occurrence, for a question goes through the values of a key anyway.
//!
//! | n words | CPU | RAM |
//! |---|---|---|
//! | insert | O(1) | 8 bytes |
//! | ask | O(1) and O(1) for each word that came since; a memset of the scratch after each freeze | 0 |
//! | freeze | a radix sort | 0 |

use super::options::FilterOptions;
use crate::Result;
use crate::batch::Sorter;
use crate::filter::run::{PackedRun, RunKind, Sign};

/// So few words are looked at one by one rather than indexed.
const SCANNED_WORDS: usize = 32;
/// Bits of a word's place and one more, so that 0 is none.
const PLACE_BITS: u32 = 18;
/// The most words of a memtable.
const WORDS_MAX: usize = (1 << PLACE_BITS) - 1;
/// Spreads fingerprints over the chains whatever bits they share: 2^64 over the golden ratio, odd.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A writer's newest entries.
#[derive(Debug)]
pub(super) struct Memtable {
    words: Vec<u64>,
    /// The cells of the index while there is one; the sort writes over them.
    scratch: Vec<u64>,
    sorter: Sorter<u64>,
    /// How many words, from the first on, are in the index; with 0 there is none.
    indexed: usize,
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

impl EntryLayout {
    /// Whether no values stand behind the fingerprints.
    fn is_of_filter(self) -> bool {
        self.mask == u64::MAX << self.value_shift
    }
}

/// A cell of the index, from the lowest bit on: a chain's first place, the place behind a word in its chain, the word's count.
#[derive(Clone, Copy)]
struct Cell(u64);

impl Cell {
    const PLACE: u64 = (1 << PLACE_BITS) - 1;

    /// The place of a chain's first word.
    fn head(self) -> Option<usize> {
        ((self.0 & Self::PLACE) as usize).checked_sub(1)
    }

    fn with_head(self, place: usize) -> Self {
        Cell(self.0 & !Self::PLACE | (place as u64 + 1))
    }

    /// The place of the next word in a word's chain.
    fn next(self) -> Option<usize> {
        ((self.0 >> PLACE_BITS & Self::PLACE) as usize).checked_sub(1)
    }

    /// Its insertions less its removals: fewer than 2^18 either way, and there are 28 bits.
    fn count(self) -> i64 {
        self.0 as i64 >> (2 * PLACE_BITS)
    }

    fn with_word(self, next: Option<usize>, count: i64) -> Self {
        let next = next.map_or(0, |place| place as u64 + 1);
        Cell(self.0 & Self::PLACE | next << PLACE_BITS | (count << (2 * PLACE_BITS)) as u64)
    }
}

impl Memtable {
    pub(super) fn new(options: &FilterOptions) -> Self {
        Self::with_capacity(options.memtable_keys())
    }

    fn with_capacity(capacity: usize) -> Self {
        debug_assert!(capacity <= WORDS_MAX);
        Memtable {
            words: Vec::with_capacity(capacity),
            scratch: Vec::with_capacity(capacity),
            sorter: Sorter::new(),
            indexed: 0,
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

    /// The count of the fingerprint that is the upper part of `prefix`; of a filter.
    pub(super) fn count(&mut self, prefix: u64, place: EntryLayout) -> i64 {
        let entry = prefix & place.mask;
        if self.is_scanned() {
            return self.words.iter().filter(|&word| word & !1 == entry).map(|&word| signed(word)).sum();
        }
        self.index(place);
        self.find(entry)
    }

    /// Adds the counts of ascending prefixes of hashes to `counts`; of a filter.
    pub(super) fn count_many(&mut self, prefixes: &[u64], place: EntryLayout, counts: &mut [i64]) {
        if !self.is_scanned() {
            self.index(place);
            let asked = prefixes.iter().zip(counts);
            return asked.for_each(|(&prefix, sum)| *sum += self.find(prefix & place.mask));
        }
        for &word in &self.words {
            let entry = word & !1;
            let first = prefixes.partition_point(|&prefix| prefix & place.mask < entry);
            let equal = prefixes[first..].iter().take_while(|&&prefix| prefix & place.mask == entry).count();
            counts[first..first + equal].iter_mut().for_each(|sum| *sum += signed(word));
        }
    }

    /// Tells `each` the value of every entry of a key, and 1 or −1; of a maplet.
    pub(super) fn each_value(&mut self, prefix: u64, place: EntryLayout, mut each: impl FnMut(u64, i64)) {
        let key = prefix & place.mask;
        let mut tell = |word: u64| {
            if word & place.mask == key {
                each((word & !place.mask & !1) >> place.value_shift, signed(word));
            }
        };
        if self.is_scanned() {
            return self.words.iter().for_each(|&word| tell(word));
        }
        self.index(place);
        let mut at = Cell(self.scratch[chain_of(key, self.scratch.len())]).head();
        while let Some(place) = at {
            tell(self.words[place]);
            at = Cell(self.scratch[place]).next();
        }
    }

    fn is_scanned(&self) -> bool {
        self.indexed == 0 && self.words.len() <= SCANNED_WORDS
    }

    /// The count of an entry of a filter whose words are all in the index.
    fn find(&self, entry: u64) -> i64 {
        let mut at = Cell(self.scratch[chain_of(entry, self.scratch.len())]).head();
        while let Some(place) = at {
            let cell = Cell(self.scratch[place]);
            if self.words[place] & !1 == entry {
                return cell.count();
            }
            at = cell.next();
        }
        0
    }

    /// Takes the words into the index that came since it was last asked.
    fn index(&mut self, place: EntryLayout) {
        if self.indexed == 0 {
            self.scratch.clear();
            self.scratch.resize(self.capacity, 0);
        }
        let (words, cells) = (&self.words[..], &mut self.scratch[..]);
        for (at, &word) in words.iter().enumerate().skip(self.indexed) {
            let chain = chain_of(word & place.mask, cells.len());
            let first = Cell(cells[chain]).head();
            if place.is_of_filter() {
                let mut same = first;
                while let Some(other) = same.filter(|&other| (words[other] ^ word) & !1 != 0) {
                    same = Cell(cells[other]).next();
                }
                if let Some(same) = same {
                    let cell = Cell(cells[same]);
                    cells[same] = cell.with_word(cell.next(), cell.count() + signed(word)).0;
                    continue;
                }
            }
            cells[at] = Cell(cells[at]).with_word(first, signed(word)).0;
            cells[chain] = Cell(cells[chain]).with_head(at).0;
        }
        self.indexed = words.len();
    }

    /// Packs all entries, of `kind`, to a run of insertions and one of removals, either of which may be empty, and is empty then. What
    /// was inserted and removed again here is in neither.
    pub(super) fn freeze(&mut self, kind: RunKind) -> Result<[PackedRun; 2]> {
        self.indexed = 0;
        self.scratch.resize(self.words.len().max(self.scratch.len()), 0);
        self.sorter.sort_within(&mut self.words, &mut self.scratch);
        let shift = 64 - kind.fingerprint_bits;
        let removed = if self.removals == 0 {
            self.words.iter_mut().for_each(|word| *word >>= shift);
            // The scratch keeps its length: the next sort need not fill it.
            &[]
        } else {
            self.scratch.clear();
            take_removals(&mut self.words, shift, &mut self.scratch);
            &self.scratch[..]
        };
        let removals = RunKind { sign: Sign::Removals, ..kind };
        let inserted = PackedRun::new(kind, &self.words);
        let removed = PackedRun::new(removals, removed);
        self.clear();
        Ok([inserted?, removed?])
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.indexed = 0;
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

/// What a word counts.
fn signed(word: u64) -> i64 {
    if word & 1 == 0 { 1 } else { -1 }
}

/// The chain of a fingerprint among `chains`.
fn chain_of(fingerprint: u64, chains: usize) -> usize {
    ((u128::from(fingerprint.wrapping_mul(SPREAD)) * chains as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const FILTER: EntryLayout = EntryLayout { mask: u64::MAX << 44, value_shift: 44 };
    const MAPLET: EntryLayout = EntryLayout { mask: u64::MAX << 44, value_shift: 40 };

    /// Which of a few keys, a value, and whether it is removed.
    fn entry() -> impl Strategy<Value = (u64, u64, bool)> {
        (prop_oneof![0u64..4, 0u64..3000], 0u64..16, any::<bool>())
    }

    fn prefix(key: u64) -> u64 {
        key.wrapping_mul(0x1000_0001_0000_0001) << 44 | 0xfff
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn counts_and_values_are_those_of_all_words_however_they_come(
            batches in prop::collection::vec((prop::collection::vec(entry(), 0..90), 0u8..8), 1..20),
            is_maplet in any::<bool>(),
        ) {
            let place = if is_maplet { MAPLET } else { FILTER };
            let mut table = Memtable::with_capacity(2000);
            let mut model: BTreeMap<(u64, u64), i64> = BTreeMap::new();
            for (entries, action) in &batches {
                for &(key, value, is_removal) in entries {
                    let value = if is_maplet { value } else { 0 };
                    prop_assert_eq!(table.push([(prefix(key), value)].into_iter(), place, is_removal), 1);
                    *model.entry((prefix(key) & place.mask, value)).or_default() += if is_removal { -1 } else { 1 };
                }
                let mut asked: Vec<u64> = (0..200).chain([2999]).map(prefix).collect();
                asked.sort_unstable();
                let of_key = |prefix: u64| model.range((prefix & place.mask, 0)..=(prefix & place.mask, 15));
                match action {
                    0 => {
                        let kind = RunKind { fingerprint_bits: 64 - place.value_shift, seed_fingerprint: 0, hash_kind: crate::HashKind::Xxh3, sign: Sign::Insertions };
                        let [inserted, removed] = table.freeze(kind).unwrap();
                        let left = model.values().filter(|&&count| count != 0).count();
                        prop_assert_eq!((inserted.fingerprints() + removed.fingerprints(), table.len()), (left as u64, 0));
                        model.clear();
                    }
                    1 | 2 => {}
                    _ if is_maplet => {
                        for &prefix in &asked {
                            let mut found: BTreeMap<u64, i64> = BTreeMap::new();
                            table.each_value(prefix, place, |value, count| *found.entry(value).or_default() += count);
                            let expected: BTreeMap<u64, i64> = of_key(prefix).map(|(key, &count)| (key.1, count)).collect();
                            prop_assert_eq!(found, expected);
                        }
                    }
                    _ => {
                        let expected: Vec<i64> = asked.iter().map(|&prefix| 7 + of_key(prefix).map(|one| one.1).sum::<i64>()).collect();
                        let mut counts = vec![7; asked.len()];
                        table.count_many(&asked, place, &mut counts);
                        prop_assert_eq!(&counts, &expected);
                        let one_by_one: Vec<i64> = asked.iter().map(|&prefix| 7 + table.count(prefix, place)).collect();
                        prop_assert_eq!(one_by_one, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_key_that_comes_again_and_again_makes_no_chain_longer() {
        let mut table = Memtable::with_capacity(1 << 17);
        for turn in 0..1i64 << 17 {
            table.push([(prefix(7), 0)].into_iter(), FILTER, turn % 4 == 3);
            if turn % 1024 == 0 {
                table.count(prefix(7), FILTER);
            }
        }
        assert_eq!(table.count(prefix(7), FILTER), (1 << 17) / 2);
        let cell = Cell(table.scratch[chain_of(prefix(7) & FILTER.mask, table.capacity)]);
        assert_eq!(Cell(table.scratch[cell.head().unwrap()]).next(), None);
    }
}
