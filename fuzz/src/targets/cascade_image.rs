//! A cascade filter's files with bytes changed: it answers as it did, or with an error; with seals mended it may answer anything, but
//! nothing panics and nothing is asked of memory that the file does not back.

use crate::image::{Image, judge, options, seeds};
use crate::{Target, Verdict};
use overbank::device::memory::MemoryDevice;
use overbank::filter::cascade::{FilterOptions, Policy};
use overbank::store::Store;
use overbank::{KeyHash, Result};
use std::sync::{Arc, LazyLock};

/// The target. Input: that of [`judge`].
pub const TARGET: Target = Target { name: "cascade_image", seeds, run };

const KEYS: u64 = 200;

/// The files, and the counts at each commit: damage to both copies of the last one's record shows the one before.
static IMAGE: LazyLock<(Image, Vec<Vec<u64>>)> = LazyLock::new(|| {
    let mut counts = Vec::new();
    let image = Image::new(|store| {
        let filter = store.filter("f", shape()).expect("the options are in range");
        let keys = keys(store);
        for turn in 0..3 {
            filter.insert(&keys).expect("RAM takes it");
            filter.remove(&keys[..turn * 10]).expect("RAM takes it");
            counts.push(filter.count_many(&keys).expect("RAM reads"));
            store.commit(&[turn as u8]).expect("RAM takes a commit");
        }
    });
    (image, counts)
});

fn shape() -> FilterOptions {
    FilterOptions::new().memory_bytes(16 << 20).keys(1 << 40).policy(Policy::Tiered { fan_out: 4 })
}

fn keys(store: &Store) -> Vec<KeyHash> {
    let hasher = store.hasher();
    (0..KEYS).map(|number| hasher.hash_u64(number)).collect()
}

fn run(data: &[u8]) -> Verdict {
    judge(&IMAGE, data, ask)
}

/// Opens the filter and asks, adds, merges and commits.
fn ask(device: Arc<MemoryDevice>) -> Result<Vec<u64>> {
    let store = Store::open_on(device, options())?;
    let filter = store.filter("f", shape())?;
    let keys = keys(&store);
    let counts = filter.count_many(&keys)?;
    filter.insert_if_absent(&keys)?;
    filter.insert(&keys)?;
    filter.compact()?;
    filter.report();
    store.commit(b"more")?;
    Ok(counts)
}
