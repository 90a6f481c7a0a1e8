//! Which process opened something.
//!
//! A fork copies handles, but not the threads that serve them, nor the locks that those threads held, and it shares the
//! directory's lock and the kernel's rings. Two processes that write as one would lose each other's commits. So what is opened
//! remembers its process, and refuses every other.

use crate::{Error, Result};
use std::path::Path;

/// A process, told from all that were forked from it and all that it was forked from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    id: u32,
    mark: u64,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> Self {
        Process { id: std::process::id(), mark: mark() }
    }

    /// Whether it is this one: a load where the kernel helps, else a system call.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.mark == mark()
    }

    /// `Forked` unless it is this one; `path` is what it has opened.
    pub(crate) fn require_current(self, path: &Path) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::Forked { path: path.into(), opened_by: self.id, pid: std::process::id() })
    }
}

fn mark() -> u64 {
    #[cfg(target_os = "linux")]
    if let Some(mark) = super::file::process::mark() {
        return mark;
    }
    std::process::id().into()
}
