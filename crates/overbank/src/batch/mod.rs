//! Updates on their way: buffers under a byte budget, partition and sort into hash order, merge.
//!
//! ```text
//!   batches ─▶ UpdateBuffer ─▶ Partitioner ─▶ partitions for a log        (frequency, aggregate)
//!                        └───▶ Sorter ──────▶ sorted batch      (filter, dictionary, segment)
//!                                               └─▶ merge_two, Merge, Combine
//! ```
//!
//! Invariants:
//! 1. Order is hash order ([`HashOrdered`]); partition, sort and merge are all stable, so "the last update
//!    wins" needs no sequence number.
//! 2. Nothing depends on the keys' spread but speed, and no spread makes it quadratic.
//! 3. Each says how many bytes it holds; an [`UpdateBuffer`] never exceeds its budget.
//!
//! | cost a record, uniform hashes | CPU | RAM |
//! |---|---|---|
//! | [`Partitioner`] | 2 reads, 1 streamed write | one line a partition |
//! | [`Sorter`] | a partition, and two passes in cache | scratch of equal length |
//! | [`Merge`] of k | lg k comparisons | one record an input |
//!
//! There is no unsafe code here; streaming stores live in `bits`.

mod asked;
mod buffer;
mod merge;
mod order;
mod partition;
mod sort;
#[cfg(test)]
mod tests;

pub(crate) use asked::ask_in_order;
pub use buffer::{Partitions, UpdateBuffer};
pub use merge::{Combine, Merge, combine_in_place, merge_two};
pub use order::HashOrdered;
pub(crate) use order::gallop;
pub use partition::{PARTITIONS_MAX, Partitioner};
pub use sort::Sorter;
