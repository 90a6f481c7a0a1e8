//! What the tree did so far: the counters for a factor analysis.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`BufferTree`](super::BufferTree) did so far, and what it looks like now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct BufferTreeStats {
    /// Rows and states that were inserted.
    pub rows: u64,
    /// Objects that root buffers were sorted with.
    pub objects_sorted: u64,
    /// Objects that merges took in, of inner nodes and leaves.
    pub objects_merged: u64,
    /// Objects that sorts and merges made of those: the fewer, the more was aggregated on the way.
    pub objects_aggregated: u64,
    /// Fragments that were made.
    pub fragments_compressed: u64,
    /// What went into them, a hash and a size counting for 8 bytes.
    pub compressed_from_bytes: u64,
    /// What they were then.
    pub compressed_to_bytes: u64,
    /// Bytes of fragments that were decompressed.
    pub decompressed_from_bytes: u64,
    /// What they were before.
    pub decompressed_to_bytes: u64,
    /// Times that the root or an inner node was emptied into its children.
    pub spills: u64,
    /// Leaves that came of splits.
    pub leaf_splits: u64,
    /// Nodes above the leaves that came of splits.
    pub inner_splits: u64,
    /// Splits of roots: the trees' growth in height.
    pub root_splits: u64,
    /// Times that an insertion waited, because all buffers of a root were full.
    pub insertion_waits: u64,
    /// What sorting root buffers took by the clock of [`BufferTreeOptions::clock`](super::BufferTreeOptions::clock), aggregation
    /// included, of all threads together; this and the next four are 0 without a clock.
    pub sort_time: u64,
    /// What decompressing fragments took.
    pub decompress_time: u64,
    /// What merging took, aggregation included.
    pub merge_time: u64,
    /// What finding the children of objects took.
    pub divide_time: u64,
    /// What compressing fragments took.
    pub compress_time: u64,
    /// Nodes of all trees.
    pub nodes: u64,
    /// Levels of the highest tree; 1 where it is but a root.
    pub height: u64,
}

/// What threads count without a lock.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) rows: AtomicU64,
    pub(super) objects_sorted: AtomicU64,
    pub(super) objects_merged: AtomicU64,
    pub(super) objects_aggregated: AtomicU64,
    pub(super) fragments_compressed: AtomicU64,
    pub(super) compressed_from_bytes: AtomicU64,
    pub(super) compressed_to_bytes: AtomicU64,
    pub(super) decompressed_from_bytes: AtomicU64,
    pub(super) decompressed_to_bytes: AtomicU64,
    pub(super) insertion_waits: AtomicU64,
    pub(super) sort_time: AtomicU64,
    pub(super) decompress_time: AtomicU64,
    pub(super) merge_time: AtomicU64,
    pub(super) divide_time: AtomicU64,
    pub(super) compress_time: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self) -> BufferTreeStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BufferTreeStats {
            rows: read(&self.rows),
            objects_sorted: read(&self.objects_sorted),
            objects_merged: read(&self.objects_merged),
            objects_aggregated: read(&self.objects_aggregated),
            fragments_compressed: read(&self.fragments_compressed),
            compressed_from_bytes: read(&self.compressed_from_bytes),
            compressed_to_bytes: read(&self.compressed_to_bytes),
            decompressed_from_bytes: read(&self.decompressed_from_bytes),
            decompressed_to_bytes: read(&self.decompressed_to_bytes),
            insertion_waits: read(&self.insertion_waits),
            sort_time: read(&self.sort_time),
            decompress_time: read(&self.decompress_time),
            merge_time: read(&self.merge_time),
            divide_time: read(&self.divide_time),
            compress_time: read(&self.compress_time),
            ..BufferTreeStats::default()
        }
    }
}
