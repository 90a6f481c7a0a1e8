//! The twin for any machine: is the one sought in the lower half? If not, skip that half's ones.

use crate::bits::word::read_bits;

#[inline]
pub(super) fn select_in_word(word: u64, rank: u32) -> u32 {
    if rank >= word.count_ones() {
        return 64;
    }
    let (mut word, mut rank, mut place) = (word, rank, 0);
    for half in [32, 16, 8, 4, 2, 1] {
        let below = (word & ((1 << half) - 1)).count_ones();
        if rank >= below {
            rank -= below;
            place += half;
            word >>= half;
        }
    }
    place
}

#[inline(always)]
pub(super) fn select_as_many(counted: u64, word: u64) -> u32 {
    select_in_word(word, counted.count_ones().wrapping_sub(1))
}

#[inline(always)]
pub(super) fn zero_from(words: &[u64], at: u64, rank: u64) -> (u64, u64) {
    zero_from_with(words, at, rank, select_in_word)
}

/// [`zero_from`] with any select in a word, for a caller that is compiled for an instruction set.
#[inline(always)]
pub(crate) fn zero_from_with(
    words: &[u64],
    at: u64,
    rank: u64,
    select: impl Fn(u64, u32) -> u32,
) -> (u64, u64) {
    let (mut before, mut place, mut left) = (0, 0, rank);
    loop {
        let word = read_bits(words, at.wrapping_add(place), 64);
        let zeros = u64::from(word.count_zeros());
        if left < zeros {
            let bit = select(!word, left as u32);
            // What is below the bit, and below that what the word before ends with. Two shifts, for one by 64 is none.
            let below = word << 1 << (63 - bit) | before >> bit;
            return (place | u64::from(bit), below);
        }
        left -= zeros;
        place = place.wrapping_add(64);
        before = word;
    }
}

#[inline(always)]
pub(super) fn pass_zeros(words: &[[u8; 8]], zeros: u64) -> (usize, u64) {
    let zeros_of = |word: &[u8; 8]| u64::from(u64::from_le_bytes(*word).count_zeros());
    let (mut at, mut passed) = (0, 0);
    // By fours as long as that goes, for one branch in four.
    let (fours, _) = words.as_chunks::<4>();
    for four in fours {
        let next = passed + four.iter().map(zeros_of).sum::<u64>();
        if next >= zeros {
            break;
        }
        (at, passed) = (at + 4, next);
    }
    for word in &words[at..] {
        let next = passed + zeros_of(word);
        if next >= zeros {
            break;
        }
        (at, passed) = (at + 1, next);
    }
    (at, passed)
}
