//! Faults on demand: the operation at which the simulated device refuses, and how.

use crate::Error;
use std::io;
use std::path::PathBuf;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// The device reports an I/O error and changes nothing.
    Eio,
    /// The file system is full; only operations that need space fail.
    Enospc,
    /// A write stops half-way and reports it. Other operations fail as with [`FaultKind::Eio`].
    ShortWrite,
    /// The machine stops: this operation stays in flight, and every later one fails.
    Crash,
}

/// A fault at one operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// Index among the changing operations (create, write, set_len, sync, rename, remove, sync_directory), or among
    /// the reads where `on_reads`.
    pub operation: u64,
    /// Counts reads instead of changes.
    pub on_reads: bool,
    /// What goes wrong.
    pub kind: FaultKind,
    /// It stays so afterwards.
    pub sticky: bool,
}

impl Fault {
    pub(super) fn strikes(&self, index: u64, is_read: bool) -> bool {
        let sticky = self.sticky || self.kind == FaultKind::Crash;
        is_read == self.on_reads && (index == self.operation || sticky && index > self.operation)
    }
}

impl FaultKind {
    /// The error of a fault that strikes `op` on `name`.
    pub(super) fn error(self, op: &'static str, name: &str, needed_bytes: u64) -> Error {
        let path = PathBuf::from(name);
        let source = match self {
            FaultKind::Enospc => return Error::Full { path, needed_bytes },
            FaultKind::Eio => io::Error::other("simulated I/O error"),
            FaultKind::ShortWrite => io::Error::new(io::ErrorKind::WriteZero, "simulated short write"),
            FaultKind::Crash => io::Error::other("simulated power cut"),
        };
        Error::Io { op, path, source }
    }
}
