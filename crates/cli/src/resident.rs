//! Resident memory, which is what the promise of `--memory` is about: no more of it than is in use.

#[cfg(target_os = "linux")]
use std::path::Path;

/// Blocks from this size on come from the kernel, and go back to it when they are freed. A number that is given, glibc does not
/// raise by itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: libc::c_int = 256 << 10;

/// Sets the system's allocator up. Called first, before there is a second thread.
///
/// glibc gives every thread an arena of its own, keeps what is freed there for that thread, and, once a large block was freed,
/// takes blocks up to that size from arenas instead of the kernel. A buffer that one thread makes and another frees then stays,
/// and the next thread's comes on top: `dedup -j 8 --memory 64MiB` held 112 MB after 10 M keys and 174 MB after 80 M, though
/// no more than 50 MB were ever in use.
///
/// Large buffers are made once and used again throughout, so one arena costs no time: threads rarely meet in it.
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

/// Lets go of the program's code that start-up used: it counts as this process's memory, and most of it is not needed again.
/// Called once a run is about to read its first rows; what they need comes back from the page cache, a fault for each 64 KiB.
///
/// The command line, the opening of stores and inputs and the like touch 5 MiB of code, of which the rows need 2.
pub(crate) fn let_start_up_go() {
    #[cfg(target_os = "linux")]
    for (start, bytes) in code() {
        // SAFETY: a private mapping of a file that nothing has written to is read from the file again when it is next touched.
        // A refusal leaves the pages where they are.
        let _ = unsafe { rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxDontNeed) };
    }
}

/// The mappings of the program's code, which are executable and never written, and their lengths.
#[cfg(target_os = "linux")]
fn code() -> Vec<(*mut std::ffi::c_void, usize)> {
    let (Ok(program), Ok(maps)) =
        (std::fs::read_link("/proc/self/exe"), std::fs::read_to_string("/proc/self/maps"))
    else {
        return Vec::new();
    };
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(" r-xp ")?;
        // What is left begins with the offset in the file, its device and its inode.
        let path = rest.split_ascii_whitespace().skip(3).collect::<Vec<_>>().join(" ");
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|place| usize::from_str_radix(place, 16).ok());
        (Path::new(&path) == program).then_some((start?, end?.checked_sub(start?)?))
    };
    maps.lines()
        .filter_map(mapping)
        .map(|(start, bytes)| (std::ptr::with_exposed_provenance_mut(start), bytes))
        .collect()
}
