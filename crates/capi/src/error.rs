//! What a call answers: a code, and a sentence that its thread keeps.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a function answers.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum overbank_status {
    /// It was done.
    OVERBANK_OK = 0,
    /// A pointer is NULL where something is needed.
    OVERBANK_NULL_POINTER = 1,
    /// An argument is out of its range.
    OVERBANK_INVALID = 2,
    /// A handle, or what a store or bytes hold, is of another kind.
    OVERBANK_WRONG_KIND = 3,
    /// Another thread uses the handle, which takes one at a time.
    OVERBANK_BUSY = 4,
    /// The handle was freed, or the structure closed.
    OVERBANK_CLOSED = 5,
    /// An earlier call panicked in this handle, or a write of the store failed: free it.
    OVERBANK_POISONED = 6,
    /// A defect of the library was met in this call; the handle is poisoned.
    OVERBANK_PANICKED = 7,
    /// Bytes or files are damaged, or of another version.
    OVERBANK_CORRUPT = 8,
    /// Two things differ in hash, seed or shape.
    OVERBANK_INCOMPATIBLE = 9,
    /// There is no such thing; or there is no more.
    OVERBANK_NOT_FOUND = 10,
    /// The device is full.
    OVERBANK_NO_SPACE = 11,
    /// The memory, a budget or a capacity does not hold it.
    OVERBANK_NO_MEMORY = 12,
    /// The system refused an operation on a file.
    OVERBANK_IO = 13,
    /// The store is open for writing elsewhere.
    OVERBANK_LOCKED = 14,
    /// The store is open read-only.
    OVERBANK_READ_ONLY = 15,
    /// The handle was opened by another process, of which this is a fork.
    OVERBANK_FORKED = 16,
    /// Another error of the library.
    OVERBANK_OTHER = 17,
}

use overbank_status::*;

/// A code and its sentence.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: overbank_status,
    pub(crate) why: String,
}

pub(crate) type Answer<T> = Result<T, Failure>;

/// Refuses.
#[cold]
pub(crate) fn fail<T>(status: overbank_status, why: impl Into<String>) -> Answer<T> {
    Err(Failure { status, why: why.into() })
}

impl From<overbank::Error> for Failure {
    fn from(error: overbank::Error) -> Self {
        use overbank::Error;
        let status = match &error {
            Error::Io { .. } | Error::TooManyFiles { .. } => OVERBANK_IO,
            Error::Full { .. } => OVERBANK_NO_SPACE,
            Error::Corrupt { .. } | Error::UnsupportedVersion { .. } | Error::NotAStore { .. } => {
                OVERBANK_CORRUPT
            }
            Error::Locked { .. } => OVERBANK_LOCKED,
            Error::NotFound { .. } => OVERBANK_NOT_FOUND,
            Error::AlreadyExists { .. } | Error::InvalidOption { .. } => OVERBANK_INVALID,
            Error::Incompatible { .. } => OVERBANK_INCOMPATIBLE,
            Error::WrongKind { .. } => OVERBANK_WRONG_KIND,
            Error::Closed { .. } => OVERBANK_CLOSED,
            Error::CapacityExceeded { .. } | Error::BudgetExceeded { .. } | Error::OutOfMemory { .. } => {
                OVERBANK_NO_MEMORY
            }
            Error::Poisoned { .. } | Error::WorkerFailed { .. } => OVERBANK_POISONED,
            Error::Forked { .. } => OVERBANK_FORKED,
            Error::ReadOnly { .. } => OVERBANK_READ_ONLY,
            _ => OVERBANK_OTHER,
        };
        Self { status, why: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why the last call of this thread that failed did so: a sentence with the numbers and the remedy, in UTF-8; empty if none did. It stays
/// until the thread's next call that fails, or its end. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn overbank_last_error() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.as_ptr())).unwrap_or(c"".as_ptr())
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn overbank_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

fn keep(why: String) {
    // A name of the caller's may have a zero in it.
    let why = CString::new(why.replace('\0', "\u{fffd}")).unwrap_or_default();
    // A thread that is ending keeps nothing.
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = why));
}

/// Runs one call from C: its code, and its sentence kept. Nothing unwinds out of it.
pub(crate) fn call(work: impl FnOnce() -> Answer<()>) -> i32 {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return OVERBANK_OK as i32,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = payload
                .downcast_ref::<&str>()
                .copied()
                .or(payload.downcast_ref::<String>().map(String::as_str));
            let why = format!(
                "a defect of overbank was met: {}; free the handle and report it",
                said.unwrap_or("it has no words")
            );
            // What was thrown may panic when it is dropped.
            std::mem::forget(payload);
            Failure { status: OVERBANK_PANICKED, why }
        }
    };
    let status = failure.status;
    keep(failure.why);
    status as i32
}
