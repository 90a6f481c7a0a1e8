//! The twin for any machine: a hint may be ignored.

#[inline(always)]
pub(super) fn prefetch<T>(_item: &T) {}
