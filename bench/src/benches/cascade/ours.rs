//! Our filter in a store, driven by one thread or by several.

use super::filter::{Adder, Filter};
use super::{LEAST_MEMORY_BYTES, RATE, Shape};
use crate::Result;
use keyhash::KeyHash;
use overbank::Seed;
use overbank::filter::cascade::FilterOptions;
use overbank::store::{Store, StoreOptions};
use std::path::Path;
use std::time::{Duration, Instant};

/// The filter's name in its store.
const NAME: &str = "filter";

/// What the store's budget holds besides the filter.
const STORE_BYTES: usize = 1 << 20;

struct Ours {
    store: Store,
    filter: overbank::filter::cascade::Filter,
}

/// A new, empty filter of this shape in an empty folder, for so many threads that add.
pub(super) fn create(folder: &Path, shape: Shape, writers: usize) -> Result<Box<dyn Filter>> {
    let store = Store::create(folder, store_options(shape))?;
    let filter = store.filter(NAME, options(shape).writers(writers))?;
    Ok(Box::new(Ours { store, filter }))
}

/// The filter that was committed, to ask.
pub(super) fn open(folder: &Path, shape: Shape) -> Result<Box<dyn Filter>> {
    let store = Store::open_read_only(folder, store_options(shape))?;
    let filter = store.filter(NAME, options(shape))?;
    Ok(Box::new(Ours { store, filter }))
}

/// Opens the filter for writing, writes nothing, and waits until its background merges have changed nothing for as long as `at_rest`; how
/// long that took, with what it left.
pub(super) fn rest(folder: &Path, shape: Shape, at_rest: Duration) -> Result<String> {
    let begun = Instant::now();
    let store = Store::open(folder, store_options(shape))?;
    let filter = store.filter(NAME, options(shape))?;
    let mut last = filter.report();
    let (before, mut same_since) = (last.runs.len(), Instant::now());
    while same_since.elapsed() < at_rest {
        std::thread::sleep(at_rest / 20);
        let report = filter.report();
        if report.runs.len() != last.runs.len() || report.flash_bytes != last.flash_bytes {
            same_since = Instant::now();
        }
        last = report;
    }
    store.commit(b"")?;
    let lengths: Vec<u64> = last.runs.iter().map(|run| run.fingerprints).collect();
    let seconds = (begun.elapsed() - at_rest).as_secs_f64();
    Ok(format!("at rest after {seconds:.1} s: {before} runs became {}, {lengths:?} keys", last.runs.len()))
}

/// The rivals' share, but never less than a filter accepts: less has a smoke run alone.
fn memory_bytes(shape: Shape) -> usize {
    shape.memory_bytes.max(LEAST_MEMORY_BYTES)
}

fn store_options(shape: Shape) -> StoreOptions {
    StoreOptions::new().memory_bytes(memory_bytes(shape) + STORE_BYTES).seed(Seed(7))
}

fn options(shape: Shape) -> FilterOptions {
    FilterOptions::new().memory_bytes(memory_bytes(shape)).keys(shape.keys).false_positive_rate(RATE)
}

impl Filter for Ours {
    fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        Ok(self.filter.insert(hashes)?)
    }

    fn remove(&mut self, hashes: &[KeyHash]) -> Result<()> {
        Ok(self.filter.remove(hashes)?)
    }

    fn insert_if_absent(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        Ok(self.filter.insert_if_absent(hashes)?)
    }

    fn finish(&mut self) -> Result<()> {
        self.filter.settle()?;
        self.store.commit(b"")?;
        Ok(())
    }

    fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        Ok(self.filter.contains_many(hashes)?)
    }

    fn front_bits(&mut self) -> Option<f64> {
        let runs = self.filter.report().runs;
        let keys: u64 = runs.iter().map(|run| run.fingerprints).sum();
        let bits: f64 = runs.iter().map(|run| run.front_bits * run.fingerprints as f64).sum();
        Some(bits / keys.max(1) as f64)
    }

    fn bits_per_key(&mut self) -> Option<f64> {
        let report = self.filter.report();
        Some(8.0 * report.flash_bytes as f64 / report.fingerprints.max(1) as f64)
    }

    fn adders(&mut self, count: usize) -> Result<Vec<Adder<'_>>> {
        let filter = &self.filter;
        let adder = |_| -> Adder<'_> { Box::new(move |hashes| Ok(filter.insert(hashes)?)) };
        Ok((0..count).map(adder).collect())
    }
}
