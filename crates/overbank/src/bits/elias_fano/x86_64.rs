//! With the instructions that count and deposit bits, where the processor has them: the whole search is compiled for them.

use super::{EliasFano, scalar};
use std::arch::is_x86_feature_detected as has;
use std::ops::Range;

#[inline]
pub(super) fn last_run(sequence: &EliasFano, value: u64) -> Range<usize> {
    if !(has!("bmi2") && has!("lzcnt") && has!("popcnt")) {
        return scalar::last_run(sequence, value);
    }
    // SAFETY: all three were just found.
    unsafe { last_run_with_deposits(sequence, value) }
}

#[target_feature(enable = "bmi2,lzcnt,popcnt")]
fn last_run_with_deposits(sequence: &EliasFano, value: u64) -> Range<usize> {
    sequence.last_run_with(value, |word, rank| std::arch::x86_64::_pdep_u64(1 << rank, word).trailing_zeros())
}
