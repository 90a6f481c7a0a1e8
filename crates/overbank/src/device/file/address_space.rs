//! Whether the system would still give this process so much memory.

use rustix::mm::{MapFlags, ProtFlags};

/// Maps `bytes` and gives them back untouched: a limit of the address space (`ulimit -v`, `RLIMIT_DATA`) says no here, where
/// it can be told, instead of in an allocation, which would end the process.
///
/// Not by an allocation that is given back: the allocator would learn from it to keep blocks of that size.
pub(in crate::device) fn has(bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses a place that nobody uses, and the mapping is private.
    let place = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    // SAFETY: the mapping is the one above, and nothing refers to it.
    place.is_ok_and(|place| unsafe { rustix::mm::munmap(place, bytes) }.is_ok())
}
