//! How a store is created or opened.

use crate::device::FileOptions;
use crate::{HashKind, Seed};

/// Options of [`Store::create`](super::Store::create_on) and [`Store::open`](super::Store::open_on).
///
/// ```
/// use overbank::store::StoreOptions;
/// let options = StoreOptions::new().memory_bytes(64 << 20).threads(1);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub(super) memory_bytes: usize,
    pub(super) seed: Option<Seed>,
    pub(super) hash_kind: Option<HashKind>,
    pub(super) threads: usize,
    pub(super) manifest_bytes: u64,
    pub(super) reserve_bytes: u64,
    pub(super) file: FileOptions,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            memory_bytes: 256 << 20,
            seed: None,
            hash_kind: None,
            threads: 1,
            // A log of this size is read in one go at open; a snapshot of a thousand summaries is smaller.
            manifest_bytes: 1 << 20,
            // The longest position, mirrored, is 128 KiB; the rest holds the record around it and the first new files.
            reserve_bytes: 256 << 10,
            file: FileOptions::new(),
        }
    }
}

impl StoreOptions {
    /// The defaults: 256 MiB, a random seed, XXH3-128, one background thread.
    pub fn new() -> Self {
        Self::default()
    }

    /// The memory budget that everything opened from the store shares, in bytes.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// A fixed seed, so that summaries built apart merge. At open, the seed that the store must have.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How keys are hashed. At open, the kind that the store must have.
    pub fn hash_kind(mut self, kind: HashKind) -> Self {
        self.hash_kind = Some(kind);
        self
    }

    /// Background threads; 0 runs background jobs where they are spawned, which is deterministic. A read-only store has no jobs; there,
    /// a large batch of estimates reads ahead on a thread of its own unless this is 0.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The manifest log is replaced by a snapshot once it is longer than this, in bytes, and than four snapshots.
    pub fn manifest_bytes(mut self, bytes: u64) -> Self {
        self.manifest_bytes = bytes;
        self
    }

    /// Disk space kept back so that a commit which removes something works on a full disk, in bytes, rounded up to
    /// whole blocks.
    pub fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// How the store's directory does its I/O, where it is a path.
    pub fn file(mut self, file: FileOptions) -> Self {
        self.file = file;
        self
    }
}
