//! Everything structures derive from a hash, once: range reduction, quotient and remainder, row indices.

/// Reduces a uniform 64-bit value to `0..range` by multiply-shift, keeping order:
/// `a <= b` implies `range_of(a, n) <= range_of(b, n)`.
#[inline]
pub const fn range_of(value: u64, range: u64) -> u64 {
    ((value as u128 * range as u128) >> 64) as u64
}

/// Splits the top `quotient_bits + remainder_bits` bits of `high` into (quotient, remainder).
#[inline]
pub const fn split_quotient(high: u64, quotient_bits: u32, remainder_bits: u32) -> (u64, u64) {
    let fingerprint = high >> (64 - quotient_bits - remainder_bits);
    (fingerprint >> remainder_bits, fingerprint & ((1 << remainder_bits) - 1))
}

/// The column of each of `D` rows, in `0..width`, from one 64-bit fold.
#[inline]
pub fn columns<const D: usize>(fold: u64, width: u64) -> [u64; D] {
    let mut row = 0u64;
    [(); D].map(|()| {
        let multiplier = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        row += 1;
        range_of(fold.wrapping_mul(multiplier), width)
    })
}
