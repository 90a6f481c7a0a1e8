//! Updates wait in a buffer of a fixed byte budget until they are worth a pass over storage.
//!
//! ```text
//!   batches ──▶ [ records ▒▒▒▒▒▒▒▒▒······ ]   push takes what fits and says how much
//!                     │ flush_sorted, flush_combined, flush_partitioned
//!                     ▼
//!               [ scratch, as long ]  ──▶ &[T] in hash order, or partition by partition ──▶ caller; the buffer is empty again
//! ```
//!
//! Invariants:
//! 1. [`UpdateBuffer::memory_bytes`] never exceeds the budget, sorting and partitioning included.
//! 2. A flush hands out exactly the records pushed since the last one (or their joins), so the answers that
//!    are built from it depend neither on how updates were cut into batches nor on the budget.
//!
//! | cost | |
//! |---|---|
//! | CPU | a copy for each record pushed; a sort or a partition a flush |
//! | RAM | the budget: twice the records, and the sorter's own (about half a MiB) |

use super::merge::combine_in_place;
use super::order::HashOrdered;
use super::partition::{PARTITIONS_MAX, Partitioner};
use super::sort::Sorter;
use crate::{Error, Result};
use keyhash::KeyHash;

/// Holds updates until it is flushed; never more bytes than its budget.
///
/// ```
/// # fn main() -> overbank::Result<()> {
/// use overbank::batch::UpdateBuffer;
/// let mut buffer = UpdateBuffer::<u64>::new(1 << 20)?;
/// let mut batch: &[u64] = &[30, 10, 20];
/// while !batch.is_empty() {
///     let taken = buffer.push(batch);
///     batch = &batch[taken..];
///     if buffer.is_full() {
///         buffer.flush_sorted(); // apply it to storage
///     }
/// }
/// assert_eq!(buffer.flush_sorted(), [10, 20, 30]);
/// assert!(buffer.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct UpdateBuffer<T> {
    records: Vec<T>,
    scratch: Vec<T>,
    capacity: usize,
    sorter: Sorter<T>,
    partitioner: Partitioner<T>,
    partitions_max: usize,
}

/// What [`UpdateBuffer::flush_partitioned`] hands out.
#[derive(Clone, Copy, Debug)]
pub struct Partitions<'a, T> {
    /// All records, partition after partition.
    pub records: &'a [T],
    /// Where each partition ends in `records`.
    pub ends: &'a [usize],
}

impl<'a, T> Partitions<'a, T> {
    /// The records of each partition, in order; empty ones too.
    pub fn iter(&self) -> impl Iterator<Item = &'a [T]> + use<'a, T> {
        let (records, ends) = (self.records, self.ends);
        let mut start = 0;
        ends.iter().map(move |&end| {
            let partition = &records[start..end];
            start = end;
            partition
        })
    }
}

impl<T: HashOrdered> UpdateBuffer<T> {
    /// A buffer that sorts, within `budget_bytes` in all.
    ///
    /// # Errors
    /// `BudgetExceeded` when the budget does not hold the sorter and 1,024 records.
    pub fn new(budget_bytes: usize) -> Result<Self> {
        Self::with_partitions(budget_bytes, 0)
    }

    /// A buffer that also partitions, into `partitions_max` at most, within `budget_bytes` in all.
    ///
    /// # Errors
    /// `BudgetExceeded` when the budget does not hold the sorter, a line for each partition, and 1,024
    /// records; `InvalidOption` above [`PARTITIONS_MAX`].
    pub fn with_partitions(budget_bytes: usize, partitions_max: usize) -> Result<Self> {
        if partitions_max > PARTITIONS_MAX {
            return Err(Error::InvalidOption {
                name: "partitions_max",
                value: partitions_max.to_string(),
                why: format!(
                    "a buffer partitions into {PARTITIONS_MAX} at most; partition what it hands out once more"
                ),
            });
        }
        let fixed_bytes = Sorter::<T>::memory_bytes() + Partitioner::<T>::memory_bytes(partitions_max);
        let record_bytes = 2 * size_of::<T>().max(1);
        let capacity = budget_bytes.saturating_sub(fixed_bytes) / record_bytes;
        if capacity < 1024 {
            return Err(Error::BudgetExceeded {
                what: "an update buffer".into(),
                wanted_bytes: fixed_bytes + 1024 * record_bytes,
                available_bytes: budget_bytes,
                budget_bytes,
            });
        }
        Ok(Self {
            records: Vec::with_capacity(capacity),
            scratch: Vec::new(),
            capacity,
            sorter: Sorter::new(),
            partitioner: Partitioner::new(),
            partitions_max,
        })
    }

    /// Takes as many of `records` as fit, from the front, and returns how many. Fewer than all: flush, and
    /// push the rest.
    #[must_use = "what was not taken must be pushed again after a flush"]
    pub fn push(&mut self, records: &[T]) -> usize {
        let taken = records.len().min(self.capacity - self.records.len());
        self.records.extend_from_slice(&records[..taken]);
        taken
    }

    /// Records that wait.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether the next push takes nothing: flush now.
    pub fn is_full(&self) -> bool {
        self.records.len() == self.capacity
    }

    /// Records that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that it may come to hold: at most the budget.
    pub fn memory_bytes(&self) -> usize {
        2 * self.capacity * size_of::<T>()
            + Sorter::<T>::memory_bytes()
            + Partitioner::<T>::memory_bytes(self.partitions_max)
    }

    /// Bytes that it holds now.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        (self.records.capacity() + self.scratch.capacity()) * size_of::<T>()
            + self.sorter.held_bytes()
            + self.partitioner.held_bytes()
    }

    /// What waits, in order of arrival: a query looks here for updates not yet applied.
    pub fn records(&self) -> &[T] {
        &self.records
    }

    /// Empties the buffer: what waited, in hash order; records of equal hash in order of arrival.
    pub fn flush_sorted(&mut self) -> &[T] {
        self.reserve_scratch();
        self.sorter.sort(&mut self.records, &mut self.scratch);
        self.hand_out()
    }

    /// Empties the buffer: what waited, in hash order, records of equal hash joined by `join(&mut first,
    /// next)` in order of arrival.
    pub fn flush_combined(&mut self, join: impl FnMut(&mut T, T)) -> &[T] {
        self.reserve_scratch();
        self.sorter.sort(&mut self.records, &mut self.scratch);
        let kept = combine_in_place(&mut self.records, join);
        self.records.truncate(kept);
        self.hand_out()
    }

    /// Empties the buffer: what waited, by `index(record)`, in order of arrival within a partition.
    ///
    /// # Panics
    /// When `partitions` is 0 or above what the buffer was made for, or an index is not below `partitions`.
    pub fn flush_partitioned(&mut self, partitions: usize, index: impl Fn(&T) -> usize) -> Partitions<'_, T> {
        assert!(
            partitions <= self.partitions_max,
            "the budget holds lines for {} partitions",
            self.partitions_max
        );
        self.reserve_scratch();
        self.scratch.resize(self.records.len(), T::default());
        let ends = self.partitioner.by_index(&self.records, partitions, index, &mut self.scratch);
        self.records.clear();
        Partitions { records: &self.scratch, ends }
    }

    /// The capacity and not a record more, where a growing vector would double.
    fn reserve_scratch(&mut self) {
        self.scratch.reserve_exact(self.capacity.saturating_sub(self.scratch.len()));
    }

    /// Leaves the records to the caller's reading and the buffer empty: they move to the scratch side.
    fn hand_out(&mut self) -> &[T] {
        std::mem::swap(&mut self.records, &mut self.scratch);
        self.records.clear();
        &self.scratch
    }
}

impl UpdateBuffer<(KeyHash, u64)> {
    /// Pushes hashes with their weights, or with weight 1 each; returns how many were taken, as
    /// [`UpdateBuffer::push`] does.
    ///
    /// # Panics
    /// When there are weights, but not one for each hash.
    #[must_use = "what was not taken must be pushed again after a flush"]
    pub fn push_weighted(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> usize {
        let taken = hashes.len().min(self.capacity - self.records.len());
        match weights {
            None => self.records.extend(hashes[..taken].iter().map(|&hash| (hash, 1))),
            Some(weights) => {
                assert_eq!(hashes.len(), weights.len(), "a weight for each hash");
                let pairs = hashes[..taken].iter().copied().zip(weights.iter().copied());
                self.records.extend(pairs);
            }
        }
        taken
    }
}
