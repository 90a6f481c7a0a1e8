//! Copies of whole cache lines that bypass the cache, for writers that scatter over more memory than it
//! holds.
//!
//! A plain store to a line that is not in cache first reads the line from memory and waits for it; a
//! streaming store of a whole line does not. Measured on 16 M `u64` scattered to 256 places: see
//! `batch/partition.rs`.
//!
//! One file per instruction set, of the same shape: `copy_line`, `fence`. The scalar twin copies plainly.

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
mod scalar;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(any(not(target_arch = "x86_64"), miri))]
use scalar as isa;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as isa;

/// Bytes of a cache line; a streamed line starts at a multiple of it.
pub(crate) const LINE_BYTES: usize = 64;

/// Writes lines until it is dropped, which orders them before everything that follows.
pub(crate) struct LineWriter(());

impl LineWriter {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// Copies `line` to `place`: streaming where both make whole cache lines, plainly where not.
    #[inline(always)]
    pub(crate) fn copy<T: Copy, const N: usize>(&self, place: &mut [T; N], line: &[T; N]) {
        if size_of::<[T; N]>().is_multiple_of(LINE_BYTES) && place.as_ptr().addr().is_multiple_of(LINE_BYTES)
        {
            isa::copy_lines(place, line);
        } else {
            *place = *line;
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        isa::fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn streamed_lines_are_copies(data in prop::collection::vec(any::<u64>(), 64), offset in 0usize..16) {
            let mut streamed = vec![0u64; 80];
            let mut plain = streamed.clone();
            {
                let writer = LineWriter::new();
                let (places, _) = streamed[offset..].as_chunks_mut::<8>();
                for (place, line) in places.iter_mut().zip(data.as_chunks::<8>().0) {
                    writer.copy(place, line);
                }
            }
            let (places, _) = plain[offset..].as_chunks_mut::<8>();
            for (place, line) in places.iter_mut().zip(data.as_chunks::<8>().0) {
                scalar::copy_lines(place, line);
            }
            prop_assert_eq!(streamed, plain);
        }

        #[test]
        fn padded_records_survive(data in prop::collection::vec(any::<(u64, u32)>(), 4), offset in 0usize..4) {
            let mut places = [[(0u64, 0u32); 4]; 4];
            let line: [(u64, u32); 4] = data.try_into().unwrap();
            let place = &mut places.as_flattened_mut()[offset..offset + 4].as_chunks_mut::<4>().0[0];
            LineWriter::new().copy(place, &line);
            prop_assert_eq!(*place, line);
        }
    }
}
