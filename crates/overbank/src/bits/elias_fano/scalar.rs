//! The twin for any machine.

use super::EliasFano;
use crate::bits::select::select_in_word;
use std::ops::Range;

#[inline]
pub(super) fn last_run(sequence: &EliasFano, value: u64) -> Range<usize> {
    sequence.last_run_with(value, select_in_word)
}
