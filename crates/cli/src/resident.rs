//! Resident memory, which is what the promise of `--memory` is about: no more of it than is in use.

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

/// Lets go of the code and constants, the program's and its libraries', that start-up used: they count as this process's memory,
/// and most of them are not needed again. Called once a run is about to read its first rows; what they need comes back from the
/// page cache, a fault for each 64 KiB.
///
/// The command line, the opening of stores and inputs and the like touch 8 MiB of them, of which the rows need 4.
pub(crate) fn let_start_up_go() {
    #[cfg(target_os = "linux")]
    for (start, bytes) in unchanged() {
        // SAFETY: a private mapping of a file that nothing has written to is read from the file again when it is next touched.
        // A refusal leaves the pages where they are.
        let _ = unsafe { rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxDontNeed) };
    }
}

/// The private mappings of files that may not be written and of which no page was (the linker writes some before it protects
/// them), and their lengths.
#[cfg(target_os = "linux")]
fn unchanged() -> Vec<(*mut std::ffi::c_void, usize)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut found = Vec::new();
    let mut mapping = None;
    for line in maps.lines() {
        if let Some(range) = protected_file(line) {
            mapping = range;
        } else if line.strip_prefix("Anonymous:").is_some_and(|amount| amount.trim() == "0 kB") {
            found.extend(mapping.take());
        }
    }
    found.into_iter().map(|(start, bytes)| (std::ptr::with_exposed_provenance_mut(start), bytes)).collect()
}

/// The range of the mapping whose first line this is, `Some(None)` if it can be written, is shared or is of no file; `None` for a
/// line of another kind.
#[cfg(target_os = "linux")]
fn protected_file(line: &str) -> Option<Option<(usize, usize)>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let [start, end] = [start, end].map(|place| usize::from_str_radix(place, 16).ok());
    let (start, end) = (start?, end?);
    let may = words.next()?;
    // Then come the offset in the file, its device and its inode.
    let of_file = words.nth(2).is_some_and(|inode| inode != "0");
    Some((of_file && matches!(may, "r--p" | "r-xp")).then(|| (start, end.saturating_sub(start))))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_file_has_word_for_word_is_let_go() {
        let range = Some((0x1000, 0x2000));
        for (line, meant) in [
            ("1000-3000 r-xp 00001000 fe:00 17 /usr/bin/a name with spaces", Some(range)),
            ("1000-3000 r--p 00000000 fe:00 17 /usr/bin/a", Some(range)),
            ("1000-3000 rw-p 00001000 fe:00 17 /usr/bin/a", Some(None)),
            ("1000-3000 r--s 00001000 fe:00 17 /usr/bin/a", Some(None)),
            ("1000-3000 r-xp 00000000 00:00 0 [vdso]", Some(None)),
            ("1000-3000 r--p 00000000 00:00 0", Some(None)),
            ("Anonymous:             0 kB", None),
            ("VmFlags: rd mr mw me", None),
        ] {
            assert_eq!(protected_file(line), meant, "{line}");
        }
    }

    #[test]
    fn what_was_let_go_is_there_when_it_is_needed() {
        let ranges = unchanged();
        let here = protected_file as *const () as usize;
        assert!(ranges.iter().any(|&(start, bytes)| (start.addr()..start.addr() + bytes).contains(&here)));
        let_start_up_go();
        assert_eq!(unchanged(), ranges);
    }
}
