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

    /// Whether two neighbours together count further than one.
    const PAIRS: bool;
    /// The count that two neighbours hold together, the lower half first.
    fn join(pair: [Self; 2]) -> u64;
    /// The two neighbours that hold a count together.
    fn split(count: u64) -> [Self; 2];
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

            const PAIRS: bool = <$int>::BITS < u64::BITS;

            fn join(pair: [Self; 2]) -> u64 {
                (u128::from(pair[1]) << <$int>::BITS | u128::from(pair[0])) as u64
            }

            fn split(count: u64) -> [Self; 2] {
                [count as $int, (u128::from(count) >> <$int>::BITS) as $int]
            }
        }
    };
}

cell!(u32);
cell!(u64);
