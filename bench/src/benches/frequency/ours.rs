//! Our sketch in a store, driven by one thread or by several.

use super::stream::{Stream, check};
use super::{DEPTH, Shape, hasher};
use crate::{Clock, Result, digest_u64s};
use keyhash::KeyHash;
use overbank::Seed;
use overbank::frequency::{Frequency, FrequencyOptions};
use overbank::store::{Store, StoreOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sketch's name in its store.
const NAME: &str = "sketch";

/// Keys a call of `update`: 64 KiB of hashes stay in a first- or second-level cache.
const BATCH_KEYS: usize = 4096;

/// What the store's budget holds besides the sketch.
const STORE_BYTES: usize = 1 << 20;

/// A store with the sketch in it.
pub(super) struct Ours {
    store: Store,
    pub(super) sketch: Frequency,
}

impl Ours {
    /// A new, empty sketch of this shape in the empty folder `folder`, for so many threads that add.
    pub(super) fn create(folder: &Path, shape: Shape, writers: usize) -> Result<Self> {
        let buffer_bytes = shape.buffer_bytes();
        let store = Store::create(folder, store_options(buffer_bytes))?;
        let options = options(shape.sketch_bytes, shape.cell.bits());
        let options = options.memory_bytes(buffer_bytes).writers(writers).pending(shape.pending() * writers);
        let sketch = store.frequency(NAME, options)?;
        Ok(Self { store, sketch })
    }

    /// The sketch that was committed, to ask.
    pub(super) fn open(folder: &Path, shape: Shape) -> Result<Self> {
        let store = Store::open_read_only(folder, store_options(shape.buffer_bytes()))?;
        let sketch = store.frequency(NAME, FrequencyOptions::new())?;
        Ok(Self { store, sketch })
    }

    /// Everything into the pages, and durable.
    pub(super) fn finish(&self) -> Result<()> {
        self.sketch.apply()?;
        self.store.commit(b"")?;
        Ok(())
    }
}

fn store_options(buffer_bytes: usize) -> StoreOptions {
    StoreOptions::new().memory_bytes(buffer_bytes + STORE_BYTES).seed(Seed(7))
}

/// The options of a sketch in this many bytes of flash.
pub(super) fn options(sketch_bytes: u64, cell_bits: u32) -> FrequencyOptions {
    FrequencyOptions::new().bytes(sketch_bytes, DEPTH as u32).cell_bits(cell_bits)
}

/// One sample: inserts the stream from `writers` threads. The digest is that of the witnesses' estimates, which depend on
/// nothing but the multiset of keys.
pub(super) fn insert(clock: &mut Clock, ours: &Ours, stream: &Stream, writers: usize) -> Result<u64> {
    let next = AtomicU64::new(0);
    clock.time(|| {
        if writers == 1 {
            insert_chunks(stream, &next, &mut |batch| Ok(ours.sketch.update(batch, None)?))?;
        } else {
            insert_together(ours, stream, writers, &next)?;
        }
        ours.finish()
    })?;
    let (hashes, counts) = stream.witnesses(u64::MAX)?;
    let estimates = ours.sketch.estimate(&hashes)?;
    check("overbank", &estimates, &counts)?;
    Ok(digest_u64s(estimates))
}

/// Threads take the chunks from each other until none is left.
fn insert_together(ours: &Ours, stream: &Stream, writers: usize, next: &AtomicU64) -> Result<()> {
    let work = || insert_chunks(stream, next, &mut |batch| Ok(ours.sketch.update(batch, None)?));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a writer panicked")?)
    })
}

/// Makes the chunks that `next` gives out, hashes them, and calls `each` with one batch after the other.
pub(super) fn insert_chunks(
    stream: &Stream,
    next: &AtomicU64,
    each: &mut dyn FnMut(&[KeyHash]) -> Result<()>,
) -> Result<()> {
    let (mut keys, mut hashes, hasher) = (Vec::new(), Vec::new(), hasher());
    loop {
        let chunk = next.fetch_add(1, Ordering::Relaxed);
        if chunk >= stream.chunks() {
            return Ok(());
        }
        stream.fill(chunk, &mut keys)?;
        for batch in keys.chunks(BATCH_KEYS) {
            hashes.resize(batch.len(), KeyHash::default());
            hasher.hash_u64s(batch, &mut hashes);
            each(&hashes)?;
        }
    }
}
