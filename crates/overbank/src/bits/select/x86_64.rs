//! BMI2, where the processor has it; the scalar twin where it has not.

use super::scalar;

#[inline]
pub(super) fn select_in_word(word: u64, rank: u32) -> u32 {
    if !std::arch::is_x86_feature_detected!("bmi2") {
        return scalar::select_in_word(word, rank);
    }
    if rank >= 64 {
        return 64;
    }
    // SAFETY: BMI2 was just found.
    unsafe { deposit(word, rank) }
}

#[inline(always)]
pub(super) fn select_as_many(counted: u64, word: u64) -> u32 {
    if !(std::arch::is_x86_feature_detected!("bmi2") && std::arch::is_x86_feature_detected!("popcnt")) {
        return scalar::select_as_many(counted, word);
    }
    // SAFETY: BMI2 and POPCNT were just found.
    unsafe { count_and_deposit(counted, word) }
}

#[inline]
pub(super) fn pass_zeros(words: &[[u8; 8]], zeros: u64) -> (usize, u64) {
    if !std::arch::is_x86_feature_detected!("popcnt") {
        return scalar::pass_zeros(words, zeros);
    }
    // SAFETY: POPCNT was just found.
    unsafe { count_zeros(words, zeros) }
}

#[inline]
pub(super) fn zero_from(words: &[u64], at: u64, rank: u64) -> (u64, u64) {
    if !(std::arch::is_x86_feature_detected!("bmi2") && std::arch::is_x86_feature_detected!("popcnt")) {
        return scalar::zero_from(words, at, rank);
    }
    // SAFETY: BMI2 and POPCNT were just found.
    unsafe { count_zeros_and_deposit(words, at, rank) }
}

/// The scalar twin's loop, with one instruction for each count and the deposit.
#[target_feature(enable = "bmi2,popcnt")]
fn count_zeros_and_deposit(words: &[u64], at: u64, rank: u64) -> (u64, u64) {
    scalar::zero_from_with(words, at, rank, |word, rank| {
        std::arch::x86_64::_pdep_u64(1 << rank, word).trailing_zeros()
    })
}

/// The scalar twin's loop, whose count is one instruction here.
#[target_feature(enable = "popcnt")]
fn count_zeros(words: &[[u8; 8]], zeros: u64) -> (usize, u64) {
    scalar::pass_zeros(words, zeros)
}

#[target_feature(enable = "bmi2,popcnt")]
fn count_and_deposit(counted: u64, word: u64) -> u32 {
    let Some(rank) = counted.count_ones().checked_sub(1) else { return 64 };
    std::arch::x86_64::_pdep_u64(1 << rank, word).trailing_zeros()
}

#[target_feature(enable = "bmi2")]
fn deposit(word: u64, rank: u32) -> u32 {
    std::arch::x86_64::_pdep_u64(1 << rank, word).trailing_zeros()
}
