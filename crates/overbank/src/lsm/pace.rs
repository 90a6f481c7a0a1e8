//! What writers owe to the merges: each inserted key, the work of a few.
//!
//! ```text
//!   background ─▶ balance, in entries that were merged ─▶ each inserted key takes its share; below 0 the writer works itself
//! ```
//!
//! So merges are done before the next ones of their kind are due, whatever the speed of the device. A chunk of keys costs two atomic
//! operations, and no lock.

use super::picker::Policy;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Work done ahead of the writers, in entries: so much may come in a burst.
const CREDIT_MAX: i64 = 1 << 22;

/// The balance of work done and work owed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    has_work: AtomicBool,
    /// A writer inserted since somebody looked whether they rest.
    is_written: AtomicBool,
    /// Entries merged, less those owed.
    balance: AtomicI64,
    /// Entries that each key owes, the bits of an `f64`.
    work_a_key: AtomicU64,
}

impl Pace {
    pub(super) fn has_work(&self) -> bool {
        self.has_work.load(Ordering::Acquire)
    }

    /// Notes whether there is work, and how much each key makes where runs stand on levels up to `level`: a flush, and a merge a
    /// level, and a little more to be done in time.
    pub(super) fn set_work(&self, has_work: bool, level: i32, policy: Policy) {
        let last = match policy {
            Policy::Tiered { .. } => 0.0,
            Policy::LazyLevelled { fan_out } => f64::from(fan_out) / 2.0,
        };
        let work = 1.25 + f64::from((level + 1).max(0)) + last;
        self.work_a_key.store(work.to_bits(), Ordering::Relaxed);
        self.has_work.store(has_work, Ordering::Release);
    }

    /// Notes that a writer inserts; whether it is the first since somebody looked. Writers then read what no other changes.
    pub(super) fn note_written(&self) -> bool {
        !self.is_written.load(Ordering::Relaxed) && !self.is_written.swap(true, Ordering::AcqRel)
    }

    /// Whether a writer inserted since the last look.
    pub(super) fn take_written(&self) -> bool {
        self.is_written.swap(false, Ordering::AcqRel)
    }

    /// Takes the share of `keys` inserted keys; whether it was there.
    pub(super) fn owe(&self, keys: usize) -> bool {
        let owed = (keys as f64 * f64::from_bits(self.work_a_key.load(Ordering::Relaxed))).ceil() as i64;
        self.balance.fetch_sub(owed, Ordering::Relaxed) >= owed
    }

    pub(super) fn credit(&self, entries: u64) {
        let before = self.balance.fetch_add(entries as i64, Ordering::Relaxed);
        if before + entries as i64 > CREDIT_MAX {
            self.balance.store(CREDIT_MAX, Ordering::Relaxed);
        }
    }

    pub(super) fn is_paid(&self) -> bool {
        self.balance.load(Ordering::Relaxed) >= 0
    }

    /// Nothing is left to be done, so nothing is owed.
    pub(super) fn forgive(&self) {
        self.balance.store(0, Ordering::Relaxed);
    }
}
