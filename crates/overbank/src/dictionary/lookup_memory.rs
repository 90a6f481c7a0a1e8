//! The memory that lookups of all threads share: each takes what it wants, as far as half of what is free goes, and a little in any case.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What a lookup may take in any case: so many threads may ask at once that nothing is free.
pub(super) const LEAST_BYTES: usize = 64 << 10;

/// Memory in bytes that nobody has taken.
#[derive(Debug)]
pub(super) struct LookupMemory {
    free: AtomicUsize,
}

/// What a lookup may use until it is dropped.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    from: &'a LookupMemory,
    taken: usize,
    bytes: usize,
}

impl LookupMemory {
    pub(super) fn new(bytes: usize) -> Self {
        LookupMemory { free: AtomicUsize::new(bytes) }
    }

    /// Takes as much as is wanted, but of what is free half at most: the next thread finds as much again.
    pub(super) fn take(&self, wanted: usize) -> Taken<'_> {
        let share = |free: usize| wanted.min(free / 2);
        // Nothing else is read because of the number.
        let before =
            self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(free - share(free)));
        let taken = before.map_or(0, share);
        Taken { from: self, taken, bytes: taken.max(wanted.min(LEAST_BYTES)) }
    }
}

impl Taken<'_> {
    /// How much it is.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.free.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_half_of_the_rest_and_comes_back() {
        let memory = LookupMemory::new(1 << 20);
        let all: Vec<Taken<'_>> = (0..16).map(|_| memory.take(usize::MAX)).collect();
        let bytes: Vec<usize> = all.iter().map(Taken::bytes).collect();
        assert_eq!(bytes[..4], [512 << 10, 256 << 10, 128 << 10, 64 << 10]);
        assert!(bytes[4..].iter().all(|&bytes| bytes == LEAST_BYTES));
        assert!(all.iter().map(|one| one.taken).sum::<usize>() <= 1 << 20);
        drop(all);
        assert_eq!(memory.take(7).bytes(), 7);
        assert_eq!(memory.free.into_inner(), 1 << 20);
    }
}
