//! The memory that the pages, dictionaries and decoders of one open file may take together.

use super::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit, and how much of it is taken.
#[derive(Clone, Debug)]
pub(super) struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit_bytes: u64,
    taken_bytes: AtomicU64,
}

impl Memory {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self(Arc::new(Shared { limit_bytes: limit_bytes as u64, taken_bytes: AtomicU64::new(0) }))
    }

    /// Takes `bytes` for `what`, before they are allocated; dropping the permit gives them back.
    pub(super) fn take(&self, what: &'static str, bytes: u64) -> Result<Permit, Fault> {
        let mut permit = Permit { memory: self.clone(), bytes: 0 };
        permit.grow(what, bytes)?;
        Ok(permit)
    }
}

/// Memory that was taken.
#[derive(Debug)]
pub(super) struct Permit {
    memory: Memory,
    bytes: u64,
}

impl Permit {
    /// Takes `bytes` more.
    pub(super) fn grow(&mut self, what: &'static str, bytes: u64) -> Result<(), Fault> {
        let Shared { limit_bytes, taken_bytes } = &*self.memory.0;
        let needed_bytes = taken_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if needed_bytes > *limit_bytes {
            return Err(Fault::DoesNotFit { what, bytes, needed_bytes });
        }
        taken_bytes.store(needed_bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back what is taken beyond `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let spare = self.bytes.saturating_sub(bytes);
        self.memory.0.taken_bytes.fetch_sub(spare, Ordering::Relaxed);
        self.bytes -= spare;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.memory.0.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
