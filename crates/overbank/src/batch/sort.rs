//! Stable radix sort of records into hash order.
//!
//! ```text
//!   records ── partition by 1..11 leading bits ──▶ scratch   buckets that fit the cache
//!                                                    │ digit 2 of the next bits
//!                                                    ▼
//!                                                  near      a cache-resident copy of one bucket
//!                                                    │ digit 1
//!                                                    ▼
//!   records ◀─────────────────────────────────── in order but for keys equal in all those bits: insertion
//! ```
//!
//! Uniform 64-bit hashes need one pass over memory and two in cache, and almost no insertion. Nothing is
//! promised on the keys' spread:
//!
//! Invariants:
//! 1. Records of equal hash keep their order of arrival.
//! 2. A bucket too large for the cache is sorted the same way by its next bits; bits that all its records
//!    share are skipped in one pass.
//! 3. Insertion has a budget of moves; a bucket that exceeds it goes to the standard library's merge sort.
//!    Hence never more than O(n log n + n * bits / lg n), whatever the keys.
//!
//! | cost | |
//! |---|---|
//! | CPU | uniform keys: about 4 reads and 3 writes of each record |
//! | RAM | scratch as long as the records, [`Sorter::memory_bytes`] beside it |

use super::order::{HashOrdered, order_bits, window};
use super::partition::Partitioner;

/// Bytes of a bucket that is sorted in cache: with its copy it fills a quarter of a 1 MiB second-level cache. Twice as much,
/// and buckets of 10 leading bits, measured the same against `rdst` (2.08 times its rate against 2.15).
const NEAR_BYTES: usize = 128 << 10;
/// Bits of each of the two digits in cache.
const DIGIT_BITS: u32 = 8;
/// Leading bits of the pass over memory, at most.
const LEADING_BITS_MAX: u32 = 11;
/// Slices up to this long are inserted at once.
const INSERTION_RECORDS: usize = 32;

/// Sorts slices of records; keeps its memory from call to call.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::batch::Sorter;
/// let mut records = vec![(3u64, 'c'), (1, 'a'), (3, 'b')];
/// Sorter::new().sort(&mut records, &mut Vec::new());
/// assert_eq!(records, [(1, 'a'), (3, 'c'), (3, 'b')]);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Sorter<T> {
    partitioner: Partitioner<T>,
    near: Vec<T>,
}

impl<T: HashOrdered> Sorter<T> {
    /// A sorter that holds no memory yet.
    pub fn new() -> Self {
        Self { partitioner: Partitioner::new(), near: Vec::new() }
    }

    /// Bytes that a sort takes at most, beside the caller's scratch: the copy of a bucket, half of it again
    /// for a merge sort, the lines, and a table of ends for each level of buckets in buckets.
    pub const fn memory_bytes() -> usize {
        let ends_bytes = size_of::<usize>() << LEADING_BITS_MAX;
        let levels = order_bits::<T>().div_ceil(LEADING_BITS_MAX) as usize;
        near_records::<T>() * size_of::<T>() * 3 / 2
            + Partitioner::<T>::memory_bytes(1 << LEADING_BITS_MAX)
            + levels * ends_bytes
    }

    /// Bytes that it holds now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.near.capacity() * size_of::<T>() + self.partitioner.held_bytes()
    }

    /// Sorts into hash order, stably. `scratch` grows to the length of `records` where that does not fit the
    /// cache; what it holds is lost.
    pub fn sort(&mut self, records: &mut [T], scratch: &mut Vec<T>) {
        if records.len() > near_records::<T>() && scratch.len() < records.len() {
            scratch.clear();
            scratch.resize(records.len(), T::default());
        }
        self.sort_within(records, scratch);
    }

    /// As [`Sorter::sort`], for a caller who has the scratch lie somewhere.
    ///
    /// # Panics
    /// If `scratch` is shorter than records that do not fit the cache.
    pub fn sort_within(&mut self, records: &mut [T], scratch: &mut [T]) {
        let scratch_records = scratch.len().min(records.len());
        self.sort_from(records, &mut scratch[..scratch_records], 0);
    }

    /// Sorts records that agree in their first `skip_bits`.
    fn sort_from(&mut self, records: &mut [T], scratch: &mut [T], mut skip_bits: u32) {
        let n = records.len();
        if n <= near_records::<T>() {
            return self.sort_near(None, records, skip_bits);
        }
        // Buckets of about half the cache's share, so that uniform keys overflow none.
        let bits = (2 * n / near_records::<T>()).ilog2().saturating_add(1).min(LEADING_BITS_MAX);
        loop {
            if skip_bits >= order_bits::<T>() {
                return;
            }
            let index = |record: &T| (window(record, skip_bits) >> (64 - bits)) as usize;
            let ends = self.partitioner.count(records, 1 << bits, index);
            let shared = (0..ends.len()).any(|p| ends[p] - if p == 0 { 0 } else { ends[p - 1] } == n);
            if !shared {
                self.partitioner.scatter(records, index, scratch);
                break;
            }
            skip_bits = shared_bits(records);
        }
        let ends = self.partitioner.ends().to_vec();
        let mut start = 0;
        for end in ends {
            let (from, to) = (&mut scratch[start..end], &mut records[start..end]);
            if to.len() <= near_records::<T>() {
                self.sort_near(Some(from), to, skip_bits + bits);
            } else {
                to.copy_from_slice(from);
                self.sort_from(to, from, skip_bits + bits);
            }
            start = end;
        }
    }

    /// Sorts a bucket in cache: from `from`, or in place, to `to`.
    fn sort_near(&mut self, from: Option<&[T]>, to: &mut [T], skip_bits: u32) {
        if to.len() <= INSERTION_RECORDS || skip_bits >= order_bits::<T>() {
            if let Some(from) = from {
                to.copy_from_slice(from);
            }
        } else {
            if self.near.len() < to.len() {
                self.near.resize(near_records::<T>(), T::default());
            }
            let near = &mut self.near[..to.len()];
            sort_two_digits(from, near, to, skip_bits);
        }
        if !insert_within_budget(to) {
            to.sort_by_key(|record| (record.prefix(), record.suffix()));
        }
    }
}

const fn near_records<T>() -> usize {
    let bytes = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    NEAR_BYTES / bytes
}

/// How many leading bits all records share.
fn shared_bits<T: HashOrdered>(records: &[T]) -> u32 {
    let Some(first) = records.first() else { return order_bits::<T>() };
    let (prefix, suffix) = records.iter().fold((0, 0), |(prefix, suffix), record| {
        (prefix | record.prefix() ^ first.prefix(), suffix | record.suffix() ^ first.suffix())
    });
    if prefix != 0 {
        prefix.leading_zeros()
    } else if T::WIDE {
        64 + suffix.leading_zeros()
    } else {
        64
    }
}

/// Two counting passes, by the second digit after `skip_bits` and then by the first.
fn sort_two_digits<T: HashOrdered>(from: Option<&[T]>, near: &mut [T], to: &mut [T], skip_bits: u32) {
    const DIGITS: usize = 1 << DIGIT_BITS;
    let mut first = [0u32; DIGITS];
    let mut second = [0u32; DIGITS];
    let first_of = |record: &T| (window(record, skip_bits) >> (64 - DIGIT_BITS)) as usize % DIGITS;
    let second_of = |record: &T| (window(record, skip_bits) >> (64 - 2 * DIGIT_BITS)) as usize % DIGITS;
    let source = from.unwrap_or(to);
    for record in source {
        let (a, b) = (first_of(record), second_of(record));
        first[a] = first[a].wrapping_add(1);
        second[b] = second[b].wrapping_add(1);
    }
    starts_from_counts(&mut first);
    starts_from_counts(&mut second);
    scatter(source, near, &mut second, second_of);
    scatter(near, to, &mut first, first_of);
}

fn starts_from_counts(counts: &mut [u32]) {
    let mut start = 0u32;
    for count in counts {
        let next = start + *count;
        *count = start;
        start = next;
    }
}

#[inline(always)]
fn scatter<T: Copy, const DIGITS: usize>(
    from: &[T],
    to: &mut [T],
    cursors: &mut [u32; DIGITS],
    digit_of: impl Fn(&T) -> usize,
) {
    for record in from {
        let cursor = &mut cursors[digit_of(record)];
        to[*cursor as usize] = *record;
        *cursor = cursor.wrapping_add(1);
    }
}

/// Insertion sort that gives up, leaving a stable permutation, after 8 moves a record.
fn insert_within_budget<T: HashOrdered>(records: &mut [T]) -> bool {
    let mut budget = records.len().saturating_mul(8).saturating_add(INSERTION_RECORDS * INSERTION_RECORDS);
    for i in 1..records.len() {
        let record = records[i];
        if !record.precedes(&records[i - 1]) {
            continue;
        }
        let mut place = i;
        while place > 0 && record.precedes(&records[place - 1]) {
            records[place] = records[place - 1];
            place -= 1;
        }
        records[place] = record;
        if i - place > budget {
            return false;
        }
        budget -= i - place;
    }
    true
}
