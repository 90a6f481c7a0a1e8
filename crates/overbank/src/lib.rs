//! Compact summaries of streams that outgrow RAM and one core.
//!
//! The rooms stand on each other; each may use only those above it (checked by `cargo xtask tidy`):
//! [`error`], [`bits`], [`batch`], [`device`], [`store`], [`segment`], [`sketch`],
//! [`frequency`], [`filter`], [`profile`]. `ARCHITECTURE.md` is the map.

// The rooms under the structures are public to this project's own benches, fuzz targets and tests alone. Without the feature the
// dead-code lint sees what the product does not use.
#![cfg_attr(not(feature = "internals"), allow(unreachable_pub))]

#[cfg(not(feature = "internals"))]
mod batch;
#[cfg(feature = "internals")]
pub mod batch;
#[cfg(not(feature = "internals"))]
mod bits;
#[cfg(feature = "internals")]
pub mod bits;
mod bytes;
pub mod device;
pub mod error;
pub mod filter;
pub mod frequency;
mod lock;
mod lsm;
pub mod pipeline;
pub mod profile;
#[cfg(not(feature = "internals"))]
#[allow(dead_code, unused_imports)]
mod segment;
#[cfg(feature = "internals")]
pub mod segment;
pub mod sketch;
pub mod store;
mod stored;

pub use error::{Error, Result};
pub use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
pub use store::{Store, StoreOptions};
pub use stored::{Sketch, Stored};
