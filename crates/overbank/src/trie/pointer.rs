//! The code of a skip pointer: how far the left side's length is from the average, zigzag and Rice coded.
//!
//! ```text
//!   0 … 0 1  low bits      quotient zeros, a one, RICE_BITS of the number
//!   0 … 0    the number    QUOTIENT_MAX zeros: ESCAPED_BITS of the number, for a length far from the average
//! ```

use super::{unzigzag, zigzag};

/// Lengths of 60 to 130 keys vary by 10 bits or so.
pub(super) const RICE_BITS: u32 = 4;
pub(super) const QUOTIENT_MAX: u32 = 12;
pub(super) const ESCAPED_BITS: u32 = 33;

/// The bits of a pointer and their number, at most 45.
#[inline]
pub(super) fn encode(bits: u64, average_bits: i64) -> (u64, u32) {
    let number = zigzag(bits.cast_signed() - average_bits);
    let quotient = number >> RICE_BITS;
    if quotient < u64::from(QUOTIENT_MAX) {
        let low = number & ((1 << RICE_BITS) - 1);
        return ((low << 1 | 1) << quotient, quotient as u32 + 1 + RICE_BITS);
    }
    (number << QUOTIENT_MAX, QUOTIENT_MAX + ESCAPED_BITS)
}

/// The length that the pointer tells which `bits` begin with, and its own. The length is any where the bits are no pointer's.
#[inline(always)]
pub(super) fn decode(bits: u64, average_bits: i64) -> (u64, u32) {
    let quotient = bits.trailing_zeros();
    let (number, width) = if quotient < QUOTIENT_MAX {
        let low = bits >> (quotient + 1) & ((1 << RICE_BITS) - 1);
        (u64::from(quotient) << RICE_BITS | low, quotient + 1 + RICE_BITS)
    } else {
        (bits >> QUOTIENT_MAX & ((1 << ESCAPED_BITS) - 1), QUOTIENT_MAX + ESCAPED_BITS)
    };
    (unzigzag(number).wrapping_add(average_bits).cast_unsigned(), width)
}
