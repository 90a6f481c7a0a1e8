//! Bits of codes one behind the other: written from the front, and read at any place.
//!
//! The first bit is the least significant of the first byte.

/// Bits that are gathered, at most as many as a page has: it keeps its memory.
#[derive(Debug, Default)]
pub(super) struct CodeBits {
    words: Vec<u64>,
    /// The bits that fill no word yet, fewer than 64; zeros above them.
    last: u64,
    last_bits: u32,
}

impl CodeBits {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        (self.last, self.last_bits) = (0, 0);
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.words.len() * 64 + self.last_bits as usize
    }

    /// Bytes that it keeps.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Appends the lowest `bits` bits of `word`, 1 to 64; those above them are zeros.
    #[inline(always)]
    pub(super) fn push(&mut self, word: u64, bits: u32) {
        let whole = self.last | word << self.last_bits;
        let filled = self.last_bits.wrapping_add(bits);
        if filled < 64 {
            (self.last, self.last_bits) = (whole, filled);
            return;
        }
        self.words.push(whole);
        // Two shifts, for a shift by 64 is none.
        self.last = word >> 1 >> (63 - self.last_bits);
        self.last_bits = filled.wrapping_sub(64);
    }

    /// Appends the `bits` bits of `bytes` from bit `at` on.
    #[inline]
    pub(super) fn push_from(&mut self, bytes: &[u8], at: usize, bits: usize) {
        let mut from = at;
        let last = at.wrapping_add(bits & !63);
        while from != last {
            self.push(word_at(bytes, from), 64);
            from = from.wrapping_add(64);
        }
        if !bits.is_multiple_of(64) {
            let rest = (bits % 64) as u32;
            self.push(word_at(bytes, from) & u64::MAX >> (64 - rest), rest);
        }
    }

    /// Writes them to the front of `into`, which has room for them; the rest of the last byte is zeros.
    pub(super) fn write(&self, into: &mut [u8]) {
        let (whole, rest) = into.split_at_mut(self.words.len() * 8);
        for (bytes, word) in whole.chunks_exact_mut(8).zip(&self.words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let last_bytes = self.last_bits.div_ceil(8) as usize;
        rest[..last_bytes].copy_from_slice(&self.last.to_le_bytes()[..last_bytes]);
    }
}

/// The 64 bits of `bytes` from bit `at` on; those past the end are zeros.
#[inline(always)]
pub(super) fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at / 8..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(chunk) => (u128::from_le_bytes(*chunk) >> (at % 8)) as u64,
        None => last_word_at(bytes, at),
    }
}

#[cold]
fn last_word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at / 8..).unwrap_or_default();
    let bits = rest.iter().take(9).rev().fold(0u128, |word, &byte| word << 8 | u128::from(byte));
    (bits >> (at % 8)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits_of(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect()
    }

    proptest! {
        #[test]
        fn words_are_the_bits_there(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0usize..400) {
            let bits = bits_of(&bytes);
            let expected = (0..64).fold(0, |word, i| word | u64::from(bits.get(at + i) == Some(&true)) << i);
            prop_assert_eq!(word_at(&bytes, at), expected);
        }

        /// Pieces of some bytes, and words between them.
        #[test]
        fn bits_come_back(
            bytes in prop::collection::vec(any::<u8>(), 40..60),
            pieces in prop::collection::vec((0usize..100, 0usize..200, any::<u64>(), 1u32..=64), 0..12),
        ) {
            let (all, mut gathered, mut expected) = (bits_of(&bytes), CodeBits::default(), Vec::new());
            for (at, bits, word, word_bits) in pieces {
                gathered.push_from(&bytes, at, bits);
                expected.extend_from_slice(&all[at..at + bits]);
                let word = word & u64::MAX >> (64 - word_bits);
                gathered.push(word, word_bits);
                expected.extend((0..word_bits).map(|bit| word >> bit & 1 == 1));
            }
            prop_assert_eq!(gathered.len(), expected.len());
            let mut written = vec![0xee; expected.len().div_ceil(8)];
            gathered.write(&mut written);
            expected.resize(written.len() * 8, false);
            prop_assert_eq!(bits_of(&written), expected);
            gathered.clear();
            prop_assert_eq!(gathered.len(), 0);
        }
    }
}
