//! The system's allocator, told to hold no more than is in use: the promise of `--memory` is about resident memory.
//!
//! glibc gives every thread an arena of its own, keeps what is freed there for that thread, and, once a large block was freed,
//! takes blocks up to that size from arenas instead of the kernel. A buffer that one thread makes and another frees then stays,
//! and the next thread's comes on top: `dedup -j 8 --memory 64MiB` held 112 MB after 10 M keys and 174 MB after 80 M, though
//! no more than 50 MB were ever in use.
//!
//! Large buffers are made once and used again throughout, so one arena costs no time: threads rarely meet in it.

/// Blocks from this size on come from the kernel, and go back to it when they are freed. A number that is given, glibc does not
/// raise by itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: libc::c_int = 256 << 10;

/// Sets the allocator up. Called first, before there is a second thread.
pub(crate) fn hold_what_is_used() {
    // Other allocators have other habits, and the promise was measured with this one.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, MAPPED_BYTES),
        (libc::M_TRIM_THRESHOLD, MAPPED_BYTES),
    ] {
        // SAFETY: the numbers are one of the allocator's parameters and a value in its range; there is no other thread yet.
        // A refusal leaves the allocator as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}
