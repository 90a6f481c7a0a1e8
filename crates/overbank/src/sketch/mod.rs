//! In-memory sketches, mergeable, with stable bytes: one file or folder each.
//!
//! ```text
//!                 ┌─ CountMin      how often does this key occur, never too low        (page = range of the hash)
//!                 ├─ CountSketch   the same without bias; weights may be negative      (columns, signs)
//!   KeyHash ──────┼─ HyperLogLog   how many distinct keys                              (register = range of the hash)
//!                 ├─ LogLog        the same from the mean of the ranks                 (registers of HyperLogLog)
//!                 ├─ SpaceSaving   which keys are heavy                                (by full hash)
//!                 ├─ CocoSketch    how often does any part of the keys occur           (columns; full hash)
//!                 ├─ Elastic       heavy keys exactly, the distribution of all         (bucket = range of the hash; CountMin)
//!                 └─ UnivMon       any sum over the counts: keys, L2, entropy; changes (strata of CountSketch, SpaceSaving)
//!   two of them ──── Locher        which sources have the most distinct items          (columns; registers)
//!   f64 ──────────── DdSketch      quantiles of a value                                (by value)
//! ```
//!
//! 1. A sketch never sees a hash function: it takes a [`KeyHash`](crate::KeyHash) and remembers in a
//!    [`HashId`] under which kind and seed it was made, so that only equals merge.
//! 2. `to_bytes` of equal sketches is equal on every machine; `from_bytes` takes hostile bytes.
//! 3. Counters saturate at `u64::MAX` and say so: as a bound it stands for "not known". They never wrap.

pub mod coco;
pub mod count_min;
pub mod count_sketch;
pub mod ddsketch;
mod depth;
pub mod elastic;
pub(crate) mod format;
pub(crate) mod hash_id;
pub mod hyperloglog;
mod index;
mod keys;
pub mod locher;
pub mod log_log;
mod median;
pub mod space_saving;
mod stream;
mod top_keys;
pub mod univ_mon;

pub use coco::CocoSketch;
pub use count_min::CountMin;
pub use count_sketch::CountSketch;
pub use ddsketch::DdSketch;
pub use elastic::Elastic;
pub use hash_id::HashId;
pub use hyperloglog::HyperLogLog;
pub use locher::Locher;
pub use log_log::LogLog;
pub use space_saving::SpaceSaving;
pub use univ_mon::UnivMon;

use crate::KeyHash;

/// A count with the interval that holds the true one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CountBounds {
    /// The true count is not below this.
    pub lower: u64,
    /// The sketch's estimate.
    pub estimate: u64,
    /// The true count is not above this; `u64::MAX` says that no bound is known.
    pub upper: u64,
}

impl CountBounds {
    /// Whether a counter on the way was full, so that no upper bound is known.
    pub fn saturated(&self) -> bool {
        self.upper == u64::MAX
    }
}

/// A key whose count differs between two sketches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeavyChange<'a> {
    /// Its hash: what identifies it.
    pub hash: KeyHash,
    /// Its first bytes.
    pub key: &'a [u8],
    /// Whether the key is longer than `key`.
    pub truncated: bool,
    /// The estimate of the earlier sketch.
    pub before: i64,
    /// The estimate of the later one.
    pub after: i64,
}

impl HeavyChange<'_> {
    /// How much the count changed.
    pub fn size(&self) -> u64 {
        self.after.abs_diff(self.before)
    }
}

/// The changes of at least this size, each key once, the greatest first; equal ones in the order of their hashes.
fn heavy_changes(mut changes: Vec<HeavyChange<'_>>, least: u64) -> Vec<HeavyChange<'_>> {
    changes.retain(|change| change.size() >= least);
    changes.sort_unstable_by_key(|change| (std::cmp::Reverse(change.size()), change.hash));
    changes.dedup_by_key(|change| change.hash);
    changes
}
