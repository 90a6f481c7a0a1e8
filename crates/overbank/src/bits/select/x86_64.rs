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

#[target_feature(enable = "bmi2")]
fn deposit(word: u64, rank: u32) -> u32 {
    std::arch::x86_64::_pdep_u64(1 << rank, word).trailing_zeros()
}
