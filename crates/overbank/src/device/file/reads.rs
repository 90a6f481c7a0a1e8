//! What a batch reads: places of one file, or of several.

use super::opened::Opened;
use crate::device::ReadRequest;
use std::sync::Arc;

/// A batch of reads.
pub(super) enum Reads<'a> {
    /// Of one file.
    One(&'a Arc<Opened>, &'a [ReadRequest]),
    /// Each of its own.
    Many(&'a [(&'a Arc<Opened>, ReadRequest)]),
}

impl<'a> Reads<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Reads::One(_, requests) => requests.len(),
            Reads::Many(reads) => reads.len(),
        }
    }

    pub(super) fn file(&self, i: usize) -> &'a Arc<Opened> {
        match self {
            Reads::One(file, _) => file,
            Reads::Many(reads) => reads[i].0,
        }
    }

    pub(super) fn request(&self, i: usize) -> ReadRequest {
        match self {
            Reads::One(_, requests) => requests[i],
            Reads::Many(reads) => reads[i].1,
        }
    }

    /// Bytes of the longest.
    pub(super) fn longest(&self) -> usize {
        (0..self.len()).map(|i| self.request(i).bytes as usize).max().unwrap_or(0)
    }
}

/// Whether an engine took a batch. One that has neither a ring nor a thread leaves it to the caller, who reads place by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begun {
    Yes,
    No,
}
