//! A frequency sketch's files with bytes changed: it answers as it did, or with an error; with seals mended it may answer
//! anything, but nothing panics and nothing is asked of memory that the file does not back.

use crate::image::{Image, judge, options, seeds};
use crate::{Target, Verdict};
use overbank::device::memory::MemoryDevice;
use overbank::frequency::FrequencyOptions;
use overbank::store::Store;
use overbank::{KeyHash, Result};
use std::sync::{Arc, LazyLock};

/// The target. Input: that of [`judge`].
pub const TARGET: Target = Target { name: "frequency_image", seeds, run };

const KEYS: u64 = 200;

/// The files, and the answers of each commit: damage to both copies of the last one's record shows the one before.
static IMAGE: LazyLock<(Image, Vec<Vec<u64>>)> = LazyLock::new(|| {
    let mut answers = Vec::new();
    let image = Image::new(|store| {
        let shape = FrequencyOptions::new().shape(204 * 9, 5).group_pages(4).memory_bytes(4 << 20).pending(3);
        let sketch = store.frequency("f", shape).expect("the options are in range");
        let keys = keys(store);
        for turn in 0..4 {
            sketch.update(&keys, (turn == 1).then_some(&[1 << 40; KEYS as usize][..])).expect("RAM takes it");
            if turn == 1 {
                sketch.apply().expect("RAM takes a pass");
            }
            answers.push(sketch.estimate(&keys).expect("RAM reads"));
            store.commit(&[turn]).expect("RAM takes a commit");
        }
    });
    (image, answers)
});

fn keys(store: &Store) -> Vec<KeyHash> {
    let hasher = store.hasher();
    (0..KEYS).map(|number| hasher.hash_u64(number)).collect()
}

fn run(data: &[u8]) -> Verdict {
    judge(&IMAGE, data, ask)
}

/// Opens the sketch and asks, adds, applies and commits.
fn ask(device: Arc<MemoryDevice>) -> Result<Vec<u64>> {
    let store = Store::open_on(device, options())?;
    let sketch = store.frequency("f", FrequencyOptions::new())?;
    let keys = keys(&store);
    let answers = sketch.estimate(&keys)?;
    sketch.bounds(&keys[..3], 0.9)?;
    sketch.update(&keys, None)?;
    sketch.apply()?;
    store.commit(b"more")?;
    Ok(answers)
}
