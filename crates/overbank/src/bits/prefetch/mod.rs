//! Tells the cache which line will be read soon, so that many misses are under way at once.
//!
//! One file per instruction set, of the same shape: `prefetch`. The scalar twin does nothing, which is right too.

#[cfg(any(not(target_arch = "x86_64"), miri))]
mod scalar;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(any(not(target_arch = "x86_64"), miri))]
use scalar as isa;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as isa;

/// Asks for the cache line of `items[index]`; nothing happens where there is no such item.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], index: usize) {
    if let Some(item) = items.get(index) {
        isa::prefetch(item);
    }
}
