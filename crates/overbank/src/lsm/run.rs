//! A run: sorted entries of one class, on flash in one file or several, or in RAM; and how old they are.

use super::Table;
use std::sync::Arc;

/// The first and last number of the memtables that entries came from: the age of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

/// What a run, or a part of it, holds and takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Size {
    pub(crate) entries: u64,
    /// How many of the entries only take away.
    pub(crate) tombstones: u64,
    /// How often the others were inserted.
    pub(crate) occurrences: u64,
    /// On flash.
    pub(crate) bytes: u64,
    /// In RAM.
    pub(crate) memory_bytes: usize,
}

/// A run on flash: one file, or several that follow each other in hash order. Where a merge has published a part of its result, its
/// inputs have their pieces from the border on, and the result those below it: see [`Merging`](super::version::Merging).
#[derive(Debug)]
pub(crate) struct Run<T: Table> {
    pub(crate) id: u64,
    pub(crate) class: T::Class,
    pub(crate) span: Span,
    pub(crate) level: i32,
    pub(crate) pieces: Vec<Arc<T::Segment>>,
    /// What pieces held that a merge under way has replaced.
    pub(crate) replaced: Size,
}

/// A run in RAM.
#[derive(Debug)]
pub(crate) struct FrozenRun<T: Table> {
    pub(crate) id: u64,
    pub(crate) class: T::Class,
    pub(crate) span: Span,
    pub(crate) entries: Arc<T::Frozen>,
}

impl Span {
    pub(crate) fn joined(spans: impl Iterator<Item = Span>) -> Option<Span> {
        spans.reduce(|a, b| Span { oldest: a.oldest.min(b.oldest), newest: a.newest.max(b.newest) })
    }

    /// Whether something of `other` came between the first and the last of this.
    pub(crate) fn overlaps(self, other: Span) -> bool {
        other.newest >= self.oldest && other.oldest <= self.newest
    }
}

impl std::ops::Add for Size {
    type Output = Size;

    fn add(self, other: Size) -> Size {
        Size {
            entries: self.entries + other.entries,
            tombstones: self.tombstones + other.tombstones,
            occurrences: self.occurrences.saturating_add(other.occurrences),
            bytes: self.bytes + other.bytes,
            memory_bytes: self.memory_bytes + other.memory_bytes,
        }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), |a, b| a + b)
    }
}

impl<T: Table> Run<T> {
    /// What it takes now. Entries are those of its whole files.
    pub(crate) fn size(&self) -> Size {
        self.pieces.iter().map(|piece| T::segment_size(piece)).sum()
    }

    /// Entries that it held before the merge that reads it began.
    pub(crate) fn entries(&self) -> u64 {
        self.size().entries + self.replaced.entries
    }
}

impl<T: Table> FrozenRun<T> {
    pub(crate) fn size(&self) -> Size {
        T::frozen_size(&self.entries)
    }
}

impl<T: Table> Clone for Run<T> {
    fn clone(&self) -> Self {
        Run { pieces: self.pieces.clone(), ..*self }
    }
}

impl<T: Table> Clone for FrozenRun<T> {
    fn clone(&self) -> Self {
        FrozenRun { entries: Arc::clone(&self.entries), ..*self }
    }
}
