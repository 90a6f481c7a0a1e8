//! Look-ups: filters that the parent process built, asked from a cgroup with dropped caches, for keys that are in or are not.

use super::filter::{Filter, check};
use super::keys::{Keys, unknown};
use super::mapped::Mapped;
use super::paper::{Layout, Paper};
use super::{RATE, Shape, ours};
use crate::{
    BlockCount, Case, Clock, Contest, Fio, Metric, Readahead, Result, Run, Size, drop_caches, largest_file,
    write_zeros,
};
use keyhash::KeyHash;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Keys a call, and reads that fio keeps in flight.
const BATCHES: [(usize, usize); 3] = [(32, 32), (128, 128), (4096, 128)];

/// Keys of a bulk batch, and the limit of its cgroup: hashes, order and answers, with room; reads go past the page cache.
const BULK_KEYS: usize = 1 << 20;
const BULK_RAM_BYTES: u64 = 512 << 20;

/// Keys of a filter's filling at a time.
const BUILT_AT_ONCE: usize = 4096;

const CASES: [Case; 2] = [Case::LookupNegative, Case::LookupPositive];

pub(super) fn contests(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    let asked = Asked::prepare(run, shape)?;
    for case in CASES {
        point(run, &asked, case)?;
        let batches: &[(usize, usize)] = run.pick([&BATCHES[..1], &BATCHES, &BATCHES]);
        for &(batch, depth) in batches {
            batched(run, &asked, case, batch, depth)?;
        }
        bulk(run, &asked, case)?;
    }
    if !run.is_child() {
        std::fs::remove_dir_all(&asked.folder)?;
    }
    Ok(())
}

/// One key at a time: everybody, and fio at depth 1.
fn point(run: &mut Run<'_>, asked: &Asked, case: Case) -> Result<()> {
    let keys: usize = run.pick([100, 5_000, 50_000]);
    contest(run, asked, case, keys, (1, 1))
        .approximate("paper", |clock| asked.ask(clock, case, keys, 1, Kind::Paper))
        .approximate("mmap_bloom", |clock| asked.ask(clock, case, keys, 1, Kind::MmapBloom))
        .approximate("overbank", |clock| asked.ask(clock, case, keys, 1, Kind::Ours))
        .approximate("overbank_rested", |clock| asked.ask(clock, case, keys, 1, Kind::Rested))
        .finish()
}

/// `batch` keys a call, beside fio at `depth`.
fn batched(run: &mut Run<'_>, asked: &Asked, case: Case, batch: usize, depth: usize) -> Result<()> {
    let keys: usize = run.pick([256, 40_960, 204_800]);
    contest(run, asked, case, keys, (batch, depth))
        .approximate("overbank", |clock| asked.ask(clock, case, keys, batch, Kind::Ours))
        .approximate("overbank_rested", |clock| asked.ask(clock, case, keys, batch, Kind::Rested))
        .finish()
}

/// So many keys a call that it becomes a sweep.
fn bulk(run: &mut Run<'_>, asked: &Asked, case: Case) -> Result<()> {
    let batch = run.pick([2_000, BULK_KEYS, BULK_KEYS]);
    parameters(run, asked, case, 2 * batch, (batch, 128))
        .memory_limit(BULK_RAM_BYTES)
        .approximate("overbank", |clock| asked.ask(clock, case, 2 * batch, batch, Kind::Ours))
        .approximate("overbank_rested", |clock| asked.ask(clock, case, 2 * batch, batch, Kind::Rested))
        .finish()
}

/// A contest of `keys` look-ups, `batch` a call, with fio at `depth` where it is here.
fn contest<'c, 'r, 's>(
    run: &'c mut Run<'r>,
    asked: &'s Asked,
    case: Case,
    keys: usize,
    shape: (usize, usize),
) -> Contest<'c, 'r, 's> {
    let contest = parameters(run, asked, case, keys, shape).memory_limit(asked.shape.ram_bytes);
    if !asked.has_fio {
        return contest;
    }
    contest.share_of("fio").approximate("fio", move |clock| {
        asked.forget();
        Fio::find(&largest_file(&asked.paper())?)?.read_randomly(keys, shape.1, clock)
    })
}

fn parameters<'c, 'r, 's>(
    run: &'c mut Run<'r>,
    asked: &'s Asked,
    case: Case,
    keys: usize,
    (batch, depth): (usize, usize),
) -> Contest<'c, 'r, 's> {
    run.contest(case)
        .param("workload", "uniform")
        .param("built_keys", asked.shape.keys)
        .param("paper_levels", asked.layout.levels())
        .param("rate", RATE)
        .param("caches", asked.caches.as_str())
        .param("batch", batch)
        .param("depth", depth)
        .ops(keys)
        .costly()
}

#[derive(Clone, Copy)]
enum Kind {
    /// As a writer under load leaves it.
    Ours,
    /// After writers have rested.
    Rested,
    Paper,
    MmapBloom,
}

/// One filter of each kind, with the same keys.
struct Asked {
    shape: Shape,
    layout: Layout,
    folder: PathBuf,
    has_fio: bool,
    drops_caches: bool,
    caches: String,
}

impl Asked {
    /// Builds them, without a limit; in a child they are there already. Keys are as many as fill all levels of the paper's.
    fn prepare(run: &mut Run<'_>, shape: Shape) -> Result<Self> {
        let layout = Layout::new(shape.memory_bytes, shape.keys, false)?;
        let shape = Shape { keys: layout.entries_max(), ..shape };
        let mut asked = Self {
            shape,
            layout,
            folder: run.scratch()?.join("asked"),
            has_fio: true,
            drops_caches: run.size() != Size::Smoke,
            caches: "NOT dropped: smoke".to_owned(),
        };
        if run.is_child() {
            return Ok(asked);
        }
        asked.build()?;
        copy_files(&asked.store(), &asked.rested())?;
        let at_rest = Duration::from_secs(run.pick([1, 10, 20]));
        run.say(&ours::rest(&asked.rested(), asked.shape, at_rest)?);
        if let Err(why) = Fio::find(&largest_file(&asked.paper())?) {
            run.say(&format!("fio is left out: {why}"));
            asked.has_fio = false;
        }
        if asked.drops_caches {
            asked.caches = drop_caches().describe();
        }
        Ok(asked)
    }

    fn build(&self) -> Result<()> {
        for folder in [self.paper(), self.store()] {
            std::fs::create_dir_all(folder)?;
        }
        Paper::build(&self.paper(), self.layout, self.keys())?;
        write_zeros(&self.bloom(), self.shape.bloom_bytes()?)?;
        self.fill(&mut Mapped::open(&self.bloom(), Readahead::Default)?)?;
        self.fill(&mut *ours::create(&self.store(), self.shape, 1)?)
    }

    fn fill(&self, filter: &mut dyn Filter) -> Result<()> {
        let keys = self.keys();
        for chunk in 0..keys.chunks() {
            keys.for_batches(chunk, BUILT_AT_ONCE, |hashes| filter.insert(hashes).map(|()| true))?;
        }
        filter.finish()
    }

    fn open(&self, kind: Kind) -> Result<Box<dyn Filter>> {
        Ok(match kind {
            Kind::Ours => ours::open(&self.store(), self.shape)?,
            Kind::Rested => ours::open(&self.rested(), self.shape)?,
            Kind::Paper => Box::new(Paper::open(&self.paper(), self.layout)?),
            Kind::MmapBloom => Box::new(Mapped::open(&self.bloom(), Readahead::Off)?),
        })
    }

    /// One sample: `keys` look-ups, `batch` a call; of a rival, as far as it comes in its time.
    fn ask(&self, clock: &mut Clock, case: Case, keys: usize, batch: usize, kind: Kind) -> Result<u64> {
        self.forget();
        let mut filter = self.open(kind)?;
        let hashes: Vec<KeyHash> = match case {
            Case::LookupPositive => self.keys().spread(keys, 99),
            _ => unknown(keys, 99),
        };
        let (begun, blocks) = (Instant::now(), BlockCount::start());
        let (mut answered, mut hits) = (0, 0);
        clock.time(|| -> Result<()> {
            for batch in hashes.chunks(batch) {
                hits += filter.contains(batch)?.iter().filter(|&&hit| hit).count();
                answered += batch.len();
                if !matches!(kind, Kind::Ours | Kind::Rested) && begun.elapsed() >= self.shape.patience {
                    break;
                }
            }
            Ok(())
        })?;
        clock.did(answered as u64);
        blocks.note(clock, answered as u64);
        if let Some(bits) = filter.front_bits() {
            clock.note(Metric::FrontBitsPerKey, bits);
        }
        if let Some(bits) = filter.bits_per_key() {
            clock.note(Metric::BitsPerKey, bits);
        }
        if case == Case::LookupNegative {
            clock.note(Metric::Fpr, hits as f64 / answered as f64);
        } else if hits < answered {
            return Err(format!("{} of {answered} keys that are in were not found", answered - hits).into());
        }
        check("a filter", &mut *filter, &self.keys().first(100))?;
        Ok(hits as u64)
    }

    fn forget(&self) {
        if self.drops_caches {
            // Whether it works, the parent has found out and said.
            let _ = drop_caches();
        }
    }

    fn keys(&self) -> Keys {
        Keys::new(self.shape.keys)
    }

    fn paper(&self) -> PathBuf {
        self.folder.join("paper")
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn rested(&self) -> PathBuf {
        self.folder.join("rested")
    }

    fn bloom(&self) -> PathBuf {
        self.folder.join("bloom")
    }
}

/// Copies the files of a folder without folders.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
