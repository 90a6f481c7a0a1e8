//! The 128-bit key hash that every Overbank structure shares.
//!
//! A key is hashed once, at the front door, into a [`KeyHash`]. Everything behind works on the hash
//! alone: the order of `KeyHash` is *hash order*, and a page, a quotient, a bucket and a partition are
//! all ranges of it.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod derive;
mod hasher;

pub use derive::{column, columns, columns_of_power, range_of, split_quotient};
pub use hasher::{HashKind, KeyHasher, Seed, UnknownHashKind};

/// The full 128-bit hash of a key. Its numeric order is hash order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct KeyHash(pub u128);

impl KeyHash {
    /// Joins the high and the low 64 bits.
    #[inline]
    pub const fn new(high: u64, low: u64) -> Self {
        Self((high as u128) << 64 | low as u128)
    }

    /// The 64 most significant bits: these decide page, partition, quotient and hash order.
    #[inline]
    pub const fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The 64 least significant bits.
    #[inline]
    pub const fn low(self) -> u64 {
        self.0 as u64
    }

    /// All 128 bits folded to 64, independent of [`KeyHash::high`]: the source of row indices.
    #[inline]
    pub const fn fold(self) -> u64 {
        self.high() ^ self.low()
    }
}

impl core::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "KeyHash({:032x})", self.0)
    }
}
