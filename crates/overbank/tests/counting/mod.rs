//! The system's allocator, with a count of what lives and of the most that ever lived.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Begins a new peak; returns the bytes that live.
pub(crate) fn restart() -> usize {
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    live
}

/// The most bytes that lived since.
pub(crate) fn peak_bytes() -> usize {
    PEAK.load(Ordering::Relaxed)
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator as it came; the counters own no memory.
unsafe impl GlobalAlloc for Counting {
    /// Counts, and allocates.
    ///
    /// # Safety
    /// The caller's duties are those of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's duties are passed on.
        unsafe { System.alloc(layout) }
    }

    /// Counts, and frees.
    ///
    /// # Safety
    /// The caller's duties are those of the system's allocator.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's duties are passed on; `alloc` above had the pointer from that allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    /// Counts what it grows by, and lets the system move it: of long pieces only the map of pages.
    ///
    /// # Safety
    /// The caller's duties are those of the system's allocator.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(live - layout.size(), Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's duties are passed on; `alloc` above had the pointer from that allocator, with this layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
