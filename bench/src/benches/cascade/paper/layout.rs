//! Which bits of a hash are quotient and remainder at each level, and how many levels a number of keys needs.

use crate::Result;
use crate::three_bit::ThreeBitFilter;
use keyhash::KeyHash;

/// Remainder bits of the largest level.
const LARGEST_REMAINDER_BITS: u32 = 11;

/// The shape of a cascade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Layout {
    ram_quotient_bits: u32,
    levels: u32,
    has_tombstones: bool,
}

impl Layout {
    /// For so many entries, with as large a filter in RAM as `memory_bytes` hold.
    pub(in super::super) fn new(memory_bytes: usize, entries: u64, has_tombstones: bool) -> Result<Self> {
        let fits = |layout: &Self| {
            layout.entry_bits() <= 64
                && ThreeBitFilter::bytes_of(layout.quotient_bits(0), layout.remainder_bits(0)) <= memory_bytes
        };
        (4..40)
            .rev()
            .map(|bits| Self::with_ram(bits, entries, has_tombstones))
            .find(fits)
            .ok_or_else(|| format!("{memory_bytes} bytes hold no filter").into())
    }

    fn with_ram(ram_quotient_bits: u32, entries: u64, has_tombstones: bool) -> Self {
        let mut layout = Self { ram_quotient_bits, levels: 1, has_tombstones };
        while layout.entries_max() < entries {
            layout.levels += 1;
        }
        layout
    }

    /// How many entries all levels on flash hold.
    pub(in super::super) fn entries_max(self) -> u64 {
        (1..=self.levels).map(|level| self.capacity(level)).sum()
    }

    /// Levels on flash.
    pub(in super::super) fn levels(self) -> u32 {
        self.levels
    }

    /// How many entries level `level` holds; 0 is RAM.
    pub(super) fn capacity(self, level: u32) -> u64 {
        (1 << self.quotient_bits(level)) / 4 * 3
    }

    pub(super) fn quotient_bits(self, level: u32) -> u32 {
        self.ram_quotient_bits + level.saturating_sub(1)
    }

    pub(super) fn remainder_bits(self, level: u32) -> u32 {
        self.entry_bits() - self.quotient_bits(level)
    }

    /// Bits of a fingerprint, and the tombstone's.
    pub(super) fn entry_bits(self) -> u32 {
        self.fingerprint_bits() + u32::from(self.has_tombstones)
    }

    fn fingerprint_bits(self) -> u32 {
        self.quotient_bits(self.levels) + LARGEST_REMAINDER_BITS
    }

    pub(super) fn has_tombstones(self) -> bool {
        self.has_tombstones
    }

    pub(super) fn entry(self, hash: KeyHash, is_tombstone: bool) -> u64 {
        let fingerprint = hash.high() >> (64 - self.fingerprint_bits());
        fingerprint << u32::from(self.has_tombstones) | u64::from(is_tombstone)
    }

    /// Quotient and remainder of a key's entry at a level; the tombstone's bit is clear.
    pub(super) fn split(self, level: u32, hash: KeyHash) -> (u64, u64) {
        let (entry, bits) = (self.entry(hash, false), self.remainder_bits(level));
        (entry >> bits, entry & ((1 << bits) - 1))
    }

    /// Adds to `balance` what a remainder `other` of the same quotient says of the key with `remainder`; answers whether a
    /// remainder behind it may say more.
    pub(super) fn weigh(self, balance: &mut i64, remainder: u64, other: u64) -> bool {
        let tombstone = u64::from(self.has_tombstones);
        if other | tombstone == remainder | tombstone {
            *balance += if other == remainder { 1 } else { -1 };
            return self.has_tombstones;
        }
        other < remainder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evaluation_has_six_levels_and_eleven_bits() {
        for (memory_mib, entries, ram_quotient_bits) in [(232, 2_500_000_000, 26), (40, 600_000_000, 24)] {
            let layout = Layout::new(memory_mib << 20, entries, false).expect("it fits");
            assert_eq!((layout.ram_quotient_bits, layout.levels()), (ram_quotient_bits, 6));
            assert_eq!(layout.remainder_bits(6), 11);
            assert_eq!(layout.remainder_bits(0), 16);
            assert!(layout.entries_max() >= entries);
        }
        assert!(Layout::new(100, 1_000, false).is_err());
    }

    /// Else the contest of removals would measure a filter in RAM of half the slots.
    #[test]
    fn the_fourth_bit_leaves_the_slots_in_ram_as_many() {
        for (memory_mib, entries) in [(40, 200_000_000 / 9 * 10), (20, 24_000_000 / 9 * 10)] {
            let with = Layout::new(memory_mib << 20, entries, true).expect("it fits");
            let without = Layout::new(memory_mib << 20, entries, false).expect("it fits");
            assert_eq!(with.entry_bits(), without.entry_bits() + 1);
            assert_eq!(with.ram_quotient_bits, without.ram_quotient_bits);
        }
    }

    #[test]
    fn remainders_are_weighed() {
        let layout = Layout::new(1 << 20, 1_000, true).expect("it fits");
        let mut balance = 0;
        assert!(layout.weigh(&mut balance, 6, 4) && balance == 0);
        assert!(layout.weigh(&mut balance, 6, 6) && balance == 1);
        assert!(layout.weigh(&mut balance, 6, 7) && balance == 0);
        assert!(!layout.weigh(&mut balance, 6, 8) && balance == 0);
    }
}
