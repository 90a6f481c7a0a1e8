//! Slots of one width in bytes, back to back, least significant bit first; eight bytes at once hold any of them.
//!
//! 1. A slot has at most 57 bits, so that it lies in the eight bytes from its first.
//! 2. Behind the last slot are eight bytes more, so that those eight bytes are always there.

/// Bytes of `slots` slots, with those behind the last.
pub(super) const fn bytes_for(width: u32, slots: u64) -> usize {
    (slots * width as u64).div_ceil(8) as usize + 8
}

/// Slot `at` in bytes whose first is byte `first_byte` of the slots.
#[inline(always)]
pub fn get_slot(bytes: &[u8], first_byte: u64, width: u32, at: u64) -> u64 {
    let (byte, shift) = place(first_byte, width, at);
    word_at(bytes, byte) >> shift & mask(width)
}

/// Sets bits of slot `at` in bytes whose first is byte `first_byte` of the slots.
#[inline(always)]
pub fn or_slot(bytes: &mut [u8], first_byte: u64, width: u32, at: u64, slot: u64) {
    let (byte, shift) = place(first_byte, width, at);
    let word = word_at(bytes, byte) | slot << shift;
    bytes[byte..byte + 8].copy_from_slice(&word.to_le_bytes());
}

/// Replaces slot `at`.
#[inline(always)]
pub(super) fn set_slot(bytes: &mut [u8], width: u32, at: u64, slot: u64) {
    let (byte, shift) = place(0, width, at);
    let word = word_at(bytes, byte) & !(mask(width) << shift) | slot << shift;
    bytes[byte..byte + 8].copy_from_slice(&word.to_le_bytes());
}

#[inline(always)]
fn place(first_byte: u64, width: u32, at: u64) -> (usize, u32) {
    let bit = at * u64::from(width);
    ((bit / 8 - first_byte) as usize, (bit % 8) as u32)
}

#[inline(always)]
fn word_at(bytes: &[u8], byte: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[byte..byte + 8]);
    u64::from_le_bytes(word)
}

#[inline(always)]
const fn mask(width: u32) -> u64 {
    (1 << width) - 1
}
