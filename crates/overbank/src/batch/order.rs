//! What a record must tell to be put in hash order.

use keyhash::KeyHash;

/// A record that knows its place in hash order: its hash, with whatever it carries.
///
/// The hash is read as up to 128 bits, left-aligned: [`HashOrdered::prefix`] holds the most significant 64,
/// and [`HashOrdered::suffix`] the rest, which is 0 for narrow records. What a record carries beside its hash
/// takes no part in the order, so sorts and merges keep records of equal hash in their order of arrival.
///
/// Implemented for `u32`, `u64` and [`KeyHash`], and for pairs `(hash, payload)` of these. `Default` fills
/// scratch space.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::batch::HashOrdered;
/// assert!((7u64, 'z').precedes(&(8u64, 'a')));
/// assert!(!(7u64, 'a').precedes(&(7u64, 'z')));
/// # }
/// ```
pub trait HashOrdered: Copy + Default {
    /// Whether [`HashOrdered::suffix`] can be other than 0.
    const WIDE: bool;

    /// The most significant 64 bits of the hash.
    fn prefix(&self) -> u64;

    /// The next 64 bits.
    fn suffix(&self) -> u64;

    /// Whether this record's hash is less than the other's.
    #[inline(always)]
    fn precedes(&self, other: &Self) -> bool {
        if Self::WIDE {
            (self.prefix(), self.suffix()) < (other.prefix(), other.suffix())
        } else {
            self.prefix() < other.prefix()
        }
    }
}

impl HashOrdered for u32 {
    const WIDE: bool = false;
    #[inline(always)]
    fn prefix(&self) -> u64 {
        u64::from(*self) << 32
    }
    #[inline(always)]
    fn suffix(&self) -> u64 {
        0
    }
}

impl HashOrdered for u64 {
    const WIDE: bool = false;
    #[inline(always)]
    fn prefix(&self) -> u64 {
        *self
    }
    #[inline(always)]
    fn suffix(&self) -> u64 {
        0
    }
}

impl HashOrdered for KeyHash {
    const WIDE: bool = true;
    #[inline(always)]
    fn prefix(&self) -> u64 {
        self.high()
    }
    #[inline(always)]
    fn suffix(&self) -> u64 {
        self.low()
    }
}

/// A word and what belongs to it, where records lie in memory that other words use too.
impl HashOrdered for [u64; 2] {
    const WIDE: bool = false;
    #[inline(always)]
    fn prefix(&self) -> u64 {
        self[0]
    }
    #[inline(always)]
    fn suffix(&self) -> u64 {
        0
    }
}

impl<H: HashOrdered, P: Copy + Default> HashOrdered for (H, P) {
    const WIDE: bool = H::WIDE;
    #[inline(always)]
    fn prefix(&self) -> u64 {
        self.0.prefix()
    }
    #[inline(always)]
    fn suffix(&self) -> u64 {
        self.0.suffix()
    }
}

/// The 64 bits of the hash that follow its first `skip_bits`, zeros past the end.
#[inline(always)]
pub(super) fn window<T: HashOrdered>(record: &T, skip_bits: u32) -> u64 {
    if !T::WIDE {
        return record.prefix() << (skip_bits & 63);
    }
    match skip_bits {
        0 => record.prefix(),
        1..64 => record.prefix() << skip_bits | record.suffix() >> (64 - skip_bits),
        _ => record.suffix() << (skip_bits & 63),
    }
}

/// How many bits of the hash decide the order.
pub(super) const fn order_bits<T: HashOrdered>() -> u32 {
    if T::WIDE { 128 } else { 64 }
}

/// The partition point of `sorted`, in time that depends on how near it is.
pub(crate) fn gallop<T>(sorted: &[T], is_below: impl Fn(&T) -> bool) -> usize {
    let mut reach = 16;
    while reach < sorted.len() && is_below(&sorted[reach]) {
        reach *= 4;
    }
    sorted[..sorted.len().min(reach)].partition_point(is_below)
}
