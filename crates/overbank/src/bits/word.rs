//! Bit fields in a slice of 64-bit words, least significant bit first; the ground of the packed structures.

/// A word with its lowest `width` bits set; `width` is 0 to 64.
#[inline(always)]
pub(crate) const fn low_mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// How many words hold `bits` bits.
#[inline]
pub(crate) const fn words_for(bits: u64) -> u64 {
    bits.div_ceil(64)
}

/// The `width` bits from bit `at`; words past the end read as zero.
#[inline(always)]
pub(crate) fn read_bits(words: &[u64], at: u64, width: u32) -> u64 {
    let (word, shift) = ((at / 64) as usize, (at % 64) as u32);
    let low = words.get(word).copied().unwrap_or(0) >> shift;
    // Always both words: whether a field straddles is hard to guess. Two shifts, for a shift by 64 is none.
    let high = words.get(word + 1).copied().unwrap_or(0) << 1 << (63 - shift);
    (low | high) & low_mask(width)
}

/// Puts the lowest `width` bits of `value` at bit `at`, which must lie inside `words`.
#[inline(always)]
pub(crate) fn write_bits(words: &mut [u64], at: u64, width: u32, value: u64) {
    if width == 0 {
        return;
    }
    let (word, shift) = ((at / 64) as usize, (at % 64) as u32);
    let (value, mask) = (value & low_mask(width), low_mask(width));
    words[word] = words[word] & !(mask << shift) | value << shift;
    if shift + width > 64 {
        let kept = 64 - shift;
        words[word + 1] = words[word + 1] & !(mask >> kept) | value >> kept;
    }
}

/// The words as little-endian bytes.
pub(crate) fn append_le_bytes(words: &[u64], into: &mut Vec<u8>) {
    into.reserve(words.len() * 8);
    words.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
}

/// The words in little-endian bytes; bytes past the last whole word are left out.
pub(crate) fn words_from_le_bytes(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
