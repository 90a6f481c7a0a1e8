//! Compact summaries of streams that outgrow RAM and one core.
//!
//! The rooms stand on each other; each may use only those above it (checked by `cargo xtask tidy`):
//! [`error`], [`bits`], [`batch`], [`device`], [`store`], [`segment`], [`sketch`],
//! [`frequency`], [`filter`], [`profile`]. `ARCHITECTURE.md` is the map.

pub mod batch;
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
pub mod segment;
pub mod sketch;
pub mod store;

pub use error::{Error, Result};
pub use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
