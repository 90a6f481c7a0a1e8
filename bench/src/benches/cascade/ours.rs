//! Our filter in a store, driven by one thread or by several.

use super::filter::{Adder, Filter};
use super::{RATE, Shape};
use crate::Result;
use keyhash::KeyHash;
use overbank::Seed;
use overbank::filter::cascade::{CascadeFilter, CascadeOptions};
use overbank::store::{Store, StoreOptions};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether the contests have an engine of ours.
pub(super) const IS_HERE: bool = true;

/// The filter's name in its store.
const NAME: &str = "filter";

/// What the store's budget holds besides the filter.
const STORE_BYTES: usize = 1 << 20;

struct Ours {
    store: Store,
    filter: Arc<Mutex<CascadeFilter>>,
}

/// A new, empty filter of this shape in an empty folder, for so many threads that add.
pub(super) fn create(folder: &Path, shape: Shape, writers: usize) -> Result<Box<dyn Filter>> {
    let store = Store::create(folder, store_options(shape))?;
    let options = CascadeOptions {
        memory_bytes: shape.memory_bytes,
        keys: shape.keys,
        false_positive_rate: RATE,
        writers,
        ..CascadeOptions::default()
    };
    let filter = CascadeFilter::create(&store, NAME, options)?;
    Ok(Box::new(Ours { store, filter }))
}

/// The filter that was committed, to ask.
pub(super) fn open(folder: &Path, shape: Shape) -> Result<Box<dyn Filter>> {
    let store = Store::open_read_only(folder, store_options(shape))?;
    let filter = CascadeFilter::open(&store, NAME)?;
    Ok(Box::new(Ours { store, filter }))
}

fn store_options(shape: Shape) -> StoreOptions {
    StoreOptions::new().memory_bytes(shape.memory_bytes + STORE_BYTES).seed(Seed(7))
}

impl Ours {
    fn lock(&self) -> MutexGuard<'_, CascadeFilter> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filter for Ours {
    fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        Ok(self.lock().insert(hashes)?)
    }

    fn remove(&mut self, hashes: &[KeyHash]) -> Result<()> {
        Ok(self.lock().remove(hashes)?)
    }

    fn insert_if_absent(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        Ok(self.lock().insert_if_absent(hashes)?)
    }

    fn finish(&mut self) -> Result<()> {
        self.lock().settle()?;
        self.store.commit(b"")?;
        Ok(())
    }

    fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        Ok(self.lock().contains_many(hashes)?)
    }

    fn adders(&mut self, count: usize) -> Result<Vec<Adder<'_>>> {
        let mut filter = self.lock();
        let adder = |_| -> Result<Adder<'_>> {
            let mut writer = filter.writer()?;
            Ok(Box::new(move |hashes: &[KeyHash]| Ok(writer.insert(hashes)?)))
        };
        (0..count).map(adder).collect()
    }
}
