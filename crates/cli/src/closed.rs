//! Whether the command was started without a standard input (`<&-`) or output (`>&-`).
//!
//! The standard library opens `/dev/null` in the place of a closed stream before `main`: an answer would vanish there, or the input be
//! empty, and nothing would say so. So this looks before the standard library does.

use std::sync::atomic::{AtomicBool, Ordering};

static INPUT: AtomicBool = AtomicBool::new(false);
static OUTPUT: AtomicBool = AtomicBool::new(false);

/// Whether standard input was closed when the process began; not known but on Linux.
pub(crate) fn input_was() -> bool {
    INPUT.load(Ordering::Relaxed)
}

/// Whether standard output was closed when the process began; not known but on Linux.
pub(crate) fn output_was() -> bool {
    OUTPUT.load(Ordering::Relaxed)
}

/// The loader calls what stands in this section before it calls the standard library.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds addresses of functions without a result; the arguments that they are called with may be ignored.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    for (stream, was_closed) in [(libc::STDIN_FILENO, &INPUT), (libc::STDOUT_FILENO, &OUTPUT)] {
        // SAFETY: the call takes numbers and touches no memory of this process.
        let flags = unsafe { libc::fcntl(stream, libc::F_GETFD) };
        was_closed.store(flags == -1, Ordering::Relaxed);
    }
}
