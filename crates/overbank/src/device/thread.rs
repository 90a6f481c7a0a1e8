//! Threads, all of them: each may be refused, and then the work is done with fewer.
//!
//! A container's limit of processes, `RLIMIT_NPROC`, or address space may be at its end at any time. What the standard library
//! calls `spawn` panics then; here a refusal is a value. No thread of this library is needed for an answer: each use says what it
//! does with fewer, or with none.

use std::any::Any;
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread of this name, with a stack of `stack_bytes` or the usual one.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    stack_bytes: Option<usize>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    permitted()?;
    builder(name, stack_bytes).spawn(work)
}

/// As [`start`], in a scope.
pub(crate) fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    permitted()?;
    builder(name, None).spawn_scoped(scope, work)
}

/// What a thread that panicked said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

fn builder(name: &str, stack_bytes: Option<usize>) -> Builder {
    let builder = Builder::new().name(name.to_owned());
    match stack_bytes {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    }
}

#[cfg(not(test))]
fn permitted() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
fn permitted() -> io::Result<()> {
    refusal::permitted()
}

/// Lets the operating system seem to refuse threads.
#[cfg(test)]
pub(crate) mod refusal {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
        static REFUSED: Cell<usize> = const { Cell::new(0) };
    }

    /// Calls `work`; all but the first `granted` threads that this thread starts meanwhile are refused, which must happen.
    pub(crate) fn after<T>(granted: usize, work: impl FnOnce() -> T) -> T {
        LEFT.set(granted);
        REFUSED.set(0);
        let result = work();
        LEFT.set(usize::MAX);
        assert!(REFUSED.get() > 0, "nobody asked for more than {granted} threads");
        result
    }

    pub(super) fn permitted() -> io::Result<()> {
        let left = LEFT.get();
        if left == 0 {
            REFUSED.set(REFUSED.get() + 1);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        LEFT.set(left.saturating_sub(usize::from(left != usize::MAX)));
        Ok(())
    }
}
