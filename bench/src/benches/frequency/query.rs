//! Estimates: sketches that the parent process built, asked from a cgroup for random keys, with caches dropped.

use super::classic::Classic;
use super::ours::{self, Ours};
use super::paper::Paper;
use super::rival::Rival;
use super::stream::{Law, Stream, check};
use super::{Shape, drops_caches, hasher};
use crate::{
    Case, Clock, Fio, Random, Readahead, Result, Run, digest_u64s, drop_caches, largest_file, write_zeros,
};
use keyhash::KeyHash;
use overbank::device::BLOCK_BYTES;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Keys that a sketch is built of, a page: so that the chance of a page that holds none is e^-16.
const BUILT_KEYS_A_PAGE: u64 = 16;

/// Keys a call, and reads that fio keeps in flight. A call of as many keys as reads waits for its last read alone; ours has at
/// most 128 in flight.
const BATCHES: [(usize, usize); 3] = [(32, 32), (128, 128), (4096, 128)];

/// Keys of a bulk batch: a sweep takes as long for the few as for the many.
const BULK_KEYS: [usize; 2] = [1 << 20, 8 << 20];

/// Most keys whose hashes are made at a time, outside the clock, unless a batch is larger.
const PIECE_KEYS: usize = 1 << 18;

/// What the larger bulk batch takes for hashes, order and answers, with room; its reads go past the page cache.
const BULK_RAM_BYTES: u64 = 768 << 20;

/// The largest sketch is also asked in batches.
pub(super) fn contests(run: &mut Run<'_>, shape: Shape, is_largest: bool) -> Result<()> {
    let sketches = Sketches::prepare(run, shape)?;
    point(run, &sketches)?;
    if is_largest {
        let batches: &[(usize, usize)] = run.pick([&[(32, 32)], &BATCHES, &BATCHES]);
        for &(batch, depth) in batches {
            batched(run, &sketches, batch, depth)?;
        }
        let batches: &[usize] = run.pick([&[10_000], &BULK_KEYS[..1], &BULK_KEYS]);
        for &batch in batches {
            bulk(run, &sketches, batch)?;
        }
    }
    if !run.is_child() {
        std::fs::remove_dir_all(&sketches.folder)?;
    }
    Ok(())
}

/// One key at a time: everybody, and fio at depth 1.
fn point(run: &mut Run<'_>, sketches: &Sketches) -> Result<()> {
    let keys: usize = run.pick([100, 10_000, 50_000]);
    let cell = sketches.shape.cell;
    contest(run, sketches, Case::Estimate, keys, (1, 1))
        .approximate("overbank", |clock| sketches.ask_ours(clock, keys, 1))
        .approximate("paper", |clock| {
            sketches.ask_rival(clock, keys, &mut Paper::open(&sketches.paper(), cell, 0)?)
        })
        .approximate("classic", |clock| {
            let mut classic = Classic::open(&sketches.classic(), cell, Readahead::Off)?;
            sketches.ask_rival(clock, keys, &mut classic)
        })
        .finish()
}

/// `batch` keys a call, beside fio at `depth`.
fn batched(run: &mut Run<'_>, sketches: &Sketches, batch: usize, depth: usize) -> Result<()> {
    let keys: usize = run.pick([256, 40_960, 204_800]);
    contest(run, sketches, Case::Estimate, keys, (batch, depth))
        .approximate("overbank", |clock| sketches.ask_ours(clock, keys, batch))
        .finish()
}

/// So many keys a call that it becomes a sweep.
fn bulk(run: &mut Run<'_>, sketches: &Sketches, batch: usize) -> Result<()> {
    let keys = 2 * batch;
    contest(run, sketches, Case::EstimateBulk, keys, (batch, 128))
        .memory_limit(BULK_RAM_BYTES)
        .approximate("overbank", |clock| sketches.ask_ours(clock, keys, batch))
        .finish()
}

/// A contest of `keys` estimates, `batch` a call, with fio at `depth` where it is here and the batch is no sweep.
fn contest<'c, 'r, 's>(
    run: &'c mut Run<'r>,
    sketches: &'s Sketches,
    case: Case,
    keys: usize,
    (batch, depth): (usize, usize),
) -> crate::Contest<'c, 'r, 's> {
    let shape = sketches.shape;
    let contest = run
        .contest(case)
        .param("workload", Law::Uniform.name())
        .param("sketch_mib", shape.sketch_bytes >> 20)
        .param("cell_bytes", shape.cell.bytes())
        .param("built_keys", sketches.built_keys)
        .param("caches", sketches.caches.as_str())
        .param("batch", batch)
        .param("depth", depth)
        .ops(keys)
        .memory_limit(shape.ram_bytes)
        .costly();
    if !sketches.has_fio || case == Case::EstimateBulk {
        return contest;
    }
    contest.share_of("fio").approximate("fio", move |clock| {
        sketches.forget();
        Fio::find(&sketches.largest_file()?)?.read_randomly(keys, depth, clock)
    })
}

/// Sketches of one shape, one of each kind.
struct Sketches {
    shape: Shape,
    folder: PathBuf,
    built_keys: u64,
    has_fio: bool,
    drops_caches: bool,
    caches: String,
}

impl Sketches {
    /// Builds them, through the page cache and without a limit; in a child they are there already.
    fn prepare(run: &mut Run<'_>, shape: Shape) -> Result<Self> {
        let mut sketches = Self {
            shape,
            folder: run.scratch()?.join(format!("asked-{}", shape.sketch_bytes)),
            built_keys: shape.sketch_bytes / BLOCK_BYTES as u64 * BUILT_KEYS_A_PAGE,
            has_fio: true,
            drops_caches: drops_caches(run),
            caches: "NOT dropped: smoke".to_owned(),
        };
        if run.is_child() {
            return Ok(sketches);
        }
        std::fs::create_dir_all(sketches.store())?;
        sketches.build()?;
        if let Err(why) = Fio::find(&sketches.largest_file()?) {
            run.say(&format!("fio is left out: {why}"));
            sketches.has_fio = false;
        }
        if sketches.drops_caches {
            sketches.caches = drop_caches().describe();
        }
        Ok(sketches)
    }

    fn build(&self) -> Result<()> {
        let (stream, cell) = (self.stream()?, self.shape.cell);
        // Entries of all keys and half as many more fit, so that each page is written about once.
        let buffer_bytes = self.built_keys as usize * 15;
        for file in [self.paper(), self.classic()] {
            write_zeros(&file, self.shape.sketch_bytes)?;
        }
        let mut paper = Paper::open_cached(&self.paper(), cell, buffer_bytes)?;
        let mut classic = Classic::open(&self.classic(), cell, Readahead::Default)?;
        let (mut keys, hasher) = (Vec::new(), hasher());
        for chunk in 0..stream.chunks() {
            stream.fill(chunk, &mut keys)?;
            for key in &keys {
                let hash = hasher.hash(&key.to_le_bytes());
                paper.insert(hash)?;
                classic.insert(hash)?;
            }
        }
        let far = Instant::now() + std::time::Duration::from_secs(86_400);
        paper.finish(far)?;
        classic.finish(far)?;
        let ours = Ours::create(&self.store(), self.shape, 1)?;
        ours::insert(&mut Clock::default(), &ours, &stream, 1)?;
        Ok(())
    }

    fn ask_ours(&self, clock: &mut Clock, keys: usize, batch: usize) -> Result<u64> {
        self.forget();
        let ours = Ours::open(&self.store(), self.shape)?;
        let mut random = Random::new(99);
        let mut digest = 0;
        // Hashes of a bulk batch are made one batch at a time, so that they do not fill the cgroup.
        let piece_keys = (PIECE_KEYS / batch * batch).max(batch);
        for from in (0..keys).step_by(piece_keys) {
            let hashes = random_hashes(&mut random, piece_keys.min(keys - from));
            let answers = clock.time(|| -> Result<u64> {
                let mut sum = 0u64;
                for batch in hashes.chunks(batch) {
                    sum =
                        ours.sketch.estimate(batch)?.iter().fold(sum, |sum, &count| sum.wrapping_add(count));
                }
                Ok(sum)
            })?;
            digest = digest_u64s([digest, answers]);
        }
        let (hashes, counts) = self.stream()?.witnesses(self.built_keys)?;
        let estimates = ours.sketch.estimate(&hashes)?;
        check("overbank", &estimates, &counts)?;
        Ok(digest)
    }

    fn ask_rival(&self, clock: &mut Clock, keys: usize, rival: &mut dyn Rival) -> Result<u64> {
        self.forget();
        let hashes = random_hashes(&mut Random::new(99), keys);
        let (started, mut answered, mut sum) = (Instant::now(), 0, 0u64);
        clock.time(|| -> Result<()> {
            for &hash in &hashes {
                sum = sum.wrapping_add(rival.estimate(hash)?);
                answered += 1;
                if started.elapsed() >= self.shape.patience {
                    break;
                }
            }
            Ok(())
        })?;
        clock.did(answered);
        let (hashes, counts) = self.stream()?.witnesses(self.built_keys)?;
        let estimates = hashes.iter().map(|&hash| rival.estimate(hash)).collect::<Result<Vec<u64>>>()?;
        check("a rival", &estimates, &counts)?;
        Ok(sum)
    }

    fn forget(&self) {
        if self.drops_caches {
            // Whether it works, the parent has found out and said.
            let _ = drop_caches();
        }
    }

    fn stream(&self) -> Result<Stream> {
        Stream::open(Law::Uniform, self.built_keys, Path::new(""))
    }

    fn paper(&self) -> PathBuf {
        self.folder.join("paper")
    }

    fn classic(&self) -> PathBuf {
        self.folder.join("classic")
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// The file of our pages, for fio to read.
    fn largest_file(&self) -> Result<PathBuf> {
        largest_file(&self.store())
    }
}

fn random_hashes(random: &mut Random, count: usize) -> Vec<KeyHash> {
    let hasher = hasher();
    (0..count).map(|_| hasher.hash(&random.next_u64().to_le_bytes())).collect()
}
