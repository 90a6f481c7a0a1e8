//! Records on their way into hash order: partition, sort.
//!
//! ```text
//!   batches ─▶ Sorter ─▶ sorted batch        (filter, frequency)
//!                └─ first pass: Partitioner
//! ```
//!
//! Invariants:
//! 1. Order is hash order ([`HashOrdered`]); partition and sort are both stable, so "the last update
//!    wins" needs no sequence number.
//! 2. Nothing depends on the keys' spread but speed, and no spread makes it quadratic.
//! 3. Each says how many bytes it holds.
//!
//! | cost a record, uniform hashes | CPU | RAM |
//! |---|---|---|
//! | [`Partitioner`] | 2 reads, 1 streamed write | one line a partition |
//! | [`Sorter`] | a partition, and two passes in cache | scratch of equal length |
//!
//! There is no unsafe code here; streaming stores live in `bits`.

mod asked;
mod order;
mod partition;
mod sort;
#[cfg(test)]
mod tests;

pub(crate) use asked::ask_in_order;
pub use order::HashOrdered;
pub(crate) use order::gallop;
#[cfg(any(test, feature = "internals"))]
pub use partition::Partitioner;
pub use sort::Sorter;
