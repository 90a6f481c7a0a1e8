//! The prefetch of SSE, which every x86-64 has.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

#[inline(always)]
pub(super) fn prefetch<T>(item: &T) {
    // SAFETY: SSE belongs to the target, and a prefetch reads nothing: any address is allowed, this one is even valid.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) }
}
