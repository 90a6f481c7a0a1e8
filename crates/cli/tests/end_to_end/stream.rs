//! Streams with a known answer: skewed keys from a fixed seed, and the exact counts of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// SplitMix64: enough for test data, and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Evenly below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// `rows` keys of at most `distinct` kinds; the first tenth of the kinds has about half of the rows.
pub(crate) fn keys(seed: u64, rows: usize, distinct: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..rows)
        .map(|_| {
            let (a, b, c) = (random.below(distinct), random.below(distinct), random.below(distinct));
            let kind = a.min(b).min(c);
            format!("key-{kind}-{}", "x".repeat((kind % 23) as usize))
        })
        .collect()
}

/// One key a line.
pub(crate) fn lines(keys: &[String]) -> Vec<u8> {
    let mut text = keys.join("\n").into_bytes();
    text.push(b'\n');
    text
}

/// How often each key comes.
pub(crate) fn counts(keys: &[String]) -> HashMap<&str, u64> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(key.as_str()).or_default() += 1;
    }
    counts
}

/// Writes a file and returns its path.
pub(crate) fn file(place: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = place.join(name);
    std::fs::write(&path, bytes).expect("the test's own file can be written");
    path
}

/// A file of `testdata/`.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}
