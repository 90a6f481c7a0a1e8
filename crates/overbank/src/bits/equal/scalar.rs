//! The twin for any machine.

const LOWEST_BITS: u64 = u64::MAX / 255;
const SEVEN_BITS: u64 = 0x7f * LOWEST_BITS;
/// Times a word of which each byte is 0 or 1: bit `i` of the highest byte is byte `i`.
const GATHER: u64 = 0x0102_0408_1020_4080;

#[inline(always)]
pub(super) fn equal(bytes: &[u8; 16], wanted: u8) -> u16 {
    let wanted = u64::from(wanted).wrapping_mul(LOWEST_BITS);
    let of_half = |word: u64| {
        let other = word ^ wanted;
        // The highest bit of a byte that is not zero; nothing is carried from one to the next.
        let differs = (other & SEVEN_BITS).wrapping_add(SEVEN_BITS) | other;
        let is_equal = (!differs >> 7) & LOWEST_BITS;
        (is_equal.wrapping_mul(GATHER) >> 56) as u16
    };
    let both = u128::from_le_bytes(*bytes);
    of_half(both as u64) | of_half((both >> 64) as u64) << 8
}
