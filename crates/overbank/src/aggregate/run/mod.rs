//! Runs: files of groups in hash order, which leaves that were full gave up.
//!
//! ```text
//!   groups in the order of (hash, key) ─▶ writer ─▶ pages, a block each ─▶ segment: fences in RAM
//!   key ─▶ fences ─▶ a block, read and checked ─▶ its entries, one after another
//! ```
//!
//! A page says all that is needed to read it: of which bytes its keys are made, and how many words a state has is in the run's meta bytes.
//! It has no buckets and no fingerprints as pages in memory have: it is read through, by merges and scans as a whole, and for one key
//! that costs less than the read of its block.
//!
//! Invariants:
//! 1. Each key is in a run once. Entries are in the order of their hashes, all 128 bits, and of their keys where these are equal.
//! 2. Bytes that come from a file are believed only as far as they were checked: whatever they are, an answer is an answer or `Corrupt`,
//!    and memory is taken for what is there alone.
//!
//! | n groups, B a page | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | write | some 40 ns a group | 0 | n / B | a piece, and the longest entry |
//! | get | a page's entries | 1 | 0 | a block, and the longest entry |
//! | scan | some 40 ns a group | n / B, in order | 0 | a piece |
//! | open | | 1 | 0 | 4.5 bytes a block |

mod format;
mod meta;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use meta::{AggregateId, RunRules};
pub(super) use reader::{RunScan, RunSegment};
pub(super) use writer::RunWriter;
