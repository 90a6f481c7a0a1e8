//! What the program's allocator holds and nobody uses.

/// Gives memory that was freed back to the system, where the allocator is glibc's; others have other habits.
///
/// Called between two phases of which the second has the memory of the first: glibc keeps what was freed where it was made, and what the
/// second phase takes elsewhere would come on top.
pub(crate) fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
