//! The error for bytes that no encoder of this room wrote.

use crate::Error;
use std::fmt::Display;
use std::path::PathBuf;

/// `at` counts bytes from the start of the encoded form; who read it from a file knows which.
#[cold]
pub(super) fn corrupt(at: usize, what: &'static str, expected: impl Display, found: impl Display) -> Error {
    Error::Corrupt {
        path: PathBuf::from("<bytes>"),
        at: at as u64,
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}
