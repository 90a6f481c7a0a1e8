//! Errors at equal bytes: how far estimates are above the counts of the distinct keys that were inserted.

use super::classic::Classic;
use super::ours;
use super::paper::Paper;
use super::rival::{Cell, Rival};
use super::stream::{Law, Stream, TRACE_KEYS, check};
use super::{DEPTH, OVERESTIMATE, TRACE_FILE, hasher};
use crate::{Case, Metric, Params, Readahead, Result, Run, write_zeros};
use keyhash::KeyHash;
use overbank::Seed;
use overbank::device::BLOCK_BYTES;
use overbank::frequency::FrequencyOptions;
use overbank::store::{Store, StoreOptions};
use serde_json::json;
use std::time::{Duration, Instant};

/// Keys a call of ours.
const BATCH_KEYS: usize = 1 << 18;

/// RAM of ours and of the paper's: errors do not depend on it.
const BUFFER_BYTES: usize = 32 << 20;

/// One workload: `elements` keys, or as many as it has, in sketches that the paper would size for them with
/// cells of 4 bytes; `overbank_wide` logs records of 8 bytes instead of 4,
/// `overbank_small` has cells of 8 bits in the same bytes, `overbank_small_4` of 4.
pub(super) fn table(run: &mut Run<'_>, law: Law, elements: u64) -> Result<()> {
    let elements = if law == Law::Trace { elements.min(TRACE_KEYS) } else { elements };
    let stream = Stream::open(law, elements, &run.scratch()?.join(TRACE_FILE))?;
    let cells = elements as f64 * DEPTH as f64 * std::f64::consts::E / OVERESTIMATE;
    let bytes = ((cells * Cell::Four.bytes() as f64) as u64).next_multiple_of(BLOCK_BYTES as u64);
    let params = Params::from_iter([
        ("workload".to_owned(), json!(law.name())),
        ("sketch_bytes".to_owned(), json!(bytes)),
        ("elements".to_owned(), json!(elements)),
    ]);

    let truth = Truth::of(&stream)?;
    let scratch = tempfile::tempdir_in(run.scratch()?)?;
    let file = |name: &str| scratch.path().join(name);
    for name in ["classic", "paper"] {
        write_zeros(&file(name), bytes)?;
    }
    let mut classic = Classic::open(&file("classic"), Cell::Four, Readahead::Default)?;
    let mut paper = Paper::open_cached(&file("paper"), Cell::Four, BUFFER_BYTES)?;
    let [plain, small, smallest] = [Cell::Four.bits(), 8, 4].map(|bits| ours::options(bytes, bits));
    let conservative = plain.clone().conservative(true);
    let wide = plain.clone().record_bytes(8);
    for (engine, estimates) in [
        ("classic", estimates_of_rival(&mut classic, &stream, &truth)?),
        ("paper", estimates_of_rival(&mut paper, &stream, &truth)?),
        ("overbank", estimates_of_ours(plain, &stream, &truth)?),
        ("overbank_wide", estimates_of_ours(wide, &stream, &truth)?),
        ("overbank_conserve", estimates_of_ours(conservative, &stream, &truth)?),
        ("overbank_small", estimates_of_ours(small, &stream, &truth)?),
        ("overbank_small_4", estimates_of_ours(smallest, &stream, &truth)?),
    ] {
        let (average, most) = truth.errors(engine, &estimates)?;
        for (metric, value) in [(Metric::OverestimateAvg, average), (Metric::OverestimateMax, most as f64)] {
            run.figure(Case::Estimate, engine, metric, value, params.clone())?;
        }
    }
    Ok(())
}

/// The distinct keys and how often each came.
struct Truth {
    hashes: Vec<KeyHash>,
    counts: Vec<u64>,
}

impl Truth {
    fn of(stream: &Stream) -> Result<Self> {
        let mut keys = Vec::new();
        each_chunk(stream, &mut |chunk| {
            keys.extend_from_slice(chunk);
            Ok(())
        })?;
        keys.sort_unstable();
        let hasher = hasher();
        let groups = keys.chunk_by(|a, b| a == b);
        let (hashes, counts) =
            groups.map(|group| (hasher.hash(&group[0].to_le_bytes()), group.len() as u64)).unzip();
        Ok(Self { hashes, counts })
    }

    /// Average and maximum overestimate; fails if an estimate is too low.
    fn errors(&self, engine: &str, estimates: &[u64]) -> Result<(f64, u64)> {
        check(engine, estimates, &self.counts)?;
        let errors = || estimates.iter().zip(&self.counts).map(|(estimate, count)| estimate - count);
        let average = errors().sum::<u64>() as f64 / self.counts.len().max(1) as f64;
        Ok((average, errors().max().unwrap_or(0)))
    }
}

fn each_chunk(stream: &Stream, each: &mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()> {
    let mut keys = Vec::new();
    for chunk in 0..stream.chunks() {
        stream.fill(chunk, &mut keys)?;
        each(&keys)?;
    }
    Ok(())
}

fn estimates_of_rival(rival: &mut dyn Rival, stream: &Stream, truth: &Truth) -> Result<Vec<u64>> {
    let hasher = hasher();
    each_chunk(stream, &mut |keys| {
        keys.iter().try_for_each(|key| rival.insert(hasher.hash(&key.to_le_bytes())))
    })?;
    rival.finish(Instant::now() + Duration::from_secs(86_400))?;
    truth.hashes.iter().map(|&hash| rival.estimate(hash)).collect()
}

/// In memory: where the blocks are does not change an answer.
fn estimates_of_ours(options: FrequencyOptions, stream: &Stream, truth: &Truth) -> Result<Vec<u64>> {
    let store = Store::in_memory(StoreOptions::new().memory_bytes(2 * BUFFER_BYTES).seed(Seed(7)))?;
    let sketch = store.frequency("sketch", options.memory_bytes(BUFFER_BYTES))?;
    let hasher = hasher();
    each_chunk(stream, &mut |keys| {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(&key.to_le_bytes())).collect();
        Ok(sketch.update(&hashes, None)?)
    })?;
    sketch.apply()?;
    let mut estimates = Vec::with_capacity(truth.hashes.len());
    for batch in truth.hashes.chunks(BATCH_KEYS) {
        estimates.extend(sketch.estimate(batch)?);
    }
    Ok(estimates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_over_distinct_keys_and_a_low_estimate_is_refused() {
        let truth = Truth { hashes: vec![KeyHash(1), KeyHash(2)], counts: vec![5, 1] };
        assert_eq!(truth.errors("ours", &[5, 4]).expect("not too low"), (1.5, 3));
        assert!(truth.errors("ours", &[4, 4]).is_err());
    }

    #[test]
    fn the_truth_counts_every_key_of_the_stream() {
        let stream = Stream::open(Law::Zipf(1.1), 3_000, std::path::Path::new("")).expect("no file needed");
        let truth = Truth::of(&stream).expect("nothing to fail");
        assert_eq!(truth.counts.iter().sum::<u64>(), 3_000);
        assert!(truth.hashes.len() < 3_000 && truth.counts.iter().any(|&count| count > 100));
    }
}
