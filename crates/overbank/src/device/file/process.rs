//! A mark of this process that a fork does not copy: a word in memory that the kernel wipes in the child.
//!
//! `getpid` tells as much, but is a system call each time, 50 ns and more where an insert of one key takes 150. The word is a
//! load. Where the kernel knows no such memory (before Linux 4.14), there is none, and the id is asked for.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mark of this process; `None` where there is no such memory.
pub(in crate::device) fn mark() -> Option<u64> {
    static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    let word = (*WORD.get_or_init(wiped_on_fork))?;
    match word.load(Ordering::Relaxed) {
        0 => {
            // Two processes of one family never draw the same: one of them began later.
            let since =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let fresh = (since.as_nanos() as u64) | 1;
            Some(
                word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|set| set, |_| fresh),
            )
        }
        mark => Some(mark),
    }
}

/// A word of a page that is all zeros in every child of a fork; never unmapped.
fn wiped_on_fork() -> Option<&'static AtomicU64> {
    let bytes = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses a place that nobody uses, and the mapping is private.
    let page =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page is the one above; the advice takes effect in children only.
    if unsafe { rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork) }.is_err() {
        return None;
    }
    // SAFETY: the page is aligned, zeroed, readable and writable for as long as the process lives, and only reached by this
    // reference. The kernel wipes it in a child before that runs.
    Some(unsafe { AtomicU64::from_ptr(page.cast()) })
}
