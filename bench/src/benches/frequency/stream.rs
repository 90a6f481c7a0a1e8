//! The streams of keys: made in chunks, each from its number alone, so that threads can share a stream and no memory
//! beside the sketch's is needed.

use super::hasher;
use crate::digest::mix;
use crate::{Random, Result, Workload, Zipf};
use keyhash::KeyHash;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Keys of a chunk: 2 MiB, a hundredth of a second of our fastest engine.
const CHUNK_KEYS: u64 = 1 << 18;

/// Keys of the trace that ships.
pub(super) const TRACE_KEYS: u64 = 1_000_000;

/// Keys that a sample is checked with.
const WITNESSES: u64 = 500;

/// How keys are distributed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Law {
    /// Uniform over all 64-bit values, as in the paper.
    Uniform,
    /// Ranks by this exponent over as many items as there are keys.
    Zipf(f64),
    /// A million real cache requests; a longer stream repeats them with other keys each time, like a row of caches whose
    /// users behave alike.
    Trace,
}

impl Law {
    /// The name in the JSON lines.
    pub(super) fn name(self) -> String {
        match self {
            Self::Uniform => Workload::Uniform.name(),
            Self::Zipf(exponent) => Workload::Zipf(exponent).name(),
            Self::Trace => "twitter52".to_owned(),
        }
    }
}

/// A stream of `keys` keys.
pub(super) struct Stream {
    maker: Maker,
    keys: u64,
}

enum Maker {
    Uniform,
    Zipf(Zipf),
    Trace(File),
}

impl Stream {
    /// `trace` is where [`unpack_trace`] left it.
    pub(super) fn open(law: Law, keys: u64, trace: &Path) -> Result<Self> {
        let maker = match law {
            Law::Uniform => Maker::Uniform,
            Law::Zipf(exponent) => Maker::Zipf(Zipf::new(keys.max(1), exponent)),
            Law::Trace => Maker::Trace(
                File::open(trace).map_err(|error| format!("cannot open {}: {error}", trace.display()))?,
            ),
        };
        Ok(Self { maker, keys })
    }

    pub(super) fn chunks(&self) -> u64 {
        self.keys.div_ceil(CHUNK_KEYS)
    }

    /// Puts the keys of one chunk into `keys`.
    pub(super) fn fill(&self, chunk: u64, keys: &mut Vec<u64>) -> Result<()> {
        let range = chunk * CHUNK_KEYS..((chunk + 1) * CHUNK_KEYS).min(self.keys);
        let mut random = Random::new(mix(chunk));
        keys.clear();
        match &self.maker {
            Maker::Uniform => keys.extend(range.map(|_| random.next_u64())),
            Maker::Zipf(zipf) => keys.extend(range.map(|_| mix(zipf.sample(&mut random)))),
            Maker::Trace(file) => fill_from_trace(file, range, keys)?,
        }
        Ok(())
    }

    /// How often the first keys occur at least, if the first `inserted` were.
    pub(super) fn witnesses(&self, inserted: u64) -> Result<(Vec<KeyHash>, Vec<u64>)> {
        let (mut keys, mut counts) = (Vec::new(), HashMap::<u64, u64>::new());
        self.fill(0, &mut keys)?;
        keys.truncate(inserted.min(WITNESSES) as usize);
        keys.iter().for_each(|&key| *counts.entry(key).or_default() += 1);
        Ok(keys.iter().map(|key| (hasher().hash(&key.to_le_bytes()), counts[key])).unzip())
    }
}

/// Piece by piece from the file, which the page cache may hold or not: in RAM of our own it would take 8 MB of the cgroup.
fn fill_from_trace(file: &File, range: Range<u64>, keys: &mut Vec<u64>) -> Result<()> {
    const PIECE_KEYS: u64 = 512;
    let mut piece = [0; PIECE_KEYS as usize * 8];
    let mut at = range.start;
    while at < range.end {
        let (time, first) = (at / TRACE_KEYS, at % TRACE_KEYS);
        let count = PIECE_KEYS.min(range.end - at).min(TRACE_KEYS - first);
        let bytes = &mut piece[..count as usize * 8];
        file.read_exact_at(bytes, first * 8)?;
        let other = if time == 0 { 0 } else { mix(time) };
        keys.extend(bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word) ^ other));
        at += count;
    }
    Ok(())
}

/// Unpacks the trace that ships into a new file `to`.
pub(super) fn unpack_trace(testdata: &Path, to: &Path) -> Result<()> {
    let from = testdata.join("twitter52_1m_keys.u64le.zst");
    let packed = File::open(&from).map_err(|error| format!("cannot open {}: {error}", from.display()))?;
    zstd::stream::copy_decode(packed, File::create_new(to)?)?;
    match std::fs::metadata(to)?.len() {
        bytes if bytes == TRACE_KEYS * 8 => Ok(()),
        bytes => {
            Err(format!("{} unpacks to {bytes} bytes instead of {}", from.display(), TRACE_KEYS * 8).into())
        }
    }
}

/// Fails if an estimate is too low.
pub(super) fn check(engine: &str, estimates: &[u64], counts: &[u64]) -> Result<()> {
    match estimates.iter().zip(counts).find(|(estimate, count)| estimate < count) {
        None => Ok(()),
        Some((estimate, count)) => {
            Err(format!("{engine} estimates {estimate} for a key that came {count} times").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all(stream: &Stream) -> Vec<u64> {
        let mut chunk = Vec::new();
        let mut keys = Vec::new();
        for number in 0..stream.chunks() {
            stream.fill(number, &mut chunk).expect("filled");
            keys.extend_from_slice(&chunk);
        }
        keys
    }

    fn unpacked() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata");
        unpack_trace(Path::new(testdata), &folder.path().join("trace")).expect("unpacked");
        folder
    }

    #[test]
    fn a_stream_is_as_long_as_it_says_and_no_two_chunks_are_alike() {
        let folder = unpacked();
        for law in [Law::Uniform, Law::Zipf(1.1), Law::Trace] {
            let stream = Stream::open(law, 2 * CHUNK_KEYS + 5, &folder.path().join("trace")).expect("opened");
            let keys = all(&stream);
            assert_eq!(keys.len() as u64, 2 * CHUNK_KEYS + 5);
            assert_ne!(keys[..100], keys[CHUNK_KEYS as usize..][..100]);
        }
    }

    #[test]
    fn the_trace_repeats_with_other_keys() {
        let folder = unpacked();
        let stream = Stream::open(Law::Trace, 2_000_000, &folder.path().join("trace")).expect("opened");
        let keys = all(&stream);
        let distinct = |keys: &[u64]| keys.iter().copied().collect::<HashSet<_>>().len();
        let once = distinct(&keys[..1_000_000]);
        assert!((100_000..500_000).contains(&once), "{once} distinct of a million");
        assert_eq!(distinct(&keys), 2 * once);
    }

    #[test]
    fn witnesses_are_counted_and_a_low_estimate_is_an_error() {
        let stream = Stream::open(Law::Zipf(1.5), 1_000, Path::new("")).expect("opened");
        let (hashes, counts) = stream.witnesses(100).expect("filled");
        assert_eq!((hashes.len(), counts.len()), (100, 100));
        let most = *counts.iter().max().expect("a hundred");
        assert_eq!(hashes.iter().filter(|hash| **hash == hashes[0]).count() as u64, counts[0]);
        assert!(most > 10);
        check("ours", &counts, &counts).expect("exact is not too low");
        let mut low = counts.clone();
        low[3] -= 1;
        assert!(check("ours", &low, &counts).expect_err("too low").to_string().contains("ours"));
    }
}
