//! Streaming stores of SSE2, which every x86-64 has.
//!
//! They are written as assembly: the intrinsics would read a record's padding as a value, which it is not,
//! and assembly moves bytes whatever they are.

use super::LINE_BYTES;
use std::arch::asm;

#[inline(always)]
pub(super) fn copy_lines<T: Copy, const N: usize>(place: &mut [T; N], line: &[T; N]) {
    let lines = size_of::<[T; N]>() / LINE_BYTES;
    assert!(
        size_of::<[T; N]>().is_multiple_of(LINE_BYTES) && place.as_ptr().addr().is_multiple_of(LINE_BYTES),
        "whole cache lines only"
    );
    let (to, from) = (place.as_mut_ptr().cast::<u8>(), line.as_ptr().cast::<u8>());
    for i in 0..lines {
        // SAFETY: both arrays are `lines` x 64 bytes long, so line `i` lies inside them; `to` is exclusively
        // borrowed and aligned to 64 bytes, as checked above, and `movups` wants no alignment of `from`. The
        // bytes written are those of valid values of `T`, which is `Copy`. SSE2 belongs to the target. The
        // stores become ordered at `fence`, which the writer's drop calls before another thread can be told
        // of them; this thread sees its own stores in order.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movntps [{to}], {a}",
                "movntps [{to} + 16], {b}",
                "movntps [{to} + 32], {c}",
                "movntps [{to} + 48], {d}",
                from = in(reg) from.add(i * LINE_BYTES),
                to = in(reg) to.add(i * LINE_BYTES),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[inline(always)]
pub(super) fn fence() {
    // SAFETY: `sfence` has no requirement, and SSE belongs to the target.
    unsafe { std::arch::x86_64::_mm_sfence() }
}
