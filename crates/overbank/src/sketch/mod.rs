//! In-memory sketches, mergeable, with stable bytes: one file or folder each.
//!
//! ```text
//!                 ┌─ CountMin      how often does this key occur        (page = range of the hash)
//!   KeyHash ──────┼─ HyperLogLog   how many distinct keys               (register = range of the hash)
//!                 └─ SpaceSaving   which keys are heavy                 (by full hash)
//!   f64 ──────────── DdSketch      quantiles of a value                 (by value)
//! ```
//!
//! 1. A sketch never sees a hash function: it takes a [`KeyHash`](crate::KeyHash) and remembers in a
//!    [`HashId`] under which kind and seed it was made, so that only equals merge.
//! 2. `to_bytes` of equal sketches is equal on every machine; `from_bytes` takes hostile bytes.
//! 3. Counters saturate at `u64::MAX` and say so: as a bound it stands for "not known". They never wrap.

pub mod count_min;
pub mod ddsketch;
pub(crate) mod format;
pub(crate) mod hash_id;
pub mod hyperloglog;
pub mod space_saving;
mod stream;

pub use count_min::CountMin;
pub use ddsketch::DdSketch;
pub use hash_id::HashId;
pub use hyperloglog::HyperLogLog;
pub use space_saving::SpaceSaving;

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
