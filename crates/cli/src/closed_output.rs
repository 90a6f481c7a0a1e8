//! Whether the command was started without a standard output (`>&-`).
//!
//! The standard library opens `/dev/null` in the place of a closed stream before `main`: an answer would vanish there, and nothing
//! would say so. So this looks before the standard library does.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the process began; not known but on Linux.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// The loader calls what stands in this section before it calls the standard library.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds addresses of functions without a result; the arguments that they are called with may be ignored.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    // SAFETY: the call takes a number and touches no memory of this process.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}
