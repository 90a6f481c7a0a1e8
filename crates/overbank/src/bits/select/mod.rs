//! Where the `rank`-th one of a 64-bit word stands.
//!
//! One file per instruction set, of the same shape: `select_in_word`, `select_as_many`, `pass_zeros`, `zero_from`. BMI2 deposits a single
//! bit at the place (one `pdep`, one count of trailing zeros); the scalar twin halves the word six times.

mod scalar;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(any(not(target_arch = "x86_64"), miri))]
use scalar as isa;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as isa;

/// The position of the one with `rank` ones below it; 64 where the word has no more than `rank` ones.
#[inline]
pub fn select_in_word(word: u64, rank: u32) -> u32 {
    isa::select_in_word(word, rank)
}

/// The position in `word` of the one that has as many ones below it, itself counted, as `counted` has: pairs the
/// last one of `counted` with its partner. 64 where `word` has fewer ones, or `counted` none.
#[inline(always)]
pub fn select_as_many(counted: u64, word: u64) -> u32 {
    isa::select_as_many(counted, word)
}

/// Passes over as many of `words`, little-endian, as have fewer than `zeros` zeros together; returns how many words these are, and how
/// many zeros.
#[inline]
pub fn pass_zeros(words: &[[u8; 8]], zeros: u64) -> (usize, u64) {
    isa::pass_zeros(words, zeros)
}

pub(crate) use scalar::zero_from_with;

/// How far behind bit `at` of `words` the zero with `rank` zeros from there on below it is, and the 64 bits below it, the nearest one the
/// most significant, those before `at` zero. Behind the last word there are zeros without end.
#[inline]
pub(crate) fn zero_from(words: &[u64], at: u64, rank: u64) -> (u64, u64) {
    isa::zero_from(words, at, rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_counting(word: u64, rank: u32) -> u32 {
        (0..64).filter(|i| word >> i & 1 == 1).nth(rank as usize).unwrap_or(64)
    }

    proptest! {
        #[test]
        fn every_twin_selects_as_counting_does(word: u64, mask: u64, rank in 0u32..70) {
            for word in [word, word & mask, word | mask, 0, u64::MAX, 1 << (rank % 64)] {
                prop_assert_eq!(scalar::select_in_word(word, rank), by_counting(word, rank));
                prop_assert_eq!(select_in_word(word, rank), by_counting(word, rank));
                let counted = mask >> (rank % 64);
                let partner = counted.count_ones().checked_sub(1).map_or(64, |rank| by_counting(word, rank));
                prop_assert_eq!(scalar::select_as_many(counted, word), partner);
                prop_assert_eq!(select_as_many(counted, word), partner);
            }
        }

        #[test]
        fn every_twin_finds_the_same_zero(
            words in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)], 0..8),
            at in 0u64..600, rank in 0u64..200,
        ) {
            let bit = |place: u64| words.get((place / 64) as usize).is_some_and(|word| word >> (place % 64) & 1 == 1);
            let place = (0..).filter(|&place| !bit(at + place)).nth(rank as usize).unwrap();
            let before = (0..64).filter(|&back| back < place && bit(at + place - 1 - back)).map(|back| 1 << (63 - back));
            let expected = (place, before.sum::<u64>());
            prop_assert_eq!(scalar::zero_from(&words, at, rank), expected);
            prop_assert_eq!(zero_from(&words, at, rank), expected);
        }

        #[test]
        fn every_twin_passes_as_many_zeros(words in prop::collection::vec(any::<u64>(), 0..20), zeros in 0u64..900) {
            let words: Vec<[u8; 8]> = words.iter().map(|word| word.to_le_bytes()).collect();
            let all: Vec<u64> = words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_zeros())).collect();
            let sums = (0..=words.len()).map(|n| (n, all[..n].iter().sum::<u64>()));
            let expected = sums.take_while(|&(n, sum)| n == 0 || sum < zeros).last().unwrap();
            prop_assert_eq!(scalar::pass_zeros(&words, zeros), expected);
            prop_assert_eq!(pass_zeros(&words, zeros), expected);
        }
    }
}
