//! What a sample is of, and what all that counts in its process have in common.

use super::workload::Workload;
use crate::{Metric, Result};
use std::path::PathBuf;

/// What counts keys. Threads insert at once.
pub(super) trait Counter: Sync {
    fn insert(&self, keys: &[&[u8]]) -> Result<()>;

    /// Takes in what waits.
    fn finalize(&self) -> Result<()> {
        Ok(())
    }

    /// What the parts of its work took, once all is done: each metric with nanoseconds of CPU time.
    fn breakdown(&self) -> Vec<(Metric, u64)> {
        Vec::new()
    }

    /// Shows every key with its count.
    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) -> Result<()>;
}

/// What a sample is of.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) workload: Workload,
    /// What was prepared of the workload.
    pub(super) folder: PathBuf,
    /// The memory of engines that are told one.
    pub(super) memory_bytes: usize,
    /// Records between two finalizations; 0: one at the end.
    pub(super) interval: u64,
    /// Where programs are that are not ours.
    pub(super) rivals: PathBuf,
}
