//! Heap buffers that start on a block border, as O_DIRECT asks.
//!
//! ```text
//!   bytes  │ unused │ block 0 │ block 1 │ … │ unused │      one allocation, a block longer than asked for
//!          0        start                  start + len
//! ```
//!
//! Invariants:
//! 1. `start` is the first multiple of [`BLOCK_BYTES`] in memory; the vector never grows, so it never moves.
//! 2. The length is a multiple of [`BLOCK_BYTES`].
//!
//! Over-allocating by one block costs 4 KiB of address space a buffer and needs no `unsafe`, which an aligned
//! allocation would; so buffers are made long and few.

use super::BLOCK_BYTES;
use std::ops::{Deref, DerefMut};

/// A zeroed buffer aligned to [`BLOCK_BYTES`] whose length is a multiple of it.
///
/// ```
/// use overbank::device::{AlignedBuf, BLOCK_BYTES};
/// let buffer = AlignedBuf::zeroed(5000);
/// assert_eq!(buffer.len(), 2 * BLOCK_BYTES);
/// assert!(AlignedBuf::is_aligned(&buffer));
/// ```
pub struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// A buffer of zeros, `bytes` rounded up to whole blocks.
    ///
    /// # Panics
    /// If that many bytes cannot be addressed; as with every allocation, the process ends if there is no memory.
    pub fn zeroed(bytes: usize) -> Self {
        let len =
            bytes.checked_next_multiple_of(BLOCK_BYTES).expect("a buffer is smaller than the address space");
        if len == 0 {
            return Self { bytes: Vec::new(), start: 0, len: 0 };
        }
        let bytes = vec![0u8; len + BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        Self { bytes, start, len }
    }

    /// Whether `slice` starts on a block border in memory and is a whole number of blocks long.
    pub fn is_aligned(slice: &[u8]) -> bool {
        slice.len().is_multiple_of(BLOCK_BYTES) && slice.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Default for AlignedBuf {
    /// An empty buffer, without an allocation.
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_is_aligned_zeroed_and_whole_blocks() {
        for bytes in [0, 1, 4095, 4096, 4097, 65_536, 1 << 20] {
            let mut buffer = AlignedBuf::zeroed(bytes);
            assert_eq!(buffer.len(), bytes.next_multiple_of(BLOCK_BYTES));
            assert!(buffer.is_empty() || AlignedBuf::is_aligned(&buffer), "{bytes}");
            assert!(buffer.iter().all(|&b| b == 0));
            buffer.fill(7);
            let (copy, moved) = (buffer.clone(), Box::new(buffer));
            assert!(copy.is_empty() || AlignedBuf::is_aligned(&copy));
            assert!(moved.is_empty() || AlignedBuf::is_aligned(&moved));
            assert_eq!(*copy, **moved);
        }
        assert!(!AlignedBuf::is_aligned(&AlignedBuf::zeroed(8192)[1..4097]));
        assert!(!AlignedBuf::is_aligned(&AlignedBuf::zeroed(8192)[..100]));
    }
}
