//! The plain twin.

#[inline(always)]
pub(super) fn copy_lines<T: Copy, const N: usize>(place: &mut [T; N], line: &[T; N]) {
    *place = *line;
}

#[inline(always)]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(dead_code, reason = "the tests compare copies only")
)]
pub(super) fn fence() {}
