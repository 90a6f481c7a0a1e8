//! The counters of a count-min sketch: 4 or 8 bytes, saturating.

/// A counter that stops at its maximum, which then means "at least this".
pub trait Cell: Copy + Ord + Send + Sync + sealed::Sealed + 'static {
    /// Its size.
    const BYTES: usize;
    /// The value that says "at least this".
    const MAX: Self;
    /// Zero.
    const ZERO: Self;

    /// The sum, or [`MAX`](Self::MAX).
    fn plus(self, weight: u64) -> Self;
    /// As a count.
    fn count(self) -> u64;
    /// Appends its bytes.
    fn put(self, bytes: &mut Vec<u8>);
    /// From `BYTES` little-endian bytes; 0 from any other number.
    fn get(bytes: &[u8]) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

macro_rules! cell {
    ($int:ty) => {
        impl Cell for $int {
            const BYTES: usize = size_of::<$int>();
            const MAX: Self = <$int>::MAX;
            const ZERO: Self = 0;

            #[inline]
            fn plus(self, weight: u64) -> Self {
                self.saturating_add(weight.min(<$int>::MAX as u64) as $int)
            }

            #[inline]
            fn count(self) -> u64 {
                self.into()
            }

            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, <$int>::from_le_bytes)
            }
        }
    };
}

cell!(u32);
cell!(u64);
