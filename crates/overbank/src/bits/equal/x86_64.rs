//! The comparison of SSE2, which every x86-64 has.

use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

#[inline(always)]
pub(super) fn equal(bytes: &[u8; 16], wanted: u8) -> u16 {
    // SAFETY: SSE2 belongs to the target, and the load reads these sixteen bytes, at any alignment.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted as i8))) as u16
    }
}
