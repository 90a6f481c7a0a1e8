//! Objects in hash order, not compressed: what is sorted, merged, divided.
//!
//! ```text
//!   hashes    h0 ≤ h1 ≤ h2 …
//!   ends         e0   e1   e2 …        object i is payload[e(i-1) .. e(i)]
//!   payload   object 0 │ object 1 │ …
//! ```

use crate::Result;
use crate::error::{Error, corrupt_bytes};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes beside the payload that count for an object: its hash and its size, as the paper's tuples have them.
pub(super) const TUPLE_BYTES: usize = 8;

/// Bytes that somebody holds, and the sum of all that are.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl Held {
    pub(super) fn of(total: &Arc<AtomicUsize>) -> Held {
        Held { bytes: 0, total: Arc::clone(total) }
    }

    /// Says that it is `bytes` now.
    pub(super) fn set(&mut self, bytes: usize) {
        // The sum wraps on its way where another thread's part is not in it yet, never in the end.
        self.total.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Objects in hash order; while several runs are decompressed to be merged, one after the other.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) hashes: Vec<u32>,
    pub(super) ends: Vec<u32>,
    pub(super) payload: Vec<u8>,
    held: Held,
}

impl Run {
    /// An empty one, whose bytes count in `total`.
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Run {
        Run { held: Held::of(total), ..Run::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn clear(&mut self) {
        self.hashes.clear();
        self.ends.clear();
        self.payload.clear();
    }

    /// Makes room, so that as many more objects move nothing.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn reserve(&mut self, objects: usize, payload_bytes: usize) -> Result<()> {
        let reserved = self
            .hashes
            .try_reserve(objects)
            .and_then(|()| self.ends.try_reserve(objects))
            .and_then(|()| self.payload.try_reserve(payload_bytes));
        self.count_bytes();
        reserved.map_err(|_| Error::OutOfMemory {
            what: "a buffer of the tree".to_owned(),
            wanted_bytes: objects.saturating_mul(TUPLE_BYTES).saturating_add(payload_bytes),
        })
    }

    /// Counts what is held, after it has grown.
    pub(super) fn count_bytes(&mut self) {
        let words = self.hashes.capacity() + self.ends.capacity();
        self.held.set(words * size_of::<u32>() + self.payload.capacity());
    }

    /// The object's bytes.
    #[inline(always)]
    pub(super) fn object(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.payload[start as usize..self.ends[i] as usize]
    }

    /// Appends an object.
    ///
    /// # Errors
    /// `CapacityExceeded` past 4 GiB.
    #[inline(always)]
    pub(super) fn push(&mut self, hash: u32, object: &[u8]) -> Result<()> {
        self.payload.extend_from_slice(object);
        self.close(hash)
    }

    /// As [`Run::push`], of the bytes that were appended to the payload since the last one.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub(super) fn close(&mut self, hash: u32) -> Result<()> {
        // Ends are 32 bits.
        let end = u32::try_from(self.payload.len()).map_err(|_| too_long(self.len()))?;
        self.hashes.push(hash);
        self.ends.push(end);
        Ok(())
    }

    /// Where the payload of these objects is.
    pub(super) fn payload_range(&self, objects: &Range<usize>) -> Range<usize> {
        let start = |i: usize| if i == 0 { 0 } else { self.ends[i - 1] as usize };
        start(objects.start)..start(objects.end)
    }

    /// Bytes of these objects, as buffers count them.
    pub(super) fn raw_bytes(&self, objects: &Range<usize>) -> usize {
        self.payload_range(objects).len() + objects.len() * TUPLE_BYTES
    }

    /// Where to cut, so that both sides have about as many bytes and no hash is on both; `None` where all hashes are equal.
    pub(super) fn middle(&self) -> Option<usize> {
        let half = self.raw_bytes(&(0..self.len())) / 2;
        let mut sides = 0..self.len();
        while sides.len() > 1 {
            let i = sides.start + sides.len() / 2;
            if self.raw_bytes(&(0..i)) <= half {
                sides.start = i;
            } else {
                sides.end = i;
            }
        }
        let hash = *self.hashes.get(sides.start)?;
        let (first, end) =
            (self.hashes.partition_point(|&h| h < hash), self.hashes.partition_point(|&h| h <= hash));
        match (first > 0, end < self.len()) {
            (false, false) => None,
            (true, false) => Some(first),
            (false, true) => Some(end),
            (true, true) if sides.start - first <= end - sides.start => Some(first),
            (true, true) => Some(end),
        }
    }

    /// Refuses what is no run: lengths that differ, hashes that descend.
    pub(super) fn check_from(&self, start: usize) -> Result<()> {
        match self.hashes[start..].is_sorted() {
            true => Ok(()),
            false => Err(corrupt_bytes(0, "the hashes of a fragment", "ascending", "descending")),
        }
    }
}

#[cold]
fn too_long(objects: usize) -> Error {
    Error::CapacityExceeded {
        what: "a buffer of the tree",
        held: objects as u64,
        wanted: 1,
        capacity: objects as u64,
        remedy: "choose smaller buffers, or an aggregate whose states stay shorter: a buffer has at most 4 GiB",
    }
}
