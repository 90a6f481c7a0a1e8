//! The atomics that the messages and counters of this room are made of, named in one place: the tests put those of the model checker here.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::OnceLock;
pub(super) use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
